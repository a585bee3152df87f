#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"
#include "proto/plan.h"
#include "runtime/native/id_ranges.h"
#include "runtime/native/native.h"
#include "runtime/native/native_internal.h"

#define LAUNCH_LIMIT 30000 /* ms that a box may take to come up on a loaded machine */
#define END_LIMIT    10000 /* ms that its processes may take to end */
#define LOOK_MS      1000  /* between two looks at how long the launcher may take */

/* With its lock held: waits for a launcher, if there is none and one should be coming. */
static bool has_launcher(struct native *n, int wait_ms)
{
    struct timespec until;

    if (n->launcher >= 0)
        return true;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += wait_ms / 1000;
    while (n->launcher < 0 && wait_ms > 0)
        if (pthread_cond_timedwait(&n->launcher_back, &n->launcher_lock, &until) != 0)
            break;
    return n->launcher >= 0;
}

void native_set_launcher(struct runtime *rt, int launcher_fd)
{
    struct native *n = native_of(rt);

    (void)pthread_mutex_lock(&n->launcher_lock);
    close_fd(&n->launcher);
    n->launcher = launcher_fd;
    (void)pthread_cond_broadcast(&n->launcher_back);
    (void)pthread_mutex_unlock(&n->launcher_lock);
}

/* Waits for the launcher to say something or to end. One that does neither hangs: the daemon, which
 * keeps it, replaces it. Looks are counted, not time: when the daemon stood still (Ctrl-Z, a paused
 * machine), so did the launcher, and that is one look. */
static bool await_answer(struct native *n)
{
    struct pollfd p = {.fd = n->launcher, .events = POLLIN};

    for (int waited = 0; waited < atomic_load(&n->launcher_ms); waited += LOOK_MS)
        if (poll(&p, 1, LOOK_MS) == 1)
            return true;
    (void)eventfd_write(n->launcher_hung_fd, 1);
    return false;
}

void native_end_soon(struct runtime *rt)
{
    atomic_store(&native_of(rt)->launcher_ms, LOOK_MS);
}

/* One plan and its answer; -1 when the launcher has not answered. */
static int ask(struct native *n, const struct buf *text, const int *fds, size_t n_fds, int wait_ms,
               struct plan_answer *ret, int *ret_pidfd)
{
    size_t n_got = 1;
    int got, r = -1;

    (void)pthread_mutex_lock(&n->launcher_lock);
    if (has_launcher(n, wait_ms)) {
        if (send_fds(n->launcher, text->data, text->len, fds, n_fds) == 0 && await_answer(n) &&
            recv_fds(n->launcher, ret, sizeof(*ret), &got, &n_got) == sizeof(*ret)) {
            *ret_pidfd = n_got == 1 ? got : -1;
            r = 0;
        } else {
            close_fd(&n->launcher); /* other callers wait for the next one */
        }
    }
    (void)pthread_mutex_unlock(&n->launcher_lock);
    return r;
}

/* What is said of a child that somebody has ended, or that ended with the launcher that made it. */
static bool is_loss(int error)
{
    return error == ESRCH || error == ECHILD || error == EPIPE || error == ECONNRESET;
}

int64_t send_plan(struct native *n, const struct plan *plan, const int *fds, size_t n_fds,
                  int wait_ms, int *ret_pidfd, struct err *err)
{
    auto_buf struct buf text = {0};
    auto_close int pidfd = -1;
    struct plan_answer answer = {0};

    buf_init(&text, PLAN_MAX);
    plan_put(&text, plan);
    if (ask(n, &text, fds, n_fds, wait_ms, &answer, &pidfd) < 0) {
        (void)err_code(err, ERR_UNAVAILABLE, "launcher_lost",
                       "the launcher has ended or hangs, and another is started: try again");
        return BOX_LOST;
    }
    if (answer.error == 0) {
        if (ret_pidfd)
            *ret_pidfd = steal_fd(pidfd);
        return answer.pid;
    }
    answer.step[sizeof(answer.step) - 1] = '\0';
    if (!mount_explain(answer.step, answer.error, err))
        (void)err_sys(err, answer.error, "cannot %s", answer.step);
    return is_loss(answer.error) ? BOX_LOST : -1;
}

static uint32_t cpu_quota(const struct berth *b)
{
    return b->limits.cpu_millis * (PLAN_CPU_PERIOD / 1000);
}

static uint64_t memory_max(const struct berth *b)
{
    return (uint64_t)b->limits.memory_mb << 20;
}

int box_park(struct native *n, struct berth *b, struct box *box, struct err *err)
{
    auto_strv char **work = n->cgroup.ops->work_dirs(&n->cgroup, box->id);
    auto_strv char **agent = n->cgroup.ops->agent_dirs(&n->cgroup, box->id);
    char hostname[ID_SIZE];
    struct plan plan = {
        .op = PLAN_PARK,
        .id = box->id,
        .stage = n->stage,
        .ids_base = id_range_base(b->slot),
        .owner = id_range_owner(b->slot),
        .work = work,
        .agent = agent,
        .cgroup_v2 = n->cgroup.ops->v2,
        .hostname = hostname,
        .nameserver = n->nameserver,
        .cpus = 1,
        .cpu_first = b->slot,
        .cpu_quota = cpu_quota(b),
        .memory_max = memory_max(b),
    };
    int pidfd = -1;
    int64_t pid;

    id_hostname(box->id, hostname);
    pid = send_plan(n, &plan, NULL, 0, LAUNCHER_WAIT, &pidfd, err);
    if (pid < 0)
        return (int)pid;
    b->parked = true;
    /* The number is the child's for as long as it lives. One that has ended already is told of by
     * the START, which knows why. */
    b->pid_start = box->pid_start = process_start_time(pid);
    b->pid = box->pid = pid;
    if (pidfd >= 0 && pidfd_send_signal(pidfd, 0, NULL, 0) < 0)
        close_fd(&pidfd);
    berth_set_process(n, b, pidfd);
    note_box(n, box);
    return 0;
}

