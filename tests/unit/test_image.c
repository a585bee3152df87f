#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <locale.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "built_program.h"
#include "image/image.h"
#include "image/image_internal.h"
#include "layer/layer.h"
#include "layer/tree.h"
#include "oci/digest.h"
#include "scratch.h"
#include "tap.h"

/* ---- a data folder, and archives to put in ---- */

static void set_up(void)
{
    scratch_make();
    CHECK_INT(mkdir(in_base("data"), 0755), 0);
}

static struct image_store *open_store(void)
{
    const char *worker = built_program("CAY_IMAGE_WORKER", "src/worker/cay-image");
    struct image_store *s;
    struct err err = {0};

    if (!worker)
        SKIP("CAY_IMAGE_WORKER does not say where cay-image is");
    if (image_store_open(in_base("data"), open(worker, O_RDONLY | O_CLOEXEC), &s, &err) < 0)
        TAP_FAIL("%s", err.text);
    return s;
}

static struct archive *tar_open(int filter)
{
    struct archive *a = archive_write_new();

    CHECK_INT(archive_write_set_format_pax(a), ARCHIVE_OK);
    CHECK_INT(archive_write_add_filter(a, filter), ARCHIVE_OK);
    CHECK_INT(archive_write_open_filename(a, in_base("image.tar")), ARCHIVE_OK);
    return a;
}

static struct archive_entry *entry(const char *path, int type, int mode)
{
    struct archive_entry *e = archive_entry_new();

    archive_entry_copy_pathname(e, path);
    archive_entry_set_filetype(e, (unsigned)type);
    archive_entry_set_perm(e, (unsigned)mode);
    archive_entry_set_size(e, 0);
    return e;
}

static void put(struct archive *a, struct archive_entry *e, const char *data)
{
    if (data)
        archive_entry_set_size(e, (int64_t)strlen(data));
    CHECK(archive_write_header(a, e) >= ARCHIVE_WARN);
    if (data)
        CHECK_INT(archive_write_data(a, data, strlen(data)), (ssize_t)strlen(data));
    archive_entry_free(e);
}

static void put_link(struct archive *a, const char *path, const char *soft, const char *hard)
{
    struct archive_entry *e = entry(path, soft ? AE_IFLNK : AE_IFREG, 0777);

    if (soft)
        archive_entry_copy_symlink(e, soft);
    else
        archive_entry_copy_hardlink(e, hard);
    put(a, e, NULL);
}

static void tar_close(struct archive *a)
{
    CHECK_INT(archive_write_close(a), ARCHIVE_OK);
    CHECK_INT(archive_write_free(a), ARCHIVE_OK);
}

