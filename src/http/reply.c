#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "http/http_internal.h"

#define FIRST_LINES_MAX 512
#define TYPE_MAX        128

#define UNSENT_MAX (32u << 20) /* steps look at http_unsent() first, so this is not reached */

/* What was sent of v is taken off; returns how many parts are left. */
static size_t advance(struct iovec **v, size_t count, size_t sent)
{
    while (count > 0 && sent >= (*v)->iov_len) {
        sent -= (*v)->iov_len;
        (*v)++;
        count--;
    }
    if (count > 0) {
        (*v)->iov_base = (char *)(*v)->iov_base + sent;
        (*v)->iov_len -= sent;
    }
    return count;
}

static void took(struct http_req *req, size_t n)
{
    req->moved += (int64_t)n;
    req->sent_ns = mono_ns();
}

int reply_send_unsent(struct http_req *req)
{
    while (req->unsent.len > 0 && !req->peer_gone) {
        ssize_t n = send(req->conn->watched.fd, req->unsent.data, req->unsent.len,
                         MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0 && errno != EINTR)
            req->peer_gone = true;
        if (n > 0) {
            took(req, (size_t)n);
            buf_shift(&req->unsent, (size_t)n);
        }
    }
    if (req->unsent.len == 0)
        buf_done(&req->unsent); /* a stream that is silent again holds nothing */
    return req->peer_gone ? -1 : 0;
}

/* In a step: sends what the socket takes and keeps the rest. */
static int send_or_keep(struct http_req *req, struct iovec *v, size_t count)
{
    struct msghdr m = {.msg_iov = v, .msg_iovlen = count};
    ssize_t n = -1;

    if (req->peer_gone)
        return -1;
    if (req->unsent.len == 0) {
        do
            n = sendmsg(req->conn->watched.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        if (n < 0 && errno != EAGAIN) {
            req->peer_gone = true;
            return -1;
        }
        took(req, n > 0 ? (size_t)n : 0);
        count = advance(&v, count, n > 0 ? (size_t)n : 0);
    }
    for (req->unsent.max = UNSENT_MAX; count > 0; v++, count--)
        if (buf_add(&req->unsent, v->iov_base, v->iov_len) < 0)
            req->peer_gone = true;
    return req->peer_gone ? -1 : 0;
}

/* Sends it all, in as few calls as the socket takes. */
int reply_send(struct http_req *req, struct iovec *v, size_t count)
{
    if (req->parked || req->passed)
        return send_or_keep(req, v, count);
    while (count > 0 && !req->peer_gone) {
        struct msghdr m = {.msg_iov = v, .msg_iovlen = count};
        ssize_t n = sendmsg(req->conn->watched.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0) {
            if (errno == EINTR || (errno == EAGAIN && request_wait(req, POLLOUT) == 0))
                continue;
            req->peer_gone = true;
            break;
        }
        req->moved += n;
        count = advance(&v, count, (size_t)n);
    }
    return req->peer_gone ? -1 : 0;
}

void reply_send_rest(struct http_req *req)
{
    struct iovec v = {req->unsent.data, req->unsent.len};

    if (v.iov_len > 0)
        (void)reply_send(req, &v, 1);
    buf_done(&req->unsent);
}

/* Not strftime: its names of days follow the locale. */
static const char *date(struct worker *w)
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t now = time(NULL);
    struct tm tm;

    if (now == w->date_second)
        return w->date;
    w->date_second = now;
    (void)gmtime_r(&now, &tm);
    (void)snprintf(w->date, sizeof(w->date), "%s, %02u %s %04u %02u:%02u:%02u GMT",
                   days[tm.tm_wday], (unsigned)tm.tm_mday % 100u, months[tm.tm_mon],
                   (unsigned)(tm.tm_year + 1900) % 10000u, (unsigned)tm.tm_hour % 100u,
                   (unsigned)tm.tm_min % 100u, (unsigned)tm.tm_sec % 100u);
    return w->date;
}

