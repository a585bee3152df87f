#pragma once

#include <pthread.h>
#include <stdbool.h>

struct engine;
struct err;

/* What changes a sandbox is done in turns, one at a time. Not a plain mutex: the thread sanitizer
 * of gcc 12 does not see pthread_mutex_clocklock(), and takes the unlock for a mistake. */
struct turn {
    pthread_mutex_t lock;
    pthread_cond_t given;
    bool taken;
};

void turn_init(struct turn *t);
void turn_done(struct turn *t);

/* ERR_UNAVAILABLE "sandbox_busy" when another has it for seconds, and "busy" when too many threads
 * are in long work, of which this wait is (long_work_internal.h). */
int turn_take(struct engine *e, struct turn *t, struct err *err);
/* False when another has it; does not wait. */
bool turn_try(struct turn *t);
/* Waits for as long as it takes. */
void turn_await(struct turn *t);
void turn_give(struct turn *t);
