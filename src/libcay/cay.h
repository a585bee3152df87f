/* libcay: sandboxes of a cay daemon, from C and C++.
 *
 *     #include <cay.h>
 *
 *     struct cay *cay;
 *     struct cay_error err;
 *     if (cay_open(NULL, &cay, &err) < 0)
 *         …
 *
 * Conventions
 *  1. Functions that can fail return 0 (some say otherwise) or -1, and then fill *err, which the
 *     caller holds and may be NULL. What they give through other pointers is written on success
 *     only. Out of memory aborts the process.
 *  2. Structures that the caller fills are all zero at first: zero, or NULL, is the default of
 * every field. Reserved fields stay zero, so that there can be more fields one day.
 *  3. Memory that a function gives belongs to the caller: texts and bytes go back with cay_free(),
 *     structures with the function that is named beside them. A destructor takes NULL.
 *  4. A sandbox is named by its id or its name; a path in it is bytes, absolute or relative to its
 *     workspace.
 *  5. A client may be used by any number of threads at once; each call takes a connection of its
 *     own. A stream or a feed is for one thread at a time, but for what is said at
 * cay_stream_write().
 *  6. The library has no state of the process: it starts no thread, catches no signal, raises no
 *     SIGPIPE (but for a pipe that cay_download() shall write to), prints nothing, and reads the
 *     environment in cay_open() only (TMPDIR in cay_upload() too).
 *  7. JSON is UTF-8 text. docs/api.md of cay has every call with its fields and errors. */
#ifndef CAY_H
#define CAY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that runs: "0.1.0". */
const char *cay_version(void);

/* Frees what a function gave. */
void cay_free(void *memory);

/* ---- errors ---- */

struct cay_error {
    /* A stable word: the daemon's ("sandbox_not_found", see docs/api.md), or one of these:
     * "daemon_unreachable"  nobody listens, or this user may not connect
     * "connection_lost"     the daemon went while it was asked, and asking again is not safe
     * "cancelled"           cay_cancel()
     * "timeout"             the client's own timeout_ms
     * "bad_answer"          what answers is no cay daemon, or one of another kind
     * "too_large"           more than the caller or the library takes
     * "invalid", "failed"   an argument, or a system call, for which see sys */
    char code[64];
    int status;      /* of HTTP; 0 = there was no answer */
    int sys;         /* errno of a system call of this process; 0 = none */
    int retry_after; /* seconds; 0 = the daemon did not say */
    char message[512];
    char method[8]; /* what was asked; "" = nothing yet */
    char path[256];
    char exec_id[40]; /* of the command that it is about; "" = none */
    uint64_t reserved[4];
};

/* ---- clients ---- */

struct cay; /* a client */

struct cay_options {
    /* "unix:/path", "http://host:port" or "host:port". NULL: $CAY_HOST, $CAY_URL or
     * $III_SANDBOX_URL; else $CAY_RUN/cay.sock (/run/cay/cay.sock) if somebody listens there; else
     * port $CAY_REST_PORT (3111) of this machine. */
    const char *address;
    /* NULL: $CAY_TOKEN, $CAY_AUTH_TOKEN, $III_SANDBOX_TOKEN or $III_AUTH_TOKEN; "": none. */
    const char *token;
    /* How long a daemon may be silent while it is asked; 0 = for as long as it takes. Not for
     * commands, streams and feeds, which may be silent for long. */
    int timeout_ms;
    /* How long a daemon that went away, as while it is replaced, is waited for; 0 = 10 seconds,
     * negative = not at all. Only one that has answered this client before is waited for. */
    int retry_ms;
    uint64_t reserved[8];
};

/* Makes a client. options may be NULL. It connects when it is used first, and keeps up to 16
 * connections that are idle. */
int cay_open(const struct cay_options *options, struct cay **ret, struct cay_error *err);

/* Another client of the same daemon, which can be cancelled by itself; NULL when the process has no
 * descriptor left. */
struct cay *cay_dup(const struct cay *client);

/* Ends the client. Nothing of it may be in use any more: calls, streams, feeds. */
void cay_close(struct cay *client);

/* Everything that waits in this client, and everything that is begun in it later, fails with
 * "cancelled"; a command that was being waited for ends. For good: cay_dup() is cheap. From any
 * thread, and from a signal handler. */
