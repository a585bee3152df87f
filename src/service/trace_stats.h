#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/trace.h"

struct buf;

/* What all calls add up to, by function. Two views of the same calls: counters that only grow, for
 * Prometheus, and what happened since somebody cleared, with percentiles. Not for two threads at
 * once. It cannot grow past STATS_FUNCTIONS_MAX: what is called otherwise is counted as
 * "other". */

#define STATS_FUNCTIONS_MAX 512
#define STATS_OTHER         "other"
#define STATS_REFUSED       "refused"

struct trace_stats;

struct trace_stats *trace_stats_new(void);
void trace_stats_free(struct trace_stats *s);
void trace_stats_add(struct trace_stats *s, const struct trace *t);
/* A counter only, by the name STATS_REFUSED. */
void trace_stats_refused(struct trace_stats *s, enum err_kind kind);

/* Since the last clear: forgets, then what is left is added again. Counters stay. */
void trace_stats_clear(struct trace_stats *s);
void trace_stats_add_again(struct trace_stats *s, const struct trace *t);

/* {totalRequests, totalErrors, avgDuration, p50Duration, p95Duration, p99Duration,
 * functionCounts{}, functions[]}: ms. What lasts as long as its caller likes counts as a request,
 * and for no duration. A percentile is right to 3 %. */
json_t *trace_stats_json(const struct trace_stats *s);

/* To be kept over a restart: calls each with what has changed since the last time that all was
 * told. The texts are valid until the next call. */
size_t trace_stats_changed(struct trace_stats *s,
                           void (*each)(const char *name, const char *text, void *arg), void *arg);
/* What was told could not be kept: all is told the next time. */
void trace_stats_touch(struct trace_stats *s);
void trace_stats_load(struct trace_stats *s, const char *name, const char *text);

/* The counters as Prometheus reads them. */
struct prometheus;
void trace_stats_prometheus(const struct trace_stats *s, struct prometheus *p);
