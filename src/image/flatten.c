/* Images whose layers of snapshots have become many get one in their place: each costs a mount of
 * every box, and a look of every file that is looked up. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "image/image.h"
#include "image/image_internal.h"
#include "layer/layer.h"
#include "layer/tree.h"
#include "layer/trusted.h"

unsigned image_own_layers(struct image_store *s, const char *id)
{
    const char *digits = digest_digits(id);
    auto_record struct record r = {0};

    return digits && records_read(s->records, digits, &r, NULL) == 0 ? record_own_layers(&r) : 0;
}

static void close_all(int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        close_fd(&fds[i]);
}

/* The first own ones of those become one. */
static int merge_into(struct work *w, const int *fds, size_t n, size_t own, uint64_t *ret_bytes,
                      struct err *err)
{
    auto_free char *made = xasprintf("%s/" SNAPSHOT_LAYER, w->tmp);
    auto_close int root = -1;
    struct layer_budget budget;
    struct layer l;
    int r;

    layer_budget_init(&budget, LAYER_MAX_BYTES, LAYER_MAX_ENTRIES, w->store->layers);
    if (tree_open_dir(w->store->layers, made, 0755, &root, err) < 0)
        return -1;
    layer_init(&l, root);
    l.budget = &budget;
    if (layer_merge(&l, fds, own, fds + own, n - own, err) < 0)
        return -1;
    r = trusted_set_note(root, &(struct layer_note){l.bytes, l.entries});
    if (r < 0)
        return err_sys(err, -r, "note the size of a layer");
    *ret_bytes = l.bytes;
    return layer_sync(root, err);
}

/* Topmost first; the last is what images stand on that have it not. */
static int open_layer(const struct image_store *s, const struct record *r, size_t n)
{
    int dir = n < r->n_layers ? s->layers : r->host ? s->host : s->base;
    const char *name = n < r->n_layers ? r->layers[r->n_layers - 1 - n].dir
                       : r->host       ? s->host_layer
                                       : BASE_LAYER;

    return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Its own layers are the topmost ones. */
static int merge(struct work *w, const struct record *r, size_t own, uint64_t *ret_bytes,
                 struct err *err)
{
    auto_free int *fds = xcalloc(r->n_layers + 1, sizeof(*fds));
    int failed = 0;
    size_t n = 0;

    for (; n < r->n_layers + 1 && !failed; n++) {
        fds[n] = open_layer(w->store, r, n);
        if (fds[n] < 0)
            failed = err_sys(err, errno, "open a layer");
    }
    if (!failed)
        failed = merge_into(w, fds, n, own, ret_bytes, err);
    close_all(fds, n);
    return failed;
}

/* The document that the image would have if it had only what is below its own layers. */
static char *document_below(const char *document, size_t own)
{
    json_t *o = document ? json_loads(document, 0, NULL) : NULL;
    json_t *ids = json_object_get(json_object_get(o, "rootfs"), "diff_ids");
    json_t *history = json_object_get(o, "history");
    char *text;

    for (size_t i = 0; i < own; i++) {
        (void)json_array_remove(ids, json_array_size(ids) - 1);
        (void)json_array_remove(history, json_array_size(history) - 1);
    }
    text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return text;
}

static void drop_own(struct record *r, size_t own)
{
    for (; own > 0; own--)
        r->image->size -= r->layers[--r->n_layers].bytes;
}

int image_flatten(struct image_store *s, const char *id,
                  void (*made)(const char *image_id, void *arg), void *arg, struct err *err)
{
    auto_free char *document = NULL, *below = NULL;
    auto_record struct record r = {0};
    uint64_t bytes;
    struct work w;
    size_t own;
    int failed;

    if (work_begin(s, &w, err) < 0)
        return -1;
    (void)pthread_mutex_lock(&s->lock);
    failed = snapshot_base(&w, id, &r, &document, err);
    (void)pthread_mutex_unlock(&s->lock);
    own = record_own_layers(&r);
    if (!failed && own < 2)
        failed = 1;
    if (!failed)
        failed = merge(&w, &r, own, &bytes, err);
    if (!failed) {
        below = document_below(document, own);
        drop_own(&r, own);
        failed = snapshot_put(&w, &r, below, bytes, made, arg, err);
    }
    work_end(&w);
    return failed;
}
