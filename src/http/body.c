#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "http/http_internal.h"

/* The body of a request. No function here waits for the client.
 *
 * A handler asks for the body with http_receive() and returns. What is missing then is waited for
 * in the server's epoll set, like the rest of a head: the connection keeps the request
 * (conn.receiving) with a copy of its head and the bytes so far, and each time that bytes come a
 * worker adds them. A client that stalls costs those bytes and an entry in epoll, not a thread. */

#define BODY_FREE      (64u << 10)  /* of a body that is collected: the rest needs a reservation */
#define PIECE_FIRST    (64u << 10)  /* bytes that come before the first piece is passed on */
#define PIECE_MAX      (128u << 10) /* bytes of a piece */
#define STEP_MAX       (1u << 20)   /* bytes that one worker takes before others have their turn */
#define HELD_FREE      4096         /* bytes of a waiting request that need no memory budget */
#define MEMORY_WAIT_MS 5000

/* A limit of 0 is the default. */
static int64_t limit_ns(int ms, int default_ms)
{
    return (ms ? ms : default_ms) * 1000000ll;
}

/* ---- bytes that are here ---- */

/* What was read beyond it: behind the head in the worker's buffer, or, of a request that waits or
 * has waited, put aside. */
static const char *peek(const struct http_req *req, size_t *ret)
{
    const struct worker *w = req->worker;

    *ret = w->len > w->off ? w->len - w->off : req->conn->kept_len;
    return w->len > w->off ? w->data + w->off : req->conn->kept;
}

static void consume(struct http_req *req, size_t n)
{
    struct worker *w = req->worker;
    struct conn *c = req->conn;

    if (w->len > w->off) {
        w->off += n;
        return;
    }
    c->kept_len -= n;
    memmove(c->kept, c->kept + n, c->kept_len);
    if (c->kept_len == 0)
        conn_forget_kept(w->server, c);
}

/* Bytes of the next request came with the end of this one's body. */
static void put_back(struct http_req *req, const char *data, size_t n)
{
    struct worker *w = req->worker;

    if (req->parked || req->own_head) {
        conn_keep(w->server, req->conn, data, n);
        return;
    }
    /* It is empty, but for the head: the request's strings point into it. */
    w->off = w->len = w->head_len;
    if (n > w->cap - w->len) {
        (void)request_body_fail(req);
        return;
    }
    memcpy(w->data + w->len, data, n);
    w->len += n;
}

