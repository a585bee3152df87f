#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct api;
struct err;
struct http_response;

/* Files of sandboxes and volumes, as bytes. */

/* Paths in a sandbox are bytes, and JSON has text only: those that are no UTF-8 go to the API as
 * base64, with pathEncoding. */
/* {path, anywhere} for a call of files/. */
json_t *path_body(const char *path, bool anywhere);
/* "path=…", for a query; the caller frees it. */
char *path_query(const char *path);
/* A path that is no UTF-8, as JSON has it. */
json_t *path_encoded(const char *path);

/* Is told of n more bytes that were moved, of total (-1 = not known); at first of none. */
typedef void (*moved_fn)(void *arg, int64_t n, int64_t total);

struct moving {
    const char *name; /* of the file, for people */
    int fd;           /* of this machine */
    moved_fn moved;   /* NULL = nobody wants to know */
    void *arg;
};

/* Writes the body of an answer to the descriptor. */
int api_save(struct api *api, const struct http_response *response, const struct moving *m,
             struct err *err);

/* Asks for a file below a place of the API ("sandboxes/ID", "volumes/ID") and reads the head of the
 * answer; takes body, which has its path. */
int api_download_begin(struct api *api, const char *place, json_t *body, struct http_response *ret,
                       struct err *err);
/* The whole of it. */
int api_download(struct api *api, const char *place, json_t *body, const struct moving *m,
                 struct err *err);

/* Where a file is sent to; query has its path, a negative mode keeps it. The caller frees it. */
char *upload_path(const char *place, const char *query, int mode);
/* Exactly size bytes of the descriptor: a file that shrinks meanwhile breaks the request off, so
 * that the old file in the sandbox stays; one that grows is cut. */
int api_upload(struct api *api, const char *path, int64_t size, const struct moving *m,
               struct err *err);
/* The same from memory. */
int api_upload_bytes(struct api *api, const char *path, const void *data, size_t size,
                     struct err *err);
/* What fd has until its end, in a temporary file: its descriptor, at its beginning, or -1. */
int spool_input(int fd, int64_t *ret_size, struct err *err);
