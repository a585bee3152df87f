#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/err.h"

/* The agent's processes share a small memory limit beside the box's own. A list of a large folder
 * takes up to 16 MiB, so a few of them at once would have some killed, and their callers hear that
 * the agent was lost. Therefore:
 *
 *  1. A call holds little (HEAVY_FROM), or it has one of HEAVY_MAX turns. HEAVY_MAX lists and
 *     HANDLERS_MAX calls that hold little fit into the limit together.
 *  2. Who waits for a turn keeps a handler meanwhile. The last HANDLERS_LEFT of them are for other
 *     calls: when only those are left nobody waits.
 *  3. A turn ends with its process. Main gives it on when it reaps, so that a handler which is
 * killed does not keep its turn. */

#define TURN_NS       (20ll * 1000 * 1000 * 1000)
#define HANDLERS_LEFT 16

static bool take_turn(void)
{
    for (size_t i = 0; i < HEAVY_MAX; i++) {
        pid_t none = 0;

        if (atomic_compare_exchange_strong(&agents->heavy[i], &none, getpid()))
            return true;
    }
    return false;
}

int heavy_turn(struct agent_call *c, struct err *err)
{
    static bool mine;
    int64_t until = mono_ns() + TURN_NS;

    if (mine)
        return 0;
    for (;;) {
        uint32_t seen = agents->heavy_ended;
        int64_t left = until - mono_ns();
        struct timespec wait = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};

        if (take_turn())
            break;
        if (left <= 0 ||
            slot_count_used(agents->handlers, HANDLERS_MAX) > HANDLERS_MAX - HANDLERS_LEFT)
            return err_code(err, ERR_UNAVAILABLE, "sandbox_busy",
                            "the sandbox works on other large lists and searches; try again when "
                            "some have ended");
        (void)syscall(SYS_futex, &agents->heavy_ended, FUTEX_WAIT, seen, &wait, NULL, 0);
    }
    mine = true;
    if (call_gone(c))
        return err_code(err, ERR_CONFLICT, "cancelled", "nobody waits for it any more");
    return 0;
}

void heavy_forget(pid_t pid)
{
    for (size_t i = 0; i < HEAVY_MAX; i++) {
        if (agents->heavy[i] != pid)
            continue;
        agents->heavy[i] = 0;
        agents->heavy_ended++;
        (void)syscall(SYS_futex, &agents->heavy_ended, FUTEX_WAKE, HANDLERS_MAX, NULL, NULL, 0);
    }
}
