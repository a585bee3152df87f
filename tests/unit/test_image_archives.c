/* Archives and folders that become images, and those that are refused. */
#include "image_rig.h"

/* ---- archives ---- */

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

TAP_MAIN
