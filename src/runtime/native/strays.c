#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "runtime/native/disk.h"
#include "runtime/native/id_ranges.h"
#include "runtime/native/native_internal.h"

/* What boxes have left on this host: looked for in every place where one leaves its mark. */

/* One id of the run folder, for native_each(). */
struct visitor {
    const struct native *n;
    void (*found)(const struct box *box, void *arg);
    void *arg;
};

static void visit_id(const char *id, void *arg)
{
    struct visitor *v = arg;
    struct box box = {0};

    (void)snprintf(box.id, sizeof(box.id), "%s", id);
    if (recall_box(v->n, &box))
        v->found(&box, v->arg);
}

void native_each(struct runtime *rt, void (*found)(const struct box *box, void *arg), void *arg)
{
    struct visitor v = {.n = native_of(rt), .found = found, .arg = arg};

    run_dir_each(v.n, visit_id, &v);
}

struct strays {
    struct native *n;
    const struct box *known;
    unsigned n_known;
    int failed;
};

static void stray_id(const char *id, void *arg)
{
    struct strays *s = arg;
    struct box box = {0};

    for (unsigned i = 0; i < s->n_known; i++)
        if (strcmp(s->known[i].id, id) == 0)
            return;
    (void)snprintf(box.id, sizeof(box.id), "%s", id);
    box.slot = BOX_NO_SLOT; /* its range is found by stray_slot() */
    (void)native_adopt(&s->n->runtime, &box, NULL);
    if (native_destroy(&s->n->runtime, &box, NULL) < 0)
        s->failed++;
}

static void stray_slot(uint32_t slot, void *arg)
{
    struct strays *s = arg;

    for (unsigned i = 0; i < s->n_known; i++)
        if (s->known[i].slot == slot)
            return;
    id_range_release(slot);
}

int native_remove_strays(struct runtime *rt, const struct box *known, unsigned n_known,
                         struct err *err)
{
    struct native *n = native_of(rt);
    struct strays s = {.n = n, .known = known, .n_known = n_known};

    run_dir_each(n, stray_id, &s);
    n->cgroup.ops->each(&n->cgroup, stray_id, &s);
    disk_each(n->disk, stray_id, &s);
    id_range_each(n->data_dir, stray_slot, &s);
    return s.failed ? err_set(err, ERR_INTERNAL, "%d leftovers could not be removed", s.failed) : 0;
}
