#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct engine;
struct err;
struct sandbox;

struct exec_request {
    const char *command; /* run as sh -c; NULL = argv */
    char *const *argv;   /* NULL = command */
    const char *cwd;     /* NULL = the sandbox's workdir */
    const char *user;    /* NULL = the image's */
    const json_t *env;   /* added to the sandbox's, object of strings; NULL = none */
    uint64_t timeout_ms; /* 0 = the configured maximum; more is cut to it (background: 0 = none) */
    bool tty, want_stdin;
    bool collect;        /* the output is wanted whole, at the end */
    bool attached;       /* somebody is there and can end it: no maximum, and timeout_ms 0 = none */
    bool apart;          /* a log knows the streams apart, and their order only about */
    bool detach;         /* closing does not end it */
    const char *exec_id; /* by which it is known; NULL = a new one */
    uint32_t rows, cols;
};

/* One command in the foreground. Once it is open nothing here blocks: who wants to wait asks what
 * for (engine_exec_wait) and calls again then. */
struct exec;

/* Closing ends the command and all that it started, unless it has ended, the request said detach,
 * or the engine is about to end: then it goes on, and can be had by its id. */
int engine_exec_open(struct engine *e, const char *id, const struct exec_request *req,
                     struct exec **ret, struct err *err);
void engine_exec_close(struct exec *x);
/* One that was opened before, by its id: what it has put out from that cursor on, and what it will
 * until it ends; with input also what engine_exec_stdin() and its kin send. Closing ends nothing.
 * ERR_NOT_FOUND "exec_not_found" and ERR_CONFLICT "exec_attached" come with the first output. */
int engine_exec_again(struct engine *e, const char *id, const char *exec_id, uint64_t cursor,
                      bool input, struct exec **ret, struct err *err);
/* Its id, once it has started; "" when the sandbox is too old to keep it. */
const char *engine_exec_id(const struct exec *x);
/* Bytes of output up to now, of both streams: where to go on. */
uint64_t engine_exec_cursor(const struct exec *x);

struct exec_wait {
    int fd;
    uint32_t events;  /* EPOLLIN, EPOLLOUT; 0 = it waits for the time only */
    int64_t until_ns; /* mono_ns; 0 = no time */
};
void engine_exec_wait(const struct exec *x, struct exec_wait *ret);

struct exec_output {
    enum { EXEC_STARTED, EXEC_STDOUT, EXEC_STDERR, EXEC_LOST, EXEC_EXIT } what;
    const char *data; /* valid until the next call */
    size_t len;
    uint32_t pid;  /* of EXEC_STARTED, as the box sees it */
    uint64_t lost; /* of EXEC_LOST: bytes that are not kept any more, of one opened again */
    /* of EXEC_EXIT */
    int exit_code; /* as shells say it: 128 + signal, 124 after a timeout */
    const char
        *reason; /* "exit", "signal", "timeout", "cancelled", "oom"; "lost": its end was not seen */
    double duration_ms; /* > 0 */
    uint64_t lost_stdout, lost_stderr;
};

/* Of one that has ended: adds "oom" when the kernel killed for lack of memory while it ran, and
 * "message", how it ended in words, unless by itself. */
void engine_exec_put_words(const struct exec *x, json_t *o);
/* And when its output was collected: what may be the matter, or NULL. */
const char *engine_exec_hint(const struct exec *x);

/* What has come: EXEC_STARTED first, EXEC_EXIT last. 1 = something, 0 = nothing now, -1. */
int engine_exec_next(struct exec *x, struct exec_output *ret, struct err *err);

/* For who wants the output whole, instead of engine_exec_next(); the request must have said so
 * (collect). 1 = wait and call again, 0 = it has ended and the result is there, -1. A timeout is
 * ERR_TIMEOUT "Command timed out after <n>ms"; then too the result is there, as far as it came. */
struct exec_result {
    const struct buf *out, *errors; /* the exec's, until it is closed */
    struct exec_output end;
    bool truncated;
};
int engine_exec_collect(struct exec *x, struct exec_result *ret, struct err *err);

#define EXEC_OUTPUT_MAX (10u << 20) /* of each stream that is collected; more is counted */

/* Input. What the command does not take yet is kept, so give it more only when nothing is. */
size_t engine_exec_held(const struct exec *x);                        /* bytes */
void engine_exec_stdin(struct exec *x, const void *data, size_t len); /* none = the end of input */
void engine_exec_resize(struct exec *x, uint32_t rows, uint32_t cols);
void engine_exec_signal(struct exec *x, uint32_t signal);
/* Sends on what was kept; so does engine_exec_next(). */
void engine_exec_flush(struct exec *x);

/* ---- those that were started before, by their ids ---- */

/* ExecState: how it is, and what it put out from the cursor on, at most 1 MiB at a time. */
int engine_exec_state(struct engine *e, const char *id, const char *exec_id, uint64_t cursor,
                      json_t **ret, struct err *err);
/* ExecList: what runs and what is kept. */
int engine_exec_list(struct engine *e, const char *id, json_t **ret, struct err *err);
/* Ends it with all that it started: ExecInfo. Fine if it has ended. */
int engine_exec_end(struct engine *e, const char *id, const char *exec_id, json_t **ret,
                    struct err *err);

/* ---- in the background ---- */

int engine_exec_background(struct engine *e, const char *id, const struct exec_request *req,
                           json_t **ret, struct err *err);
int engine_background_status(struct engine *e, const char *exec_id, json_t **ret, struct err *err);
/* {output, cursor}, at most 1 MiB at a time. */
int engine_background_logs(struct engine *e, const char *exec_id, uint64_t cursor, json_t **ret,
                           struct err *err);
/* SIGINT to pid, or with pid 0 to every exec that runs. *ret_pending: the sandbox is paused, and it
 * takes effect when that goes on. */
int engine_interrupt(struct engine *e, const char *id, uint32_t pid, bool *ret_pending,
                     struct err *err);