/* From the socket: as recv(), but 0 is "none now" and the end is a failure. */
static ssize_t receive_bytes(struct http_req *req, void *data, size_t len)
{
    ssize_t n;

    if (req->expects_continue && request_continue(req) < 0)
        return request_body_fail(req);
    do
        n = recv(req->conn->watched.fd, data, len, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return 0;
    return n > 0 ? n : request_body_fail(req);
}

static ssize_t take_plain(struct http_req *req, void *data, size_t len)
{
    size_t have;
    const char *here = peek(req, &have);
    ssize_t n;

    if ((int64_t)len > req->body_left)
        len = (size_t)req->body_left;
    if (have > 0) {
        n = (ssize_t)(have < len ? have : len);
        memcpy(data, here, (size_t)n);
        consume(req, (size_t)n);
    } else {
        n = receive_bytes(req, data, len);
    }
    if (n > 0)
        req->body_left -= n;
    req->body_done = req->body_left == 0;
    return n;
}

static ssize_t take_chunked(struct http_req *req, char *data, size_t len)
{
    size_t have, used = 0;
    const char *here = peek(req, &have);
    ssize_t n, raw = 0;

    if (have > 0) {
        n = chunked_decode(&req->chunked, here, have < len ? have : len, data, &used);
        if (n >= 0)
            consume(req, used);
    } else {
        raw = receive_bytes(req, data, len);
        if (raw <= 0)
            return raw;
        n = chunked_decode(&req->chunked, data, (size_t)raw, data, &used);
        if (n >= 0 && used < (size_t)raw) {
            /* The bytes of the body lie in front of it. */
            put_back(req, data + used, (size_t)raw - used);
        }
    }
    if (n < 0) {
        req->body_malformed = true;
        return request_body_fail(req);
    }
    req->body_done = req->chunked.done;
    return n;
}

ssize_t http_pass_take(struct http_req *req, void *data, size_t len)
{
    ssize_t n = 0;
    size_t have;

    if (req->body_failed)
        return -1;
    /* Framing alone gives no bytes of the body: what is here is looked at to its end. */
    do {
        if (req->body_done)
            return 0;
        (void)peek(req, &have);
        n = req->head.chunked ? take_chunked(req, data, len) : take_plain(req, data, len);
    } while (n == 0 && have > 0);
    return n;
}

bool http_pass_body_ended(const struct http_req *req)
{
    return req->body_done;
}

/* ---- bytes that are skipped ---- */

int request_drain(struct http_req *req)
{
    char scrap[4096];
    ssize_t n;

    while ((n = http_pass_take(req, scrap, sizeof(scrap))) > 0)
        ;
    return n < 0 ? -1 : req->body_done;
}

static int drop_piece(const char *data, size_t len, void *arg, struct err *err)
{
    (void)data;
    (void)len;
    (void)arg;
    (void)err;
    return 0;
}

void receive_rest(struct worker *w, struct http_req *req)
{
    req->receiving = (struct receiving){.piece = drop_piece, .began_ns = mono_ns()};
    buf_clear(&req->body);
    req->body.max = PIECE_MAX;
    receive_begin(w, req);
}

/* ---- collecting them ---- */

static int too_large(struct http_req *req, struct err *err)
{
    (void)request_body_fail(req);
    return err_set(err, ERR_TOO_LARGE,
                   "the body is larger than the %zu bytes that are taken here; a file of any size "
                   "can be uploaded as application/octet-stream",
                   req->receiving.max);
}

/* Past the usual size, room for all that the body can become is taken at once: callers who each
 * held a part and waited for the rest would wait for each other. */
static int body_reserve(struct http_req *req, struct err *err)
{
    const struct http_limits *limits = &req->worker->server->limits;
    size_t most = req->head.chunked ? req->body.max : (size_t)req->head.length;

    if (req->reserved > 0 || req->body.len < BODY_FREE)
        return 0;
    if (budget_wait(limits->memory, 2 * most,
                    mono_ns() + limit_ns(limits->memory_wait_ms, MEMORY_WAIT_MS))) {
        req->reserved = 2 * most;
        return 0;
    }
    (void)request_body_fail(req);
    return err_code(err, ERR_UNAVAILABLE, "busy",
                    "the daemon holds as much of other callers' data as it may; send it again, or "
                    "stream it as application/octet-stream where that is taken");
}

/* How much to read next. A claimed length alone takes no memory. */
static size_t body_step(const struct http_req *req)
{
    size_t want = req->head.chunked ? BODY_ROOM : (size_t)req->body_left;
    size_t most = PIECE_MAX - req->body.len;

    if (!req->receiving.piece) {
        most = req->reserved > 0 ? 256u << 10 : BODY_FREE - req->body.len;
        if (most > req->body.max - req->body.len)
            most = req->body.max - req->body.len;
    }
    return want < most ? want : most;
}

static int broke_off(const struct http_req *req, struct err *err)
{
    if (req->body_malformed)
        return err_code(err, ERR_INVALID, "bad_request",
                        "the chunked body is malformed, or has extensions or trailers");
    return err_set(err, ERR_INVALID, "the connection ended in the middle of the body");
}

static int pass_piece(struct http_req *req, struct err *err)
{
    struct receiving *r = &req->receiving;

    if (!r->piece || req->body.len == 0)
        return 0;
    r->passes = true;
    if (r->piece(req->body.data, req->body.len, r->arg, err) < 0)
        return -1;
    buf_clear(&req->body);
    return 0;
}

/* Takes what is here: 1 when all has come, 0 when more is to come, -1. */
static int receive_step(struct http_req *req, struct err *err)
{
    struct receiving *r = &req->receiving;
    struct buf *b = &req->body;
    size_t taken = 0;

    while (!req->body_done && taken < STEP_MAX) {
        size_t want;
        ssize_t n;

        if (!r->piece && body_reserve(req, err) < 0)
            return -1;
        want = body_step(req);
        n = http_pass_take(req, buf_room(b, want), want);
        if (n < 0)
            return broke_off(req, err);
        if (n == 0)
            break;
        b->len += (size_t)n;
        taken += (size_t)n;
        req->moved += n;
        if (!r->piece && b->len > r->max)
            return too_large(req, err);
        if (b->len == PIECE_MAX && pass_piece(req, err) < 0)
            return -1;
    }
    if ((req->body_done || r->passes || b->len >= PIECE_FIRST) && pass_piece(req, err) < 0)
        return -1;
    return req->body_done;
}

void http_receive(struct http_req *req, const struct http_receiver *to, void *arg)
{
    struct receiving *r = &req->receiving;
    struct err err = {0};
    int got;

    *r = (struct receiving){
        .max = to->max, .piece = to->piece, .then = to->then, .arg = arg, .began_ns = mono_ns()};
    /* One more than is allowed, so that a body of max bytes sees its end. */
    req->body.max = to->piece ? PIECE_MAX : to->max + 1;
    if (!to->piece && !req->head.chunked && (uint64_t)req->head.length > to->max)
        got = too_large(req, &err);
    else
        got = receive_step(req, &err);
    if (got != 0)
        to->then(req, got < 0 ? &err : NULL, arg);
    else
        req->waits = true;
}

const char *http_req_body(const struct http_req *req, size_t *ret_len)
{
    *ret_len = req->body.len;
    return req->body.data ? req->body.data : "";
}

/* ---- waiting for them ---- */

static const char *moved_to(const char *at, const char *from, size_t len, const char *to)
{
    return at >= from && at <= from + len ? to + (at - from) : at;
}

/* The worker whose buffer its strings are in goes on with others. */
static void keep_head(struct http_req *req)
{
    struct worker *w = req->worker;
    struct head *h = &req->head;
    size_t fields = h->count * sizeof(*h->headers), len = w->head_len;
    char *text;

    if (req->own_head)
        return;
    req->own_bytes = fields + len;
    req->own_head = xmalloc(req->own_bytes);
    text = (char *)req->own_head + fields;
    memcpy(req->own_head, h->headers, fields);
    memcpy(text, w->data, len);
    h->headers = req->own_head;
    for (unsigned i = 0; i < h->count; i++) {
        h->headers[i].name = moved_to(h->headers[i].name, w->data, len, text);
        h->headers[i].value = moved_to(h->headers[i].value, w->data, len, text);
    }
    h->target = moved_to(h->target, w->data, len, text);
    h->path = moved_to(h->path, w->data, len, text);
    h->query = moved_to(h->query, w->data, len, text);
}

/* Charges what a request holds while it waits: what has come, and not the room that was there for
 * more. A body that has a reservation is paid for. */
static bool hold(struct http_req *req)
{
    struct budget *memory = req->worker->server->limits.memory;
    size_t bytes;

    if (req->reserved == 0)
        buf_fit(&req->body);
    bytes = req->own_bytes + (req->reserved > 0 ? 0 : req->body.cap);
    if (bytes <= HELD_FREE)
        return true;
    if (!budget_take(memory, bytes))
        return false;
    req->held = bytes;
    return true;
}

static void let_go(struct http_req *req)
{
    budget_give(req->worker->server->limits.memory, req->held);
    req->held = 0;
}

/* Without then() the body is only skipped: its request is answered already. */
static void end_receiving(struct worker *w, struct http_req *req, const struct err *err)
{
    const struct receiving *r = &req->receiving;

    if (err)
        (void)request_body_fail(req);
    if (r->then)
        r->then(req, err, r->arg);
    conn_request_ended(w, req);
}

void receive_begin(struct worker *w, struct http_req *req)
{
    struct http_server *s = w->server;
    struct conn *c = req->conn;
    struct err err = {0};

    req->waits = false;
    keep_head(req);
    if (w->req == req)
        w->req = NULL;
    /* Bytes that are here belong to the body and were taken, or to nobody yet. */
    if (w->len > w->off)
        conn_keep(s, c, w->data + w->off, w->len - w->off);
    w->len = w->off = 0;
    if (!hold(req)) {
        (void)err_code(&err, ERR_UNAVAILABLE, "busy",
                       "the daemon holds as much of other callers' data as it may; send it again");
        end_receiving(w, req, &err);
        return;
    }
    req->receiving.seen_ns = mono_ns();
    atomic_store(&c->holds, req->held > 0 || req->reserved > 0);
    atomic_store(&c->pace_ns, req->receiving.began_ns + req->moved * SLOW_NS_PER_BYTE);
    c->receiving = req;
    if (server_arm(s, c, mono_ns() + s->limits.body_timeout_ms * 1000000ll) == 0)
        return;
    c->receiving = NULL;
    let_go(req);
    (void)err_set(&err, ERR_INTERNAL, "the connection cannot be watched");
    end_receiving(w, req, &err);
}

/* When others were to blame for the haste, it says so. */
static int too_slow(const struct http_req *req, struct err *err)
{
    int64_t patience = req->worker->server->limits.body_timeout_ms * 1000000ll;

    if (mono_ns() - req->receiving.seen_ns < patience)
        return err_code(err, ERR_UNAVAILABLE, "busy",
                        "too many clients send slowly, and the body did not come at once; send it "
                        "again");
    return err_set(err, ERR_TIMEOUT, "the body came too slowly; send it again");
}

void receive_wake(struct worker *w, struct conn *c, bool overdue)
{
    struct http_req *req = c->receiving;
    struct err err = {0};
    int got;

    c->receiving = NULL;
    req->worker = w;
    w->len = w->off = w->head_len = 0;
    let_go(req);
    server_want_worker(w->server); /* what is called from here may block for long */
    got = overdue ? too_slow(req, &err) : receive_step(req, &err);
    if (got == 0)
        receive_begin(w, req);
    else
        end_receiving(w, req, got < 0 ? &err : NULL);
}
