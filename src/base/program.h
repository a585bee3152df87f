#pragma once

#include <sys/types.h>

#define PROGRAM_FD 3 /* what a program of ours gets */

/* A program of ours that speaks with us over one descriptor, which is its PROGRAM_FD: in a session
 * of its own, in "/", with no signal blocked or ignored, and nothing else that is ours. Both stay
 * the caller's. 0 or -errno. */
int program_spawn(int program, int fd, char *const *argv, char *const *env, pid_t *ret);

#define PROGRAM_ENDED_MAX 24

/* How a child ended, from the status of waitpid(): "signal 11" or "status 1". */
void program_ended_words(int status, char ret[PROGRAM_ENDED_MAX]);
