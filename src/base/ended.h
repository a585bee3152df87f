#pragma once

#include <pthread.h>
#include <stdbool.h>

/* Threads that come and go, which nobody waits for one by one. Each that ends waits for the one
 * that ended before it: who waits for the last has waited for all, also for what libraries clean
 * up in a thread behind its function. Zeroed at first; the owner's lock guards it. */
struct ended {
    pthread_t thread;
    bool any;
};

/* The calling thread is about to end: it takes the place of the last, which it gets to join. */
struct ended ended_swap(struct ended *last);
/* Without the lock. */
void ended_join(struct ended last);
