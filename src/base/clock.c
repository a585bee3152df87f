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

int64_t time_ms_clamp(int64_t ms)
{
    return ms > TIME_MS_MAX ? TIME_MS_MAX : ms < -TIME_MS_MAX ? -TIME_MS_MAX : ms;
}

int64_t time_ms(const struct timespec *t)
{
    int64_t seconds = t->tv_sec;

    if (seconds >= TIME_MS_MAX / 1000 || seconds < -TIME_MS_MAX / 1000)
        return seconds < 0 ? -TIME_MS_MAX : TIME_MS_MAX;
    return seconds * 1000 + t->tv_nsec / 1000000;
}

int64_t time_ms_seconds(int64_t ms)
{
    return ms / 1000 - (ms % 1000 < 0);
}

int64_t mono_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}
