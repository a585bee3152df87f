/* What need not be done at once: links and flows of boxes that are gone, a worker that is to be
 * started again, repairs that failed. */
#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "gateway/warden.h"

#define SOON_MS 300

static void run(struct warden *w, struct source *s)
{
    uint64_t count;

    (void)read_some(s->fd, &count, sizeof(count));
    w->timer_runs = false;
    boxes_rest(w);
    if (w->repair_host || w->repair_cross)
        repair(w);
    if (w->worker_pid == 0)
        helper_start(w);
}

int tasks_open(struct warden *w, struct err *err)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

    if (fd < 0)
        return err_sys(err, errno, "timerfd");
    source_add(w, &w->timer, fd, run);
    return 0;
}

void tasks_soon(struct warden *w)
{
    const struct itimerspec soon = {.it_value = {.tv_nsec = SOON_MS * 1000000}};

    if (w->timer_runs || w->timer.fd < 0)
        return;
    w->timer_runs = timerfd_settime(w->timer.fd, 0, &soon, NULL) == 0;
}
