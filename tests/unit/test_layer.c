#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <zstd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/remove.h"
#include "base/str.h"
#include "layer/layer.h"
#include "layer/pipe.h"
#include "layer/tree.h"
#include "layer/trusted.h"
#include "scratch.h"
#include "tap.h"

/* ---- a folder to work in ---- */

static void unmount(void)
{
    (void)umount2(in_base("merged"), MNT_DETACH);
}

/* Layers have owners and whiteouts, so all of this needs root; mounts are the test's own. */
static void set_up(void)
{
    scratch_make();
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        SKIP("needs a mount namespace");
    (void)umask(022);
    (void)atexit(unmount); /* before the folder goes: in the reverse order */
    CHECK_INT(mkdir(in_base("merged"), 0755), 0);
}

static int open_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        TAP_FAIL("%s: %s", path, strerror(errno));
    return fd;
}

static struct stat look(const char *path)
{
    struct stat st;

    if (lstat(in_base(path), &st) < 0)
        TAP_FAIL("%s: %s", path, strerror(errno));
    return st;
}

/* ---- archives ----
 *
 * An entry is written as "TYPE[MODE][,OWNER] PATH": d a folder, f a file ("f x=data"), s a symbolic
 * and h a hard link ("s x>target"), c a 0/0 device, p a fifo. Its time is its number plus 1000. */

static struct archive_entry *parse_entry(const char *text, int number, const char **ret_data)
{
    struct archive_entry *e = archive_entry_new();
    auto_free char *copy = xstrdup(strchr(text, ' ') + 1);
    const char *comma = strchr(text, ',');
    unsigned mode = (unsigned)strtoul(text + 1, NULL, 8);
    size_t cut = strcspn(copy, "=>");
    long owner = comma && comma < strchr(text, ' ') ? strtol(comma + 1, NULL, 10) : 0;
    static const char letters[] = "dfscph";
    static const unsigned types[] = {AE_IFDIR, AE_IFREG, AE_IFLNK, AE_IFCHR, AE_IFIFO, AE_IFREG};

    *ret_data = "";
    if (copy[cut]) {
        *ret_data = strchr(text, ' ') + 1 + cut + 1;
        copy[cut] = '\0';
    }
    archive_entry_copy_pathname(e, copy);
    archive_entry_set_filetype(e, types[strchr(letters, text[0]) - letters]);
    archive_entry_set_perm(e, mode ? mode : (text[0] == 'd' ? 0755 : 0644));
    archive_entry_set_uid(e, owner);
    archive_entry_set_gid(e, owner);
    archive_entry_set_mtime(e, 1000 + number, 0);
    archive_entry_set_size(e, 0);
    if (text[0] == 's')
        archive_entry_copy_symlink(e, *ret_data);
    if (text[0] == 'h')
        archive_entry_copy_hardlink(e, *ret_data);
    if (text[0] == 'c')
        archive_entry_set_rdev(e, 0);
    return e;
}

static void put_entry(struct archive *a, const char *text, int number)
{
    const char *data;
    struct archive_entry *e = parse_entry(text, number, &data);

    if (text[0] == 'f')
        archive_entry_set_size(e, (int64_t)strlen(data));
    CHECK(archive_write_header(a, e) >= ARCHIVE_WARN);
    if (text[0] == 'f')
        CHECK_INT(archive_write_data(a, data, strlen(data)), (ssize_t)strlen(data));
    archive_entry_free(e);
}

static struct archive *tar_open(int filter)
{
    struct archive *a = archive_write_new();

    CHECK_INT(archive_write_set_format_pax(a), ARCHIVE_OK);
    CHECK_INT(archive_write_add_filter(a, filter), ARCHIVE_OK);
    CHECK_INT(archive_write_open_filename(a, in_base("tar")), ARCHIVE_OK);
    return a;
}

static void tar_close(struct archive *a)
{
    CHECK_INT(archive_write_close(a), ARCHIVE_OK);
    CHECK_INT(archive_write_free(a), ARCHIVE_OK);
}

static void make_tar(const char *const *entries)
{
    struct archive *a = tar_open(ARCHIVE_FILTER_NONE);

    for (int i = 0; entries[i]; i++)
        put_entry(a, entries[i], i);
    tar_close(a);
}

/* ---- layers ---- */

/* Unpacks base/tar into base/NAME. */
static int unpack_as(const char *name, struct layer *l, char ret_digest[DIGEST_HEX],
                     struct err *err)
{
    auto_close int tar = open(in_base("tar"), O_RDONLY | O_CLOEXEC);

    CHECK_INT(mkdir(in_base(name), 0755), 0);
    layer_init(l, open_dir(in_base(name)));
    l->oci = true;
    return unpack_file(tar, l, ret_digest, err);
}

#define STACK_MAX 4

/* Layers "1", "2" … above the empty layer "0"; they are unpacked from the top, since each must come
 * out the same before those below are there, and resolved from the bottom. */
static int build(const char *const layers[STACK_MAX][12], struct err *err)
{
    struct layer l[STACK_MAX];
    int lowers[STACK_MAX + 1], n = 0, r = 0;
    char digest[DIGEST_HEX], name[8];

    while (n < STACK_MAX && layers[n][0])
        n++;
    CHECK_INT(mkdir(in_base("0"), 0755), 0);
    for (int i = n - 1; r == 0 && i >= 0; i--) {
        (void)snprintf(name, sizeof(name), "%d", i + 1);
        make_tar(layers[i]);
        r = unpack_as(name, &l[i], digest, err);
    }
    lowers[STACK_MAX] = open_dir(in_base("0"));
    for (int i = 0; r == 0 && i < n; i++) {
        r = layer_resolve(&l[i], lowers + STACK_MAX - i, (size_t)i + 1, err);
        lowers[STACK_MAX - 1 - i] = l[i].root;
    }
    return r < 0 ? -1 : n;
}

/* The kernel's own view of the stack. */
static void mount_stack(int n)
{
    auto_free char *options = xasprintf("lowerdir=%s", in_base("0"));

    for (int i = 1; i <= n; i++) {
        auto_free char *below = xstrdup(options + strlen("lowerdir="));

        free(options);
        options = xasprintf("lowerdir=%s/%d:%s", base, i, below);
    }
    if (mount("overlay", in_base("merged"), "overlay", MS_RDONLY, options) < 0)
        TAP_FAIL("overlay: %s", strerror(errno));
}

static void show_dir(struct buf *out, int dirfd, const char *path);

/* As entries are written, with "|" between them; D is an opaque folder, w a whiteout. */
static void show_entry(struct buf *out, int dirfd, const char *name, const char *path)
{
    char data[256] = "";
    struct stat st;
    auto_close int fd = -1;

    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        CHECK_INT(buf_addf(out, "%s? %s", out->len ? "|" : "", path), 0);
        return;
    }
    if (S_ISLNK(st.st_mode))
        CHECK(readlinkat(dirfd, name, data, sizeof(data) - 1) > 0);
    if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
        fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    if (S_ISREG(st.st_mode))
        CHECK(read(fd, data, sizeof(data) - 1) >= 0);
    CHECK_INT(buf_addf(out, "%s%c %s%s%s", out->len ? "|" : "",
                       S_ISREG(st.st_mode)                                     ? 'f'
                       : S_ISLNK(st.st_mode)                                   ? 's'
                       : S_ISCHR(st.st_mode)                                   ? 'w'
                       : !S_ISDIR(st.st_mode)                                  ? '!'
                       : fgetxattr(fd, "trusted.overlay.opaque", NULL, 0) == 1 ? 'D'
                                                                               : 'd',
                       path,
                       S_ISREG(st.st_mode)   ? "="
                       : S_ISLNK(st.st_mode) ? ">"
                                             : "",
                       data),
              0);
    if (S_ISDIR(st.st_mode))
        show_dir(out, fd, path);
}

static void show_dir(struct buf *out, int dirfd, const char *path)
{
    auto_strv char **names = NULL;

    CHECK_INT(tree_names(dirfd, 1000, &names, NULL), 0);
    for (char **n = names; *n; n++) {
        auto_free char *full = xasprintf("%s%s%s", path, path[0] ? "/" : "", *n);

        show_entry(out, dirfd, *n, full);
    }
}

