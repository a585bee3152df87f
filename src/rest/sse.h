#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct http_req;

/* Server-sent events as clients of this API read them: each event is one line "data: <JSON>", ASCII
 * only, since some clients decode chunk by chunk or split lines at Unicode separators. A silent
 * stream gets ": ping" now and then. Where events have ids no empty line is behind it: some clients
 * take that for an event without data, since an id stays in force. */

void sse_format(struct buf *out, const json_t *value);

struct sse {
    struct http_req *req;
    bool begun;
    bool ids;        /* of the events that were sent */
    int64_t sent_ns; /* when something was last sent */
};

/* Each returns -1 once the client has gone. The first to send also sends the head. */
int sse_begin(struct sse *s);
int sse_send(struct sse *s, json_t *value);                     /* takes value */
int sse_send_text(struct sse *s, const char *text, size_t len); /* rendered already */
int sse_ping(struct sse *s);                                    /* if nothing was sent for long */
void sse_end(struct sse *s);                                    /* the stream is whole */
/* When the next ping is due (mono_ns). */
int64_t sse_ping_ns(const struct sse *s);
