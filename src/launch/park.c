#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "launch/attach_internal.h"
#include "launch/launch_internal.h"

unsigned parts_list(const struct parts *p, int fds[PARTS_FDS])
{
    unsigned n = 0;

    fds[n++] = p->root;
    fds[n++] = p->logs;
    fds[n++] = p->ctl;
    fds[n++] = p->exec;
    fds[n++] = p->status;
    for (unsigned i = 0; i < p->n_binds; i++)
        fds[n++] = p->binds[i];
    for (unsigned i = 0; i < p->n_mounts; i++)
        fds[n++] = p->mounts[i];
    return n;
}

int parts_from(struct parts *p, const int *fds, size_t n, size_t n_binds)
{
    if (n < 5 + n_binds || n > PARTS_FDS)
        return -EPROTO;
    p->root = fds[0];
    p->logs = fds[1];
    p->ctl = fds[2];
    p->exec = fds[3];
    p->status = fds[4];
    p->n_binds = (unsigned)n_binds;
    memcpy(p->binds, fds + 5, n_binds * sizeof(int));
    p->n_mounts = (unsigned)(n - 5 - n_binds);
    memcpy(p->mounts, fds + 5 + n_binds, p->n_mounts * sizeof(int));
    return 0;
}

/* ---- PARK ---- */

static int open_cgroups(char *const *dirs, int fds[CGROUPS_MAX], unsigned *n)
{
    for (; *dirs; dirs++) {
        char path[4200];

        if (*n == CGROUPS_MAX)
            return -E2BIG;
        (void)snprintf(path, sizeof(path), "%s/cgroup.procs", *dirs);
        fds[*n] = open(path, O_WRONLY | O_CLOEXEC);
        if (fds[*n] < 0)
            return -errno;
        (*n)++;
    }
    return 0;
}

/* On v1 in the folder of the memory controller, which is one of them. */
static int open_oom(char *const *dirs, bool v2)
{
    for (; *dirs; dirs++) {
        char path[4200];
        int fd;

        (void)snprintf(path, sizeof(path), "%s/%s", *dirs,
                       v2 ? "memory.events" : "memory.oom_control");
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 || errno != ENOENT)
            return fd < 0 ? -errno : fd;
    }
    return -ENOENT;
}

static void close_cgroups(struct cgroup_fds *c)
{
    close_fd(&c->oom);
    while (c->n_agent > 0)
        (void)close(c->agent[--c->n_agent]);
    while (c->n_work > 0)
        (void)close(c->work[--c->n_work]);
}

/* A fork with new namespaces: the child goes on here with a copy of everything. On cgroup v2 it is
 * born in its cgroup, which spares the move. */
static pid_t clone_box(int v2_cgroup, int *ret_pidfd)
{
    struct clone_args args = {
        .flags =
            CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD,
        .exit_signal = SIGCHLD,
        .pidfd = (uint64_t)(uintptr_t)ret_pidfd,
    };

    if (v2_cgroup >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)v2_cgroup;
    }
    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* Who makes a user namespace is its owner, to whom the kernel charges what is taken in it. We are
 * that for the one call; our capabilities stay (main.c). The child begins in the stage, which it
 * could not get to by itself. */
static pid_t clone_as_owner(const struct launcher *l, uint32_t owner, int v2_cgroup, int *ret_pidfd)
{
    pid_t pid = -1;
    int r;

    if (chdir(l->stage) == 0 && setresuid(owner, owner, owner) == 0)
        pid = clone_box(v2_cgroup, ret_pidfd);
    r = pid < 0 ? -errno : pid;
    if (pid == 0)
        return 0;
    if (setresuid(0, 0, 0) < 0 || chdir("/") < 0)
        abort();
    return r;
}

/* The child's folder in /proc. Nobody waits for a child, so its pid may be another's by now; but
 * who lives after the folder was opened lived then too, and the folder stays his. */
static int open_proc(const struct parked_child *p)
{
    auto_close int fd = -1;
    char path[32];

    (void)snprintf(path, sizeof(path), "/proc/%d", p->pid);
    fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || syscall(SYS_pidfd_send_signal, p->pidfd, 0, NULL, 0) < 0)
        return -errno;
    return steal_fd(fd);
}

