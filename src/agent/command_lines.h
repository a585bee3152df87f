#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "agent/agent.h"

/* The command lines of processes, read in a child process that is killed when one takes too long.
 *
 * For /proc/N/cmdline the kernel takes the mmap lock of process N. Each fork of that process holds
 * the lock, and in a sandbox with a fork bomb it has been held for minutes: a thousand processes
 * share the sandbox's CPU time. The kernel ends the wait for the lock only when the reader is
 * killed. */

#define COMMAND_MAX 4096 /* bytes of a command line, with the NUL at its end */

struct command_lines {
    const struct proc *procs;
    size_t n, at;
    pid_t child; /* 0 = there is none */
    int pipe;
    int64_t until; /* mono_ns: no wait from then on */
};

void command_lines_begin(struct command_lines *l, const struct proc *procs, size_t n);
/* Stores the arguments of the next process, each with its NUL, and returns their length; 0 when the
 * process has none or they could not be read in time. */
size_t command_lines_next(struct command_lines *l, char ret[COMMAND_MAX]);
void command_lines_end(struct command_lines *l);