static bool is_one_line(const char *s)
{
    return !strpbrk(s, "\r\n");
}

void http_reply_header(struct http_req *req, const char *name, const char *value)
{
    int r;

    assert(req->reply == REPLY_NONE);
    /* Not by assert() alone: without it this would let a value add headers of its own. */
    if (!is_one_line(name) || !is_one_line(value)) {
        assert(!"a header of an answer has a line end in it");
        return;
    }
    r = buf_addf(&req->extra, "%s: %s\r\n", name, value);
    assert(r == 0);
    (void)r;
}

static char *put_number(char *at, uint64_t n)
{
    char digits[20];
    size_t count = 0;

    do
        digits[count++] = (char)('0' + n % 10);
    while (n /= 10);
    while (count > 0)
        *at++ = digits[--count];
    *at = '\0';
    return at;
}

/* The lines that every answer has, up to where the extra headers go. length < 0: none is stated.
 * Not by printf(), which takes a tenth of what a short answer takes in all. */
static size_t first_lines(struct http_req *req, char out[FIRST_LINES_MAX], int status,
                          const char *type, int64_t length)
{
    char *at = out;

    assert(status >= 100 && status < 600);
    req->status = status;
    assert(!type || (strlen(type) < TYPE_MAX && is_one_line(type)));
    if (request_body_is_in_the_way(req) || atomic_load(&req->worker->server->stopping))
        req->keep_alive = false;
    if (req->passed)
        req->expects_continue = false; /* it is too late to ask for the body */
    at = put_number(stpcpy(at, "HTTP/1.1 "), (uint64_t)status);
    at = stpcpy(stpcpy(at, " "), status_text(status));
    at = stpcpy(stpcpy(at, "\r\nDate: "), date(req->worker));
    if (type)
        at = stpcpy(stpcpy(at, "\r\nContent-Type: "), type);
    if (length >= 0)
        at = put_number(stpcpy(at, "\r\nContent-Length: "), (uint64_t)length);
    if (!req->keep_alive)
        at = stpcpy(at, "\r\nConnection: close");
    else if (req->head.http10)
        at = stpcpy(at, "\r\nConnection: keep-alive");
    at = stpcpy(at, "\r\n");
    assert(at < out + FIRST_LINES_MAX);
    return (size_t)(at - out);
}

int http_req_status(const struct http_req *req)
{
    return req->status;
}

static bool is_head(const struct http_req *req)
{
    return req->head.method == HTTP_HEAD;
}

static bool has_no_body(int status)
{
    return status == 204 || status == 304;
}

void http_reply(struct http_req *req, int status, const char *type, const void *body, size_t len)
{
    char lines[FIRST_LINES_MAX];
    struct iovec v[4];

    assert(req->reply == REPLY_NONE);
    v[0].iov_base = lines;
    v[0].iov_len = first_lines(req, lines, status, type, has_no_body(status) ? -1 : (int64_t)len);
    v[1] = (struct iovec){req->extra.data, req->extra.len};
    v[2] = (struct iovec){(char *)"\r\n", 2};
    v[3] = (struct iovec){(void *)body, is_head(req) || has_no_body(status) ? 0 : len};
    req->reply = REPLY_DONE;
    (void)reply_send(req, v, v[3].iov_len ? 4 : 3);
}

static int refusal_body(char *out, size_t size, const struct refusal *why)
{
    return snprintf(out, size, "{\"error\": \"%s\", \"code\": \"%s\"}", why->text, why->code);
}

void reply_refusal(struct http_req *req, const struct refusal *why)
{
    char body[256];
    int n = refusal_body(body, sizeof(body), why);

    http_reply(req, why->status, "application/json", body, (size_t)n);
}

