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
    bool collect;  /* the output is wanted whole, at the end */
    bool attached; /* somebody is there and can end it: no maximum, and timeout_ms 0 = none */
    uint32_t rows, cols;
};

/* One command in the foreground. Once it is open nothing here blocks: who wants to wait asks what
 * for (engine_exec_wait) and calls again then. */
struct exec;

/* Closing ends the command and all that it started, unless it has ended. */
int engine_exec_open(struct engine *e, const char *id, const struct exec_request *req,
                     struct exec **ret, struct err *err);
void engine_exec_close(struct exec *x);

struct exec_wait {
    int fd;
    uint32_t events;  /* EPOLLIN, EPOLLOUT; 0 = it waits for the time only */
    int64_t until_ns; /* mono_ns; 0 = no time */
};
void engine_exec_wait(const struct exec *x, struct exec_wait *ret);

struct exec_output {
    enum { EXEC_STARTED, EXEC_STDOUT, EXEC_STDERR, EXEC_EXIT } what;
    const char *data; /* valid until the next call */
    size_t len;
    uint32_t pid; /* of EXEC_STARTED, as the box sees it */
    /* of EXEC_EXIT */
    int exit_code; /* as shells say it: 128 + signal, 124 after a timeout */
    const char
        *reason; /* "exit", "signal", "timeout", "cancelled", "oom"; "lost": its end was not seen */
    double duration_ms; /* > 0 */
    uint64_t lost_stdout, lost_stderr;
};

/* What has come: EXEC_STARTED first, EXEC_EXIT last. 1 = something, 0 = nothing now, -1. */
int engine_exec_next(struct exec *x, struct exec_output *ret, struct err *err);

/* For who wants the output whole, instead of engine_exec_next(); the request must have said so
 * (collect). 1 = wait and call again, 0 = it has ended and the result is there, -1. A timeout is
 * ERR_TIMEOUT "Command timed out after <n>ms". */
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

/* ---- in the background ---- */

int engine_exec_background(struct engine *e, const char *id, const struct exec_request *req,
                           json_t **ret, struct err *err);
int engine_background_status(struct engine *e, const char *exec_id, json_t **ret, struct err *err);
/* {output, cursor}, at most 1 MiB at a time. */
int engine_background_logs(struct engine *e, const char *exec_id, uint64_t cursor, json_t **ret,
                           struct err *err);
/* SIGINT to pid, or with pid 0 to every exec that runs. */
int engine_interrupt(struct engine *e, const char *id, uint32_t pid, struct err *err);
