#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <linux/sockios.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "http/http_internal.h"

/* A body that nobody wanted is read up to here to keep the connection. */
#define DRAIN_MAX (64 << 10)

/* When half of all workers wait for slow peers, each peer gets crowded_grace_ms and then must keep
 * up a rate: the other half stays free for everyone else. */
#define CROWDED_GRACE_MS 250

/* How long the kernel of a client that has ended its side may take to confirm what it was sent. */
#define HALF_WAIT_MS 1000

void request_begin(struct http_req *req, struct worker *w, struct conn *c)
{
    /* All but head, which is parsed already. */
    req->worker = w;
    req->conn = c;
    buf_init(&req->extra, 16 << 10);
    buf_init(&req->body, 0);
    req->body_left = req->head.length;
    req->body_done = req->head.length == 0 && !req->head.chunked;
    req->body_failed = req->body_malformed = false;
    req->waits = false;
    req->own_head = NULL;
    req->own_bytes = req->held = 0;
    req->expects_continue = req->head.expects_continue;
    req->reply = REPLY_NONE;
    req->status = 0;
    req->reply_left = 0;
    req->keep_alive = req->head.keep_alive;
    req->peer_gone = req->half = req->events = false;
    req->stalled_ns = req->moved = 0;
    req->seated = req->passed = false;
    buf_init(&req->trailers, TRAILERS_MAX);
    req->reserved = 0;
    req->parked = NULL;
    (void)pthread_mutex_init(&req->still_lock, NULL);
    req->still = false;
    atomic_store(&req->woken, false);
    buf_init(&req->unsent, 0);
    if (req->head.chunked)
        chunked_init(&req->chunked);
}

static void body_release(struct http_req *req)
{
    buf_done(&req->body);
    budget_give(req->worker->server->limits.memory, req->reserved);
    req->reserved = 0;
}

void request_done(struct http_req *req)
{
    (void)pthread_mutex_destroy(&req->still_lock);
    buf_done(&req->extra);
    buf_done(&req->unsent);
    buf_done(&req->trailers);
    body_release(req);
    free(req->own_head);
    if (req->seated)
        atomic_fetch_sub(&req->worker->server->seats, 1);
}

void request_forget_head(struct http_req *req)
{
    req->head.headers = NULL;
    req->head.count = 0;
    req->head.path = req->head.query = req->head.target = "";
    free(req->own_head);
    req->own_head = NULL;
    body_release(req);
}

const char *http_req_method(const struct http_req *req)
{
    return llhttp_method_name(req->head.method);
}

const char *http_req_path(const struct http_req *req)
{
    return req->head.path;
}

const char *http_req_query(const struct http_req *req)
{
    return req->head.query;
}

const char *http_req_header(const struct http_req *req, const char *name)
{
    return head_find(&req->head, name);
}

bool http_req_is_tcp(const struct http_req *req)
{
    return req->conn->is_tcp;
}

uid_t http_req_peer_uid(const struct http_req *req)
{
    return req->conn->peer_uid;
}

int http_req_fd(const struct http_req *req)
{
    return req->conn->watched.fd;
}

/* ---- has the client gone? ----
 *
 * A client that has sent its request may end its side of the connection (shutdown()) and read the
 * answer. On a unix socket that differs from close(). On TCP both are the same FIN; only when
 * something is sent, the kernel of a client that closed answers with a reset. */

