#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/procstat.h"
#include "base/str.h"
#include "runtime/native/native_internal.h"

/* Why an agent may be silent. Its processes are in a cgroup of their own, and one of them that
 * waits for a processor (R) or for the kernel (D) will go on. On a loaded machine that takes long
 * and is no fault. */

/* The letter of ps, or '?' when it is gone. */
static char process_state(int64_t pid)
{
    struct proc_stat st;

    return proc_stat_read((pid_t)pid, &st) < 0 ? '?' : st.state;
}

static bool is_busy(int64_t pid)
{
    return strchr("RD", process_state(pid)) != NULL;
}

static bool wake(const struct box *box)
{
    auto_close int pidfd = pidfd_open((pid_t)box->pid, 0);

    /* The descriptor first, then who it is: so it is of that process. */
    if (pidfd < 0 || process_start_time(box->pid) != box->pid_start ||
        process_state(box->pid) != 'T')
        return false;
    return pidfd_send_signal(pidfd, SIGCONT, NULL, 0) == 0;
}

static bool has_busy_process(const char *dir)
{
    auto_free char *path = xasprintf("%s/cgroup.procs", dir);
    FILE *f = fopen(path, "re");
    bool busy = !f; /* gone: the call hears of that by itself */
    int pid;

    while (f && !busy && fscanf(f, "%d", &pid) == 1)
        busy = is_busy(pid);
    if (f)
        (void)fclose(f);
    return busy;
}

enum box_look native_look(struct runtime *rt, const struct box *box)
{
    struct native *n = native_of(rt);
    auto_strv char **dirs = n->cgroup.ops->agent_dirs(&n->cgroup, box->id);
    unsigned long long frozen = 0;

    if (wake(box))
        return BOX_WOKEN;
    /* Of v2; on v1 the frozen are in state D. */
    (void)cgroup_read_key(dirs[0], "cgroup.events", "frozen", &frozen);
    /* A box that has just begun is on its way into that cgroup. */
    return frozen || is_busy(box->pid) || has_busy_process(dirs[0]) ? BOX_BUSY : BOX_QUIET;
}
