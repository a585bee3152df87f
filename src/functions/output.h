#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct call;
struct err;

/* Output of commands as events {type, data, timestamp}. */

/* What of a byte stream can be shown as text: a character that is cut by the end of data is kept
 * for the next call, unless this is the last. */
struct output_text {
    char rest[4];
    size_t len;
};

void output_text_add(struct output_text *t, const char *data, size_t len, bool last,
                     struct buf *out);

json_t *output_event(const char *type, const char *data, size_t len);
/* One that came about then; 0 = now. */
json_t *output_event_of(const char *type, const char *data, size_t len, int64_t time_ms);
/* Sends what can be shown; nothing when that is nothing. */
int output_send(struct call *call, const char *type, struct output_text *text, const char *data,
                size_t len, bool last, struct err *err);
