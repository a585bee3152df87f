#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct caller;
struct runner_share;

/* What one connection holds of what all of them share: calls that wait, threads, channels, memory.
 * Counted, since calls and channels of a connection may outlive it.
 *
 * One rule for all that has a bound: nobody takes more of it while he has as much as is free. So
 * one alone has half of it, two have a third each, and who comes next finds something. A connection
 * and not a caller is one of them: all who have no token of their own have the same name. */

struct iii_share {
    atomic_uint refs;
    char who[64];     /* its name for budgets: its token, or else one of the connection alone */
    atomic_bool gone; /* the connection */
    atomic_uint calls;
    struct runner_share *threads;
    unsigned channels; /* under the lock of channels */
    uint64_t turn;     /* under that of the line (later.c) */
};

/* caller NULL = nobody in particular. */
struct iii_share *iii_share_new(const struct caller *caller);
struct iii_share *iii_share_ref(struct iii_share *s);
void iii_share_unref(struct iii_share *s);

/* One more call, of at most so many of all. False: it has its share, or there is none left. */
bool iii_share_take_call(struct iii_share *s, atomic_uint *all, unsigned max);
void iii_share_give_call(struct iii_share *s, atomic_uint *all);
