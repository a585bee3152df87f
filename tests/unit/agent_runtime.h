#pragma once

/* A runtime whose boxes all have the agent of agent_rig.h: what the engine says to it is done for
 * real, as an ordinary process. The rest of a box is not there. */

#include <sys/eventfd.h>

#include "agent_rig.h"
#include "fake_volumes.h"
#include "runtime/runtime.h"

static int rig_reserve(struct runtime *rt, struct box *box, struct err *err)
{
    (void)rt, (void)err;
    box->slot = 0;
    return 0;
}

static int rig_create(struct runtime *rt, struct box *box, const struct box_root *root,
                      const struct sandbox_limits *limits, struct err *err)
{
    (void)rt, (void)root, (void)limits, (void)err;
    box->pid = rig.agent;
    return 0;
}

/* The agent is also that of the others: it ends with the test. */
static int rig_nothing(struct runtime *rt, const struct box *box, struct err *err)
{
    (void)rt, (void)box, (void)err;
    return 0;
}

static int rig_watch(struct runtime *rt, const struct box *box)
{
    (void)rt, (void)box;
    return -1;
}

static bool rig_lost; /* from now on the agent hangs up on every call */

static int rig_open_lost(void)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    (void)close(pair[1]);
    return pair[0];
}

static int rig_open(struct runtime *rt, const struct box *box, enum box_channel channel,
                    int *ret_fd, struct err *err)
{
    int fd = rig_lost ? rig_open_lost() : unix_connect(channel == BOX_EXEC ? rig.exec : rig.ctl);

    (void)rt, (void)box;
    if (fd < 0)
        return err_sys(err, -fd, "connect to the agent");
    *ret_fd = fd;
    return 0;
}

static int rig_pause(struct runtime *rt, const struct box *box, bool paused, struct err *err)
{
    (void)rt, (void)box, (void)paused, (void)err;
    return 0;
}

static int rig_stats(struct runtime *rt, const struct box *box, struct box_stats *ret,
                     struct err *err)
{
    (void)rt, (void)box, (void)err;
    *ret = (struct box_stats){.cpu_ns = 1000, .memory_bytes = 3 << 20, .pids = 2};
    return 0;
}

static int rig_disk_replace(struct runtime *rt, const struct box *box, uint32_t mb, struct err *err)
{
    (void)rt, (void)box, (void)mb, (void)err;
    return 0;
}

static int rig_disk(struct runtime *rt, const struct box *box, bool brief, int *ret_fd,
                    uint32_t *ret_ids_base, struct err *err)
{
    (void)rt, (void)box, (void)brief, (void)err;
    *ret_fd = eventfd(0, EFD_CLOEXEC);
    *ret_ids_base = 0;
    return 0;
}

static const struct runtime_ops rig_ops = {
    .name = "native",
    .boundary = "none",
    .reserve = rig_reserve,
    .create = rig_create,
    .kill = rig_nothing,
    .stop = rig_nothing,
    .destroy = rig_nothing,
    .watch_fd = rig_watch,
    .connect = rig_open,
    .pause = rig_pause,
    .stats = rig_stats,
    .disk_open = rig_disk,
    FAKE_VOLUME_OPS,
    .disk_replace = rig_disk_replace,
};

static struct runtime rig_runtime = {&rig_ops};