/* Waits until the agent serves, or for the step that failed. */
static int await_box(int status, struct err *err)
{
    struct pollfd p = {.fd = status, .events = POLLIN};
    struct launch_report report;
    int n;

    do
        n = poll(&p, 1, LAUNCH_LIMIT);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        return err_set(err, ERR_TIMEOUT, "the box did not come up in %d s", LAUNCH_LIMIT / 1000);
    if (read_some(status, &report, sizeof(report)) != sizeof(report)) {
        (void)err_set(err, ERR_INTERNAL, "the box broke off while it was made");
        return BOX_LOST;
    }
    report.step[sizeof(report.step) - 1] = '\0';
    if (report.error == 0)
        return 0;
    return mount_explain(report.step, report.error, err)
               ? -1
               : err_sys(err, report.error, "cannot %s", report.step);
}

/* Past the largest thing that it can write to, whose end comes first. */
static uint64_t file_max(const struct berth *b, const struct box_root *root)
{
    uint64_t mb = b->limits.disk_mb;

    for (unsigned i = 0; i < root->n_mounts; i++)
        mb = root->mounts[i].size_mb > mb ? root->mounts[i].size_mb : mb;
    return (mb + 1) << 20;
}

int box_start(struct native *n, struct berth *b, struct box *box, const struct box_root *root,
              struct err *err)
{
    struct plan plan = {
        .op = PLAN_START,
        .id = box->id,
        .layers = (char **)(uintptr_t)root->layers,
        .binds = (char **)(uintptr_t)root->binds,
        .cpus = (b->limits.cpu_millis + 999) / 1000,
        .cpu_first = b->slot,
        .cpu_quota = cpu_quota(b),
        .memory_max = memory_max(b),
        .file_max = file_max(b, root),
        .shm_max = memory_max(b) / 2, /* half: it counts as memory */
        .ids_base = id_range_base(b->slot),
    };
    int fds[PLAN_FDS + PLAN_MOUNTS_MAX] = {b->scratch, b->ctl, b->exec};
    auto_close int status_read = -1;
    int status[2], r;
    size_t n_mounts;
    int64_t pid;

    if (pipe2(status, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe");
    status_read = status[0];
    fds[PLAN_FD_STATUS] = status[1];
    n_mounts = plan_mounts(root, &plan, fds + PLAN_FDS);
    pid = send_plan(n, &plan, fds, PLAN_FDS + n_mounts, LAUNCHER_WAIT, NULL, err);
    (void)close(status[1]);
    b->parked = false;
    box->pid = b->pid;
    box->pid_start = b->pid_start;
    r = pid < 0 ? (int)pid : await_box(status_read, err);
    if (r == 0 && (b->pidfd < 0 || box->pid_start == 0)) {
        (void)err_set(err, ERR_INTERNAL, "the box ended as soon as it was made");
        return BOX_LOST;
    }
    return r;
}

/* The root goes with the last process of the box, and writes the whole disk out as it goes. That
 * takes longer than all else in a kill, and who removes the box throws the disk away. */
static void hold_root(struct berth *b)
{
    auto_close int root = -1;
    char path[48];

    if (b->root >= 0 || b->parked || b->pid <= 0)
        return;
    (void)snprintf(path, sizeof(path), "/proc/%lld/root", (long long)b->pid);
    root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    /* If it lives still, that was its own number. */
    if (root >= 0 && pidfd_send_signal(b->pidfd, 0, NULL, 0) == 0)
        b->root = steal_fd(root);
}

int box_end(struct native *n, struct berth *b, struct err *err)
{
    struct pollfd p = {.fd = b->pidfd, .events = POLLIN};
    int r;

    if (b->pidfd < 0)
        return 0;
    hold_root(b);
    if (pidfd_send_signal(b->pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
        return err_sys(err, errno, "signal the agent");
    r = poll(&p, 1, 0);
    if (r == 0) {
        /* On v1 a frozen process does not even die. */
        (void)n->cgroup.ops->freeze(&n->cgroup, b->id, false, NULL);
        do
            r = poll(&p, 1, END_LIMIT);
        while (r < 0 && errno == EINTR);
    }
    if (r == 0)
        return err_set(err, ERR_UNAVAILABLE, "its processes do not end (they wait in the kernel)");
    return 0;
}

void box_forget(struct native *n, const struct berth *b)
{
    struct plan plan = {.op = PLAN_FORGET, .id = (char *)(uintptr_t)b->id};

    (void)send_plan(n, &plan, NULL, 0, 0, NULL, NULL);
}
