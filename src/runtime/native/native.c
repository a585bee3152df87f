#include "runtime/native/native.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "proto/plan.h"
#include "runtime/native/disk.h"
#include "runtime/native/id_ranges.h"
#include "runtime/native/native_internal.h"

#define CHILDREN_MORE 2 /* when the one that was parked is gone */

/* A box from its preparation to its end. The other files each know one of the things that it is
 * made of. */

static int native_reserve(struct runtime *rt, struct box *box, struct err *err)
{
    struct native *n = native_of(rt);

    if (cgroup_room(&n->cgroup, err) < 0)
        return -1;
    return id_range_take(n->data_dir, &box->slot, err);
}

/* All of a box but its disk and what depends on its image. */
static int furnish(struct native *n, struct berth *b, struct box *box,
                   const struct sandbox_limits *limits, struct err *err)
{
    b->limits = *limits;
    if (n->cgroup.ops->make(&n->cgroup, box->id, limits, err) < 0 || run_dir_make(n, b, err) < 0 ||
        box_park(n, b, box, err) < 0)
        return -1;
    return 0;
}

static int native_prepare(struct runtime *rt, struct box *box, const struct sandbox_limits *limits,
                          struct err *err)
{
    struct native *n = native_of(rt);
    struct berth *b = berth_add(n, box->id);

    berth_set_range(n, b, box->slot);
    if (disk_make(n->disk, box->id, limits->disk_mb, id_range_base(box->slot), &b->scratch,
                  &b->disk_lives, err) < 0)
        return -1;
    return furnish(n, b, box, limits, err);
}

/* Of a disk that had a lease not all that was accepted may have been written; one that was opened
 * for somebody else may be open still; of one that was here before us nothing is known. */
static int retire_disk(struct native *n, struct berth *b, const char *id, struct err *err)
{
    /* One that is mounted still has to be told that nobody wants what is on it. */
    if (b && b->scratch < 0 && b->root >= 0)
        (void)disk_view(n->disk, id, &b->scratch, NULL);
    if (b && b->scratch < 0)
        close_fd(&b->root);
    if (!b || b->scratch < 0)
        return disk_remove(n->disk, id, err);
    return disk_retire(n->disk, id,
                       (struct disk_left){.fd = steal_fd(b->scratch),
                                          .root = steal_fd(b->root),
                                          .mb = b->limits.disk_mb,
                                          .lives = b->disk_lives,
                                          .used = !b->parked},
                       err);
}

static int another_disk(struct native *n, struct berth *b, uint32_t disk_mb, struct err *err)
{
    if (retire_disk(n, b, b->id, err) < 0 ||
        disk_make(n->disk, b->id, disk_mb, id_range_base(b->slot), &b->scratch, &b->disk_lives,
                  err) < 0)
        return -1;
    b->limits.disk_mb = disk_mb; /* whatever becomes of the box: the disk is kept by its size */
    return 0;
}

/* Prepared with other limits than wanted: correct what differs. */
static int fit(struct native *n, struct berth *b, const struct sandbox_limits *limits,
               struct err *err)
{
    if (b->limits.disk_mb != limits->disk_mb && another_disk(n, b, limits->disk_mb, err) < 0)
        return -1;
    if ((b->limits.memory_mb != limits->memory_mb || b->limits.cpu_millis != limits->cpu_millis ||
         b->limits.pids != limits->pids) &&
        n->cgroup.ops->limit(&n->cgroup, b->id, limits, err) < 0)
        return -1;
    b->limits = *limits;
    return 0;
}

/* Whoever wrote to a disk may have filled it, or put something else in their place. */
static int make_dirs(const struct berth *b, const struct box_root *root, struct err *err)
{
    for (unsigned i = 0; i < root->n_dirs; i++)
        if (disk_make_dir(b->scratch, root->dirs[i].path, root->dirs[i].mode,
                          id_range_base(b->slot), err) < 0 &&
            !b->again)
            return -1;
    return 0;
}

