#pragma once

#include <stddef.h>
#include <sys/types.h>

struct err;

/* The launcher: a single-threaded process, forked before the daemon starts its first thread, that
 * builds boxes from whole plans (launch/plan.h). It ends when the daemon's end of the socket
 * closes; the boxes stay. */

/* Forks it. agent is the agent's program (embedded in cay). *ret_fd is the daemon's end of a
 * SOCK_SEQPACKET pair for native_config. Compiles the seccomp filter first, once. */
int launcher_start(const void *agent, size_t agent_len, int *ret_fd, pid_t *ret_pid,
                   struct err *err);