static char *show(const char *name)
{
    auto_close int fd = open_dir(in_base(name));
    struct buf out;

    buf_init(&out, 1 << 20);
    show_dir(&out, fd, "");
    return buf_steal(&out);
}

static void check_stack(const char *const layers[STACK_MAX][12], const char *want)
{
    auto_free char *got = NULL;
    struct err err = {0};
    int n;

    set_up();
    n = build(layers, &err);
    if (n < 0)
        TAP_FAIL("%s", err.text);
    mount_stack(n);
    got = show("merged");
    CHECK_STR(got, want);
}

#define SHOWS(id, want, ...)                                                                       \
    TEST(id)                                                                                       \
    {                                                                                              \
        static const char *const layers[STACK_MAX][12] = {__VA_ARGS__};                            \
        check_stack(layers, want);                                                                 \
    }
#define L(...)                                                                                     \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define LOWER L("d a", "f a/x=1", "f a/y=2")

/* ---- whiteouts ---- */

SHOWS(a_whiteout_hides_a_name_below, "d a|f a/y=2", LOWER, L("f a/.wh.x="))
SHOWS(a_file_after_its_whiteout_is_there, "d a|f a/x=new|f a/y=2", LOWER,
      L("f a/.wh.x=", "f a/x=new"))
SHOWS(a_file_before_its_whiteout_is_there, "d a|f a/x=new|f a/y=2", LOWER,
      L("f a/x=new", "f a/.wh.x="))
SHOWS(an_opaque_marker_hides_only_what_is_below, "d a|f a/z=3", LOWER,
      L("d a", "f a/.wh..wh..opq=", "f a/z=3"))
SHOWS(an_opaque_marker_may_come_last, "d a|f a/z=3", LOWER,
      L("d a", "f a/z=3", "f a/.wh..wh..opq="))
SHOWS(an_opaque_marker_may_come_before_its_folder, "d a|f a/z=3", LOWER,
      L("f a/.wh..wh..opq=", "d a", "f a/z=3"))
SHOWS(a_whiteout_hides_a_folder, "", LOWER, L("f .wh.a="))
SHOWS(a_hidden_folder_that_is_made_again_is_empty, "d a|f a/n=1", LOWER,
      L("f .wh.a=", "d a", "f a/n=1"))
SHOWS(a_hidden_folder_that_is_implied_again_is_empty, "d a|f a/n=1", LOWER,
      L("f .wh.a=", "f a/n=1"))
SHOWS(a_folder_before_its_whiteout_keeps_its_own, "d a|f a/n=1", LOWER,
      L("d a", "f a/n=1", "f .wh.a="))
SHOWS(a_whiteout_in_a_hidden_folder_makes_no_folder, "", LOWER, L("f .wh.a=", "f a/.wh.x="))
SHOWS(a_whiteout_in_an_opaque_folder_is_not_seen, "d a|f a/n=1", LOWER,
      L("d a", "f a/.wh.x=", "f a/.wh..wh..opq=", "f a/.wh.y=", "f a/n=1"))
SHOWS(whiteouts_of_nothing_are_not_seen, "d a|f a/x=1|f a/y=2|d b", LOWER,
      L("d b", "f b/.wh.no=", "f c/.wh.no=", "f d/e/.wh.no=", "f .wh.none="))
SHOWS(an_opaque_root_hides_all, "f n=1", LOWER, L("f .wh..wh..opq=", "f n=1"))
SHOWS(an_opaque_root_hides_what_is_in_its_folders_too, "d a|f a/n=1", LOWER,
      L("f a/n=1", "f .wh..wh..opq="))
SHOWS(a_name_hidden_in_the_middle_comes_back_empty, "d a|f a/z=3", LOWER, L("f .wh.a="),
      L("f a/z=3"))
SHOWS(markers_of_aufs_are_ignored, "d a|f a/x=1|f a/y=2", LOWER,
      L("d .wh..wh.plnk", "f .wh..wh.aufs="))
SHOWS(a_name_that_looks_like_the_opaque_marker_is_a_whiteout, "d a|f a/x=1|f a/y=2", LOWER,
      L("f a/.wh...wh..opq="))
SHOWS(a_whiteout_may_be_of_any_type, "", LOWER, L("d .wh.a"))

/* ---- one name, several things ---- */

SHOWS(a_folder_that_replaces_a_file_of_its_layer_is_empty, "d a", LOWER, L("f a=file", "d a"))
SHOWS(a_file_that_replaces_a_folder_of_its_layer_takes_all_of_it, "f a=file", LOWER,
      L("d a", "d a/b", "f a/b/n=1", "f a=file"))
SHOWS(a_file_hides_a_folder_below, "f a=file", LOWER, L("f a=file"))
SHOWS(a_link_hides_a_folder_below, "s a>/etc", LOWER, L("s a>/etc"))
SHOWS(a_folder_hides_a_file_below, "d a|f a/x=2", L("f a=1"), L("d a", "f a/x=2"))
SHOWS(the_last_of_two_files_stays, "f a=2", L("f a=1", "f a=2"))
SHOWS(a_layer_of_nothing_is_fine, "d a|f a/x=1|f a/y=2", LOWER, L("d ."))

/* ---- hard links ---- */

SHOWS(a_hard_link_may_lead_to_a_layer_below, "d a|f a/x=1|f a/y=2|f b=1", LOWER, L("h b>a/x"))
SHOWS(a_file_that_replaces_the_target_does_not_change_the_link, "d a|f a/x=new|f a/y=2|f b=1|f c=1",
      LOWER, L("h b>a/x", "h c>b", "f a/x=new"))
SHOWS(a_link_outlives_the_whiteout_of_its_target, "d a|f a/y=2|f b=1", LOWER,
      L("h b>a/x", "f a/.wh.x="))
SHOWS(a_hard_link_may_lead_two_layers_down, "d a|f a/x=1|f a/y=new|f b=1", LOWER, L("f a/y=new"),
      L("h b>a/x"))
SHOWS(a_hard_link_to_a_symbolic_link_is_one, "s a>t|s b>t", L("s a>t"), L("h b>a"))
SHOWS(a_hard_link_to_itself_changes_nothing, "f a=1", L("f a=1", "h a>a"))

SHOWS(the_target_of_a_hard_link_is_in_the_image_even_if_absolute, "f a=1|f b=1|f c=1", L("f a=1"),
      L("h b>/a", "h c>//b"))
SHOWS(a_lone_slash_is_the_root, "f a=1", L("d /", "f a=1"))

TEST(a_hard_link_into_a_layer_below_is_one_file_with_its_owner_and_mode)
{
    static const char *const layers[STACK_MAX][12] = {L("d0700,3 a", "f0640,7 a/x=1"),
                                                      L("h b>a/x", "h c>a/x")};
    struct stat x, b;
    int n;

    set_up();
    n = build(layers, NULL);
    CHECK_INT(n, 2);
    mount_stack(n);
    x = look("merged/a/x");
    b = look("merged/b");
    CHECK_INT(b.st_ino, (intmax_t)x.st_ino);
    CHECK_INT(b.st_nlink, 3);
    CHECK_INT(b.st_mode & 07777, 0640);
    CHECK_INT(b.st_uid, 7);
    CHECK_INT(b.st_mtime, 1001);
    CHECK_INT(look("merged/a").st_mode & 07777, 0700);
    CHECK_INT(look("merged/a").st_uid, 3);
}

/* ---- folders that the archive leaves out ---- */

TEST(a_folder_that_is_left_out_is_as_the_one_below)
{
    static const char *const layers[STACK_MAX][12] = {L("d0700,5 a", "d0711,6 a/b", "f a/b/old=1"),
                                                      L("f a/b/c/new=2")};
    char value[8];
    int n;

    set_up();
    n = build(layers, NULL);
    CHECK_INT(n, 2);
    CHECK_INT(look("2/a").st_mode & 07777, 0700);
    CHECK_INT(look("2/a").st_gid, 5);
    CHECK_INT(look("2/a").st_mtime, 1000);
    CHECK_INT(look("2/a/b").st_mode & 07777, 0711);
    CHECK_INT(look("2/a/b").st_uid, 6);
    CHECK_INT(look("2/a/b").st_mtime, 1001);
    CHECK_INT(look("2/a/b/c").st_mode & 07777, 0755);
    CHECK_INT(look("2/a/b/c").st_uid, 0);
    CHECK(getxattr(in_base("2/a"), "trusted.overlay.opaque", value, sizeof(value)) < 0);
}

