/* What docker save and OCI layouts have; the names and ids of images. */
#include "image_rig.h"

/* ---- what docker save and OCI layouts have ---- */

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

TAP_MAIN
