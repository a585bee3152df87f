#include <signal.h>
#include <stdatomic.h>
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
 *  3. A handler comes with the first exec, which may use up all processes that there are, or with a
 *     caller.
 *  4. A box is young until some time after its first exec or call: until then it may be one of many
 *     that wait for somebody to take them, and has no more than the two processes. */

#define YOUNG_NS (100 * 1000000ll)

static struct slot *first;
static bool over; /* rule 2 */

static bool is_old(void)
{
    int64_t at = agents->old_at;

    return at && mono_ns() >= at;
}

/* Rule 4. The first supervisor and main may both be the first to say so. */
static void note_use(void)
{
    int64_t none = 0;

    if (agents->old_at == 0)
        (void)atomic_compare_exchange_strong(&agents->old_at, &none, mono_ns() + YOUNG_NS);
}

/* ---- in main */

void young_begin(struct pool *execs)
{
    first = &execs->slots[0];
    over = !pool_refill(execs);
}

bool young_needs_spawner(void)
{
    over |= agents->young_knocked || first->pid == 0 || (agents->young_execs > 0 && is_old());
    if (over)
        agents->young_knocked = true; /* and need not be told again */
    return over;
}

bool young_needs_handler(void)
{
    if (agents->old_at == 0 && slot_count_used(agents->handlers, HANDLERS_MAX) > 0)
        note_use();
    return over || agents->young_execs > 0 || is_old();
}

int64_t young_wait_ns(void)
{
    int64_t left = agents->old_at - mono_ns();

    if (over)
        return -1;
    if (left > 0)
        return left;
    /* It has grown old since young_needs_spawner() looked. */
    return agents->young_execs > 0 ? 0 : -1;
}

/* ---- in the first supervisor */

bool young_is_first(const struct slot *slot)
{
    return slot == first && slot->parent == agents->main;
}

bool young_takes(void)
{
    note_use();
    return ++agents->young_execs == 1 || is_old();
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
