#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "proto/plan.h"
#include "runtime/native/native_internal.h"

/* Who in a box has something of a mount open: a helper of the launcher finds out
 * (launch/holders.c). */

#define SEARCH_NS (2 * 1000000000ll) /* after which what was found is all */

static void each_in(char *const *groups, void (*found)(int64_t pid, void *arg), void *arg)
{
    auto_free char *path = groups && groups[0] ? xasprintf("%s/cgroup.procs", groups[0]) : NULL;
    FILE *f = path ? fopen(path, "re") : NULL;
    long long pid;

    while (f && fscanf(f, "%lld", &pid) == 1)
        found(pid, arg);
    if (f)
        (void)fclose(f);
}

void box_each_process(struct native *n, const char *id, void (*found)(int64_t pid, void *arg),
                      void *arg)
{
    auto_strv char **work = n->cgroup.ops->work_dirs(&n->cgroup, id);
    auto_strv char **agent = n->cgroup.ops->agent_dirs(&n->cgroup, id);

    each_in(agent, found, arg);
    each_in(work, found, arg);
}

static size_t add_holder(struct box_holder *list, size_t n, size_t max, const struct plan_holder *h)
{
    size_t i = 0;

    while (i < n && list[i].pid != h->pid)
        i++;
    if (i == max)
        return n;
    list[i].pid = h->pid;
    (void)snprintf(list[i].command, sizeof(list[i].command), "%s", h->command);
    (void)snprintf(list[i].path, sizeof(list[i].path), "%s", h->path);
    return i == n ? n + 1 : n;
}

/* Each record is one write of less than PIPE_BUF, so it is read whole. */
static size_t read_holders(int from, struct box_holder *ret, size_t max)
{
    struct pollfd p = {.fd = from, .events = POLLIN};
    int64_t until = mono_ns() + SEARCH_NS, left;
    struct plan_holder h;
    size_t n = 0;

    while ((left = until - mono_ns()) > 0 && poll(&p, 1, (int)(left / 1000000) + 1) == 1 &&
           read_some(from, &h, sizeof(h)) == sizeof(h))
        n = add_holder(ret, n, max, &h);
    return n;
}

size_t native_holders(struct runtime *rt, const struct box *box, uint64_t device,
                      struct box_holder *ret, size_t max)
{
    struct native *n = native_of(rt);
    auto_strv char **work = n->cgroup.ops->work_dirs(&n->cgroup, box->id);
    auto_strv char **agent = n->cgroup.ops->agent_dirs(&n->cgroup, box->id);
    struct plan plan = {.op = PLAN_HOLDERS,
                        .id = (char *)(uintptr_t)box->id,
                        .work = work,
                        .agent = agent,
                        .mounts[0] = {.path = (char[]){""}, .sub = (char[]){""}, .device = device},
                        .n_mounts = 1};
    auto_close int process = -1, from = -1, to = -1;
    size_t found;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return 0;
    from = ends[0];
    to = ends[1];
    if (send_plan(n, &plan, &to, 1, LAUNCHER_WAIT, &process, NULL) < 0)
        return 0;
    close_fd(&to);
    found = read_holders(from, ret, max);
    if (process >= 0)
        (void)pidfd_send_signal(process, SIGKILL, NULL, 0);
    return found;
}
