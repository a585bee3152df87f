#include "http/client.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/http_internal.h"

#define CONNECT_MS 5000
#define HEAD_MAX   (64u << 10)
#define READ_ROOM  (16u << 10)

#define RETRY_MAX_S 86400

/* Headers of an answer that the client looks at. */
enum field { FIELD_OTHER, FIELD_TYPE, FIELD_LENGTH, FIELD_CODING, FIELD_RETRY, FIELD_WANTED };

enum body_kind { BODY_NONE, BODY_LENGTH, BODY_CHUNKED, BODY_UNTIL_CLOSE };

struct http_client {
    char *target, *token;
    char *host; /* for the Host header */
    const char *accept, *name;
    char *key;        /* of the next request, */
    struct buf extra; /* and header lines of it */
    const char *want; /* a header of answers, */
    char wanted[256]; /* and its value in the last one */
    int stop_fd, silence_ms;
    int fd;
    bool kept;       /* the connection has answered before */
    bool cut;        /* the server stopped reading; its answer says why */
    bool sending;    /* a request that http_client_finish() is due for */
    bool upgrading;  /* the request under way asks for another protocol */
    bool is_head;    /* of the request under way */
    bool keep_alive; /* of the answer */
    struct buf in;   /* received; [off, len) is not consumed */
    size_t off;
    struct chunked chunked;
    enum body_kind body;
    int64_t left; /* of BODY_LENGTH */
    struct http_response response;
    /* While the head is parsed: */
    enum field field;
    bool has_length, is_chunked;
};

struct http_client *http_client_new(const char *target, const char *token)
{
    struct http_client *c = xcalloc(1, sizeof(*c));

    c->target = xstrdup(target);
    c->token = token ? xstrdup(token) : NULL;
    c->host = xstrdup(str_starts(target, "http://") ? target + 7 : "localhost");
    c->host[strcspn(c->host, "/")] = '\0';
    c->fd = c->stop_fd = -1;
    buf_init(&c->in, HEAD_MAX + READ_ROOM);
    buf_init(&c->extra, HEAD_MAX);
    return c;
}

void http_client_key(struct http_client *c, const char *key)
{
    free(c->key);
    c->key = xstrdup(key);
}

static bool is_one_line(const char *s)
{
    return !s || !strpbrk(s, "\r\n");
}

void http_client_header(struct http_client *c, const char *name, const char *value)
{
    if (is_one_line(name) && is_one_line(value))
        (void)buf_addf(&c->extra, "%s: %s\r\n", name, value);
}

void http_client_want(struct http_client *c, const char *name)
{
    c->want = name;
}

const char *http_client_wanted(const struct http_client *c)
{
    return c->wanted;
}

void http_client_bound(struct http_client *c, int stop_fd, int silence_ms)
{
    c->stop_fd = stop_fd;
    c->silence_ms = silence_ms;
}

void http_client_accept(struct http_client *c, const char *type)
{
    c->accept = type;
}

void http_client_name(struct http_client *c, const char *name)
{
    c->name = name;
}

static void hang_up(struct http_client *c)
{
    close_fd(&c->fd);
    c->kept = c->sending = false;
    c->body = BODY_NONE;
}

void http_client_leave(struct http_client *c)
{
    if (c->sending || c->body != BODY_NONE)
        hang_up(c);
}

void http_client_free(struct http_client *c)
{
    if (!c)
        return;
    hang_up(c);
    buf_done(&c->in);
    buf_done(&c->extra);
    free(c->target);
    free(c->token);
    free(c->key);
    free(c->host);
    free(c);
}

/* ---- connecting ---- */

static int ensure_connected(struct http_client *c, struct err *err)
{
    char byte;

    /* A kept connection that the server has closed, or on which a request was left unfinished or an
     * answer unread. */
    if (c->fd >= 0 && (c->sending || c->body != BODY_NONE || c->off < c->in.len ||
                       recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN))
        hang_up(c);
    buf_clear(&c->in);
    c->off = 0;
    c->cut = false;
    if (c->fd >= 0)
        return 0;
    if (str_starts(c->target, "unix:"))
        c->fd = unix_connect(c->target + 5);
    else if (str_starts(c->target, "http://"))
        c->fd = client_dial(c->host, CONNECT_MS, -1);
    else
        return err_set(err, ERR_INVALID, "%s is neither http://host:port nor unix:/path",
                       c->target);
    if (c->fd < 0) {
        int e = -c->fd;

        c->fd = -1;
        (void)err_set(err, ERR_UNAVAILABLE, "nobody answers at %s (%s); is the daemon running?",
                      c->target, strerror(e));
        if (err)
            err->sys = e;
        return -1;
    }
    return 0;
}

