#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "runtime/native/disk.h"
#include "runtime/native/id_ranges.h"
#include "runtime/native/native_internal.h"

/* What boxes have left on this host: looked for in every place where one leaves its mark. */

struct ids {
    char (*v)[ID_SIZE];
    size_t n, cap;
};

static void collect(const char *id, void *arg)
{
    struct ids *ids = arg;

    if (ids->n == ids->cap) {
        ids->cap = ids->cap ? 2 * ids->cap : 64;
        ids->v = xrealloc(ids->v, ids->cap * sizeof(*ids->v));
    }
    (void)snprintf(ids->v[ids->n++], ID_SIZE, "%s", id);
}

static int by_id(const void *a, const void *b)
{
    return strcmp(a, b);
}

void native_each(struct runtime *rt, void (*found)(const char *id, void *arg), void *arg)
{
    struct native *n = native_of(rt);
    struct ids ids = {0};

    run_dir_each(n, collect, &ids);
    n->cgroup.ops->each(&n->cgroup, collect, &ids);
    disk_each(n->disk, collect, &ids);
    if (ids.n > 0)
        qsort(ids.v, ids.n, sizeof(*ids.v), by_id);
    for (size_t i = 0; i < ids.n; i++)
        if (i == 0 || strcmp(ids.v[i], ids.v[i - 1]) != 0)
            found(ids.v[i], arg);
    free(ids.v);
}

void native_trace(struct runtime *rt, const char *id, struct box_trace *ret)
{
    struct native *n = native_of(rt);
    struct box_stats stats = {0};
    int64_t owner;

    (void)recall_box(n, &ret->box);
    ret->running = ret->box.pid > 0 && ret->box.pid_start > 0 &&
                   process_start_time(ret->box.pid) == ret->box.pid_start;
    if (n->cgroup.ops->stats(&n->cgroup, id, &stats, NULL) == 0)
        ret->processes = stats.pids;
    ret->has_disk = disk_find(n->disk, id, ret->path, sizeof(ret->path));
    if (!ret->has_disk)
        return;
    ret->disk_bytes = disk_used(n->disk, id);
    /* The folder with that note does not outlive a reboot; the owner of the files does. */
    owner = ret->box.slot == BOX_NO_SLOT ? disk_owner(n->disk, id) : -1;
    if (owner >= 0)
        ret->box.slot = id_range_of((uint32_t)owner);
}

struct ranges {
    const char *owner;
    const uint32_t *slots;
    size_t n;
};

static void release_unless_kept(uint32_t slot, void *arg)
{
    const struct ranges *kept = arg;

    for (size_t i = 0; i < kept->n; i++)
        if (kept->slots[i] == slot)
            return;
    id_range_release(kept->owner, slot);
}

void native_keep_ranges(struct runtime *rt, const uint32_t *slots, size_t n)
{
    struct ranges kept = {native_of(rt)->data_dir, slots, n};

    id_range_each(kept.owner, release_unless_kept, &kept);
}