/* The range of the ids on a disk, which stays what it was when the disk was made. */
static uint32_t slot_of_disk(int root)
{
    struct stat upper;

    return fstatat(root, "upper", &upper, AT_SYMLINK_NOFOLLOW) < 0 ? UINT32_MAX
                                                                   : id_range_of(upper.st_uid);
}

/* Shows the ids on a disk as those of the range that the box has now. */
static int map_disk(struct native *n, const struct berth *b, int mount, struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP};
    uint32_t slot = slot_of_disk(mount);
    struct plan plan = {.op = PLAN_MAP,
                        .id = (char *)(uintptr_t)b->id,
                        .ids_base = id_range_base(b->slot),
                        .owner = id_range_owner(b->slot),
                        .disk_base = id_range_base(slot),
                        .disk_owner = id_range_owner(slot)};
    auto_close int users = -1;

    if (slot == b->slot)
        return 0;
    if (slot == UINT32_MAX)
        return err_set(err, ERR_CONFLICT, "the owner of its files is not known");
    if (send_plan(n, &plan, NULL, 0, LAUNCHER_WAIT, &users, err) < 0)
        return -1;
    attr.userns_fd = (uint64_t)users;
    return mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0
               ? err_sys(err, errno, "map the ids of the disk of %s", b->id)
               : 0;
}

/* Another mount of the disk, for another box over what the last one wrote, without the overlay that
 * may have been on it. The old one may have been attached, and cannot be again. */
static int mount_disk(struct native *n, struct berth *b, struct err *err)
{
    auto_close int fd = -1;

    close_fd(&b->root);
    if (disk_mount(n->disk, b->id, id_range_base(b->slot), &fd, err) < 0 ||
        map_disk(n, b, fd, err) < 0)
        return -1;
    close_fd(&b->scratch);
    b->scratch = steal_fd(fd);
    return 0;
}

/* Another child for one that is gone, whose root may have been mounted. */
static int begin_again(struct native *n, struct berth *b, struct box *box, struct err *err)
{
    log_warn("the prepared child of a sandbox was gone; another takes its place", "id", b->id);
    if (box_end(n, b, err) < 0 || mount_disk(n, b, err) < 0)
        return -1;
    return box_park(n, b, box, err);
}

/* The parked child may have been ended by somebody, or with the launcher. */
static int bring_up(struct native *n, struct berth *b, struct box *box, const struct box_root *root,
                    struct err *err)
{
    int r = box_start(n, b, box, root, err);

    for (int again = 0; r == BOX_LOST && again < CHILDREN_MORE; again++) {
        r = begin_again(n, b, box, err);
        if (r == 0)
            r = box_start(n, b, box, root, err);
    }
    return r;
}

static int native_kill(struct runtime *rt, const struct box *box, struct err *err)
{
    struct native *n = native_of(rt);
    struct berth *b = berth_find(n, box->id);

    if (b && b->pidfd >= 0)
        return box_end(n, b, err);
    n->cgroup.ops->kill(&n->cgroup, box->id);
    return 0;
}

/* Closing the disk unmounts it. Its cached files are charged to the groups, so these come after it.
 * What cannot be written is lost, and said at the end. */
static int native_stop(struct runtime *rt, const struct box *box, struct err *err)
{
    struct native *n = native_of(rt);
    struct berth *b = berth_find(n, box->id);
    int r = 0;

    if (b && b->parked)
        box_forget(n, b);
    if (native_kill(rt, box, err) < 0)
        return -1;
    if (b) {
        if (b->scratch >= 0 && b->abandoned)
            disk_give_up(n->disk, b->scratch);
        close_fd(&b->root);
        if (b->scratch >= 0 && !b->abandoned)
            r = disk_flush(b->scratch, box->id, err);
        b->abandoned = false;
        b->parked = false;
        berth_set_process(n, b, -1);
        close_fd(&b->scratch);
        close_fd(&b->ctl);
        close_fd(&b->exec);
    }
    if (n->cgroup.ops->remove(&n->cgroup, box->id, r < 0 ? NULL : err) < 0)
        return -1;
    run_dir_remove(n, box->id);
    return r;
}

