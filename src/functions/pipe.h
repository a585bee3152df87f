#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

/* Streams of bytes beside a call, which its input or its answer names: what iii calls channels. A
 * face that has them gives them to its calls (call->pipes); the function neither knows nor cares
 * what carries them. Nothing here waits for the other end, but for making and opening one. */

struct pipe {
    const struct pipe_ops *ops;
};

struct pipe_ops {
    /* Can be read (EPOLLIN) when what had to wait may go on: bytes have come, there is room again,
     * or the other end has gone. The pipe's, until it is closed. */
    int (*fd)(struct pipe *p);
    /* The next bytes: how many, 0 = none now, -1 = that was all, PIPE_LOST = there will be none any
     * more, though the writer has not said that it was all. Of one beyond an engine the engine may
     * say it in its stead. */
    ssize_t (*read)(struct pipe *p, void *data, size_t len);
    /* 1 = taken, all of it; 0 = not now: there is no room, or nobody reads yet; -1 = nobody will
     * read it any more. At most PIPE_PIECE bytes. */
    int (*write)(struct pipe *p, const void *data, size_t len);
    /* The same for words beside the bytes: a text that is a JSON value. */
    int (*say)(struct pipe *p, const char *text);
    /* Of a writer: the reader gets what was written, then the end. */
    void (*close)(struct pipe *p);
};

#define PIPE_PIECE (64u << 10)
#define PIPE_LOST  (-2)

/* What fills a pipe when the call that made it is over. */
struct pipe_feed {
    /* Called on some thread, one at a time, when the pipe has room and somebody reads: writes until
     * that says 0 or there is no more. 1 = call again when there is room, 0 = that was all (or it
     * has said why not). It may wait for an agent, as a call does. */
    int (*fill)(struct pipe_feed *f, struct pipe *p);
    /* Once, when it is done or nobody reads any more. */
    void (*free)(struct pipe_feed *f);
};

struct pipes {
    const struct pipes_ops *ops;
};

struct pipes_ops {
    /* Our end of the one that a value of the input refers to. NULL: ERR_INVALID "bad_channel" when
     * that is no reference to one, or one of the other direction; ERR_NOT_FOUND "channel_not_found"
     * when there is none, or that end was taken. */
    struct pipe *(*open)(struct pipes *all, const json_t *ref, bool writes, struct err *err);
    /* A new one, whose writer we are; *ret_ref is what the reader is given. ERR_LIMIT. */
    struct pipe *(*make)(struct pipes *all, json_t **ret_ref, struct err *err);
    /* Hands a writer over to somebody who fills it until it is full; takes both. */
    void (*feed)(struct pipes *all, struct pipe *p, struct pipe_feed *feed);
};

/* Does it look like a reference to one: {channel_id, access_key, direction}? */
bool pipe_is_ref(const json_t *value);
