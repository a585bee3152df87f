#include "daemon/starting.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

static bool is_closed(int fd)
{
    struct pollfd p = {.fd = fd};

    return fd >= 0 && poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR);
}

bool starting_is_to_end(const struct starting *s)
{
    sigset_t set;

    return (sigpending(&set) == 0 && (sigismember(&set, SIGTERM) || sigismember(&set, SIGINT))) ||
           is_closed(s->parents[0]) || is_closed(s->parents[1]);
}

static void *watch(void *arg)
{
    const struct starting *s = arg;
    struct pollfd p[] = {{.fd = s->end_fd, .events = POLLIN},
                         {.fd = s->signal_fd, .events = POLLIN},
                         {.fd = s->parents[0]},
                         {.fd = s->parents[1]}};
    struct signalfd_siginfo info;

    while (!starting_is_to_end(s)) {
        if (poll(p, ARRAY_LEN(p), -1) < 0 && errno != EINTR)
            return NULL;
        if (p[0].revents)
            return NULL;
        /* A SIGHUP has the lowest number, so it is what is read. */
        if (p[1].revents && !starting_is_to_end(s))
            (void)read_exact(s->signal_fd, &info, sizeof(info));
    }
    if (poll(p, 1, s->grace_ms) == 0) {
        log_warn("stopped in the middle of the start; the next start goes on from there");
        _exit(0);
    }
    return NULL;
}

void starting_begin(struct starting *s, int signal_fd, int parent_fd, int lifeline_fd, int grace_ms)
{
    *s = (struct starting){.signal_fd = signal_fd,
                           .end_fd = eventfd(0, EFD_CLOEXEC),
                           .grace_ms = grace_ms,
                           .parents = {parent_fd, lifeline_fd}};
    s->runs = s->end_fd >= 0 && pthread_create(&s->thread, NULL, watch, s) == 0;
}

void starting_end(struct starting *s)
{
    const uint64_t one = 1;

    if (!s->runs)
        return;
    (void)write_all(s->end_fd, &one, sizeof(one));
    (void)pthread_join(s->thread, NULL);
    close_fd(&s->end_fd);
    s->runs = false;
}
