#pragma once

#include <stdint.h>

struct driver;
struct err;

/* Runs of contexts that nobody waits for any more. The driver may have begun one before it reads
 * that, and reads nothing while it runs: whoever leaves hands his driver over, and a thread reads
 * on until the run is over. One that has begun is interrupted, a second later again, as
 * interpreters can lose an interrupt, and after two its context is ended, which those who wait for
 * it are told. One that has not begun stands behind runs of others, and has the time that they
 * have. */

#define CANCELLED_MAX 16 /* of a context, that have not begun; past that the oldest goes */

struct cancelled;

/* A run has stop_ns to end once it is interrupted; half of that until the second interrupt. */
struct cancelled *cancelled_new(int64_t stop_ns);
int cancelled_start(struct cancelled *c, struct err *err);
/* Nothing of the engine is used afterwards. Fine with NULL, and if it was not started. */
void cancelled_stop(struct cancelled *c);
void cancelled_free(struct cancelled *c);

/* Cancels its run and takes d. Without a thread (NULL, or not started) it is only told so. */
void cancelled_take(struct cancelled *c, const char *exec_id, struct driver *d);
