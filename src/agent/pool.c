#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "agent/agent.h"
#include "base/err.h"

/* A process is forked before its call arrives, since a fork is a fifth of the time of a short exec.
 *
 *  1. At most one spare waits for a connection; *waits says so. The spare itself makes it false and
 * sends us SIGCHLD, so that the next one is forked while the call is being served.
 *  2. While no spare waits we accept ourselves, but only to refuse: this process never reads from a
 *     connection, so no caller can hold it up.
 *  3. A spare dies with its parent; a process that serves does not. */

/* False when there is no process to be had. */
static bool refill(struct pool *p)
{
    struct slot *slot = slot_free(p->slots, p->nslots);
    pid_t parent = getpid(), pid;

    if (!slot)
        return false;
    *p->waits = true;
    pid = fork();
    if (pid == 0) {
        slot->pid = getpid();
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        serve_one(p->sock, p->waits);
    }
    if (pid < 0) {
        *p->waits = false;
        return false;
    }
    slot->pid = pid;
    p->spare = pid;
    return true;
}

static bool reap(struct pool *p, pid_t watch)
{
    bool found = false;
    pid_t pid;
    int status;

    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        /* Something inside sent SIGSTOP to everybody; a stopped supervisor keeps no timeout. */
        if (WIFSTOPPED(status)) {
            if (agents_has(pid))
                (void)kill(pid, SIGCONT);
            continue;
        }
        agents_forget(pid);
        if (pid == p->spare)
            *p->waits = false;
        found |= pid == watch;
    }
    return found;
}

static void turn_away(struct pool *p)
{
    int conn = accept4(p->sock, NULL, NULL, SOCK_CLOEXEC);

    if (conn < 0)
        return;
    refuse(conn, p->full);
    (void)close(conn);
}

bool pool_run(struct pool *p, pid_t watch, bool retry)
{
    struct timespec soon = {.tv_nsec = 100 * 1000 * 1000};
    /* A spare that takes a connection between here and ppoll() still wakes us: SIGCHLD is blocked,
     * so it waits until ppoll() looks. */
    bool ready = *p->waits || refill(p), found;
    struct pollfd sock = {.fd = ready ? -1 : p->sock, .events = POLLIN};
    int r = ppoll(&sock, 1, ready && !retry ? NULL : &soon, &agent_wait_mask);

    found = reap(p, watch);
    if (r > 0 && !refill(p))
        turn_away(p);
    return found;
}
