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

int runtime_stop(struct runtime *rt, const struct box *box, struct err *err)
{
    if (!rt->ops->stop)
        return unsupported(rt, "stop a sandbox and keep it", err);
    if (rt->ops->stop(rt, box, err) < 0)
        return err_wrap(err, "stop %s", box->id);
    return 0;
}

int runtime_ready(struct runtime *rt, struct box *box, const struct sandbox_limits *limits,
                  struct err *err)
{
    if (!rt->ops->ready)
        return unsupported(rt, "make a sandbox ready ahead", err);
    return rt->ops->ready(rt, box, limits, err);
}

int runtime_limit(struct runtime *rt, const struct box *box, const struct sandbox_limits *limits,
                  struct err *err)
{
    if (!rt->ops->limit)
        return unsupported(rt, "change the limits of a sandbox", err);
    return rt->ops->limit(rt, box, limits, err);
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

int runtime_net(struct runtime *rt, const struct box *box, int *ret_fd, struct err *err)
{
    return rt->ops->net ? rt->ops->net(rt, box, ret_fd, err)
                        : err_code(err, ERR_UNSUPPORTED, "network_unsupported",
                                   "sandboxes of the %s runtime have no network", rt->ops->name);
}

int runtime_traffic(struct runtime *rt, const struct box *box, struct box_traffic *ret,
                    struct err *err)
{
    *ret = (struct box_traffic){0};
    return rt->ops->traffic ? rt->ops->traffic(rt, box, ret, err)
                            : unsupported(rt, "count what is sent", err);
}

void runtime_io(struct runtime *rt, const struct box *box, struct box_io *ret)
{
    *ret = (struct box_io){0};
    if (rt->ops->io)
        rt->ops->io(rt, box, ret);
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

int runtime_disk_open(struct runtime *rt, const struct box *box, bool brief, int *ret_fd,
                      uint32_t *ret_ids_base, struct err *err)
{
    if (!rt->ops->disk_open)
        return unsupported(rt, "look at the disk of a sandbox", err);
    if (rt->ops->disk_open(rt, box, brief, ret_fd, ret_ids_base, err) < 0)
        return err_wrap(err, "open the disk of %s", box->id);
    return 0;
}

int runtime_volume_make(struct runtime *rt, const char *id, uint32_t mb, struct err *err)
{
    if (!rt->ops->volume_make)
        return unsupported(rt, "make a volume", err);
    return rt->ops->volume_make(rt, id, mb, err);
}

int runtime_volume_keep(struct runtime *rt, const char *id, struct err *err)
{
    if (!rt->ops->volume_keep)
        return unsupported(rt, "keep a volume", err);
    return rt->ops->volume_keep(rt, id, err);
}

int runtime_volume_doom(struct runtime *rt, const char *id, struct err *err)
{
    if (!rt->ops->volume_doom)
        return unsupported(rt, "remove a volume", err);
    return rt->ops->volume_doom(rt, id, err);
}

int runtime_volume_remove(struct runtime *rt, const char *id, struct err *err)
{
    if (!rt->ops->volume_remove)
        return unsupported(rt, "remove a volume", err);
    return rt->ops->volume_remove(rt, id, err);
}

int runtime_volume_open(struct runtime *rt, const char *id, int base, int *ret_fd, struct err *err)
{
    if (!rt->ops->volume_open)
        return unsupported(rt, "open a volume", err);
    return rt->ops->volume_open(rt, id, base, ret_fd, err);
}

int runtime_volume_room(struct runtime *rt, const char *id, int fd, struct disk_room *ret,
                        struct err *err)
{
    if (!rt->ops->volume_room)
        return unsupported(rt, "look at a volume", err);
    return rt->ops->volume_room(rt, id, fd, ret, err);
}

int runtime_volume_lease(struct runtime *rt, const char *id, int fd, uint64_t more, struct err *err)
{
    if (!rt->ops->volume_lease)
        return unsupported(rt, "bound what is written to a volume", err);
    return rt->ops->volume_lease(rt, id, fd, more, err);
}

int runtime_attach(struct runtime *rt, const struct box *box, const struct box_mount *mount,
                   struct err *err)
{
    if (!rt->ops->attach)
        return unsupported(rt, "mount something in a sandbox that runs", err);
    return rt->ops->attach(rt, box, mount, err);
}

int runtime_detach(struct runtime *rt, const struct box *box, const char *path, uint64_t device,
                   struct err *err)
{
    if (!rt->ops->detach)
        return unsupported(rt, "unmount something in a sandbox that runs", err);
    return rt->ops->detach(rt, box, path, device, err);
}

void runtime_volume_each(struct runtime *rt,
                         void (*found)(const char *id, enum volume_stage stage, void *arg),
                         void *arg)
{
    if (rt->ops->volume_each)
        rt->ops->volume_each(rt, found, arg);
}

char *runtime_find_mount(struct runtime *rt, const struct box *box, uint64_t device,
                         const char *sub, const char *path)
{
    return rt->ops->find_mount ? rt->ops->find_mount(rt, box, device, sub, path) : NULL;
}

size_t runtime_holders(struct runtime *rt, const struct box *box, uint64_t device,
                       struct box_holder *ret, size_t max)
{
    return rt->ops->holders ? rt->ops->holders(rt, box, device, ret, max) : 0;
}

void runtime_disk_abandon(struct runtime *rt, const struct box *box, bool abandoned)
{
    if (rt->ops->disk_abandon)
        rt->ops->disk_abandon(rt, box, abandoned);
}

int runtime_disk_replace(struct runtime *rt, const struct box *box, uint32_t mb, struct err *err)
{
    if (!rt->ops->disk_replace)
        return unsupported(rt, "replace the disk of a sandbox", err);
    if (rt->ops->disk_replace(rt, box, mb, err) < 0)
        return err_wrap(err, "replace the disk of %s", box->id);
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
