#include "http/websocket_client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/answer.h"
#include "http/http_internal.h"

#define HEAD_MAX   (16u << 10)
#define HEADERS    (8u << 10) /* of those that the caller adds */
#define READ_ROOM  4096
#define REASON_MS  500 /* for the text of a refusal, which is of use but not needed */
#define REASON_MAX 160
#define CLOSED_OK  1005 /* what a Close without a code counts as */

struct websocket_client {
    int fd;
    struct websocket *ws;
    struct buf early; /* what came behind the handshake */
    size_t early_at;
    struct buf unsent; /* from unsent_at on */
    size_t unsent_at;
    bool gone;
};

/* ---- addresses ---- */

static bool is_word(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s <= 0x20 || (unsigned char)*s >= 0x7f)
            return false;
    return true;
}

/* "name", "name:port", "[v6]", "[v6]:port", with a port that there can be. */
static bool is_host(const char *host, size_t len)
{
    const char *end = host + len, *port;

    if (len == 0 || memchr(host, '@', len))
        return false;
    port = *host == '[' ? memchr(host, ']', len) : memchr(host, ':', len);
    if (!port)
        return *host != '[';
    if (*host == '[')
        port++;
    if (port == host || (port < end && *port != ':'))
        return false;
    if (port < end) {
        auto_free char *digits = xstrndup(port + 1, (size_t)(end - port - 1));
        uint64_t n;

        return str_u64(digits, &n) == 0 && n > 0 && n <= 65535;
    }
    return true;
}

int websocket_url_parse(const char *url, struct websocket_url *ret, struct err *err)
{
    const char *host;
    size_t len;

    if (strncasecmp(url, "wss://", 6) == 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "%.100s: TLS is not spoken here; run a proxy that does (stunnel, nginx) and "
                       "give its ws:// address",
                       url);
    if (strncasecmp(url, "ws://", 5) != 0 || !is_word(url) || strchr(url, '#'))
        return err_code(err, ERR_INVALID, "bad_url", "%.100s is not ws://host:port", url);
    host = url + 5;
    len = strcspn(host, "/?");
    if (!is_host(host, len))
        return err_code(err, ERR_INVALID, "bad_url", "%.100s has no host, or none with a port",
                        url);
    ret->host = xstrndup(host, len);
    ret->target = host[len] == '/' ? xstrdup(host + len) : xasprintf("/%s", host + len);
    return 0;
}

void websocket_url_done(struct websocket_url *url)
{
    free(url->host);
    free(url->target);
    *url = (struct websocket_url){0};
}

/* ---- the connection's bytes ---- */

static ssize_t client_read(void *arg, void *data, size_t len)
{
    struct websocket_client *c = arg;
    size_t early = c->early.len - c->early_at;
    ssize_t n;

    if (early > 0) {
        if (len > early)
            len = early;
        memcpy(data, c->early.data + c->early_at, len);
        c->early_at += len;
        if (c->early_at == c->early.len) {
            buf_done(&c->early);
            c->early_at = 0;
        }
        return (ssize_t)len;
    }
    do
        n = recv(c->fd, data, len, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return 0;
    return n > 0 ? n : -1;
}

/* How much of it has left, or -1. */
static ssize_t send_some(struct websocket_client *c, const char *data, size_t len)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = send(c->fd, data + done, len - done, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0 && errno != EINTR) {
            c->gone = true;
            return -1;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)done;
}

int websocket_client_flush(struct websocket_client *c)
{
    ssize_t n;

    if (c->gone)
        return -1;
    if (c->unsent_at == c->unsent.len)
        return 0;
    n = send_some(c, c->unsent.data + c->unsent_at, c->unsent.len - c->unsent_at);
    if (n < 0)
        return -1;
    c->unsent_at += (size_t)n;
    if (c->unsent_at == c->unsent.len) {
        c->unsent_at = 0;
        buf_done(&c->unsent); /* one that is silent holds nothing */
        buf_init(&c->unsent, c->unsent.max);
    }
    return 0;
}

static int client_write(void *arg, const void *data, size_t len)
{
    struct websocket_client *c = arg;
    ssize_t n = 0;

    if (websocket_client_flush(c) < 0)
        return -1;
    if (c->unsent.len == 0)
        n = send_some(c, data, len);
    if (n < 0)
        return -1;
    if ((size_t)n == len)
        return 0;
    /* Not after every piece that leaves: it may be much that has to be moved. */
    if (c->unsent_at > c->unsent.len / 2) {
        buf_shift(&c->unsent, c->unsent_at);
        c->unsent_at = 0;
    }
    c->gone = buf_add(&c->unsent, (const char *)data + n, len - (size_t)n) < 0;
    return c->gone ? -1 : 0;
}

