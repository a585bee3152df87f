#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct http_req;

/* Server-sent events as clients of this API read them: each event is one line "data: <JSON>", ASCII
 * only, since some clients decode chunk by chunk or split lines at Unicode separators. */

/* ---- text, pure ---- */

void sse_format(struct buf *out, const json_t *value);

/* What of a byte stream can be shown as text: a character that is cut by the end of data is kept
 * for the next call, unless this is the last. */
struct sse_text {
    char rest[4];
    size_t len;
};

void sse_text_add(struct sse_text *t, const char *data, size_t len, bool last, struct buf *out);

/* {type, data, timestamp} */
json_t *sse_output(const char *type, const char *data, size_t len);

/* ---- a stream ---- */

struct sse {
    struct http_req *req;
    struct buf line;
    int64_t sent_ns; /* when something was last sent: a silent stream gets ": ping" now and then */
};

/* Answers the head. -1 once the client has gone, as the others. */
int sse_begin(struct sse *s, struct http_req *req);
int sse_send(struct sse *s, json_t *value); /* takes value */
int sse_ping(struct sse *s);                /* if nothing was sent for long */
void sse_end(struct sse *s);                /* the stream is whole */
void sse_done(struct sse *s);

/* Waits until fd (or -1) is readable: 1; until timeout_ms (-1 = none) has passed: 0; or until the
 * client has gone: -1. Pings meanwhile. */
int sse_wait(struct sse *s, int fd, int timeout_ms);
