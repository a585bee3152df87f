#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "http/field.h"

struct budget;
struct buf;
struct err;
struct http_req;
struct http_server;

/* An HTTP/1.1 server whose handlers are straight-line blocking code.
 *
 * All workers wait in one epoll set (EPOLLONESHOT). The one that wakes owns the connection until it
 * has answered: it reads the head, calls the handler, writes the answer and gives the connection
 * back. It gives it back earlier when the rest of a head or a body has yet to come. An idle
 * connection is a descriptor and a small struct; a busy one is a thread. Workers are added while
 * all are busy, up to a maximum, and leave again after a while. A request that waits for something
 * that may take long gives its thread back: it is parked (below). Parsing is llhttp's, in its
 * strict mode; what even that is lenient about (bare LF, folded headers, several spaces in the
 * first line, two Host, Authorization or Origin headers) is refused before a handler runs. */

struct http_limits {
    size_t head_max;          /* request line and headers: 414 / 431 past it; 32 KiB */
    unsigned headers_max;     /* 100 */
    int head_timeout_ms;      /* from the first byte until the head is whole; 10 s */
    int body_timeout_ms;      /* without progress of a body or of an answer being written; 30 s */
    int idle_timeout_ms;      /* of a kept-alive connection; 75 s */
    unsigned workers_max;     /* 768 */
    unsigned connections_max; /* 10,000; more are refused with 503 */
    unsigned seats_max;       /* 4,096, or fewer when descriptors are few: see http_seat_take() */
    struct budget *memory;    /* that long bodies are taken from; NULL = no bound */
    int memory_wait_ms;       /* ms that a long body waits for that memory, then 503; 0 = 5000 */
    int linger_ms;            /* ms that input is read and discarded after an answer that closes the
                                 connection; 0 = 2000 */
    int crowded_grace_ms; /* ms that a slow peer has while half of the workers wait for slow peers;
                             0 = 250 */
};

#define HTTP_LIMITS_DEFAULT                                                                        \
    {                                                                                              \
        .head_max = 32 << 10, .headers_max = 100, .head_timeout_ms = 10000,                        \
        .body_timeout_ms = 30000, .idle_timeout_ms = 75000, .workers_max = 768,                    \
        .connections_max = 10000, .seats_max = 4096                                                \
    }

/* Answers the request with http_reply(), a stream or an upgrade. Returning without having answered
 * is a bug and gives a 500. */
typedef void (*http_handler)(struct http_req *req, void *arg);

struct http_server *http_server_new(const struct http_limits *limits, http_handler handler,
                                    void *arg);
/* Adds a listening socket; the server owns it. is_tcp decides what http_req_is_tcp() says. */
int http_server_listen(struct http_server *s, int fd, bool is_tcp, struct err *err);
int http_server_start(struct http_server *s, struct err *err);
/* Stops accepting, lets requests in flight finish for at most drain_ms, then shuts their sockets
 * down and waits for the workers. */
void http_server_stop(struct http_server *s, int drain_ms);
/* The same when another process goes on: listening sockets stay open, and take() gets each
 * connection that waits for a request and owns its descriptor; the other process passes it to
 * http_server_take(). take() must not call the server. */
struct http_heir {
    void (*take)(int fd, bool is_tcp, void *arg);
    void *arg;
};
void http_server_hand_over(struct http_server *s, int drain_ms, const struct http_heir *heir);
/* Serves a connection that another process has accepted; the server owns it. */
void http_server_take(struct http_server *s, int fd, bool is_tcp);
void http_server_free(struct http_server *s);
unsigned http_server_connections(struct http_server *s);

/* ---- the request, valid until the handler returns ---- */

const char *http_req_method(const struct http_req *req);
const char *http_req_path(const struct http_req *req); /* raw, without the query; starts with '/' */
const char *http_req_query(const struct http_req *req); /* raw, "" when there is none */
/* By name in any case; NULL when absent. */
const char *http_req_header(const struct http_req *req, const char *name);
/* Would a client with this Accept header (NULL: it has none) rather have the one media type than
 * the other? By weight (q; 0 is never); of equal weights a type that is named comes before one that
 * only a wildcard covers, and of two named ones the first. False for a type that is not named. */
