#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/mem.h"

/* The longest pauses between two passes of tree_kill(). */
#define STOP_WAIT_NS (2 * 1000 * 1000ll)
#define KILL_WAIT_NS (64 * 1000 * 1000ll)

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

/* Signals the processes of procs that are in the tree and not stopped or dead already (with
 * SIGKILL: not dead). Returns how many there were. */
static size_t signal_all(const struct proc *procs, size_t n, int sig)
{
    size_t hit = 0;

    for (size_t i = 0; i < n; i++) {
        if (!procs[i].in || procs[i].dead || (sig == SIGSTOP && procs[i].state == 'T'))
            continue;
        (void)kill(procs[i].pid, sig);
        hit++;
    }
    return hit;
}

/* signal_all() for everything below us, found among all processes. */
static size_t whole_pass(int sig)
{
    pid_t self = getpid();
    size_t n;
    auto_free struct proc *procs = procs_read(&n);

    tree_mark(procs, n, &self, 1);
    return n > 0 ? signal_all(procs, n, sig) : 1; /* we are there, so /proc could not be read */
}

/* The same, of those that the kernel's lists of children show: hundreds of commands that end at
 * once must not each look at the processes of all others. */
static size_t pass(int sig)
{
    auto_free struct proc *procs = NULL;
    size_t n;

    if (!procs_below(getpid(), &procs, &n))
        return whole_pass(sig);
    for (size_t i = 0; i < n; i++)
        procs[i].in = true;
    return signal_all(procs, n, sig);
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
    size_t n, nroots = 0;
    auto_free struct proc *procs = procs_read(&n);
    auto_free pid_t *roots = xcalloc(n, sizeof(*roots));

    for (size_t i = 0; i < n; i++)
        if (is_left(&procs[i], session, since))
            roots[nroots++] = procs[i].pid;
    tree_mark(procs, n, roots, nroots);
    for (size_t i = 0; i < n; i++)
        procs[i].in |= is_left(&procs[i], session, since);
    return signal_all(procs, n, sig);
}

/* A stopped process cannot fork, so that one pass is enough to kill them all. */
void tree_kill_left(pid_t session, uint64_t since)
{
    for (int i = 0; i < 50 && left_pass(session, since, SIGSTOP) > 0; i++)
        ;
    (void)left_pass(session, since, SIGKILL);
}

bool tree_reap(void)
{
    pid_t pid;

    do
        pid = waitpid(-1, NULL, WNOHANG | __WALL);
    while (pid > 0);
    return pid == 0 || errno != ECHILD;
}

/* Until a child stops, ends or becomes ours and has ended, but at most that long. */
static void await_child(int64_t ns)
{
    struct timespec wait = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    (void)ppoll(NULL, 0, &wait, &agent_wait_mask);
}

/* As tree_reap(), also of those that end within that time. */
static bool reap_within(int64_t ns)
{
    int64_t until = mono_ns() + ns, left = ns;

    while (tree_reap()) {
        if (left <= 0)
            return true;
        await_child(left);
        left = until - mono_ns();
    }
    return false;
}

/* A process that was told to stop does so when it next gets a processor. */
static void stop_all(void)
{
    int64_t wait = 100 * 1000;
    int idle = 0;

    for (int i = 0; i < 50 && idle < 2; i++) {
        if (pass(SIGSTOP) == 0) {
            idle++;
            continue;
        }
        idle = 0;
        await_child(wait);
        wait = wait < STOP_WAIT_NS / 2 ? wait * 2 : STOP_WAIT_NS;
    }
}

/* First everything is stopped, pass after pass until two in a row find nothing that runs: what was
 * forked during a pass, or missing in it, is found by the next, and stopped processes fill the
 * process limit instead of making room for more. Only then are they killed. A process that somebody
 * keeps waking cannot hold this up for ever.
 *
 * A subreaper without children has nothing below it, whatever a pass has missed. Only if children
 * are left of which none seems to live (somebody else traces them, say) all processes are looked
 * at. */
void tree_kill(void)
{
    int64_t wait = 2 * 1000 * 1000;

    stop_all();
    for (;;) {
        size_t hit = pass(SIGKILL);

        if (!reap_within(wait) || (hit == 0 && whole_pass(SIGKILL) == 0))
            return;
        wait = wait < KILL_WAIT_NS / 2 ? wait * 2 : KILL_WAIT_NS;
    }
}
