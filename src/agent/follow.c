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
static bool wait_for_news(int caller, int grew, int ended)
{
    struct pollfd p[] = {
        {.fd = caller, .events = POLLRDHUP}, /* input for what has none stays unread */
        {.fd = grew, .events = POLLIN},
        {.fd = ended, .events = POLLIN},
    };

    (void)poll(p, ARRAY_LEN(p), grew < 0 || ended < 0 ? LOOK_MS : -1);
    forget_news(grew);
    return p[0].revents == 0;
}

int log_send_all(struct agent_call *c, struct log_reader *l, struct err *err)
{
    /* Both before the next look, so that nothing falls between it and the wait. If that look still
     * finds the exec running, the pidfd is its supervisor's: pids of the living are not reused. */
    auto_close int grew = watch_log(l->file.id);
    auto_close int ended =
        l->file.now.running ? (int)syscall(SYS_pidfd_open, l->file.supervisor, 0) : -1;

    for (;;) {
        if (log_look(l, err) < 0)
            return -1;
        log_send(c, l, UINT64_MAX);
        if (!l->file.now.running)
            return 0;
        call_flush(c);
        if (!wait_for_news(c->fd, grew, ended))
            _exit(0);
    }
}

int follow_call(struct agent_call *c, struct err *err)
{
    auto_free char *id = wire_get_str(&c->args);
    struct log_reader l = {.file = LOG_FILE(AGENT_FD_LOGS, id), .form = LOG_BYTES};

    l.file.offset = wire_get_u64(&c->args);
    if (call_args_ok(c, err) < 0 || log_look(&l, err) < 0 || agent_become_stream(err) < 0)
        return -1;
    call_reply(c, FRAME_OK, NULL, 0);
    if (log_send_all(c, &l, err) < 0)
        return -1;
    log_end(c, &l);
    return 0;
}

int output_call(struct agent_call *c, struct err *err)
{
    auto_free char *id = wire_get_str(&c->args);
    struct log_reader l = {.file = LOG_FILE(AGENT_FD_LOGS, id), .form = LOG_TIMED};
    uint64_t most;
    uint32_t follow;

    l.file.offset = wire_get_u64(&c->args);
    most = wire_get_u64(&c->args);
    follow = wire_get_u32(&c->args);
    if (call_args_ok(c, err) < 0 || log_look(&l, err) < 0 ||
        (follow && agent_become_stream(err) < 0))
        return -1;
    call_reply(c, FRAME_OK, NULL, 0);
    if (!follow)
        log_send(c, &l, most);
    else if (log_send_all(c, &l, err) < 0)
        return -1;
    log_end(c, &l);
    return 0;
}
