#include "http/websocket_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "http/answer.h"
#include "tap.h"

/* A server of one connection: our own side of the frames behind a handshake by hand. */
struct server {
    int listen_fd, fd;
    unsigned port;
    pthread_t thread;
    const char *answer;       /* in place of an upgrade; NULL = it upgrades */
    const char *more_headers; /* of the upgrade */
    const char *behind;       /* bytes in one piece with the head; NULL = none */
    size_t behind_len;
    bool silent;        /* it says nothing at all */
    bool wrong_accept;  /* of another key */
    char request[4096]; /* the head that came */
    void (*serve)(struct server *s, struct websocket *ws);
    size_t got; /* for serve */
    atomic_bool go;
};

static ssize_t server_read(void *arg, void *data, size_t len)
{
    ssize_t n = recv(((struct server *)arg)->fd, data, len, MSG_DONTWAIT);

    return n > 0 ? n : n < 0 && errno == EAGAIN ? 0 : -1;
}

static int server_write(void *arg, const void *data, size_t len)
{
    return write_all(((struct server *)arg)->fd, data, len);
}

static size_t server_unsent(void *arg)
{
    (void)arg;
    return 0;
}

/* The next message that comes to the server, or false at the end. */
static bool server_next(struct server *s, struct websocket *ws, struct websocket_message *m)
{
    for (;;) {
        struct pollfd p = {.fd = s->fd, .events = POLLIN};
        int r = websocket_next(ws, m);

        if (r != 0)
            return r > 0;
        CHECK(poll(&p, 1, PATIENCE_MS) == 1);
    }
}

static void echo(struct server *s, struct websocket *ws)
{
    struct websocket_message m;

    while (server_next(s, ws, &m)) {
        s->got += m.len;
        CHECK_INT(websocket_send(ws, m.is_text, m.data, m.len), 0);
    }
}

static void send_answer(struct server *s)
{
    const char *key = strstr(s->request, "Sec-WebSocket-Key: ");
    auto_buf struct buf b = {0};
    char accept[32];

    buf_init(&b, 64 << 10);
    if (s->answer) {
        (void)buf_add_str(&b, s->answer);
    } else {
        CHECK(key != NULL);
        websocket_accept_key(s->wrong_accept ? "dGhlIHNhbXBsZSBub25jZQ==" : key + 19, accept);
        (void)buf_addf(&b,
                       "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: "
                       "upgrade\r\nSec-WebSocket-Accept: %s\r\n%s\r\n",
                       accept, s->more_headers ? s->more_headers : "");
    }
    if (s->behind)
        (void)buf_add(&b, s->behind, s->behind_len);
    CHECK_INT(write_all(s->fd, b.data, b.len), 0);
}

static void *server_run(void *arg)
{
    struct server *s = arg;
    const struct websocket_io io = {server_read, server_write, server_unsent, s};
    size_t len = 0;
    char c;

    s->fd = accept(s->listen_fd, NULL, NULL);
    CHECK(s->fd >= 0);
    while (len < sizeof(s->request) - 1 && !strstr(s->request, "\r\n\r\n")) {
        ssize_t n = recv(s->fd, s->request + len, 1, 0);

        if (n <= 0)
            break;
        len += (size_t)n;
    }
    if (s->silent) {
        (void)recv(s->fd, &c, 1, 0);
    } else {
        send_answer(s);
        if (s->serve) {
            struct websocket *ws = websocket_new(&io, 1 << 20);

            s->serve(s, ws);
            websocket_free(ws);
        }
    }
    (void)close(s->fd);
    return NULL;
}

static void server_start(struct server *s)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);

    s->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(s->listen_fd >= 0 && bind(s->listen_fd, (struct sockaddr *)&a, len) == 0 &&
          listen(s->listen_fd, 4) == 0 &&
          getsockname(s->listen_fd, (struct sockaddr *)&a, &len) == 0);
    s->port = ntohs(a.sin_port);
    CHECK_INT(pthread_create(&s->thread, NULL, server_run, s), 0);
}

