#pragma once

#include <llhttp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "base/buf.h"
#include "base/ended.h"
#include "http/answer.h"
#include "http/server.h"

/* What the files of http/ share. Who owns what:
 *
 * 1. A connection belongs to the worker that epoll gave it to, until that worker arms it again or
 *    closes it. Only the owner reads, writes, closes or frees it.
 * 2. conn.deadline is 0 while it is owned. The clock tick may only swap a due deadline for OVERDUE
 *    and shut the reading side down, which wakes an owner; it never closes.
 * 3. Closing happens only while owned, when EPOLLONESHOT has disabled the entry: a descriptor that
 * a forking child still holds for a moment can then not deliver an event for a freed struct.
 * 4. server.lock guards the list of connections, the listeners and the number of workers.
 *    One that is GIVEN belongs to nobody any more, and a worker that is woken for it leaves it
 * alone.
 * 5. A parked request has an epoll set of its own with all that it waits for. That set is the only
 *    entry by which the server's epoll knows it, so again one worker wakes and owns it; the
 *    connection's own entry stays disabled meanwhile.
 * 6. A request whose body has not come whole belongs to its connection (conn.receiving), and is
 *    owned with it. */

#define BODY_ROOM (16u << 10) /* of a worker's buffer, past the longest head */

/* The rate that a slow client must keep up while what it takes is scarce (64 KiB per second), and
 * the time that it has beside that while its body holds memory for which others wait. */
#define SLOW_NS_PER_BYTE 15625
#define HOLDER_GRACE_NS  (5 * 1000000000ll)

#define TRAILERS_MAX (8u << 10)

/* ---- head.c: the request line and headers ---- */

struct head {
    struct http_field *headers;
    unsigned count, max;
    llhttp_method_t method;
    const char *target; /* raw; path and query once parsed */
    size_t target_len;
    const char *path, *query;
    int64_t length; /* of the body; 0 when chunked */
    bool chunked, keep_alive, http10, expects_continue, upgrade;
    bool whole, overflow; /* the parser saw its end; it has more headers than max */
    const char *reason;   /* of an answer */
    size_t reason_len;
};

struct refusal {
    int status;
    const char *code, *text;
};

/* Length of the head that starts at data, 0 while it is incomplete, -1 when it cannot become a
 * valid one. Bytes before from have been looked at by an earlier call. */
ssize_t head_end(const char *data, size_t len, size_t from);

/* Checks and parses one whole head in place: its strings point into data afterwards. headers and
 * max must be set. NULL, or why it is refused. */
const struct refusal *head_parse(struct head *h, char *data, size_t len);
const char *head_find(const struct head *h, const char *name);

/* ---- chunked.c ---- */

struct chunked {
    llhttp_t parser;
    const char *span; /* body bytes of the last step, inside its input */
    size_t span_len;
    char last; /* the last byte of the step before */
    bool done;
    struct buf *trailers; /* where they are kept; NULL = they are refused, as are extensions */
};

void chunked_init(struct chunked *k);
/* One step over data: sets span, *ret_used <= len, done. -1 when the framing is not exactly as the
 * standard writes it; chunk extensions and trailers are refused too, unless there is a place for
 * them. */
int chunked_step(struct chunked *k, const char *data, size_t len, size_t *ret_used);
/* Steps over all of data, or to the end of the body: the bytes of it come to out, which may be data
 * itself. How many, or -1. */
ssize_t chunked_decode(struct chunked *k, const char *data, size_t len, char *out,
                       size_t *ret_used);

/* ---- connections and workers ---- */

enum watched_kind { WATCHED_CONN, WATCHED_TURNS, WATCHED_LISTENER, WATCHED_TICK, WATCHED_STOP };

/* What epoll's data points to. */
struct watched {
    enum watched_kind kind;
    int fd;
};

struct listener {
    struct watched watched;
    bool is_tcp, paused; /* paused: out of descriptors, the next tick arms it again */
    struct listener *next;
};

#define OVERDUE (-1)
#define GIVEN   (-2)

/* What a connection that nobody owns waits for. */
enum conn_wait { WAITS_REQUEST, WAITS_REST, WAITS_BODY, WAITS_END };

