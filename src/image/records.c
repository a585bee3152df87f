/* What an image is. A record never changes: its id is the digest of the configuration, which names
 * the layers. */
#include "image/image_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/json_file.h"
#include "base/mem.h"
#include "base/regular.h"
#include "base/replace.h"
#include "base/str.h"
#include "layer/layer.h"
#include "layer/tree.h"
#include "oci/config.h"
#include "oci/manifest.h"

#define SUFFIX          ".json"
#define DOCUMENT_SUFFIX ".config"

void record_done(struct record *r)
{
    free(r->layers);
    image_free(r->image);
    *r = (struct record){0};
}

static int load_layers(const json_t *a, struct record *r)
{
    size_t n = json_array_size(a);

    if (n == 0 || n > MANIFEST_MAX_LAYERS)
        return -1;
    r->layers = xcalloc(n, sizeof(*r->layers));
    for (r->n_layers = 0; r->n_layers < n; r->n_layers++) {
        struct record_layer *l = &r->layers[r->n_layers];
        const char *dir;
        json_int_t bytes;

        if (json_unpack(json_array_get(a, r->n_layers), "{s:s, s:I}", "dir", &dir, "bytes",
                        &bytes) < 0 ||
            !digest_valid(dir) || bytes < 0 || bytes > INT64_MAX / MANIFEST_MAX_LAYERS)
            return -1;
        memcpy(l->dir, dir, DIGEST_HEX);
        l->bytes = bytes;
        l->own = json_is_true(json_object_get(json_array_get(a, r->n_layers), "own"));
        r->image->size += bytes;
    }
    return 0;
}

static bool are_strings(const json_t *o)
{
    const char *key;
    json_t *v;

    if (!json_is_object(o))
        return false;
    json_object_foreach((json_t *)o, key, v) if (!json_is_string(v)) return false;
    return true;
}

static int load_settings(const json_t *o, struct image *image)
{
    const char *workdir, *user, *stop_signal, *platform;
    json_t *env, *entrypoint, *cmd, *ports, *labels;
    json_int_t created;

    if (json_unpack((json_t *)o, "{s:o, s:o, s:o, s:o, s:o, s:s, s:s, s:s, s:s, s:I}", "env", &env,
                    "entrypoint", &entrypoint, "cmd", &cmd, "ports", &ports, "labels", &labels,
                    "workdir", &workdir, "user", &user, "stop_signal", &stop_signal, "platform",
                    &platform, "created_ms", &created) < 0 ||
        !are_strings(labels))
        return -1;
    image->env = strings_load(env);
    image->entrypoint = strings_load(entrypoint);
    image->cmd = strings_load(cmd);
    image->ports = strings_load(ports);
    image->labels = json_incref(labels);
    image->workdir = xstrdup(workdir);
    image->user = xstrdup(user);
    image->stop_signal = xstrdup(stop_signal);
    image->platform = xstrdup(platform);
    image->created_ms = created;
    return image->env && image->entrypoint && image->cmd && image->ports ? 0 : -1;
}

int record_parse(const json_t *o, struct record *ret, struct err *err)
{
    auto_record struct record r = {.image = xcalloc(1, sizeof(*r.image))};
    int host = 0;
    const char *id;
    json_t *layers;

    if (json_unpack((json_t *)o, "{s:s, s:b, s:o}", "id", &id, "host", &host, "layers", &layers) <
            0 ||
        !digest_valid(id) || load_layers(layers, &r) < 0 || load_settings(o, r.image) < 0)
        return err_set(err, ERR_INTERNAL, "not the record of an image");
    memcpy(r.id, id, DIGEST_HEX);
    r.host = host;
    r.image->id = xasprintf(DIGEST_PREFIX "%s", id);
    *ret = r;
    r = (struct record){0};
    return 0;
}

static json_t *layers_json(const struct record *r)
{
    json_t *a = json_array();

    for (size_t i = 0; i < r->n_layers; i++) {
        json_t *l = json_pack("{s:s, s:I}", "dir", r->layers[i].dir, "bytes",
                              (json_int_t)r->layers[i].bytes);

        if (r->layers[i].own)
            (void)json_object_set_new(l, "own", json_true());
        (void)json_array_append_new(a, l);
    }
    return a;
}

static json_t *record_json(const struct record *r)
{
    const struct image *i = r->image;

    return json_pack("{s:i, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:O, s:s, s:s, s:s, s:s, s:I}",
                     "version", 1, "id", r->id, "host", r->host, "layers", layers_json(r), "env",
                     json_of_strings(i->env), "entrypoint", json_of_strings(i->entrypoint), "cmd",
                     json_of_strings(i->cmd), "ports", json_of_strings(i->ports), "labels",
                     i->labels, "workdir", i->workdir, "user", i->user, "stop_signal",
                     i->stop_signal, "platform", i->platform, "created_ms",
                     (json_int_t)i->created_ms);
}