static void server_end(struct server *s)
{
    (void)pthread_join(s->thread, NULL);
    (void)close(s->listen_fd);
}

static struct websocket_client *dial(const struct server *s, const char *path, struct err *err)
{
    auto_free char *url = xasprintf("ws://127.0.0.1:%u%s", s->port, path);

    return websocket_dial(
        &(struct websocket_dial){
            .url = url, .timeout_ms = PATIENCE_MS, .stop_fd = -1, .message_max = 1 << 20},
        err);
}

static void check_url(const char *url, const char *host, const char *target)
{
    struct websocket_url u = {0};
    struct err err = {0};

    if (!host) {
        CHECK_INT(websocket_url_parse(url, &u, &err), -1);
        CHECK_INT(err.kind, ERR_INVALID);
        return;
    }
    CHECK_INT(websocket_url_parse(url, &u, &err), 0);
    CHECK_STR(u.host, host);
    CHECK_STR(u.target, target);
    websocket_url_done(&u);
}

TEST(addresses_are_taken_apart)
{
    check_url("ws://h", "h", "/");
    check_url("WS://127.0.0.1:49134", "127.0.0.1:49134", "/");
    check_url("ws://[::1]:80/a/b?c=d", "[::1]:80", "/a/b?c=d");
    check_url("ws://[::1]", "[::1]", "/");
    check_url("ws://h?x=1", "h", "/?x=1");
    check_url("http://h", NULL, NULL);
    check_url("ws://", NULL, NULL);
    check_url("ws://h:0", NULL, NULL);
    check_url("ws://h:65536", NULL, NULL);
    check_url("ws://h:", NULL, NULL);
    check_url("ws://h:80:80", NULL, NULL);
    check_url("ws://[::1", NULL, NULL);
    check_url("ws://[::1]x", NULL, NULL);
    check_url("ws://user@h", NULL, NULL);
    check_url("ws://h/a b", NULL, NULL);
    check_url("ws://h/\r\nX: y", NULL, NULL);
    check_url("ws://h/#x", NULL, NULL);
    check_url("h:80", NULL, NULL);
}

TEST(an_address_with_tls_says_what_to_do)
{
    struct websocket_url u = {0};
    struct err err = {0};

    CHECK_INT(websocket_url_parse("wss://engine.example", &u, &err), -1);
    CHECK_INT(err.kind, ERR_UNSUPPORTED);
    CHECK(strstr(err.text, "proxy") != NULL);
}

TEST(messages_go_both_ways)
{
    struct server s = {.serve = echo};
    struct websocket_message m;
    struct websocket_client *c;
    struct err err = {0};

    server_start(&s);
    c = dial(&s, "/ws/channels/1?key=2", &err);
    CHECK(c != NULL);
    CHECK(strstr(s.request, "GET /ws/channels/1?key=2 HTTP/1.1\r\nHost: 127.0.0.1:") == s.request);
    CHECK_INT(websocket_client_next(c, 0, &m, &err), 0);
    CHECK_INT(websocket_client_send(c, true, "{}", 2, 1000, &err), 0);
    CHECK_INT(websocket_client_next(c, PATIENCE_MS, &m, &err), 1);
    CHECK(m.is_text && m.len == 2 && memcmp(m.data, "{}", 2) == 0);
    CHECK_INT(websocket_client_send(c, false, "", 0, 1000, &err), 0);
    CHECK_INT(websocket_client_next(c, PATIENCE_MS, &m, &err), 1);
    CHECK(!m.is_text && m.len == 0);
    websocket_client_close(c, WEBSOCKET_NORMAL, "over", 5000);
    CHECK_INT(websocket_client_next(c, 0, &m, &err), -1);
    websocket_client_free(c);
    server_end(&s);
}