struct conn {
    struct watched watched;
    bool is_tcp;
    bool prepared;  /* see park.c */
    uid_t peer_uid; /* of a unix socket */
    bool lingering; /* answered and shut for writing: input is thrown away until it ends */
    _Atomic int64_t deadline;     /* mono ns; rule 2 */
    _Atomic enum conn_wait waits; /* set before the deadline is */
    int64_t head_deadline;        /* of a head that has begun, or 0 */
    char *kept;                   /* bytes that wait for more, or for its turn */
    size_t kept_len;
    size_t kept_memory;         /* of the memory budget, for them */
    bool has_turn;              /* they may be whole requests: served when it is its turn again */
    struct http_req *receiving; /* whose body has not come whole, see body.c */
    _Atomic int64_t pace_ns;    /* of that body: when it falls behind SLOW_NS_PER_BYTE, */
    _Atomic bool holds;         /* and does it hold memory? Both are set before the deadline is */
    struct conn *prev, *next;
};

struct parked;

struct http_server {
    struct http_limits limits;
    http_handler handler;
    void *arg;
    int epoll_fd;
    struct watched tick, stop;
    struct watched turns; /* an epoll of the parked, see park.c */

    _Atomic unsigned seats;   /* requests that are parked or may be */
    _Atomic unsigned waiting; /* workers in epoll_wait, or about to be */
    _Atomic unsigned stalled; /* workers that wait for a peer's bytes or buffer */
    _Atomic bool stopping;
    _Atomic bool draining; /* parked requests are to be told that the daemon is about to end */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* fewer connections or workers */
    struct conn *conns;
    struct conn *given; /* to a successor: freed at the end, when no worker can see them */
    struct parked *parked;
    struct parked *spares; /* see park.c */
    unsigned n_spares, spares_used;
    struct listener *listeners;
    unsigned conn_count, workers;
    struct ended ended; /* of the workers */
    unsigned ticks;     /* while there are connections, for what is done at some of them only */
    int64_t room_ns;    /* when idle connections were last closed to make room */
    bool ticking, started;
};

enum reply_state {
    REPLY_NONE,
    REPLY_CHUNKED,
    REPLY_LENGTH,
    REPLY_UNTIL_CLOSE,
    REPLY_DONE,
    REPLY_UPGRADED,
};

/* The handler's wish for the body, and what has become of it. */
struct receiving {
    size_t max;
    int (*piece)(const char *data, size_t len, void *arg, struct err *err);
    http_received then; /* NULL: the body is only skipped, the answer has gone */
    void *arg;
    int64_t began_ns, seen_ns; /* seen: when a worker last looked for bytes */
    bool passes;               /* the first piece was passed on */
};

struct http_req {
    struct worker *worker;
    struct conn *conn;
    struct head head;
    struct chunked chunked;
    struct buf extra; /* header lines of the answer */
    struct buf body;
    int64_t body_left;
    bool body_done, body_failed, body_malformed, expects_continue;
    struct receiving receiving;
    bool waits;     /* the handler has returned, or will, and the body is to be waited for */
    void *own_head; /* what head points into, once the worker's buffer is another's */
    size_t own_bytes, held; /* of it; of the memory budget, while it waits */
    enum reply_state reply;
    int status;         /* of the answer */
    int64_t reply_left; /* REPLY_LENGTH */
    bool keep_alive, peer_gone;
    bool half;   /* the client has ended its side and takes the answer all the same */
    bool events; /* the answer is a stream of events */
    bool seated;
    bool passed;               /* to another server: pass.c */
    struct buf trailers;       /* of such a one */
    int64_t stalled_ns, moved; /* time spent waiting for the peer; bytes moved */
    size_t reserved;           /* of the memory budget, for the body */

    /* of one that is parked */
    struct parked *parked;
    pthread_mutex_t still_lock; /* of still: nobody owns it, so that a stranger may write to it */
    bool still;
    _Atomic bool woken; /* by a stranger, and not yet told */
    struct buf unsent;
    int64_t sent_ns; /* when the client last took something, or had nothing to take */
};

/* A thread and what it reuses from request to request. The buffer holds [0, len); [off, len) has
 * not been consumed. */
