#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/id.h"
#include "functions/rates.h"
#include "model/trace.h"

struct buf;
struct engine;
struct err;
struct function;
struct iii_settings;
struct key_hold;
struct pipes;
struct services;

/* One call of a function, by whichever face. The function gets checked input and says its answer
 * here; it does not know whether HTTP, a WebSocket, a pipe or a test is on the other side. */

/* ---- who calls ---- */

enum scope { SCOPE_NONE, SCOPE_READ, SCOPE_EXEC, SCOPE_WRITE, SCOPE_ADMIN, SCOPES };

#define SCOPES_ALL ((1u << SCOPES) - 1)
#define LABEL_SIZE 257 /* of the key and the value that a token can be for, and their ends */

struct caller {
    const char *face; /* "rest" */
    char name[64];    /* for traces, rates and the audit log: "root", "uid:1000", "admin" (who has
                       * CAY_AUTH_TOKEN), "anyone", the id of a token */
    char from[64];    /* its address, where it has one */
    unsigned scopes;  /* 1 << enum scope */
    bool admin;       /* has proved more than that it can reach us: a token, or the unix socket */
    bool local;       /* is root on this machine: may name its files */
    bool keeps;       /* a client of cay's own (header Cay-Client): what it makes is stopped when
                       * its time is over, not removed */

    char token_id[ID_SIZE]; /* of the token that was made for it (functions/callers.h), or "" */
    /* Of one that was made for some sandboxes only (functions/reach.h): "" = for all. */
    char sandbox_id[ID_SIZE];
    char label_key[LABEL_SIZE], label_value[LABEL_SIZE];
    int64_t expires_ms; /* when the token ends; 0 = never */
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
    /* Events that are rendered already, for who reads what thousands read: of each "id: …" and
     * "data: <JSON>", a line each, and an empty line. NULL = as single events. */
    int (*stream)(struct sink *s, const char *text, size_t len);
    /* The same from any thread while the call's task waits, for who tells thousands at once:
     * between the two the task takes no step. Begin is false when that cannot be had now; end sends
     * (text NULL = nothing), and is false when the task must be woken: for what the caller has not
     * taken, or because it is gone. NULL = never. */
    bool (*tell_begin)(struct sink *s);
    bool (*tell_end)(struct sink *s, const char *text, size_t len);
};

/* ---- what comes in while the function runs ---- */

struct call;

/* Takes the bytes of an upload, which come when the caller sends them: a function that is called
 * with call->uploads leaves one in call->taker and returns 0. */
struct taker {
    const struct taker_ops *ops;
};

struct taker_ops {
    /* The next bytes; it may wait for who they are for. -1 with err ends the call. */
    int (*take)(struct taker *t, const char *data, size_t len, struct err *err);
    /* All have come: goes on as the function does, and so sets call->out or leaves a task. */
    int (*end)(struct taker *t, struct call *call, struct err *err);
    /* Also of an upload that has not ended, of which nothing stays. */
    void (*free)(struct taker *t);
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
    bool drops_input; /* the caller has nothing to say, and what he says is nothing */
    size_t held;      /* bytes of input that it keeps, since they are not taken yet */
};

/* What a step has come to, or -1 when it failed. */
enum task_state {
    TASK_DONE,  /* call->out is set, or all was sent */
    TASK_WAITS, /* for fd or until_ns */
    TASK_AGAIN, /* there may be more: to be called as soon as what was sent is taken */
};

struct exec_wait;

/* It waits for what an exec waits for (engine/exec.h). */
void task_wait(struct task *t, const struct exec_wait *wait);

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
    /* Where ports of sandboxes are reached by name: "http", "localhost:3111". */
    const char *proxy_scheme, *proxy_host;
    bool open;                      /* over TCP whoever can reach us may call, without a token */
    const struct iii_settings *iii; /* for its functions (functions/iii.h); NULL = the defaults */
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
    const struct function *function; /* set by function_begin(), as is when that was */
    int64_t began_ns;
    const char *traceparent, *tracestate; /* headers of the caller's; NULL = none. Until the
                                           * function has returned */
    struct trace_context trace;           /* set by function_begin() */
    char sandbox_id[ID_SIZE]; /* that it is about, "" = none; set by function_run(), since in does
                               * not live until the end */
    struct engine *engine;
    struct services *services;
    const struct about *about;
    const struct caller *caller;
    char *detail;                  /* of in, for the audit log (functions/audited.h); or NULL */
    json_t *in;                    /* checked and flat */
    json_t *out;                   /* the answer, of the row's shape; the function sets it. One
                                    * that fails may leave what belongs to the failure */
    struct text texts[CALL_TEXTS]; /* more of the answer; ended by one without a name */
    char exec_id[ID_SIZE];         /* of the command that it runs, once that is known; else "" */
    int64_t exec_us;               /* how long that ran, once it has ended; else -1 */
    struct sink *sink;
    bool uploads;        /* bytes come with the call */
    struct taker *taker; /* of them */
    struct pipes *pipes; /* of a face that has streams beside calls (functions/pipe.h), or NULL */

    /* How often it may be called (functions/rates.h). */
    struct rates *rates;                /* NULL = as often as it likes */
    struct rate_state rate;             /* what is left, of what is scarcest */
    void (*on_rate)(struct call *call); /* is told that before the function runs; NULL = nobody */

    /* Of a caller who may send the call twice (functions/keys.h). */
    const char *key;       /* NULL = none; the face's, until the function returns */
    struct key_hold *hold; /* while it runs with its key */
    bool replayed;         /* the answer is that of an earlier call */

    struct task *task; /* set by a function that is not done yet */

    /* When the caller gives up waiting: a time (mono_ns; 0 = none), or when gone() says so, which
     * is worth asking once gone_fd (-1 = none) has POLLRDHUP. */
    int64_t deadline_ns;
    int gone_fd;
    bool (*gone)(void *arg);
    void *gone_arg;
    bool events;   /* the caller asked for events */
    bool whole;    /* and for an answer that has all the same what they told */
    bool draining; /* the daemon is about to end: a stream that has no end of its own ends now */
};

/* Is there still somebody who waits for the answer? */
bool call_is_wanted(const struct call *call);
/* After function_run(): passes bytes of an upload on, and says that all have come. */
int call_take(struct call *call, const char *data, size_t len, struct err *err);
int call_taken(struct call *call, struct err *err);
/* Frees in, out, the taker and the task. */
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
/* Rendered events, as struct sink_ops says. */
bool sink_tell_begin(struct call *call);
bool sink_tell_end(struct call *call, const char *text, size_t len);
int sink_stream(struct call *call, const char *text, size_t len, struct err *err);
int sink_size(struct call *call, uint64_t bytes, struct err *err);