static int map_ids(int proc, const struct plan *plan)
{
    char map[96];
    int n = snprintf(map, sizeof(map), "0 %u %u", plan->ids_base, BOX_IDS);
    int r = write_file_at(proc, "gid_map", map);

    (void)snprintf(map + n, sizeof(map) - (size_t)n, "\n%u %u 1", AGENT_UID, plan->owner);
    return r < 0 ? r : write_file_at(proc, "uid_map", map);
}

/* Mounts that every box begins with, detached. */
struct folders {
    int dev, sys;
};

/* What only the host's privileges can do for the child, then the word that it is done. */
static int equip(const struct launcher *l, const struct plan *plan, struct parked_child *p,
                 const struct folders *folders, const char **step)
{
    auto_close int proc = -1;
    int r = launch_fault(l, "equip");

    if (r < 0)
        return r;
    *step = "map the ids";
    proc = open_proc(p);
    r = proc < 0 ? proc : map_ids(proc, plan);
    if (r < 0)
        return r;
    /* When the machine as a whole runs out, sandboxes go before anything else. Written from here,
     * by somebody with CAP_SYS_RESOURCE, it is also the least that can be set inside. */
    *step = "set oom_score_adj";
    r = write_file_at(proc, "oom_score_adj", "500");
    if (r < 0)
        return r;
    p->userns = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
    if (p->userns < 0)
        return -errno;
    *step = "close /dev";
    r = dev_close(folders->dev, p->userns);
    if (r < 0)
        return r;
    *step = "hand /dev and /sys to the box";
    r = send_fds(p->sync, "d", 1, (const int[]){folders->dev, folders->sys}, 2);
    if (r == 0)
        shown_prepare(l, p->userns, &p->shown);
    return r;
}

static void parked_free(struct parked_child *p)
{
    close_fd(&p->sync);
    close_fd(&p->userns);
    shown_done(&p->shown);
    close_fd(&p->pidfd);
    free(p->id);
    free(p);
}

static int make_folders(const struct launcher *l, struct net *net, struct folders *ret,
                        const char **step)
{
    *step = "make /sys";
    ret->sys = launch_fault(l, *step) < 0 ? -EIO : make_sysfs();
    if (ret->sys < 0)
        return ret->sys;
    *step = "make /dev";
    ret->dev = launch_fault(l, *step) < 0 ? -EIO : nets_dev(net);
    return ret->dev < 0 ? ret->dev : 0;
}

/* The child is born in a network namespace that we are in meanwhile. As clone(), 0 in the child. */
static pid_t clone_in_net(struct launcher *l, uint32_t owner, int v2_cgroup, int *ret_pidfd,
                          struct folders *ret_folders, const char **step)
{
    struct net *net = NULL;
    pid_t pid;
    int r = nets_enter(l, &net, step);

    if (r < 0)
        return r;
    pid = make_folders(l, net, ret_folders, step);
    if (pid == 0) {
        *step = "clone";
        pid = clone_as_owner(l, owner, v2_cgroup, ret_pidfd);
    }
    if (pid == 0)
        return 0;
    nets_leave(l);
    nets_keep(l, net, pid < 0 ? -1 : *ret_pidfd);
    return pid;
}

static int clone_parked(struct launcher *l, const struct plan *plan,
                        const struct cgroup_fds *cgroups, struct parked_child *p,
                        struct folders *ret_folders, const char **step)
{
    auto_close int v2 = -1;
    int sync[2];

