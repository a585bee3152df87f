#include "base/clock.h"

#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec ts;

    (void)clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t now_ms(void)
{
    return read_clock(CLOCK_REALTIME) / 1000000;
}

int64_t mono_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}
