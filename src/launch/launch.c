#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "launch/launch_internal.h"

#define IDS 65536

void report_failure(int status, const char *step, int error)
{
    struct launch_failure f = {.error = error};

    (void)snprintf(f.step, sizeof(f.step), "%s", step);
    (void)write_all(status, &f, sizeof(f));
}

unsigned parts_list(const struct parts *p, int fds[32])
{
    unsigned n = 0;

    fds[n++] = p->root;
    fds[n++] = p->dev;
    fds[n++] = p->logs;
    fds[n++] = p->ctl;
    fds[n++] = p->exec;
    fds[n++] = p->status;
    for (unsigned i = 0; i < p->n_binds && n < 32; i++)
        fds[n++] = p->binds[i];
    for (unsigned i = 0; i < p->n_agent && n < 32; i++)
        fds[n++] = p->agent_cgroups[i];
    for (unsigned i = 0; i < p->n_work && n < 32; i++)
        fds[n++] = p->work_cgroups[i];
    return n;
}

int parts_from(struct parts *p, const struct plan *plan, const int *fds, unsigned n)
{
    unsigned i = 0;

    p->n_binds = (unsigned)strv_len(plan->binds);
    p->n_agent = (unsigned)strv_len(plan->agent);
    p->n_work = (unsigned)strv_len(plan->work);
    if (n != 6 + p->n_binds + p->n_agent + p->n_work)
        return -EPROTO;
    p->root = fds[i++];
    p->dev = fds[i++];
    p->logs = fds[i++];
    p->ctl = fds[i++];
    p->exec = fds[i++];
    p->status = fds[i++];
    for (unsigned k = 0; k < p->n_binds; k++)
        p->binds[k] = fds[i++];
    for (unsigned k = 0; k < p->n_agent; k++)
        p->agent_cgroups[k] = fds[i++];
    for (unsigned k = 0; k < p->n_work; k++)
        p->work_cgroups[k] = fds[i++];
    return 0;
}

/* The descriptors that parts itself opened; ctl, exec and status belong to the plan's message. */
static void parts_close(struct parts *p)
{
    close_fd(&p->root);
    close_fd(&p->dev);
    close_fd(&p->logs);
    for (unsigned i = 0; i < p->n_binds; i++)
        (void)close(p->binds[i]);
    for (unsigned i = 0; i < p->n_agent; i++)
        (void)close(p->agent_cgroups[i]);
    for (unsigned i = 0; i < p->n_work; i++)
        (void)close(p->work_cgroups[i]);
}

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

/* A fork with new namespaces: the child goes on here with a copy of everything. On cgroup v2 it is
 * born in its cgroup, which spares the move. */
static pid_t clone_box(int v2_cgroup)
{
    struct clone_args args = {
        .flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC |
                 CLONE_NEWUTS,
        .exit_signal = SIGCHLD,
    };

    if (v2_cgroup >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)v2_cgroup;
    }
    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static int map_ids(pid_t pid, uint32_t base)
{
    static const char *const files[] = {"uid_map", "gid_map"};
    char path[64], map[64];

    (void)snprintf(map, sizeof(map), "0 %u %u", base, IDS);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        int r;

        (void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, files[i]);
        r = write_file_at(AT_FDCWD, path, map);
        if (r < 0)
            return r;
    }
    return 0;
}

static int join_cgroups(pid_t pid, const struct parts *p)
{
    char text[16];
    int n = snprintf(text, sizeof(text), "%d", pid);

    for (unsigned i = 0; i < p->n_work; i++)
        if (write(p->work_cgroups[i], text, (size_t)n) < 0)
            return -errno;
    return 0;
}

/* Everything the host's privileges are needed for, once the child exists. */
static int equip(struct launcher *l, const struct plan *plan, pid_t pid, int scratch, int sync,
                 struct parts *parts, const char **step)
{
    auto_close int userns = -1;
    char path[64];
    int fds[32];
    int r;

    *step = "join the cgroups";
    r = plan->cgroup_v2 ? 0 : join_cgroups(pid, parts);
    if (r < 0)
        return r;
    *step = "map the ids";
    r = map_ids(pid, plan->ids_base);
    if (r < 0)
        return r;
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
    userns = open(path, O_RDONLY | O_CLOEXEC);
    if (userns < 0)
        return -errno;
    r = root_make(l, plan, scratch, userns, parts, step);
    if (r < 0)
        return r;
    *step = "send the parts to the box";
    return send_fds(sync, "g", 1, fds, parts_list(parts, fds));
}