TEST(what_depends_on_the_layers_below_says_so)
{
    static const struct {
        const char *entry;
        bool bound;
    } cases[] = {{"f x=1", false}, {"f a/x=1", true}, {"h b>a/x", true}, {"f .wh.a=", true}};

    set_up();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *const lower[] = {"d a", "f a/x=1", NULL};
        const char *const upper[] = {cases[i].entry, NULL};
        struct layer below, l;
        char digest[DIGEST_HEX], name[16];

        make_tar(lower);
        (void)snprintf(name, sizeof(name), "below%zu", i);
        CHECK_INT(unpack_as(name, &below, digest, NULL), 0);
        make_tar(upper);
        (void)snprintf(name, sizeof(name), "l%zu", i);
        CHECK_INT(unpack_as(name, &l, digest, NULL), 0);
        CHECK_INT(layer_resolve(&l, &below.root, 1, NULL), 0);
        CHECK_INT(l.bound, cases[i].bound);
    }
}

TEST(folders_keep_their_time_whatever_comes_into_them)
{
    static const char *const entries[] = {
        "f a/early=1", "d a",        "d b",         "f b/1=1",   "f a/late=1", "f b/2=2",
        "f .wh.x=",    "f b/.wh.3=", "f b/1=again", "d b/inner", NULL};
    char digest[DIGEST_HEX];
    struct layer l;

    set_up();
    make_tar(entries);
    CHECK_INT(unpack_as("l", &l, digest, NULL), 0);
    CHECK_INT(look("l/a").st_mtime, 1001);
    CHECK_INT(look("l/b").st_mtime, 1002);
    CHECK_INT(look("l/b/inner").st_mtime, 1009);
    CHECK_INT(look("l/b/1").st_mtime, 1008);
}

/* ---- refused ---- */

static void check_refused(const char *const layers[STACK_MAX][12])
{
    struct err err = {0};

    set_up();
    CHECK_INT(build(layers, &err), -1);
    CHECK_INT(err.kind, ERR_INVALID);
    CHECK_STR(err.code, "bad_image");
    CHECK_INT(access("/tmp/cay-canary", F_OK), -1);
    CHECK_INT(access("/etc/passwd", F_OK), 0);
}

#define REFUSED(id, ...)                                                                           \
    TEST(id)                                                                                       \
    {                                                                                              \
        static const char *const layers[STACK_MAX][12] = {__VA_ARGS__};                            \
        check_refused(layers);                                                                     \
    }

REFUSED(a_whiteout_without_a_name, LOWER, L("f a/.wh.="))
REFUSED(a_whiteout_of_the_folder_itself, LOWER, L("f a/.wh..="))
REFUSED(a_whiteout_of_the_folder_above, LOWER, L("f a/.wh...="))
REFUSED(a_whiteout_used_as_a_folder, LOWER, L("f .wh./etc="))
REFUSED(a_folder_called_like_a_whiteout, LOWER, L("f .wh.b/c="))
REFUSED(a_whiteout_through_a_link, LOWER, L("s l>/etc", "f l/.wh.passwd="))
REFUSED(an_opaque_marker_through_a_link, LOWER, L("s l>/etc", "f l/.wh..wh..opq="))
REFUSED(a_whiteout_through_a_file, LOWER, L("f l=1", "f l/.wh.x="))
REFUSED(a_whiteout_that_leaves_the_layer, LOWER, L("f ../.wh.x="))
REFUSED(an_absolute_whiteout, LOWER, L("f /tmp/.wh.x="))
REFUSED(a_hard_link_to_what_the_layer_hides, LOWER, L("f a/.wh.x=", "h b>a/x"))
REFUSED(a_hard_link_into_an_opaque_folder, LOWER, L("d a", "f a/.wh..wh..opq=", "h b>a/x"))
REFUSED(a_hard_link_to_what_no_layer_has, LOWER, L("h b>a/z"))
REFUSED(a_hard_link_to_what_a_layer_between_hides, LOWER, L("f a/.wh.x="), L("h b>a/x"))
REFUSED(a_hard_link_to_a_folder_below, LOWER, L("h b>a"))
REFUSED(a_hard_link_through_a_link_below, L("d a", "f a/x=1", "s l>a"), L("h b>l/x"))
REFUSED(a_hard_link_through_a_link, L("s l>/etc", "h b>l/passwd"))
REFUSED(a_hard_link_to_an_absolute_path, L("h b>/etc/passwd"))
REFUSED(a_hard_link_to_the_outside, L("h b>../../etc/passwd"))
REFUSED(a_hard_link_to_something_inside_itself, L("d a", "f a/b=1", "h a>a/b"))
REFUSED(a_hard_link_to_the_root, L("f x=1", "h b>."))
REFUSED(a_file_through_a_link, L("s d>/tmp", "f d/cay-canary=1"))
REFUSED(a_file_that_is_the_root, L("f .=1"))
REFUSED(a_path_that_leaves_the_layer, L("f a/../../x=1"))
REFUSED(an_absolute_path, L("f /tmp/cay-canary=1"))
REFUSED(an_owner_that_marks_what_is_implied, L("d0755,65536 a"))
REFUSED(an_owner_that_marks_what_is_borrowed, L("f0644,65537 a=etc/passwd"))
REFUSED(an_owner_of_minus_one, L("f0644,4294967295 a=1"))

/* ---- what is left out ---- */

TEST(only_our_own_devices_and_marks_are_in_a_layer)
{
    static const char *const names[] = {"trusted.overlay.opaque", "trusted.overlay.redirect",
                                        "user.overlay.opaque",    "security.capability",
                                        "security.selinux",       "system.posix_acl_access"};
    struct archive_entry *e;
    struct archive *a;
    char digest[DIGEST_HEX], list[256];
    struct layer l;
    const char *data;
    auto_free char *got = NULL;

    set_up();
    a = tar_open(ARCHIVE_FILTER_NONE);
    for (int i = 0; i < 2; i++) {
        e = parse_entry(i ? "d dir" : "f file=", 0, &data);
        for (size_t k = 0; k < ARRAY_LEN(names); k++)
            archive_entry_xattr_add_entry(e, names[k], "y", 1);
        archive_entry_xattr_add_entry(e, "user.note", "hi", 2);
        CHECK_INT(archive_write_header(a, e), ARCHIVE_OK);
        archive_entry_free(e);
    }
    put_entry(a, "c node", 0);
    put_entry(a, "p fifo", 0);
    put_entry(a, "c dir/file", 0);
    put_entry(a, "f4755 su=", 0);
    tar_close(a);
    CHECK_INT(unpack_as("l", &l, digest, NULL), 0);
    CHECK_INT(l.dropped, 3);
    got = show("l");
    CHECK_STR(got, "d dir|f file=|f su=");
    CHECK_INT(look("l/su").st_mode & 07777, 04755);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(listxattr(in_base(i ? "l/dir" : "l/file"), list, sizeof(list)),
                  (ssize_t)sizeof("user.note"));
        CHECK_STR(list, "user.note");
    }
}

TEST(a_plain_root_keeps_names_that_look_like_whiteouts)
{
    static const char *const entries[] = {"d a", "f a/x=1", "f a/.wh.x=2", "f .wh..wh..opq=3",
                                          NULL};
    auto_close int tar = -1;
    auto_free char *got = NULL;
    char digest[DIGEST_HEX];
    struct layer l;

    set_up();
    make_tar(entries);
    tar = open(in_base("tar"), O_RDONLY | O_CLOEXEC);
    CHECK_INT(mkdir(in_base("l"), 0755), 0);
    layer_init(&l, open_dir(in_base("l")));
    CHECK_INT(unpack_file(tar, &l, digest, NULL), 0);
    got = show("l");
    CHECK_STR(got, "f .wh..wh..opq=3|d a|f a/.wh.x=2|f a/x=1");
}

/* ---- compression ---- */

static char *read_tar(size_t *ret_len)
{
    auto_close int fd = open(in_base("tar"), O_RDONLY | O_CLOEXEC);
    struct stat st;
    char *data;

    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    data = xmalloc((size_t)st.st_size + 1);
    CHECK_INT(read_exact(fd, data, (size_t)st.st_size), 0);
    *ret_len = (size_t)st.st_size;
    return data;
}