TEST(headers_of_the_caller_are_sent)
{
    char *headers[] = {"Authorization: Bearer x", NULL}, *bad[] = {"A: b\r\nC: d", NULL};
    struct server s = {.serve = echo};
    auto_free char *url = NULL;
    struct websocket_dial d = {
        .timeout_ms = PATIENCE_MS, .headers = headers, .stop_fd = -1, .message_max = 100};
    struct websocket_client *c;
    struct err err = {0};

    server_start(&s);
    d.url = url = xasprintf("ws://localhost:%u", s.port);
    c = websocket_dial(&d, &err);
    CHECK(c != NULL);
    CHECK(strstr(s.request, "\r\nAuthorization: Bearer x\r\n") != NULL);
    websocket_client_free(c);
    server_end(&s);

    s = (struct server){.answer = ""};
    server_start(&s);
    free(url);
    d.url = url = xasprintf("ws://localhost:%u", s.port);
    d.headers = bad;
    CHECK(websocket_dial(&d, &err) == NULL);
    CHECK_INT(err.kind, ERR_INVALID);
    server_end(&s);
}

TEST(what_comes_with_the_handshake_is_not_lost)
{
    struct server s = {.serve = echo, .behind = "\x81\x02{}\x82\x01x", .behind_len = 7};
    struct websocket_message m;
    struct websocket_client *c;
    struct err err = {0};

    server_start(&s);
    c = dial(&s, "", &err);
    CHECK(c != NULL);
    CHECK_INT(websocket_client_next(c, PATIENCE_MS, &m, &err), 1);
    CHECK(m.is_text && m.len == 2);
    CHECK_INT(websocket_client_next(c, PATIENCE_MS, &m, &err), 1);
    CHECK(!m.is_text && m.len == 1);
    websocket_client_free(c);
    server_end(&s);
}

static void check_dial(struct server *s, enum err_kind kind, const char *text)
{
    struct err err = {0};

    server_start(s);
    CHECK(dial(s, "", &err) == NULL);
    CHECK_INT(err.kind, kind);
    if (!strstr(err.text, text))
        TAP_FAIL("\"%s\" has no \"%s\"", err.text, text);
    server_end(s);
}

TEST(another_status_is_told_with_its_text)
{
    check_dial(&(struct server){.answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 15\r\n\r\nno "
                                          "such\nchannel"},
               ERR_NOT_FOUND, "404 Not Found: no such channel");
    check_dial(&(struct server){.answer = "HTTP/1.1 401 Unauthorized\r\n\r\nwho\x01\xff"},
               ERR_UNAUTHORIZED, "401 Unauthorized: who ");
    check_dial(&(struct server){.answer = "HTTP/1.1 502 Bad\r\nContent-Length: 0\r\n\r\n"},
               ERR_UNAVAILABLE, "502");
    /* Its own fault, and none of ours. */
    check_dial(&(struct server){.answer = "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"},
               ERR_UNAVAILABLE, "500 Oh");
    check_dial(&(struct server){.answer = "HTTP/1.1 501 No\r\nContent-Length: 0\r\n\r\n"},
               ERR_UNAVAILABLE, "501 No");
    check_dial(&(struct server){.answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
                                          "chunked\r\n\r\n0\r\n\r\n"},
               ERR_INVALID, "200 OK");
}

TEST(a_handshake_that_is_not_right_is_refused)
{
    auto_free char *longest = xmalloc(32 << 10);

    check_dial(&(struct server){.wrong_accept = true}, ERR_UNAVAILABLE, "another key");
    check_dial(&(struct server){.more_headers = "Sec-WebSocket-Extensions: permessage-deflate\r\n"},
               ERR_UNAVAILABLE, "not offered");
    check_dial(&(struct server){.more_headers = "Sec-WebSocket-Protocol: x\r\n"}, ERR_UNAVAILABLE,
               "not offered");
    check_dial(&(struct server){.more_headers = "Sec-WebSocket-Accept: x\r\n"}, ERR_UNAVAILABLE,
               "or two");
    check_dial(&(struct server){.answer = "HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: "
                                          "upgrade\r\n\r\n"},
               ERR_UNAVAILABLE, "no Sec-WebSocket-Accept");
    check_dial(&(struct server){.answer = "HTTP/1.1 101 OK\r\nUpgrade: h2c\r\nConnection: "
                                          "upgrade\r\n\r\n"},
               ERR_UNAVAILABLE, "something else");
    check_dial(&(struct server){.answer = "SSH-2.0-x\r\n\r\n"}, ERR_UNAVAILABLE, "cannot be read");
    check_dial(&(struct server){.answer = "\x16\x03\x01"}, ERR_UNAVAILABLE, "cannot be read");
    check_dial(&(struct server){.answer = "HTTP/1.1 1"}, ERR_UNAVAILABLE, "hung up");
    memset(longest, 'a', 32 << 10);
    memcpy(longest, "HTTP/1.1 101 OK\r\nX: ", 20);
    longest[(32 << 10) - 1] = '\0';
    check_dial(&(struct server){.answer = longest}, ERR_UNAVAILABLE, "too many headers");
}