static unsigned count_in(const char *folder)
{
    auto_close int fd = open(in_base(folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_strv char **names = NULL;

    CHECK_INT(tree_names(fd, 1000, &names, NULL), 0);
    return (unsigned)strv_len(names);
}

/* Also what is half-made or set aside. */
static unsigned count_layers(void)
{
    return count_in("data/images/layers");
}

/* Each is a record and a document. */
static unsigned count_records(void)
{
    return count_in("data/images/records") / 2;
}

static struct image *import(struct image_store *s, const char *path, const char *name)
{
    struct image *image;
    struct err err = {0};

    if (image_import(s, path, name, NULL, NULL, &image, &err) < 0)
        TAP_FAIL("%s", err.text);
    return image;
}

/* Refused with this code, and nothing of it is left. */
static void refuse(struct image_store *s, const char *code)
{
    struct err err = {0};
    struct image *image;
    unsigned before = count_layers();

    CHECK_INT(image_import(s, in_base("image.tar"), "bad", NULL, NULL, &image, &err), -1);
    CHECK(err.text[0]);
    CHECK_STR(err.code ? err.code : err.text, code);
    CHECK_INT(count_layers(), before);
    CHECK_INT(count_in("data/images/records") % 2, 0);
    CHECK_INT(image_get(s, "bad", &image, &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
}

static struct stat look(const struct image *image, const char *path)
{
    auto_free char *full = xasprintf("%s/%s", image->layers[0], path);
    struct stat st;

    if (lstat(full, &st) < 0)
        TAP_FAIL("%s: %s", full, strerror(errno));
    return st;
}

static bool has(const struct image *image, const char *path)
{
    auto_free char *full = xasprintf("%s/%s", image->layers[0], path);
    struct stat st;

    return lstat(full, &st) == 0;
}

/* ---- names ---- */

static bool is_name(const char *text)
{
    auto_free char *s = image_name_short(text);

    return s != NULL;
}

TEST(usual_image_names_are_accepted)
{
    CHECK(is_name("host"));
    CHECK(is_name("python:3.12-slim"));
    CHECK(is_name("my.registry:5000/team/app:1.0"));
    CHECK(is_name("app@sha256:"
                  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"));
}

TEST(one_image_has_one_name)
{
    static const char *const same[] = {"python", "python:latest", "library/python",
                                       "docker.io/python", "docker.io/library/python:latest"};

    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        auto_free char *name = image_name_short(same[i]);

        CHECK(name);
        CHECK_STR(name, "python");
    }
}

TEST(names_that_could_be_paths_or_options_are_refused)
{
    static const char *const bad[] = {"",   "..",   "../x", "a/../b", "/a",  "a/",
                                      "-a", ".a",   "a//b", "a+b",    "a b", "a%",
                                      "$x", "a\nb", "a/.b", "a..b",   "a:",  "\xc3\xa4"};
    char longest[NAME_MAX_LEN + 2];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (is_name(bad[i]))
            TAP_FAIL("\"%s\" was accepted", bad[i]);
    memset(longest, 'a', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    CHECK(!is_name(longest));
}

/* ---- the folder ---- */

/* So that the files of a new one are not looked for among the places of one that just went. */
TEST(layers_are_spread_over_the_disk)
{
    auto_close int layers = -1;
    struct image_store *s;
    struct statfs fs;
    int flags = 0;

    set_up();
    s = open_store();
    layers = open(in_base("data/images/layers"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(layers >= 0);
    CHECK_INT(fstatfs(layers, &fs), 0);
    if (fs.f_type == EXT4_SUPER_MAGIC) {
        CHECK_INT(ioctl(layers, FS_IOC_GETFLAGS, &flags), 0);
        CHECK(flags & FS_TOPDIR_FL);
    }
    image_store_free(s);
}

/* ---- the host image ---- */

TEST(the_host_image_is_always_there)
{
    struct image *image;
    struct image_store *s;

    set_up();
    s = open_store();
    CHECK_INT(image_get(s, "host", &image, NULL), 0);
    CHECK_STR(image->id, "host");
    CHECK_STR(image->binds[0], "/usr");
    CHECK(str_starts(image->env[0], "PATH="));
    CHECK(S_ISREG(look(image, "etc/passwd").st_mode));
    CHECK(S_ISDIR(look(image, "usr").st_mode));
    CHECK_INT(look(image, "workspace").st_mode & 07777, 0777);
    CHECK_INT(look(image, "tmp").st_mode & 07777, 01777);
    CHECK_INT(look(image, "root").st_mode & 07777, 0700);
    CHECK_INT(look(image, "home/user").st_uid, 1000);
    CHECK_INT(look(image, ".").st_mode & 07777, 0755);
    image_free(image);
    image_store_free(s);
}

TEST(the_host_image_tells_when_it_was_last_used)
{
    struct image *image;
    struct image_store *s;
    int64_t opened;

    set_up();
    s = open_store();
    CHECK_INT(image_get(s, "host", &image, NULL), 0);
    opened = image->used_ms;
    image_free(image);
    while (now_ms() <= opened)
        ;
    image_touch(s, "host");
    CHECK_INT(image_get(s, "host", &image, NULL), 0);
    CHECK(image->used_ms > opened);
    CHECK_INT(image->pulled_ms, opened);
    image_free(image);
    image_store_free(s);
}

TEST(the_host_image_shows_bin_and_lib_as_the_machine_has_them)
{
    static const char *const names[] = {"bin", "sbin", "lib", "lib64"};
    struct image *image;
    struct image_store *s;

    set_up();
    s = open_store();
    CHECK_INT(image_get(s, "host", &image, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        auto_free char *path = xasprintf("/%s", names[i]);
        struct stat st;

        if (lstat(path, &st) == 0)
            CHECK_INT(look(image, names[i]).st_mode & S_IFMT, st.st_mode & S_IFMT);
    }
    image_free(image);
    image_store_free(s);
}

TEST(the_host_image_holds_no_secrets_of_the_machine)
{
    static const char *const secrets[] = {
        "etc/shadow",   "etc/gshadow",  "etc/ssl/private", "etc/ssh",       "etc/machine-id",
        "etc/hostname", "etc/pip.conf", "etc/npmrc",       "etc/gitconfig", "etc/sudoers",
        "root/.ssh",    "etc/docker",   "var/lib/dpkg"};
    struct image *image;
    struct image_store *s;

    set_up();
    s = open_store();
    CHECK_INT(image_get(s, "host", &image, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(secrets); i++)
        if (has(image, secrets[i]))
            TAP_FAIL("%s is in the host image", secrets[i]);
    image_free(image);
    image_store_free(s);
}

TEST(a_second_start_finds_the_same_host_layer)
{
    struct image *first, *second;
    struct image_store *s;

    set_up();
    s = open_store();
    CHECK_INT(image_get(s, "host", &first, NULL), 0);
    image_store_free(s);
    s = open_store();
    CHECK_INT(image_get(s, "host", &second, NULL), 0);
    CHECK_STR(first->layers[0], second->layers[0]);
    image_free(first);
    image_free(second);
    image_store_free(s);
}

TEST(only_root_can_reach_the_layers)
{
    struct stat st;

    set_up();
    image_store_free(open_store());
    CHECK_INT(stat(in_base("data/images"), &st), 0);
    CHECK_INT(st.st_mode & 07777, 0700);
}

/* ---- archives ---- */

static void ordinary_tar(int filter)
{
    struct archive *a = tar_open(filter);
    struct archive_entry *e;

    put(a, entry("./", AE_IFDIR, 0751), NULL);
    put(a, entry("./bin/su", AE_IFREG, 04755), "#!");
    e = entry("home/u/file", AE_IFREG, 0640);
    archive_entry_set_uid(e, 1000);
    archive_entry_set_gid(e, 65535);
    archive_entry_set_mtime(e, 1234567, 0);
    put(a, e, "hello");
    put_link(a, "etc/link", "/usr/elsewhere", NULL);
    put_link(a, "bin/again", NULL, "./bin/su");
    tar_close(a);
}

TEST(an_archive_becomes_an_image_with_owners_modes_and_links)
{
    static const int filters[] = {ARCHIVE_FILTER_NONE, ARCHIVE_FILTER_GZIP, ARCHIVE_FILTER_XZ,
                                  ARCHIVE_FILTER_ZSTD, ARCHIVE_FILTER_BZIP2};
    struct image_store *s;

    set_up();
    s = open_store();
    for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
        struct image *image;

        ordinary_tar(filters[i]);
        image = import(s, in_base("image.tar"), "team/app:1");
        CHECK(str_starts(image->id, "sha256:"));
        CHECK_INT(image->size, 7);
        CHECK_INT(look(image, ".").st_mode & 07777, 0751);
        CHECK_INT(look(image, "bin/su").st_mode & 07777, 04755);
        CHECK_INT(look(image, "bin/su").st_ino, (intmax_t)look(image, "bin/again").st_ino);
        CHECK_INT(look(image, "home/u/file").st_uid, 1000);
        CHECK_INT(look(image, "home/u/file").st_gid, 65535);
        CHECK_INT(look(image, "home/u/file").st_mtime, 1234567);
        CHECK(S_ISLNK(look(image, "etc/link").st_mode));
        CHECK(!has(image, "proc"));
        CHECK_INT(strv_len(image->layers), 2);
        free(image->layers[0]);
        image->layers[0] = xstrdup(image->layers[1]); /* what is below every image */
        CHECK(S_ISDIR(look(image, "proc").st_mode));
        CHECK_INT(look(image, "tmp").st_mode & 07777, 01777);
        image_free(image);
    }
    image_store_free(s);
}

TEST(names_stay_utf8_though_the_locale_is_c)
{
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    struct image_store *s;
    struct image *image;
    struct archive *a;

    set_up();
    s = open_store();
    (void)uselocale(utf8); /* for libarchive's writer */
    a = tar_open(ARCHIVE_FILTER_NONE);
    put(a, entry("caf\xc3\xa9", AE_IFREG, 0644), "x");
    tar_close(a);
    (void)uselocale(LC_GLOBAL_LOCALE);
    freelocale(utf8);
    image = import(s, in_base("image.tar"), "x");
    CHECK(has(image, "caf\xc3\xa9"));
    image_free(image);
    image_store_free(s);
}

TEST(paths_that_leave_the_image_are_refused)
{
    static const char *const bad[] = {"../x", "/abs", "a/../../x", "a/..", ".."};
    struct image_store *s;
    struct stat st;

    set_up();
    s = open_store();
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct archive *a = tar_open(ARCHIVE_FILTER_NONE);

        put(a, entry("fine", AE_IFREG, 0644), "x");
        put(a, entry(bad[i], AE_IFREG, 0644), "x");
        tar_close(a);
        refuse(s, "bad_image");
    }
    CHECK_INT(stat(in_base("data/images/layers/x"), &st), -1);
    CHECK_INT(stat("/abs", &st), -1);
    image_store_free(s);
}

TEST(a_path_of_4097_bytes_is_refused)
{
    char path[4098];
    struct image_store *s;
    struct archive *a;

    set_up();
    s = open_store();
    for (size_t i = 0; i < sizeof(path); i++)
        path[i] = i % 100 == 99 ? '/' : 'a';
    path[4097] = '\0';
    a = tar_open(ARCHIVE_FILTER_NONE);
    put(a, entry(path, AE_IFREG, 0644), "x");
    tar_close(a);
    refuse(s, "bad_image");
    image_store_free(s);
}

TEST(nothing_is_written_through_a_link_of_the_image)
{
    const char *target;
    struct image_store *s;
    struct archive *a;
    struct stat st;

    set_up();
    s = open_store();
    CHECK_INT(mkdir(in_base("outside"), 0755), 0);
    target = in_base("outside");
    a = tar_open(ARCHIVE_FILTER_NONE);
    put_link(a, "d", target, NULL);
    put(a, entry("d/passwd", AE_IFREG, 0644), "owned");
    tar_close(a);
    refuse(s, "bad_image");
    CHECK_INT(stat(in_base("outside/passwd"), &st), -1);
    image_store_free(s);
}

TEST(a_file_replaces_a_link_of_its_name_and_not_what_it_points_to)
{
    struct image_store *s;
    struct image *image;
    struct archive *a;
    struct stat st;
    int fd;

    set_up();
    s = open_store();
    fd = open(in_base("canary"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    (void)close(fd);
    a = tar_open(ARCHIVE_FILTER_NONE);
    put_link(a, "f", in_base("canary"), NULL);
    put(a, entry("f", AE_IFREG, 0644), "new");
    put_link(a, "g", in_base("canary"), NULL);
    put(a, entry("g", AE_IFDIR, 0777), NULL);
    tar_close(a);
    image = import(s, in_base("image.tar"), "x");
    CHECK(S_ISREG(look(image, "f").st_mode));
    CHECK(S_ISDIR(look(image, "g").st_mode));
    CHECK_INT(stat(in_base("canary"), &st), 0);
    CHECK_INT(st.st_size, 0);
    CHECK_INT(st.st_mode & 07777, 0600);
    image_free(image);
    image_store_free(s);
}

TEST(hard_links_lead_only_to_files_of_the_image)
{
    static const char *const bad[] = {
        "/etc/passwd", "../../../etc/passwd", "missing", "d/file", "folder", "."};
    struct image_store *s;

    set_up();
    s = open_store();
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct archive *a = tar_open(ARCHIVE_FILTER_NONE);

        put_link(a, "d", "/etc", NULL);
        put(a, entry("folder", AE_IFDIR, 0755), NULL);
        put_link(a, "hard", NULL, bad[i]);
        tar_close(a);
        refuse(s, "bad_image");
    }
    image_store_free(s);
}

TEST(devices_fifos_and_sockets_are_left_out)
{
    static const int types[] = {AE_IFCHR, AE_IFBLK, AE_IFIFO};
    struct image_store *s;
    struct image *image;
    struct archive *a;

    set_up();
    s = open_store();
    a = tar_open(ARCHIVE_FILTER_NONE);
    put(a, entry("file", AE_IFREG, 0644), "x");
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        struct archive_entry *e = entry("node", types[i], 0666);

        archive_entry_set_rdev(e, 0); /* 0/0 is overlayfs's whiteout */
        put(a, e, NULL);
    }
    put(a, entry(".wh.file", AE_IFREG, 0644), "");
    put(a, entry(".wh..wh..opq", AE_IFREG, 0644), "");
    tar_close(a);
    image = import(s, in_base("image.tar"), "x");
    CHECK(!has(image, "node"));
    CHECK(has(image, "file"));
    image_free(image);
    image_store_free(s);
}

TEST(only_harmless_attributes_are_kept)
{
    static const char *const names[] = {"trusted.overlay.opaque", "user.overlay.opaque",
                                        "security.capability", "user.note"};
    struct image_store *s;
    struct image *image;
    struct archive_entry *e;
    struct archive *a;
    char list[256];

    set_up();
    s = open_store();
    a = tar_open(ARCHIVE_FILTER_NONE);
    e = entry("file", AE_IFREG, 0755);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        archive_entry_xattr_add_entry(e, names[i], "y", 1);
    put(a, e, "x");
    tar_close(a);
    image = import(s, in_base("image.tar"), "x");
    {
        auto_free char *path = xasprintf("%s/file", image->layers[0]);

        CHECK_INT(listxattr(path, list, sizeof(list)), (ssize_t)sizeof("user.note"));
        CHECK_STR(list, "user.note");
    }
    image_free(image);
    image_store_free(s);
}

TEST(an_owner_outside_the_box_is_refused)
{
    static const int64_t bad[] = {65536, 4294967295};
    struct image_store *s;

    set_up();
    s = open_store();
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct archive *a = tar_open(ARCHIVE_FILTER_NONE);
        struct archive_entry *e = entry("file", AE_IFREG, 0644);

        archive_entry_set_uid(e, bad[i]);
        put(a, e, "x");
        tar_close(a);
        refuse(s, "bad_image");
    }
    image_store_free(s);
}

TEST(an_image_whose_proc_is_a_link_is_refused)
{
    static const char *const names[] = {"proc", "sys", "dev"};
    struct image_store *s;

    set_up();
    s = open_store();
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct archive *a = tar_open(ARCHIVE_FILTER_NONE);

        put_link(a, names[i], "/tmp", NULL);
        tar_close(a);
        refuse(s, "bad_image");
    }
    image_store_free(s);
}

TEST(a_bomb_is_stopped_and_its_space_given_back)
{
    static char zeros[1 << 20];
    struct image_store *s;
    struct archive_entry *e;
    struct archive *a;

    set_up();
    s = open_store();
    a = tar_open(ARCHIVE_FILTER_ZSTD);
    e = entry("zeros", AE_IFREG, 0644);
    archive_entry_set_size(e, 150 << 20);
    CHECK_INT(archive_write_header(a, e), ARCHIVE_OK);
    for (int i = 0; i < 150; i++)
        CHECK_INT(archive_write_data(a, zeros, sizeof(zeros)), (ssize_t)sizeof(zeros));
    archive_entry_free(e);
    tar_close(a);
    refuse(s, "image_too_large");
    image_store_free(s);
}

TEST(an_image_larger_than_the_cap_is_refused)
{
    static char content[200001];
    struct image_registries caps = {.max_bytes = sizeof(content) - 2};
    struct image_store *s;
    struct archive *a;

    set_up();
    s = open_store();
    memset(content, 'x', sizeof(content) - 1);
    a = tar_open(ARCHIVE_FILTER_NONE);
    put(a, entry("file", AE_IFREG, 0644), content);
    tar_close(a);
    image_set_registries(s, &caps);
    refuse(s, "image_too_large");
    caps.max_bytes++;
    image_set_registries(s, &caps);
    image_free(import(s, in_base("image.tar"), "x"));
    image_store_free(s);
}

static void unpack_limited(uint64_t bytes, uint64_t entries, struct err *err)
{
    auto_close int tar = open(in_base("image.tar"), O_RDONLY | O_CLOEXEC);
    auto_close int root = -1;
    struct layer layer;
    char diff_id[DIGEST_HEX];

    (void)mkdir(in_base("layer"), 0755);
    root = open(in_base("layer"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    layer_init(&layer, root);
    layer.max_bytes = bytes;
    layer.max_entries = entries;
    CHECK_INT(unpack_file(tar, &layer, diff_id, err), -1);
}

TEST(entries_and_bytes_stop_at_their_maximum)
{
    struct err err = {0};

    set_up();
    ordinary_tar(ARCHIVE_FILTER_NONE);
    unpack_limited(1 << 20, 3, &err);
    CHECK_INT(err.kind, ERR_TOO_LARGE);
    err.kind = ERR_NONE;
    unpack_limited(4, 100, &err);
    CHECK_INT(err.kind, ERR_TOO_LARGE);
}

TEST(a_damaged_archive_is_refused_as_a_whole)
{
    struct image_store *s;
    struct stat st;
    int fd;

    set_up();
    s = open_store();
    ordinary_tar(ARCHIVE_FILTER_GZIP);
    CHECK_INT(stat(in_base("image.tar"), &st), 0);
    CHECK_INT(truncate(in_base("image.tar"), st.st_size / 2), 0);
    refuse(s, "bad_image");
    fd = open(in_base("image.tar"), O_WRONLY | O_TRUNC | O_CLOEXEC);
    refuse(s, "bad_image"); /* empty */
    CHECK_INT(write_all(fd, "not an archive at all, just text", 32), 0);
    refuse(s, "bad_image");
    (void)close(fd);
    image_store_free(s);
}

TEST(an_archive_compressed_twice_is_refused)
{
    struct image_store *s;
    struct archive *a;

    set_up();
    s = open_store();
    a = archive_write_new();
    CHECK_INT(archive_write_set_format_pax(a), ARCHIVE_OK);
    CHECK_INT(archive_write_add_filter_gzip(a), ARCHIVE_OK);
    CHECK_INT(archive_write_add_filter_zstd(a), ARCHIVE_OK);
    CHECK_INT(archive_write_open_filename(a, in_base("image.tar")), ARCHIVE_OK);
    put(a, entry("file", AE_IFREG, 0644), "x");
    tar_close(a);
    refuse(s, "bad_image");
    image_store_free(s);
}

/* ---- folders ---- */

TEST(a_folder_becomes_an_image)
{
    struct image_store *s;
    struct image *image, *again;
    int fd;

    set_up();
    s = open_store();
    CHECK_INT(mkdir(in_base("root"), 0755), 0);
    CHECK_INT(mkdir(in_base("root/a"), 0700), 0);
    fd = open(in_base("root/a/\xc3\xa4"), O_CREAT | O_WRONLY | O_CLOEXEC, 0640);
    CHECK_INT(write_all(fd, "12345", 5), 0);
    CHECK_INT(fchown(fd, 5, 6), 0);
    (void)close(fd);
    CHECK_INT(link(in_base("root/a/\xc3\xa4"), in_base("root/b")), 0);
    CHECK_INT(symlink("../../..", in_base("root/up")), 0);
    CHECK_INT(mkfifo(in_base("root/fifo"), 0600), 0);
    image = import(s, in_base("root"), "folder");
    CHECK_INT(image->size, 5);
    CHECK_INT(look(image, "a").st_mode & 07777, 0700);
    CHECK_INT(look(image, "b").st_uid, 5);
    CHECK_INT(look(image, "b").st_nlink, 2);
    CHECK(S_ISLNK(look(image, "up").st_mode));
    CHECK(!has(image, "fifo"));
    again = import(s, in_base("root"), "again");
    CHECK_STR(again->id, image->id);
    CHECK_INT(count_layers(), 1);
    image_free(image);
    image_free(again);
    image_store_free(s);
}

/* Mounts that other tests do not see. */
static void own_mounts(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        SKIP("needs a mount namespace");
}

TEST(what_is_mounted_in_a_folder_is_no_part_of_it)
{
    struct image_store *s;
    struct image *image;

    set_up();
    own_mounts();
    s = open_store();
    CHECK_INT(mkdir(in_base("root"), 0755), 0);
    CHECK_INT(mkdir(in_base("root/kept"), 0755), 0);
    CHECK_INT(mkdir(in_base("root/on"), 0755), 0);
    CHECK_INT(mkdir(in_base("root/on/under"), 0755), 0);
    CHECK_INT(mount("none", in_base("root/on"), "tmpfs", 0, NULL), 0);
    CHECK_INT(mkdir(in_base("root/on/over"), 0755), 0);
    image = import(s, in_base("root"), "folder");
    CHECK(has(image, "kept") && has(image, "on"));
    CHECK(!has(image, "on/under") && !has(image, "on/over"));
    CHECK_INT(umount2(in_base("root/on"), MNT_DETACH), 0);
    image_free(image);
    image_store_free(s);
}

TEST(the_store_is_not_imported_into_itself)
{
    struct image_store *s;
    struct image *image;
    struct err err = {0};

    set_up();
    s = open_store();
    CHECK_INT(image_import(s, base, "x", NULL, NULL, &image, &err), -1);
    CHECK_INT(err.kind, ERR_INVALID);
    CHECK_INT(count_layers(), 0);
    image_store_free(s);
}

TEST(what_cannot_be_imported_is_said)
{
    static const char *const bad[] = {"relative", "/nonexistent", "/dev/null"};
    struct image_store *s;
    struct image *image;

    set_up();
    s = open_store();
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};

        CHECK_INT(image_import(s, bad[i], "x", NULL, NULL, &image, &err), -1);
        CHECK_INT(err.kind, ERR_INVALID);
    }
    image_store_free(s);
}

/* ---- the store ---- */

TEST(the_list_has_host_first_and_then_goes_by_name)
{
    struct image_store *s;
    struct image **images;
    unsigned n;

    set_up();
    s = open_store();
    ordinary_tar(ARCHIVE_FILTER_NONE);
    image_free(import(s, in_base("image.tar"), "team/b"));
    image_free(import(s, in_base("image.tar"), "a"));
    CHECK_INT(image_list(s, &images, &n, NULL), 0);
    CHECK_INT(n, 3);
    CHECK_STR(images[0]->name, "host");
    CHECK_STR(images[1]->name, "a");
    CHECK_STR(images[2]->name, "team/b");
    for (unsigned i = 0; i < n; i++)
        image_free(images[i]);
    free(images);
    image_store_free(s);
}

/* Another image in image.tar, with one file of that content. */
static void small_tar(const char *content)
{
    struct archive *a = tar_open(ARCHIVE_FILTER_NONE);

    put(a, entry("file", AE_IFREG, 0644), content);
    tar_close(a);
}

static void collect(struct image_store *s, char *used)
{
    char *ids[] = {used, NULL};
    struct err err = {0};

    if (image_collect(s, ids, &err) < 0 || image_purge(s, &err) < 0)
        TAP_FAIL("%s", err.text);
}

TEST(a_replaced_image_stays_while_a_sandbox_uses_it)
{
    struct image_store *s;
    struct image *old, *found;

    set_up();
    s = open_store();
    small_tar("old");
    old = import(s, in_base("image.tar"), "x");
    small_tar("new");
    image_free(import(s, in_base("image.tar"), "x"));
    CHECK_INT(count_layers(), 2);
    collect(s, old->id);
    CHECK_INT(count_layers(), 2);
    CHECK_INT(count_records(), 2);
    CHECK_INT(image_get(s, old->id, &found, NULL), 0); /* by id: it has no name */
    CHECK_STR(found->layers[0], old->layers[0]);
    CHECK_STR(found->name, old->id);
    image_free(found);
    collect(s, NULL);
    CHECK(!has(old, "."));
    CHECK_INT(count_layers(), 1);
    CHECK_INT(count_records(), 1);
    image_free(old);
    image_store_free(s);
}

TEST(what_was_set_aside_and_not_purged_goes_at_the_next_start)
{
    char *none[] = {NULL};
    struct image_store *s;

    set_up();
    s = open_store();
    ordinary_tar(ARCHIVE_FILTER_NONE);
    image_free(import(s, in_base("image.tar"), "x"));
    CHECK_INT(image_remove(s, "x", false, NULL), 0);
    CHECK_INT(image_collect(s, none, NULL), 0);
    CHECK_INT(count_layers(), 1);
    image_store_free(s);
    s = open_store();
    CHECK_INT(count_layers(), 0);
    image_store_free(s);
}

TEST(images_are_removed_unless_in_use)
{
    struct image_store *s;
    struct image *image;
    struct err err = {0};

    set_up();
    s = open_store();
    ordinary_tar(ARCHIVE_FILTER_NONE);
    image_free(import(s, in_base("image.tar"), "x"));
    CHECK_INT(image_remove(s, "host", false, &err), -1);
    CHECK_INT(err.kind, ERR_FORBIDDEN);
    CHECK_INT(image_remove(s, "x", true, &err), -1);
    CHECK_INT(err.kind, ERR_CONFLICT);
    CHECK_INT(image_remove(s, "x", false, &err), 0);
    CHECK_INT(image_get(s, "x", &image, &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
    CHECK_STR(err.code, "image_not_found");
    CHECK_INT(image_remove(s, "x", false, &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
    image_store_free(s);
}

TEST(what_an_interrupted_import_left_is_removed_at_the_next_start)
{
    struct image_store *s;

    set_up();
    image_store_free(open_store());
    CHECK_INT(mkdir(in_base("data/images/layers/tmp_000000000000000000000000"), 0755), 0);
    CHECK_INT(mkdir(in_base("data/images/layers/tmp_000000000000000000000000/deep"), 0), 0);
    s = open_store();
    CHECK_INT(count_layers(), 0);
    image_store_free(s);
}

TEST(a_damaged_name_keeps_layers_and_can_be_removed)
{
    struct image_store *s;
    struct image *image;
    struct err err = {0};
    char *none[] = {NULL};

    set_up();
    s = open_store();
    ordinary_tar(ARCHIVE_FILTER_NONE);
    image_free(import(s, in_base("image.tar"), "x"));
    CHECK_INT(truncate(in_base("data/images/names/x.json"), 10), 0);
    CHECK_INT(image_get(s, "x", &image, &err), -1);
    CHECK_INT(err.kind, ERR_INTERNAL);
    CHECK_INT(image_collect(s, none, &err), -1);
    CHECK_INT(count_layers(), 1);
    CHECK_INT(image_remove(s, "x", false, &err), 0);
    CHECK_INT(image_collect(s, none, &err), 0);
    CHECK_INT(image_purge(s, &err), 0);
    CHECK_INT(count_layers(), 0);
    image_store_free(s);
}

TEST(a_damaged_record_keeps_layers_and_its_name_can_be_removed)
{
    auto_free char *file = NULL;
    struct image_store *s;
    struct image *image, *found;
    struct err err = {0};
    char *none[] = {NULL};

    set_up();
    s = open_store();
    small_tar("x");
    image = import(s, in_base("image.tar"), "x");
    file = xasprintf("%s/data/images/records/%s.json", base, image->id + strlen(DIGEST_PREFIX));
    CHECK_INT(truncate(file, 10), 0);
    CHECK_INT(image_get(s, "x", &found, &err), -1);
    CHECK_INT(err.kind, ERR_INTERNAL);
    CHECK_INT(image_collect(s, none, &err), -1);
    CHECK_INT(count_layers(), 1);
    CHECK_INT(image_remove(s, "x", false, &err), 0);
    collect(s, NULL);
    CHECK_INT(count_layers(), 0);
    CHECK_INT(count_in("data/images/records"), 0);
    image_free(image);
    image_store_free(s);
}

TEST(a_document_without_its_record_goes_at_the_next_start)
{
    auto_free char *file = NULL;
    struct image_store *s;
    struct image *image;

    set_up();
    s = open_store();
    small_tar("x");
    image = import(s, in_base("image.tar"), "x");
    file = xasprintf("%s/data/images/records/%s.json", base, image->id + strlen(DIGEST_PREFIX));
    CHECK_INT(unlink(file), 0);
    image_free(image);
    image_store_free(s);
    s = open_store();
    CHECK_INT(count_in("data/images/records"), 0);
    image_store_free(s);
}

/* ---- what docker save and OCI layouts have ---- */

struct bytes {
    char data[1 << 20];
    size_t len;
    char digest[DIGEST_HEX];
};

static void seal(struct bytes *b)
{
    EVP_MD_CTX *sha = digest_new();

    digest_add(sha, b->data, b->len);
    digest_end(sha, b->digest);
}

/* A layer's tar: "name=content", "name/" for a folder. */
static void make_layer(struct bytes *b, const char *const *entries)
{
    struct archive *a = archive_write_new();

    CHECK_INT(archive_write_set_format_pax(a), ARCHIVE_OK);
    CHECK_INT(archive_write_open_memory(a, b->data, sizeof(b->data), &b->len), ARCHIVE_OK);
    for (; *entries; entries++) {
        const char *is = strchr(*entries, '=');
        auto_free char *name = xstrndup(*entries, is ? (size_t)(is - *entries) : strlen(*entries));

        put(a, entry(name, is ? AE_IFREG : AE_IFDIR, is ? 0644 : 0755), is ? is + 1 : NULL);
    }
    tar_close(a);
    seal(b);
}

static void make_text(struct bytes *b, json_t *o)
{
    auto_free char *text = json_dumps(o, JSON_COMPACT);

    json_decref(o);
    b->len = strlen(text);
    memcpy(b->data, text, b->len + 1);
    seal(b);
}

static json_t *diff_ids_json(const struct bytes *layers, size_t n)
{
    json_t *ids = json_array();

    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(ids, json_sprintf("sha256:%s", layers[i].digest));
    return ids;
}

static json_t *config_json(const struct bytes *layers, size_t n)
{
    return json_pack("{s:s, s:s, s:s, s:{s:[s,s], s:[s], s:[s,s], s:s, s:s, s:s, s:{s:{}}, "
                     "s:{s:s}}, s:{s:s, s:o}}",
                     "os", "linux", "architecture", "amd64", "created", "2024-01-02T03:04:05Z",
                     "config", "Env", "PATH=/bin", "A=1", "Entrypoint", "/run", "Cmd", "-x", "y",
                     "WorkingDir", "/srv", "User", "app", "StopSignal", "SIGINT", "ExposedPorts",
                     "80/tcp", "Labels", "team", "blue", "rootfs", "type", "layers", "diff_ids",
                     diff_ids_json(layers, n));
}

static void put_bytes(struct archive *a, const char *name, const struct bytes *b)
{
    struct archive_entry *e = entry(name, AE_IFREG, 0644);

    archive_entry_set_size(e, (int64_t)b->len);
    CHECK_INT(archive_write_header(a, e), ARCHIVE_OK);
    CHECK_INT(archive_write_data(a, b->data, b->len), (ssize_t)b->len);
    archive_entry_free(e);
}

static const char *const lower[] = {"etc/", "etc/a=lower", "etc/b=lower", "gone=x", NULL};
static const char *const upper[] = {"etc/", "etc/b=upper", ".wh.gone=", NULL};

/* Two layers and their configuration. */
static struct {
    struct bytes layers[3], config, other;
} pieces;

static void make_pieces(void)
{
    make_layer(&pieces.layers[0], lower);
    make_layer(&pieces.layers[1], upper);
    make_text(&pieces.config, config_json(pieces.layers, 2));
}

/* As old versions write it: layers in folders, one of them a link to the other, and the list at the
 * end or at the start. */
static void docker_tar(int filter, bool list_first, const char *tag)
{
    struct archive *a = tar_open(filter);
    auto_free char *config = xasprintf("%s.json", pieces.config.digest);
    auto_free char *first = xasprintf("%s/layer.tar", pieces.layers[0].digest);
    auto_free char *second = xasprintf("%s.tar", pieces.layers[1].digest);
    auto_free char *link = xasprintf("%s/layer.tar", pieces.layers[1].digest);
    auto_free char *target = xasprintf("../%s", second);
    json_t *tags = json_array();

    if (tag)
        (void)json_array_append_new(tags, json_string(tag));
    make_text(&pieces.other, json_pack("[{s:s, s:o, s:[s,s]}]", "Config", config, "RepoTags", tags,
                                       "Layers", first, link));
    if (list_first)
        put_bytes(a, "manifest.json", &pieces.other);
    put_link(a, link, target, NULL);
    put_bytes(a, second, &pieces.layers[1]);
    put_bytes(a, first, &pieces.layers[0]);
    put_bytes(a, config, &pieces.config);
    if (!list_first)
        put_bytes(a, "manifest.json", &pieces.other);
    tar_close(a);
}

static void check_pieces(const struct image *image)
{
    struct stat st;

    CHECK_INT(strv_len(image->layers), 3);
    CHECK_INT(look(image, "etc/b").st_size, 5);
    CHECK(!has(image, "etc/a"));
    CHECK(!has(image, ".wh.gone"));
    st = look(image, "gone"); /* overlayfs's whiteout */
    CHECK(S_ISCHR(st.st_mode) && st.st_rdev == 0);
    CHECK_STR(image->env[1], "A=1");
    CHECK_STR(image->entrypoint[0], "/run");
    CHECK_STR(image->cmd[1], "y");
    CHECK_STR(image->workdir, "/srv");
    CHECK_STR(image->user, "app");
    CHECK_STR(image->stop_signal, "SIGINT");
    CHECK_STR(image->ports[0], "80/tcp");
    CHECK_STR(json_string_value(json_object_get(image->labels, "team")), "blue");
    CHECK_STR(image->platform, "linux/amd64");
    CHECK_INT(image->created_ms, 1704164645000);
    CHECK_INT(image->size, 16);
}

TEST(what_docker_save_wrote_is_imported_in_any_order_and_compression)
{
    static const int filters[] = {ARCHIVE_FILTER_NONE, ARCHIVE_FILTER_GZIP};
    struct image_store *s;

    set_up();
    s = open_store();
    make_pieces();
    for (size_t i = 0; i < 4; i++) {
        struct image *image;

        docker_tar(filters[i / 2], i % 2, "docker.io/library/app:latest");
        image = import(s, in_base("image.tar"), NULL);
        CHECK_STR(image->name, "app");
        CHECK_STR(image->id + strlen(DIGEST_PREFIX), pieces.config.digest);
        check_pieces(image);
        CHECK_INT(image_remove(s, "app", false, NULL), 0);
        collect(s, NULL);
        CHECK_INT(count_layers(), 0);
        image_free(image);
    }
    image_store_free(s);
}

TEST(an_archive_that_does_not_name_its_image_needs_a_name)
{
    struct image_store *s;
    struct image *image;
    struct err err = {0};

    set_up();
    s = open_store();
    make_pieces();
    docker_tar(ARCHIVE_FILTER_NONE, false, NULL);
    CHECK_INT(image_import(s, in_base("image.tar"), NULL, NULL, NULL, &image, &err), -1);
    CHECK_INT(err.kind, ERR_INVALID);
    CHECK_INT(count_layers(), 0);
    image = import(s, in_base("image.tar"), "named");
    check_pieces(image);
    image_free(image);
    image_store_free(s);
}

static int refuse_presets(const char *name, void *arg, struct err *err)
{
    (void)arg;
    return strcmp(name, "python:3.12-slim") == 0
               ? err_code(err, ERR_FORBIDDEN, "image_reserved", "%s has a meaning", name)
               : 0;
}

TEST(an_archive_takes_no_name_from_another_image)
{
    struct image_store *s;
    struct image *first, *image;
    struct err err = {0};

    set_up();
    s = open_store();
    image_set_name_check(s, refuse_presets, NULL);
    small_tar("mine");
    first = import(s, in_base("image.tar"), "app:1");
    make_pieces();
    docker_tar(ARCHIVE_FILTER_NONE, false, "app:1");
    CHECK_INT(image_import(s, in_base("image.tar"), NULL, NULL, NULL, &image, &err), -1);
    CHECK_STR(err.code, "image_exists");
    CHECK_INT(err.kind, ERR_CONFLICT);
    CHECK_INT(image_get(s, "app:1", &image, &err), 0);
    CHECK_STR(image->id, first->id);
    image_free(image);
    /* Who gives the name means it, and the same image again takes nothing. */
    image_free(import(s, in_base("image.tar"), "app:1"));
    image_free(import(s, in_base("image.tar"), NULL));
    docker_tar(ARCHIVE_FILTER_NONE, false, "python:3.12-slim");
    CHECK_INT(image_import(s, in_base("image.tar"), NULL, NULL, NULL, &image, &err), -1);
    CHECK_STR(err.code, "image_reserved");
    image_free(import(s, in_base("image.tar"), "python:3.12-slim"));
    image_free(first);
    image_store_free(s);
}

TEST(a_layer_that_is_not_what_the_configuration_says_is_refused)
{
    struct image_store *s;

    set_up();
    s = open_store();
    make_pieces();
    make_layer(&pieces.layers[1], lower); /* the configuration has the other one */
    pieces.layers[1].data[0] ^= 1;
    docker_tar(ARCHIVE_FILTER_NONE, false, "bad");
    refuse(s, "bad_image");
    make_pieces();
    pieces.config.data[pieces.config.len - 1] = ' ';
    docker_tar(ARCHIVE_FILTER_NONE, false, "bad");
    refuse(s, "digest_mismatch");
    image_store_free(s);
}

TEST(a_saved_archive_that_names_what_is_not_in_it_is_refused)
{
    static const char *const files[] = {"../../../etc/passwd", "/etc/passwd", "nothing", ""};
    struct image_store *s;

    set_up();
    s = open_store();
    make_pieces();
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        struct archive *a = tar_open(ARCHIVE_FILTER_NONE);

        make_text(&pieces.other,
                  json_pack("[{s:s, s:[], s:[s]}]", "Config", files[i], "RepoTags", "Layers", "x"));
        put_bytes(a, "manifest.json", &pieces.other);
        tar_close(a);
        refuse(s, "bad_image");
    }
    image_store_free(s);
}

static json_t *blob_json(const char *type, const struct bytes *b)
{
    return json_pack("{s:s+, s:s+, s:I}", "mediaType", "application/vnd.oci.image.", type, "digest",
                     "sha256:", b->digest, "size", (json_int_t)b->len);
}

/* An OCI layout of the pieces, as a tar or as a folder; which of its blobs is damaged (0 = none).
 */
static void write_layout(bool as_tar, const char *name, int damaged)
{
    static struct bytes manifest, index, mark;
    struct archive *a = as_tar ? tar_open(ARCHIVE_FILTER_NONE) : archive_write_disk_new();
    struct bytes *blobs[] = {&pieces.layers[0], &pieces.layers[1], &pieces.config, &manifest};

    make_text(&mark, json_pack("{s:s}", "imageLayoutVersion", "1.0.0"));
    make_text(&manifest, json_pack("{s:i, s:o, s:[o,o]}", "schemaVersion", 2, "config",
                                   blob_json("config.v1+json", &pieces.config), "layers",
                                   blob_json("layer.v1.tar", &pieces.layers[0]),
                                   blob_json("layer.v1.tar", &pieces.layers[1])));
    {
        json_t *m = blob_json("manifest.v1+json", &manifest);

        if (name)
            (void)json_object_set_new(
                m, "annotations", json_pack("{s:s}", "org.opencontainers.image.ref.name", name));
        make_text(&index, json_pack("{s:i, s:[o]}", "schemaVersion", 2, "manifests", m));
    }
    if (damaged)
        blobs[damaged - 1]->data[blobs[damaged - 1]->len / 2] ^= 1;
    if (!as_tar)
        CHECK_INT(chdir(in_base("layout")), 0);
    put_bytes(a, "oci-layout", &mark);
    put_bytes(a, "index.json", &index);
    for (size_t i = 0; i < ARRAY_LEN(blobs); i++) {
        auto_free char *file = xasprintf("blobs/sha256/%s", blobs[i]->digest);

        put_bytes(a, file, blobs[i]);
    }
    tar_close(a);
    CHECK_INT(chdir("/"), 0);
}

TEST(an_oci_layout_is_imported_as_a_folder_and_as_an_archive)
{
    struct image_store *s;
    struct image *image;

    set_up();
    s = open_store();
    make_pieces();
    CHECK_INT(mkdir(in_base("layout"), 0755), 0);
    write_layout(false, "docker.io/team/app:1.0", 0);
    image = import(s, in_base("layout"), NULL);
    CHECK_STR(image->name, "team/app:1.0");
    CHECK(str_starts(image->digest, "sha256:"));
    check_pieces(image);
    image_free(image);
    write_layout(true, "latest", 0); /* a tag is no name */
    image = import(s, in_base("image.tar"), "other");
    check_pieces(image);
    CHECK_INT(count_layers(), 2);
    CHECK_INT(count_records(), 1);
    image_free(image);
    image_store_free(s);
}

TEST(a_damaged_blob_of_a_layout_is_refused)
{
    struct image_store *s;

    set_up();
    s = open_store();
    for (int which = 1; which <= 4; which++) {
        struct image *image;
        struct err err = {0};

        make_pieces();
        write_layout(true, NULL, which);
        CHECK_INT(image_import(s, in_base("image.tar"), "bad", NULL, NULL, &image, &err), -1);
        CHECK_INT(err.kind, ERR_INVALID);
        CHECK_INT(count_layers(), 0);
        CHECK_INT(count_records(), 0);
    }
    image_store_free(s);
}

TEST(of_several_images_in_an_archive_the_named_one_is_taken)
{
    struct image_store *s;
    struct image *image;
    struct err err = {0};
    struct archive *a;
    auto_free char *file = NULL, *layer = NULL;

    set_up();
    s = open_store();
    make_layer(&pieces.layers[0], lower);
    make_text(&pieces.config, config_json(pieces.layers, 1));
    file = xasprintf("blobs/sha256/%s", pieces.config.digest);
    layer = xasprintf("blobs/sha256/%s", pieces.layers[0].digest);
    make_text(&pieces.other, json_pack("[{s:s, s:[s], s:[s]}, {s:s, s:[s,s], s:[s]}]", "Config",
                                       "missing", "RepoTags", "one:1", "Layers", layer, "Config",
                                       file, "RepoTags", "two:2", "two:latest", "Layers", layer));
    a = tar_open(ARCHIVE_FILTER_NONE);
    put_bytes(a, "manifest.json", &pieces.other);
    put_bytes(a, file, &pieces.config);
    put_bytes(a, layer, &pieces.layers[0]);
    tar_close(a);
    CHECK_INT(image_import(s, in_base("image.tar"), NULL, NULL, NULL, &image, &err), -1);
    CHECK_STR(err.code, "several_images");
    image = import(s, in_base("image.tar"), "docker.io/library/two");
    CHECK_STR(image->name, "two");
    image_free(image);
    image_store_free(s);
}

TEST(a_layer_that_occurs_twice_is_stacked_once)
{
    struct image_store *s;
    struct image *image;
    struct archive *a;
    auto_free char *config = NULL, *one = NULL, *two = NULL;

    set_up();
    s = open_store();
    make_layer(&pieces.layers[0], lower);
    make_layer(&pieces.layers[1], upper);
    make_layer(&pieces.layers[2], lower);
    make_text(&pieces.config, config_json(pieces.layers, 3));
    config = xasprintf("%s.json", pieces.config.digest);
    one = xasprintf("%s.tar", pieces.layers[0].digest);
    two = xasprintf("%s.tar", pieces.layers[1].digest);
    make_text(&pieces.other, json_pack("[{s:s, s:[], s:[s,s,s]}]", "Config", config, "RepoTags",
                                       "Layers", one, two, one));
    a = tar_open(ARCHIVE_FILTER_NONE);
    put_bytes(a, one, &pieces.layers[0]);
    put_bytes(a, two, &pieces.layers[1]);
    put_bytes(a, config, &pieces.config);
    put_bytes(a, "manifest.json", &pieces.other);
    tar_close(a);
    image = import(s, in_base("image.tar"), "twice");
    CHECK_INT(strv_len(image->layers), 3); /* two, and what is below every image */
    CHECK_INT(count_layers(), 2);
    CHECK(has(image, "etc/a"));
    image_free(image);
    image_store_free(s);
}

/* ---- names and ids ---- */

TEST(an_image_has_as_many_names_as_it_is_given)
{
    struct image_store *s;
    struct image *image, *tagged;
    struct err err = {0};

    set_up();
    s = open_store();
    small_tar("x");
    image = import(s, in_base("image.tar"), "one");
    CHECK_INT(image_tag(s, "one", "docker.io/library/two:latest", &tagged, NULL), 0);
    CHECK_STR(tagged->name, "two");
    CHECK_STR(tagged->id, image->id);
    image_free(tagged);
    /* With two names, one may go even while sandboxes use the image. */
    CHECK_INT(image_remove(s, "one", true, NULL), 0);
    CHECK_INT(image_remove(s, "two", true, &err), -1);
    CHECK_INT(err.kind, ERR_CONFLICT);
    collect(s, NULL);
    CHECK_INT(image_get(s, "two:latest", &tagged, NULL), 0);
    CHECK_INT(look(tagged, "file").st_size, 1);
    image_free(tagged);
    CHECK_INT(image_tag(s, "two", "host", &tagged, &err), -1);
    CHECK_INT(err.kind, ERR_FORBIDDEN);
    CHECK_INT(image_tag(s, "host", "mine", &tagged, &err), -1);
    CHECK_INT(err.kind, ERR_FORBIDDEN);
    CHECK_INT(image_tag(s, "none", "mine", &tagged, &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
    CHECK_INT(image_tag(s, "two", "Bad Name", &tagged, &err), -1);
    CHECK_INT(err.kind, ERR_INVALID);
    image_free(image);
    image_store_free(s);
}

TEST(twelve_digits_of_an_id_are_enough)
{
    char digits[80];
    struct image_store *s;
    struct image *image, *found;
    struct err err = {0};

    set_up();
    s = open_store();
    small_tar("x");
    image = import(s, in_base("image.tar"), "one");
    CHECK_INT(image_get(s, image->id, &found, NULL), 0);
    CHECK_STR(found->name, "one");
    image_free(found);
    (void)snprintf(digits, sizeof(digits), "%.12s", image->id + strlen(DIGEST_PREFIX));
    CHECK_INT(image_get(s, digits, &found, NULL), 0);
    CHECK_STR(found->id, image->id);
    image_free(found);
    digits[11] = '\0'; /* eleven are a name */
    CHECK_INT(image_get(s, digits, &found, &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
    CHECK_INT(image_get(s, "sha256:000000000000", &found, &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
    CHECK_INT(image_remove(s, image->id, false, NULL), 0);
    CHECK_INT(image_get(s, "one", &found, &err), -1);
    image_free(image);
    image_store_free(s);
}

TEST(shared_layers_survive_the_removal_of_one_image)
{
    struct image_store *s;
    struct image *one, *two;

    set_up();
    s = open_store();
    make_pieces();
    docker_tar(ARCHIVE_FILTER_NONE, false, "two");
    two = import(s, in_base("image.tar"), NULL);
    /* The lower layer alone is an image too. */
    make_text(&pieces.config, config_json(pieces.layers, 1));
    {
        auto_free char *config = xasprintf("%s.json", pieces.config.digest);
        auto_free char *layer = xasprintf("%s.tar", pieces.layers[0].digest);
        struct archive *a = tar_open(ARCHIVE_FILTER_NONE);

        make_text(&pieces.other,
                  json_pack("[{s:s, s:[], s:[s]}]", "Config", config, "RepoTags", "Layers", layer));
        put_bytes(a, config, &pieces.config);
        put_bytes(a, layer, &pieces.layers[0]);
        put_bytes(a, "manifest.json", &pieces.other);
        tar_close(a);
    }
    one = import(s, in_base("image.tar"), "one");
    CHECK_INT(count_layers(), 2);
    CHECK_STR(one->layers[0], two->layers[1]);
    CHECK_INT(image_remove(s, "two", false, NULL), 0);
    collect(s, NULL);
    CHECK_INT(count_layers(), 1);
    CHECK(has(one, "etc/a"));
    CHECK_INT(image_remove(s, "one", false, NULL), 0);
    collect(s, NULL);
    CHECK_INT(count_layers(), 0);
    image_free(one);
    image_free(two);
    image_store_free(s);
}

/* ---- pruning ---- */

static void used_ago(const char *name, int seconds)
{
    auto_free char *file = xasprintf("%s/data/images/names/%s.json", base, name);
    struct timespec times[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    json_t *o = json_load_file(file, 0, NULL);

    CHECK(o);
    (void)json_object_set_new(o, "pulled_ms", json_integer(1));
    CHECK_INT(json_dump_file(o, file, 0), 0);
    json_decref(o);
    CHECK_INT(utimensat(AT_FDCWD, file, times, 0), 0);
}

/* Images a, b, c of 10, 20, 30 bytes, last used 3, 2, 1 hours ago. */
static struct image_store *three_images(char *id_of_a)
{
    static const char *const content[] = {"0123456789", "01234567890123456789",
                                          "012345678901234567890123456789"};
    static const char *const names[] = {"a", "b", "c"};
    struct image_store *s = open_store();

    for (int i = 0; i < 3; i++) {
        struct image *image;

        small_tar(content[i]);
        image = import(s, in_base("image.tar"), names[i]);
        CHECK_INT(image->size, 10 * (i + 1));
        if (i == 0)
            (void)snprintf(id_of_a, 80, "%s", image->id);
        image_free(image);
        used_ago(names[i], (3 - i) * 3600);
    }
    return s;
}

/* "ab" = these went. */
static void prune(struct image_store *s, struct image_prune p, const char *want, int64_t want_bytes)
{
    struct image **removed;
    struct err err = {0};
    int64_t bytes;
    char got[16] = "";
    unsigned n;

    if (image_prune(s, &p, &removed, &n, &bytes, &err) < 0)
        TAP_FAIL("%s", err.text);
    for (unsigned i = 0; i < n; i++) {
        got[i] = removed[i]->name[0];
        image_free(removed[i]);
    }
    free(removed);
    CHECK_STR(got, want);
    CHECK_INT(bytes, want_bytes);
}

TEST(pruning_by_age_takes_what_was_not_used_for_that_long)
{
    struct image_store *s;
    char a[80];

    set_up();
    s = three_images(a);
    prune(s, (struct image_prune){.unused_ms = 5400000, .dry_run = true}, "ab", 30);
    prune(s, (struct image_prune){.unused_ms = 36000000}, "", 0);
    prune(s, (struct image_prune){.unused_ms = 5400000}, "ab", 30);
    collect(s, NULL);
    CHECK_INT(count_layers(), 1);
    prune(s, (struct image_prune){0}, "c", 30);
    collect(s, NULL);
    CHECK_INT(count_layers(), 0);
    image_store_free(s);
}

TEST(pruning_to_a_budget_takes_the_least_recently_used)
{
    struct image_store *s;
    char a[80];

    set_up();
    s = three_images(a);
    prune(s, (struct image_prune){.keep_bytes = 60}, "", 0);
    image_touch(s, "a");
    prune(s, (struct image_prune){.keep_bytes = 41, .dry_run = true}, "b", 20);
    prune(s, (struct image_prune){.keep_bytes = 10}, "bc", 50);
    image_store_free(s);
}

TEST(pruning_leaves_what_sandboxes_use)
{
    struct image_store *s;
    char a[80], *used[] = {a, NULL};

    set_up();
    s = three_images(a);
    prune(s, (struct image_prune){.used_ids = used}, "bc", 50);
    collect(s, a);
    CHECK_INT(count_layers(), 1);
    image_store_free(s);
}

TEST(what_images_share_counts_once_and_goes_with_the_last)
{
    struct image_store *s;
    struct image *image;
    char a[80];

    set_up();
    s = three_images(a);
    CHECK_INT(image_tag(s, "a", "d", &image, NULL), 0);
    image_free(image);
    prune(s, (struct image_prune){.unused_ms = 9000000}, "a", 0);
    prune(s, (struct image_prune){.keep_bytes = 59}, "b", 20);
    image_store_free(s);
}

/* ---- work that is watched, ended, killed ---- */

struct watch {
    struct image_store *store;
    unsigned events, resolving;
    bool stop, kill, collect;
};

static pid_t worker_pid(void)
{
    auto_free char *file = xasprintf("/proc/self/task/%d/children", getpid());
    char text[64] = "";

    CHECK(read_file_at(AT_FDCWD, file, text, sizeof(text)) > 0);
    return (pid_t)strtol(text, NULL, 10);
}

static int on_event(const json_t *event, void *arg)
{
    const char *name = json_string_value(json_object_get(event, "event"));
    struct watch *w = arg;
    char *none[] = {NULL};

    if (!event)
        return 0;
    w->events++;
    w->resolving += strcmp(name, "resolving") == 0;
    if (w->kill && w->events == 1)
        CHECK_INT(kill(worker_pid(), SIGKILL), 0);
    if (w->collect)
        CHECK_INT(image_collect(w->store, none, NULL), 0);
    return w->stop ? -1 : 0;
}

/* A registry that takes connections and says nothing. */
static int silent_registry(char *reference, size_t size)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sa);

    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 && listen(fd, 8) == 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    (void)snprintf(reference, size, "127.0.0.1:%u/x", ntohs(sa.sin_port));
    return fd;
}

/* The file under n more names, more than can be added: ids, or names of images. */
static void link_names(const char *folder, const char *file, bool ids, unsigned n)
{
    auto_close int fd = open(in_base(folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (unsigned i = 0; i < n; i++) {
        auto_free char *name =
            ids ? xasprintf("%064x%s", i, strchr(file, '.')) : xasprintf("n:%u.json", i);

        CHECK_INT(linkat(fd, file, fd, name, 0), 0);
    }
}

TEST(more_names_than_can_be_added_are_listed_and_removed)
{
    struct image_prune prune = {.dry_run = true};
    auto_strv char **no_ids = xcalloc(1, sizeof(*no_ids));
    struct image **all, *image;
    struct image_store *s;
    struct err err = {0};
    int64_t bytes;
    unsigned n;

    set_up();
    s = open_store();
    small_tar("x");
    image_free(import(s, in_base("image.tar"), "a:1"));
    link_names("data/images/names", "a:1.json", false, NAMES_MAX + 1);
    CHECK_INT(image_list(s, &all, &n, &err), 0);
    CHECK_INT(n, NAMES_MAX + 3);
    while (n > 0)
        image_free(all[--n]);
    free(all);
    CHECK_INT(image_prune(s, &prune, &all, &n, &bytes, &err), 0);
    CHECK_INT(n, NAMES_MAX + 2);
    while (n > 0)
        image_free(all[--n]);
    free(all);
    CHECK_INT(image_collect(s, no_ids, &err), 0);
    CHECK_INT(image_tag(s, "a:1", "b:1", &image, &err), -1);
    CHECK_STR(err.code, "image_limit");
    CHECK_INT(err.kind, ERR_LIMIT);
    CHECK_INT(image_import(s, in_base("image.tar"), "b:1", NULL, NULL, &image, &err), -1);
    CHECK_STR(err.code, "image_limit");
    CHECK_INT(image_tag(s, "a:1", "n:5", &image, &err), 0); /* it is there already */
    image_free(image);
    for (unsigned i = 0; i < 3; i++) {
        auto_free char *name = xasprintf("n:%u", i);

        CHECK_INT(image_remove(s, name, false, &err), 0);
    }
    CHECK_INT(image_tag(s, "a:1", "b:1", &image, &err), 0);
    image_free(image);
    image_store_free(s);
}

TEST(more_records_than_can_be_added_do_not_keep_the_store_from_opening)
{
    auto_strv char **no_ids = xcalloc(1, sizeof(*no_ids));
    auto_free char *record = NULL, *document = NULL;
    struct image_store *s;
    struct image *image;
    struct err err = {0};

    set_up();
    s = open_store();
    small_tar("x");
    image = import(s, in_base("image.tar"), "a:1");
    record = xasprintf("%s.json", image->id + strlen(DIGEST_PREFIX));
    document = xasprintf("%s.config", image->id + strlen(DIGEST_PREFIX));
    image_free(image);
    link_names("data/images/records", record, true, RECORDS_MAX);
    link_names("data/images/records", document, true, RECORDS_MAX);
    image_store_free(s);
    s = open_store();
    small_tar("y");
    CHECK_INT(image_import(s, in_base("image.tar"), "b:1", NULL, NULL, &image, &err), -1);
    CHECK_STR(err.code, "image_limit");
    CHECK_INT(image_collect(s, no_ids, &err), 0);
    CHECK_INT(count_records(), 1);
    image_free(import(s, in_base("image.tar"), "b:1"));
    image_store_free(s);
}

TEST(work_that_nobody_waits_for_ends_and_leaves_nothing)
{
    char reference[64];
    struct watch w = {.stop = true};
    struct image_pull pull = {.reference = reference, .insecure = true};
    struct image_store *s;
    struct image *image;
    struct err err = {0};
    int fd;

    set_up();
    s = open_store();
    fd = silent_registry(reference, sizeof(reference));
    CHECK_INT(image_pull(s, &pull, on_event, &w, &image, &err), -1);
    CHECK_STR(err.code, "cancelled");
    CHECK_INT(w.events, 1);
    CHECK_INT(w.resolving, 1);
    CHECK_INT(count_layers(), 0);
    CHECK_INT(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    (void)close(fd);
    image_store_free(s);
}

TEST(a_worker_that_is_killed_leaves_nothing)
{
    char reference[64];
    struct watch w = {.kill = true};
    struct image_pull pull = {.reference = reference, .insecure = true};
    struct image_store *s;
    struct image *image;
    struct err err = {0};
    int fd;

    set_up();
    s = open_store();
    fd = silent_registry(reference, sizeof(reference));
    CHECK_INT(image_pull(s, &pull, on_event, &w, &image, &err), -1);
    CHECK_STR(err.code, "image_worker_died");
    CHECK_INT(count_layers(), 0);
    small_tar("x"); /* and the store still works */
    image_free(import(s, in_base("image.tar"), "x"));
    (void)close(fd);
    image_store_free(s);
}

/* The store on a disk of its own, of so many MiB; other tests do not see it. */
static void small_disk(unsigned mib)
{
    auto_free char *size = xasprintf("size=%um", mib);

    own_mounts();
    CHECK_INT(mount("none", in_base("data"), "tmpfs", 0, size), 0);
}

TEST(a_disk_that_is_nearly_full_is_left_alone)
{
    auto_free char *much = xcalloc(1, (16u << 20) + 1);
    struct image_store *s;
    struct archive *a;
    struct image *image;
    struct err err = {0};

    set_up();
    small_disk(24);
    s = open_store();
    small_tar("x");
    if (image_import(s, in_base("image.tar"), "small", NULL, NULL, &image, &err) < 0)
        SKIP("needs a tmpfs whose mounts can translate ids (Linux 6.3)");
    image_free(image);
    memset(much, 'x', 16u << 20);
    a = tar_open(ARCHIVE_FILTER_NONE);
    put(a, entry("one", AE_IFREG, 0644), much);
    put(a, entry("two", AE_IFREG, 0644), much);
    tar_close(a);
    CHECK_INT(image_import(s, in_base("image.tar"), "large", NULL, NULL, &image, &err), -1);
    CHECK_STR(err.code, "no_space");
    CHECK_INT(err.kind, ERR_UNAVAILABLE);
    CHECK_INT(count_layers(), 1);
    image_store_free(s);
    (void)umount2(in_base("data"), MNT_DETACH);
}

/* Everything in a file of the worker's in /proc. */
static void worker_file(const char *name, char *text, size_t size)
{
    auto_free char *file = xasprintf("/proc/%d/%s", worker_pid(), name);
    ssize_t n = read_file_at(AT_FDCWD, file, text, size);

    CHECK(n > 0);
    for (ssize_t i = 0; i < n - 1; i++) /* environ has a NUL behind each */
        if (text[i] == '\0')
            text[i] = '\n';
}

static int look_at_worker(const json_t *event, void *arg)
{
    char text[8192];

    (void)event, (void)arg;
    worker_file("status", text, sizeof(text));
    /* DAC_OVERRIDE, SYS_ADMIN; tests/security/test_image_worker.py looks at what it starts */
    CHECK(strstr(text, "CapEff:\t0000000000200002\n"));
    CHECK(strstr(text, "CapBnd:\t0000000000200002\n"));
    CHECK(strstr(text, "NoNewPrivs:\t1\n"));
    worker_file("comm", text, sizeof(text));
    CHECK_STR(text, "cay-image\n");
    worker_file("environ", text, sizeof(text));
    CHECK(str_starts(text, "HOME="));
    CHECK(strstr(text, "\nPATH=") && !strstr(text, "CAY_IMAGE_WORKER"));
    return -1;
}

TEST(a_worker_has_only_the_rights_that_it_needs)
{
    char reference[64];
    struct image_pull pull = {.reference = reference, .insecure = true};
    struct image_store *s;
    struct image *image;
    int fd;

    set_up();
    s = open_store();
    fd = silent_registry(reference, sizeof(reference));
    CHECK_INT(image_pull(s, &pull, look_at_worker, NULL, &image, NULL), -1);
    (void)close(fd);
    image_store_free(s);
}

TEST(a_collection_beside_a_worker_takes_nothing_that_its_image_has)
{
    struct watch w = {.collect = true};
    struct image_store *s;
    struct image *image;
    struct err err = {0};

    set_up();
    w.store = s = open_store();
    make_pieces();
    docker_tar(ARCHIVE_FILTER_NONE, false, "app");
    image_free(import(s, in_base("image.tar"), NULL));
    CHECK_INT(image_remove(s, "app", false, NULL), 0);
    /* Its layers have no name now: they go while the worker, which found them here, is at work. */
    if (image_import(s, in_base("image.tar"), "again", on_event, &w, &image, &err) < 0)
        TAP_FAIL("%s", err.text);
    CHECK(w.events > 0);
    check_pieces(image);
    CHECK(count_layers() > 2); /* those that were set aside are not yet deleted */
    collect(s, NULL);
    CHECK_INT(count_layers(), 2);
    check_pieces(image);
    image_free(image);
    image_store_free(s);
}

TEST(a_pull_that_cannot_be_says_why)
{
    static const char *const bad[] = {"Bad Name", "host", "", "x/../y"};
    struct image_store *s;
    struct image *image;

    set_up();
    s = open_store();
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct image_pull pull = {.reference = bad[i]};
        struct err err = {0};

        CHECK_INT(image_pull(s, &pull, NULL, NULL, &image, &err), -1);
        CHECK(err.kind == ERR_INVALID || err.kind == ERR_FORBIDDEN);
    }
    image_store_free(s);
}

/* ---- commit and export ---- */

/* What a sandbox with ids from 100000 on left in its own filesystem. */
static int make_scratch(void)
{
    int fd;

    CHECK_INT(mkdir(in_base("scratch"), 0755), 0);
    CHECK_INT(mkdir(in_base("scratch/upper"), 0755), 0);
    CHECK_INT(chown(in_base("scratch/upper"), 100000, 100000), 0);
    fd = open(in_base("scratch/upper/new"), O_CREAT | O_WRONLY | O_CLOEXEC, 0640);
    CHECK_INT(write_all(fd, "12345", 5), 0);
    CHECK_INT(fchown(fd, 101000, 100000), 0);
    (void)close(fd);
    CHECK_INT(mknod(in_base("scratch/upper/file"), S_IFCHR, 0), 0);
    CHECK_INT(chown(in_base("scratch/upper/file"), 100000, 100000), 0);
    return open(in_base("scratch"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

TEST(a_sandbox_becomes_an_image_on_top_of_its_own)
{
    json_t *config = json_pack("{s:[s,s], s:s, s:[s], s:{s:s}}", "env", "PATH=/bin", "B=2",
                               "workdir", "/work", "cmd", "top", "labels", "by", "me");
    struct image_store *s;
    struct image *below, *image, *found;
    struct err err = {0};
    auto_close int scratch = -1;

    set_up();
    s = open_store();
    small_tar("below");
    below = import(s, in_base("image.tar"), "below");
    scratch = make_scratch();
    CHECK_INT(image_remove(s, "below", false, NULL), 0); /* its name is gone, its sandbox is not */
    {
        struct image_commit commit = {.base_id = below->id,
                                      .name = "mine:1",
                                      .scratch_fd = scratch,
                                      .ids_base = 100000,
                                      .config = config};

        if (image_commit(s, &commit, &image, &err) < 0)
            TAP_FAIL("%s", err.text);
    }
    CHECK_INT(strv_len(image->layers), 3);
    CHECK_STR(image->layers[1], below->layers[0]);
    CHECK_INT(look(image, "new").st_uid, 1000);
    CHECK_INT(look(image, "new").st_gid, 0);
    CHECK(S_ISCHR(look(image, "file").st_mode));
    CHECK_INT(image->size, 10);
    CHECK_STR(image->env[1], "B=2");
    CHECK_STR(image->workdir, "/work");
    CHECK_STR(image->cmd[0], "top");
    CHECK_STR(json_string_value(json_object_get(image->labels, "by")), "me");
    collect(s, NULL);
    CHECK_INT(image_get(s, "mine:1", &found, NULL), 0);
    CHECK_STR(found->id, image->id);
    CHECK_INT(count_layers(), 2);
    image_free(found);
    image_free(image);
    image_free(below);
    json_decref(config);
    image_store_free(s);
}

TEST(what_was_committed_on_the_host_stands_on_the_host)
{
    struct image_commit commit = {.base_id = "host", .name = "mine", .ids_base = 100000};
    struct image_store *s;
    struct image *host, *image, *again;
    struct err err = {0};
    auto_close int scratch = -1;

    set_up();
    s = open_store();
    commit.scratch_fd = scratch = make_scratch();
    if (image_commit(s, &commit, &image, &err) < 0)
        TAP_FAIL("%s", err.text);
    CHECK_INT(image_get(s, "host", &host, NULL), 0);
    CHECK_INT(strv_len(image->layers), 2);
    CHECK_STR(image->layers[1], host->layers[0]);
    CHECK_STR(image->binds[0], "/usr");
    CHECK_INT(image_export(s, "mine", scratch, &err), -1);
    CHECK_INT(err.kind, ERR_UNSUPPORTED);
    CHECK_INT(image_export(s, "host", scratch, &err), -1);
    CHECK_INT(err.kind, ERR_UNSUPPORTED);
    /* And one more on top of that. */
    commit.base_id = image->id;
    commit.name = "more";
    if (image_commit(s, &commit, &again, &err) < 0)
        TAP_FAIL("%s", err.text);
    CHECK_STR(again->layers[strv_len(again->layers) - 1], host->layers[0]);
    image_free(again);
    image_free(image);
    image_free(host);
    image_store_free(s);
}

TEST(an_image_in_use_on_the_host_keeps_old_host_layers)
{
    struct image_commit commit = {.base_id = "host", .name = "mine", .ids_base = 100000};
    static const char old[] = "data/images/host/"
                              "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    struct image_store *s;
    struct image *image;
    auto_close int scratch = -1;

    set_up();
    s = open_store();
    commit.scratch_fd = scratch = make_scratch();
    CHECK_INT(image_commit(s, &commit, &image, NULL), 0);
    CHECK_INT(mkdir(in_base(old), 0755), 0);
    collect(s, image->id);
    CHECK_INT(access(in_base(old), F_OK), 0);
    collect(s, NULL);
    CHECK_INT(access(in_base(old), F_OK), -1);
    image_free(image);
    image_store_free(s);
}

/* Into image.tar. */
static void export_image(struct image_store *s, const char *name)
{
    auto_close int fd = open(in_base("image.tar"), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    struct err err = {0};

    if (image_export(s, name, fd, &err) < 0)
        TAP_FAIL("%s", err.text);
}

TEST(what_is_exported_comes_back_the_same)
{
    struct image_store *s;
    struct image *first, *second, *third;

    set_up();
    s = open_store();
    make_pieces();
    docker_tar(ARCHIVE_FILTER_NONE, false, "team/app:1");
    first = import(s, in_base("image.tar"), NULL);
    export_image(s, "team/app:1");
    CHECK_INT(count_layers(), 2);
    CHECK_INT(image_remove(s, "team/app:1", false, NULL), 0);
    collect(s, NULL);
    second = import(s, in_base("image.tar"), NULL);
    CHECK_STR(second->name, "team/app:1");
    check_pieces(second);
    CHECK_STR(second->env[0], first->env[0]);
    /* Packed once more it is the very same. */
    export_image(s, second->id);
    third = import(s, in_base("image.tar"), "third");
    CHECK_STR(third->id, second->id);
    CHECK_INT(count_layers(), 2);
    image_free(first);
    image_free(second);
    image_free(third);
    image_store_free(s);
}

struct exporting {
    struct image_store *store;
    int fd, result;
    struct err err;
};

static void *export_to_pipe(void *arg)
{
    struct exporting *x = arg;

    x->result = image_export(x->store, "top", x->fd, &x->err);
    close_fd(&x->fd);
    return NULL;
}

/* Two layers that are each larger than a pipe and the blocks before it. */
static void make_large(struct image_store *s)
{
    auto_free char *noise = xcalloc(1, 400000);
    struct image_commit commit = {.name = "top", .ids_base = 100000};
    auto_close int scratch = -1, fd = -1;
    struct image *below, *top;
    struct err err = {0};

    memset(noise, 'x', 399999);
    small_tar(noise);
    below = import(s, in_base("image.tar"), "below");
    commit.scratch_fd = scratch = make_scratch();
    commit.base_id = below->id;
    fd = open(in_base("scratch/upper/large"), O_CREAT | O_WRONLY | O_CLOEXEC, 0640);
    CHECK_INT(write_all(fd, noise, 399999), 0);
    CHECK_INT(fchown(fd, 100000, 100000), 0);
    if (image_commit(s, &commit, &top, &err) < 0)
        TAP_FAIL("%s", err.text);
    image_free(below);
    image_free(top);
}

TEST(an_image_that_is_removed_while_it_is_exported_is_exported_whole)
{
    auto_close int tar = -1;
    struct exporting x;
    struct image *image;
    int ends[2];
    pthread_t thread;
    char data[65536];
    ssize_t n;

    set_up();
    x = (struct exporting){.store = open_store()};
    make_large(x.store);
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    x.fd = ends[1];
    CHECK_INT(pthread_create(&thread, NULL, export_to_pipe, &x), 0);
    n = read(ends[0], data, 1); /* it is under way, and the second layer is not yet read */
    CHECK_INT(n, 1);
    CHECK_INT(image_remove(x.store, "top", false, NULL), 0);
    CHECK_INT(image_remove(x.store, "below", false, NULL), 0);
    collect(x.store, NULL);
    tar = open(in_base("image.tar"), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    do
        CHECK_INT(write_all(tar, data, (size_t)n), 0);
    while ((n = read(ends[0], data, sizeof(data))) > 0);
    CHECK_INT(pthread_join(thread, NULL), 0);
    if (x.result < 0)
        TAP_FAIL("%s", x.err.text);
    collect(x.store, NULL); /* now they go */
    CHECK_INT(count_layers(), 0);
    image = import(x.store, in_base("image.tar"), NULL);
    CHECK_INT(look(image, "large").st_size, 399999);
    CHECK_INT(image->size, 2 * 399999 + 5);
    image_free(image);
    image_store_free(x.store);
}

static void check_full(const struct err *err)
{
    CHECK_STR(err->code ? err->code : "", "no_space");
    CHECK_INT(err->kind, ERR_UNAVAILABLE);
    CHECK(strstr(err->text, "cay image prune"));
}

TEST(a_full_disk_is_said_to_be_one_and_nothing_stays_of_what_did_not_fit)
{
    struct image_commit commit = {.name = "b", .ids_base = 100000};
    auto_free char *much = xcalloc(1, 3 << 20);
    auto_close int scratch = -1, fd = -1, null = -1;
    struct image *image, *small;
    struct image_store *s;
    struct err err = {0};

    set_up();
    small_disk(8);
    s = open_store();
    small_tar("x");
    small = import(s, in_base("image.tar"), "small");
    memset(much, 'x', (3 << 20) - 1);
    small_tar(much);
    image_free(import(s, in_base("image.tar"), "a"));
    /* An export packs a layer of 3 MB beside itself; with what else is there that is too much. */
    CHECK_INT(close(open(in_base("data/filler"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    fd = open(in_base("data/filler"), O_WRONLY | O_CLOEXEC);
    CHECK_INT(posix_fallocate(fd, 0, 3 << 20), 0);
    null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK_INT(image_export(s, "a", null, &err), -1);
    check_full(&err);
    much[0] = 'y';
    small_tar(much);
    err = (struct err){0};
    CHECK_INT(image_import(s, in_base("image.tar"), "b", NULL, NULL, &image, &err), -1);
    check_full(&err);
    commit.scratch_fd = scratch = make_scratch();
    commit.base_id = small->id;
    {
        auto_close int big =
            open(in_base("scratch/upper/big"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

        CHECK_INT(write_all(big, much, (3 << 20) - 1), 0);
        CHECK_INT(fchown(big, 100000, 100000), 0);
    }
    err = (struct err){0};
    CHECK_INT(image_commit(s, &commit, &image, &err), -1);
    check_full(&err);
    CHECK_INT(count_layers(), 2);
    CHECK_INT(count_records(), 2);
    CHECK_INT(ftruncate(fd, 0), 0); /* with room it works */
    CHECK_INT(image_export(s, "a", null, NULL), 0);
    image_free(small);
    image_store_free(s);
    (void)umount2(in_base("data"), MNT_DETACH);
}

TEST(an_export_that_nobody_reads_fails_and_leaves_nothing)
{
    struct image_store *s;
    struct err err = {0};
    int ends[2];

    set_up();
    s = open_store();
    small_tar("x");
    image_free(import(s, in_base("image.tar"), "x"));
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    (void)close(ends[0]);
    CHECK_INT(image_export(s, "x", ends[1], &err), -1);
    CHECK_STR(err.code, "cancelled");
    CHECK_INT(count_layers(), 1);
    CHECK_INT(image_export(s, "none", ends[1], &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
    (void)close(ends[1]);
    image_store_free(s);
}

TAP_MAIN
