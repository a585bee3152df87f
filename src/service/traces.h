#pragma once

#include <jansson.h>
#include <stdint.h>

#include "model/trace.h"
#include "store/traces.h"

struct err;
struct prometheus;
struct traces;

/* Remembers every call that has ended: the last ones each, in a database beside cay.db, and all of
 * them as counters. Who makes a call puts its trace into a ring; a thread of this takes them out,
 * many at once. A daemon that is killed loses what came in its last quarter of a second. */

/* The database that cannot be had (a full disk) is told and done without: counters then begin at
 * 0. */
struct traces *traces_open(const char *data_dir, uint32_t keep);
int traces_start(struct traces *t, struct err *err);
/* All that was put is in the database afterwards. Fine if it was not started. */
void traces_stop(struct traces *t);
void traces_close(struct traces *t);

/* Who else wants them: called from one thread at a time, and must not wait. Before the first is
 * put; NULL = nobody. */
typedef void (*traces_listener)(const struct trace *traces, size_t n, void *arg);
void traces_listen(struct traces *t, traces_listener listener, void *arg);

/* ---- from any thread ---- */

/* A call begins and ends. Neither waits. */
void traces_begin(struct traces *t);
void traces_put(struct traces *t, const struct trace *trace);

/* Counts one that leaves no trace, because nobody knows what it called. */
void traces_refused(struct traces *t, enum err_kind kind);

/* What follows knows of all that was put before. */

/* {traces, total} */
int traces_list(struct traces *t, const struct trace_query *q, json_t **ret, struct err *err);
/* Also of the percentiles; counters stay as they are. */
int traces_clear(struct traces *t, int64_t before_ms, uint64_t *ret_cleared, struct err *err);
/* As trace_stats_json() says. */
json_t *traces_summary(struct traces *t);
/* The same of nothing, for a daemon that remembers no calls. */
json_t *traces_no_summary(void);
void traces_prometheus(struct traces *t, struct prometheus *p);