void reply_refusal_raw(int fd, const struct refusal *why)
{
    char body[256], text[FIRST_LINES_MAX];
    int n = refusal_body(body, sizeof(body), why);

    n = snprintf(text, sizeof(text),
                 "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                 "Connection: close\r\n\r\n%s",
                 why->status, status_text(why->status), n, body);
    (void)send(fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int http_stream_begin(struct http_req *req, int status, const char *type, int64_t length)
{
    char lines[FIRST_LINES_MAX];
    struct iovec v[3];

    assert(req->reply == REPLY_NONE);
    req->events = type && strcmp(type, "text/event-stream") == 0;
    if (req->events)
        http_reply_header(req, "Cache-Control", "no-cache");
    if (length >= 0) {
        req->reply = REPLY_LENGTH;
        req->reply_left = length;
    } else if (req->head.http10) {
        req->reply = REPLY_UNTIL_CLOSE;
        req->keep_alive = false;
    } else {
        req->reply = REPLY_CHUNKED;
    }
    v[0].iov_base = lines;
    v[0].iov_len = first_lines(req, lines, status, type, length);
    v[1] = (struct iovec){req->extra.data, req->extra.len};
    v[2] = (struct iovec){(char *)"\r\n", 2};
    if (req->reply == REPLY_CHUNKED)
        v[2] = (struct iovec){(char *)"Transfer-Encoding: chunked\r\n\r\n", 30};
    return reply_send(req, v, 3);
}

int http_stream_write(struct http_req *req, const void *data, size_t len)
{
    char size[24];
    struct iovec v[3] = {{size, 0}, {(void *)data, len}, {(char *)"\r\n", 2}};

    if (req->peer_gone)
        return -1;
    if (len == 0 || is_head(req))
        return 0;
    switch (req->reply) {
    case REPLY_CHUNKED:
        v[0].iov_len = (size_t)snprintf(size, sizeof(size), "%zx\r\n", len);
        return reply_send(req, v, 3);
    case REPLY_LENGTH:
        assert((int64_t)len <= req->reply_left);
        req->reply_left -= (int64_t)len;
        return reply_send(req, v + 1, 1);
    case REPLY_UNTIL_CLOSE:
    case REPLY_UPGRADED:
        return reply_send(req, v + 1, 1);
    case REPLY_NONE:
    case REPLY_DONE:
        break;
    }
    assert(!"a stream is written that was not begun");
    return -1;
}

void http_stream_end(struct http_req *req)
{
    struct iovec v = {(char *)"0\r\n\r\n", 5};

    /* Less than was promised: leaving the stream open makes the server break the connection. */
    if (req->reply == REPLY_LENGTH && req->reply_left > 0 && !is_head(req))
        return;
    if (req->reply == REPLY_CHUNKED && !is_head(req))
        (void)reply_send(req, &v, 1);
    req->reply = REPLY_DONE;
}

bool http_upgrade_asked(struct http_req *req, const char *protocol)
{
    const char *wanted = http_req_header(req, "upgrade");

    return req->head.upgrade && !req->head.http10 && wanted && http_list_has(wanted, protocol);
}

int http_upgrade(struct http_req *req, const char *protocol)
{
    char lines[FIRST_LINES_MAX];
    struct iovec v[3];
    int n;

    assert(req->reply == REPLY_NONE && is_one_line(protocol));
    if (request_drain(req) <= 0)
        return -1; /* what still comes of the body would look like bytes of the stream */
    n = snprintf(lines, sizeof(lines),
                 "HTTP/1.1 101 Switching Protocols\r\nDate: %s\r\nConnection: Upgrade\r\n"
                 "Upgrade: %.100s\r\n",
                 date(req->worker), protocol);
    v[0] = (struct iovec){lines, (size_t)n};
    v[1] = (struct iovec){req->extra.data, req->extra.len};
    v[2] = (struct iovec){(char *)"\r\n", 2};
    req->reply = REPLY_UPGRADED;
    req->status = 101;
    return reply_send(req, v, 3);
}