static size_t client_unsent(void *arg)
{
    return websocket_client_unsent(arg);
}

int websocket_client_fd(const struct websocket_client *c)
{
    return c->fd;
}

struct websocket *websocket_client_socket(struct websocket_client *c)
{
    return c->ws;
}

size_t websocket_client_unsent(const struct websocket_client *c)
{
    return c->unsent.len - c->unsent_at;
}

bool websocket_client_wants_write(const struct websocket_client *c)
{
    return websocket_client_unsent(c) > 0;
}

short websocket_client_events(const struct websocket_client *c)
{
    return (short)((websocket_takes(c->ws) ? POLLIN : 0) |
                   (websocket_client_wants_write(c) ? POLLOUT : 0));
}

/* ---- the handshake ---- */

static void new_key(char ret[32])
{
    auto_buf struct buf text = {0};
    unsigned char bytes[16];

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        abort();
    buf_init(&text, 32);
    (void)base64_encode(&text, bytes, sizeof(bytes));
    (void)snprintf(ret, 32, "%s", text.data);
}

static int add_headers(struct buf *b, char *const *headers, struct err *err)
{
    for (char *const *h = headers; h && *h; h++) {
        if (strpbrk(*h, "\r\n") || !strchr(*h, ':') || b->len > HEADERS)
            return err_set(err, ERR_INVALID, "\"%.40s\" is no header as in \"Name: value\"", *h);
        (void)buf_addf(b, "%s\r\n", *h);
    }
    return 0;
}

/* Until then, or until there is no point in waiting: 0 or -errno. */
static int await(const struct websocket_client *c, short events, int stop_fd, int64_t until_ns)
{
    struct pollfd p[2] = {{.fd = c->fd, .events = events}, {.fd = stop_fd, .events = POLLIN}};
    int n;

    do {
        int64_t left = until_ns - mono_ns();

        if (until_ns && left <= 0)
            return -ETIMEDOUT;
        n = poll(p, 2, until_ns ? (int)(left / 1000000 + 1) : -1);
    } while (n == 0 || (n < 0 && errno == EINTR));
    if (n < 0)
        return -errno;
    return p[1].revents ? -ECANCELED : 0;
}

static int64_t deadline(int timeout_ms)
{
    return timeout_ms < 0 ? 0 : mono_ns() + timeout_ms * 1000000ll;
}

static int send_request(struct websocket_client *c, const struct websocket_url *url,
                        const struct websocket_dial *dial, const char *key, struct err *err)
{
    auto_buf struct buf b = {0};

    buf_init(&b, HEAD_MAX);
    (void)buf_addf(&b,
                   "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                   "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n",
                   url->target, url->host, key);
    if (add_headers(&b, dial->headers, err) < 0)
        return -1;
    if (buf_add_str(&b, "\r\n") < 0)
        return err_set(err, ERR_TOO_LARGE, "the address is too long");
    /* A new connection takes more than this at once. */
    if (client_write(c, b.data, b.len) < 0)
        return err_set(err, ERR_UNAVAILABLE, "%s has hung up", url->host);
    return 0;
}

/* More of what the server says: bytes, or 0 at its end, or -errno. */
static ssize_t read_more(struct websocket_client *c, struct buf *in, int stop_fd, int64_t until_ns)
{
    char *room = buf_room(in, READ_ROOM);
    ssize_t n;

    if (!room)
        return -EMSGSIZE;
    do {
        int r = await(c, (short)(POLLIN | (websocket_client_wants_write(c) ? POLLOUT : 0)), stop_fd,
                      until_ns);

        if (r < 0)
            return r;
        (void)websocket_client_flush(c);
        n = recv(c->fd, room, READ_ROOM, MSG_DONTWAIT);
    } while (n < 0 && (errno == EINTR || errno == EAGAIN));
    if (n > 0)
        in->len += (size_t)n;
    return n < 0 ? -errno : n;
}

static int no_answer(const char *host, ssize_t e, struct err *err)
{
    if (e == -ECANCELED)
        return err_code(err, ERR_CONFLICT, "cancelled", "the call was cancelled");
    if (e == -ETIMEDOUT)
        return err_code(err, ERR_UNAVAILABLE, "timeout", "%.100s does not answer", host);
    if (e == -EMSGSIZE)
        return err_set(err, ERR_UNAVAILABLE, "%.100s answers with too many headers", host);
    (void)err_set(err, ERR_UNAVAILABLE, "%.100s: %s", host,
                  e < 0 ? strerror((int)-e) : "it hung up before it answered");
    if (err && e < 0)
        err->sys = (int)-e;
    return -1;
}

