/* What a sandbox changed, as one more layer of an image without a name, in the time that the copy
 * takes. Nothing in it is read but by the kernel, so no worker has to start; and nobody asks for
 * its digest, so the layer has a name of its own that says nothing of what is in it. It gets its
 * digest when it leaves (export), where it is packed in any case. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "image/image.h"
#include "image/image_internal.h"
#include "layer/layer.h"
#include "layer/tree.h"
#include "layer/trusted.h"
#include "oci/manifest.h"

/* ---- what it stands on ---- */

/* As a record has it: settings, and nothing that depends on where it is. */
static void host_record(const struct image_store *s, struct record *ret)
{
    struct image *image = store_host_image(s);

    free(steal_ptr(image->name));
    free(steal_ptr(image->digest));
    free(steal_ptr(image->origin));
    strv_free(steal_ptr(image->layers));
    strv_free(steal_ptr(image->binds));
    ret->image = image;
    ret->host = true;
}

int snapshot_base(struct work *w, const char *base_id, struct record *ret, char **ret_document,
                  struct err *err)
{
    const char *digits = digest_digits(base_id);

    if (strcmp(base_id, "host") == 0) {
        host_record(w->store, ret);
        *ret_document = NULL;
        return 0;
    }
    if (!digits || !records_has(w->store->records, digits))
        return err_code(err, ERR_CONFLICT, "image_not_found",
                        "what it was made from is not on this machine any more");
    if (records_read(w->store->records, digits, ret, err) < 0 ||
        records_document(w->store->records, digits, ret_document, err) < 0)
        return -1;
    memcpy(w->held, digits, DIGEST_HEX);
    return 0;
}

static int check_room(const struct record *r, struct err *err)
{
    if (r->n_layers < MANIFEST_MAX_LAYERS)
        return 0;
    return err_code(err, ERR_LIMIT, "too_many_layers",
                    "the image below has %d layers already, which is the most there can be",
                    MANIFEST_MAX_LAYERS);
}

/* They are always the topmost ones. */
unsigned record_own_layers(const struct record *r)
{
    unsigned n = 0;

    while (n < r->n_layers && r->layers[r->n_layers - 1 - n].own)
        n++;
    return n;
}

/* ---- the layer ---- */

static uint64_t most_bytes(const struct image_store *s)
{
    const json_t *cap = json_object_get(s->registries, "max_bytes");

    return cap ? (uint64_t)json_integer_value(cap) : LAYER_MAX_BYTES;
}

