#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "image/image.h"
#include "model/sandbox.h"
#include "runtime/runtime.h"

struct engine;
struct err;
struct sandbox;
struct store;

/* What cay can do, once, for every face of it. Any thread may call anything here; calls on one
 * sandbox that change its state take turns. Everything that needs a running sandbox fails with
 * ERR_CONFLICT otherwise ("Sandbox is not running: paused"), with ERR_NOT_FOUND for an unknown id
 * ("Sandbox not found: …", code sandbox_not_found). */

enum pull_policy { PULL_MISSING, PULL_ALWAYS, PULL_NEVER, PULL_POLICIES };
extern const char *const pull_policy_words[PULL_POLICIES + 1]; /* ended by NULL */

/* "missing", "always", "never": 0 or -1. */
int pull_policy_parse(const char *text, enum pull_policy *ret);

struct engine_config {
    const char *default_image;            /* python:3.12-slim */
    uint32_t default_timeout_s;           /* 3600 */
    struct sandbox_limits default_limits; /* 512 MB, 1 core, 256 pids, 4096 MB */
    uint32_t max_sandboxes;               /* 50 */
    const char *allowed_images;           /* "*"; these four as policy.h says */
    const char *custom_images, *image_caps;
    bool image_strict;
    bool auto_install;            /* a create may pull */
    enum pull_policy pull_policy; /* of creates that name none */
    uint64_t image_budget;        /* bytes that images may take after a pull; 0 = any */
    const char *workspace;        /* /workspace */
    uint32_t max_command_s;       /* 300 */
    uint32_t sweep_s;             /* 30: how often expired sandboxes are looked for */
    uint32_t prepared;            /* 4: how many prepared ids are kept ready */
    bool keep_strays;             /* the database was lost: boxes that it does not know stay */
};

int engine_new(const struct engine_config *config, struct store *store, struct image_store *images,
               struct runtime *runtime, struct engine **ret, struct err *err);
/* Adopts what runs, removes what is half-made, starts the background threads. */
int engine_start(struct engine *e, struct err *err);
/* Ends the background threads and removes prepared ids; with stop_sandboxes also every sandbox. */
void engine_stop(struct engine *e, bool stop_sandboxes);
void engine_free(struct engine *e);
const struct engine_config *engine_config(const struct engine *e);

/* The daemon is about to end: pulls end now, and who waits for one is told to come again. */
void engine_drain(struct engine *e);

/* Who waits for something that takes time. progress is called from the calling thread with what
 * image/image.h lists, and with NULL now and then while nothing happens; -1 ends the wait, as does
 * cancelled(arg) once cancel_fd (-1 = none) has POLLRDHUP. Each of them may be NULL. */
struct engine_watch {
    image_progress progress;
    bool (*cancelled)(void *arg);
    void *arg;
    int cancel_fd;
};

/* ---- sandboxes ---- */

/* in is the flat, type-checked input of sandbox::create (image, name, timeout, memory, cpu, disk,
 * network, env, workdir, metadata, entrypoint, runEntrypoint, pull, platform, registry_auth);
 * numbers are clamped to the contract's ranges. Pulls the image when that is asked for or needed;
 * watch (NULL = nobody) is told. Returns the Sandbox object of the contract. */
int engine_create(struct engine *e, const json_t *in, const struct engine_watch *watch,
                  json_t **ret, struct err *err);
int engine_get(struct engine *e, const char *id, json_t **ret, struct err *err);
/* {items, total, page, pageSize}, newest last. status and metadata (object) filter; NULL = any. */
int engine_list(struct engine *e, const char *status, const json_t *metadata, uint32_t page,
                uint32_t page_size, json_t **ret, struct err *err);
int engine_remove(struct engine *e, const char *id, struct err *err);
int engine_pause(struct engine *e, const char *id, json_t **ret, struct err *err);
int engine_resume(struct engine *e, const char *id, json_t **ret, struct err *err);
int engine_renew(struct engine *e, const char *id, int64_t expires_ms, json_t **ret,
                 struct err *err);
/* Removes expired ones now; *ret is how many. */
int engine_sweep(struct engine *e, unsigned *ret, struct err *err);

/* ---- images. Names may be short ones (engine/policy.h): the store does not know those ---- */

int engine_image_get(struct engine *e, const char *name, struct image **ret, struct err *err);
int engine_image_list(struct engine *e, struct image ***ret, unsigned *ret_n, struct err *err);
/* What to ask for to get exactly this image; free it. */
char *engine_image_name(const struct engine *e, const struct image *image);
/* Is any sandbox made from the image of that id? Removed ones do not count. */
bool engine_image_in_use(struct engine *e, const char *image_id);
/* [{name, reference, kind: "preset" or "custom"}] */
json_t *engine_image_catalog(const struct engine *e);

/* One pull of a reference at a time: whoever wants the same waits for the one that runs and is told
 * how it goes; when the last of them leaves it ends. With credentials of its own a pull is never
 * shared. policy PULL_MISSING takes what is there, PULL_NEVER takes nothing else. */