/* A range is its own until a reboot. Afterwards another daemon may have taken it, and a sandbox
 * that an older copy of the database brought back has one that may be another's by now: then the
 * box gets a free one, and its disk is mounted so that the ids on it are those. */
static int own_range(struct native *n, struct berth *b, struct err *err)
{
    uint32_t slot;

    if (b->slot == BOX_NO_SLOT)
        return err_set(err, ERR_CONFLICT, "the owner of its files is not known");
    if (!berth_shares_range(n, b) && id_range_retake(n->data_dir, b->slot))
        return 0;
    if (id_range_take(n->data_dir, &slot, err) < 0)
        return -1;
    log_info("a sandbox gets another id range, since its own is in use", "id", b->id);
    berth_set_range(n, b, slot);
    return 0;
}

/* Of one that was stopped: all that it has is a disk and an id range, but for what an attempt that
 * failed has left. */
static int revive(struct native *n, struct berth *b, struct box *box,
                  const struct sandbox_limits *limits, struct err *err)
{
    if (own_range(n, b, err) < 0 || native_stop(&n->runtime, box, err) < 0 ||
        mount_disk(n, b, err) < 0)
        return -1;
    box->slot = b->slot;
    b->disk_lives = DISK_ONCE; /* nobody knows any more how much was on it */
    b->again = true;
    return furnish(n, b, box, limits, err);
}

static int native_ready(struct runtime *rt, struct box *box, const struct sandbox_limits *limits,
                        struct err *err)
{
    struct native *n = native_of(rt);
    struct berth *b = berth_find(n, box->id);

    if (!b)
        return err_set(err, ERR_NOT_FOUND, "it has no box");
    box->slot = b->slot;
    return b->ctl < 0 ? revive(n, b, box, limits, err) : 0;
}

static int native_create(struct runtime *rt, struct box *box, const struct box_root *root,
                         const struct sandbox_limits *limits, struct err *err)
{
    struct native *n = native_of(rt);
    struct berth *b = berth_find(n, box->id);

    if (!b) {
        if ((box->slot == BOX_NO_SLOT && native_reserve(rt, box, err) < 0) ||
            native_prepare(rt, box, limits, err) < 0)
            return -1;
        b = berth_find(n, box->id);
    } else if (b->ctl < 0 && revive(n, b, box, limits, err) < 0) {
        return -1;
    }
    box->slot = b->slot;
    if (cgroup_room(&n->cgroup, err) < 0 || fit(n, b, limits, err) < 0 ||
        make_dirs(b, root, err) < 0 || bring_up(n, b, box, root, err) < 0)
        return -1;
    /* The box has its own now, and a socket that only we held would still take connections. The
     * disk stays open: so the last process of the box does not have to unmount it, which takes
     * longer than all else in a kill. */
    close_fd(&b->ctl);
    close_fd(&b->exec);
    return 0;
}

static int native_destroy(struct runtime *rt, const struct box *box, struct err *err)
{
    struct native *n = native_of(rt);
    struct berth *b = berth_find(n, box->id);
    uint32_t slot = b ? b->slot : box->slot;
    bool last;

    if (b && b->parked)
        box_forget(n, b);
    /* The disk first: its cached files are charged to the groups, which are used again only when
     * nothing is. */
    if (native_kill(rt, box, err) < 0 || retire_disk(n, b, box->id, err) < 0 ||
        n->cgroup.ops->remove(&n->cgroup, box->id, err) < 0)
        return -1;
    /* A box that an older copy of the database brought back has a range that may be another's by
     * now. */
    last = berth_drop(n, box->id, slot);
    run_dir_remove(n, box->id);
    if (last)
        id_range_release(n->data_dir, slot);
    return 0;
}

static int native_watch_fd(struct runtime *rt, const struct box *box)
{
    struct berth *b = berth_find(native_of(rt), box->id);

    return b ? b->pidfd : -1;
}

static bool native_lives(struct runtime *rt, const struct box *box)
{
    return berth_lives(native_of(rt), box->id);
}