static void add_to_tar(const void *data, size_t len)
{
    auto_close int fd = open(in_base("tar"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    CHECK_INT(write_all(fd, data, len), 0);
}

static la_ssize_t take_compressed(struct archive *a, void *arg, const void *data, size_t len)
{
    (void)a, (void)arg;
    add_to_tar(data, len);
    return (la_ssize_t)len;
}

/* One member or frame, behind what base/tar holds already. */
static void add_compressed(int filter, const void *data, size_t len)
{
    struct archive *a = archive_write_new();
    struct archive_entry *e = archive_entry_new();

    CHECK_INT(archive_write_set_format_raw(a), ARCHIVE_OK);
    CHECK_INT(archive_write_add_filter(a, filter), ARCHIVE_OK);
    CHECK_INT(archive_write_set_bytes_per_block(a, 0), ARCHIVE_OK);
    CHECK_INT(archive_write_open(a, NULL, NULL, take_compressed, NULL), ARCHIVE_OK);
    archive_entry_set_filetype(e, AE_IFREG);
    CHECK_INT(archive_write_header(a, e), ARCHIVE_OK);
    CHECK_INT(archive_write_data(a, data, len), (ssize_t)len);
    archive_entry_free(e);
    tar_close(a);
}

static const int filters[] = {ARCHIVE_FILTER_GZIP, ARCHIVE_FILTER_ZSTD, ARCHIVE_FILTER_XZ,
                              ARCHIVE_FILTER_BZIP2};

#define BIG_FILE 60000

/* A tar that is neither tiny nor easy to compress, and its digest. */
static char *big_tar(size_t *ret_len, char ret_digest[DIGEST_HEX])
{
    struct archive *a;
    auto_free char *text = xmalloc(BIG_FILE + 1);
    EVP_MD_CTX *sha = digest_new();
    unsigned random = 1;
    char *data;

    a = tar_open(ARCHIVE_FILTER_NONE);
    for (int i = 0; i < 5; i++) {
        auto_free char *line = NULL;

        for (size_t k = 0; k < BIG_FILE; k++) {
            random = random * 1103515245 + 12345;
            text[k] = (char)('a' + (random >> 16) % 26);
        }
        text[BIG_FILE] = '\0';
        line = xasprintf("f file%d=%s", i, text);
        put_entry(a, line, i);
    }
    tar_close(a);
    data = read_tar(ret_len);
    digest_add(sha, data, *ret_len);
    digest_end(sha, ret_digest);
    return data;
}

static int unpack_fresh(char ret_digest[DIGEST_HEX], struct err *err)
{
    static unsigned number;
    char name[16];
    struct layer l;

    (void)snprintf(name, sizeof(name), "fresh%u", number++);
    return unpack_as(name, &l, ret_digest, err);
}

TEST(the_diff_id_is_that_of_the_archive_before_it_was_compressed)
{
    char want[DIGEST_HEX], got[DIGEST_HEX];
    auto_free char *data = NULL;
    size_t len;

    set_up();
    data = big_tar(&len, want);
    CHECK_INT(unpack_fresh(got, NULL), 0);
    CHECK_STR(got, want);
    for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
        CHECK_INT(unlink(in_base("tar")), 0);
        add_compressed(filters[i], data, len);
        CHECK_INT(unpack_fresh(got, NULL), 0);
        CHECK_STR(got, want);
    }
}

TEST(several_members_are_one_stream)
{
    char want[DIGEST_HEX], got[DIGEST_HEX];
    auto_free char *data = NULL;
    size_t len;

    set_up();
    data = big_tar(&len, want);
    for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
        struct err err = {0};

        /* At every few bytes, so that members end everywhere in the buffers. */
        for (size_t cut = 1; cut < len; cut += len / 7) {
            CHECK_INT(unlink(in_base("tar")), 0);
            add_compressed(filters[i], data, cut);
            add_compressed(filters[i], data + cut, len - cut);
            if (unpack_fresh(got, &err) < 0)
                TAP_FAIL("%zu, cut at %zu: %s", i, cut, err.text);
            CHECK_STR(got, want);
        }
    }
}

TEST(what_comes_behind_the_end_is_refused)
{
    static const char *const garbage[] = {"x", "garbage", "\0\0\0\0\0\0\0\0\0\0\0\0"};
    char want[DIGEST_HEX], got[DIGEST_HEX];
    auto_free char *data = NULL;
    size_t len;

    set_up();
    data = big_tar(&len, want);
    for (size_t i = 0; i < ARRAY_LEN(filters); i++)
        for (size_t k = 0; k < ARRAY_LEN(garbage); k++) {
            struct err err = {0};

            CHECK_INT(unlink(in_base("tar")), 0);
            add_compressed(filters[i], data, len);
            add_to_tar(garbage[k], k == 2 ? 12 : strlen(garbage[k]));
            CHECK_INT(unpack_fresh(got, &err), -1);
            CHECK_STR(err.code, "bad_image");
        }
}

TEST(an_archive_that_is_cut_short_or_damaged_is_refused)
{
    char want[DIGEST_HEX], got[DIGEST_HEX];
    auto_free char *data = NULL;
    size_t len;

    set_up();
    data = big_tar(&len, want);
    for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
        auto_free char *whole = NULL;
        size_t size;
        struct err err = {0};

        CHECK_INT(unlink(in_base("tar")), 0);
        add_compressed(filters[i], data, len);
        whole = read_tar(&size);
        for (size_t cut = 1; cut < size; cut += cut < 3 || cut + 10 > size ? 1 : size / 5) {
            CHECK_INT(truncate(in_base("tar"), 0), 0);
            add_to_tar(whole, size - cut);
            if (unpack_fresh(got, &err) == 0)
                TAP_FAIL("%zu: %zu bytes less are fine", i, cut);
        }
        whole[size / 2] ^= 0x55;
        CHECK_INT(truncate(in_base("tar"), 0), 0);
        add_to_tar(whole, size);
        /* A zstd frame need not have a checksum; then the digest tells. */
        if (unpack_fresh(got, &err) == 0 && strcmp(got, want) == 0)
            TAP_FAIL("%zu: a changed byte is fine", i);
    }
}

TEST(an_archive_compressed_twice_is_refused)
{
    char want[DIGEST_HEX], got[DIGEST_HEX];
    auto_free char *data = NULL, *once = NULL;
    struct err err = {0};
    size_t len;

    set_up();
    data = big_tar(&len, want);
    CHECK_INT(unlink(in_base("tar")), 0);
    add_compressed(ARCHIVE_FILTER_GZIP, data, len);
    once = read_tar(&len);
    CHECK_INT(unlink(in_base("tar")), 0);
    add_compressed(ARCHIVE_FILTER_ZSTD, once, len);
    CHECK_INT(unpack_fresh(got, &err), -1);
    CHECK_STR(err.code, "bad_image");
}

/* libarchive would run a program for these. */
TEST(other_compressions_are_refused)
{
    static const char *const magics[] = {"LRZI\0\5", "\x89LZO\0\r\n\x1a\n", "\x1f\x9d\x90", "LZIP"};
    static const char rest[2000];
    char got[DIGEST_HEX];

    set_up();
    for (size_t i = 0; i < ARRAY_LEN(magics); i++) {
        struct err err = {0};

        (void)unlink(in_base("tar"));
        add_to_tar(magics[i], 4);
        add_to_tar(rest, sizeof(rest));
        CHECK_INT(unpack_fresh(got, &err), -1);
        CHECK_STR(err.code, "bad_image");
    }
}

static void add_zstd(int window_log, const char *data, size_t len)
{
    ZSTD_CCtx *z = ZSTD_createCCtx();
    size_t cap = ZSTD_compressBound(len) + 100;
    auto_free char *out = xmalloc(cap);
    ZSTD_outBuffer to = {.dst = out, .size = cap};
    ZSTD_inBuffer half = {.src = data, .size = len / 2}, all = {.src = data, .size = len};

    CHECK(!ZSTD_isError(ZSTD_CCtx_setParameter(z, ZSTD_c_windowLog, window_log)));
    CHECK(!ZSTD_isError(ZSTD_compressStream2(z, &to, &half, ZSTD_e_flush)));
    all.pos = half.pos;
    CHECK_INT((intmax_t)ZSTD_compressStream2(z, &to, &all, ZSTD_e_end), 0);
    (void)ZSTD_freeCCtx(z);
    add_to_tar(out, to.pos);
}

