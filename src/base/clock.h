#pragma once

#include <stdint.h>

/* Wall time in Unix milliseconds, for what people see and what is stored. */
int64_t now_ms(void);

/* Monotonic nanoseconds, for every deadline and duration: a clock that is set must not end things.
 */
int64_t mono_ns(void);
