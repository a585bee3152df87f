/* A layer alone, as an archive: what a snapshot has beyond its image leaves and comes back so. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "worker/worker.h"

#define NEW_LAYER "0"

static int open_layer(const char *dir, int *ret_fd, struct err *err)
{
    if (!dir || !digest_valid(dir))
        return err_set(err, ERR_INTERNAL, "the request has a layer that cannot be");
    *ret_fd = openat(FD_LAYERS, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret_fd < 0 ? err_sys(err, errno, "open a layer") : 0;
}

static int write_out(void *arg, const void *data, size_t len, struct err *err)
{
    int r;

    /* A hole takes no room in a layer, but does in an archive. */
    if (layer_budget_grow(arg, len, err) < 0)
        return -1;
    r = write_all(FD_OTHER, data, len);
    if (r == -EPIPE)
        return err_code(err, ERR_UNAVAILABLE, "cancelled", "nobody reads the archive any more");
    return r < 0 ? err_sys(err, -r, "write the archive") : 0;
}

int worker_layer_export(const struct worker_request *q, json_t **ret, struct err *err)
{
    char diff_id[DIGEST_HEX];
    auto_close int root = -1;

    if (open_layer(request_string(q, "layer"), &root, err) < 0 || pack_check(root, err) < 0 ||
        pack_layer(root, 0, write_out, q->budget, diff_id, err) < 0)
        return -1;
    *ret = json_pack("{s:s}", "diff_id", diff_id);
    return 0;
}

/* Folders that the archive leaves out, and links into the layers below, are completed from those.
 */
static int complete(const json_t *below, struct layer *l, struct err *err)
{
    size_t n = json_array_size(below);
    auto_free int *fds = xcalloc(n + 1, sizeof(*fds));
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++)
        r = open_layer(json_string_value(json_object_get(json_array_get(below, n - 1 - i), "dir")),
                       &fds[i], err);
    return r < 0 ? -1 : layer_resolve(l, fds, n, err);
}

/* The host's own files, which are below, are not to be seen here: what an export wrote is whole
 * without them. */
static int check_whole(const struct layer *l, struct err *err)
{
    if (l->implied == 0 && l->borrowed == 0)
        return 0;
    return err_code(err, ERR_INVALID, "bad_image",
                    "the layer leaves out folders or files of the machine that it is on top of");
}

/* What it is depends on what is below. */
static void chain_name(const json_t *below, const char *diff_id, char ret[DIGEST_HEX])
{
    auto_free char *text = json_dumps(below, JSON_COMPACT);

    bound_name(text ? text : "", diff_id, ret);
}

int worker_layer_import(const struct worker_request *q, json_t **ret, struct err *err)
{
    bool host = json_is_true(json_object_get(q->json, "host"));
    json_t *layers = json_deep_copy(json_object_get(q->json, "layers")), *layer, *image;
    char diff_id[DIGEST_HEX], dir[DIGEST_HEX];
    auto_free char *text = NULL;
    auto_close int root = -1;
    struct layer l;

    if (!json_is_array(layers))
        return err_set(err, ERR_INTERNAL, "the request lacks the layers below");
    if (layer_begin(q, NEW_LAYER, &l, &root, err) < 0)
        return -1;
    l.oci = true;
    if (unpack_file(FD_OTHER, &l, diff_id, err) < 0 ||
        (host ? check_whole(&l, err) : complete(layers, &l, err)) < 0 ||
        layer_check_points(&root, 1, err) < 0)
        return -1;
    chain_name(layers, diff_id, dir);
    if (layer_made(q, &l, NEW_LAYER, dir, &layer, err) < 0 ||
        commit_document(q, host, dir, &text, err) < 0 ||
        document_image(text, strlen(text), &image, err) < 0)
        return -1;
    (void)json_object_set_new(layer, "own", json_true());
    (void)json_array_append_new(layers, layer);
    (void)json_object_set_new(image, "layers", layers);
    (void)json_object_set_new(image, "host", json_boolean(host));
    *ret = image;
    return 0;
}