TEST(a_zstd_window_is_bounded)
{
    char want[DIGEST_HEX], got[DIGEST_HEX];
    auto_free char *data = NULL;
    struct err err = {0};
    size_t len;

    set_up();
    data = big_tar(&len, want);
    CHECK_INT(unlink(in_base("tar")), 0);
    add_zstd(20, data, len / 2);
    add_zstd(25, data + len / 2, len - len / 2); /* the second needs more than the first */
    CHECK_INT(unpack_fresh(got, &err), 0);
    CHECK_STR(got, want);
    CHECK_INT(unlink(in_base("tar")), 0);
    add_zstd(27, data, len);
    CHECK_INT(unpack_fresh(got, &err), -1);
    CHECK_INT(err.kind, ERR_TOO_LARGE);
    CHECK(strstr(err.text, "memory"));
}

TEST(a_zstd_stream_may_begin_with_a_frame_to_skip)
{
    static const char frame[] = "\x50\x2a\x4d\x18\x04\0\0\0skip";
    char want[DIGEST_HEX], got[DIGEST_HEX];
    auto_free char *data = NULL;
    size_t len;

    set_up();
    data = big_tar(&len, want);
    CHECK_INT(unlink(in_base("tar")), 0);
    add_to_tar(frame, sizeof(frame) - 1);
    add_zstd(20, data, len);
    add_to_tar(frame, sizeof(frame) - 1);
    CHECK_INT(unpack_fresh(got, NULL), 0);
    CHECK_STR(got, want);
}

/* ---- bombs ---- */

TEST(a_bomb_is_stopped_by_its_ratio)
{
    static char zeros[1 << 20];
    struct archive_entry *e;
    struct archive *a;
    struct err err = {0};
    char got[DIGEST_HEX];
    const char *data;

    set_up();
    a = tar_open(ARCHIVE_FILTER_ZSTD);
    e = parse_entry("f zeros=", 0, &data);
    archive_entry_set_size(e, 150 << 20);
    CHECK_INT(archive_write_header(a, e), ARCHIVE_OK);
    for (int i = 0; i < 150; i++)
        CHECK_INT(archive_write_data(a, zeros, sizeof(zeros)), (ssize_t)sizeof(zeros));
    archive_entry_free(e);
    tar_close(a);
    CHECK_INT(unpack_fresh(got, &err), -1);
    CHECK_INT(err.kind, ERR_TOO_LARGE);
    CHECK(look("fresh0/zeros").st_size < 110 << 20);
}

/* A header as bytes, for what no library writes. */
static void add_header(const char *name, char type, unsigned long long size)
{
    unsigned char h[512] = {0};
    unsigned sum = 8 * ' ';

    (void)snprintf((char *)h, 100, "%s", name);
    (void)snprintf((char *)h + 100, 8, "%07o", 0644);
    (void)snprintf((char *)h + 108, 8, "%07o", 0);
    (void)snprintf((char *)h + 116, 8, "%07o", 0);
    if (size < 1ull << 33) {
        (void)snprintf((char *)h + 124, 12, "%011llo", size);
    } else {
        h[124] = 0x80;
        for (int i = 0; i < 8; i++)
            h[135 - i] = (unsigned char)(size >> (8 * i));
    }
    (void)snprintf((char *)h + 136, 12, "%011o", 0);
    h[156] = (unsigned char)type;
    memcpy(h + 257, "ustar\00000", 8);
    for (size_t i = 0; i < sizeof(h); i++)
        sum += i >= 148 && i < 156 ? 0 : h[i];
    (void)snprintf((char *)h + 148, 8, "%06o", sum);
    add_to_tar(h, sizeof(h));
}

static void check_too_much(void)
{
    struct err err = {0};
    char got[DIGEST_HEX];

    CHECK_INT(unpack_fresh(got, &err), -1);
    CHECK(err.kind == ERR_TOO_LARGE || err.kind == ERR_INVALID);
    CHECK(err.text[0]);
}

TEST(a_header_of_eight_gigabytes_is_refused)
{
    static const char types[] = {'x', 'L', 'K', 'g'};

    set_up();
    for (size_t i = 0; i < sizeof(types); i++) {
        (void)unlink(in_base("tar"));
        add_header("x", types[i], 8ull << 30);
        CHECK_INT(truncate(in_base("tar"), 40 << 20), 0);
        check_too_much();
    }
}

TEST(a_map_of_a_sparse_file_is_bounded)
{
    static const char pax[] = "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"
                              "21 GNU.sparse.name=x\n30 GNU.sparse.realsize=9000000\n";
    auto_free char *map = xmalloc(8 << 20);
    char block[512] = {0};
    struct err err = {0};
    char got[DIGEST_HEX];

    set_up();
    add_header("pax", 'x', strlen(pax));
    memcpy(block, pax, strlen(pax));
    add_to_tar(block, sizeof(block));
    add_header("x", '0', 8 << 20);
    (void)snprintf(map, 100, "2000000\n");
    for (size_t i = strlen(map); i < 8 << 20; i++)
        map[i] = i % 2 ? '\n' : '0';
    add_to_tar(map, 8 << 20);
    CHECK_INT(unpack_fresh(got, &err), -1);
    CHECK_INT(err.kind, ERR_TOO_LARGE);
    CHECK(strstr(err.text, "header"));
}

TEST(entries_and_bytes_stop_at_their_maximum)
{
    static const char *const entries[] = {"f a/b/c=12345", "f d=1", "f .wh.x=", NULL};
    static const struct {
        uint64_t entries, bytes;
    } limits[] = {{2, 100}, {4, 100}, {100, 5}};

    set_up();
    make_tar(entries);
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        auto_close int tar = open(in_base("tar"), O_RDONLY | O_CLOEXEC);
        char digest[DIGEST_HEX], name[16];
        struct err err = {0};
        struct layer l;

        (void)snprintf(name, sizeof(name), "l%zu", i);
        CHECK_INT(mkdir(in_base(name), 0755), 0);
        layer_init(&l, open_dir(in_base(name)));
        l.oci = true;
        l.max_entries = limits[i].entries;
        l.max_bytes = limits[i].bytes;
        CHECK_INT(unpack_file(tar, &l, digest, &err), -1);
        CHECK_INT(err.kind, ERR_TOO_LARGE);
    }
}

/* Unpacks the archive of make_tar() as one more layer of an image. */
static int unpack_more(struct layer_budget *budget, const char *name, struct err *err)
{
    auto_close int tar = open(in_base("tar"), O_RDONLY | O_CLOEXEC), root = -1;
    char digest[DIGEST_HEX];
    struct layer l;

    CHECK_INT(mkdir(in_base(name), 0755), 0);
    root = open_dir(in_base(name));
    layer_init(&l, root);
    l.oci = true;
    l.budget = budget;
    return unpack_file(tar, &l, digest, err);
}

TEST(maxima_are_of_all_layers_together)
{
    /* Two folders that are left out, and a file: three entries, five bytes. */
    static const char *const entries[] = {"f a/b/c=12345", NULL};
    static const struct {
        uint64_t entries, bytes;
        int second;
    } limits[] = {{6, 10, 0}, {5, 10, -1}, {6, 9, -1}};

    set_up();
    make_tar(entries);
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        struct layer_budget budget;
        struct err err = {0};
        char name[16];

        layer_budget_init(&budget, limits[i].bytes, limits[i].entries, open_dir(base));
        (void)snprintf(name, sizeof(name), "a%zu", i);
        CHECK_INT(unpack_more(&budget, name, &err), 0);
        name[0] = 'b';
        CHECK_INT(unpack_more(&budget, name, &err), limits[i].second);
        if (limits[i].second < 0)
            CHECK_STR(err.code, "image_too_large");
    }
}