/* ---- waiting ---- */

/* Until the connection can be used, or there is no point in waiting: 0 or -errno. */
static int await(struct http_client *c, short events)
{
    struct pollfd p[2] = {{.fd = c->fd, .events = events}, {.fd = c->stop_fd, .events = POLLIN}};
    int n;

    do
        n = poll(p, 2, c->silence_ms > 0 ? c->silence_ms : -1);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    if (n == 0)
        return -ETIMEDOUT;
    return p[1].revents ? -ECANCELED : 0;
}

/* The exchange broke with -errno, or 0 at the end of the stream: hangs up, and says why if we did
 * not want to wait any longer. */
static bool was_stopped(struct http_client *c, int e, struct err *err)
{
    hang_up(c);
    if (e == -ECANCELED)
        (void)err_code(err, ERR_CONFLICT, "cancelled", "the call was cancelled");
    else if (e == -ETIMEDOUT && c->silence_ms > 0)
        (void)err_code(err, ERR_TIMEOUT, "timeout", "%s has said nothing for %d ms", c->target,
                       c->silence_ms);
    else
        return false;
    return true;
}

static const char *why(int e)
{
    return e < 0 ? strerror(-e) : "end of stream";
}

/* ---- the request ---- */

/* Once the server reads no more, the rest is not sent: its answer is likely here already. */
static int send_all(struct http_client *c, struct iovec *v, size_t count, struct err *err)
{
    while (count > 0 && !c->cut) {
        struct msghdr m = {.msg_iov = v, .msg_iovlen = count};
        ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0) {
            int e = -errno;

            if (e == -EAGAIN)
                e = await(c, POLLOUT);
            if (e == 0 || e == -EINTR)
                continue;
            if (e != -EPIPE && e != -ECONNRESET)
                return was_stopped(c, e, err) ? -1 : err_sys(err, -e, "send to %s", c->target);
            c->cut = true;
            break;
        }
        while (count > 0 && (size_t)n >= v->iov_len) {
            n -= (ssize_t)v->iov_len;
            v++;
            count--;
        }
        if (count > 0) {
            v->iov_base = (char *)v->iov_base + n;
            v->iov_len -= (size_t)n;
        }
    }
    return 0;
}

static bool is_word(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s <= 0x20 || *s == 0x7f)
            return false;
    return true;
}

static int request_head(struct http_client *c, struct buf *b, const char *method, const char *path,
                        const char *type, int64_t length, const char *upgrade, struct err *err)
{
    if (!is_word(method) || !is_word(path) || *path != '/' || !is_one_line(type))
        return err_set(err, ERR_INVALID,
                       "%s %s: a path starts with / and has its spaces percent-encoded", method,
                       path);
    if (!is_one_line(c->token) || !is_one_line(c->key) || !is_word(c->host))
        return err_set(err, ERR_INVALID, "the token, the key or the address has a line end in it");
    buf_init(b, HEAD_MAX);
    (void)buf_addf(b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, c->host);
    if (c->token)
        (void)buf_addf(b, "Authorization: Bearer %s\r\n", c->token);
    if (c->name)
        (void)buf_addf(b, "Cay-Client: %s\r\n", c->name);
    if (c->accept)
        (void)buf_addf(b, "Accept: %s\r\n", c->accept);
    if (type)
        (void)buf_addf(b, "Content-Type: %s\r\n", type);
    if (c->key)
        (void)buf_addf(b, "Idempotency-Key: %s\r\n", c->key);
    if (upgrade)
        (void)buf_addf(b, "Connection: Upgrade\r\nUpgrade: %s\r\n", upgrade);
    if (length > 0 || (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0))
        (void)buf_addf(b, "Content-Length: %lld\r\n", (long long)length);
    (void)buf_add(b, c->extra.data, c->extra.len);
    buf_clear(&c->extra);
    if (buf_add_str(b, "\r\n") < 0)
        return err_set(err, ERR_TOO_LARGE, "the path or the token is too long");
    c->is_head = strcmp(method, "HEAD") == 0;
    c->upgrading = upgrade != NULL;
    free(steal_ptr(c->key));
    return 0;
}

/* ---- the head of the answer ---- */

static bool equals(const char *at, size_t len, const char *word)
{
    return len == strlen(word) && strncasecmp(at, word, len) == 0;
}

