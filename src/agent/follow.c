#include <poll.h>
#include <sys/inotify.h>
#include <sys/syscall.h>

#include "agent/agent.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "proto/frame.h"
#include "proto/plan.h"

/* Following a log: a handler that stays. It sleeps until one of these has news:
 *  - inotify: the log grew;
 *  - a pidfd of the supervisor: it has written the end (rule 3 of log.c), or somebody killed it;
 *  - the connection: the caller has gone.
 * Neither inotify nor a pidfd is sure to be had: the box may have used up its user's share of
 * inotify instances. What is missing is made up for by looking every LOOK_MS. */

#define LOOK_MS 250

struct follow {
    struct agent_call *call;
    struct log_reader log;
    int grew, ended;
};

/* The folder is made the working directory because inotify takes a path; no other is looked at. */
static int watch_log(const char *id)
{
    auto_close int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    char name[64];

    (void)snprintf(name, sizeof(name), "%s.log", id);
    if (fd < 0 || fchdir(AGENT_FD_LOGS) < 0 || inotify_add_watch(fd, name, IN_MODIFY) < 0)
        return -1;
    return steal_fd(fd);
}

static void forget_news(int fd)
{
    char events[4096];

    while (fd >= 0 && read(fd, events, sizeof(events)) > 0)
        ;
}

/* False when the caller has gone. */
static bool wait_for_news(const struct follow *f)
{
    struct pollfd p[] = {
        {.fd = f->call->fd, .events = POLLIN | POLLRDHUP},
        {.fd = f->grew, .events = POLLIN},
        {.fd = f->ended, .events = POLLIN},
    };

    (void)poll(p, ARRAY_LEN(p), f->grew < 0 || f->ended < 0 ? LOOK_MS : -1);
    forget_news(f->grew);
    return p[0].revents == 0;
}

static int follow(struct follow *f, struct err *err)
{
    for (;;) {
        if (log_look(&f->log, err) < 0)
            return -1;
        log_send(f->call, &f->log, UINT64_MAX);
        if (!f->log.now.running) {
            log_send_end(f->call, &f->log);
            return 0;
        }
        call_flush(f->call);
        if (!wait_for_news(f))
            return 0;
    }
}

int follow_call(struct agent_call *c, struct err *err)
{
    auto_free char *id = wire_get_str(&c->args);
    struct follow f = {.call = c, .log = {.id = id, .fd = -1}, .grew = -1, .ended = -1};

    f.log.offset = wire_get_u64(&c->args);
    if (call_args_ok(c, err) < 0 || log_look(&f.log, err) < 0 || agent_become_stream(err) < 0)
        return -1;
    /* Both before the next look, so that nothing falls between it and the wait. If that look still
     * finds the exec running, the pidfd is its supervisor's: pids of the living are not reused. */
    f.grew = watch_log(id);
    if (f.log.now.running)
        f.ended = (int)syscall(SYS_pidfd_open, f.log.supervisor, 0);
    call_reply(c, FRAME_OK, NULL, 0);
    return follow(&f, err);
}
