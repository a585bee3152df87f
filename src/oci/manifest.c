#include "oci/manifest.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "oci/config.h"
#include "oci/oci_internal.h"

#define OCI    "application/vnd.oci.image."
#define DOCKER "application/vnd.docker."

#define OCI_MANIFEST    OCI "manifest.v1+json"
#define OCI_INDEX       OCI "index.v1+json"
#define DOCKER_MANIFEST DOCKER "distribution.manifest.v2+json"
#define DOCKER_LIST     DOCKER "distribution.manifest.list.v2+json"
#define DOCKER_SCHEMA1  DOCKER "distribution.manifest.v1+"

#define INDEX_MAX       1000
#define LAYER_MAX_BYTES ((int64_t)1 << 40)

const char manifest_accept[] = OCI_INDEX ", " OCI_MANIFEST ", " DOCKER_LIST ", " DOCKER_MANIFEST;

static const struct document_kind doc = {"bad_manifest", "manifest"};

static const struct {
    const char *media_type;
    enum blob_coding coding;
} layer_types[] = {
    {OCI "layer.v1.tar", BLOB_PLAIN},
    {OCI "layer.v1.tar+gzip", BLOB_GZIP},
    {OCI "layer.v1.tar+zstd", BLOB_ZSTD},
    {DOCKER "image.rootfs.diff.tar", BLOB_PLAIN},
    {DOCKER "image.rootfs.diff.tar.gzip", BLOB_GZIP},
    {DOCKER "image.rootfs.diff.tar.zstd", BLOB_ZSTD},
};

static bool is_image_type(const char *type)
{
    return strcmp(type, OCI_MANIFEST) == 0 || strcmp(type, DOCKER_MANIFEST) == 0;
}

static bool is_index_type(const char *type)
{
    return strcmp(type, OCI_INDEX) == 0 || strcmp(type, DOCKER_LIST) == 0;
}

static int read_blob(const json_t *object, const char *what, int64_t max, struct blob *ret,
                     struct err *err)
{
    const json_t *size = json_object_get(object, "size");
    const char *digest;

    if (!json_is_object(object))
        return document_bad(&doc, err, "its %s is not an object", what);
    if (document_string(&doc, object, "digest", &digest, err) < 0)
        return -1;
    if (!str_starts(digest, DIGEST_PREFIX) || !digest_valid(digest + strlen(DIGEST_PREFIX)))
        return document_bad(&doc, err, "its %s has no sha256 digest but \"%.80s\"", what, digest);
    if (!json_is_integer(size) || json_integer_value(size) < 0 || json_integer_value(size) > max)
        return document_bad(&doc, err, "the size of its %s is not between 0 and %lld", what,
                            (long long)max);
    *ret = (struct blob){.size = json_integer_value(size)};
    memcpy(ret->digest, digest + strlen(DIGEST_PREFIX), DIGEST_HEX);
    return 0;
}

/* ---- an image ---- */

static int read_config(const json_t *root, struct manifest *m, struct err *err)
{
    const json_t *config = json_object_get(root, "config");
    const char *type;

    if (read_blob(config, "config", CONFIG_MAX_BYTES, &m->config, err) < 0 ||
        document_string(&doc, config, "mediaType", &type, err) < 0)
        return -1;
    if (strcmp(type, OCI "config.v1+json") != 0 &&
        strcmp(type, DOCKER "container.image.v1+json") != 0)
        return document_bad(&doc, err, "it is not a container image but an artifact of type %.80s",
                            type[0] ? type : "(none)");
    return 0;
}

static int read_layer(const json_t *object, struct blob *ret, struct err *err)
{
    const char *type;

    if (read_blob(object, "layer", LAYER_MAX_BYTES, ret, err) < 0 ||
        document_string(&doc, object, "mediaType", &type, err) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(layer_types); i++) {
        if (strcmp(type, layer_types[i].media_type) == 0) {
            ret->coding = layer_types[i].coding;
            return 0;
        }
    }
    if (strstr(type, "nondistributable") || strstr(type, ".foreign."))
        return document_bad(&doc, err, "it has a foreign layer, which its registry does not hold");
    return document_bad(&doc, err, "cay cannot unpack a layer of type %.100s",
                        type[0] ? type : "(none)");
}

static int read_image(const json_t *root, struct manifest *m, struct err *err)
{
    const json_t *layers = json_object_get(root, "layers");

    if (read_config(root, m, err) < 0)
        return -1;
    if (!json_is_array(layers) || json_array_size(layers) == 0)
        return document_bad(&doc, err, "it has no layers");
    if (json_array_size(layers) > MANIFEST_MAX_LAYERS)
        return document_bad(&doc, err, "it has %zu layers and may have %d", json_array_size(layers),
                            MANIFEST_MAX_LAYERS);
    m->layers = xcalloc(json_array_size(layers), sizeof(*m->layers));
    for (size_t i = 0; i < json_array_size(layers); i++) {
        if (read_layer(json_array_get(layers, i), &m->layers[i], err) < 0)
            return -1;
        m->n_layers++;
    }
    return 0;
}

/* ---- an index ---- */

