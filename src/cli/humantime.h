#pragma once

#include <stdint.h>

/* A time as people who come from iii write it: "500ms", "30s", "1h 30m", "2days". Every number has
 * its unit, but for a 0. 0 and the milliseconds, a part of one counted whole; or -EINVAL. */
int humantime_ms(const char *text, int64_t *ret);