static bool list_has(const struct http_answer *a, const char *name, const char *word)
{
    for (unsigned i = 0; i < a->count; i++)
        if (strcasecmp(a->fields[i].name, name) == 0 && http_list_has(a->fields[i].value, word))
            return true;
    return false;
}

int websocket_answer_check(const struct http_answer *a, const char *accept, struct err *err)
{
    const char *why = NULL;
    unsigned accepts = 0;

    for (unsigned i = 0; i < a->count; i++)
        if (strcasecmp(a->fields[i].name, "Sec-WebSocket-Accept") == 0) {
            accepts++;
            if (strcmp(a->fields[i].value, accept) != 0)
                why = "its Sec-WebSocket-Accept is of another key";
        }
    if (!list_has(a, "Upgrade", "websocket") || !list_has(a, "Connection", "upgrade"))
        why = "it upgrades to something else";
    else if (accepts != 1)
        why = "it has no Sec-WebSocket-Accept, or two";
    else if (http_answer_find(a, "Sec-WebSocket-Extensions") ||
             http_answer_find(a, "Sec-WebSocket-Protocol"))
        why = "it has chosen an extension or a subprotocol that was not offered";
    if (a->http10 || a->chunked || a->length > 0)
        why = "it has a body";
    return why ? err_set(err, ERR_UNAVAILABLE, "the server does not speak WebSocket: %s", why) : 0;
}

/* A fault of the server's is none of ours. */
static enum err_kind kind_of(int status)
{
    if (status >= 500)
        return ERR_UNAVAILABLE;
    for (int k = ERR_INVALID; k < ERR_KINDS; k++)
        if (err_kind_status((enum err_kind)k) == status)
            return (enum err_kind)k;
    return ERR_INVALID;
}

/* What the server says of it: the start of a body that is text, in one line. */
static int refused(struct websocket_client *c, const struct http_answer *a, struct buf *in,
                   size_t head, int stop_fd, struct err *err)
{
    auto_buf struct buf text = {0};
    int64_t until = deadline(REASON_MS);
    size_t want = a->length < 0 || a->length > REASON_MAX ? REASON_MAX : (size_t)a->length;

    /* Its strings point into what may move when more comes. */
    buf_init(&text, 4 * REASON_MAX + 64);
    (void)buf_addf(&text, "%.40s", a->reason);
    if (!a->chunked) {
        auto_buf struct buf body = {0};

        buf_init(&body, REASON_MAX + READ_ROOM);
        (void)buf_add(&body, in->data + head,
                      in->len - head < REASON_MAX ? in->len - head : REASON_MAX);
        while (body.len < want && read_more(c, &body, stop_fd, until) > 0)
            ;
        if (body.len > 0) {
            (void)buf_add_str(&text, text.len ? ": " : "");
            (void)utf8_clean(&text, body.data,
                             utf8_cut(body.data, body.len < want ? body.len : want));
        }
    }
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7f)
            text.data[i] = ' ';
    while (text.len > 0 && text.data[text.len - 1] == ' ')
        text.data[--text.len] = '\0';
    return err_code(err, kind_of(a->status), "refused", "the server answers %d %.180s", a->status,
                    text.len ? text.data : "");
}

static int shake_hands(struct websocket_client *c, const struct websocket_url *url,
                       const struct websocket_dial *dial, struct err *err)
{
    auto_free struct http_answer *answer = xcalloc(1, sizeof(*answer));
    auto_buf struct buf in = {0};
    int64_t until = deadline(dial->timeout_ms);
    char key[32], accept[32];
    const char *why;
    ssize_t end = 0, n;

    new_key(key);
    websocket_accept_key(key, accept);
    buf_init(&in, HEAD_MAX + READ_ROOM);
    if (send_request(c, url, dial, key, err) < 0)
        return -1;
    while (end == 0) {
        size_t from = in.len > 3 ? in.len - 3 : 0;

        n = in.len >= HEAD_MAX ? -EMSGSIZE : read_more(c, &in, dial->stop_fd, until);
        if (n <= 0)
            return no_answer(url->host, n, err);
        end = http_answer_end(in.data, in.len, from);
    }
    why = end < 0 ? "it is no HTTP" : http_answer_parse(answer, in.data, (size_t)end);
    if (why)
        return err_set(err, ERR_UNAVAILABLE, "%.80s answers with what cannot be read: %s",
                       url->host, why);
    if (answer->status != 101)
        return refused(c, answer, &in, (size_t)end, dial->stop_fd, err);
    if (websocket_answer_check(answer, accept, err) < 0)
        return -1;
    return buf_add(&c->early, in.data + end, in.len - (size_t)end) < 0 ? -1 : 0;
}

