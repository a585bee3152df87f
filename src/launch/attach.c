#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "launch/attach_internal.h"
#include "launch/launch_internal.h"
#include "launch/mount_calls.h"

/* What is mounted in a box beside its root: volumes, folders of the host, tmpfs. The daemon opens
 * and hands over detached mounts; here they get the box's ids. Whoever attaches them is root of the
 * box by then, in its mount namespace, and follows no link: the box's own processes run, and may
 * change any name at any time. */

/* ---- in the launcher ---- */

/* The folder of a mount, as a mount of its own. Before 6.15 only what is attached in our namespace
 * can be cloned, so it is on the stage meanwhile. */
static int clone_folder(const struct launcher *l, int mount, const char *sub)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    auto_free char *at = xasprintf("%s/volume", l->stage);
    auto_close int folder = -1;
    int r;

    if (move_mount(mount, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    folder = (int)syscall(SYS_openat2, mount, sub, &how, sizeof(how));
    r = folder < 0 ? -errno
                   : open_tree(folder, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (folder >= 0 && r < 0)
        r = -errno;
    (void)umount2(at, MNT_DETACH);
    return r;
}

static int idle(void *unused)
{
    (void)unused;
    while (pause() < 0)
        ;
    return 0;
}

/* A user namespace with these maps. A process has to be born in it; it shares our memory and ends
 * at once. */
static int make_users(const char *uids, const char *gids)
{
    static char stack[4096] __attribute__((aligned(16)));
    auto_close int proc = -1;
    char path[32];
    pid_t pid = clone(idle, stack + sizeof(stack), CLONE_VM | CLONE_NEWUSER | SIGCHLD, NULL);
    int r, users = -1;

    if (pid < 0)
        return -errno;
    (void)snprintf(path, sizeof(path), "/proc/%d", pid);
    proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    r = proc < 0 ? -errno : write_file_at(proc, "uid_map", uids);
    if (r == 0)
        r = write_file_at(proc, "gid_map", gids);
    if (r == 0) {
        users = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
        r = users < 0 ? -errno : 0;
    }
    (void)kill(pid, SIGKILL);
    return r < 0 ? r : users;
}

/* In it uid and gid are the host's ids of the box's root, and nothing else is anything. */
static int make_owner_map(const struct plan *plan, const struct plan_mount *m)
{
    char uids[48], gids[48];

    (void)snprintf(uids, sizeof(uids), "%u %u 1", m->uid, plan->ids_base);
    (void)snprintf(gids, sizeof(gids), "%u %u 1", m->gid, plan->ids_base);
    return make_users(uids, gids);
}

int launch_map(const struct plan *plan, int *ret_users, const char **step)
{
    char ids[128];

    *step = PLAN_STEP_MAP;
    (void)snprintf(ids, sizeof(ids), "0 0 1\n%u %u %u\n%u %u 1", plan->disk_base, plan->ids_base,
                   BOX_IDS, plan->disk_owner, plan->owner);
    *ret_users = make_users(ids, ids);
    return *ret_users < 0 ? *ret_users : 0;
}

/* What the host mounts below such a folder later is no business of the box. */
static int close_for_box(int mount, int userns, uint32_t flags)
{
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                    (flags & PLAN_MOUNT_READ_ONLY ? MOUNT_ATTR_RDONLY : 0) |
                    (flags & PLAN_MOUNT_NOEXEC ? MOUNT_ATTR_NOEXEC : 0),
        .propagation = MS_PRIVATE,
        .userns_fd = (uint64_t)userns,
    };

    return mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

int attach_prepare(const struct launcher *l, const struct plan *plan, const struct plan_mount *m,
                   int mount, int userns, const char **step)
{
    auto_close int part = -1, users = -1;
    int r = launch_fault(l, "prepare a mount");

    *step = PLAN_STEP_FOLDER;
    if (r == 0 && *m->sub)
        r = part = clone_folder(l, mount, m->sub);
    else if (r == 0)
        r = part = fcntl(mount, F_DUPFD_CLOEXEC, 0);
    if (r < 0)
        return r;
    *step = PLAN_STEP_MAP;
    if (m->flags & PLAN_MOUNT_OWNED)
        r = users = make_owner_map(plan, m);
    if (r >= 0)
        r = close_for_box(part, users >= 0 ? users : userns, m->flags);
    return r < 0 ? r : steal_fd(part);
}

int attach_prepare_all(const struct launcher *l, const struct plan *plan, const int *fds,
                       size_t n_fds, int userns, struct parts *parts, const char **step)
{
    for (uint32_t i = 0; i < plan->n_mounts; i++) {
        int fd;

        if (plan->mounts[i].flags & PLAN_MOUNT_TMPFS)
            continue;
        if (parts->n_mounts == n_fds)
            return -EPROTO;
        fd = attach_prepare(l, plan, &plan->mounts[i], fds[parts->n_mounts], userns, step);
        if (fd < 0)
            return fd;
        parts->mounts[parts->n_mounts++] = fd;
    }
    return parts->n_mounts == n_fds ? 0 : -EPROTO;
}

/* ---- in the box's mount namespace ---- */

#define FOLDER (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* One part of a path below *at, which becomes that part; made when it is missing. */
static int go_down(int *at, const char *name, bool make)
{
    int fd = openat(*at, name, FOLDER);

    if (fd < 0 && errno == ENOENT && make && (mkdirat(*at, name, 0755) == 0 || errno == EEXIST))
        fd = openat(*at, name, FOLDER);
    if (fd < 0)
        return -errno;
    close_fd(at);
    *at = fd;
    return 0;
}

/* The folder that path leads to, or with ret_name the one above it. */
static int walk(int top, const char *path, bool make, char **ret_name)
{
    auto_close int at = fcntl(top, F_DUPFD_CLOEXEC, 0);
    auto_free char *parts = xstrdup(path);
    char *rest = NULL, *name = strtok_r(parts, "/", &rest);
    int r = at < 0 ? -errno : name ? 0 : -EINVAL;

    while (r == 0 && name) {
        const char *part = name;

        name = strtok_r(NULL, "/", &rest);
        if (!name && ret_name) {
            *ret_name = xstrdup(part);
            break;
        }
        r = go_down(&at, part, make);
    }
    return r < 0 ? r : steal_fd(at);
}

/* The same folder, and mounted there: one that only lies in another mount of it does not count. */
static bool is_placed(int at, int mount)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_XDEV};
    struct stat there, here;
    auto_close int above = -1;

    if (fstat(at, &there) < 0 || fstat(mount, &here) < 0 || there.st_dev != here.st_dev ||
        there.st_ino != here.st_ino)
        return false;
    above = (int)syscall(SYS_openat2, at, "..", &how, sizeof(how));
    return above < 0 && errno == EXDEV; /* the way up leads out of the mount */
}

