#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "agent/agent.h"
#include "base/err.h"
#include "base/mem.h"

/* A process is forked before its call arrives, since a fork is a fifth of the time of a short exec.
 *
 *  1. At least one spare waits for a connection (SLOT_WAITS). The last of them that takes one sends
 *     us SIGCHLD, so that the next is forked while the call is served.
 *  2. While no spare waits we accept ourselves, but only to refuse: this process never reads from a
 *     connection, so no caller can hold it up.
 *  3. A spare dies with its parent; a process that serves does not. Who counts spares counts those
 *     of one parent: the spares of a dead spawner may not have been reaped yet.
 *  4. A process that can serve again becomes a spare again, if there are not SPARES_MAX of them:
 *     calls that come one after the other fork nothing.
 *  5. The first few times that the last spare has taken a connection it is given BACK_NS to come
 *     back, and only then is another forked: most boxes are asked for little, one thing after the
 *     other, and need no second one. For one that is asked often, two that take turns are cheaper
 *     than a parent that is woken each time.
 *  6. A pool that is lazy has no spare until somebody calls (young.c).
 *  7. A caller wakes one spare. If that one is dying, the others sleep on: so for a spare that died
 *     another is forked, however many there are, which looks for itself. */

#define SPARES_MAX 4
#define BACK_NS    (1000 * 1000)

bool pool_has_spare(const struct pool *p, pid_t parent)
{
    return slot_count_waiting(p->slots, p->nslots, parent) > 0;
}

static bool die_with_parent(const struct slot *slot)
{
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == slot->parent;
}

bool pool_return(const struct pool *p, struct slot *slot)
{
    if ((agents->spawner != 0 && young_is_first(slot)) ||
        slot_count_waiting(p->slots, p->nslots, slot->parent) >= SPARES_MAX ||
        !die_with_parent(slot))
        return false;
    slot->command = 0;
    slot->mark = SLOT_WAITS;
    return true;
}

bool pool_refill(struct pool *p)
{
    struct slot *slot = slot_free(p->slots, p->nslots);
    pid_t pid;

    if (!slot)
        return false;
    slot->parent = getpid();
    slot->mark = SLOT_WAITS;
    pid = fork();
    if (pid == 0) {
        slot->pid = getpid();
        if (!die_with_parent(slot))
            _exit(1);
        serve(p, slot);
    }
    if (pid < 0) {
        slot->mark = SLOT_PLAIN;
        return false;
    }
    slot->pid = pid;
    return true;
}

static bool reap(pid_t watch)
{
    bool found = false;
    pid_t pid, command;
    uint64_t since;
    int status;

    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        /* Something inside sent SIGSTOP to everybody; a stopped supervisor keeps no timeout. */
        if (WIFSTOPPED(status)) {
            if (agents_has(pid))
                (void)kill(pid, SIGCONT);
            continue;
        }
        command = agents_forget(pid, &since);
        /* Nobody inside can do that to a supervisor, but the kernel can, for want of memory. */
        if (WIFSIGNALED(status) && command > 0)
            tree_kill_left(command, since);
        found |= pid == watch;
    }
    return found;
}

void pool_turn_away(struct pool *p)
{
    int conn = accept4(p->sock, NULL, NULL, SOCK_CLOEXEC);

    if (conn < 0)
        return;
    refuse(conn, slot_free(p->slots, p->nslots) ? p->none : p->full);
    (void)close(conn);
}

static bool has_serving(const struct pool *p, pid_t parent)
{
    for (size_t i = 0; i < p->nslots; i++)
        if (p->slots[i].pid != 0 && p->slots[i].parent == parent && p->slots[i].mark == SLOT_PLAIN)
            return true;
    return false;
}

/* Rule 5. */
static bool may_come_back(struct pool *p)
{
    if (p->patience == 0 || !has_serving(p, getpid()))
        return false;
    p->patience--;
    return true;
}

static int64_t no_later(int64_t wait_ns, int64_t most_ns)
{
    return wait_ns < 0 || wait_ns > most_ns ? most_ns : wait_ns;
}

bool pool_run(struct pool *p, pid_t watch, int64_t wait_ns)
{
    struct timespec soon;
    /* A spare that takes a connection between here and ppoll() still wakes us: SIGCHLD is blocked,
     * so it waits until ppoll() looks. */
    bool lost = slots_take_lost(p->slots, p->nslots), ready = !lost && pool_has_spare(p, getpid());
    bool patient = !ready && !lost && !p->lazy && may_come_back(p);
    struct pollfd fds[] = {{.fd = -1, .events = POLLIN}, {.fd = p->also, .events = POLLIN}};
    bool found;
    int r;

    if (patient) {
        wait_ns = no_later(wait_ns, BACK_NS);
    } else if (!ready && (p->lazy || !pool_refill(p))) {
        fds[0].fd = p->sock;
        wait_ns = p->lazy ? wait_ns : no_later(wait_ns, POOL_AGAIN_NS);
    }
    soon = (struct timespec){.tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000};
    r = ppoll(fds, ARRAY_LEN(fds), wait_ns < 0 ? NULL : &soon, &agent_wait_mask);
    if (patient && r == 0 && !pool_has_spare(p, getpid()))
        p->patience = 0;
    p->also_ready = r > 0 && fds[1].revents;
    found = reap(watch);
    if (r > 0 && fds[0].revents && !pool_refill(p))
        pool_turn_away(p);
    return found;
}
