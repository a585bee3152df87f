#pragma once

#include <stdint.h>

/* Token buckets, one a key. Thread-safe. The caller gives the time, so that tests can. */

struct ratelimit;

struct ratelimit *ratelimit_new(unsigned per_minute, unsigned burst);
void ratelimit_free(struct ratelimit *r);

/* 0 = go on; else after how many seconds (at least 1) a retry has a chance. */
unsigned ratelimit_take(struct ratelimit *r, const char *key, int64_t mono_ns);
