#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/agent.h"
#include "base/mem.h"

static struct proc *find(struct proc *procs, size_t n, pid_t pid)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (procs[mid].pid == pid)
            return &procs[mid];
        if (procs[mid].pid < pid)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

static bool is_root(pid_t pid, const pid_t *roots, size_t nroots)
{
    for (size_t i = 0; i < nroots; i++)
        if (roots[i] == pid)
            return true;
    return false;
}

enum { UNKNOWN, INSIDE, OUTSIDE };

/* Each chain of parents is walked up to what is known already and then written down, so that a long
 * chain costs its length once. */
void tree_mark(struct proc *procs, size_t n, const pid_t *roots, size_t nroots)
{
    auto_free unsigned char *known = xcalloc(n, 1);
    auto_free size_t *chain = xcalloc(n, sizeof(*chain));

    for (size_t i = 0; i < n; i++) {
        struct proc *p = &procs[i];
        unsigned answer = OUTSIDE;
        size_t len = 0;

        while (len < n) {
            size_t at = (size_t)(p - procs);

            if (known[at] != UNKNOWN) {
                answer = known[at];
                break;
            }
            chain[len++] = at;
            if (is_root(p->ppid, roots, nroots)) {
                answer = INSIDE;
                break;
            }
            p = find(procs, n, p->ppid);
            if (!p)
                break;
        }
        while (len > 0)
            known[chain[--len]] = (unsigned char)answer;
    }
    for (size_t i = 0; i < n; i++)
        procs[i].in = known[i] == INSIDE && !is_root(procs[i].pid, roots, nroots);
}

void tree_signal(const pid_t *roots, size_t nroots, int sig)
{
    size_t n;
    auto_free struct proc *procs = procs_read(&n);

    tree_mark(procs, n, roots, nroots);
    for (size_t i = 0; i < n; i++)
        if (procs[i].in && !procs[i].dead && !agents_has(procs[i].pid))
            (void)kill(procs[i].pid, sig);
}

/* Signals everything below us that is not stopped or dead already (with SIGKILL: not dead). Returns
 * how many there were. */
static size_t pass(int sig)
{
    pid_t self = getpid();
    size_t n, hit = 0;
    auto_free struct proc *procs = procs_read(&n);

    tree_mark(procs, n, &self, 1);
    for (size_t i = 0; i < n; i++) {
        if (!procs[i].in || procs[i].dead || (sig == SIGSTOP && procs[i].state == 'T'))
            continue;
        (void)kill(procs[i].pid, sig);
        hit++;
    }
    return n > 0 ? hit : 1; /* we are there, so /proc could not be read */
}

/* PID 1 gets what has lost its parents and their supervisor. */
static bool is_left(const struct proc *p, pid_t session, uint64_t since)
{
    return p->session == session ||
           (p->ppid == agents->main && p->start >= since && !agents_has(p->pid));
}

/* As pass(), for what a supervisor has left. */
static size_t left_pass(pid_t session, uint64_t since, int sig)
{
    size_t n, nroots = 0, hit = 0;
    auto_free struct proc *procs = procs_read(&n);
    auto_free pid_t *roots = xcalloc(n, sizeof(*roots));

    for (size_t i = 0; i < n; i++)
        if (is_left(&procs[i], session, since))
            roots[nroots++] = procs[i].pid;
    tree_mark(procs, n, roots, nroots);
    for (size_t i = 0; i < n; i++) {
        if ((!procs[i].in && !is_left(&procs[i], session, since)) || procs[i].dead ||
            (sig == SIGSTOP && procs[i].state == 'T'))
            continue;
        (void)kill(procs[i].pid, sig);
        hit++;
    }
    return hit;
}

/* A stopped process cannot fork, so that one pass is enough to kill them all. */
void tree_kill_left(pid_t session, uint64_t since)
{
    for (int i = 0; i < 50 && left_pass(session, since, SIGSTOP) > 0; i++)
        ;
    (void)left_pass(session, since, SIGKILL);
}

/* First everything is stopped, pass after pass until one finds nothing that runs: what was forked
 * during a pass is found by the next, and stopped processes fill the process limit instead of
 * making room for more. Only then are they killed. A process that somebody keeps waking cannot hold
 * this up for ever. */
void tree_kill(void)
{
    for (int i = 0; i < 50 && pass(SIGSTOP) > 0; i++)
        ;
    for (;;) {
        struct timespec wait = {.tv_nsec = 2 * 1000 * 1000};
        size_t hit = pass(SIGKILL);

        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (hit == 0)
            return;
        /* They die on their own time; the end of one of our children wakes us early. */
        (void)ppoll(NULL, 0, &wait, &agent_wait_mask);
    }
}
