#pragma once

#include <jansson.h>

#include "base/buf.h"

struct api;
struct err;

/* Reads server-sent events whose data is one line of JSON each. */
struct sse_reader {
    struct api *api;
    struct buf in;
    size_t used; /* so much of it is the event that was given last */
};

/* GETs path (below /sandbox, query included). */
int sse_open(struct sse_reader *s, struct api *api, const char *path, struct err *err);
/* The body of an answer whose head has been read and is good. */
void sse_attach(struct sse_reader *s, struct api *api);
/* 1 with the next event (owned by the caller), 0 at the end of the stream, -1. */
int sse_next(struct sse_reader *s, json_t **ret, struct err *err);
/* The same, but *ret is NULL when none has come for timeout_ms, or a signal has. */
int sse_poll(struct sse_reader *s, int timeout_ms, json_t **ret, struct err *err);
/* As sse_poll(), with the event's text, which is valid until the next call; NULL = none has come.
 */
int sse_text(struct sse_reader *s, int timeout_ms, const char **ret, size_t *ret_len,
             struct err *err);
void sse_close(struct sse_reader *s);
