/* A connection that is inspected: what the client says is looked at, both directions move. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/mem.h"
#include "gateway/inspect_internal.h"

#define IN_BYTES     (32 * 1024)
#define PEEK_MS      10000 /* from the first byte to the last of a ClientHello or a head */
#define STATUS_BYTES 12    /* HTTP/1.1 101 */
#define HTTP_PORT    80
#define READS_A_TURN 16

_Static_assert(IN_BYTES > PEEK_BYTES_MAX, "one read can pass the bound, and is seen to");

/* ---- what the client says ----
 *
 * These return false when c is gone or leaving: whoever called them returns at once. */

static bool read_in(struct conn *c, bool *ret_new)
{
    ssize_t n;

    *ret_new = false;
    if (c->client_eof || c->upgrading || c->in_len == IN_BYTES)
        return true;
    if (!c->in)
        c->in = xmalloc(IN_BYTES);
    n = recv(c->client.fd, c->in + c->in_len, IN_BYTES - c->in_len, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return true;
    if (n < 0) {
        conn_reset(c);
        return false;
    }
    *ret_new = true;
    c->client_eof = n == 0;
    c->in_len += (size_t)n;
    return true;
}

static void peeked_too_long(struct timer *t)
{
    conn_refuse_bad(MEMBER_OF(t, struct conn, peek_timer),
                    "the first message did not come in time");
}

/* It is not whole. */
static bool wait_for_more(struct conn *c)
{
    if (c->client_eof || c->in_len - c->in_pass > PEEK_BYTES_MAX) {
        conn_refuse_bad(c, c->client_eof ? "what it says is cut off"
                                         : "what it says first is too long");
        return false;
    }
    if (c->peek_timer.slot == 0) {
        c->peek_timer.fire = peeked_too_long;
        timer_set(c->guest->worker, &c->peek_timer, PEEK_MS);
    }
    return true;
}

static bool begin(struct conn *c, enum phase phase)
{
    timer_stop(c->guest->worker, &c->peek_timer);
    c->phase = phase;
    if (phase == RELAY)
        c->in_pass = c->in_len;
    return true;
}

static bool peek_tls(struct conn *c)
{
    struct client_hello hello;

    c->kind = "tls";
    switch (client_hello_parse(c->in, c->in_len, &hello)) {
    case HELLO_DONE:
        return conn_let_named(c, hello.name[0] ? hello.name : NULL) && begin(c, RELAY);
    case HELLO_MORE:
        return wait_for_more(c);
    case HELLO_BAD:
    default:
        conn_refuse_bad(c, "the ClientHello of TLS cannot be read");
        return false;
    }
}

/* Where HTTP lives nothing else is let through: a server that takes for a request what we do not
 * would be told of another host. */
static bool peek_other(struct conn *c)
{
    if (c->flow.port == HTTP_PORT && c->in_len > 0) {
        c->kind = "http";
        conn_refuse_bad(c, "port 80 is for HTTP, and this is not");
        return false;
    }
    return conn_let_named(c, NULL) && begin(c, RELAY);
}

static bool peek(struct conn *c)
{
    if (c->in_len == 0) /* it says nothing, and never will if it has ended */
        return !c->client_eof || peek_other(c);
    switch (peek_classify(c->in, c->in_len)) {
    case PEEK_TLS:
        return peek_tls(c);
    case PEEK_HTTP:
        c->kind = "http";
        return begin(c, HTTP);
    case PEEK_OTHER:
        return peek_other(c);
    case PEEK_MORE:
    default:
        return wait_for_more(c);
    }
}

/* A head is whole. Host and target must both be allowed; one that names nobody is of HTTP/1.0. */
static bool let_request(struct conn *c)
{
    const struct http_peek *h = &c->http;

    timer_stop(c->guest->worker, &c->peek_timer);
    if (h->target[0] && !conn_let_named(c, h->target))
        return false;
    return conn_let_named(c, h->host[0] ? h->host : h->target[0] ? h->target : NULL);
}

static bool look_at_requests(struct conn *c)
{
    while (!c->upgrading && c->in_pass < c->in_len) {
        size_t n = 0;

        switch (http_peek_step(&c->http, c->in + c->in_pass, c->in_len - c->in_pass, &n)) {
        case HTTP_MORE:
            return wait_for_more(c);
        case HTTP_HEAD:
            if (!let_request(c))
                return false;
            /* Of the first request only: whose answer it is that comes then is certain. */
            c->upgrading = c->http.websocket && c->http.requests == 1;
            break;
        case HTTP_PASS:
            break;
        case HTTP_BAD:
        default:
            conn_refuse_bad(c, "a request that has more than one reading");
            return false;
        }
        c->in_pass += n;
    }
    return true;
}

/* Sends what may go. */
static bool flush(struct conn *c)
{
    while (c->connected && c->in_pass > 0) {
        ssize_t n = send(c->up.fd, c->in, c->in_pass, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN)
            return true;
        if (n < 0) {
            conn_reset(c);
            return false;
        }
        c->sent = true;
        c->in_pass -= (size_t)n;
        c->in_len -= (size_t)n;
        memmove(c->in, c->in + n, c->in_len);
    }
    return true;
}

/* ---- both directions ---- */

/* What the client says while it is looked at. */
static bool run_seen(struct conn *c)
{
    bool more = true;

    for (int i = 0; more && c->phase != RELAY && i < READS_A_TURN; i++) {
        if (!read_in(c, &more) || (c->phase == PEEKING && !peek(c)) ||
            (c->phase == HTTP && !look_at_requests(c)) || !flush(c))
            return false;
    }
    return flush(c);
}

static bool run_out(struct conn *c)
{
    if (c->phase != RELAY && !run_seen(c))
        return false;
    if (c->phase == RELAY && !flush(c))
        return false;
    if (!c->connected || c->in_len > 0 || c->phase == PEEKING || c->out.ended)
        return true;
    if (c->client_eof) {
        lane_end(&c->out, c->up.fd);
    } else if (c->phase == RELAY) {
        free(steal_ptr(c->in));
        c->out_state = lane_move(&c->out, c->client.fd, c->up.fd);
        c->sent = c->sent || c->out.moved > 0;
        if (c->out_state == LANE_BROKEN) {
            conn_reset(c);
            return false;
        }
    }
    return true;
}

/* Did the server agree to go on as a WebSocket? Then what follows is no HTTP, on its word; else the
 * next request is looked at as any other. */
static void look_at_upgrade(struct conn *c)
{
    char status[STATUS_BYTES];
    ssize_t n;

    if (!c->upgrading || c->in_pass > 0)
        return;
    n = recv(c->up.fd, status, sizeof(status), MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    c->upgrading = false;
    if (n == STATUS_BYTES && memcmp(status, "HTTP/1.1 101", STATUS_BYTES) == 0)
        (void)begin(c, RELAY);
}

static bool run_back(struct conn *c)
{
    if (!c->connected)
        return true;
    look_at_upgrade(c);
    c->back_state = lane_move(&c->back, c->up.fd, c->client.fd);
    if (c->back_state != LANE_BROKEN)
        return true;
    conn_reset(c);
    return false;
}

static uint32_t client_interest(const struct conn *c)
{
    uint32_t want = c->back_state == LANE_FULL ? EPOLLOUT : 0;

    if (c->client_eof || c->out.ended)
        return want;
    if (c->phase == RELAY)
        return c->connected && c->in_len == 0 && c->out_state == LANE_EMPTY ? want | EPOLLIN : want;
    return !c->upgrading && c->in_len < IN_BYTES ? want | EPOLLIN : want;
}

static uint32_t up_interest(const struct conn *c)
{
    uint32_t want = 0;

    if (!c->connected)
        return EPOLLOUT;
    if (c->in_pass > 0 || c->out_state == LANE_FULL)
        want |= EPOLLOUT;
    return c->back_state == LANE_EMPTY ? want | EPOLLIN : want;
}

void conn_run(struct conn *c)
{
    struct worker *w = c->guest->worker;

    if (c->phase == LEAVING) {
        conn_leaving(c);
        return;
    }
    /* The server's words first: what it said before it broke off is the client's to read. */
    if (!run_back(c) || !run_out(c))
        return;
    if (c->out.ended && c->back.ended)
        conn_free(c);
    else if (source_set(w, &c->client, client_interest(c)) < 0 ||
             source_set(w, &c->up, up_interest(c)) < 0)
        conn_reset(c);
}
