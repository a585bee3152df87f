#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "proto/plan.h"
#include "runtime/native/id_ranges.h"
#include "runtime/native/native_internal.h"

#define LAUNCH_LIMIT 30000 /* ms that a box may take to come up on a loaded machine */

/* One plan to the launcher and its answer: the pid, or -1. */
static int64_t send_plan(struct native *n, const struct plan *plan, const int *fds, size_t n_fds,
                         struct err *err)
{
    auto_buf struct buf text = {0};
    struct plan_answer answer = {0};
    size_t none = 0;
    ssize_t got = 0;
    int r;

    buf_init(&text, PLAN_MAX);
    plan_put(&text, plan);
    (void)pthread_mutex_lock(&n->launcher_lock);
    r = send_fds(n->launcher, text.data, text.len, fds, n_fds);
    if (r == 0)
        got = recv_fds(n->launcher, &answer, sizeof(answer), NULL, &none);
    (void)pthread_mutex_unlock(&n->launcher_lock);
    if (r < 0 || got != sizeof(answer))
        return err_set(err, ERR_UNAVAILABLE, "the launcher does not answer; restart the daemon");
    if (answer.error == 0)
        return answer.pid;
    answer.step[sizeof(answer.step) - 1] = '\0';
    return err_sys(err, answer.error, "cannot %s", answer.step);
}

int box_park(struct native *n, struct berth *b, struct box *box, struct err *err)
{
    auto_strv char **work = n->cgroup.ops->work_dirs(&n->cgroup, box->id);
    auto_strv char **agent = n->cgroup.ops->agent_dirs(&n->cgroup, box->id);
    struct plan plan = {
        .op = PLAN_PARK,
        .id = box->id,
        .stage = n->stage,
        .ids_base = id_range_base(b->slot),
        .work = work,
        .agent = agent,
        .cgroup_v2 = n->cgroup.ops->v2,
        .cpus = 1,
        .cpu_first = b->slot,
    };
    int64_t pid = send_plan(n, &plan, NULL, 0, err);

    if (pid < 0)
        return -1;
    b->parked = true;
    b->pid = box->pid = pid;
    b->pidfd = pidfd_open((pid_t)pid, 0);
    b->pid_start = box->pid_start = process_start_time(pid);
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
    if (read_some(status, &report, sizeof(report)) != sizeof(report))
        return err_set(err, ERR_INTERNAL, "the box broke off while it was made");
    report.step[sizeof(report.step) - 1] = '\0';
    return report.error ? err_sys(err, report.error, "cannot %s", report.step) : 0;
}

int box_start(struct native *n, struct berth *b, struct box *box, const struct box_root *root,
              const char *hostname, struct err *err)
{
    struct plan plan = {
        .op = PLAN_START,
        .id = box->id,
        .hostname = (char *)(uintptr_t)hostname,
        .layers = (char **)(uintptr_t)root->layers,
        .binds = (char **)(uintptr_t)root->binds,
        .cpus = (b->limits.cpu_millis + 999) / 1000,
        .cpu_first = b->slot,
        .file_max = ((uint64_t)b->limits.disk_mb + 1) << 20,
        .shm_max = (uint64_t)b->limits.memory_mb << 19, /* half: it counts as memory */
    };
    auto_close int status_read = -1;
    int status[2];
    int64_t pid;

    if (pipe2(status, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe");
    status_read = status[0];
    pid = send_plan(n, &plan, (const int[]){b->scratch, b->ctl, b->exec, status[1]}, PLAN_FDS, err);
    (void)close(status[1]);
    b->parked = false;
    box->pid = b->pid;
    box->pid_start = b->pid_start;
    if (pid < 0 || await_box(status_read, err) < 0)
        return -1;
    if (b->pidfd < 0 || box->pid_start == 0)
        return err_set(err, ERR_INTERNAL, "the box ended as soon as it was made");
    return 0;
}

void box_forget(struct native *n, const struct berth *b)
{
    struct plan plan = {.op = PLAN_FORGET, .id = (char *)(uintptr_t)b->id};

    (void)send_plan(n, &plan, NULL, 0, NULL);
}
