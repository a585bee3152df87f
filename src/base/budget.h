#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory that many callers share: each may be small, but what strangers can make all of them hold
 * together has this bound. Who cannot have its share now waits or is told to come again; nobody
 * holds a part of what it needs while it waits for the rest, so nobody waits for ever.
 * Any thread may call anything here. */

struct budget_share;

struct budget {
    pthread_mutex_t lock;
    pthread_cond_t freed;
    size_t max, used;
    unsigned waiting; /* threads */
    struct budget_share *shares;
};

#define BUDGET_WAITERS_MAX 64 /* who comes beside them is told at once */

void budget_init(struct budget *b, size_t max);
void budget_done(struct budget *b);

/* True when there was room for n bytes. A NULL budget always has room. */
bool budget_take(struct budget *b, size_t n);
/* As that, but waits for room until then (mono_ns). */
bool budget_wait(struct budget *b, size_t n, int64_t until_ns);
/* For what is here already and cannot be put back: also past the maximum, so that others wait. */
void budget_add(struct budget *b, size_t n);
void budget_give(struct budget *b, size_t n);
/* The same for what somebody has over time, who gets no more than half of it: what is left is for
 * others, whatever he does. */
bool budget_take_share(struct budget *b, const char *who, size_t n);
void budget_add_share(struct budget *b, const char *who, size_t n);
void budget_give_share(struct budget *b, const char *who, size_t n);
/* Is more than half of it taken? */
bool budget_is_tight(struct budget *b);

/* Gives free memory back to the kernel if there is much of it. Small blocks (JSON) come from heaps
 * that each thread has, and a heap keeps what lies below a block that is still used. Takes
 * milliseconds, so it is for a thread that nobody waits for. */
void memory_trim(void);
