#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct http_req;
struct text;

/* An answer that is encoded while it is sent: a short one leaves whole, with its length; of a long
 * one only a piece is in memory. Until the first piece has left, a failure can still be told as
 * one; afterwards it shows as an answer that breaks off. Writing may wait for the client. */

struct answer {
    struct http_req *req;
    const char *type;      /* application/json unless set */
    int status;            /* 200 unless set */
    int64_t length;        /* -1 = not known */
    struct buf out;        /* not yet sent */
    bool begun, gone;      /* the first piece has left; the client has */
    bool inside;           /* a string or a list is open */
    unsigned char rest[4]; /* bytes that wait for more: of a character, or of a group of base64 */
    size_t rest_len;
};

/* type NULL = JSON. */
void answer_init(struct answer *a, struct http_req *req, const char *type);
void answer_done(struct answer *a);

/* Each returns -1 once the client is gone. */
int answer_raw(struct answer *a, const void *data, size_t len);
/* The pieces of one JSON string: of a text (what is not UTF-8 becomes U+FFFD), or of base64. */
int answer_text(struct answer *a, const void *data, size_t len);
int answer_base64(struct answer *a, const void *data, size_t len);
/* The items of one JSON array. */
int answer_item(struct answer *a, const json_t *item);
/* A value, with the texts (ended by one without a name; NULL = none) as further members. */
int answer_json(struct answer *a, const json_t *value, const struct text *texts);

/* The ends of these; an answer that had no pieces is empty. */
int answer_end_text(struct answer *a);
int answer_end_base64(struct answer *a);
int answer_end_list(struct answer *a);
/* All is said: the rest leaves. */
void answer_end(struct answer *a);
