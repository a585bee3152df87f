#include "runtime/runtime.h"

#include <stdio.h>

#include "base/err.h"

static int unsupported(const struct runtime *rt, const char *what, struct err *err)
{
    return err_set(err, ERR_UNSUPPORTED, "%s cannot %s", rt->ops->name, what);
}

int runtime_probe(struct runtime *rt, struct err *err)
{
    return rt->ops->probe ? rt->ops->probe(rt, err) : 0;
}

int runtime_reserve(struct runtime *rt, struct box *box, struct err *err)
{
    return rt->ops->reserve ? rt->ops->reserve(rt, box, err) : 0;
}

int runtime_prepare(struct runtime *rt, struct box *box, const struct sandbox_limits *limits,
                    struct err *err)
{
    return rt->ops->prepare ? rt->ops->prepare(rt, box, limits, err) : 0;
}

int runtime_create(struct runtime *rt, struct box *box, const struct box_root *root,
                   const struct sandbox_limits *limits, struct err *err)
{
    if (!rt->ops->create)
        return unsupported(rt, "create a sandbox", err);
    return rt->ops->create(rt, box, root, limits, err);
}

int runtime_kill(struct runtime *rt, const struct box *box, struct err *err)
{
    if (!rt->ops->kill)
        return unsupported(rt, "end a sandbox", err);
    if (rt->ops->kill(rt, box, err) < 0)
        return err_wrap(err, "end %s", box->id);
    return 0;
}

int runtime_destroy(struct runtime *rt, const struct box *box, struct err *err)
{
    if (!rt->ops->destroy)
        return unsupported(rt, "remove a sandbox", err);
    if (rt->ops->destroy(rt, box, err) < 0)
        return err_wrap(err, "remove %s", box->id);
    return 0;
}

int runtime_adopt(struct runtime *rt, struct box *box, struct err *err)
{
    return rt->ops->adopt ? rt->ops->adopt(rt, box, err) : 0;
}

int runtime_watch_fd(struct runtime *rt, const struct box *box)
{
    return rt->ops->watch_fd ? rt->ops->watch_fd(rt, box) : -1;
}

bool runtime_lives(struct runtime *rt, const struct box *box)
{
    return rt->ops->lives && rt->ops->lives(rt, box);
}

int runtime_connect(struct runtime *rt, const struct box *box, enum box_channel channel,
                    int *ret_fd, struct err *err)
{
    if (!rt->ops->connect)
        return unsupported(rt, "reach its agents", err);
    return rt->ops->connect(rt, box, channel, ret_fd, err);
}

enum box_look runtime_look(struct runtime *rt, const struct box *box)
{
    return rt->ops->look ? rt->ops->look(rt, box) : BOX_BUSY;
}

int runtime_pause(struct runtime *rt, const struct box *box, bool paused, struct err *err)
{
    if (!rt->ops->pause)
        return unsupported(rt, "pause a sandbox", err);
    if (rt->ops->pause(rt, box, paused, err) < 0)
        return err_wrap(err, "%s %s", paused ? "pause" : "resume", box->id);
    return 0;
}

void runtime_begin_pause(struct runtime *rt, const struct box *box)
{
    if (rt->ops->begin_pause)
        rt->ops->begin_pause(rt, box);
}

int runtime_stats(struct runtime *rt, const struct box *box, struct box_stats *ret, struct err *err)
{
    if (!rt->ops->stats)
        return unsupported(rt, "measure a sandbox", err);
    return rt->ops->stats(rt, box, ret, err);
}

int runtime_room(struct runtime *rt, struct host_room *ret, struct err *err)
{
    return rt->ops->room ? rt->ops->room(rt, ret, err) : unsupported(rt, "tell its room", err);
}

void runtime_unwritten(struct runtime *rt, struct unwritten *ret)
{
    *ret = (struct unwritten){0};
    if (rt->ops->unwritten)
        rt->ops->unwritten(rt, ret);
}

uint64_t runtime_disk_bytes(struct runtime *rt, const struct box *box)
{
    return rt->ops->disk_bytes ? rt->ops->disk_bytes(rt, box) : 0;
}

int runtime_disk_room(struct runtime *rt, const struct box *box, struct disk_room *ret,
                      struct err *err)
{
    if (!rt->ops->disk_room)
        return unsupported(rt, "look at the disk of a sandbox", err);
    return rt->ops->disk_room(rt, box, ret, err);
}

int runtime_disk_lease(struct runtime *rt, const struct box *box, uint64_t more, struct err *err)
{
    if (!rt->ops->disk_lease)
        return unsupported(rt, "bound what a sandbox writes", err);
    return rt->ops->disk_lease(rt, box, more, err);
}

int runtime_disk_open(struct runtime *rt, const struct box *box, int *ret_fd,
                      uint32_t *ret_ids_base, struct err *err)
{
    if (!rt->ops->disk_open)
        return unsupported(rt, "look at the disk of a sandbox", err);
    if (rt->ops->disk_open(rt, box, ret_fd, ret_ids_base, err) < 0)
        return err_wrap(err, "open the disk of %s", box->id);
    return 0;
}

void runtime_each(struct runtime *rt, void (*found)(const char *id, void *arg), void *arg)
{
    if (rt->ops->each)
        rt->ops->each(rt, found, arg);
}

void runtime_trace(struct runtime *rt, const char *id, struct box_trace *ret)
{
    *ret = (struct box_trace){.box.slot = BOX_NO_SLOT};
    (void)snprintf(ret->box.id, sizeof(ret->box.id), "%s", id);
    if (rt->ops->trace)
        rt->ops->trace(rt, id, ret);
}

void runtime_keep_ranges(struct runtime *rt, const uint32_t *slots, size_t n)
{
    if (rt->ops->keep_ranges)
        rt->ops->keep_ranges(rt, slots, n);
}

void runtime_free(struct runtime *rt)
{
    if (rt)
        rt->ops->free(rt);
}
