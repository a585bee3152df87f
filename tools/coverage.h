#pragma once

/* Force-included when tools/coverage builds cay-agent: a test ends an agent with SIGKILL, and the
 * agent ends its children's work with _exit(), so neither writes its counters by itself. They are
 * written before each wait that may be the last, and before _exit(). They are zero afterwards: a
 * child that shares the memory, or has a copy of it, adds nothing twice. */
#include <gcov.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

static inline void coverage_write(void)
{
    __gcov_dump();
    __gcov_reset();
}

#define _exit(status)                   (coverage_write(), _exit(status))
#define epoll_wait(fd, events, n, wait) (coverage_write(), epoll_wait(fd, events, n, wait))
#define poll(fds, n, wait)              (coverage_write(), poll(fds, n, wait))
#define ppoll(fds, n, wait, mask)       (coverage_write(), ppoll(fds, n, wait, mask))
