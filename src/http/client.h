#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct http_client;

/* A blocking HTTP/1.1 client with one kept-alive connection, for libcay and the benchmarks. Not
 * thread-safe. */

/* target: "http://host:port" or "unix:/path". Connects on first use. */
struct http_client *http_client_new(const char *target, const char *token);
void http_client_free(struct http_client *c);

/* Sent as Cay-Client with every request: "NAME/VERSION", a string literal; NULL = not sent, as at
 * first. */
void http_client_name(struct http_client *c, const char *name);

/* The Accept header of the requests that follow (a string literal, not copied); NULL = none is
 * sent, as at first. */
void http_client_accept(struct http_client *c, const char *type);

/* The Idempotency-Key of the next request, which is copied. */
void http_client_key(struct http_client *c, const char *key);

/* A header of the next request beside the usual ones; both are copied. */
void http_client_header(struct http_client *c, const char *name, const char *value);

/* The header of answers whose value is kept, a string literal; and that of the last answer, "" when
 * it had none. */
void http_client_want(struct http_client *c, const char *name);
const char *http_client_wanted(const struct http_client *c);

/* Whatever waits from here on ends with "cancelled" once stop_fd can be read (-1 = there is none),
 * and with "timeout" when the server has taken and said nothing for silence_ms (0 = no bound). */
void http_client_bound(struct http_client *c, int stop_fd, int silence_ms);

/* Hangs up, unless the last request was sent whole and its answer read to its end: for who has done
 * with the connection for now. */
void http_client_leave(struct http_client *c);

struct http_response {
    int status;
    char type[64];    /* media type, lower case, without parameters */
    int64_t length;   /* of the body; -1 = unknown */
    unsigned retry_s; /* Retry-After, in seconds; 0 = there was none */
};

/* Sends a request whose body is in memory (NULL = none) and reads the head of the answer. A kept
 * connection that the server had closed meanwhile is opened again once. ERR_UNAVAILABLE when nobody
 * listens, with err->sys; "connection_lost" when it ended before the answer did. */
int http_client_send(struct http_client *c, const char *method, const char *path, const char *type,
                     const void *body, size_t len, struct http_response *ret, struct err *err);

/* The same with a body of known length that is written piecewise: begin, write*, then finish. */
int http_client_begin(struct http_client *c, const char *method, const char *path, const char *type,
                      int64_t length, struct err *err);
int http_client_write(struct http_client *c, const void *data, size_t len, struct err *err);
int http_client_finish(struct http_client *c, struct http_response *ret, struct err *err);

/* Will reading (the head or the body of the answer) have something to say at once? Waits for that
 * for at most timeout_ms, or until a signal comes. */
bool http_client_wait(struct http_client *c, int timeout_ms);

/* The body of the answer: bytes, 0 at its end, -1. Read it to the end before the next request, or
 * that one opens a new connection. */
ssize_t http_client_read(struct http_client *c, void *data, size_t len, struct err *err);
/* All of it, NUL-terminated, at most max bytes. */
int http_client_body(struct http_client *c, size_t max, char **ret, size_t *ret_len,
                     struct err *err);

/* POSTs with "Upgrade: protocol". On 101: *ret_fd is the stream from its first byte on, owned by
 * the caller (closing it is the end). On another status *ret_fd is -1 and the body can be read as
 * usual.
 */
int http_client_upgrade(struct http_client *c, const char *path, const char *protocol,
                        const char *body, size_t len, struct http_response *ret, int *ret_fd,
                        struct err *err);