    *step = "clone";
    if (plan->cgroup_v2) {
        v2 = open(plan->work[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (v2 < 0)
            return -errno;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sync) < 0)
        return -errno;
    p->pid = clone_in_net(l, plan->owner, v2, &p->pidfd, ret_folders, step);
    if (p->pid == 0)
        box_run(l, plan, cgroups, sync[1]);
    (void)close(sync[1]);
    if (p->pid < 0)
        (void)close(sync[0]);
    else
        p->sync = sync[0];
    return p->pid < 0 ? p->pid : 0;
}

/* What the child says of its being parked; *step is named if it could not be. flags as for recv().
 * -EAGAIN when it has not said anything yet. */
static int parked_report(const struct parked_child *p, int flags, const char **step)
{
    static struct launch_report report;
    ssize_t n = recv(p->sync, &report, sizeof(report), flags);

    /* A child that ended before it had read everything: the reset comes first, then what it said.
     */
    if (n < 0 && errno == ECONNRESET)
        n = recv(p->sync, &report, sizeof(report), flags);
    if (n < 0)
        return -errno;
    if (n != sizeof(report)) {
        *step = "park the box";
        return -ECHILD;
    }
    report.step[sizeof(report.step) - 1] = '\0';
    if (report.error)
        *step = report.step;
    return -report.error;
}

/* By its descriptor: nobody waits for it, so its pid may be another's by now. */
static void end_process(const struct parked_child *p)
{
    if (p->pidfd >= 0)
        (void)syscall(SYS_pidfd_send_signal, p->pidfd, SIGKILL, NULL, 0);
}

/* The child may have died of its own step, which then is the one to name. */
static int end_child(const struct parked_child *p, int r, const char **step)
{
    int own = p->sync < 0 ? 0 : parked_report(p, MSG_DONTWAIT, step);

    end_process(p);
    return own < 0 && own != -EAGAIN ? own : r;
}

int park(struct launcher *l, const struct plan *plan, int *ret_pidfd, const char **step)
{
    struct cgroup_fds cgroups = {.oom = -1};
    struct parked_child *p;
    struct folders folders = {-1, -1};
    int r = !l->stage ? root_setup(l, plan->stage, step) : 0;

    if (r < 0)
        return r;
    p = xcalloc(1, sizeof(*p));
    p->id = xstrdup(plan->id);
    p->sync = p->userns = p->pidfd = -1;
    *step = "open the cgroups";
    r = open_cgroups(plan->agent, cgroups.agent, &cgroups.n_agent);
    if (r == 0)
        r = open_cgroups(plan->work, cgroups.work, &cgroups.n_work);
    if (r == 0)
        r = cgroups.oom = open_oom(plan->work, plan->cgroup_v2);
    if (r >= 0)
        r = clone_parked(l, plan, &cgroups, p, &folders, step);
    if (r == 0)
        r = equip(l, plan, p, &folders, step);
    close_fd(&folders.dev);
    close_fd(&folders.sys);
    close_cgroups(&cgroups);
    if (r < 0) {
        r = end_child(p, r, step);
        parked_free(p);
        return r;
    }
    p->next = l->parked;
    l->parked = p;
    *ret_pidfd = fcntl(p->pidfd, F_DUPFD_CLOEXEC, 0);
    return p->pid;
}

/* ---- START, FORGET ---- */

static struct parked_child *take(struct launcher *l, const char *id)
{
    struct parked_child **at = &l->parked, *p;

    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    p = *at;
    if (p)
        *at = p->next;
    return p;
}

int park_forget(struct launcher *l, const char *id)
{
    struct parked_child *p = take(l, id);
    int pid = p ? p->pid : 0;

    if (p)
        parked_free(p);
    return pid;
}

static void close_parts(struct parts *parts)
{
    close_fd(&parts->root);
    close_fd(&parts->logs);
    while (parts->n_binds > 0)
        (void)close(parts->binds[--parts->n_binds]);
    while (parts->n_mounts > 0)
        (void)close(parts->mounts[--parts->n_mounts]);
}

static int start(struct launcher *l, struct parked_child *p, const struct plan *plan,
                 const void *text, size_t len, const int *fds, size_t n_fds, const char **step)
{
    struct parts parts = {.root = -1,
                          .ctl = fds[PLAN_FD_CTL],
                          .exec = fds[PLAN_FD_EXEC],
                          .status = fds[PLAN_FD_STATUS]};
    int list[PARTS_FDS];
    int r;

    *step = "open the log folder";
    parts.logs =
        openat(fds[PLAN_FD_SCRATCH], "logs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r = parts.logs < 0
            ? -errno
            : root_make(l, plan, fds[PLAN_FD_SCRATCH], p->userns, &p->shown, &parts, step);
    if (r == 0)
        r = attach_prepare_all(l, plan, fds + PLAN_FDS, n_fds - PLAN_FDS, p->userns, &parts, step);
    if (r == 0) /* the child has said it long ago, unless it was made just now */
        r = parked_report(p, 0, step);
    if (r == 0) {
        *step = "send the parts to the box";
        r = send_fds(p->sync, text, len, list, parts_list(&parts, list));
    }
    close_parts(&parts);
    return r;
}

int park_start(struct launcher *l, const struct plan *plan, const void *text, size_t len,
               const int *fds, size_t n_fds, const char **step)
{
    struct parked_child *p = take(l, plan->id);
    int r;

    *step = "find the parked box";
    if (!p)
        return -ESRCH;
    r = start(l, p, plan, text, len, fds, n_fds, step);
    if (r < 0)
        end_process(p);
    else
        r = p->pid;
    parked_free(p);
    return r;
}