static int on_field(llhttp_t *p, const char *at, size_t len)
{
    struct http_client *c = p->data;

    c->field = FIELD_OTHER;
    if (equals(at, len, "content-type"))
        c->field = FIELD_TYPE;
    else if (equals(at, len, "content-length"))
        c->field = FIELD_LENGTH;
    else if (equals(at, len, "transfer-encoding"))
        c->field = FIELD_CODING;
    else if (equals(at, len, "retry-after"))
        c->field = FIELD_RETRY;
    else if (c->want && equals(at, len, c->want))
        c->field = FIELD_WANTED;
    return 0;
}

static void keep_type(struct http_client *c, const char *at, size_t len)
{
    size_t n = 0;

    while (n < len && n < sizeof(c->response.type) - 1 && at[n] != ';' && at[n] != ' ') {
        c->response.type[n] = (char)tolower((unsigned char)at[n]);
        n++;
    }
    c->response.type[n] = '\0';
}

/* Of seconds only; a date is as good as none. */
static unsigned seconds(const char *at, size_t len)
{
    unsigned n = 0;

    for (size_t i = 0; i < len; i++) {
        if (at[i] < '0' || at[i] > '9' || n > RETRY_MAX_S)
            return 0;
        n = 10 * n + (unsigned)(at[i] - '0');
    }
    return n;
}

static int on_value(llhttp_t *p, const char *at, size_t len)
{
    struct http_client *c = p->data;

    switch (c->field) {
    case FIELD_TYPE:
        keep_type(c, at, len);
        break;
    case FIELD_LENGTH:
        c->has_length = true; /* llhttp reads the number */
        break;
    case FIELD_CODING:
        if (c->is_chunked || !equals(at, len, "chunked"))
            return -1;
        c->is_chunked = true;
        break;
    case FIELD_RETRY:
        c->response.retry_s = seconds(at, len);
        break;
    case FIELD_WANTED:
        (void)snprintf(c->wanted, sizeof(c->wanted), "%.*s", (int)len, at);
        break;
    case FIELD_OTHER:
        break;
    }
    return 0;
}

static int on_headers_complete(llhttp_t *p)
{
    struct http_client *c = p->data;
    int status = llhttp_get_status_code(p);
    bool empty = c->is_head || status == 101 || status == 204 || status == 304;

    if (p->content_length > INT64_MAX)
        return -1;
    c->keep_alive = llhttp_should_keep_alive(p) != 0;
    c->response.status = status;
    c->response.length = c->has_length ? (int64_t)p->content_length : -1;
    c->left = c->response.length;
    if (empty || c->left == 0)
        c->body = BODY_NONE;
    else
        c->body = c->is_chunked ? BODY_CHUNKED : c->left < 0 ? BODY_UNTIL_CLOSE : BODY_LENGTH;
    return HPE_PAUSED;
}

static const llhttp_settings_t head_settings = {
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_headers_complete = on_headers_complete,
};

/* Of the answer to an upgrade nothing is taken but its head: what follows is the stream's. */
static ssize_t read_head_only(struct http_client *c, char *room)
{
    const char *end;
    ssize_t n;

    do
        n = recv(c->fd, room, READ_ROOM, MSG_PEEK);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return n < 0 ? -errno : 0;
    end = memmem(c->in.data + c->off, c->in.len - c->off + (size_t)n, "\r\n\r\n", 4);
    return read_some(c->fd, room, end ? (size_t)(end + 4 - room) : (size_t)n);
}

/* More bytes into c->in: their number, 0 at the end, or -errno. Waits in poll() and not in read():
 * who sleeps there on a unix socket is also woken when the server takes the request. */
static ssize_t fill(struct http_client *c)
{
    char *room = buf_room(&c->in, READ_ROOM);
    ssize_t n = room ? await(c, POLLIN) : -EMSGSIZE;

    if (n == 0)
        n = c->upgrading ? read_head_only(c, room) : read_some(c->fd, room, READ_ROOM);
    if (n > 0)
        c->in.len += (size_t)n;
    return n;
}

static int bad_answer(struct http_client *c, struct err *err)
{
    hang_up(c);
    return err_set(err, ERR_UNAVAILABLE, "%s does not answer in HTTP/1.1", c->target);
}

static int parse_head(struct http_client *c, size_t end, struct err *err)
{
    llhttp_t parser;

    c->response = (struct http_response){0};
    c->wanted[0] = '\0';
    c->has_length = c->is_chunked = false;
    llhttp_init(&parser, HTTP_RESPONSE, &head_settings);
    parser.data = c;
    if (llhttp_execute(&parser, c->in.data + c->off, end - c->off) != HPE_PAUSED ||
        llhttp_get_error_pos(&parser) != c->in.data + end || c->response.status == 0)
        return bad_answer(c, err);
    c->off = end;
    if (c->body == BODY_CHUNKED)
        chunked_init(&c->chunked);
    return 0;
}

