#include <signal.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/main.h"
#include "base/clock.h"
#include "proto/plan.h"

/* Many boxes live for one command, or for a few that come one after the other. Of the processes
 * that the agent has at hand such a box needs one supervisor, and the others would be forked only
 * to die. So a box begins with that one, which is main's own child and was born inside the
 * workload's limits:
 *
 *  1. It serves all execs while the box is young, and wakes nobody but for the first.
 *  2. The spawner comes when a caller waits while the supervisor is busy, which that one sees, or
 *     when it lingers, or with an exec when the box is no longer young, or when the supervisor is
 *     gone. From then on supervisors are the spawner's children, and the first one goes after its
 *     call.
 *  3. A handler comes with the first exec, which may use up all processes that there are, with a
 *     caller, or when the box is no longer young. */

#define YOUNG_NS (100 * 1000000ll)

static struct slot *first;
static int64_t old_at; /* when the box is no longer young */
static bool over;      /* rule 2 */

/* ---- in main */

void young_begin(struct pool *execs)
{
    old_at = mono_ns() + YOUNG_NS;
    first = &execs->slots[0];
    over = !pool_refill(execs);
}

bool young_needs_spawner(void)
{
    over |= agents->young_knocked || first->pid == 0 ||
            (agents->young_execs > 0 && mono_ns() >= old_at);
    if (over)
        agents->young_knocked = true; /* and need not be told again */
    return over;
}

bool young_needs_handler(void)
{
    return over || agents->young_execs > 0 || mono_ns() >= old_at;
}

int64_t young_wait_ns(void)
{
    int64_t left = old_at - mono_ns();

    return !over && left > 0 ? left : -1;
}

/* ---- in the first supervisor */

bool young_is_first(const struct slot *slot)
{
    return slot == first && slot->parent == agents->main;
}

bool young_takes(void)
{
    return ++agents->young_execs == 1 || mono_ns() >= old_at;
}

int young_door(void)
{
    return first->pid == getpid() && first->parent == agents->main && !agents->young_knocked
               ? AGENT_FD_EXEC
               : -1;
}

void young_knock(void)
{
    agents->young_knocked = true;
    (void)kill(agents->main, SIGCHLD);
}
