#include "engine/watch.h"

#include <poll.h>

#include "base/clock.h"

bool engine_watch_is_over(const struct engine_watch *watch)
{
    struct pollfd caller = {.fd = watch ? watch->cancel_fd : -1, .events = POLLRDHUP};

    if (!watch)
        return false;
    if (watch->until_ns && mono_ns() >= watch->until_ns)
        return true;
    return poll(&caller, 1, 0) == 1 && (!watch->cancelled || watch->cancelled(watch->arg));
}
