#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/mem.h"
#include "http/http_internal.h"

/* One turn of a connection: from epoll's event until it is armed again or closed. A head that is
 * not whole yet is put aside, and the worker goes on with others: slow clients cost their bytes and
 * an entry in epoll, not a thread. */

#define KEPT_FREE       4096 /* bytes that the memory budget is not asked for */
#define REQUESTS_A_TURN 8    /* that a client sent in one go */

/* Milliseconds that the rest of a refused request is read and discarded: closing the connection
 * before could reset it, and the client would not read the answer. */
#define LINGER_MS 2000

static const struct refusal line_too_long = {414, "uri_too_long", "the request line is too long"};
static const struct refusal head_too_long = {431, "headers_too_large",
                                             "the headers of the request are too long"};
static const struct refusal bad_start = {400, "bad_request",
                                         "this is not an HTTP/1.1 request; lines must end in CRLF"};
static const struct refusal too_slow = {
    408, "timeout", "the head of the request did not arrive in time; send it again"};
static const struct refusal no_memory = {503, "busy",
                                         "too many requests come slowly; send it again"};
static const struct refusal no_answer = {
    500, "internal", "the server had no answer to this request; please report it"};

static int64_t in_ms(int ms)
{
    return mono_ns() + (int64_t)ms * 1000000;
}

static void linger(struct worker *w, struct conn *c)
{
    int ms = w->server->limits.linger_ms;

    if (!c->lingering) {
        c->lingering = true;
        c->head_deadline = in_ms(ms ? ms : LINGER_MS);
        if (shutdown(c->watched.fd, SHUT_WR) < 0) {
            server_close_conn(w->server, c);
            return;
        }
    }
    for (int i = 0; i < 16; i++) {
        ssize_t n = recv(c->watched.fd, w->data, w->cap, MSG_DONTWAIT);

        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            server_close_conn(w->server, c);
            return;
        }
        if (n < 0)
            break;
    }
    (void)server_arm(w->server, c, c->head_deadline);
}

static void refuse(struct worker *w, struct conn *c, const struct refusal *why)
{
    reply_refusal_raw(c->watched.fd, why);
    linger(w, c);
}

void conn_keep(struct http_server *s, struct conn *c, const char *data, size_t len)
{
    if (len > KEPT_FREE) {
        c->kept_memory = len;
        budget_add(s->limits.memory, len);
    }
    c->kept = xmalloc(len);
    memcpy(c->kept, data, len);
    c->kept_len = len;
}

void conn_forget_kept(struct http_server *s, struct conn *c)
{
    budget_give(s->limits.memory, c->kept_memory);
    free(c->kept);
    c->kept = NULL;
    c->kept_len = c->kept_memory = 0;
}

static void put_aside(struct worker *w, struct conn *c)
{
    if (w->len == 0) {
        (void)server_arm(w->server, c, in_ms(w->server->limits.idle_timeout_ms));
        return;
    }
    if (!c->head_deadline)
        c->head_deadline = in_ms(w->server->limits.head_timeout_ms);
    /* Many long heads that do not end must not take what others need. */
    if (w->len > KEPT_FREE && budget_is_tight(w->server->limits.memory)) {
        refuse(w, c, &no_memory);
        return;
    }
    conn_keep(w->server, c, w->data, w->len);
    (void)server_arm(w->server, c, c->head_deadline);
}

/* The rest of what the client sent in one go waits until others had their turn. */
static void yield(struct worker *w, struct conn *c)
{
    conn_keep(w->server, c, w->data, w->len);
    c->has_turn = true;
    (void)server_arm(w->server, c, in_ms(w->server->limits.idle_timeout_ms));
}

/* What becomes of a request after its handler: WAITING is nobody's any more. */
enum outcome { WAITING, CLOSED, STAYS };

