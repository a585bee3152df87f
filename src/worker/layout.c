/* An OCI layout: index.json leads by digests to everything else, below blobs/sha256. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "oci/config.h"
#include "worker/worker.h"

#define INDEX_DEPTH_MAX 4
#define MARKER_MAX      4096 /* of oci-layout */

static char *blob_file(const struct blob *blob)
{
    return xasprintf("blobs/sha256/%s", blob->digest);
}

/* A small blob, checked. */
static int read_blob(const struct bundle *b, const struct blob *blob, size_t max, char **ret,
                     size_t *ret_len, struct err *err)
{
    auto_free char *file = blob_file(blob);
    auto_free char *text = NULL;
    char digest[DIGEST_HEX];
    size_t len;

    if (bundle_read(b, file, max, &text, &len, err) < 0)
        return -1;
    text_digest(text, len, digest);
    if (strcmp(digest, blob->digest) != 0 || (uint64_t)blob->size != len)
        return err_code(err, ERR_INVALID, "digest_mismatch",
                        "the digest or size of blob sha256:%.12s is not what it should be",
                        blob->digest);
    *ret_len = len;
    *ret = steal_ptr(text);
    return 0;
}

/* A tag alone ("latest") is no name of an image. */
static bool is_name(const char *name)
{
    return strchr(name, '/') || strchr(name, ':');
}

static int several(const struct manifest *index, struct err *err)
{
    auto_strv char **names = xcalloc(1, sizeof(*names));

    for (size_t i = 0; i < index->n_images; i++)
        if (index->images[i].name[0])
            names = strv_add(names, index->images[i].name);
    return several_images(names, err);
}

static const struct platform_blob *find_name(const struct manifest *index, const char *name)
{
    for (size_t i = 0; name && i < index->n_images; i++)
        if (same_name(index->images[i].name, name))
            return &index->images[i];
    return NULL;
}

static bool all_have_one_name(const struct manifest *index)
{
    for (size_t i = 1; i < index->n_images; i++)
        if (strcmp(index->images[i].name, index->images[0].name) != 0)
            return false;
    return true;
}

/* The only entry; of several the one of that name; or, when all have the same name, that of this
 * platform. */
static int choose(const struct manifest *index, const char *name, struct blob *ret,
                  char ***ret_names, struct err *err)
{
    const struct platform_blob *found = index->images;
    const struct blob *blob;

    if (index->n_images == 0)
        return err_code(err, ERR_INVALID, "bad_image", "index.json lists no image");
    if (index->n_images > 1 && find_name(index, name))
        found = find_name(index, name);
    else if (index->n_images > 1 && !all_have_one_name(index))
        return several(index, err);
    blob = &found->blob;
    if (index->n_images > 1 && all_have_one_name(index) &&
        manifest_choose(index, platform_here(), &blob, err) < 0)
        return -1;
    *ret = *blob;
    *ret_names = xcalloc(1, sizeof(**ret_names));
    if (is_name(found->name))
        *ret_names = strv_add(*ret_names, found->name);
    return 0;
}

/* Through indexes to the manifest of one image. */
static int find_manifest(const struct bundle *b, struct blob *blob, struct manifest *ret,
                         struct err *err)
{
    for (int depth = 0; depth < INDEX_DEPTH_MAX; depth++) {
        auto_free char *text = NULL;
        const struct blob *next;
        size_t len;
        int r;

        if (read_blob(b, blob, MANIFEST_MAX_BYTES, &text, &len, err) < 0 ||
            manifest_parse(text, len, NULL, ret, err) < 0)
            return -1;
        if (!ret->is_index)
            return 0;
        r = manifest_choose(ret, platform_here(), &next, err);
        if (r == 0)
            *blob = *next;
        manifest_done(ret);
        if (r < 0)
            return -1;
    }
    return err_code(err, ERR_INVALID, "bad_manifest", "indexes lead to indexes, not to an image");
}

static void take_layers(const struct manifest *m, struct bundle_image *ret)
{
    ret->layers = xcalloc(m->n_layers + 1, sizeof(*ret->layers));
    for (ret->n_layers = 0; ret->n_layers < m->n_layers; ret->n_layers++) {
        struct bundle_layer *l = &ret->layers[ret->n_layers];

        l->blob = m->layers[ret->n_layers];
        l->name = blob_file(&l->blob);
        l->checked = true;
    }
}

/* "1.0.0" is the only one there is; what a later one means is not known here. */
static int check_version(const struct bundle *b, struct err *err)
{
    auto_free char *text = NULL;
    const char *version;
    json_t *root;
    size_t len;
    bool known;

    if (bundle_read(b, "oci-layout", MARKER_MAX, &text, &len, err) < 0)
        return -1;
    root = json_loadb(text, len, 0, NULL);
    version = json_string_value(json_object_get(root, "imageLayoutVersion"));
    known = version && str_starts(version, "1.");
    json_decref(root);
    return known ? 0
                 : err_code(err, ERR_INVALID, "bad_image",
                            "its oci-layout has another version than 1.x, which is not known here");
}

int layout_choose(const struct bundle *b, const char *name, struct bundle_image *ret,
                  struct err *err)
{
    auto_free char *text = NULL;
    struct manifest index, m;
    struct blob blob;
    size_t len;
    int r;

    *ret = (struct bundle_image){0};
    if (check_version(b, err) < 0 ||
        bundle_read(b, "index.json", MANIFEST_MAX_BYTES, &text, &len, err) < 0 ||
        manifest_parse(text, len, NULL, &index, err) < 0)
        return -1;
    r = index.is_index ? choose(&index, name, &blob, &ret->names, err)
                       : err_code(err, ERR_INVALID, "bad_image", "index.json is not an index");
    manifest_done(&index);
    if (r < 0)
        return -1;
    memcpy(ret->digest, blob.digest, DIGEST_HEX);
    if (find_manifest(b, &blob, &m, err) < 0) {
        bundle_image_done(ret);
        return -1;
    }
    take_layers(&m, ret);
    r = read_blob(b, &m.config, CONFIG_MAX_BYTES, &ret->config, &ret->config_len, err);
    manifest_done(&m);
    if (r < 0)
        bundle_image_done(ret);
    return r;
}
