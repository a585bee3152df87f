#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct event_query;
struct event_store;

/* The events that are kept, in <data>/events.db: they are added at one end and removed at the
 * other. */

struct event_row {
    int64_t seq; /* model/event.h */
    uint32_t salt;
    int64_t time_ms;
    const char *topic, *sandbox_id; /* the latter "" = of none */
    const char *data;               /* JSON text of an object */
    size_t data_len;
    bool published; /* by a caller */
};

int event_store_open(const char *data_dir, struct event_store **ret, struct err *err);
void event_store_close(struct event_store *s);

/* Of all that was ever there: the last, and the last that was removed. */
int64_t event_store_last(struct event_store *s);
int64_t event_store_floor(struct event_store *s);
uint64_t event_store_count(struct event_store *s);

/* All or none, in the order of seq, each behind all that are there. They outlive this process. */
int event_store_add(struct event_store *s, const struct event_row *rows, size_t n, struct err *err);

typedef void (*event_each)(const struct event_row *row, void *arg);

/* The next behind seq, at most max of them, in order. */
int event_store_after(struct event_store *s, int64_t seq, unsigned max, event_each each, void *arg,
                      struct err *err);

/* The newest first; *ret_total: how many there are without limit and offset. */
int event_store_find(struct event_store *s, const struct event_query *q, event_each each, void *arg,
                     uint64_t *ret_total, struct err *err);

struct event_bounds {
    uint64_t count;
    uint64_t bytes; /* on the disk */
    int64_t since_ms;
};

/* Removes some of the oldest, as far as there are more than these bounds allow; a bounded piece of
 * it at a time, *ret_more says whether there is more to remove. */
int event_store_trim(struct event_store *s, const struct event_bounds *keep, bool *ret_more,
                     struct err *err);
