#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/agent.h"
#include "agent/recording.h"

/* One command and what goes to and from it: exec.c starts and watches it, exec_io.c passes on what
 * it puts out and what its caller sends. */

#define CHUNK (64u << 10)

/* Of EXEC_COLLECT: what is held back goes out when it is so much. */
#define HOLD (64u << 10)

struct output {
    int fd;
    unsigned type;
    uint64_t kept, lost;
};

struct supervised {
    struct agent_call *call;
    struct call_exec in;
    struct identity user;
    struct journal journal; /* of a background exec */
    struct kept *kept;      /* NULL = it has no id */
    struct recording recording;
    struct call_kept state;
    struct running *seat; /* on the board; NULL = none */
    struct watchers watchers;
    struct output out[2]; /* the second one is closed for a tty and in the background */
    int theirs[3];      /* the command's ends of pipes or pty, while we have them too; -1 = none */
    int input;          /* write end of stdin, or the pty's master */
    struct buf pending; /* input that the command has not read */
    bool input_ends;
    pid_t pid;
    int status;
    bool ended;
    int64_t started, deadline;
    uint64_t oom_before; /* oom_kills() when it was to start */
    int64_t hold_until;  /* 0 once it has passed */
};

static inline bool is_background(const struct supervised *x)
{
    return x->in.flags & EXEC_BACKGROUND;
}

static inline bool is_tty(const struct supervised *x)
{
    return x->in.flags & EXEC_TTY;
}

static inline bool collects(const struct supervised *x)
{
    return x->in.flags & EXEC_COLLECT;
}

static inline bool has_caller(const struct supervised *x)
{
    return x->call->fd >= 0;
}

/* So much waits for the caller that nothing is added to it. */
static inline bool is_full(const struct supervised *x)
{
    if (has_caller(x) && x->call->out.len >= (collects(x) ? HOLD : 1))
        return true;
    return x->watchers.n > 0 && watchers_behind(&x->watchers);
}

/* ---- exec_io.c */

/* Reads at most want bytes and passes them on. Bytes read, 0 at the end of the stream (it is closed
 * then), or -errno: -EPIPE when the caller does not take them. */
ssize_t exec_pump(struct supervised *x, struct output *o, size_t want);
/* What is there now and no more: a process that goes on writing must not keep the call open. */
void exec_drain(struct supervised *x);
/* Gives the command the input that it takes. */
void exec_feed(struct supervised *x);
void exec_resize(struct supervised *x, uint32_t rows, uint32_t cols);
/* A frame of a caller: 0, -ECANCELED or -EPROTO. */
int exec_on_frame(struct supervised *x, const struct frame *f);
/* Room for one more frame of input must be left before another is taken. */
bool exec_wants_frames(const struct supervised *x);
int exec_pass_input(struct supervised *x); /* what the caller has sent, as far as there is room */
/* Reads what the caller sends: 0, or negative when it is gone, cancels or does not speak our
 * protocol. */
int exec_listen(struct supervised *x, short revents);
/* Handles the frames that a caller sent before it closed the connection: 0, -ECANCELED if one of
 * them cancels the command, or -EPROTO. */
int exec_last_frames(struct supervised *x, struct agent_call *call);
/* The caller has gone, or says what it may not. 0 = the command goes on. */
int exec_without_caller(struct supervised *x, int why);
