#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct api;
struct err;
struct http_response;

/* One file in or out of a sandbox, as bytes. */

/* "ID:path" or a path here. The part before ':' must be able to be an id or name: "./a:b" and
 * "dir/a:b" are paths, and so is "-". */
struct location {
    char *sandbox; /* NULL = here */
    char *path;
};
void location_parse(struct location *p, const char *text);
void location_done(struct location *p);

/* What a path in a sandbox is. */
struct remote_info {
    char type;   /* first letter of ls -l: '-' file, 'd' directory, 'l' link, … */
    mode_t mode; /* permission bits */
    int64_t size, mtime_ms;
};
/* 1 if it is there, 0 if not, -1. */
int remote_stat(struct api *api, const char *id, const char *path, bool anywhere,
                struct remote_info *ret, struct err *err);
/* "drwxr-xr-x" → type and bits. */
void remote_mode(const char *permissions, struct remote_info *ret);

/* Writes the body of an answer to fd; name is for errors. */
int save_answer(struct api *api, const struct http_response *response, const char *name, int fd,
                struct err *err);

/* A file below a place of the API ("sandboxes/ID", "volumes/ID"), into fd; takes body, which has
 * its path. */
int place_download(struct api *api, const char *place, json_t *body, int fd, struct err *err);
/* Exactly size bytes of fd; query has the path, name is for people; a negative mode keeps it. */
int place_upload(struct api *api, const char *place, const char *query, const char *name, int fd,
                 int64_t size, int mode, struct err *err);

/* Writes the bytes of a file in the sandbox to fd. */
int remote_download(struct api *api, const char *id, const char *path, bool anywhere, int fd,
                    struct err *err);
/* Replaces a file in the sandbox with size bytes from fd. mode < 0 = as it was, or 0644. */
int remote_upload(struct api *api, const char *id, const char *path, bool anywhere, int fd,
                  int64_t size, int mode, struct err *err);
/* The same with input of unknown length: it is put into a temporary file first. */
int remote_upload_stream(struct api *api, const char *id, const char *path, bool anywhere, int fd,
                         struct err *err);
int remote_mkdir(struct api *api, const char *id, const char *path, bool anywhere, struct err *err);

/* Sets when a file in the sandbox was modified. There is no call for it, so it needs `touch` there,
 * and without it the time stays as it is. */
void remote_touch(struct api *api, const char *id, const char *path, int64_t mtime);

/* The path with the sandbox's workspace before it, unless it is absolute; the caller frees it. */
int remote_absolute(struct api *api, const char *path, char **ret, struct err *err);