bool http_prefers(const char *accept, const char *type, const char *over);
bool http_req_is_tcp(const struct http_req *req);
/* -1 unless the peer is on a unix socket. */
uid_t http_req_peer_uid(const struct http_req *req);

/* ---- the body ---- */

/* Is called when the body has come, or with err when it will not: as a handler is, on any worker.
 * The request is as it was, but its strings (path, headers) may have moved. */
typedef void (*http_received)(struct http_req *req, const struct err *err, void *arg);

struct http_receiver {
    /* Of a body that is collected: ERR_TOO_LARGE past it, before any is read when Content-Length
     * says so. A long one takes twice its length (a chunked one: twice max) from the memory budget
     * until the request ends, since what it is parsed into is as long again: ERR_UNAVAILABLE when
     * there is none for some seconds. */
    size_t max;
    /* Not NULL: bytes are passed on as they come, the first 64 KiB, or all of a shorter body, in
     * one piece. It may block for a moment; -1 with err ends the call. */
    int (*piece)(const char *data, size_t len, void *arg, struct err *err);
    http_received then;
};

/* Takes the body without waiting for the client: then() is called before this returns when all of
 * it is here, else later, and the handler must return at once either way. A client that waits to be
 * asked for the body ("Expect: 100-continue") is. What has come of a body that is waited for is
 * taken from the memory budget; a client that sends nothing for body_timeout_ms is given up, and
 * one that sends less than 64 KiB per second too while memory or connections are scarce. */
void http_receive(struct http_req *req, const struct http_receiver *to, void *arg);
/* In then(): what was collected, NUL-terminated, owned by the request. */
const char *http_req_body(const struct http_req *req, size_t *ret_len);

/* ---- the answer ---- */

/* Extra header for the answer, before it is begun. Values with CR or LF are refused by assert. */
void http_reply_header(struct http_req *req, const char *name, const char *value);
/* Of the answer that was begun; 0 = none. */
int http_req_status(const struct http_req *req);
void http_reply(struct http_req *req, int status, const char *type, const void *body, size_t len);

/* A streamed answer: begin, write any number of times, end. type e.g. "text/event-stream"; for that
 * type Cache-Control: no-cache is added. length < 0 = unknown: chunked (HTTP/1.0: until close).
 * write returns -1 once the client has gone; then the handler should wind up and return. Not
 * calling end makes the client see a broken stream. */
int http_stream_begin(struct http_req *req, int status, const char *type, int64_t length);
int http_stream_write(struct http_req *req, const void *data, size_t len);
void http_stream_end(struct http_req *req);

/* For handlers that wait for something else meanwhile: poll this for POLLRDHUP, then ask
 * http_client_gone(). Not for POLLIN: bytes of a next, pipelined request would end every wait. When
 * that is false, the client has only ended its side (shutdown()) and still reads: poll for nothing
 * but POLLHUP then, which is always reported. Asking may take a second, once per request. */
int http_req_fd(const struct http_req *req);
bool http_client_gone(struct http_req *req);

/* Does the request ask for the connection to become that? */
bool http_upgrade_asked(struct http_req *req, const char *protocol);
/* For one that does: answers 101, afterwards http_stream_write() sends bytes as they are and
 * http_upgraded_read() takes them; the server closes the connection when the request ends. -1 when
 * the client has gone. */
int http_upgrade(struct http_req *req, const char *protocol);
/* Bytes that are here already: how many, 0 = none now, -1 = there will be none any more. */
ssize_t http_upgraded_read(struct http_req *req, void *data, size_t len);
/* Nothing more will be written, which the client is told; it may go on sending. All that was
 * written must have been taken. */
void http_upgraded_end(struct http_req *req);

/* ---- waiting without a thread ---- */

/* What a parked request is told when it is woken. */
enum http_news {
    HTTP_READY = 1 << 0, /* the descriptor it waits for is ready */
    HTTP_INPUT = 1 << 1, /* the client of an upgraded connection has sent bytes */
    HTTP_TIME = 1 << 2,  /* the time it waits for has come */
    HTTP_SENT = 1 << 3,  /* the client has taken all that was written */
    HTTP_GONE = 1 << 4,  /* the client has closed the connection, or takes nothing for too long */
    HTTP_DRAIN = 1 << 5, /* told once: the daemon is about to end */
    HTTP_WOKEN = 1 << 6, /* another thread called http_wake() */
};