static int copy(const struct image_snapshot *snap, int root, struct layer_budget *budget,
                uint64_t *ret_bytes, char **ret_warning, struct err *err)
{
    auto_close int upper =
        openat(snap->scratch_fd, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct layer l;
    int r;

    if (upper < 0)
        return err_sys(err, errno, "open what the sandbox changed");
    layer_init(&l, root);
    l.max_bytes = budget->max_bytes;
    l.max_entries = budget->max_entries;
    l.budget = budget;
    l.goes_on = snap->goes_on;
    l.arg = snap->arg;
    r = copy_upper(upper, snap->ids_base, &l, NULL, err);
    if (r < 0)
        return -1;
    r = trusted_set_note(root, &(struct layer_note){l.bytes, l.entries});
    if (r < 0)
        return err_sys(err, -r, "note the size of a layer");
    *ret_bytes = l.bytes;
    if (layer_check_points(&root, 1, err) < 0)
        return -1;
    *ret_warning = layer_warning(&l);
    return 0;
}

static int make_layer(struct work *w, const struct image_snapshot *snap, uint64_t *ret_bytes,
                      char **ret_warning, struct err *err)
{
    struct layer_budget budget;
    auto_close int tmp =
        openat(w->store->layers, w->tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    auto_close int root = -1;
    int r;

    if (tmp < 0)
        return err_sys(err, errno, "open the folder of a snapshot");
    layer_budget_init(&budget, most_bytes(w->store), LAYER_MAX_ENTRIES, w->store->layers);
    if (tree_open_dir(tmp, SNAPSHOT_LAYER, 0755, &root, err) < 0 || snap->begin(snap->arg, err) < 0)
        return -1;
    r = copy(snap, root, &budget, ret_bytes, ret_warning, err);
    snap->end(snap->arg);
    return r < 0 ? -1 : layer_sync(root, err);
}

/* ---- the image ---- */

/* No layer of an archive has it by chance. */
static void new_name(char ret[DIGEST_HEX])
{
    unsigned char bytes[32];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        abort();
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

/* The host image has none; what is on top of it says so, and has its environment. */
static json_t *host_document(const struct record *r)
{
    const char *here = platform_here(), *slash = strchr(here, '/');

    return json_pack("{s:s%, s:s, s:{s:o}, s:{s:s, s:[]}, s:b}", "os", here, (size_t)(slash - here),
                     "architecture", slash + 1, "config", "Env", json_of_strings(r->image->env),
                     "rootfs", "type", "layers", "diff_ids", "cay_host", 1);
}

static char *new_document(const struct record *r, const char *below, const char *dir)
{
    json_t *o = below ? json_loads(below, 0, NULL) : host_document(r), *history;
    json_t *ids = json_object_get(json_object_get(o, "rootfs"), "diff_ids");
    char *text;

    history = json_object_get(o, "history");
    (void)json_array_append_new(ids, json_sprintf(DIGEST_PREFIX "%s", dir));
    if (json_is_array(history)) /* one entry a layer, or none at all */
        (void)json_array_append_new(history, json_pack("{s:s}", "created_by", "cay snapshot"));
    text = json_is_array(ids) ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return text;
}

static void add_layer(struct record *r, const char *dir, uint64_t bytes, const char *document)
{
    EVP_MD_CTX *sha = digest_new();
    struct record_layer *l;

    r->layers = xrealloc(r->layers, (r->n_layers + 1) * sizeof(*r->layers));
    l = &r->layers[r->n_layers++];
    memcpy(l->dir, dir, DIGEST_HEX);
    l->bytes = (int64_t)bytes;
    l->own = true;
    digest_add(sha, document, strlen(document));
    digest_end(sha, r->id);
    free(r->image->id);
    r->image->id = xasprintf(DIGEST_PREFIX "%s", r->id);
    r->image->size += (int64_t)bytes;
    r->image->created_ms = now_ms();
}

/* Rule 1 of image.c. Under the lock. */
static int publish(struct work *w, const struct record *r, const char *document, struct err *err)
{
    struct image_store *s = w->store;
    auto_free char *made = xasprintf("%s/" SNAPSHOT_LAYER, w->tmp);

    if (room_check(s, (char *[]){NULL}, r->id, err) < 0)
        return -1;
    if (renameat2(s->layers, made, s->layers, r->layers[r->n_layers - 1].dir, RENAME_NOREPLACE) <
            0 ||
        fsync(s->layers) < 0)
        return err_sys(err, errno, "put a layer in its place");
    return records_write(s->records, r, document, err);
}

int snapshot_put(struct work *w, struct record *r, const char *below, uint64_t bytes,
                 void (*made)(const char *image_id, void *arg), void *arg, struct err *err)
{
    auto_free char *document = NULL;
    char dir[DIGEST_HEX];
    int failed;

    new_name(dir);
    document = new_document(r, below, dir);
    if (!document)
        return err_set(err, ERR_INTERNAL, "the configuration of the image below is damaged");
    add_layer(r, dir, bytes, document);
    made(r->image->id, arg);
    (void)pthread_mutex_lock(&w->store->lock);
    failed = publish(w, r, document, err);
    (void)pthread_mutex_unlock(&w->store->lock);
    return failed;
}

int image_snapshot(struct image_store *s, const struct image_snapshot *snap, int64_t *ret_bytes,
                   unsigned *ret_own, char **ret_warning, struct err *err)
{
    auto_record struct record r = {0};
    auto_free char *below = NULL, *warning = NULL;
    uint64_t bytes = 0;
    struct work w;
    int failed;

    if (work_begin(s, &w, err) < 0)
        return -1;
    (void)pthread_mutex_lock(&s->lock);
    failed = snapshot_base(&w, snap->base_id, &r, &below, err);
    (void)pthread_mutex_unlock(&s->lock);
    if (!failed)
        failed = check_room(&r, err);
    if (!failed)
        failed = make_layer(&w, snap, &bytes, &warning, err);
    if (!failed)
        failed = snapshot_put(&w, &r, below, bytes, snap->made, snap->arg, err);
    work_end(&w);
    if (failed)
        (void)err_no_space(err, NO_SPACE_ADVICE);
    else
        *ret_bytes = (int64_t)bytes;
    if (failed)
        return failed;
    *ret_own = record_own_layers(&r);
    *ret_warning = steal_ptr(warning);
    return 0;
}
