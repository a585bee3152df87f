#pragma once

#include <stddef.h>
#include <stdint.h>

#include "engine/dial.h"
#include "proto/call.h"

struct engine;
struct err;
struct sandbox;

#define DIAL_ANSWER_MAX 1024 /* an error's code and text are less */

/* A dial without a thread: whoever has it waits for fd and events, and steps. */
struct dial {
    struct engine *engine;
    struct sandbox *sb; /* the caller's */
    uint16_t port;
    enum dial_kind kind;
    enum call_open_family family;
    int fd;       /* to wait for: the agent, or the socket that is about to be connected */
    short events; /* of poll() */
    enum {
        DIAL_ASKED,      /* CALL_OPEN is under way */
        DIAL_ASKED_OLD,  /* CALL_DIAL, of an agent of before */
        DIAL_CONNECTING, /* the socket is there */
    } step;
    int got; /* what came with the answer */
    unsigned char in[DIAL_ANSWER_MAX];
    size_t have; /* bytes of in */
};

/* Asks the agent, which does not wait. */
int dial_begin(struct dial *d, struct engine *e, struct sandbox *sb, uint16_t port,
               enum dial_kind kind, enum call_open_family family, struct err *err);
/* After fd became ready: 1 with the socket, which is the caller's; 0 = wait on; -1. */
int dial_step(struct dial *d, int *ret_fd, struct err *err);
void dial_done(struct dial *d);