TEST(nobody_there_and_nothing_said_are_told)
{
    struct server s = {.silent = true};
    auto_free char *url = NULL;
    struct websocket_dial d = {.url = "ws://127.0.0.1:1", .timeout_ms = 50, .stop_fd = -1};
    struct err err = {0};
    int stop[2];

    CHECK(websocket_dial(&d, &err) == NULL);
    CHECK_INT(err.kind, ERR_UNAVAILABLE);
    CHECK_INT(err.sys, ECONNREFUSED);
    server_start(&s);
    d.url = url = xasprintf("ws://127.0.0.1:%u", s.port);
    CHECK(websocket_dial(&d, &err) == NULL);
    CHECK_STR(err.code, "timeout");
    server_end(&s);

    s = (struct server){.silent = true};
    server_start(&s);
    free(url);
    d.url = url = xasprintf("ws://127.0.0.1:%u", s.port);
    CHECK(pipe(stop) == 0 && write(stop[1], "x", 1) == 1);
    d.stop_fd = stop[0];
    d.timeout_ms = 60000;
    CHECK(websocket_dial(&d, &err) == NULL);
    CHECK_STR(err.code, "cancelled");
    server_end(&s);
    (void)close(stop[0]);
    (void)close(stop[1]);
}

/* Reads nothing until it is told to. */
static void count_late(struct server *s, struct websocket *ws)
{
    struct websocket_message m;

    while (!atomic_load(&s->go))
        (void)poll(NULL, 0, 1);
    while (server_next(s, ws, &m)) {
        s->got += m.len;
        if (m.is_text)
            break;
    }
    CHECK_INT(websocket_send(ws, true, "all", 3), 0);
}

TEST(what_the_server_does_not_take_is_kept_and_sent_later)
{
    struct server s = {.serve = count_late};
    auto_free char *piece = xcalloc(1, 64 << 10);
    struct websocket_message m;
    struct websocket_client *c;
    struct err err = {0};
    size_t sent = 0;
    bool kept = false;

    server_start(&s);
    c = dial(&s, "", &err);
    CHECK(c != NULL);
    while (sent < (64u << 20)) {
        if (websocket_client_unsent(c) > (256u << 10)) {
            struct pollfd p = {.fd = websocket_client_fd(c), .events = websocket_client_events(c)};

            kept = true;
            atomic_store(&s.go, true);
            CHECK((p.events & POLLOUT) && poll(&p, 1, PATIENCE_MS) == 1);
            CHECK_INT(websocket_client_flush(c), 0);
            continue;
        }
        CHECK_INT(websocket_send(websocket_client_socket(c), false, piece, 64 << 10), 0);
        sent += 64 << 10;
    }
    CHECK_INT(websocket_client_send(c, true, "end", 3, PATIENCE_MS, &err), 0);
    CHECK_INT(websocket_client_next(c, PATIENCE_MS, &m, &err), 1);
    CHECK_INT(s.got, sent + 3);
    CHECK(kept);
    CHECK_INT(websocket_client_unsent(c), 0);
    websocket_client_free(c);
    server_end(&s);
}

