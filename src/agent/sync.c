#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/fd.h"
#include "base/procstat.h"
#include "proto/plan.h"

/* sync() would write out every filesystem of the host. The filter hands it to us: we write the
 * box's own disk, where the upper directory and the logs are, and only then does the call return.
 *
 * Also told is a ptrace() whose tracer wants to hear of the end of what it traces
 * (PTRACE_O_TRACEEXIT): a killed process waits for such a tracer, and two that trace each other
 * wait for ever. It may be done to what is below the tracer. Then tracers are always older than
 * what they trace, and there is no ring.
 *
 *  1. PID 1 never waits for a disk: it forks a process when a call comes, one at a time, which
 *     answers until none is left.
 *  2. That process rests after each call: it is outside the workload's limits, and a box that does
 *     nothing but sync must not use more of the machine than it may.
 *  3. The call being answered is noted where all agent processes see it. If the process dies of it,
 *     the next one answers it first; the caller would wait for ever otherwise. */

#define REST_MS   20
#define DEPTH_MAX 4096 /* of processes below each other */

static bool heard; /* there is a filter that tells us */
static bool later; /* there was no process to be had */

void sync_setup(void)
{
    uint64_t none = 0;

    heard = ioctl(AGENT_FD_SYNC, SECCOMP_IOCTL_NOTIF_ID_VALID, &none) < 0 && errno == ENOENT;
}

bool sync_retries(void)
{
    return later;
}

int sync_fd(void)
{
    return heard && !later && agents->syncer == 0 ? AGENT_FD_SYNC : -1;
}

static void answer_sync(struct seccomp_notif_resp *answer)
{
    if (syncfs(AGENT_FD_LOGS) < 0)
        answer->error = -errno;
}

static pid_t process_of(pid_t thread)
{
    char path[32], text[2048];
    const char *line;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", thread);
    /* The name comes first, with its newlines escaped. */
    if (read_file_at(-1, path, text, sizeof(text)) < 0 || !(line = strstr(text, "\nTgid:")))
        return 0;
    return (pid_t)strtol(line + 6, NULL, 10);
}

static bool is_below(pid_t pid, pid_t above)
{
    struct proc_stat st;

    for (int i = 0; i < DEPTH_MAX && above > 0 && pid > 0 && proc_stat_read(pid, &st) == 0; i++) {
        if (st.ppid == above)
            return true;
        pid = st.ppid;
    }
    return false;
}

static void answer_trace(struct seccomp_notif_resp *answer)
{
    if (is_below(agents->sync_traced, process_of(agents->sync_tracer)))
        answer->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE; /* for the kernel to decide */
    else
        answer->error = -EPERM;
}

static void answer_noted(void)
{
    struct seccomp_notif_resp answer = {.id = agents->sync_id};

    if (agents->sync_nr == SYS_ptrace)
        answer_trace(&answer);
    else
        answer_sync(&answer);
    (void)ioctl(AGENT_FD_SYNC, SECCOMP_IOCTL_NOTIF_SEND, &answer); /* or the caller is gone */
    agents->sync_id = 0;
}

static _Noreturn void answer_all(void)
{
    struct pollfd p = {.fd = AGENT_FD_SYNC, .events = POLLIN};

    (void)prctl(PR_SET_NAME, "cay-sync");
    if (agents->sync_id)
        answer_noted();
    while (poll(&p, 1, 0) > 0) {
        struct seccomp_notif call = {0};

        /* Waits for the next one if the caller was killed since poll() saw it. */
        if (ioctl(AGENT_FD_SYNC, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0)
            continue;
        agents->sync_nr = call.data.nr;
        agents->sync_tracer = (pid_t)call.pid;
        agents->sync_traced = (pid_t)call.data.args[1];
        agents->sync_id = call.id;
        answer_noted();
        (void)poll(NULL, 0, REST_MS);
    }
    _exit(0);
}

void sync_step(bool called)
{
    pid_t pid;

    later = false;
    if (agents->syncer != 0 || (!called && !agents->sync_id))
        return;
    pid = fork();
    if (pid == 0)
        answer_all();
    if (pid > 0)
        agents->syncer = pid;
    later = pid < 0;
}
