/* Which names to give up for space: those whose images were not used for longest, and none that a
 * sandbox was made from. Layers count once, however many images share them. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "image/image.h"
#include "image/image_internal.h"

struct counted_layer {
    char dir[DIGEST_HEX];
    int64_t bytes;
    unsigned holders; /* records */
};

struct counted_record {
    struct record record;
    unsigned holders; /* names, and one for the sandboxes */
};

struct census {
    struct counted_record *records; /* by id */
    size_t n_records;
    struct counted_layer *layers; /* by dir */
    size_t n_layers;
    struct name *names; /* least recently used first */
    size_t n_names;
    int64_t bytes;
};

static void census_done(struct census *c)
{
    for (size_t i = 0; i < c->n_records; i++)
        record_done(&c->records[i].record);
    for (size_t i = 0; i < c->n_names; i++)
        name_done(&c->names[i]);
    free(c->records);
    free(c->layers);
    free(c->names);
}
#define auto_census __attribute__((cleanup(census_done)))

static int by_dir(const void *a, const void *b)
{
    return strcmp(((const struct counted_layer *)a)->dir, ((const struct counted_layer *)b)->dir);
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct counted_record *)a)->record.id,
                  ((const struct counted_record *)b)->record.id);
}

static int by_use(const void *a, const void *b)
{
    const struct name *x = a, *y = b;

    if (x->used_ms != y->used_ms)
        return x->used_ms < y->used_ms ? -1 : 1;
    return strcmp(x->name, y->name);
}

static struct counted_record *find_record(const struct census *c, const char *id)
{
    struct counted_record key = {0};

    memcpy(key.record.id, id, DIGEST_HEX);
    return c->n_records ? bsearch(&key, c->records, c->n_records, sizeof(key), by_id) : NULL;
}

static struct counted_layer *find_layer(const struct census *c, const char *dir)
{
    struct counted_layer key = {0};

    memcpy(key.dir, dir, DIGEST_HEX);
    return c->n_layers ? bsearch(&key, c->layers, c->n_layers, sizeof(key), by_dir) : NULL;
}

static int read_records(const struct image_store *s, struct census *c, struct err *err)
{
    auto_strv char **ids = NULL;

    if (records_list(s->records, &ids, err) < 0)
        return -1;
    c->records = xcalloc(strv_len(ids) + 1, sizeof(*c->records));
    for (char **id = ids; *id; id++) /* they come sorted */
        if (records_read(s->records, *id, &c->records[c->n_records].record, NULL) == 0)
            c->n_records++;
    return 0;
}

/* One row a layer, however often it occurs. */
static void count_layers(struct census *c)
{
    size_t n = 0, total = 0;

    for (size_t i = 0; i < c->n_records; i++)
        total += c->records[i].record.n_layers;
    c->layers = xcalloc(total + 1, sizeof(*c->layers));
    for (size_t i = 0; i < c->n_records; i++) {
        const struct record *r = &c->records[i].record;

        for (size_t k = 0; k < r->n_layers; k++, n++) {
            memcpy(c->layers[n].dir, r->layers[k].dir, DIGEST_HEX);
            c->layers[n].bytes = r->layers[k].bytes;
            c->layers[n].holders = 1;
        }
    }
    if (n > 0)
        qsort(c->layers, n, sizeof(*c->layers), by_dir);
    for (size_t i = 0; i < n; i++) {
        if (c->n_layers > 0 && by_dir(&c->layers[c->n_layers - 1], &c->layers[i]) == 0)
            c->layers[c->n_layers - 1].holders++;
        else
            c->layers[c->n_layers++] = c->layers[i];
    }
    for (size_t i = 0; i < c->n_layers; i++)
        c->bytes += c->layers[i].bytes;
}

static int read_names(const struct image_store *s, struct census *c, struct err *err)
{
    auto_strv char **names = NULL;

    if (names_list(s->names, &names, err) < 0)
        return -1;
    c->names = xcalloc(strv_len(names) + 1, sizeof(*c->names));
    for (char **name = names; *name; name++) {
        struct name *n = &c->names[c->n_names];
        struct counted_record *r;

        if (names_read(s->names, *name, n, NULL) < 0)
            continue; /* who removes it sees why */
        c->n_names++;
        r = find_record(c, n->id);
        if (r)
            r->holders++;
    }
    if (c->n_names > 0)
        qsort(c->names, c->n_names, sizeof(*c->names), by_use);
    return 0;
}

static bool is_used(char *const *used_ids, const char *id)
{
    for (; used_ids && *used_ids; used_ids++) {
        const char *digits = digest_digits(*used_ids);

        if (digits && strcmp(digits, id) == 0)
            return true;
    }
    return false;
}

/* What goes with one name: the layers that nothing else has. */
static int64_t give_up(struct census *c, struct counted_record *r)
{
    int64_t bytes = 0;

    if (--r->holders > 0)
        return 0;
    for (size_t i = 0; i < r->record.n_layers; i++) {
        struct counted_layer *l = find_layer(c, r->record.layers[i].dir);

        if (--l->holders == 0)
            bytes += l->bytes;
    }
    c->bytes -= bytes;
    return bytes;
}

/* The image of a name for telling; the record keeps its own. */
static struct image *describe(const struct image_store *s, const struct name *n)
{
    auto_record struct record r = {0};
    struct image *image = NULL;

    if (records_read(s->records, n->id, &r, NULL) == 0)
        (void)store_image(s, n, &r, &image, NULL);
    return image;
}

static int prune(struct image_store *s, const struct image_prune *p, struct image ***ret,
                 unsigned *ret_n, int64_t *ret_bytes, struct err *err)
{
    auto_census struct census c = {0};
    int64_t now = now_ms();

    if (read_records(s, &c, err) < 0)
        return -1;
    count_layers(&c);
    if (read_names(s, &c, err) < 0)
        return -1;
    *ret = xcalloc(c.n_names + 1, sizeof(struct image *));
    for (size_t i = 0; i < c.n_names; i++) {
        const struct name *n = &c.names[i];
        struct counted_record *r = find_record(&c, n->id);
        struct image *image;

        if ((p->keep_bytes > 0 && c.bytes <= p->keep_bytes) || now - n->used_ms < p->unused_ms)
            break; /* the rest was used later */
        if (!r || is_used(p->used_ids, n->id))
            continue;
        image = describe(s, n);
        if (!p->dry_run && names_remove(s->names, n->name, err) < 0) {
            image_free(image);
            return -1;
        }
        if (image)
            (*ret)[(*ret_n)++] = image;
        *ret_bytes += give_up(&c, r);
    }
    return 0;
}

int image_prune(struct image_store *s, const struct image_prune *p, struct image ***ret_removed,
                unsigned *ret_n, int64_t *ret_bytes, struct err *err)
{
    struct image **removed = NULL;
    int64_t bytes = 0;
    unsigned n = 0;
    int r;

    (void)pthread_mutex_lock(&s->lock);
    r = prune(s, p, &removed, &n, &bytes, err);
    (void)pthread_mutex_unlock(&s->lock);
    if (r < 0) {
        while (n > 0)
            image_free(removed[--n]);
        free(removed);
        return err_wrap(err, "prune images");
    }
    *ret_removed = removed;
    *ret_n = n;
    *ret_bytes = bytes;
    return 0;
}
