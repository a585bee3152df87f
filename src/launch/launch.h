#pragma once

#include <stddef.h>
#include <sys/types.h>

struct err;

/* The launcher: a single-threaded process that builds boxes from whole plans (proto/plan.h). It
 * ends when the daemon's end of the socket closes; the boxes stay. */

/* One that is embedded in cay. */
struct program {
    const void *data;
    size_t len;
};

/* *ret_fd is the daemon's end of a SOCK_SEQPACKET pair for native_config. Compiles the seccomp
 * filter first, once. */
int launcher_start(const struct program *launcher, const struct program *agent, int *ret_fd,
                   pid_t *ret_pid, struct err *err);