int engine_image_pull(struct engine *e, const struct image_pull *pull, enum pull_policy policy,
                      const struct engine_watch *watch, struct image **ret, struct err *err);
int engine_image_import(struct engine *e, const char *path, const char *name,
                        const struct engine_watch *watch, struct image **ret, struct err *err);
int engine_image_tag(struct engine *e, const char *name, const char *new_name, struct image **ret,
                     struct err *err);
/* These two also delete what nothing needs any more, now or when the last box of it is gone. */
int engine_image_remove(struct engine *e, const char *name, struct err *err);
/* prune->used_ids is filled in here. */
int engine_image_prune(struct engine *e, const struct image_prune *prune,
                       struct image ***ret_removed, unsigned *ret_n, int64_t *ret_bytes,
                       struct err *err);

/* The archive of an image, written by a thread of its own into the pipe that fd reads. Closing
 * before the end ends that; -1 when it did not come to its end. */
struct image_export {
    int fd;
    struct image_exporter *exporter;
};
int engine_export_open(struct engine *e, const char *name, struct image_export *ret,
                       struct err *err);
int engine_export_close(struct image_export *x, struct err *err);

/* The sandbox as it is becomes an image; one that runs stands still meanwhile. changes: name, and
 * optionally env (object, added to the image's), workdir, user, entrypoint, cmd, labels. */
int engine_commit(struct engine *e, const char *id, const json_t *changes, struct image **ret,
                  struct err *err);

/* ---- exec ---- */

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
struct buf;
int engine_main_log(struct engine *e, const char *id, uint64_t *cursor, struct buf *out,
                    bool *ret_running, struct err *err);

/* ---- files. Paths are judged by the path rule: relative to the workspace and inside it, unless
 * anywhere is set; "Path traversal detected: …" (ERR_INVALID, path_traversal) otherwise ---- */

struct file_path {
    const char *path;
    bool anywhere;
};

#define FILE_READ_MAX (16u << 20) /* for engine_file_read, or less if out has a smaller maximum */

/* ERR_TOO_LARGE past that: the text says to use download with Accept: application/octet-stream. */
int engine_file_read(struct engine *e, const char *id, struct file_path path, struct buf *out,
                     struct err *err);
int engine_file_write(struct engine *e, const char *id, struct file_path path, const void *data,
                      size_t len, struct err *err);
/* Streams. read: a descriptor that carries FRAME_DATA…FRAME_END; size is the file's.
 * write: send FRAME_DATA, then engine_file_write_end(); closing before that leaves the old file. */
int engine_file_open_read(struct engine *e, const char *id, struct file_path path, int *ret_fd,
                          uint64_t *ret_size, struct err *err);
ssize_t engine_file_next(int fd, struct buf *payload, struct err *err); /* 0 = end */
int engine_file_open_write(struct engine *e, const char *id, struct file_path path, uint32_t mode,
                           int *ret_fd, struct err *err);
int engine_file_write_some(int fd, const void *data, size_t len, struct err *err);
int engine_file_write_end(int fd, struct err *err);

int engine_file_delete(struct engine *e, const char *id, struct file_path path, struct err *err);
int engine_file_list(struct engine *e, const char *id, struct file_path path, json_t **ret,
                     struct err *err);
int engine_file_search(struct engine *e, const char *id, struct file_path dir, const char *pattern,
                       json_t **ret, struct err *err);
/* Array of FileMeta, one for each path; any missing path fails all. */
int engine_file_info(struct engine *e, const char *id, const json_t *paths, bool anywhere,
                     json_t **ret, struct err *err);
int engine_file_move(struct engine *e, const char *id, struct file_path from, struct file_path to,
                     struct err *err);
int engine_file_mkdir(struct engine *e, const char *id, struct file_path path, struct err *err);
int engine_file_rmdir(struct engine *e, const char *id, struct file_path path, struct err *err);
int engine_file_chmod(struct engine *e, const char *id, struct file_path path, const char *mode,
                      struct err *err);

/* ---- env, processes, metrics ---- */

int engine_env_get(struct engine *e, const char *id, const char *key, json_t **ret,
                   struct err *err);
int engine_env_set(struct engine *e, const char *id, const json_t *vars, json_t **ret,
                   struct err *err);
int engine_env_list(struct engine *e, const char *id, json_t **ret, struct err *err);
int engine_env_delete(struct engine *e, const char *id, const char *key, json_t **ret,
                      struct err *err);

int engine_processes(struct engine *e, const char *id, json_t **ret, struct err *err);
int engine_processes_top(struct engine *e, const char *id, json_t **ret, struct err *err);
/* signal is one of TERM KILL INT HUP USR1 USR2 STOP CONT. */
int engine_process_kill(struct engine *e, const char *id, uint32_t pid, const char *signal,
                        struct err *err);

int engine_sandbox_metrics(struct engine *e, const char *id, json_t **ret, struct err *err);
int engine_metrics(struct engine *e, json_t **ret, struct err *err);
