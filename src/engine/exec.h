#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "base/rlimits.h"

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
    bool record;         /* on a terminal: what it shows, and when, is written down */
    const char *exec_id; /* by which it is known; NULL = a new one */
    bool once;           /* not if one of that id runs or ran: ERR_CONFLICT "exec_exists". A sandbox
                          * of an older cay cannot tell: ERR_UNSUPPORTED */
    const char *told;    /* what its event says in place of the command; NULL = the command */
    bool no_waiting;     /* a sandbox that stands still now is ERR_UNAVAILABLE "sandbox_busy" */
    uint32_t rows, cols;
    /* Its input, all of it: when it has started, it has it, whatever becomes of us. Not with
     * want_stdin or tty. A sandbox of an older cay: ERR_UNSUPPORTED "agent_too_old" */
    const void *input;
    size_t input_len; /* at most EXEC_STDIN_MAX */
    /* Of the process, below those of its sandbox: ERR_INVALID "bad_rlimit". The same for an older
     * cay's */
    const struct rlimit_wish *limits;
    size_t n_limits; /* at most RLIMITS_MAX */
};

#define EXEC_STDIN_MAX (1u << 20)

/* What can be said of it before it is to run: ERR_INVALID or ERR_TOO_LARGE. */
int engine_exec_check(const struct exec_request *req, struct err *err);

/* One command in the foreground. Once it is open nothing here blocks: who wants to wait asks what
 * for (engine_exec_wait) and calls again then. */
struct exec;

/* Closing ends the command and all that it started, unless it has ended, the request said detach,
 * or the engine is about to end: then it goes on, and can be had by its id. */
int engine_exec_open(struct engine *e, const char *id, const struct exec_request *req,
                     struct exec **ret, struct err *err);
void engine_exec_close(struct exec *x);
/* The environment and the folder that such a command would have; both are the caller's. */
int engine_exec_settings(struct engine *e, const char *id, const struct exec_request *req,
                         json_t **ret_env, char **ret_cwd, struct err *err);
/* One that was opened before, by its id: what it has put out from that cursor on, and what it will
 * until it ends; with input also what engine_exec_stdin() and its kin send. Closing ends nothing.
 * ERR_NOT_FOUND "exec_not_found" and ERR_CONFLICT "exec_attached" come with the first output. */
enum exec_input {
    EXEC_READS,
    EXEC_TYPES,  /* alone: the command waits for it */
    EXEC_SHARES, /* beside others who share it: the command waits for the quickest */
    EXEC_WRITES, /* the same for one who wants no output, and is not waited for */
};
int engine_exec_again(struct engine *e, const char *id, const char *exec_id, uint64_t cursor,
                      enum exec_input input, struct exec **ret, struct err *err);
/* Did it say, when it started, that it is recorded? */
bool engine_exec_is_recorded(const struct exec *x);
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
/* And when its output was collected: what may be the matter, or NULL. Free it. */
char *engine_exec_hint(const struct exec *x);
/* The same for who has taken its errors piece by piece. */
char *engine_exec_hint_of(const struct exec *x, const char *errors, size_t len);

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
/* ExecInfo: how it is. */
int engine_exec_look(struct engine *e, const char *id, const char *exec_id, json_t **ret,
                     struct err *err);
/* Its terminal has that size when this returns: ExecInfo. Of one that has ended nothing changes.
 * ERR_NOT_FOUND where the sandbox was made by a cay that could not yet. */
int engine_exec_set_size(struct engine *e, const char *id, const char *exec_id, uint32_t rows,
                         uint32_t cols, json_t **ret, struct err *err);
/* ExecList: what runs and what is kept. */
int engine_exec_list(struct engine *e, const char *id, json_t **ret, struct err *err);
/* Ends it with all that it started: ExecInfo. Fine if it has ended. */
int engine_exec_end(struct engine *e, const char *id, const char *exec_id, json_t **ret,
                    struct err *err);

/* What was recorded of one with a terminal, until now. */
struct exec_recorded {
    enum { RECORDED_OUTPUT, RECORDED_SIZE, RECORDED_EXIT, RECORDED_FULL } what;
    double seconds; /* since it started */
    const char *data;
    size_t len;
    uint32_t rows, cols;
    int exit_code;
};

/* Calls each for all of it, in order. ERR_NOT_FOUND "recording_not_found". */
int engine_exec_recording(struct engine *e, const char *id, const char *exec_id,
                          int (*each)(const struct exec_recorded *r, void *arg, struct err *err),
                          void *arg, struct err *err);

/* ---- in the background ---- */

int engine_exec_background(struct engine *e, const char *id, const struct exec_request *req,
                           json_t **ret, struct err *err);
/* The sandbox that it runs in. */
int engine_background_owner(struct engine *e, const char *exec_id, char ret[ID_SIZE],
                            struct err *err);
int engine_background_status(struct engine *e, const char *exec_id, json_t **ret, struct err *err);
/* {output, cursor}, at most 1 MiB at a time. */
int engine_background_logs(struct engine *e, const char *exec_id, uint64_t cursor, json_t **ret,
                           struct err *err);
/* SIGINT to pid, and if that is the first process of a command to all of the command; with pid 0 to
 * every exec that runs. *ret_pending: the sandbox is paused, and it
 * takes effect when that goes on. */
int engine_interrupt(struct engine *e, const char *id, uint32_t pid, bool *ret_pending,
                     struct err *err);
