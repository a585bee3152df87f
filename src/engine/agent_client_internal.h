#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "engine/agent_wait_internal.h"
#include "proto/call.h"
#include "runtime/runtime.h"

struct engine;
struct err;
struct frame;
struct sandbox;

/* Connects and sends the first frame, neither of which waits for the agent. Everything afterwards
 * waits as agent_wait_internal.h says, whose limits are looked at first. */
int agent_call(struct engine *e, struct sandbox *sb, enum box_channel channel, enum call_op op,
               const struct buf *args, int *ret_fd, struct err *err);
/* As agent_call on ctl, with the DATA and the END that the call goes on with: at most
 * AGENT_DATA_MAX bytes, which leave together with it. */
#define AGENT_DATA_MAX (64u << 10)
int agent_call_with(struct engine *e, struct sandbox *sb, enum call_op op, const struct buf *args,
                    const void *data, size_t len, int *ret_fd, struct err *err);
/* The next frame. -1 with the agent's own error after FRAME_ERROR, and at the end of the stream
 * with why it ended. */
int agent_next(struct sandbox *sb, int fd, unsigned *ret_type, struct buf *payload,
               struct err *err);
/* Sends a frame of at most FRAME_MAX bytes, and waits for the agent to take it as agent_next waits
 * for one. If the agent has hung up, err is what it said before. */
int agent_send(struct sandbox *sb, int fd, unsigned type, const void *payload, size_t len,
               struct err *err);
/* As agent_call, but the limits are not looked at: for a caller that waits without a thread and
 * counts itself (agent_task_begin). */
int agent_open(struct engine *e, struct sandbox *sb, enum box_channel channel, enum call_op op,
               const struct buf *args, int *ret_fd, struct err *err);
/* The same, as agent_call_with(). */
int agent_open_with(struct engine *e, struct sandbox *sb, enum call_op op, const struct buf *args,
                    const void *data, size_t len, int *ret_fd, struct err *err);
/* The two steps of agent_open(). */
int agent_connect(struct engine *e, struct sandbox *sb, enum box_channel channel, int *ret_fd,
                  struct err *err);
int agent_ask(struct sandbox *sb, int fd, enum call_op op, const struct buf *args, struct err *err);

/* Frames read in large pieces, for a stream that nobody else reads from. */
struct agent_reader {
    struct sandbox *sb;
    int fd;
    struct buf in;
    size_t at; /* so much of in is used up */
};

void agent_reader_init(struct agent_reader *r, struct sandbox *sb, int fd);
/* The next frame of what was read: 1; 0 when it is not all there yet; -1 as agent_next(). */
int agent_take(struct agent_reader *r, struct frame *ret, struct err *err);
/* The next frame, waiting for it as agent_next() does. */
int agent_reader_next(struct agent_reader *r, struct frame *ret, struct err *err);
/* Reads what is there, after poll() has said so. */
int agent_fill(struct agent_reader *r, struct err *err);
/* For a stream that waits: an empty buffer is given back. */
void agent_rest(struct agent_reader *r);
/* Fills err: the agent did not answer in time; returns -1. */
int agent_silent(struct sandbox *sb, struct err *err);

/* As agent_next, where only one type will do. */
int agent_expect(struct sandbox *sb, int fd, unsigned type, struct buf *payload, struct err *err);
/* A call on ctl that is answered with OK. */
int agent_simple(struct engine *e, struct sandbox *sb, enum call_op op, const struct buf *args,
                 struct err *err);
/* A call on ctl answered with ITEM* END: each() gets the payloads. */
int agent_items(struct engine *e, struct sandbox *sb, enum call_op op, const struct buf *args,
                int (*each)(const struct buf *payload, void *arg, struct err *err), void *arg,
                struct err *err);
/* Is an agent there, and of our version? */
int agent_hello(struct engine *e, struct sandbox *sb, struct err *err);
/* Fills err with what a FRAME_ERROR of it says, made harmless; returns -1. */
int agent_said_no(const char *data, size_t len, struct err *err);
/* Fills err: why its stream has ended; returns -1. */
int agent_hung_up(struct sandbox *sb, struct err *err);
/* Fills err with "the sandbox's agent sent WHAT; …"; returns -1. */
int agent_broken(struct err *err, const char *what);