/* What a parked request waits for, beside its client. */
struct http_wait {
    int fd;           /* -1 = none; it must stay open until another wait, or the end, and a
                         new one must not take its number */
    uint32_t events;  /* EPOLLIN, EPOLLOUT */
    bool input;       /* also for bytes of the client: of an upgraded connection, or of the body of
                         a request that is passed on */
    bool half;        /* the end of the client's input never means that it is gone: of an
                         upgraded connection */
    int patience_ms;  /* how long the client may take nothing; 0 = body_timeout_ms */
    int64_t until_ns; /* mono_ns; 0 = no time */
};

/* Called by some worker, one at a time, when there is news. Writes do not block in it: what the
 * client does not take is kept, so look at http_unsent() before writing more. Fills *wait and
 * returns true to go on waiting; returns false when it has answered or given up (it must after
 * HTTP_GONE), and has freed arg. */
typedef bool (*http_step)(struct http_req *req, unsigned news, struct http_wait *wait, void *arg);

/* Makes sure that this request may be parked: there is a bound on how many are. ERR_UNAVAILABLE
 * past it. To be asked for before the work is begun; given back when the request ends. */
int http_seat_take(struct http_req *req, struct err *err);
/* The handler must return after this; step goes on. From here on the head of the request (path,
 * query, headers, body) is gone. -1 when it cannot be parked: then nothing has changed. */
int http_park(struct http_req *req, const struct http_wait *wait, http_step step, void *arg,
              struct err *err);
/* In a step: the descriptor that was waited for is not watched any more, so that it may be closed
 * or become another's now. */
void http_wait_leave(struct http_req *req);
/* In a step: bytes that were written and that the client has not taken. */
size_t http_unsent(const struct http_req *req);
/* In the last step, to answer at length: from here on writes wait for the client again. */
void http_unpark(struct http_req *req);
/* For another thread, which knows that the request has not ended: between the two it may write to a
 * streamed answer, as a step does. False when a step runs, or the client has not taken what was
 * written before: then nothing is begun. */
bool http_tell_begin(struct http_req *req);
/* False: not all of it was taken. The request must then be woken by what it waits for. */
bool http_tell_end(struct http_req *req);
/* For another thread, which knows that the request has not ended: its step is called soon, with
 * HTTP_WOKEN; of one that is about to be parked when it is. */
void http_wake(struct http_req *req);
/* Tells every parked request that the daemon is about to end. */
void http_server_drain(struct http_server *s);

/* ---- passing a request on to another server, and its answer back ---- */

/* The i-th header, in the order in which they came; NULL past the last. */
const struct http_field *http_req_field(const struct http_req *req, unsigned i);
bool http_req_is_http10(const struct http_req *req);
/* Of its body; -1 = it is chunked. */
int64_t http_req_length(const struct http_req *req);
/* Does it ask for the connection to become something else, whatever that is? */
bool http_req_wants_upgrade(const struct http_req *req);
/* The address that it came from: "127.0.0.1", "::1", or "" when that is no address. */
void http_req_peer(const struct http_req *req, char *ret, size_t size);

/* From here on the handler takes the body and writes the answer, head included, with the functions
 * below, none of which waits. It may park the request at any time; its body is still to be taken
 * then. */
void http_pass(struct http_req *req);
/* Bytes of the body that are here: how many, 0 = none now, or it has ended; -1 when it is malformed
 * or the client left. A client that waits to be asked for it is. len: 64 at least. */
ssize_t http_pass_take(struct http_req *req, void *data, size_t len);
bool http_pass_body_ended(const struct http_req *req);
/* "Name: value\r\n" … that came behind a chunked body. */
const struct buf *http_pass_trailers(const struct http_req *req);
/* Writes bytes as they are; what the client does not take now is kept, see http_unsent(). Changes
 * the array. -1 when the client has gone. */
int http_pass_write(struct http_req *req, struct iovec *v, size_t count);
/* Before the head of the answer is written. Can the connection be kept after it? Else the head must
 * say so. */
bool http_pass_begin(struct http_req *req, int status);
/* The answer is whole: the next request may come, if keep. One that does not end with this is
 * broken off, so that it does not look whole. */
void http_pass_end(struct http_req *req, bool keep);
/* A 101 was written: from here on it is as after http_upgrade(). */
void http_pass_upgraded(struct http_req *req);
