#include "proto/plan.h"

#include <stdlib.h>

#include "base/mem.h"

#define PLAN_LIST_MAX 256

static void put_mount(struct buf *b, const struct plan_mount *m)
{
    wire_put_str(b, m->path);
    wire_put_str(b, m->sub);
    wire_put_u32(b, m->flags);
    wire_put_u32(b, m->uid);
    wire_put_u32(b, m->gid);
    wire_put_u64(b, m->size);
    wire_put_u64(b, m->device);
}

static void get_mount(struct wire *w, struct plan_mount *ret)
{
    ret->path = wire_get_str(w);
    ret->sub = wire_get_str(w);
    ret->flags = wire_get_u32(w);
    ret->uid = wire_get_u32(w);
    ret->gid = wire_get_u32(w);
    ret->size = wire_get_u64(w);
    ret->device = wire_get_u64(w);
}

void plan_put(struct buf *b, const struct plan *plan)
{
    wire_put_u32(b, PLAN_VERSION);
    wire_put_u32(b, plan->op);
    wire_put_str(b, plan->id);
    wire_put_str(b, plan->stage);
    wire_put_u32(b, plan->ids_base);
    wire_put_u32(b, plan->owner);
    wire_put_u32(b, plan->disk_base);
    wire_put_u32(b, plan->disk_owner);
    wire_put_list(b, plan->work);
    wire_put_list(b, plan->agent);
    wire_put_u32(b, plan->cgroup_v2);
    wire_put_str(b, plan->hostname);
    wire_put_str(b, plan->nameserver);
    wire_put_list(b, plan->layers);
    wire_put_list(b, plan->binds);
    wire_put_u32(b, plan->cpus);
    wire_put_u32(b, plan->cpu_first);
    wire_put_u32(b, plan->cpu_quota);
    wire_put_u64(b, plan->memory_max);
    wire_put_u64(b, plan->file_max);
    wire_put_u64(b, plan->shm_max);
    wire_put_u32(b, plan->n_mounts);
    for (uint32_t i = 0; i < plan->n_mounts; i++)
        put_mount(b, &plan->mounts[i]);
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
    ret->disk_base = wire_get_u32(w);
    ret->disk_owner = wire_get_u32(w);
    ret->work = wire_get_list(w, PLAN_LIST_MAX);
    ret->agent = wire_get_list(w, PLAN_LIST_MAX);
    ret->cgroup_v2 = wire_get_u32(w);
    ret->hostname = wire_get_str(w);
    ret->nameserver = wire_get_str(w);
    ret->layers = wire_get_list(w, PLAN_LIST_MAX);
    ret->binds = wire_get_list(w, PLAN_LIST_MAX);
    ret->cpus = wire_get_u32(w);
    ret->cpu_first = wire_get_u32(w);
    ret->cpu_quota = wire_get_u32(w);
    ret->memory_max = wire_get_u64(w);
    ret->file_max = wire_get_u64(w);
    ret->shm_max = wire_get_u64(w);
    ret->n_mounts = wire_get_u32(w);
    if (ret->n_mounts > PLAN_MOUNTS_MAX) {
        w->bad = true;
        ret->n_mounts = 0;
    }
    for (uint32_t i = 0; i < ret->n_mounts; i++)
        get_mount(w, &ret->mounts[i]);
}

void plan_done(struct plan *plan)
{
    free(plan->id);
    free(plan->stage);
    strv_free(plan->work);
    strv_free(plan->agent);
    free(plan->hostname);
    free(plan->nameserver);
    strv_free(plan->layers);
    strv_free(plan->binds);
    for (uint32_t i = 0; i < plan->n_mounts; i++) {
        free(plan->mounts[i].path);
        free(plan->mounts[i].sub);
    }
    *plan = (struct plan){0};
}