void cay_cancel(struct cay *client);

/* Where the daemon is, in the form of cay_options.address; lives as long as the client. */
const char *cay_address(const struct cay *client);

/* ---- any call ---- */

/* One call of the REST API: path as docs/api.md has it ("/sandbox/sandboxes"), with its query;
 * json_in may be NULL; the answer's text is at most 64 MiB and goes to *json_out, unless that is
 * NULL.
 *
 * A call whose connection is lost, or that the daemon was too busy for (429 and 503 with
 * Retry-After, where nothing was done), is sent again where that is safe: GET and HEAD always;
 * POSTs that make something and take an Idempotency-Key, which the library makes up; whatever never
 * left. */
int cay_call(struct cay *client, const char *method, const char *path, const char *json_in,
             char **json_out, struct cay_error *err);

/* Reads a JSON text: the value at an RFC 6901 pointer ("/items/0/id"), a string as its bytes,
 * anything else as JSON; NULL when there is none. cay_free(). */
char *cay_json_get(const char *json, const char *pointer);
/* The number there, rounded towards zero; fallback when there is none that fits. */
int64_t cay_json_int(const char *json, const char *pointer, int64_t fallback);
/* How many elements the array or members the object there has; 0 when there is neither. */
size_t cay_json_count(const char *json, const char *pointer);
/* A text as a JSON string, with its quotes; NULL when it is no UTF-8. cay_free(). */
char *cay_json_quote(const char *text);
/* A text for use in a path or a query: all but letters, digits and -._~ as %XX. cay_free(). */
char *cay_url_encode(const char *text);

/* ---- sandboxes ---- */

struct cay_create {
    /* A reference, a name of the catalog, or "host", which is the default without a template. */
    const char *image;
    const char *name; /* NULL = its id */
    const char *template_name;
    const char *workdir;
    const char *network; /* a preset: "none" (the default), "public", "packages", "allow-all" */
    /* "KEY=value" each, NULL at the end. */
    const char *const *env;
    const char *const *metadata;
    /* 0 = the daemon's default. After timeout_s it is stopped and keeps its files, or, with
     * "onTimeout": "remove" in more, removed. */
    int64_t memory_mb, pids, disk_mb, timeout_s;
    double cpu;
    /* A JSON object: further fields of POST /sandbox/sandboxes, or other values. */
    const char *more;
    uint64_t reserved[8];
};

struct cay_sandbox {
    char id[40];
    char name[256];
    char image[256];
    char status[32]; /* "running", "paused", "stopped", …; there can be more one day */
    int64_t created_ms, expires_ms; /* Unix time; expires 0 = never */
    char *json;                     /* all that the daemon says of it; cay_sandbox_done() */
    uint64_t reserved[4];
};

/* Empties it; it can be filled again. */
void cay_sandbox_done(struct cay_sandbox *sandbox);

/* Makes a sandbox and starts it, pulling its image if need be. ret may be NULL here and below. */
int cay_create(struct cay *client, const struct cay_create *create, struct cay_sandbox *ret,
               struct cay_error *err);
int cay_get(struct cay *client, const char *sandbox, struct cay_sandbox *ret,
            struct cay_error *err);
/* All of them, the newest first, at most 100,000. query: filters of GET /sandbox/sandboxes
 * ("status=running"), or NULL. cay_list_free(). */
int cay_list(struct cay *client, const char *query, struct cay_sandbox **ret, size_t *ret_count,
             struct cay_error *err);
void cay_list_free(struct cay_sandbox *list, size_t count);
/* Ends and removes it. */
int cay_kill(struct cay *client, const char *sandbox, struct cay_error *err);
int cay_pause(struct cay *client, const char *sandbox, struct cay_sandbox *ret,
              struct cay_error *err);
int cay_resume(struct cay *client, const char *sandbox, struct cay_sandbox *ret,
               struct cay_error *err);
/* Ends its processes and keeps its disk; cay_start() brings it up again. */
int cay_stop(struct cay *client, const char *sandbox, struct cay_sandbox *ret,
             struct cay_error *err);
int cay_start(struct cay *client, const char *sandbox, struct cay_sandbox *ret,
              struct cay_error *err);
/* It expires so many seconds from now. */
int cay_renew(struct cay *client, const char *sandbox, int64_t timeout_s, struct cay_sandbox *ret,
              struct cay_error *err);

