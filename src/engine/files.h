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

#define FILE_MODE_KEEP UINT32_MAX /* as it is, or 0644 when the file is new */

int engine_file_write(struct engine *e, const char *id, struct file_path path, const void *data,
                      size_t len, struct err *err);

/* The same with a mode (FILE_MODE_KEEP), and with parents or, if there are none, "file_not_found".
 */
int engine_file_put(struct engine *e, const char *id, struct file_path path, uint32_t mode,
                    bool parents, const void *data, size_t len, struct err *err);

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
/* Of one that is read: how it was when it was opened, links followed. */
struct file_look {
    uint64_t size;
    uint32_t mode; /* st_mode, all of it */
    int64_t mtime_ms;
};
void engine_file_look(const struct file_stream *f, struct file_look *ret);
/* The next bytes, which stay until the next call: how many, 0 at the end. */
ssize_t engine_file_next(struct file_stream *f, const char **ret, struct err *err);

/* The file is replaced by engine_file_write_end(); closing before that leaves the old one. Without
 * parents what it is to be in must be there, which may only be told at the end. */
int engine_file_open_write(struct engine *e, const char *id, struct file_path path, uint32_t mode,
                           bool parents, struct file_stream **ret, struct err *err);
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

/* Files whose text is looked at. Globs are relative to path: `*` and `?` do not stand for a slash,
 * `**` does; one without a slash is about the file's name. At most FILE_GLOBS_MAX of each. */
#define FILE_GLOBS_MAX 64
struct file_text {
    struct file_path path; /* a file or a directory; path NULL = files are given instead */
    char **files;          /* absolute; only to be replaced in. NULL = none */
    bool recursive;        /* path may be a directory, else "bad_fs_request" */
    const char *pattern;   /* a regular expression as in Rust; "bad_regex" */
    bool ignore_case;
    char **include, **exclude; /* NULL = all, none */
};

struct file_grep {
    struct file_text text;
    uint32_t matches_max, line_max; /* line_max: bytes, at most FILE_LINE_MAX */
    size_t bytes_max;               /* of all matches together, as JSON */
};
#define FILE_LINE_MAX (64u << 10)

/* Lines with a match, {path, line, content}, as they are found; binary files and lines that are not
 * UTF-8 have none. each also gets NULL now and then, when nothing was found for a while. A path
 * that is not there is ERR_NOT_FOUND. */
int engine_file_grep(struct engine *e, const char *id, const struct file_grep *req,
                     engine_item each, void *arg, bool *ret_truncated, struct err *err);

struct file_sed {
    struct file_text text;
    const char *replacement; /* with $1, $name and ${name} for groups, $$ for a $ */
    bool literal;            /* pattern and replacement are texts that stand for themselves */
    bool first_only;         /* of each line */
};

/* Replaces in files, line by line; each file appears whole or stays as it was. {path, replacements,
 * success, error} of each file, as it is done, and NULL as above. */
int engine_file_sed(struct engine *e, const char *id, const struct file_sed *req, engine_item each,
                    void *arg, struct err *err);

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

/* The same for callers who want to be told of what is in the way: ERR_CONFLICT "file_exists" and
 * "directory_not_empty", ERR_NOT_FOUND "file_not_found". A sandbox of an older cay: ERR_UNSUPPORTED
 * "agent_too_old". */

/* *ret_made: it was not there, which without parents it may not be. */
int engine_file_make_dir(struct engine *e, const char *id, struct file_path path, uint32_t mode,
                         bool parents, bool *ret_made, struct err *err);
/* A link is removed itself; a directory that is not empty only with all that is in it. */
int engine_file_remove(struct engine *e, const char *id, struct file_path path, bool recursive,
                       struct err *err);

#define FILE_OWNER_KEEP UINT32_MAX
struct file_marks {
    uint32_t mode, uid, gid;
    bool recursive; /* also all below, but no link */
};
/* *ret_changed: how many files. One that fails may have changed some. */
int engine_file_mark(struct engine *e, const char *id, struct file_path path,
                     const struct file_marks *marks, uint32_t *ret_changed, struct err *err);
/* To that very name; without replace nothing that has it goes. */
int engine_file_rename(struct engine *e, const char *id, struct file_path from, struct file_path to,
                       bool replace, struct err *err);