int records_read(int recordsfd, const char *id, struct record *ret, struct err *err)
{
    auto_free char *file = xasprintf("%s" SUFFIX, id);
    json_t *o;
    int r;

    if (json_file_read(recordsfd, file, &o, err) < 0)
        return -1;
    r = record_parse(o, ret, err);
    json_decref(o);
    if (r == 0 && strcmp(ret->id, id) != 0) {
        record_done(ret);
        r = -1;
    }
    return r < 0 ? err_set(err, ERR_INTERNAL, "%s is damaged", file) : 0;
}

int records_write(int recordsfd, const struct record *r, const char *document, struct err *err)
{
    auto_free char *file = xasprintf("%s" SUFFIX, r->id);
    auto_free char *document_file = xasprintf("%s" DOCUMENT_SUFFIX, r->id);
    EVP_MD_CTX *sha = digest_new();
    char digest[DIGEST_HEX];

    digest_add(sha, document, strlen(document));
    digest_end(sha, digest);
    if (strcmp(digest, r->id) != 0)
        return err_set(err, ERR_INTERNAL, "an image's id is not the digest of its configuration");
    if (replace_file(recordsfd, document_file, document, strlen(document), err) < 0)
        return -1;
    return json_file_write(recordsfd, file, record_json(r), err);
}

int records_document(int recordsfd, const char *id, char **ret, struct err *err)
{
    auto_free char *file = xasprintf("%s" DOCUMENT_SUFFIX, id);
    auto_close int fd = regular_open(recordsfd, file, O_RDONLY, 0, err);
    auto_free char *text = NULL;
    struct stat st;
    int r;

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0)
        return err_sys(err, errno, "look at %s", file);
    if (st.st_size > CONFIG_MAX_BYTES)
        return err_set(err, ERR_INTERNAL, "%s is damaged", file);
    text = xcalloc(1, (size_t)st.st_size + 1);
    r = read_exact(fd, text, (size_t)st.st_size);
    if (r < 0)
        return err_sys(err, -r, "read %s", file);
    *ret = steal_ptr(text);
    return 0;
}

static int unlink_each(int recordsfd, char *const *ids, const char *suffix, struct err *err)
{
    for (; *ids; ids++) {
        auto_free char *file = xasprintf("%s%s", *ids, suffix);

        if (unlinkat(recordsfd, file, 0) < 0 && errno != ENOENT)
            return err_sys(err, errno, "remove the record of an image");
    }
    return fsync(recordsfd) < 0 ? err_sys(err, errno, "sync the records of images") : 0;
}

int records_remove(int recordsfd, char *const *ids, struct err *err)
{
    if (!ids || !*ids)
        return 0;
    if (unlink_each(recordsfd, ids, SUFFIX, err) < 0)
        return -1;
    return unlink_each(recordsfd, ids, DOCUMENT_SUFFIX, err);
}

/* The ids of the files that end so. */
static int ids_with(int recordsfd, const char *suffix, char ***ret, struct err *err)
{
    auto_strv char **files = NULL;
    auto_strv char **ids = NULL;
    size_t n = 0;

    if (tree_names(recordsfd, LAYER_MAX_ENTRIES, &files, err) < 0)
        return -1;
    ids = xcalloc(strv_len(files) + 1, sizeof(*ids));
    for (char **f = files; *f; f++) {
        auto_free char *id = NULL;

        if (!str_ends(*f, suffix))
            continue;
        id = xstrndup(*f, strlen(*f) - strlen(suffix));
        if (digest_valid(id))
            ids[n++] = steal_ptr(id);
    }
    *ret = steal_ptr(ids);
    return 0;
}

bool records_has(int recordsfd, const char *id)
{
    auto_free char *file = xasprintf("%s" SUFFIX, id);

    return faccessat(recordsfd, file, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

int records_list(int recordsfd, char ***ret, struct err *err)
{
    return ids_with(recordsfd, SUFFIX, ret, err);
}

int records_clean(int recordsfd, struct err *err)
{
    auto_strv char **ids = NULL, **alone = NULL;

    if (ids_with(recordsfd, DOCUMENT_SUFFIX, &ids, err) < 0)
        return -1;
    for (char **id = ids; *id; id++) {
        auto_free char *file = xasprintf("%s" SUFFIX, *id);

        if (faccessat(recordsfd, file, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
            alone = strv_add(alone, *id);
    }
    return records_remove(recordsfd, alone, err);
}