/* ---- commands ---- */

struct cay_command {
    const char *line;        /* for the sandbox's shell, or */
    const char *const *argv; /* as it is, NULL at the end */
    const char *cwd, *user;
    const char *const *env; /* "KEY=value" each, NULL at the end, added to the sandbox's */
    double timeout_s;       /* then it is ended; 0 = when the daemon says so */
    /* cay_exec(): its stdin, and how much is kept of each of stdout and stderr (0 = 10 MiB). */
    const void *input;
    size_t input_len, output_max;
    /* cay_exec_open(): cay_stream_write() will come; it goes on when the stream is closed. */
    int with_input, detach;
    int tty;             /* on a terminal: output is one stream */
    unsigned rows, cols; /* of it; 0 = 24 and 80 */
    /* A JSON object: further fields of POST …/exec, such as rlimits, or other values. */
    const char *more;
    uint64_t reserved[8];
};

/* How a command ended. */
struct cay_result {
    int exit_code; /* as shells give it: 128 and the number after a signal, 124 after a timeout */
    int signal;    /* that ended it; 0 = none */
    int timed_out; /* timeout_s was over */
    int cancelled; /* somebody ended it by its id */
    int oom;       /* the kernel killed for lack of memory while it ran */
    int truncated; /* some of its output is not here */
    double duration_ms;
    uint64_t reserved[4];
};

struct cay_output {
    struct cay_result result;
    char *out, *errors; /* bytes, with a NUL behind them that is not counted */
    size_t out_len, errors_len;
    char exec_id[40];
    uint64_t reserved[4];
};

/* Runs a command and waits for its end; 0 whatever its exit code is. The output is its bytes as
 * they are. When the daemon goes away meanwhile this comes back to the command, which goes on, and
 * runs it once only; with input that was under way that cannot be: "connection_lost". cay_cancel()
 * ends it. cay_output_done(). */
int cay_exec(struct cay *client, const char *sandbox, const struct cay_command *command,
             struct cay_output *ret, struct cay_error *err);
void cay_output_done(struct cay_output *output);

/* Starts a command and leaves it running in the background; its id goes to ret. */
int cay_background(struct cay *client, const char *sandbox, const struct cay_command *command,
                   char ret[40], struct cay_error *err);

struct cay_stream; /* a command that runs */

enum cay_what {
    CAY_NOTHING, /* timeout_ms was over */
    CAY_STARTED, /* pid */
    CAY_STDOUT,  /* data, len */
    CAY_STDERR,
    CAY_LOST, /* lost bytes of output were put out while nobody listened, and are not kept */
    CAY_ROOM, /* cay_stream_write() takes more again */
    CAY_EXIT  /* result; it is the last */
};

struct cay_event {
    int what; /* of enum cay_what; others may come one day */
    int pid;
    const char *data; /* valid until the next call of cay_stream_next() */
    size_t len;
    uint64_t lost;
    struct cay_result result;
    uint64_t reserved[4];
};

/* Starts a command to be followed as it runs. */
int cay_exec_open(struct cay *client, const char *sandbox, const struct cay_command *command,
                  struct cay_stream **ret, struct cay_error *err);
/* How one that was started before is come to. */
#define CAY_READ   0 /* its output only */
#define CAY_INPUT  1 /* with its input, which is then nobody else's */
#define CAY_SHARED 2 /* with its input, beside others who share it */

/* Comes to one that was started before, also by others, or in the background; cursor: so many bytes
 * of its output are known already. Closing the stream leaves it running. */
int cay_exec_again(struct cay *client, const char *sandbox, const char *exec_id, uint64_t cursor,
                   int how, struct cay_stream **ret, struct cay_error *err);

/* Waits for what happens next, for at most timeout_ms (-1 = as long as it takes): 1 with an event,
 * 0 after CAY_EXIT. When the daemon goes away, this comes back to the command. */
int cay_stream_next(struct cay_stream *stream, int timeout_ms, struct cay_event *ret,
                    struct cay_error *err);

/* Input for the command: how many bytes were taken, which can be less than len and 0 when the
 * command does not read; then take its output, and try again after CAY_ROOM. -1. This function and
 * the three that follow may be called by another thread while one waits in cay_stream_next(). */
