#include "proto/plan.h"

#include <stdlib.h>

#include "base/mem.h"

#define PLAN_LIST_MAX 256

void plan_put(struct buf *b, const struct plan *plan)
{
    wire_put_u32(b, PLAN_VERSION);
    wire_put_u32(b, plan->op);
    wire_put_str(b, plan->id);
    wire_put_str(b, plan->stage);
    wire_put_u32(b, plan->ids_base);
    wire_put_u32(b, plan->owner);
    wire_put_list(b, plan->work);
    wire_put_list(b, plan->agent);
    wire_put_u32(b, plan->cgroup_v2);
    wire_put_str(b, plan->hostname);
    wire_put_list(b, plan->layers);
    wire_put_list(b, plan->binds);
    wire_put_u32(b, plan->cpus);
    wire_put_u32(b, plan->cpu_first);
    wire_put_u32(b, plan->cpu_quota);
    wire_put_u64(b, plan->memory_max);
    wire_put_u64(b, plan->file_max);
    wire_put_u64(b, plan->shm_max);
}

void plan_get(struct wire *w, struct plan *ret)
{
    if (wire_get_u32(w) != PLAN_VERSION)
        w->bad = true;
    ret->op = wire_get_u32(w);
    ret->id = wire_get_str(w);
    ret->stage = wire_get_str(w);
    ret->ids_base = wire_get_u32(w);
    ret->owner = wire_get_u32(w);
    ret->work = wire_get_list(w, PLAN_LIST_MAX);
    ret->agent = wire_get_list(w, PLAN_LIST_MAX);
    ret->cgroup_v2 = wire_get_u32(w);
    ret->hostname = wire_get_str(w);
    ret->layers = wire_get_list(w, PLAN_LIST_MAX);
    ret->binds = wire_get_list(w, PLAN_LIST_MAX);
    ret->cpus = wire_get_u32(w);
    ret->cpu_first = wire_get_u32(w);
    ret->cpu_quota = wire_get_u32(w);
    ret->memory_max = wire_get_u64(w);
    ret->file_max = wire_get_u64(w);
    ret->shm_max = wire_get_u64(w);
}

void plan_done(struct plan *plan)
{
    free(plan->id);
    free(plan->stage);
    strv_free(plan->work);
    strv_free(plan->agent);
    free(plan->hostname);
    strv_free(plan->layers);
    strv_free(plan->binds);
    *plan = (struct plan){0};
}
