#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/id.h"

struct buf;
struct engine;
struct err;

/* One call of a function, by whichever face. The function gets checked input and says its answer
 * here; it does not know whether HTTP, a WebSocket, a pipe or a test is on the other side. */

/* ---- who calls ---- */

enum scope { SCOPE_NONE, SCOPE_READ, SCOPE_EXEC, SCOPE_WRITE, SCOPE_ADMIN, SCOPES };

#define SCOPES_ALL ((1u << SCOPES) - 1)

struct caller {
    const char *face; /* "rest" */
    unsigned scopes;  /* 1 << enum scope */
    bool admin;       /* has proved more than that it can reach us: a token, or the unix socket */
    bool local;       /* is root on this machine: may name its files */
};

/* ---- what goes out while the function runs ---- */

enum channel { CHANNEL_ANSWER, CHANNEL_STDOUT, CHANNEL_STDERR };

/* A face fills this in. Each returns -1 when the caller is gone or does not take any more; the
 * function then ends its work. */
struct sink {
    const struct sink_ops *ops;
};

struct sink_ops {
    /* Something that happened, of the row's event shape; takes it. A face whose caller did not ask
     * for events throws it away. NULL = nothing has happened, but the caller may be asked whether
     * it is still there. */
    int (*event)(struct sink *s, json_t *event);
    /* The next bytes of an answer that is a text or a file, or of a command's output. */
    int (*bytes)(struct sink *s, enum channel channel, const void *data, size_t len);
    /* Before the first bytes, where it is known: how many there will be. -1 with err when that is
     * more than this caller can be given. */
    int (*size)(struct sink *s, uint64_t bytes, struct err *err);
    /* The next item of an answer that is a list; takes it. */
    int (*item)(struct sink *s, json_t *item);
};

/* ---- what comes in while the function runs ---- */

/* The bytes of an upload. */
struct source {
    /* Waits for bytes: how many, 0 at the end, -1. */
    ssize_t (*read)(struct source *s, void *data, size_t len, struct err *err);
};

/* What the caller of an attached command sends. */
struct input {
    enum { INPUT_STDIN, INPUT_RESIZE, INPUT_SIGNAL } what;
    const char *data; /* of INPUT_STDIN; none = the end of input */
    size_t len;
    uint32_t first, second; /* rows and columns; the signal */
};

/* ---- a call that is not over when its function returns ---- */

/* What waits for a command, a log or a time does not keep a thread. The function leaves a task in
 * call->task and returns 0; the face waits until fd has one of events (EPOLLIN, EPOLLOUT) or
 * until_ns has come, and calls step(), again and again. It does not while the caller has not taken
 * what was sent: nothing piles up. */
struct task {
    const struct task_ops *ops;
    int fd;           /* -1 = none */
    uint32_t events;  /* 0 = not now */
    int64_t until_ns; /* mono_ns; 0 = no time */
    bool takes_input; /* now */
    size_t held;      /* bytes of input that it keeps, since they are not taken yet */
};

struct call;

/* What a step has come to, or -1 when it failed. */
enum task_state {
    TASK_DONE,  /* call->out is set, or all was sent */
    TASK_WAITS, /* for fd or until_ns */
    TASK_AGAIN, /* there may be more: to be called as soon as what was sent is taken */
};

struct task_ops {
    int (*step)(struct task *t, struct call *call, struct err *err);
    /* Only called while takes_input, or with NULL: sends on what the command has not taken yet. */
    int (*input)(struct task *t, const struct input *in, struct err *err);
    /* Ends what still runs, and frees the task. */
    void (*free)(struct task *t);
};

/* ---- the call ---- */

/* What this daemon is, for functions that tell it. */
struct about {
    const char *prefix;             /* of the REST routes: "sandbox" */
    const char *runtime, *boundary; /* "native", "shared kernel, hardened" */
    json_t *openapi; /* functions_openapi(), made once by the face: it never changes */
};

/* A member of the answer that may be long: bytes that are shown as text. They are the task's, and
 * stay until the call is done. A face writes them behind the other members of out. */
struct text {
    const char *name;
    const struct buf *bytes;
};

#define CALL_TEXTS 2

struct call {
    struct engine *engine;
    const struct about *about;
    const struct caller *caller;
    json_t *in;                    /* checked and flat */
    json_t *out;                   /* the answer, of the row's shape; the function sets it. One
                                    * that fails may leave what belongs to the failure */
    struct text texts[CALL_TEXTS]; /* more of the answer; ended by one without a name */
    char exec_id[ID_SIZE];         /* of the command that it runs, once that is known; else "" */
    struct sink *sink;
    struct source *source; /* NULL = no bytes come with the call */
    struct task *task;     /* set by a function that is not done yet */

    /* When the caller gives up waiting: a time (mono_ns; 0 = none), or when gone() says so, which
     * is worth asking once gone_fd (-1 = none) has POLLRDHUP. */
    int64_t deadline_ns;
    int gone_fd;
    bool (*gone)(void *arg);
    void *gone_arg;
    bool draining; /* the daemon is about to end: a stream that has no end of its own ends now */
};

/* Is there still somebody who waits for the answer? */
bool call_is_wanted(const struct call *call);
/* Frees in, out and the task. */
void call_done(struct call *call);
/* Waits for the task on this thread: TASK_DONE, or -1 when it failed or the caller gave up. With a
 * time (mono_ns) at most until then: TASK_WAITS or TASK_AGAIN when it is not done. */
int call_wait(struct call *call, int64_t until_ns, struct err *err);
/* For faces without a way to write long texts: they become members of out. */
void call_fold_texts(struct call *call);

/* -1 with err when the caller is gone, or its deadline has passed. */
int sink_event(struct call *call, json_t *event, struct err *err);
int sink_bytes(struct call *call, enum channel channel, const void *data, size_t len,
               struct err *err);
int sink_item(struct call *call, json_t *item, struct err *err);
int sink_size(struct call *call, uint64_t bytes, struct err *err);
