#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/files.h"

struct engine;
struct err;

/* Changes to files of a sandbox, told as they happen. Only opening waits for the sandbox. */
struct file_watch;

enum file_change {
    FILE_CREATED = 1 << 0,
    FILE_WRITTEN = 1 << 1,
    FILE_REMOVED = 1 << 2,
    FILE_RENAMED = 1 << 3,
    FILE_CHMODED = 1 << 4,
};

struct file_watch_request {
    struct file_path path; /* a directory, or a file */
    bool recursive;
    unsigned changes;    /* enum file_change */
    char *const *ignore; /* globs of names that are left out, with all below; NULL = none */
};

/* Of one that runs. ERR_UNSUPPORTED "agent_too_old" when it was made by an older cay; ERR_LIMIT
 * "watch_limit", also later. */
int engine_file_watch(struct engine *e, const char *id, const struct file_watch_request *req,
                      struct file_watch **ret, struct err *err);
void file_watch_close(struct file_watch *w);
/* Readable when there may be more. */
int file_watch_fd(const struct file_watch *w);

enum file_watch_state { FILE_WATCH_ENDED, FILE_WATCH_CHANGE, FILE_WATCH_WAITS };
/* A FileChange, the first of which is "ready"; that there is none now; that the path is gone, which
 * was told; or -1. */
int file_watch_next(struct file_watch *w, json_t **ret, struct err *err);