/* After the answer: does the connection stay for a next request? */
static enum outcome settle(struct worker *w, struct conn *c, struct http_req *req)
{
    if (req->reply == REPLY_DONE && !req->peer_gone) {
        int ended = req->keep_alive ? request_drain(req) : -1;

        if (ended == 0) {
            receive_rest(w, req);
            return WAITING;
        }
        if (ended > 0)
            return STAYS;
        if (req->body_done && w->off == w->len && !c->kept)
            server_close_conn(w->server, c);
        else
            linger(w, c);
        return CLOSED;
    }
    if (req->reply == REPLY_UPGRADED && !req->peer_gone) {
        linger(w, c); /* its client may still be sending */
        return CLOSED;
    }
    if (req->reply == REPLY_UNTIL_CLOSE) {
        /* Its end is the only end mark: a stream that was not ended must not look whole. */
        struct linger reset = {.l_onoff = 1, .l_linger = 0};

        (void)setsockopt(c->watched.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    }
    server_close_conn(w->server, c);
    return CLOSED;
}

static enum outcome handler_ended(struct worker *w, struct conn *c, struct http_req *req)
{
    if (req->parked) {
        park_begin(w, req);
        return WAITING;
    }
    if (req->waits) {
        receive_begin(w, req);
        return WAITING;
    }
    if (req->reply == REPLY_NONE && !req->peer_gone)
        reply_refusal(req, &no_answer);
    if (req->unsent.len > 0) { /* of one that was to be passed on and got an answer of ours */
        req->passed = false;
        reply_send_rest(req);
    }
    return settle(w, c, req);
}

static bool serve_one(struct worker *w, struct conn *c, size_t head_len)
{
    struct http_server *s = w->server;
    const struct refusal *why;
    struct http_req *req;
    enum outcome outcome;

    c->head_deadline = 0;
    if (!w->req)
        w->req = xcalloc(1, sizeof(*w->req));
    req = w->req;
    req->head.headers = w->headers;
    req->head.max = s->limits.headers_max;
    why = head_parse(&req->head, w->data, head_len);
    if (why) {
        refuse(w, c, why);
        return false;
    }
    w->off = w->head_len = head_len;
    request_begin(req, w, c);
    server_want_worker(s);
    s->handler(req, s->arg);
    outcome = handler_ended(w, c, req);
    if (outcome != WAITING)
        request_done(req);
    return outcome == STAYS;
}

/* Appends what the socket has. False when it has ended; then the connection is closed. */
static bool take_input(struct worker *w, struct conn *c)
{
    ssize_t n = recv(c->watched.fd, w->data + w->len, w->cap - w->len, MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        server_close_conn(w->server, c);
        return false;
    }
    if (n > 0)
        w->len += (size_t)n;
    return true;
}

static void serve(struct worker *w, struct conn *c, size_t scanned)
{
    size_t head_max = w->server->limits.head_max;

    for (int served = 0;; served++) {
        ssize_t end = head_end(w->data, w->len, scanned);

        if (end == 0 && w->len < head_max) {
            put_aside(w, c);
            return;
        }
        if (end < 0) {
            refuse(w, c, &bad_start);
            return;
        }
        if (end == 0 || (size_t)end > head_max) {
            refuse(w, c, memchr(w->data, '\n', head_max) ? &head_too_long : &line_too_long);
            return;
        }
        if (!serve_one(w, c, (size_t)end))
            return;
        /* What came behind the request is the start of the next one. */
        w->len -= w->off;
        memmove(w->data, w->data + w->off, w->len);
        scanned = 0;
        if (w->len > 0 && served >= REQUESTS_A_TURN) {
            yield(w, c);
            return;
        }
    }
}

/* A turn that begins with what was put aside, of which so much has been looked at. */
static void go_on(struct worker *w, struct conn *c, size_t scanned)
{
    bool whole = c->has_turn;

    c->has_turn = false;
    w->len = c->kept_len;
    if (c->kept) {
        memcpy(w->data, c->kept, c->kept_len);
        conn_forget_kept(w->server, c);
    }
    /* A client that has sent its requests may have closed its side: they are served first. */
    if (whole || take_input(w, c))
        serve(w, c, whole ? 0 : scanned);
}

void conn_request_ended(struct worker *w, struct http_req *req)
{
    struct conn *c = req->conn;
    enum outcome outcome = handler_ended(w, c, req);

    if (outcome == WAITING)
        return;
    request_done(req);
    free(req);
    if (outcome == CLOSED)
        return;
    c->has_turn = c->kept; /* the client may have sent them and closed its side */
    go_on(w, c, 0);
}

void conn_wake(struct worker *w, struct conn *c)
{
    int64_t was = atomic_load(&c->deadline);
    bool overdue;

    do
        if (was == GIVEN)
            return;
    while (!atomic_compare_exchange_weak(&c->deadline, &was, 0));
    /* At a stop the mark only ends the waiting: a request that is here already is served. */
    overdue = was == OVERDUE && !atomic_load(&w->server->stopping);
    if (c->receiving) {
        receive_wake(w, c, overdue);
        return;
    }
    if (overdue) {
        if (c->kept && !c->lingering)
            reply_refusal_raw(c->watched.fd, &too_slow);
        server_close_conn(w->server, c);
        return;
    }
    if (c->lingering)
        linger(w, c);
    else
        go_on(w, c, c->kept_len);
}
