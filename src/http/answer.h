#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "http/field.h"

/* Reading the answers of servers that are not trusted: those in sandboxes. No descriptor is touched
 * here. As with requests only what has exactly one reading is taken: lines end in CRLF, nothing is
 * folded, a length is one number, a coding is "chunked" and nothing beside it. */

#define HTTP_ANSWER_HEAD_MAX   (64u << 10)
#define HTTP_ANSWER_FIELDS_MAX 128

struct http_answer {
    int status;
    const char *reason; /* "" = none */
    bool http10;
    bool keep_alive; /* by its version and its Connection header */
    bool chunked;
    int64_t length; /* that it states; -1 = none */
    unsigned count;
    struct http_field fields[HTTP_ANSWER_FIELDS_MAX];
};

/* Length of the head that starts at data, 0 while it is incomplete, -1 when it cannot become a
 * valid one. Bytes before from have been looked at by an earlier call. */
ssize_t http_answer_end(const char *data, size_t len, size_t from);
/* Parses one whole head in place: its strings point into data afterwards. NULL, or why it is
 * refused. */
const char *http_answer_parse(struct http_answer *a, char *data, size_t len);
/* By name in any case; NULL when absent. */
const char *http_answer_find(const struct http_answer *a, const char *name);
/* Is word in the comma-separated list? In any case. */
bool http_list_has(const char *list, const char *word);

/* ---- its body ---- */

struct chunked;

struct http_body {
    enum { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED, HTTP_BODY_UNTIL_CLOSE } kind;
    int64_t left; /* of HTTP_BODY_LENGTH */
    bool done;
    struct chunked *chunked;
    struct buf trailers; /* "Name: value\r\n" … of a chunked one that is done */
};

/* What follows the head a; is_head: it answers a HEAD request. */
void http_body_init(struct http_body *b, const struct http_answer *a, bool is_head);
void http_body_done(struct http_body *b);
/* Decodes data in place: *ret_len bytes of the body are at its start afterwards, and *ret_used of
 * the len bytes are used up, which is less only when the body is done. -1 when the framing is not
 * exactly as the standard writes it. Extensions of chunks are left out. */
int http_body_decode(struct http_body *b, char *data, size_t len, size_t *ret_used,
                     size_t *ret_len);
