#include "service/trace_ring.h"

#include <stdatomic.h>

#include "base/mem.h"

/* A slot says by its turn whose it is. With position p of a putter or the taker, at slot p % LEN:
 *   turn == p      free: the putter that moves head from p to p + 1 has it
 *   turn == p + 1  full: the taker at p has it, and leaves turn = p + LEN
 * A putter that was interrupted between the two holds up the taker, nobody else. */
struct slot {
    _Atomic size_t turn;
    struct trace trace;
};

struct trace_ring {
    _Alignas(64) _Atomic size_t head;
    _Alignas(64) _Atomic size_t tail;
    struct slot slots[TRACE_RING_LEN];
};

struct trace_ring *trace_ring_new(void)
{
    size_t size = (sizeof(struct trace_ring) + 63) & ~(size_t)63;
    struct trace_ring *r = aligned_alloc(64, size);

    if (!r)
        abort();
    atomic_init(&r->head, 0);
    atomic_init(&r->tail, 0);
    for (size_t i = 0; i < TRACE_RING_LEN; i++)
        atomic_init(&r->slots[i].turn, i);
    return r;
}

void trace_ring_free(struct trace_ring *r)
{
    free(r);
}

bool trace_ring_put(struct trace_ring *r, const struct trace *t)
{
    size_t at = atomic_load_explicit(&r->head, memory_order_relaxed);

    for (;;) {
        struct slot *s = &r->slots[at % TRACE_RING_LEN];
        size_t turn = atomic_load_explicit(&s->turn, memory_order_acquire);

        if (turn != at) {
            size_t now = atomic_load_explicit(&r->head, memory_order_relaxed);

            if (now == at)
                return false; /* still full of what was put a round ago */
            at = now;
        } else if (atomic_compare_exchange_weak_explicit(
                       &r->head, &at, at + 1, memory_order_relaxed, memory_order_relaxed)) {
            s->trace = *t;
            atomic_store_explicit(&s->turn, at + 1, memory_order_release);
            return true;
        }
    }
}

size_t trace_ring_take(struct trace_ring *r, struct trace *ret, size_t max)
{
    size_t at = atomic_load_explicit(&r->tail, memory_order_relaxed), n = 0;

    while (n < max) {
        struct slot *s = &r->slots[at % TRACE_RING_LEN];

        if (atomic_load_explicit(&s->turn, memory_order_acquire) != at + 1)
            break;
        ret[n++] = s->trace;
        atomic_store_explicit(&s->turn, at + TRACE_RING_LEN, memory_order_release);
        at++;
    }
    atomic_store_explicit(&r->tail, at, memory_order_relaxed);
    return n;
}

size_t trace_ring_fill(struct trace_ring *r)
{
    size_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

    return atomic_load_explicit(&r->head, memory_order_relaxed) - tail;
}
