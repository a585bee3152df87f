/* Takes away what nothing needs: rule 3 of image.c. Records go first, so that none is ever without
 * its layers.
 *
 * A worker may have found a layer here that goes now. Which ones it has found is known when it is
 * done, so that what went meanwhile is remembered until then: an image that has one of those is
 * made again. Waiting for the last worker instead would be for ever where there is always one; only
 * work that has lost what it found again and again is waited for, and its end brings a collection.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/remove.h"
#include "base/str.h"
#include "image/image.h"
#include "image/image_internal.h"
#include "layer/layer.h"
#include "layer/tree.h"

/* Digests that stay, sorted. */
struct kept_layers {
    char (*v)[DIGEST_HEX];
    size_t n, cap;
};

static void keep(struct kept_layers *k, const char *digest)
{
    if (k->n == k->cap) {
        k->cap = k->cap ? 2 * k->cap : 64;
        k->v = xrealloc(k->v, k->cap * sizeof(*k->v));
    }
    memcpy(k->v[k->n++], digest, DIGEST_HEX);
}

static int by_digest(const void *a, const void *b)
{
    return strcmp(a, b);
}

static bool is_kept(const struct kept_layers *k, const char *digest)
{
    return k->n > 0 && bsearch(digest, k->v, k->n, sizeof(*k->v), by_digest);
}

static void kept_done(struct kept_layers *k)
{
    free(k->v);
}
#define auto_kept __attribute__((cleanup(kept_done)))

struct gone {
    char dir[DIGEST_HEX];
    uint64_t when;
};

static void note_gone(struct image_store *s, const char *dir)
{
    struct gone *g;

    s->collected++;
    if (!s->works)
        return;
    s->gone = xrealloc(s->gone, (s->n_gone + 1) * sizeof(*s->gone));
    g = &s->gone[s->n_gone++];
    memcpy(g->dir, dir, DIGEST_HEX);
    g->when = s->collected;
}

bool gone_since(const struct image_store *s, const char *dir, uint64_t collected)
{
    for (size_t i = 0; i < s->n_gone; i++)
        if (s->gone[i].when > collected && strcmp(s->gone[i].dir, dir) == 0)
            return true;
    return false;
}

/* The ids that names, sandboxes and workers have. A damaged name could have any, so it ends the
 * search. */
static int wanted_ids(struct image_store *s, char *const *used, struct kept_layers *ret,
                      struct err *err)
{
    auto_strv char **names = NULL;

    if (names_list(s->names, &names, err) < 0)
        return -1;
    for (char **name = names; *name; name++) {
        auto_name struct name n = {0};

        if (names_read(s->names, *name, &n, err) < 0)
            return -1;
        keep(ret, n.id);
    }
    for (const struct work *w = s->works; w; w = w->next)
        if (w->held[0])
            keep(ret, w->held);
    for (; *used; used++)
        if (str_starts(*used, DIGEST_PREFIX) && digest_valid(*used + strlen(DIGEST_PREFIX)))
            keep(ret, *used + strlen(DIGEST_PREFIX));
    if (ret->n > 0)
        qsort(ret->v, ret->n, sizeof(*ret->v), by_digest);
    return 0;
}

/* Removes the records that are not wanted; the layers of the others are kept. */
static int sort_records(struct image_store *s, const struct kept_layers *ids,
                        struct kept_layers *layers, struct err *err)
{
    auto_strv char **all = NULL, **unwanted = NULL;

    if (records_list(s->records, &all, err) < 0)
        return -1;
    for (char **id = all; *id; id++) {
        auto_record struct record r = {0};

        if (!is_kept(ids, *id)) {
            unwanted = strv_add(unwanted, *id);
            continue;
        }
        if (records_read(s->records, *id, &r, err) < 0)
            return -1;
        for (size_t i = 0; i < r.n_layers; i++)
            keep(layers, r.layers[i].dir);
    }
    if (layers->n > 0)
        qsort(layers->v, layers->n, sizeof(*layers->v), by_digest);
    return records_remove(s->records, unwanted, err);
}

/* Under a name that stands for nothing, and that the next start removes if we do not. */
static int set_aside(struct image_store *s, int dirfd, const struct kept_layers *kept,
                     char ***aside, struct err *err)
{
    auto_strv char **there = NULL;
    char tmp[ID_SIZE];

    if (tree_names(dirfd, LAYER_MAX_ENTRIES, &there, err) < 0)
        return -1;
    for (char **l = there; *l; l++) {
        if (!digest_valid(*l) || is_kept(kept, *l))
            continue;
        id_new(tmp, "tmp");
        if (renameat(dirfd, *l, dirfd, tmp) < 0)
            return err_sys(err, errno, "set the unused layer %s aside", *l);
        *aside = strv_add(*aside, tmp);
        if (dirfd == s->layers)
            note_gone(s, *l);
    }
    return 0;
}

/* A sandbox's row says "host", or an image that stands on it, not which of the host's layers it
 * has: any such sandbox keeps them all. */
static bool host_in_use(const struct image_store *s, char *const *used)
{
    for (; *used; used++) {
        auto_record struct record r = {0};

        if (strcmp(*used, "host") == 0)
            return true;
        if (digest_digits(*used) && records_read(s->records, digest_digits(*used), &r, NULL) == 0 &&
            r.host)
            return true;
    }
    return false;
}

static int collect(struct image_store *s, char *const *used, struct err *err)
{
    auto_kept struct kept_layers ids = {0}, layers = {0}, host = {0};

    if (wanted_ids(s, used, &ids, err) < 0 || sort_records(s, &ids, &layers, err) < 0 ||
        set_aside(s, s->layers, &layers, &s->aside_layers, err) < 0)
        return -1;
    if (host_in_use(s, used))
        return 0;
    keep(&host, s->host_layer);
    return set_aside(s, s->host, &host, &s->aside_host, err);
}

static bool must_wait(const struct image_store *s)
{
    for (const struct work *w = s->works; w; w = w->next)
        if (w->alone)
            return true;
    return false;
}

int image_collect(struct image_store *s, char *const *image_ids, struct err *err)
{
    int r = 0;

    (void)pthread_mutex_lock(&s->lock);
    if (!must_wait(s))
        r = collect(s, image_ids, err);
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}

static int purge(int dirfd, char *const *names, struct err *err)
{
    int failed = 0;

    for (; names && *names; names++) {
        int r = remove_tree(dirfd, *names);

        if (r < 0)
            failed = err_sys(err, -r, "remove the unused layer %s", *names);
    }
    return failed;
}

int image_purge(struct image_store *s, struct err *err)
{
    auto_strv char **layers = NULL, **host = NULL;
    int of_layers, of_host;

    (void)pthread_mutex_lock(&s->lock);
    layers = steal_ptr(s->aside_layers);
    host = steal_ptr(s->aside_host);
    (void)pthread_mutex_unlock(&s->lock);
    of_layers = purge(s->layers, layers, err);
    of_host = purge(s->host, host, err);
    return of_layers < 0 || of_host < 0 ? -1 : 0;
}
