#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "model/trace.h"

/* Traces on their way from those who make calls to the one who writes them down. Putting one in
 * takes no lock and no memory, and never waits: when it is full the answer is false. */

#define TRACE_RING_LEN 2048

struct trace_ring;

struct trace_ring *trace_ring_new(void);
void trace_ring_free(struct trace_ring *r);
/* From any thread. */
bool trace_ring_put(struct trace_ring *r, const struct trace *t);
/* From one thread at a time: at most max, in the order in which they came. */
size_t trace_ring_take(struct trace_ring *r, struct trace *ret, size_t max);
/* About how many are in it. */
size_t trace_ring_fill(struct trace_ring *r);
