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
    bool attached; /* somebody is there and can end it: no maximum, and timeout_ms 0 = none */
    uint32_t rows, cols;
};

/* One running command: frames of proto/frame.h on fd, which the caller polls and reads with
 * engine_exec_next() and writes (STDIN, RESIZE, SIGNAL) with frame_send(). Closing cancels. */
struct exec_stream {
    int fd;
    uint32_t pid;
    struct sandbox *sandbox; /* held until close */
    struct engine *engine;
    struct buf *payload; /* of the last frame */
    int64_t opened_ns;
    int64_t deadline_ns; /* an agent that is silent past its own timeout is given up; 0 = none */
};

struct exec_output {
    enum { EXEC_STDOUT, EXEC_STDERR, EXEC_EXIT } what;
    const char *data; /* valid until the next call */
    size_t len;
    /* of EXEC_EXIT */
    int exit_code; /* as shells say it: 128 + signal, 124 after a timeout */
    const char
        *reason; /* "exit", "signal", "timeout", "cancelled", "oom"; "lost": its end was not seen */
    double duration_ms; /* > 0 */
    uint64_t lost_stdout, lost_stderr;
};

int engine_exec_open(struct engine *e, const char *id, const struct exec_request *req,
                     struct exec_stream *ret, struct err *err);
int engine_exec_next(struct exec_stream *x, struct exec_output *ret, struct err *err);
void engine_exec_close(struct exec_stream *x);

/* Runs to the end and collects: {exitCode, stdout, stderr, duration, reason, truncated}. A timeout
 * is ERR_TIMEOUT "Command timed out after <n>ms". cancel_fd (-1 = none): POLLIN/POLLRDHUP there
 * together with cancelled(arg) ends it early. */
int engine_exec_run(struct engine *e, const char *id, const struct exec_request *req, int cancel_fd,
                    bool (*cancelled)(void *arg), void *arg, json_t **ret, struct err *err);

#define EXEC_OUTPUT_MAX (10u << 20) /* of each stream, for engine_exec_run; more is counted */

int engine_exec_background(struct engine *e, const char *id, const struct exec_request *req,
                           json_t **ret, struct err *err);
int engine_background_status(struct engine *e, const char *exec_id, json_t **ret, struct err *err);
/* {output, cursor}, at most 1 MiB at a time. */
int engine_background_logs(struct engine *e, const char *exec_id, uint64_t cursor, json_t **ret,
                           struct err *err);
/* SIGINT to pid, or with pid 0 to every exec that runs. */
int engine_interrupt(struct engine *e, const char *id, uint32_t pid, struct err *err);

/* Output of the main process (the entrypoint), from a byte offset: raw bytes into out, new offset
 * in *cursor; *ret_running says whether more may come. Without an entrypoint: nothing, not running.
 */
int engine_main_log(struct engine *e, const char *id, uint64_t *cursor, struct buf *out,
                    bool *ret_running, struct err *err);
