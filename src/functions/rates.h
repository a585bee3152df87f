#pragma once

#include <stdbool.h>
#include <stdint.h>

struct call;
struct err;
struct function;

/* How often callers may call, and how often a sandbox is made to do something: buckets of tokens,
 * of which each call takes one, and which fill again as time passes. A face gives every call of a
 * caller that is limited the same rates (call->rates). Thread-safe. Times are given, so that tests
 * can. */

struct rates;

struct rates_config {
    unsigned caller_rpm, caller_burst; /* of one caller: a minute, and at once */
    unsigned exec_pm, file_pm;         /* of one sandbox, by what the row says (enum rate) */
};

/* What is left of a bucket, for who is told. */
struct rate_state {
    unsigned per_minute, limit, remaining, reset_s; /* limit 0 = it is not limited */
};

struct rates *rates_new(const struct rates_config *config);
void rates_free(struct rates *r);

/* Both: ERR_LIMIT "rate_limited" with retry_s when nothing is left. The state is set in any case.
 */
int rates_take_caller(struct rates *r, const char *name, int64_t mono_ns, struct rate_state *ret,
                      struct err *err);
/* By the row and the sandbox that the call names; nothing for one without rates. The state of the
 * call is then that of which less is left. */
int rates_take_row(struct call *call, int64_t mono_ns, struct err *err);

/* ---- one kind of them ---- */

struct buckets;

/* At most so many: of more, those that are full go, which is the same as none; then the ones that
 * were not used for longest. */
struct buckets *buckets_new(unsigned per_minute, unsigned burst, unsigned max);
void buckets_free(struct buckets *b);
/* 0 = go on; else after how many seconds (at least 1) a retry has a chance. */
unsigned buckets_take(struct buckets *b, const char *key, int64_t mono_ns, struct rate_state *ret);
unsigned buckets_count(struct buckets *b);