static int dial_fd(const struct websocket_url *url, const struct websocket_dial *dial,
                   struct err *err)
{
    int fd = client_dial(url->host, dial->timeout_ms, dial->stop_fd);

    if (fd == -ECANCELED)
        return no_answer(url->host, fd, err);
    if (fd < 0) {
        (void)err_set(err, ERR_UNAVAILABLE, "nobody answers at %.100s (%s)", url->host,
                      strerror(-fd));
        if (err)
            err->sys = -fd;
        return -1;
    }
    if (fd_set_nonblock(fd, true) < 0)
        abort();
    return fd;
}

struct websocket_client *websocket_dial(const struct websocket_dial *dial, struct err *err)
{
    struct websocket_client *c = xcalloc(1, sizeof(*c));
    const struct websocket_io io = {client_read, client_write, client_unsent, c};
    struct websocket_url url = {0};
    int r;

    c->fd = -1;
    buf_init(&c->early, HEAD_MAX + READ_ROOM);
    buf_init(&c->unsent, dial->unsent_max ? dial->unsent_max : WEBSOCKET_UNSENT_DEFAULT);
    r = websocket_url_parse(dial->url, &url, err);
    if (r == 0) {
        c->fd = dial_fd(&url, dial, err);
        r = c->fd < 0 ? -1 : shake_hands(c, &url, dial, err);
    }
    websocket_url_done(&url);
    if (r < 0) {
        websocket_client_free(c);
        return NULL;
    }
    c->ws = websocket_new_client(&io, dial->message_max);
    return c;
}

void websocket_client_free(struct websocket_client *c)
{
    if (!c)
        return;
    websocket_free(c->ws);
    close_fd(&c->fd);
    buf_done(&c->early);
    buf_done(&c->unsent);
    free(c);
}

/* ---- with waiting ---- */

static int lost(const struct websocket_client *c, struct err *err)
{
    unsigned code = websocket_peer_code(c->ws);

    if (code == WEBSOCKET_NORMAL || code == CLOSED_OK) {
        if (err)
            *err = (struct err){0};
        return -1;
    }
    if (code)
        return err_code(err, ERR_UNAVAILABLE, "connection_lost",
                        "the server has closed the connection with code %u", code);
    return err_code(err, ERR_UNAVAILABLE, "connection_lost", "the connection was lost");
}

int websocket_client_send(struct websocket_client *c, bool is_text, const void *data, size_t len,
                          int timeout_ms, struct err *err)
{
    int64_t until = deadline(timeout_ms);

    if (websocket_send(c->ws, is_text, data, len) < 0)
        return lost(c, err) < 0 && err && err->kind == ERR_NONE
                   ? err_code(err, ERR_UNAVAILABLE, "connection_lost", "the server has closed")
                   : -1;
    while (websocket_client_wants_write(c)) {
        int r = await(c, POLLOUT, -1, until);

        if (r == -ETIMEDOUT)
            return err_code(err, ERR_TIMEOUT, "timeout", "the server does not take what is sent");
        if (r < 0 || websocket_client_flush(c) < 0)
            return err_code(err, ERR_UNAVAILABLE, "connection_lost", "the connection was lost");
    }
    return 0;
}

int websocket_client_next(struct websocket_client *c, int timeout_ms, struct websocket_message *ret,
                          struct err *err)
{
    int64_t until = deadline(timeout_ms);

    for (;;) {
        int r = websocket_next(c->ws, ret), waited;

        if (r > 0)
            return 1;
        if (r < 0 || c->gone)
            return lost(c, err);
        waited = await(c, websocket_client_events(c), -1, until);
        if (waited == -ETIMEDOUT)
            return 0;
        if (waited < 0 || websocket_client_flush(c) < 0)
            return lost(c, err);
    }
}

void websocket_client_close(struct websocket_client *c, unsigned code, const char *reason,
                            int timeout_ms)
{
    int64_t until = deadline(timeout_ms);
    struct websocket_message m;

    websocket_close(c->ws, code, reason);
    while (websocket_next(c->ws, &m) >= 0 && !c->gone)
        if (!websocket_has_message(c->ws) &&
            (await(c, websocket_client_events(c), -1, until) < 0 || websocket_client_flush(c) < 0))
            break;
}
