#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;
struct engine;
struct err;

/* Paths are judged by the path rule: relative to the workspace and inside it, unless anywhere is
 * set; "Path traversal detected: …" (ERR_INVALID, path_traversal) otherwise. */

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
