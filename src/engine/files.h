#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct engine;
struct err;

/* Paths are judged by the path rule: relative to the workspace and inside it, unless anywhere is
 * set; "Path traversal detected: …" (ERR_INVALID, path_traversal) otherwise. */

struct file_path {
    const char *path; /* any bytes */
    bool anywhere;
    bool base64; /* how paths are told in lists: else as text, and those that are none also so */
};

int engine_file_write(struct engine *e, const char *id, struct file_path path, const void *data,
                      size_t len, struct err *err);

/* A file that is read or written piece by piece. */
struct file_stream;

/* A part of a file, in bytes. */
struct file_range {
    uint64_t offset; /* at most INT64_MAX; past the end there is nothing */
    uint64_t most;   /* 0 = to the end */
};

/* size is what the whole file has now; it may grow, and a kernel file says 0. */
int engine_file_open_read(struct engine *e, const char *id, struct file_path path,
                          struct file_range range, struct file_stream **ret, uint64_t *ret_size,
                          struct err *err);
/* The next bytes, which stay until the next call: how many, 0 at the end. */
ssize_t engine_file_next(struct file_stream *f, const char **ret, struct err *err);

#define FILE_MODE_KEEP UINT32_MAX /* as it is, or 0644 when the file is new */
/* The file is replaced by engine_file_write_end(); closing before that leaves the old one. */
int engine_file_open_write(struct engine *e, const char *id, struct file_path path, uint32_t mode,
                           struct file_stream **ret, struct err *err);
int engine_file_write_some(struct file_stream *f, const void *data, size_t len, struct err *err);
int engine_file_write_end(struct file_stream *f, struct err *err);

void engine_file_close(struct file_stream *f);

static inline void cleanup_file_streamp(struct file_stream **f)
{
    engine_file_close(*f);
}
#define auto_file_stream __attribute__((cleanup(cleanup_file_streamp)))

int engine_file_delete(struct engine *e, const char *id, struct file_path path, struct err *err);

/* Lists may be long, so they are given item by item, as they come: FileInfo objects, sorted, or
 * paths. each takes the item; -1 ends the list. A folder that is not there is empty. */
typedef int (*engine_item)(json_t *item, void *arg, struct err *err);
int engine_file_list(struct engine *e, const char *id, struct file_path path, engine_item each,
                     void *arg, struct err *err);
int engine_file_search(struct engine *e, const char *id, struct file_path dir, const char *pattern,
                       engine_item each, void *arg, struct err *err);

/* Array of FileMeta, one for each path; any missing path fails all. */
int engine_file_info(struct engine *e, const char *id, const json_t *paths, bool anywhere,
                     bool base64, json_t **ret, struct err *err);
int engine_file_move(struct engine *e, const char *id, struct file_path from, struct file_path to,
                     struct err *err);
/* A file, or a directory with all that is in it. What is there already is ERR_CONFLICT unless it is
 * to be replaced; parents are made. One that fails may leave some of it. */
int engine_file_copy(struct engine *e, const char *id, struct file_path from, struct file_path to,
                     bool replace, struct err *err);
/* A symbolic link that says target, whatever that is. As for a copy. */
int engine_file_symlink(struct engine *e, const char *id, const char *target, struct file_path path,
                        bool replace, struct err *err);
int engine_file_mkdir(struct engine *e, const char *id, struct file_path path, struct err *err);
int engine_file_rmdir(struct engine *e, const char *id, struct file_path path, struct err *err);
int engine_file_chmod(struct engine *e, const char *id, struct file_path path, const char *mode,
                      struct err *err);