static int native_connect(struct runtime *rt, const struct box *box, enum box_channel channel,
                          int *ret_fd, struct err *err)
{
    struct native *n = native_of(rt);
    auto_free char *path = run_path(n, box->id, channel == BOX_EXEC ? "exec.sock" : "agent.sock");
    int fd = unix_connect_now(path);

    if (fd == -EAGAIN)
        return err_code(err, ERR_UNAVAILABLE, "sandbox_busy",
                        "%s has too many calls that it has not taken yet; try again later, or "
                        "remove it if that goes on",
                        box->id);
    if (fd < 0)
        return err_code(err, ERR_UNAVAILABLE, "agent_lost",
                        "the agent of %s does not answer (%s); the sandbox may have ended", box->id,
                        strerror(-fd));
    *ret_fd = fd;
    return 0;
}

static int native_limit(struct runtime *rt, const struct box *box,
                        const struct sandbox_limits *limits, struct err *err)
{
    struct native *n = native_of(rt);
    struct berth *b = berth_find(n, box->id);

    if (n->cgroup.ops->limit(&n->cgroup, box->id, limits, err) < 0)
        return -1;
    if (b) {
        b->limits.memory_mb = limits->memory_mb;
        b->limits.cpu_millis = limits->cpu_millis;
        b->limits.pids = limits->pids;
    }
    return 0;
}

static int native_pause(struct runtime *rt, const struct box *box, bool paused, struct err *err)
{
    struct native *n = native_of(rt);

    return n->cgroup.ops->freeze(&n->cgroup, box->id, paused, err);
}

static void native_begin_pause(struct runtime *rt, const struct box *box)
{
    struct native *n = native_of(rt);

    n->cgroup.ops->begin_freeze(&n->cgroup, box->id);
}

static int native_stats(struct runtime *rt, const struct box *box, struct box_stats *ret,
                        struct err *err)
{
    struct native *n = native_of(rt);

    *ret = (struct box_stats){0};
    if (n->cgroup.ops->stats(&n->cgroup, box->id, ret, err) < 0)
        return -1;
    ret->disk_bytes = disk_used(n->disk, box->id);
    return 0;
}