struct worker {
    struct http_server *server;
    char *data;
    size_t cap, len, off, head_len;
    struct http_field *headers;
    struct http_req *req; /* NULL after it was parked: the next gets another */
    time_t date_second;
    char date[40];
};

/* conn.c */
void conn_wake(struct worker *w, struct conn *c);
/* Keeps bytes for the connection's next turn, and forgets them. */
void conn_keep(struct http_server *s, struct conn *c, const char *data, size_t len);
void conn_forget_kept(struct http_server *s, struct conn *c);
/* A handler or the last step of a request that was detached from its worker has returned: waits
 * for what that asked for, or ends the request, and with it the connection, or the next turn comes.
 */
void conn_request_ended(struct worker *w, struct http_req *req);

/* body.c */
/* Throws away what is here of the body: 1 when it has ended, 0 when more is to come, -1 when the
 * connection cannot be used again. */
int request_drain(struct http_req *req);
/* After the handler: detaches the request from the worker until bytes of its body come. */
void receive_begin(struct worker *w, struct http_req *req);
/* The same after the answer, to throw away what still comes: the connection is kept. */
void receive_rest(struct worker *w, struct http_req *req);
/* The connection that receives a body has bytes, has ended, or is overdue. */
void receive_wake(struct worker *w, struct conn *c, bool overdue);

/* park.c */
/* Gives up sets that nobody has used since the last call, or all. */
void park_trim(struct http_server *s, bool all);
/* One of the parked that have news is taken on. */
void park_turn(struct worker *w);
/* After the handler: leaves the request to its steps. */
void park_begin(struct worker *w, struct http_req *req);

/* server.c */
void server_close_conn(struct http_server *s, struct conn *c);
/* Waits for the client's bytes. When that cannot be, the connection is closed; of one that receives
 * a body it is not, and -1 is returned. */
int server_arm(struct http_server *s, struct conn *c, int64_t deadline);
void server_want_worker(struct http_server *s);
/* epoll_ctl() as ThreadSanitizer should see it: not at all, see there. What a worker hands on by it
 * and the next one takes over from epoll_wait() is told with these two. */
int server_watch(int epoll_fd, int op, int fd, uint32_t events, uint64_t data);
void server_hand_on(void *what);
void server_take_over(void *what);

/* request.c */
/* Tells a client that waits for it to send the body: 0 or -1. */
int request_continue(struct http_req *req);
int request_body_fail(struct http_req *req);
void request_begin(struct http_req *req, struct worker *w, struct conn *c);
void request_done(struct http_req *req);
/* Its strings point into the buffer of a worker that goes on with others. */
void request_forget_head(struct http_req *req);
/* The client has ended its side of the connection: did it close all of it? The client's kernel says
 * so only when something is sent to it, so this sends what an HTTP/1.1 client skips: an interim
 * answer, or a comment in a stream of events. False: req->half is set, and a client that did close
 * it is known by POLLHUP soon. */
bool request_client_closed(struct http_req *req);
/* Would keeping the connection mean reading more of a body than is worth it? */
bool request_body_is_in_the_way(const struct http_req *req);
/* Waits for POLLIN or POLLOUT: 0, or -1 when the peer is too slow. */
int request_wait(struct http_req *req, short events);

/* reply.c */
/* All of it; in a step, and of a request that is passed on, as far as the client takes it now: the
 * rest is kept. -1 when the client has gone. */
int reply_send(struct http_req *req, struct iovec *v, size_t count);
/* Sends what is unsent, as far as the client takes it now; -1 when it has gone. */
int reply_send_unsent(struct http_req *req);
/* Sends all of it, waiting for the client. */
void reply_send_rest(struct http_req *req);
void reply_refusal(struct http_req *req, const struct refusal *why);
/* The same for a connection that has no request. Does not wait. */
void reply_refusal_raw(int fd, const struct refusal *why);

/* status.c: the words after the number; "" for one that cay does not answer with. */
const char *status_text(int status);

/* client_dial.c: a blocking socket to "name:port", "name" or "[v6]:port", or -errno: -ETIMEDOUT
 * when an address has not answered for so long, -ECANCELED when stop_fd (-1 = none) can be read.
 * Looking a name up takes as long as it takes. */
int client_dial(const char *host, int timeout_ms, int stop_fd);
