#pragma once

/* Force-included when tools/coverage builds cay-agent: a test ends an agent with SIGKILL, and the
 * agent ends its children's work with _exit(), so neither writes its counters by itself. They are
 * written before each wait that may be the last, and before _exit(). They are zero afterwards: a
 * child that shares the memory, or has a copy of it, adds nothing twice. */
#include <gcov.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

/* An agent that is killed while it writes leaves a damaged file. libgcov's words about that must
 * not go into the output of a command: stderr, or any descriptor, may be one when they come. */
extern FILE *__gcov_error_file;

static inline ssize_t coverage_drop(void *cookie, const char *text, size_t len)
{
    (void)cookie, (void)text;
    return (ssize_t)len;
}

static inline void coverage_write(void)
{
    if (!__gcov_error_file)
        __gcov_error_file = fopencookie(NULL, "w", (cookie_io_functions_t){.write = coverage_drop});
    __gcov_dump();
    __gcov_reset();
}

#define _exit(status)                   (coverage_write(), _exit(status))
#define epoll_wait(fd, events, n, wait) (coverage_write(), epoll_wait(fd, events, n, wait))
#define poll(fds, n, wait)              (coverage_write(), poll(fds, n, wait))
#define ppoll(fds, n, wait, mask)       (coverage_write(), ppoll(fds, n, wait, mask))
