/* Names of images, the image of the host, and the store. */
#include "image_rig.h"

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

    scratch_make_below(dir_parent(false)); /* memory has no such places */
    CHECK_INT(mkdir(in_base("data"), 0755), 0);
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

TAP_MAIN
