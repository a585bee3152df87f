#pragma once

#include <stdint.h>

/* Wall time in Unix milliseconds, for what people see and what is stored. */
int64_t now_ms(void);

/* Unix milliseconds of a file's time, rounded down; negative before 1970. A filesystem may hold any
 * 64-bit number of seconds, so both ends are clamped to what JavaScript's Date can hold. */
struct timespec;
#define TIME_MS_MAX INT64_C(8640000000000000)
int64_t time_ms(const struct timespec *t);
int64_t time_ms_clamp(int64_t ms);
/* Rounded down, as the seconds of a timespec are. */
int64_t time_ms_seconds(int64_t ms);

/* Monotonic nanoseconds, for every deadline and duration: a clock that is set must not end things.
 */
int64_t mono_ns(void);
