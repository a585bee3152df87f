#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/program.h"

struct err;

/* The launcher that the daemon keeps. One that ends is started again: at once when it has run for a
 * while, else after a time that doubles with each, so that one that cannot live costs little. One
 * that hangs is killed; if it does not end then either (it waits in the kernel), it is left behind
 * and the next is started beside it. At most one is left behind at a time. */
struct launcher_keeper {
    pid_t pid;
    int pidfd;          /* -1 = there is none */
    int hung_fd;        /* eventfd: the runtime writes to it when the launcher does not answer */
    int64_t started_ns; /* mono_ns */
    int64_t again_ns;   /* when the next is to be started; 0 = one runs */
    int64_t killed_ns;  /* when it was killed; 0 = it was not */
    unsigned failures;  /* in a row: those that ended at once, or could not be started */
    pid_t left;         /* the one that was left behind */
    int left_fd;        /* its pidfd; -1 = there is none */
};

#define LAUNCHER_KEEPER_NONE                                                                       \
    {                                                                                              \
        .pidfd = -1, .hung_fd = -1, .left_fd = -1                                                  \
    }

/* *ret_fd is the daemon's end of its socket. */
int keeper_start(struct launcher_keeper *k, int *ret_fd, struct err *err);
/* pidfd says that it has ended: reaps it, and says when the next is due. */
void keeper_ended(struct launcher_keeper *k, char ret_how[PROGRAM_ENDED_MAX]);
/* hung_fd says that it does not answer: kills it. False if it has ended meanwhile. */
bool keeper_hung(struct launcher_keeper *k);
/* True when it was killed and did not end in time: it is left behind, and the next is due. */
bool keeper_leave(struct launcher_keeper *k);
/* Milliseconds until there is something to do; -1 = one runs as it should. */
int keeper_wait_ms(const struct launcher_keeper *k);
/* Is it time to start the next? */
bool keeper_is_due(const struct launcher_keeper *k);
/* As keeper_start(), and after a failure the next is due later again. */
int keeper_again(struct launcher_keeper *k, int *ret_fd, struct err *err);
/* True once, when one that was started again has run for long enough to be trusted. */
bool keeper_recovered(struct launcher_keeper *k);
/* At the end of the daemon, when its socket is closed: the launcher ends by itself, or is killed
 * when it does not, and a program that waits for the daemon should not find it still there. */
void keeper_end(struct launcher_keeper *k);