int attach_place(int top, const char *path, int mount)
{
    auto_close int at = walk(top, path, true, NULL);

    if (at < 0)
        return at;
    /* A daemon that was killed may have got that far. */
    if (is_placed(at, mount))
        return 0;
    return move_mount(mount, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0
               ? -errno
               : 0;
}

/* Names lead where the box wants: what is taken away is only ever what was put there, and only we
 * mount or unmount anything in there. */
static int take_away(int top, const struct plan_mount *m)
{
    auto_free char *name = NULL;
    auto_close int above = walk(top, m->path, false, &name);
    struct stat there;

    if (above < 0)
        return above;
    if (fstatat(above, name, &there, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (there.st_dev != m->device)
        return -ENOENT;
    if (fchdir(above) < 0 || umount2(name, UMOUNT_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

/* Becomes root of the box, among its mounts. */
static int enter(int process)
{
    return setns(process, CLONE_NEWUSER | CLONE_NEWNS) < 0 || setgroups(0, NULL) < 0 ||
                   setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0
               ? -errno
               : 0;
}

static int do_inside(const struct launcher *l, const struct plan *plan, const int *fds, int mount)
{
    auto_close int top = -1;
    int r = launch_fault(l, "enter the box");

    if (r == 0)
        r = enter(fds[PLAN_ATTACH_PROCESS]);
    if (r < 0)
        return r;
    top = open("/", FOLDER);
    if (top < 0)
        return -errno;
    r = launch_fault(l, plan->op == PLAN_ATTACH ? "attach" : "detach");
    if (r < 0)
        return r;
    return plan->op == PLAN_ATTACH ? attach_place(top, plan->mounts[0].path, mount)
                                   : take_away(top, &plan->mounts[0]);
}

pid_t fork_helper(int *ret_pidfd)
{
    struct clone_args args = {
        .flags = CLONE_PIDFD, .exit_signal = SIGCHLD, .pidfd = (uint64_t)(uintptr_t)ret_pidfd};
    pid_t us = getpid(), pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

    if (pid == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != us))
        _exit(1);
    return pid < 0 ? -errno : pid;
}

/* Runs the plan in a helper, which reports to the daemon itself. It is in the box's mount
 * namespace, and so holds all that is mounted there, until it has ended. */
static int go_inside(const struct launcher *l, const struct plan *plan, const int *fds, int mount,
                     int *ret_pidfd)
{
    char step[sizeof(((struct launch_report *)0)->step)];
    pid_t pid = fork_helper(ret_pidfd);
    int r;

    if (pid != 0)
        return pid < 0 ? (int)pid : 0;
    (void)snprintf(step, sizeof(step), "%s%s", PLAN_STEP_MOUNT, plan->mounts[0].path);
    r = do_inside(l, plan, fds, mount);
    launch_tell(fds[PLAN_ATTACH_STATUS], step, -r);
    _exit(0);
}

int launch_attach(struct launcher *l, const struct plan *plan, const int *fds, size_t n_fds,
                  int *ret_pidfd, const char **step)
{
    auto_close int mount = -1;
    int r;

    *step = "read the plan";
    if (plan->n_mounts != 1 || n_fds != PLAN_ATTACH_FDS)
        return -EPROTO;
    r = !l->stage ? root_setup(l, plan->stage, step) : 0;
    if (r < 0)
        return r;
    mount = attach_prepare(l, plan, &plan->mounts[0], fds[PLAN_ATTACH_MOUNT],
                           fds[PLAN_ATTACH_USERS], step);
    if (mount < 0)
        return mount;
    *step = "start a process for a mount";
    return go_inside(l, plan, fds, mount, ret_pidfd);
}

int launch_detach(const struct launcher *l, const struct plan *plan, const int *fds, size_t n_fds,
                  int *ret_pidfd, const char **step)
{
    *step = "read the plan";
    if (plan->n_mounts != 1 || n_fds != PLAN_ATTACH_PROCESS + 1)
        return -EPROTO;
    *step = "start a process for a mount";
    return go_inside(l, plan, fds, -1, ret_pidfd);
}
