#include "engine/stopped_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/lifecycle_internal.h"
#include "engine/reaper_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"
#include "runtime/runtime.h"

#define AGAIN_NS 1000000000ll /* until one that was passed over is looked at again */

/* ---- which one ---- */

static int compare_items(const void *a, const void *b)
{
    const struct stopped_item *x = a, *y = b;
    int by_tenant = strcmp(x->tenant, y->tenant);

    return by_tenant ? by_tenant : (x->since_ms > y->since_ms) - (x->since_ms < y->since_ms);
}

/* The items of one tenant, in the order of their stops. */
struct tenant_share {
    uint64_t weight;
    unsigned kept;      /* how many did not expire */
    size_t end;         /* index behind its last item */
    long first_expired; /* -1 = none */
};

static struct tenant_share share_from(const struct stopped_item *items, size_t n, size_t at)
{
    struct tenant_share ret = {.first_expired = -1, .end = at};

    for (; ret.end < n && strcmp(items[ret.end].tenant, items[at].tenant) == 0; ret.end++) {
        ret.weight += items[ret.end].weight;
        ret.kept += !items[ret.end].expired;
        if (ret.first_expired < 0 && items[ret.end].expired)
            ret.first_expired = (long)ret.end;
    }
    return ret;
}

long stopped_choose(struct stopped_item *items, size_t n, uint64_t limit)
{
    uint64_t sum = 0, most = 0, tenants = 0;
    struct tenant_share one;
    long chosen = -1;

    qsort(items, n, sizeof(*items), compare_items);
    for (size_t at = 0; at < n; at = one.end) {
        one = share_from(items, n, at);
        sum += one.weight;
        tenants++;
    }
    if (sum <= limit)
        return -1;
    for (size_t at = 0; at < n; at = one.end) {
        one = share_from(items, n, at);
        if (one.first_expired >= 0 && one.weight > limit / tenants && one.weight > most) {
            most = one.weight;
            chosen = one.first_expired;
        }
    }
    return chosen;
}

/* ---- all that are stopped ---- */

struct stopped_list {
    struct sandbox **found;
    struct stopped_item *items;
    size_t n;
};

static bool is_stopped(struct sandbox *sb, const void *arg)
{
    (void)arg;
    return sandbox_is_stopped(sb);
}

static struct stopped_list list_open(struct engine *e)
{
    struct stopped_list l = {0};

    l.found = roster_select(e, is_stopped, NULL, 0, SIZE_MAX, &l.n, NULL);
    l.items = xcalloc(l.n + 1, sizeof(*l.items));
    for (size_t i = 0; i < l.n; i++) {
        struct sandbox *sb = l.found[i];

        l.items[i] = (struct stopped_item){.sb = sb,
                                           .tenant = sb->tenant ? sb->tenant : "",
                                           .weight = 1,
                                           .expired = sandbox_is_expired(sb)};
        pthread_mutex_lock(&sb->lock);
        l.items[i].since_ms = sb->stopped_ms;
        pthread_mutex_unlock(&sb->lock);
    }
    return l;
}

static void list_close(struct stopped_list *l)
{
    for (size_t i = 0; l->found[i]; i++)
        sandbox_unref(l->found[i]);
    free(l->found);
    free(l->items);
}

/* ---- removing ---- */

/* One that is busy, or was started meanwhile, is passed over until the next look, which is soon. */
static unsigned evict_until(struct engine *e, struct stopped_list *l, uint64_t limit,
                            enum removal why)
{
    unsigned removed = 0;
    bool passed_over = false;
    long at;

    while ((at = stopped_choose(l->items, l->n, limit)) >= 0) {
        if (sandbox_remove(e, l->items[at].sb, why, NULL) == 0) {
            removed++;
            l->items[at] = l->items[--l->n];
        } else {
            l->items[at].expired = false;
            passed_over = true;
        }
    }
    if (passed_over)
        reaper_look_at(e, mono_ns() + AGAIN_NS);
    return removed;
}

/* 0 = there is none. */
static bool disk_limit(const struct engine *e, uint64_t *ret)
{
    struct host_room room;

    if (e->config.stopped_disk_percent >= 100 || runtime_room(e->runtime, &room, NULL) < 0)
        return false;
    *ret = room.total / 100 * e->config.stopped_disk_percent;
    return true;
}

unsigned stopped_evict(struct engine *e)
{
    struct stopped_list l = list_open(e);
    unsigned removed = 0;
    uint64_t limit;

    if (e->config.max_stopped > 0)
        removed += evict_until(e, &l, e->config.max_stopped, REMOVED_BY_COUNT);
    if (l.n > 0 && disk_limit(e, &limit)) {
        for (size_t i = 0; i < l.n; i++)
            l.items[i].weight = runtime_disk_bytes(e->runtime, &l.items[i].sb->box);
        removed += evict_until(e, &l, limit, REMOVED_BY_DISK);
    }
    list_close(&l);
    return removed;
}

/* ---- room for one more ---- */

int stopped_check_room(struct engine *e, const struct sandbox_maker *maker, struct err *err)
{
    uint64_t limit = e->config.max_stopped, tenants = 0;
    struct stopped_list l;
    bool full = false;

    if (limit == 0 || roster_stopped(e) < limit)
        return 0;
    l = list_open(e);
    qsort(l.items, l.n, sizeof(*l.items), compare_items);
    for (size_t at = 0; at < l.n; at = share_from(l.items, l.n, at).end)
        tenants++;
    for (size_t at = 0, next; at < l.n; at = next) {
        struct tenant_share one = share_from(l.items, l.n, at);

        next = one.end;
        if (strcmp(l.items[at].tenant, maker->tenant ? maker->tenant : "") == 0)
            full = one.kept >= limit / tenants ||
                   one.weight >= limit / tenants + e->config.max_sandboxes;
    }
    list_close(&l);
    if (!full)
        return 0;
    return err_code(err, ERR_LIMIT, "stopped_limit",
                    "at most %u sandboxes can be stopped%s (CAY_MAX_STOPPED), and only expired "
                    "ones are removed for new ones; remove or start some",
                    (unsigned)(limit / tenants),
                    tenants > 1 ? " by callers with the same label of their tokens" : "");
}