/* -1 with *ret_silent when the connection ended before a byte of an answer. */
static int read_head(struct http_client *c, bool *ret_silent, struct err *err)
{
    *ret_silent = false;
    for (;;) {
        char *start = c->in.data ? c->in.data + c->off : NULL;
        char *end = start ? memmem(start, c->in.len - c->off, "\r\n\r\n", 4) : NULL;
        ssize_t n;

        if (end) {
            if (parse_head(c, (size_t)(end + 4 - c->in.data), err) < 0)
                return -1;
            if (c->response.status >= 200 || c->response.status == 101)
                return 0;
            continue; /* 100 Continue and its like come before the answer */
        }
        n = fill(c);
        if (n == -EMSGSIZE)
            return bad_answer(c, err);
        if (n <= 0) {
            *ret_silent = c->in.len == 0 && n != -ECANCELED && n != -ETIMEDOUT;
            if (was_stopped(c, (int)n, err))
                return -1;
            return err_code(err, ERR_UNAVAILABLE, "connection_lost",
                            "%s closed the connection without an answer (%s)", c->target,
                            why((int)n));
        }
    }
}

static void answered(struct http_client *c, struct http_response *ret)
{
    c->kept = true;
    *ret = c->response;
    if (c->body == BODY_NONE && (!c->keep_alive || c->cut) && c->response.status != 101)
        hang_up(c);
}

static bool may_repeat(const char *method)
{
    return strcmp(method, "POST") != 0 && strcmp(method, "PATCH") != 0;
}

static int exchange(struct http_client *c, const char *method, const struct buf *head,
                    const void *body, size_t len, struct http_response *ret, struct err *err)
{
    bool silent;

    for (int tries = 0;; tries++) {
        struct iovec v[2] = {{head->data, head->len}, {(void *)body, len}};
        bool was_kept;

        if (ensure_connected(c, err) < 0)
            return -1;
        was_kept = c->kept;
        if (send_all(c, v, len ? 2 : 1, err) < 0) {
            hang_up(c);
            return -1;
        }
        if (read_head(c, &silent, err) == 0)
            break;
        /* The server may have closed the idle connection while we wrote. Not for a POST, which it
         * may have carried out. */
        if (!silent || !was_kept || tries > 0 || !may_repeat(method))
            return -1;
    }
    answered(c, ret);
    return 0;
}

int http_client_send(struct http_client *c, const char *method, const char *path, const char *type,
                     const void *body, size_t len, struct http_response *ret, struct err *err)
{
    auto_buf struct buf head = {0};

    if (request_head(c, &head, method, path, type, (int64_t)len, NULL, err) < 0)
        return -1;
    return exchange(c, method, &head, body, len, ret, err);
}

int http_client_begin(struct http_client *c, const char *method, const char *path, const char *type,
                      int64_t length, struct err *err)
{
    auto_buf struct buf head = {0};
    struct iovec v;

    if (request_head(c, &head, method, path, type, length, NULL, err) < 0 ||
        ensure_connected(c, err) < 0)
        return -1;
    c->sending = true;
    v = (struct iovec){head.data, head.len};
    return send_all(c, &v, 1, err);
}

int http_client_write(struct http_client *c, const void *data, size_t len, struct err *err)
{
    struct iovec v = {(void *)data, len};

    return send_all(c, &v, 1, err);
}

int http_client_finish(struct http_client *c, struct http_response *ret, struct err *err)
{
    bool silent;

    if (read_head(c, &silent, err) < 0)
        return -1;
    c->sending = false;
    answered(c, ret);
    return 0;
}

int http_client_upgrade(struct http_client *c, const char *path, const char *protocol,
                        const char *body, size_t len, struct http_response *ret, int *ret_fd,
                        struct err *err)
{
    auto_buf struct buf head = {0};

    if (!is_word(protocol))
        return err_set(err, ERR_INVALID, "the protocol is one word");
    if (request_head(c, &head, "POST", path, len ? "application/json" : NULL, (int64_t)len,
                     protocol, err) < 0 ||
        exchange(c, "POST", &head, body, len, ret, err) < 0)
        return -1;
    *ret_fd = -1;
    if (ret->status == 101) {
        *ret_fd = steal_fd(c->fd);
        hang_up(c);
    }
    return 0;
}

