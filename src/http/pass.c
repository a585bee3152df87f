#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "http/http_internal.h"

/* A request that is passed on to another server: its body is taken as it comes and its answer
 * written byte by byte by the handler, in steps of which none waits, on a worker or parked. */

#define PEER_MAX INET6_ADDRSTRLEN

const struct http_field *http_req_field(const struct http_req *req, unsigned i)
{
    return i < req->head.count ? &req->head.headers[i] : NULL;
}

bool http_req_is_http10(const struct http_req *req)
{
    return req->head.http10;
}

int64_t http_req_length(const struct http_req *req)
{
    return req->head.chunked ? -1 : req->head.length;
}

bool http_req_wants_upgrade(const struct http_req *req)
{
    return req->head.upgrade && !req->head.http10;
}

void http_req_peer(const struct http_req *req, char *ret, size_t size)
{
    struct sockaddr_storage a;
    socklen_t len = sizeof(a);
    char text[PEER_MAX] = "";

    if (getpeername(req->conn->watched.fd, (struct sockaddr *)&a, &len) == 0) {
        if (a.ss_family == AF_INET)
            (void)inet_ntop(AF_INET, &((struct sockaddr_in *)&a)->sin_addr, text, sizeof(text));
        else if (a.ss_family == AF_INET6)
            (void)inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&a)->sin6_addr, text, sizeof(text));
    }
    (void)snprintf(ret, size, "%s", text);
}

void http_pass(struct http_req *req)
{
    req->passed = true;
    req->chunked.trailers = &req->trailers;
}

/* ---- the body ---- */

/* What was read beyond it: behind the head in the worker's buffer, or, of a parked one, put aside.
 */
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

    if (req->parked) {
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
static ssize_t receive(struct http_req *req, void *data, size_t len)
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
        n = receive(req, data, len);
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
        raw = receive(req, data, len);
        if (raw <= 0)
            return raw;
        n = chunked_decode(&req->chunked, data, (size_t)raw, data, &used);
        if (n >= 0 && used < (size_t)raw) {
            /* The bytes of the body lie in front of it. */
            put_back(req, data + used, (size_t)raw - used);
        }
    }
    if (n < 0)
        return request_body_fail(req);
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

const struct buf *http_pass_trailers(const struct http_req *req)
{
    return &req->trailers;
}

/* ---- the answer ---- */

int http_pass_write(struct http_req *req, struct iovec *v, size_t count)
{
    return reply_send(req, v, count);
}

bool http_pass_begin(struct http_req *req, int status)
{
    (void)http_client_gone(req); /* while the interim answer can be sent that tells */
    req->status = status;
    req->reply = REPLY_UNTIL_CLOSE;
    req->expects_continue = false; /* it is too late to ask for the body */
    if (atomic_load(&req->worker->server->stopping))
        req->keep_alive = false;
    return req->keep_alive;
}

void http_pass_end(struct http_req *req, bool keep)
{
    req->reply = REPLY_DONE;
    if (!keep || !req->body_done)
        req->keep_alive = false;
}

void http_pass_upgraded(struct http_req *req)
{
    req->status = 101;
    req->reply = REPLY_UPGRADED;
}