static int open_parts(const struct plan *plan, const int *fds, struct parts *parts,
                      const char **step)
{
    int r;

    *step = "open the cgroups";
    r = open_cgroups(plan->agent, parts->agent_cgroups, &parts->n_agent);
    if (r == 0)
        r = open_cgroups(plan->work, parts->work_cgroups, &parts->n_work);
    if (r < 0)
        return r;
    *step = "open the log folder";
    parts->logs = openat(fds[PLAN_FD_SCRATCH], "logs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (parts->logs < 0)
        return -errno;
    parts->ctl = fds[PLAN_FD_CTL];
    parts->exec = fds[PLAN_FD_EXEC];
    parts->status = fds[PLAN_FD_STATUS];
    return 0;
}

static int launch(struct launcher *l, const struct plan *plan, const int *fds, struct parts *parts,
                  const char **step)
{
    auto_close int v2 = -1, ours = -1;
    int sync[2];
    pid_t pid;
    int r = l->dev < 0 ? root_setup(l, plan->stage, step) : 0;

    if (r == 0)
        r = open_parts(plan, fds, parts, step);
    if (r < 0)
        return r;
    *step = "clone";
    if (plan->cgroup_v2) {
        v2 = open(plan->work[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (v2 < 0)
            return -errno;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sync) < 0)
        return -errno;
    pid = clone_box(v2);
    if (pid == 0) {
        (void)close(sync[0]);
        box_run(l, plan, sync[1], parts->status);
    }
    r = pid < 0 ? -errno : 0;
    (void)close(sync[1]);
    ours = sync[0];
    if (r < 0)
        return r;
    r = l->fault && strcmp(l->fault, "equip") == 0
            ? -EIO
            : equip(l, plan, pid, fds[PLAN_FD_SCRATCH], ours, parts, step);
    if (r < 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        return r;
    }
    return pid;
}

static void serve_plan(struct launcher *l, int sock, const void *data, size_t len, const int *fds,
                       size_t n_fds)
{
    struct parts parts = {.root = -1, .dev = -1, .logs = -1};
    struct plan_answer answer = {0};
    const char *step = "read the plan";
    struct plan plan;
    struct wire w;
    int r = -EPROTO;

    wire_init(&w, data, len);
    plan_get(&w, &plan);
    if (wire_ok(&w) && n_fds == PLAN_FDS)
        r = launch(l, &plan, fds, &parts, &step);
    if (r < 0) {
        answer.error = -r;
        (void)snprintf(answer.step, sizeof(answer.step), "%s", step);
    } else {
        answer.pid = r;
    }
    parts_close(&parts);
    plan_done(&plan);
    (void)send_fds(sock, &answer, sizeof(answer), NULL, 0);
}

static void serve(struct launcher *l, int sock)
{
    static char data[PLAN_MAX];

    for (;;) {
        int fds[PLAN_FDS];
        size_t n_fds = PLAN_FDS;
        ssize_t n = recv_fds(sock, data, sizeof(data), fds, &n_fds);

        if (n == -EMSGSIZE)
            continue;
        if (n <= 0) /* the daemon is gone; the boxes stay */
            return;
        serve_plan(l, sock, data, (size_t)n, fds, n_fds);
        while (n_fds > 0)
            (void)close(fds[--n_fds]);
    }
}

static void launcher_main(struct launcher *l, int sock) __attribute__((noreturn));
static void launcher_main(struct launcher *l, int sock)
{
    sigset_t none;

    (void)prctl(PR_SET_NAME, "cay-launch");
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGINT, SIG_IGN); /* Ctrl-C is for the daemon, which then closes the socket */
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGCHLD, SIG_IGN); /* boxes are reaped by the kernel; the daemon has pidfds */
    (void)umask(022);
    if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0)
        serve(l, sock);
    _exit(0);
}

/* Sealed, and without read permission: the kernel then keeps the agent non-dumpable from its first
 * instruction, with the host's user namespace as the one that may look into it. */
static int agent_memfd(const void *agent, size_t len, struct err *err)
{
    auto_close int fd = memfd_create("cay-agent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int high, r;

    if (fd < 0)
        return err_sys(err, errno, "make a memfd for the agent");
    r = write_all(fd, agent, len);
    if (r < 0)
        return err_sys(err, -r, "write the agent");
    if (fchmod(fd, 0111) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return err_sys(err, errno, "seal the agent");
    /* Out of the way of the numbers that the agent's own descriptors get. */
    high = fcntl(fd, F_DUPFD_CLOEXEC, AGENT_FD_CGROUPS + 2 * CGROUPS_MAX);
    return high < 0 ? err_sys(err, errno, "seal the agent") : high;
}

int launcher_start(const void *agent, size_t agent_len, int *ret_fd, pid_t *ret_pid,
                   struct err *err)
{
    struct launcher l = {.dev = -1, .fault = getenv("CAY_FAULT")};
    int pair[2];
    pid_t pid;

    if (seccomp_build(&l.filter, err) < 0)
        return -1;
    l.agent = agent_memfd(agent, agent_len, err);
    if (l.agent < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, errno, "make the launcher's socket");
    pid = fork();
    if (pid == 0) {
        (void)close(pair[0]);
        launcher_main(&l, pair[1]);
    }
    (void)close(pair[1]);
    (void)close(l.agent);
    free(l.filter.filter);
    if (pid < 0) {
        (void)close(pair[0]);
        return err_sys(err, errno, "fork the launcher");
    }
    *ret_fd = pair[0];
    *ret_pid = pid;
    return 0;
}
