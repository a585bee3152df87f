#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct caller;
struct runner_share;

/* What one connection holds of what all of them share: calls that wait, threads, channels, memory.
 * Counted, since what is done in its name may outlive it: triggers, calls in queues, channels.
 *
 * One rule for all that has a bound: nobody takes more of it while he has as much as is free. So
 * one alone has half of it, two have a third each, and who comes next finds something. A connection
 * and not a caller is one of them: all who have no token of their own have the same name. */

struct iii_share {
    atomic_uint refs;
    char who[64];     /* as budgets know it: its token, who its rules say it is, or else the
                       * connection alone */
    atomic_bool gone; /* the connection */
    atomic_uint calls;
    struct runner_share *threads;
    unsigned channels; /* under the lock of channels */
    unsigned told;     /* under that of triggers: of sandboxes, and not answered */
    uint64_t turn;     /* under that of the line (later.c) */
};

/* caller NULL = nobody in particular. */
struct iii_share *iii_share_new(const struct caller *caller);
/* Of one that budgets know by that name. */
struct iii_share *iii_share_named(const char *who);
struct iii_share *iii_share_ref(struct iii_share *s);
void iii_share_unref(struct iii_share *s);

/* One more call, of at most so many of all. False: it has its share, or there is none left. */
bool iii_share_take_call(struct iii_share *s, atomic_uint *all, unsigned max);
void iii_share_give_call(struct iii_share *s, atomic_uint *all);