/* What came together with the head. */
static size_t take_early(struct http_client *c, void *data, size_t len)
{
    size_t have = c->in.len - c->off;

    if (len > have)
        len = have;
    if (len > 0)
        memcpy(data, c->in.data + c->off, len);
    c->off += len;
    return len;
}

/* The line end behind a chunk is no part of the body: who reads after it would wait for the next.
 */
static void skip_chunk_ends(struct http_client *c)
{
    struct chunked *k = &c->chunked;

    while (k->span_len == 0 && !k->done && c->off < c->in.len) {
        size_t used = 0;

        if (chunked_step(k, c->in.data + c->off, c->in.len - c->off, &used) < 0)
            return; /* the next read says so */
        c->off += used;
    }
}

bool http_client_wait(struct http_client *c, int timeout_ms)
{
    struct pollfd p[2] = {{.fd = c->fd, .events = POLLIN}, {.fd = c->stop_fd, .events = POLLIN}};

    if (c->fd >= 0 && c->body == BODY_CHUNKED) {
        skip_chunk_ends(c);
        if (c->chunked.span_len > 0 || c->chunked.done)
            return true;
    }
    if (c->fd < 0 || c->off < c->in.len || (c->body == BODY_NONE && !c->sending))
        return true; /* what has ended says so */
    return poll(p, 2, timeout_ms) > 0;
}

/* ---- the body of the answer ---- */

/* Buffered bytes first, then the socket's, without a copy between. */
static ssize_t read_raw(struct http_client *c, void *data, size_t len)
{
    size_t n = take_early(c, data, len);
    int r = n > 0 ? 0 : await(c, POLLIN);

    if (r < 0)
        return r;
    return n > 0 ? (ssize_t)n : read_some(c->fd, data, len);
}

static ssize_t read_chunked(struct http_client *c, void *data, size_t len)
{
    struct chunked *k = &c->chunked;

    while (k->span_len == 0) {
        size_t used = 0;

        if (k->done)
            return 0;
        if (c->off == c->in.len) {
            ssize_t n;

            buf_clear(&c->in);
            c->off = 0;
            n = fill(c);
            if (n <= 0)
                return n < 0 ? n : -EPIPE;
        }
        if (chunked_step(k, c->in.data + c->off, c->in.len - c->off, &used) < 0)
            return -EPROTO;
        c->off += used;
    }
    if (len > k->span_len)
        len = k->span_len;
    memcpy(data, k->span, len);
    k->span += len;
    k->span_len -= len;
    return (ssize_t)len;
}

static ssize_t read_body(struct http_client *c, void *data, size_t len)
{
    ssize_t n;

    switch (c->body) {
    case BODY_CHUNKED:
        return read_chunked(c, data, len);
    case BODY_UNTIL_CLOSE:
        return read_raw(c, data, len);
    case BODY_LENGTH:
        n = read_raw(c, data, (int64_t)len < c->left ? len : (size_t)c->left);
        if (n == 0)
            return -EPIPE;
        if (n > 0)
            c->left -= n;
        return n;
    case BODY_NONE:
        break;
    }
    return 0;
}

ssize_t http_client_read(struct http_client *c, void *data, size_t len, struct err *err)
{
    ssize_t n;

    if (c->body == BODY_NONE || len == 0)
        return 0;
    n = read_body(c, data, len);
    if (n < 0 && was_stopped(c, (int)n, err))
        return -1;
    if (n < 0)
        return err_code(err, ERR_UNAVAILABLE, "connection_lost", "the answer of %s broke off: %s",
                        c->target, why((int)n));
    if (n == 0 || (c->body == BODY_LENGTH && c->left == 0)) {
        bool reusable = c->keep_alive && !c->cut && c->body != BODY_UNTIL_CLOSE;

        c->body = BODY_NONE;
        if (!reusable)
            hang_up(c);
    }
    return n;
}

int http_client_body(struct http_client *c, size_t max, char **ret, size_t *ret_len,
                     struct err *err)
{
    auto_buf struct buf b = {0};

    buf_init(&b, max < SIZE_MAX ? max + 1 : max);
    for (;;) {
        size_t want = b.max - b.len < READ_ROOM ? b.max - b.len : READ_ROOM;
        ssize_t n = http_client_read(c, buf_room(&b, want), want, err);

        if (n < 0)
            return -1;
        if (n == 0)
            break;
        b.len += (size_t)n;
        if (b.len > max) {
            hang_up(c);
            return err_set(err, ERR_TOO_LARGE, "the answer of %s is larger than %zu bytes",
                           c->target, max);
        }
    }
    b.data[b.len] = '\0';
    *ret_len = b.len;
    *ret = buf_steal(&b);
    return 0;
}
