#pragma once

#include <jansson.h>
#include <stdint.h>

struct engine;
struct err;
struct prometheus;
struct usage;

/* What sandboxes used lately: one thread looks at all that have a box, so many seconds apart, and
 * keeps the last looks of each in memory. Nothing is written to disk: a daemon that starts knows
 * nothing of before. A sandbox that has gone is forgotten with the next look. */

#define USAGE_HOUR_S    3600
#define USAGE_BYTES_MAX (16u << 20) /* of all; with many sandboxes each has less than an hour */

struct usage *usage_new(struct engine *engine, uint32_t interval_s);
int usage_start(struct usage *u, struct err *err);
/* The engine is not called any more afterwards. Fine if it was not started. */
void usage_stop(struct usage *u);
void usage_free(struct usage *u);

/* MetricsHistory of what was seen at since_ms or later. ERR_NOT_FOUND as the engine says. */
int usage_history(struct usage *u, const char *id, int64_t since_ms, json_t **ret, struct err *err);
/* What all sandboxes use together, and the most hungry of them each. */
void usage_prometheus(struct usage *u, struct prometheus *p);

/* One look, now. For tests, in place of the thread. */
void usage_look(struct usage *u);
