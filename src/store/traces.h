#pragma once

#include <stddef.h>
#include <stdint.h>

#include "model/trace.h"

struct err;
struct trace_store;

/* <data>/traces.db: the calls that ended last, and totals of all. Nothing here is synced: a power
 * cut may cost the last of them. */

/* keep: how many calls at most; the oldest go. */
int trace_store_open(const char *data_dir, uint32_t keep, struct trace_store **ret,
                     struct err *err);
void trace_store_close(struct trace_store *s);

/* A total: what it is of, and a text in the caller's form. */
struct trace_total {
    const char *name;
    const char *text;
};

/* All of it or nothing. */
int trace_store_add(struct trace_store *s, const struct trace *traces, size_t n,
                    const struct trace_total *totals, size_t n_totals, struct err *err);

/* What is NULL or 0 is not asked for. */
struct trace_query {
    const char *sandbox_id, *function;
    const uint8_t *trace_id; /* 16 bytes */
    enum { TRACE_ANY, TRACE_OK, TRACE_FAILED } outcome;
    int64_t since_ms; /* ended then or later */
    uint32_t limit, offset;
};

/* Newest first; *ret_total counts all that match, which limit and offset do not change. What a
 * trace points to lives until each returns. */
int trace_store_list(struct trace_store *s, const struct trace_query *q,
                     void (*each)(const struct trace *t, void *arg), void *arg, uint64_t *ret_total,
                     struct err *err);
int trace_store_totals(struct trace_store *s, void (*each)(const struct trace_total *t, void *arg),
                       void *arg, struct err *err);
/* Those that ended before. */
int trace_store_clear(struct trace_store *s, int64_t before_ms, uint64_t *ret_cleared,
                      struct err *err);