/* *ret_skip: something that is no image, which an index may hold too. */
static int read_entry(const json_t *object, struct platform_blob *ret, bool *ret_skip,
                      struct err *err)
{
    const json_t *platform = json_object_get(object, "platform");
    const json_t *notes = json_object_get(object, "annotations");
    const char *type, *os, *arch, *variant, *tag, *name;

    if (document_string(&doc, object, "mediaType", &type, err) < 0 ||
        document_string(&doc, platform, "os", &os, err) < 0 ||
        document_string(&doc, platform, "architecture", &arch, err) < 0 ||
        document_string(&doc, platform, "variant", &variant, err) < 0 ||
        document_string(&doc, notes, "org.opencontainers.image.ref.name", &tag, err) < 0 ||
        document_string(&doc, notes, "io.containerd.image.name", &name, err) < 0)
        return -1;
    *ret_skip = !is_image_type(type) && !is_index_type(type);
    if (*ret_skip)
        return 0;
    if (read_blob(object, "entry", MANIFEST_MAX_BYTES, &ret->blob, err) < 0)
        return -1;
    ret->os = xstrdup(os);
    ret->arch = xstrdup(arch);
    ret->variant = xstrdup(variant);
    ret->name = xstrdup(*name ? name : tag); /* where containerd names it, the other is a tag */
    return 0;
}

static int read_index(const json_t *root, struct manifest *m, struct err *err)
{
    const json_t *entries = json_object_get(root, "manifests");

    m->is_index = true;
    if (!json_is_array(entries))
        return document_bad(&doc, err, "its manifests are not a list");
    if (json_array_size(entries) > INDEX_MAX)
        return document_bad(&doc, err, "its index has %zu entries and may have %d",
                            json_array_size(entries), INDEX_MAX);
    m->images = xcalloc(json_array_size(entries) + 1, sizeof(*m->images));
    for (size_t i = 0; i < json_array_size(entries); i++) {
        bool skip;

        if (read_entry(json_array_get(entries, i), &m->images[m->n_images], &skip, err) < 0)
            return -1;
        m->n_images += !skip;
    }
    return 0;
}

/* ---- either ---- */

/* "type; charset=utf-8" without what follows the type; "" for what says nothing. */
static char *bare_type(const char *type)
{
    char *bare = xstrndup(type ? type : "", strcspn(type ? type : "", "; \t"));

    if (strcmp(bare, "application/json") == 0)
        bare[0] = '\0';
    return bare;
}

/* One meaning only: a document that is an image to one reader and an index to another has no
 * digest that anybody can rely on (CVE-2021-41190). */
static int find_kind(const json_t *root, const char *carrier, bool *ret_index, struct err *err)
{
    bool index = json_object_get(root, "manifests") != NULL;
    bool image = json_object_get(root, "layers") || json_object_get(root, "config");
    const json_t *version = json_object_get(root, "schemaVersion");
    const char *own, *type;

    if (document_string(&doc, root, "mediaType", &own, err) < 0)
        return -1;
    type = carrier[0] ? carrier : own;
    if (json_object_get(root, "fsLayers") || str_starts(type, DOCKER_SCHEMA1) ||
        (json_is_integer(version) && json_integer_value(version) == 1))
        return document_bad(&doc, err,
                            "it has Docker's old format, schema 1: pull it with a recent docker "
                            "or skopeo and push it again");
    if (!json_is_integer(version) || json_integer_value(version) != 2)
        return document_bad(&doc, err, "its schemaVersion is not 2");
    if (carrier[0] && own[0] && strcmp(carrier, own) != 0)
        return document_bad(&doc, err, "it says %.60s, but came as %.60s", own, carrier);
    if (type[0] && !is_image_type(type) && !is_index_type(type))
        return document_bad(&doc, err, "%.80s is not the type of an image", type);
    if (index == image)
        return document_bad(&doc, err,
                            index ? "it is an image and an index at the same time"
                                  : "it has neither layers nor manifests");
    if (type[0] && is_index_type(type) != index)
        return document_bad(&doc, err, "it is an %s, but its type is %.80s",
                            index ? "index" : "image", type);
    *ret_index = index;
    return 0;
}

int manifest_parse(const char *bytes, size_t len, const char *media_type, struct manifest *ret,
                   struct err *err)
{
    auto_free char *carrier = bare_type(media_type);
    auto_json json_t *root = NULL;
    struct manifest m = {0};
    bool index = false;

    if (document_load(&doc, bytes, len, MANIFEST_MAX_BYTES, &root, err) < 0 ||
        find_kind(root, carrier, &index, err) < 0)
        return -1;
    if ((index ? read_index : read_image)(root, &m, err) < 0) {
        manifest_done(&m);
        return -1;
    }
    *ret = m;
    return 0;
}

void manifest_done(struct manifest *m)
{
    for (size_t i = 0; i < m->n_images; i++) {
        free(m->images[i].os);
        free(m->images[i].arch);
        free(m->images[i].variant);
        free(m->images[i].name);
    }
    free(m->images);
    free(m->layers);
    *m = (struct manifest){0};
}
