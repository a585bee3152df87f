#pragma once

#include <pthread.h>

/* The calling thread does what nobody waits for: requests come first. */
void thread_is_background(void);
/* The same in degrees, as nice(1) has them; for a thread whose work may become urgent. */
void thread_gives_way(int nice);
/* For waits that end at a time of the monotonic clock. */
void cond_init_monotonic(pthread_cond_t *cond);
