#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <locale.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/image.h"
#include "image/image_internal.h"
#include "tap.h"

/* ---- a data folder, and archives to put in ---- */

static char base[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void clean_up(void)
{
    if (base[0])
        (void)nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *in_base(const char *name)
{
    static char path[4][PATH_MAX];
    static unsigned next;
    char *p = path[next++ % 4];

    (void)snprintf(p, PATH_MAX, "%s/%s", base, name);
    return p;
}

/* Layers have owners, so all of this needs root. */
static void set_up(void)
{
    if (geteuid() != 0)
        SKIP("needs root");
    (void)snprintf(base, sizeof(base), "/tmp/cay-image-XXXXXX");
    CHECK(mkdtemp(base));
    (void)atexit(clean_up);
    CHECK_INT(mkdir(in_base("data"), 0755), 0);
}

static struct image_store *open_store(void)
{
    struct image_store *s;
    struct err err = {0};

    if (image_store_open(in_base("data"), &s, &err) < 0)
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

static unsigned count_layers(void)
{
    auto_close int fd = open(in_base("data/images/layers"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_strv char **names = NULL;

    CHECK_INT(tree_names(fd, 1000, &names, NULL), 0);
    return (unsigned)strv_len(names);
}

static struct image *import(struct image_store *s, const char *path, const char *name)
{
    struct image *image;
    struct err err = {0};

    if (image_import(s, path, name, &image, &err) < 0)
        TAP_FAIL("%s", err.text);
    return image;
}

/* Refused with this code, and nothing of it is left. */
static void refuse(struct image_store *s, const char *code)
{
    struct err err = {0};
    struct image *image;
    unsigned before = count_layers();

    CHECK_INT(image_import(s, in_base("image.tar"), "bad", &image, &err), -1);
    CHECK(err.text[0]);
    CHECK_STR(err.code ? err.code : err.text, code);
    CHECK_INT(count_layers(), before);
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

TEST(usual_image_names_are_accepted)
{
    CHECK(image_name_valid("host"));
    CHECK(image_name_valid("python:3.12-slim"));
    CHECK(image_name_valid("my.registry:5000/team/app:1.0"));
    CHECK(image_name_valid("app@sha256:00ff"));
}

TEST(names_that_could_be_paths_or_options_are_refused)
{
    static const char *const bad[] = {"",   "..",   "../x", "a/../b", "/a",  "a/",
                                      "-a", ".a",   "a//b", "a+b",    "a b", "a%",
                                      "$x", "a\nb", "a/.b", "a..b",   "a:",  "\xc3\xa4"};
    char longest[NAME_MAX_LEN + 2];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (image_name_valid(bad[i]))
            TAP_FAIL("\"%s\" was accepted", bad[i]);
    memset(longest, 'a', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    CHECK(!image_name_valid(longest));
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
        CHECK(S_ISDIR(look(image, "proc").st_mode));
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

static void unpack_limited(uint64_t bytes, uint64_t entries, struct err *err)
{
    auto_close int tar = open(in_base("image.tar"), O_RDONLY | O_CLOEXEC);
    auto_close int root = -1;
    struct layer layer;
    EVP_MD_CTX *sha = digest_new();
    char digest[DIGEST_HEX];

    (void)mkdir(in_base("layer"), 0755);
    root = open(in_base("layer"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    layer_init(&layer, root);
    layer.max_bytes = bytes;
    layer.max_entries = entries;
    CHECK_INT(unpack_tar(tar, &layer, sha, err), -1);
    digest_end(sha, digest);
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

TEST(the_store_is_not_imported_into_itself)
{
    struct image_store *s;
    struct image *image;
    struct err err = {0};

    set_up();
    s = open_store();
    CHECK_INT(image_import(s, base, "x", &image, &err), -1);
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

        CHECK_INT(image_import(s, bad[i], "x", &image, &err), -1);
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

TEST(a_replaced_layer_stays_while_a_sandbox_uses_it)
{
    char *ids[] = {NULL, NULL};
    struct image_store *s;
    struct image *old;

    set_up();
    s = open_store();
    ordinary_tar(ARCHIVE_FILTER_NONE);
    old = import(s, in_base("image.tar"), "x");
    ordinary_tar(ARCHIVE_FILTER_GZIP);
    image_free(import(s, in_base("image.tar"), "x"));
    CHECK_INT(count_layers(), 2);
    ids[0] = old->id;
    CHECK_INT(image_collect(s, ids, NULL), 0);
    CHECK_INT(count_layers(), 2);
    ids[0] = NULL;
    CHECK_INT(image_collect(s, ids, NULL), 0);
    CHECK(!has(old, "."));
    CHECK_INT(image_purge(s, NULL), 0);
    CHECK_INT(count_layers(), 1);
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

TAP_MAIN
