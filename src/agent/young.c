#include <unistd.h>

#include "agent/agent.h"
#include "agent/main.h"
#include "base/clock.h"
#include "proto/plan.h"

/* Many boxes live for one command. Of the processes that the agent has at hand such a box needs one
 * supervisor, and the others would be forked only to die. So a box begins with that one, which is
 * main's own child and was born inside the workload's limits:
 *
 *  1. The spawner comes when a second exec does, or when the first one takes long, or when the
 *     supervisor is gone. From then on supervisors are its children, and the first one goes after
 *     its call.
 *  2. A handler comes with the spawner, or when the box is no longer young, or with a caller. */

#define YOUNG_NS (100 * 1000000ll)

static struct slot *first;
static int64_t old_at;     /* when a handler is to be had whatever happens */
static int64_t spawner_at; /* when the first exec takes long; 0 = there has been none */
static bool over;          /* rule 1 */

void young_begin(struct pool *execs)
{
    old_at = mono_ns() + YOUNG_NS;
    first = &execs->slots[0];
    over = !pool_refill(execs);
}

static bool first_serves(void)
{
    return first->mark != SLOT_WAITS;
}

bool young_needs_spawner(bool knocked)
{
    if (over || knocked || first->pid == 0) {
        over = true;
    } else if (first_serves()) {
        /* Whatever woke us after we have seen this: another exec, or the time. */
        over = spawner_at != 0;
        spawner_at = mono_ns() + YOUNG_NS;
    }
    return over;
}

bool young_needs_handler(void)
{
    return over || mono_ns() >= old_at;
}

int young_knock(void)
{
    return !over && first_serves() ? AGENT_FD_EXEC : -1;
}

int64_t young_wait_ns(void)
{
    int64_t at = INT64_MAX, now = mono_ns();

    if (!young_needs_handler())
        at = old_at;
    if (!over && spawner_at != 0 && first_serves() && spawner_at < at)
        at = spawner_at;
    if (at == INT64_MAX)
        return -1;
    return at > now ? at - now : 0;
}