static int native_disk_open(struct runtime *rt, const struct box *box, bool brief, int *ret_fd,
                            uint32_t *ret_ids_base, struct err *err)
{
    struct berth *b = berth_find(native_of(rt), box->id);
    uint32_t slot;

    if (box->slot == BOX_NO_SLOT)
        return err_set(err, ERR_CONFLICT, "it has no disk");
    if (brief && b && b->scratch >= 0) {
        *ret_ids_base = id_range_base(b->slot);
        *ret_fd = openat(b->scratch, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return *ret_fd < 0 ? err_sys(err, errno, "open the disk of %s", box->id) : 0;
    }
    if (b)
        b->disk_lives = DISK_ONCE;
    if (disk_view(native_of(rt)->disk, box->id, ret_fd, err) < 0)
        return -1;
    slot = slot_of_disk(*ret_fd);
    *ret_ids_base = id_range_base(slot == UINT32_MAX ? box->slot : slot);
    return 0;
}

static void native_disk_abandon(struct runtime *rt, const struct box *box, bool abandoned)
{
    struct berth *b = berth_find(native_of(rt), box->id);

    if (b)
        b->abandoned = abandoned;
}

/* Its size is that of the sandbox; whose it is, is the berth's business again when a box comes. */
static int native_disk_replace(struct runtime *rt, const struct box *box, uint32_t mb,
                               struct err *err)
{
    struct native *n = native_of(rt);
    auto_close int fd = -1;
    unsigned lives;

    if (box->slot == BOX_NO_SLOT)
        return err_set(err, ERR_CONFLICT, "the owner of its files is not known");
    if (native_stop(rt, box, err) < 0 || disk_remove(n->disk, box->id, err) < 0 ||
        disk_make(n->disk, box->id, mb, id_range_base(box->slot), &fd, &lives, err) < 0)
        return -1;
    return 0;
}

static int native_probe(struct runtime *rt, struct err *err)
{
    (void)rt;
    if (access("/sbin/mke2fs", X_OK) < 0)
        return err_set(err, ERR_UNAVAILABLE,
                       "mke2fs is needed for the disks of sandboxes; install e2fsprogs");
    if (access("/dev/loop-control", R_OK | W_OK) < 0)
        return err_set(err, ERR_UNAVAILABLE,
                       "loop devices are needed for the disks of sandboxes; run `modprobe loop`");
    return 0;
}

static void native_free(struct runtime *rt)
{
    struct native *n = native_of(rt);

    berths_done(n);
    if (n->cgroup.ops)
        n->cgroup.ops->close(&n->cgroup);
    cgroup_done(&n->cgroup);
    disk_free(n->disk);
    id_ranges_done(n->data_dir);
    (void)pthread_mutex_destroy(&n->lock);
    (void)pthread_mutex_destroy(&n->launcher_lock);
    (void)pthread_cond_destroy(&n->launcher_back);
    close_fd(&n->launcher);
    free(n->data_dir);
    free(n->run_dir);
    free(n->stage);
    free(n->nameserver);
    free(n);
}

static const struct runtime_ops native_ops = {
    .name = "native",
    .boundary = "shared kernel, hardened",
    .probe = native_probe,
    .reserve = native_reserve,
    .prepare = native_prepare,
    .create = native_create,
    .kill = native_kill,
    .stop = native_stop,
    .ready = native_ready,
    .destroy = native_destroy,
    .adopt = native_adopt,
    .watch_fd = native_watch_fd,
    .lives = native_lives,
    .connect = native_connect,
    .look = native_look,
    .limit = native_limit,
    .pause = native_pause,
    .begin_pause = native_begin_pause,
    .stats = native_stats,
    .net = native_net,
    .traffic = native_traffic,
    .io = native_io,
    .room = native_room,
    .unwritten = native_unwritten,
    .disk_bytes = native_disk_bytes,
    .disk_room = native_disk_room,
    .disk_lease = native_disk_lease,
    .disk_open = native_disk_open,
    .volume_make = native_volume_make,
    .volume_keep = native_volume_keep,
    .volume_doom = native_volume_doom,
    .volume_remove = native_volume_remove,
    .volume_each = native_volume_each,
    .volume_open = native_volume_open,
    .volume_room = native_volume_room,
    .volume_lease = native_volume_lease,
    .attach = native_attach,
    .detach = native_detach,
    .find_mount = native_find_mount,
    .holders = native_holders,
    .disk_abandon = native_disk_abandon,
    .disk_replace = native_disk_replace,
    .each = native_each,
    .trace = native_trace,
    .keep_ranges = native_keep_ranges,
    .free = native_free,
};

struct runtime *native_new(const struct native_config *config, struct err *err)
{
    struct native *n = xcalloc(1, sizeof(*n));
    struct cgroup_caps caps = {.memory = config->memory_mb << 20, .pids = config->pids};
    char name[32];

    n->runtime.ops = &native_ops;
    n->data_dir = xstrdup(config->data_dir);
    n->run_dir = xstrdup(config->run_dir);
    n->stage = xasprintf("%s/stage", config->run_dir);
    n->nameserver = config->nameserver ? xstrdup(config->nameserver) : NULL;
    n->launcher = config->launcher_fd;
    n->launcher_hung_fd = config->launcher_hung_fd;
    atomic_init(&n->launcher_ms, (int)config->launcher_s * 1000);
    (void)pthread_mutex_init(&n->lock, NULL);
    (void)pthread_mutex_init(&n->launcher_lock, NULL);
    (void)pthread_cond_init(&n->launcher_back, NULL);
    /* One parent a data directory, so that daemons side by side see only their own. */
    (void)snprintf(name, sizeof(name), "cay-%08x", str_hash(config->data_dir));
    if ((mkdir(n->stage, 0700) < 0 && errno != EEXIST)) {
        (void)err_sys(err, errno, "make %s", n->stage);
    } else if (cgroup_open(&n->cgroup, name, config->cgroup, &caps, err) == 0 &&
               disk_open(config->data_dir, &n->disk, err) == 0) {
        return &n->runtime;
    }
    native_free(&n->runtime);
    return NULL;
}