static void hang(struct server *s, struct websocket *ws)
{
    char c;

    (void)ws;
    while (!atomic_load(&s->go) && recv(s->fd, &c, 1, MSG_PEEK) > 0)
        (void)poll(NULL, 0, 1);
}

TEST(what_may_be_unsent_is_bounded)
{
    struct server s = {.serve = hang};
    auto_free char *url = NULL, *piece = xcalloc(1, 64 << 10);
    struct websocket_client *c;
    struct err err = {0};
    size_t sent = 0;

    server_start(&s);
    url = xasprintf("ws://127.0.0.1:%u", s.port);
    c = websocket_dial(&(struct websocket_dial){.url = url,
                                                .timeout_ms = PATIENCE_MS,
                                                .stop_fd = -1,
                                                .message_max = 100,
                                                .unsent_max = 256 << 10},
                       &err);
    CHECK(c != NULL);
    while (websocket_send(websocket_client_socket(c), false, piece, 64 << 10) == 0)
        sent += 64 << 10;
    CHECK(sent >= (256u << 10) && sent < (64u << 20));
    CHECK_INT(websocket_client_flush(c), -1);
    CHECK(websocket_client_send(c, true, "x", 1, 100, &err) < 0);
    CHECK_STR(err.code, "connection_lost");
    atomic_store(&s.go, true);
    websocket_client_free(c);
    server_end(&s);
}

static void close_with(struct server *s, struct websocket *ws)
{
    struct websocket_message m;

    (void)server_next(s, ws, &m);
    websocket_close(ws, m.data[0] == 'n' ? WEBSOCKET_NORMAL : WEBSOCKET_POLICY, "no");
}

TEST(an_end_in_order_is_told_from_a_loss)
{
    for (int normal = 0; normal < 2; normal++) {
        struct server s = {.serve = close_with};
        struct websocket_message m;
        struct websocket_client *c;
        struct err err = {0};

        server_start(&s);
        c = dial(&s, "", &err);
        CHECK(c != NULL);
        CHECK_INT(websocket_client_send(c, true, normal ? "n" : "p", 1, 1000, &err), 0);
        CHECK_INT(websocket_client_next(c, PATIENCE_MS, &m, &err), -1);
        CHECK_INT(err.kind, normal ? ERR_NONE : ERR_UNAVAILABLE);
        CHECK_INT(websocket_peer_code(websocket_client_socket(c)), normal ? 1000 : 1008);
        websocket_client_free(c);
        server_end(&s);
    }
}

TEST(a_server_that_masks_or_is_too_long_is_closed)
{
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {
        {"\x81\x82\x01\x02\x03\x04{}", 8},   /* masked */
        {"\x82\x7f\0\0\0\0\x40\0\0\0x", 11}, /* a GB, with its first byte */
        {"\x81\x02\xff\xff", 4},             /* no UTF-8 */
        {"\xc1\x02{}", 4},                   /* a reserved bit */
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct server s = {.serve = echo, .behind = bad[i].bytes, .behind_len = bad[i].len};
        struct websocket_message m;
        struct websocket_client *c;
        struct err err = {0};

        server_start(&s);
        c = dial(&s, "", &err);
        CHECK(c != NULL);
        CHECK_INT(websocket_client_next(c, PATIENCE_MS, &m, &err), -1);
        websocket_client_free(c);
        server_end(&s);
        CHECK_INT(s.got, 0);
    }
}

TEST(a_server_that_is_silent_is_found_out)
{
    struct server s = {.serve = hang};
    struct websocket_client *c;
    struct err err = {0};
    int64_t from = mono_ns();
    int r = 0;

    server_start(&s);
    c = dial(&s, "", &err);
    CHECK(c != NULL);
    websocket_set_pings(websocket_client_socket(c), 10000000, 2);
    while (r == 0) {
        (void)poll(NULL, 0, 1);
        r = websocket_keep_alive(websocket_client_socket(c), true);
    }
    CHECK_INT(r, -1);
    CHECK(mono_ns() - from >= 30000000);
    atomic_store(&s.go, true);
    websocket_client_free(c);
    server_end(&s);
}

TAP_MAIN