bool request_client_closed(struct http_req *req)
{
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";

    if (!req->body_done || req->reply == REPLY_UPGRADED)
        return true; /* the rest of its bytes cannot come any more */
    req->half = true;
    if (!req->conn->is_tcp || req->unsent.len > 0)
        return false;
    if (req->reply == REPLY_NONE && !req->head.http10)
        return send(req->conn->watched.fd, interim, sizeof(interim) - 1,
                    MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof(interim) - 1;
    if (req->reply == REPLY_CHUNKED && req->events)
        return http_stream_write(req, ": ping\n\n", 8) < 0;
    return true; /* there is nothing that could be sent */
}

/* Waits until the client's kernel has confirmed or refused what was sent; a second at most, and who
 * has said nothing by then is gone. */
static bool is_reset(int fd)
{
    for (int ms = 0; ms < HALF_WAIT_MS; ms++) {
        struct pollfd p = {.fd = fd};
        int unconfirmed = 0;

        if (poll(&p, 1, ms == 0 ? 0 : 1) > 0)
            return true;
        if (ioctl(fd, SIOCOUTQ, &unconfirmed) < 0 || unconfirmed == 0)
            return false;
    }
    return true;
}

/* By poll and not by peeking: bytes of a next request would hide that the stream has ended. */
bool http_client_gone(struct http_req *req)
{
    int fd = req->conn->watched.fd;
    struct pollfd p = {.fd = fd, .events = req->half ? 0 : POLLRDHUP};

    if (req->peer_gone || poll(&p, 1, 0) <= 0)
        return req->peer_gone;
    if ((p.revents & (POLLHUP | POLLERR)) || request_client_closed(req) ||
        (req->conn->is_tcp && is_reset(fd)))
        req->peer_gone = true;
    return req->peer_gone;
}

ssize_t http_upgraded_read(struct http_req *req, void *data, size_t len)
{
    struct conn *c = req->conn;
    ssize_t n;

    if (c->kept) {
        n = (ssize_t)(c->kept_len < len ? c->kept_len : len);
        memcpy(data, c->kept, (size_t)n);
        c->kept_len -= (size_t)n;
        memmove(c->kept, c->kept + n, c->kept_len);
        if (c->kept_len == 0)
            conn_forget_kept(req->worker->server, c);
        return n;
    }
    n = recv(c->watched.fd, data, len, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return n > 0 ? n : -1;
}

void http_upgraded_end(struct http_req *req)
{
    assert(req->reply == REPLY_UPGRADED && req->unsent.len == 0);
    (void)shutdown(req->conn->watched.fd, SHUT_WR);
}

/* A limit of 0 is the default. */
static int64_t limit_ns(int ms, int default_ms)
{
    return (ms ? ms : default_ms) * 1000000ll;
}

static int patience_ms(struct http_req *req, unsigned stalled)
{
    const struct http_limits *limits = &req->worker->server->limits;
    bool crowded = stalled > limits->workers_max / 2;
    int64_t left;

    if (!crowded && (req->reserved == 0 || !budget_is_tight(limits->memory)))
        return limits->body_timeout_ms;
    left = crowded ? limit_ns(limits->crowded_grace_ms, CROWDED_GRACE_MS) : HOLDER_GRACE_NS;
    left += req->moved * SLOW_NS_PER_BYTE - req->stalled_ns;
    if (left <= 0)
        return 0;
    left = left / 1000000 + 1;
    return left < limits->body_timeout_ms ? (int)left : limits->body_timeout_ms;
}

int request_wait(struct http_req *req, short events)
{
    struct http_server *s = req->worker->server;
    struct pollfd p = {.fd = req->conn->watched.fd, .events = events};
    unsigned stalled = atomic_fetch_add(&s->stalled, 1) + 1;
    int64_t start = mono_ns();
    int n;

    do
        n = poll(&p, 1, patience_ms(req, stalled));
    while (n < 0 && errno == EINTR);
    atomic_fetch_sub(&s->stalled, 1);
    req->stalled_ns += mono_ns() - start;
    return n > 0 ? 0 : -1;
}

int request_body_fail(struct http_req *req)
{
    req->body_failed = true;
    req->keep_alive = false;
    return -1;
}

int request_continue(struct http_req *req)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";

    req->expects_continue = false;
    /* It is the first thing on an empty socket: it fits or the peer is odd. */
    return send(req->conn->watched.fd, text, sizeof(text) - 1, MSG_DONTWAIT | MSG_NOSIGNAL) ==
                   (ssize_t)sizeof(text) - 1
               ? 0
               : -1;
}

bool request_body_is_in_the_way(const struct http_req *req)
{
    return req->body_failed ||
           (!req->body_done && (req->passed || req->expects_continue || req->head.chunked ||
                                req->body_left > DRAIN_MAX));
}