int64_t cay_stream_write(struct cay_stream *stream, const void *data, size_t len,
                         struct cay_error *err);
/* There is no more input. */
int cay_stream_end_input(struct cay_stream *stream, struct cay_error *err);
int cay_stream_resize(struct cay_stream *stream, unsigned rows, unsigned cols,
                      struct cay_error *err);
/* A signal for the command and all that it started, by its number. */
int cay_stream_signal(struct cay_stream *stream, int signal, struct cay_error *err);

/* For loops of the caller: cay_stream_next() may have something to say when this can be read. It is
 * another one after each call that failed or waited; -1 = at once. */
int cay_stream_fd(const struct cay_stream *stream);
/* The id of the command; lives as long as the stream. And the cursor of the output so far. */
const char *cay_stream_exec_id(const struct cay_stream *stream);
uint64_t cay_stream_cursor(const struct cay_stream *stream);

/* Ends the command if it still runs, unless it is detached or was come to, and frees the stream. */
void cay_stream_close(struct cay_stream *stream);

/* ---- files ---- */

#define CAY_ANYWHERE 1u /* flags: also paths outside of the workspace */

/* The bytes of a file, at most max (0 = 64 MiB), with a NUL behind them that is not counted.
 * cay_free(). */
int cay_read_file(struct cay *client, const char *sandbox, const char *path, unsigned flags,
                  size_t max, char **ret, size_t *ret_len, struct cay_error *err);
/* Replaces a file, whole or not at all. mode < 0: as it was, or 0644. */
int cay_write_file(struct cay *client, const char *sandbox, const char *path, unsigned flags,
                   const void *data, size_t len, int mode, struct cay_error *err);
/* The same with what fd has from its place on, without keeping it in memory. size < 0: until its
 * end; what is no regular file is then put into a temporary one first. */
int cay_upload(struct cay *client, const char *sandbox, const char *path, unsigned flags, int fd,
               int64_t size, int mode, struct cay_error *err);
/* Writes the bytes of a file to fd. After a failure some of them may be there. */
int cay_download(struct cay *client, const char *sandbox, const char *path, unsigned flags, int fd,
                 struct cay_error *err);

/* ---- environment ---- */

/* Variables of every later command: "KEY=value" each, NULL at the end. */
int cay_env_set(struct cay *client, const char *sandbox, const char *const *env,
                struct cay_error *err);
/* 1 with its value (cay_free()), 0 when it is not set, -1. */
int cay_env_get(struct cay *client, const char *sandbox, const char *key, char **ret,
                struct cay_error *err);
int cay_env_delete(struct cay *client, const char *sandbox, const char *key, struct cay_error *err);

/* ---- snapshots ---- */

/* Keeps the sandbox's disk as it is now; name may be NULL. Its id goes to ret. */
int cay_snapshot(struct cay *client, const char *sandbox, const char *name, char ret[40],
                 struct cay_error *err);
/* Gives the sandbox those files back; its processes end. */
int cay_restore(struct cay *client, const char *sandbox, const char *snapshot,
                struct cay_error *err);

/* ---- ports ---- */

/* A connection to a TCP port of the sandbox: *ret_fd is the caller's. */
int cay_dial(struct cay *client, const char *sandbox, uint16_t port, int *ret_fd,
             struct cay_error *err);

/* ---- feeds: what the daemon sends as events ---- */

struct cay_feed;

/* What happens from now on, and whoever comes back misses nothing: when the daemon goes away the
 * feed goes on where it was. topics: a list with commas, "sandbox.*" or NULL; sandbox: only of this
 * one, or NULL. */
int cay_events(struct cay *client, const char *topics, const char *sandbox, struct cay_feed **ret,
               struct cay_error *err);
/* Any other operation that answers with events: logs, metrics, pulls, changes of files. */
int cay_feed_open(struct cay *client, const char *method, const char *path, const char *json_in,
                  struct cay_feed **ret, struct cay_error *err);
/* Waits for the next event for at most timeout_ms (-1 = as long as it takes): 1 with its JSON, or
 * with NULL when none has come; 0 at the end. The text is valid until the next call. */
int cay_feed_next(struct cay_feed *feed, int timeout_ms, const char **ret, struct cay_error *err);
void cay_feed_close(struct cay_feed *feed);

#ifdef __cplusplus
}
#endif

#endif