TEST(a_disk_keeps_a_reserve)
{
    struct layer_budget budget;
    struct err err = {0};
    auto_close int disk = -1, file = -1;

    set_up();
    CHECK_INT(mount("none", in_base("merged"), "tmpfs", 0, "size=64m"), 0);
    disk = open_dir(in_base("merged"));
    layer_budget_init(&budget, 1ull << 40, 1 << 20, disk);
    CHECK_INT(layer_budget_room(&budget, 50 << 20, &err), 0);
    CHECK_INT(layer_budget_room(&budget, 62 << 20, &err), -1); /* of 64, less a twentieth */
    CHECK_STR(err.code, "no_space");
    CHECK_INT(layer_budget_grow(&budget, 32 << 20, &err), 0);
    file = open(in_base("merged/others"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK_INT(fallocate(file, 0, 0, 62 << 20), 0); /* somebody else is faster */
    err = (struct err){0};
    CHECK_INT(layer_budget_grow(&budget, 32 << 20, &err), -1);
    CHECK_STR(err.code, "no_space");
    CHECK_INT(err.kind, ERR_UNAVAILABLE);
}

/* ---- trusted attributes, by way of another process ---- */

static void *serve_trusted(void *arg)
{
    trusted_serve(*(int *)arg);
    return NULL;
}

TEST(who_is_not_root_of_the_host_has_marks_set_and_read_for_it)
{
    struct layer_note note = {0};
    auto_close int dir = -1, file = -1, cut = -1;
    int pair[2], found;
    pthread_t thread;

    set_up();
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    CHECK_INT(mkdir(in_base("d"), 0755), 0);
    dir = open_dir(in_base("d"));
    file = open(in_base("f"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK_INT(pthread_create(&thread, NULL, serve_trusted, &pair[1]), 0);
    trusted_ask(pair[0]);
    CHECK_INT(trusted_look(dir), 0);
    CHECK_INT(trusted_make_opaque(dir), 0);
    CHECK_INT(trusted_look(dir), TRUSTED_OPAQUE);
    CHECK_INT(trusted_get_note(dir, &note), 0);
    CHECK_INT(note.bytes, 0);
    CHECK_INT(trusted_set_note(dir, &(struct layer_note){1ull << 40, 7}), 0);
    CHECK_INT(trusted_get_note(dir, &note), 0);
    CHECK(note.bytes == 1ull << 40 && note.entries == 7);
    /* Only folders have any, and only through what can be written to. */
    CHECK_INT(trusted_make_opaque(file), -ENOTDIR);
    CHECK_INT(mount(in_base("d"), in_base("merged"), NULL, MS_BIND, NULL), 0);
    CHECK_INT(mount(NULL, in_base("merged"), NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL), 0);
    cut = open_dir(in_base("merged"));
    CHECK_INT(trusted_set_note(cut, &note), -EROFS);
    CHECK_INT(trusted_look(cut), TRUSTED_OPAQUE);
    (void)shutdown(pair[0], SHUT_RDWR);
    found = trusted_look(dir);
    CHECK_INT(found, -EPIPE);
    (void)pthread_join(thread, NULL);
}

TEST(the_padding_of_the_last_file_may_be_missing)
{
    char got[DIGEST_HEX];
    auto_free char *shown = NULL;

    set_up();
    add_header("last", '0', 5);
    add_to_tar("other", 5);
    CHECK_INT(unpack_fresh(got, NULL), 0);
    shown = show("fresh0");
    CHECK_STR(shown, "f last=other");
    CHECK_INT(unlink(in_base("tar")), 0);
    add_header("last", '0', 600); /* but not what it holds */
    add_to_tar("other", 5);
    CHECK_INT(unpack_fresh(got, NULL), -1);
}

TEST(an_empty_stream_is_a_layer_but_no_root)
{
    static const char zeros[1024];
    char got[DIGEST_HEX];
    struct err err = {0};
    struct layer l;

    set_up();
    add_to_tar("", 0);
    CHECK_INT(unpack_fresh(got, NULL), 0);
    add_to_tar(zeros, sizeof(zeros));
    CHECK_INT(unpack_fresh(got, NULL), 0);
    {
        auto_close int tar = open(in_base("tar"), O_RDONLY | O_CLOEXEC);

        layer_init(&l, open_dir(base));
        CHECK_INT(unpack_file(tar, &l, got, &err), -1);
        CHECK_STR(err.code, "bad_image");
    }
}

/* ---- sources ---- */

static ssize_t read_then_fail(void *arg, void *data, size_t len)
{
    (void)data, (void)len;
    return -*(int *)arg;
}

TEST(a_source_that_fails_is_named)
{
    int errnum = ECONNRESET;
    const struct unpack_source src = {.read = read_then_fail, .arg = &errnum};
    char got[DIGEST_HEX];
    struct err err = {0};
    struct layer l;

    set_up();
    layer_init(&l, open_dir(in_base("merged")));
    CHECK_INT(unpack_tar(&src, &l, got, &err), -1);
    CHECK_INT(err.sys, ECONNRESET);
}

static ssize_t read_from_pipe(void *arg, void *data, size_t len)
{
    return pipe_get(arg, data, len);
}

static void stop_pipe(void *arg)
{
    pipe_close(arg);
}

static void *write_forever(void *arg)
{
    static const char text[] = "this is no archive";
    int *r = xmalloc(sizeof(*r));

    while ((*r = pipe_put(arg, text, sizeof(text))) == 0)
        ;
    return r;
}

TEST(a_source_that_waits_is_stopped_when_the_archive_is_bad)
{
    struct pipe *p = pipe_new(4096);
    const struct unpack_source src = {.read = read_from_pipe, .stop = stop_pipe, .arg = p};
    char got[DIGEST_HEX];
    pthread_t writer;
    struct err err = {0};
    struct layer l;
    void *r;

    set_up();
    layer_init(&l, open_dir(in_base("merged")));
    CHECK_INT(pthread_create(&writer, NULL, write_forever, p), 0);
    CHECK_INT(unpack_tar(&src, &l, got, &err), -1);
    CHECK_STR(err.code, "bad_image");
    CHECK_INT(pthread_join(writer, &r), 0);
    CHECK_INT(*(int *)r, -EPIPE);
    free(r);
    pipe_free(p);
}

static void *write_numbers(void *arg)
{
    for (uint32_t i = 0; i < 100000; i++)
        CHECK_INT(pipe_put(arg, &i, sizeof(i)), 0);
    pipe_end(arg, ENOSPC);
    return NULL;
}

TEST(a_pipe_carries_every_byte_in_order_and_then_the_error)
{
    struct pipe *p = pipe_new(1021); /* nothing divides it */
    pthread_t writer;
    uint32_t got = 0, want = 0;
    size_t have = 0;
    ssize_t n;

    CHECK_INT(pthread_create(&writer, NULL, write_numbers, p), 0);
    while ((n = pipe_get(p, (char *)&got + have, sizeof(got) - have)) > 0) {
        have += (size_t)n;
        if (have == sizeof(got)) {
            CHECK_INT(got, want++);
            have = 0;
        }
    }
    CHECK_INT(n, -ENOSPC);
    CHECK_INT(want, 100000);
    CHECK_INT(pthread_join(writer, NULL), 0);
    pipe_free(p);
}

/* ---- mount points ---- */

TEST(mount_points_are_folders_in_what_the_layers_show)
{
    static const struct {
        const char *upper[4];
        bool ok;
    } cases[] = {
        {{"f x=1"}, true},         {{"d0700 proc", "d dev"}, true}, {{"s proc>/tmp"}, false},
        {{"f sys=1"}, false},      {{"f .wh.dev="}, false},         {{"f .wh.dev=", "d dev"}, true},
        {{"s tmp>var/tmp"}, true},
    };
    auto_free char *points = NULL;
    int fds[2];

    set_up();
    CHECK_INT(mkdir(in_base("points"), 0755), 0);
    fds[1] = open_dir(in_base("points"));
    CHECK_INT(layer_points(fds[1], NULL), 0);
    points = show("points");
    CHECK_STR(points, "d dev|d proc|d sys|d tmp");
    CHECK_INT(look("points/tmp").st_mode & 07777, 01777);
    CHECK_INT(look("points/proc").st_mode & 07777, 0755);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char digest[DIGEST_HEX], name[16];
        struct err err = {0};
        struct layer l;

        (void)snprintf(name, sizeof(name), "l%zu", i);
        make_tar(cases[i].upper);
        CHECK_INT(unpack_as(name, &l, digest, NULL), 0);
        fds[0] = l.root;
        CHECK_INT(layer_check_points(fds, 2, &err), cases[i].ok ? 0 : -1);
        CHECK_INT(err.kind, cases[i].ok ? ERR_NONE : ERR_INVALID);
    }
}

/* ---- back into an archive ---- */

static int take_packed(void *arg, const void *data, size_t len, struct err *err)
{
    (void)arg, (void)err;
    add_to_tar(data, len);
    return 0;
}

static void pack_as_tar(const char *name, uint32_t ids_base, char ret_digest[DIGEST_HEX])
{
    auto_close int fd = open_dir(in_base(name));
    struct err err = {0};

    (void)unlink(in_base("tar"));
    if (pack_layer(fd, ids_base, take_packed, NULL, ret_digest, &err) < 0)
        TAP_FAIL("%s", err.text);
}

TEST(a_layer_comes_back_from_its_archive_as_it_was)
{
    static const char *const layers[STACK_MAX][12] = {
        L("d a", "f a/x=1", "d o", "d o/p"),
        L("d0700,9 a", "f0640,8 a/n=1", "h a/m>a/n", "s a/s>../..", "f a/.wh.x=", "d o",
          "f o/.wh..wh..opq=", "f o/q=2", "f4755 caf\xc3\xa9=3", "f raw\xff=4")};
    char first[DIGEST_HEX], second[DIGEST_HEX], unpacked[DIGEST_HEX];
    auto_free char *before = NULL, *after = NULL, *longest = NULL, *packed = NULL;
    struct layer l;
    size_t len;

    set_up();
    CHECK_INT(build(layers, NULL), 2);
    longest = xasprintf("%s/2/a/%0200d", base, 1);
    CHECK_INT(mkdir(longest, 0700), 0);
    {
        auto_free char *inner = xasprintf("%s/%0250d", longest, 2);

        CHECK_INT(symlink(longest, inner), 0);
    }
    CHECK_INT(setxattr(in_base("2/a/n"), "user.note", "hi", 2, 0), 0);
    CHECK_INT(setxattr(in_base("2/a"), "user.note", "dir", 3, 0), 0);
    before = show("2");
    CHECK(strstr(before, "w a/x"));
    CHECK(strstr(before, "D o|f o/q=2"));
    pack_as_tar("2", 0, first);
    packed = read_tar(&len);
    CHECK(memmem(packed, len, "user.note", 9));
    CHECK(!memmem(packed, len, "trusted.", 8));
    CHECK_INT(unpack_as("3", &l, unpacked, NULL), 0);
    CHECK_STR(unpacked, first);
    after = show("3");
    CHECK_STR(after, before);
    CHECK_INT(look("3/a").st_mode & 07777, 0700);
    CHECK_INT(look("3/a").st_uid, 9);
    CHECK_INT(look("3/a/n").st_nlink, 2);
    CHECK_INT(look("3/a/n").st_gid, 8);
    CHECK_INT(look("3/a/n").st_mtime, 1001);
    CHECK_INT(getxattr(in_base("3/a/m"), "user.note", NULL, 0), 2);
    CHECK_INT(getxattr(in_base("3/a"), "user.note", NULL, 0), 3);
    pack_as_tar("3", 0, second);
    CHECK_STR(second, first);
}

TEST(a_name_that_would_hide_another_is_not_packed)
{
    static const struct {
        const char *path;
        mode_t type;
    } cases[] = {
        {"l/a/.wh.x", S_IFREG},
        {"l/.wh..wh..opq", S_IFREG},
        {"l/a/.wh.d", S_IFDIR},
        {"l/a/.wh.s", S_IFLNK},
        {"l/a/.wh..wh.x", S_IFREG},
        /* the removal of one */
        {"l/a/.wh..opq", S_IFCHR},
        {"l/.wh.gone", S_IFCHR},
    };
    char digest[DIGEST_HEX];
    auto_close int fd = -1;

    set_up();
    CHECK_INT(mkdir(in_base("l"), 0755), 0);
    CHECK_INT(mkdir(in_base("l/a"), 0755), 0);
    fd = open_dir(in_base("l"));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *path = in_base(cases[i].path);
        struct err err = {0};

        CHECK_INT(pack_check(fd, NULL), 0);
        CHECK_INT(pack_layer(fd, 0, take_packed, NULL, digest, NULL), 0);
        if (S_ISDIR(cases[i].type))
            CHECK_INT(mkdir(path, 0755), 0);
        else if (S_ISLNK(cases[i].type))
            CHECK_INT(symlink("x", path), 0);
        else
            CHECK_INT(mknod(path, cases[i].type | 0644, makedev(0, 0)), 0);
        CHECK_INT(pack_check(fd, &err), -1);
        CHECK_STR(err.code, "whiteout_name");
        err = (struct err){0};
        CHECK_INT(pack_layer(fd, 0, take_packed, NULL, digest, &err), -1);
        CHECK_STR(err.code, "whiteout_name");
        CHECK_INT(err.kind, ERR_UNSUPPORTED);
        CHECK(strstr(err.text, cases[i].path + 2));
        CHECK_INT(remove(path), 0);
    }
}

static int refuse_packed(void *arg, const void *data, size_t len, struct err *err)
{
    (void)arg, (void)data, (void)len;
    return err_sys(err, ENOSPC, "write the archive");
}

TEST(a_failed_write_ends_the_packing)
{
    char digest[DIGEST_HEX];
    struct err err = {0};
    auto_close int fd = -1;

    set_up();
    CHECK_INT(mkdir(in_base("l"), 0755), 0);
    CHECK_INT(mkdir(in_base("l/a"), 0755), 0);
    fd = open_dir(in_base("l"));
    CHECK_INT(pack_layer(fd, 0, refuse_packed, NULL, digest, &err), -1);
    CHECK_INT(err.sys, ENOSPC);
}

/* ---- folders ---- */

static int copy_as(const char *from, const char *to, uint32_t ids_base, char ret_digest[DIGEST_HEX],
                   struct err *err)
{
    auto_close int source = open_dir(in_base(from));
    EVP_MD_CTX *sha = digest_new();
    struct layer l;
    int r;

    CHECK_INT(mkdir(in_base(to), 0755), 0);
    layer_init(&l, open_dir(in_base(to)));
    r = copy_upper(source, ids_base, &l, sha, err);
    digest_end(sha, ret_digest);
    return r;
}

static void make_file(const char *path, uid_t owner)
{
    auto_close int fd = open(in_base(path), O_CREAT | O_WRONLY | O_CLOEXEC, 0640);

    CHECK(fd >= 0);
    CHECK_INT(write_all(fd, "1", 1), 0);
    CHECK_INT(fchown(fd, owner, owner), 0);
}

#define IDS 1000000

static void make_upper(void)
{
    CHECK_INT(mkdir(in_base("upper"), 0755), 0);
    CHECK_INT(mkdir(in_base("upper/a"), 0700), 0);
    CHECK_INT(chown(in_base("upper"), IDS, IDS), 0);
    CHECK_INT(chown(in_base("upper/a"), IDS + 5, IDS + 6), 0);
    make_file("upper/a/f", IDS + 1000);
    CHECK_INT(setxattr(in_base("upper/a"), "trusted.overlay.opaque", "y", 1, 0), 0);
    CHECK_INT(setxattr(in_base("upper/a"), "trusted.overlay.origin", "zz", 2, 0), 0);
    CHECK_INT(setxattr(in_base("upper/a/f"), "user.note", "hi", 2, 0), 0);
    CHECK_INT(mknod(in_base("upper/gone"), S_IFCHR, makedev(0, 0)), 0);
    CHECK_INT(mkfifo(in_base("upper/fifo"), 0600), 0);
    CHECK_INT(chown(in_base("upper/fifo"), IDS, IDS), 0);
    CHECK_INT(link(in_base("upper/a/f"), in_base("upper/g")), 0);
}

TEST(an_upper_folder_becomes_a_layer)
{
    char digest[DIGEST_HEX], again[DIGEST_HEX], list[256];
    auto_free char *got = NULL;

    set_up();
    make_upper();
    CHECK_INT(copy_as("upper", "l", IDS, digest, NULL), 0);
    got = show("l");
    CHECK_STR(got, "D a|f a/f=1|! fifo|f g=1|w gone");
    CHECK_INT(look("l/a").st_uid, 5);
    CHECK_INT(look("l/a").st_gid, 6);
    CHECK_INT(look("l/a").st_mtime, look("upper/a").st_mtime);
    CHECK_INT(look("l/g").st_uid, 1000);
    CHECK_INT(look("l/g").st_nlink, 2);
    CHECK_INT(listxattr(in_base("l/a"), list, sizeof(list)),
              (ssize_t)sizeof("trusted.overlay.opaque"));
    CHECK_INT(getxattr(in_base("l/g"), "user.note", NULL, 0), 2);
    CHECK_INT(copy_as("upper", "m", IDS, again, NULL), 0);
    CHECK_STR(again, digest);
    CHECK_INT(unlink(in_base("upper/gone")), 0);
    CHECK_INT(copy_as("upper", "n", IDS, again, NULL), 0);
    CHECK(strcmp(again, digest) != 0);
}

/* Folders in one another below that one, each with a file. */
static void make_deep(const char *top, const char *name, unsigned levels)
{
    int fd = open_dir(in_base(top));

    for (unsigned i = 0; i < levels; i++) {
        int file = openat(fd, "f", O_CREAT | O_WRONLY | O_CLOEXEC, 0640), below;

        CHECK(file >= 0);
        CHECK_INT(fchown(file, IDS, IDS), 0);
        (void)close(file);
        CHECK_INT(mkdirat(fd, name, 0755), 0);
        CHECK_INT(fchownat(fd, name, IDS, IDS, 0), 0);
        below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(below >= 0);
        (void)close(fd);
        fd = below;
    }
    (void)close(fd);
}

static char *copy_with_warning(const char *from, const char *to, bool digest)
{
    auto_close int source = open_dir(in_base(from));
    EVP_MD_CTX *sha = digest ? digest_new() : NULL;
    char hex[DIGEST_HEX];
    struct layer l;

    CHECK_INT(mkdir(in_base(to), 0755), 0);
    layer_init(&l, open_dir(in_base(to)));
    CHECK_INT(copy_upper(source, IDS, &l, sha, NULL), 0);
    if (sha)
        digest_end(sha, hex);
    return layer_warning(&l);
}

/* How many folders called name lie in one another. */
static unsigned levels_of(const char *top, const char *name)
{
    int fd = open_dir(in_base(top)), below;
    unsigned n = 0;

    while ((below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0) {
        (void)close(fd);
        fd = below;
        n++;
    }
    (void)close(fd);
    return n;
}

TEST(a_path_that_no_layer_has_is_left_out_and_told)
{
    static const char *const made[] = {"upper", "l", "m", "deep", "k"};
    char name[251] = "";

    set_up();
    make_upper();
    memset(name, 'n', sizeof(name) - 1);
    make_deep("upper", name, 20);
    for (int digest = 0; digest < 2; digest++) {
        const char *to = digest ? "l" : "m";
        auto_free char *beside = xasprintf("%s/a/f", to);
        auto_free char *warning = copy_with_warning("upper", to, digest);

        CHECK(warning && str_starts(warning, "1 file or folder was left out") &&
              strstr(warning, "longer than 4096 bytes") && strstr(warning, "nnnnnnnn..."));
        CHECK_INT(levels_of(to, name), 16); /* 16 * 251 - 1 bytes; the file in the last one fits */
        CHECK_INT(look(beside).st_uid, 1000);
    }
    CHECK_INT(mkdir(in_base("deep"), 0755), 0);
    CHECK_INT(chown(in_base("deep"), IDS, IDS), 0);
    make_deep("deep", "d", 2100); /* also more than 4096 bytes */
    {
        auto_free char *warning = copy_with_warning("deep", "k", false);

        /* A folder and a file in the last one that is copied. */
        CHECK(warning && str_starts(warning, "2 files and folders were left out") &&
              strstr(warning, "d/d/d/d"));
        CHECK_INT(levels_of("k", "d"), LAYER_MAX_DEPTH);
    }
    CHECK(copy_with_warning("upper/a", "j", true) == NULL);
    /* What removes the folder of a test goes by paths. */
    for (size_t i = 0; i < ARRAY_LEN(made); i++)
        CHECK_INT(remove_tree(AT_FDCWD, in_base(made[i])), 0);
}

static int goes_on_until(void *n, struct err *err)
{
    return (*(unsigned *)n)-- > 0 ? 0 : err_code(err, ERR_CONFLICT, "cancelled", "no more");
}

TEST(a_copy_that_is_cancelled_ends_among_paths_that_are_left_out)
{
    unsigned left = LAYER_MAX_DEPTH + 40;
    struct err err = {0};
    struct layer l;
    int source, fd;

    set_up();
    CHECK_INT(mkdir(in_base("deep"), 0755), 0);
    CHECK_INT(chown(in_base("deep"), IDS, IDS), 0);
    source = open_dir(in_base("deep"));
    fd = fcntl(source, F_DUPFD_CLOEXEC, 0);
    for (unsigned i = 0; i < LAYER_MAX_DEPTH; i++) {
        int above = fd;

        CHECK_INT(mkdirat(above, "d", 0755), 0);
        CHECK_INT(fchownat(above, "d", IDS, IDS, 0), 0);
        fd = openat(above, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        (void)close(above);
    }
    for (unsigned i = 0; i < 100; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "%u", i);
        CHECK_INT(mkdirat(fd, name, 0755), 0);
    }
    (void)close(fd);
    CHECK_INT(mkdir(in_base("k"), 0755), 0);
    layer_init(&l, open_dir(in_base("k")));
    l.goes_on = goes_on_until;
    l.arg = &left;
    CHECK_INT(copy_upper(source, IDS, &l, NULL, &err), -1);
    CHECK_STR(err.code, "cancelled");
    CHECK(l.left_out > 0 && l.left_out < 100);
    (void)close(source);
    CHECK_INT(remove_tree(AT_FDCWD, in_base("deep")), 0);
    CHECK_INT(remove_tree(AT_FDCWD, in_base("k")), 0);
}

/* The folder "x" with a file that has those attributes, copied. */
static void digest_with(const char *to, const char *a, size_t a_len, const char *b,
                        char ret[DIGEST_HEX])
{
    CHECK_INT(mkdir(in_base("x"), 0755), 0);
    make_file("x/f", 0);
    CHECK_INT(setxattr(in_base("x/f"), "user.a", a, a_len, 0), 0);
    if (b)
        CHECK_INT(setxattr(in_base("x/f"), "user.b", b, strlen(b), 0), 0);
    CHECK_INT(copy_as("x", to, 0, ret, NULL), 0);
    CHECK_INT(unlink(in_base("x/f")), 0);
    CHECK_INT(rmdir(in_base("x")), 0);
}

TEST(two_folders_that_differ_have_two_digests)
{
    static const char both[] = "1user.b\0002";
    char one[DIGEST_HEX], two[DIGEST_HEX], same[DIGEST_HEX];

    set_up();
    digest_with("l", "1", 1, "2", one);
    digest_with("m", both, sizeof(both) - 1, NULL, two);
    digest_with("n", "1", 1, "2", same);
    CHECK_STR(one, same);
    CHECK(strcmp(one, two) != 0);
}

TEST(an_upper_folder_that_is_only_a_part_is_refused)
{
    static const char *const parts[] = {"trusted.overlay.redirect", "trusted.overlay.metacopy"};

    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        char digest[DIGEST_HEX];
        struct err err = {0};

        if (i == 0) {
            set_up();
            make_upper();
        }
        CHECK_INT(setxattr(in_base(i ? "upper/a/f" : "upper/a"), parts[i], "x", 1, 0), 0);
        CHECK_INT(copy_as("upper", i ? "m" : "l", IDS, digest, &err), -1);
        CHECK_INT(err.kind, ERR_UNSUPPORTED);
        CHECK_INT(removexattr(in_base(i ? "upper/a/f" : "upper/a"), parts[i]), 0);
    }
}

TEST(an_owner_outside_the_sandbox_is_refused)
{
    static const uid_t owners[] = {0, IDS - 1, IDS + 65536};

    set_up();
    make_upper();
    for (size_t i = 0; i < ARRAY_LEN(owners); i++) {
        char digest[DIGEST_HEX], name[16];
        struct err err = {0};

        (void)snprintf(name, sizeof(name), "l%zu", i);
        CHECK_INT(chown(in_base("upper/g"), owners[i], IDS), 0);
        CHECK_INT(copy_as("upper", name, IDS, digest, &err), -1);
        CHECK_INT(err.kind, ERR_INVALID);
    }
}

TAP_MAIN
