#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/server.h"
#include "http/websocket.h"
#include "iii/channels_internal.h"
#include "service/services.h"
#include "tap.h"

#define PIECE (64u << 10)

/* ---- a hub with nothing but channels, behind a server on 127.0.0.1 ---- */

static struct iii_hub hub;
static struct http_server *server;
static int port, linger_ms; /* of the second 0 = the default */
static struct budget streams;
static struct iii_asker anna = {.caller.name = "anna"}, bert = {.caller.name = "bert"};

static void handle(struct http_req *req, void *arg)
{
    const char *path = http_req_path(req);

    (void)arg;
    if (!str_starts(path, "/ws/channels/") || !iii_handle_channel(req, NULL, NULL, NULL, &hub))
        http_reply(req, 404, "text/plain", "none", 4);
}

static void begin_with(size_t budget)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct err err = {0};
    char accept[32];

    /* What libcrypto makes once is made here: a worker's would look lost while that thread ends. */
    websocket_accept_key("dGhlIHNhbXBsZSBub25jZQ==", accept);
    budget_init(&streams, budget);
    hub.config.streams = &streams;
    hub.runner = runner_new(8);
    CHECK_INT(runner_start(hub.runner, &err), 0);
    hub.channels = iii_channels_new(&hub);
    anna.share = iii_share_new(&anna.caller);
    bert.share = iii_share_new(&bert.caller);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 200) == 0 &&
          getsockname(fd, (struct sockaddr *)&a, &len) == 0);
    port = ntohs(a.sin_port);
    limits.linger_ms = linger_ms;
    server = http_server_new(&limits, handle, NULL);
    CHECK_INT(http_server_listen(server, fd, true, &err), 0);
    CHECK_INT(http_server_start(server, &err), 0);
}

static size_t used(void)
{
    size_t n;

    (void)pthread_mutex_lock(&streams.lock);
    n = streams.used;
    (void)pthread_mutex_unlock(&streams.lock);
    return n;
}

static void begin(void)
{
    begin_with(48u << 20);
}

/* As a daemon does; nothing may be left. */
static void end(void)
{
    http_server_stop(server, 0);
    runner_stop(hub.runner);
    CHECK_INT(iii_channels_held(hub.channels), 0);
    iii_channels_free(hub.channels);
    iii_share_unref(anna.share);
    iii_share_unref(bert.share);
    runner_free(hub.runner);
    http_server_free(server);
    CHECK_INT(used(), 0);
    budget_done(&streams);
}

static json_t *make(unsigned items, const struct iii_asker *maker)
{
    struct err err = {0};
    json_t *refs = iii_channel_new(hub.channels, items, maker, &err);

    CHECK(refs);
    return refs;
}

/* ---- a client ---- */

/* The status of the answer; *ret_fd is connected. */
static int ask(const char *id, const char *key, const char *dir, bool upgrade, int *ret_fd)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons((uint16_t)port)};
    char text[2048];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), n, on = 1;

    CHECK_INT(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    n = snprintf(text, sizeof(text),
                 "GET /ws/channels/%s?key=%s&dir=%s HTTP/1.1\r\nHost: x\r\n%s\r\n", id, key, dir,
                 upgrade ? "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "
                           "13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                         : "");
    CHECK_INT(send(fd, text, (size_t)n, MSG_NOSIGNAL), n);
    n = 0;
    do {
        CHECK(n < (int)sizeof(text) - 1 && recv(fd, text + n, 1, 0) == 1);
        text[++n] = '\0';
    } while (!strstr(text, "\r\n\r\n"));
    *ret_fd = fd;
    return (int)strtol(text + 9, NULL, 10);
}

static const char *field_of(const json_t *refs, const char *end_name, const char *field)
{
    return json_string_value(json_object_get(json_object_get(refs, end_name), field));
}

static int dial(const json_t *refs, const char *dir)
{
    int fd;

    CHECK_INT(ask(field_of(refs, "writer", "channel_id"), field_of(refs, "writer", "access_key"),
                  dir, true, &fd),
              101);
    return fd;
}

static size_t frame_head(unsigned char head[14], unsigned first, size_t len)
{
    size_t n = 2;

    memset(head, 0, 14); /* a mask of zeros */
    head[0] = (unsigned char)first;
    if (len < 126) {
        head[1] = (unsigned char)len;
    } else if (len < 65536) {
        head[1] = 126;
        head[2] = (unsigned char)(len >> 8);
        head[3] = (unsigned char)len;
        n = 4;
    } else {
        head[1] = 127;
        for (int i = 0; i < 8; i++)
            head[2 + i] = (unsigned char)((uint64_t)len >> (56 - 8 * i));
        n = 10;
    }
    head[1] |= 0x80;
    return n + 4;
}

static bool send_all(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

static bool put(int fd, unsigned first, const void *data, size_t len)
{
    unsigned char head[14];
    size_t n = frame_head(head, first, len);

    return send_all(fd, head, n) && send_all(fd, data, len);
}

static bool put_text(int fd, const char *text)
{
    return put(fd, 0x81, text, strlen(text));
}

static void put_close(int fd)
{
    CHECK(put(fd, 0x88, "\x03\xe8", 2));
}

/* The next frame of the server: its first byte, or -1 at the end of the connection. */
static int get(int fd, char *data, size_t size, size_t *ret_len)
{
    unsigned char head[10];
    size_t len;

    if (recv(fd, head, 2, MSG_WAITALL) != 2)
        return -1;
    CHECK(!(head[1] & 0x80));
    len = head[1];
    if (len == 126) {
        CHECK_INT(recv(fd, head + 2, 2, MSG_WAITALL), 2);
        len = (size_t)head[2] << 8 | head[3];
    } else if (len == 127) {
        CHECK_INT(recv(fd, head + 2, 8, MSG_WAITALL), 8);
        for (int i = len = 0; i < 8; i++)
            len = len << 8 | head[2 + i];
    }
    CHECK(len <= size);
    if (len > 0 && recv(fd, data, len, MSG_WAITALL) != (ssize_t)len)
        return -1;
    *ret_len = len;
    return head[0];
}

static void check_text(int fd, const char *want)
{
    char data[1000];
    size_t len;

    CHECK_INT(get(fd, data, sizeof(data) - 1, &len), 0x81);
    data[len] = '\0';
    CHECK_STR(data, want);
}

/* A Close with that code, then the end. */
static void check_close(int fd, unsigned code)
{
    char data[200];
    size_t len;

    CHECK_INT(get(fd, data, sizeof(data), &len), 0x88);
    CHECK(len >= 2);
    CHECK_INT((unsigned char)data[0] << 8 | (unsigned char)data[1], code);
    CHECK_INT(get(fd, data, sizeof(data), &len), -1);
    (void)close(fd);
}

static void fill(char *data, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        data[i] = (char)((i + seed) * 2654435761u >> 13);
}

/* Numbered pieces, until the server takes no more: how many were sent whole. The rest of the one
 * that it did not take follows, from a thread, when it does. */
struct flood {
    int fd;
    unsigned n, max;
    size_t size;
    atomic_uint sent;
    pthread_t thread;
};

static void *flood_run(void *arg)
{
    struct flood *f = arg;
    char *data = xmalloc(f->size);

    for (; f->n < f->max; f->n++) {
        fill(data, f->size, f->n);
        if (!put(f->fd, 0x82, data, f->size))
            break;
        atomic_fetch_add(&f->sent, 1);
    }
    if (f->n == f->max)
        put_close(f->fd);
    free(data);
    return NULL;
}

static void flood(struct flood *f, int fd, unsigned max, size_t size)
{
    int small = 64 << 10;

    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    *f = (struct flood){.fd = fd, .max = max, .size = size};
    CHECK_INT(pthread_create(&f->thread, NULL, flood_run, f), 0);
}

/* The channel had no room for its writer and has not woken it since. */
static bool writer_waits(const json_t *refs)
{
    struct iii_channel *c = channel_find(hub.channels, field_of(refs, "writer", "channel_id"),
                                         field_of(refs, "writer", "access_key"));
    bool waits;

    CHECK(c);
    (void)pthread_mutex_lock(&c->lock);
    waits = c->sides[CHANNEL_WRITER].waits;
    (void)pthread_mutex_unlock(&c->lock);
    channel_unref(c);
    return waits;
}

/* Waits until no flood sends anything while the server answers 100 other requests. */
static void await_still(struct flood *f, unsigned n)
{
    int64_t until = mono_ns() + PATIENCE_NS;
    unsigned was, sent = 0;

    do {
        CHECK(mono_ns() < until);
        was = sent;
        for (int i = 0; i < 100; i++) {
            int fd;

            CHECK_INT(ask("00000000-0000-4000-8000-000000000000", "0", "read", true, &fd), 404);
            (void)close(fd);
        }
        sent = 0;
        for (unsigned i = 0; i < n; i++)
            sent += atomic_load(&f[i].sent);
    } while (sent != was || sent == 0);
}

static void check_flood(int fd, unsigned n, size_t size)
{
    char *data = xmalloc(size), *want = xmalloc(size);
    size_t len;

    for (unsigned i = 0; i < n; i++) {
        fill(want, size, i);
        CHECK_INT(get(fd, data, size, &len), 0x82);
        CHECK_INT(len, size);
        CHECK(memcmp(data, want, size) == 0);
    }
    free(data);
    free(want);
}

/* ---- ends that are connections ---- */

TEST(both_ends_have_one_id_and_a_key_that_nobody_guesses)
{
    json_t *refs, *other;

    begin();
    refs = make(0, &anna);
    other = make(0, &anna);
    CHECK_STR(field_of(refs, "writer", "direction"), "write");
    CHECK_STR(field_of(refs, "reader", "direction"), "read");
    CHECK_STR(field_of(refs, "writer", "channel_id"), field_of(refs, "reader", "channel_id"));
    CHECK_STR(field_of(refs, "writer", "access_key"), field_of(refs, "reader", "access_key"));
    CHECK_INT(strlen(field_of(refs, "writer", "channel_id")), 36);
    CHECK_INT(strlen(field_of(refs, "writer", "access_key")), 64);
    CHECK(strcmp(field_of(refs, "writer", "access_key"), field_of(other, "writer", "access_key")));
    json_decref(refs);
    json_decref(other);
    end();
}

TEST(messages_come_in_order_and_are_what_they_were)
{
    char data[100];
    json_t *refs;
    size_t len;
    int w, r;

    begin();
    refs = make(0, &anna);
    r = dial(refs, "read");
    w = dial(refs, "write");
    CHECK(put_text(w, "{\"a\": 1}"));
    CHECK(put(w, 0x82, "\0\xff", 2));
    CHECK(put(w, 0x82, "", 0));
    CHECK(put(w, 0x01, "he", 2)); /* one message in two pieces, with a question between them */
    CHECK(put(w, 0x89, "?", 1));
    CHECK(put(w, 0x80, "llo", 3));
    check_text(r, "{\"a\": 1}");
    CHECK_INT(get(r, data, sizeof(data), &len), 0x82);
    CHECK_INT(len, 2);
    CHECK(memcmp(data, "\0\xff", 2) == 0);
    CHECK_INT(get(r, data, sizeof(data), &len), 0x82);
    CHECK_INT(len, 0);
    check_text(r, "hello");
    CHECK_INT(get(w, data, sizeof(data), &len), 0x8a);
    put_close(w);
    check_close(r, 1000);
    check_close(w, 1000);
    AWAIT(iii_channels_count(hub.channels) == 0);
    json_decref(refs);
    end();
}

TEST(what_was_written_waits_for_the_reader)
{
    json_t *refs;
    int w, r;

    begin();
    refs = make(0, &anna);
    w = dial(refs, "write");
    for (int i = 0; i < 60; i++)
        CHECK(put_text(w, "x"));
    put_close(w);
    check_close(w, 1000);
    CHECK_INT(iii_channels_held(hub.channels), 60 * (1 + CHANNEL_ITEM_COST));
    r = dial(refs, "read");
    for (int i = 0; i < 60; i++)
        check_text(r, "x");
    check_close(r, 1000);
    json_decref(refs);
    end();
}

TEST(an_end_is_taken_once)
{
    json_t *refs;
    int w, r;

    begin();
    refs = make(0, &anna);
    w = dial(refs, "write");
    r = dial(refs, "read");
    check_close(dial(refs, "write"), 4009);
    check_close(dial(refs, "read"), 4009);
    CHECK(put_text(w, "still"));
    check_text(r, "still");
    (void)close(w);
    (void)close(r);
    json_decref(refs);
    end();
}

TEST(who_has_no_key_finds_no_channel)
{
    static const struct {
        int id, key; /* 1 = the right one */
        const char *dir;
        bool upgrade;
        int status;
    } cases[] = {
        {0, 1, "read", true, 404}, {1, 0, "read", true, 404},   {1, 1, "", true, 404},
        {1, 1, "both", true, 404}, {1, 1, "write", false, 400}, {1, 2, "read", true, 404},
        {1, 4, "read", true, 404}, {1, 3, "write", true, 101},  {1, 1, "read", true, 101},
    };
    char key[CHANNEL_KEY_SIZE], longer[400], encoded[400];
    const char *id, *keys[5] = {"", key, "0", encoded, longer};
    json_t *refs;

    begin();
    refs = make(0, &anna);
    id = field_of(refs, "writer", "channel_id");
    (void)snprintf(key, sizeof(key), "%s", field_of(refs, "writer", "access_key"));
    (void)snprintf(longer, sizeof(longer), "%s0", key);
    (void)snprintf(encoded, sizeof(encoded), "%%%02x%s", key[0], key + 1);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int fd;

        CHECK_INT(ask(cases[i].id ? id : "00000000-0000-4000-8000-000000000000", keys[cases[i].key],
                      cases[i].dir, cases[i].upgrade, &fd),
                  cases[i].status);
        (void)close(fd);
    }
    json_decref(refs);
    end();
}

TEST(a_writer_is_not_read_while_the_queue_is_full)
{
    struct flood f;
    json_t *refs;
    int r, w;

    begin();
    refs = make(4, &anna);
    w = dial(refs, "write");
    flood(&f, w, 400, 1000 * 40);
    AWAIT(writer_waits(refs));
    await_still(&f, 1);
    CHECK(atomic_load(&f.sent) < 400);
    CHECK_INT(iii_channels_held(hub.channels), 4 * (40000 + CHANNEL_ITEM_COST));
    r = dial(refs, "read");
    check_flood(r, 400, 40000);
    check_close(r, 1000);
    (void)pthread_join(f.thread, NULL);
    (void)close(w);
    json_decref(refs);
    end();
}

TEST(a_reader_that_does_not_read_holds_no_more_than_a_queue)
{
    struct flood f;
    json_t *refs;
    int r, w, small = 16 << 10;

    begin();
    refs = make(1024, &anna);
    r = dial(refs, "read");
    (void)setsockopt(r, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    w = dial(refs, "write");
    flood(&f, w, 250, PIECE);
    await_still(&f, 1);
    AWAIT(writer_waits(refs));
    CHECK(atomic_load(&f.sent) < 250);
    CHECK(iii_channels_held(hub.channels) <= CHANNEL_BYTES_MAX + PIECE + CHANNEL_ITEM_COST);
    CHECK(used() <= CHANNEL_BYTES_MAX + (1 << 20));
    check_flood(r, 250, PIECE);
    check_close(r, 1000);
    (void)pthread_join(f.thread, NULL);
    (void)close(w);
    json_decref(refs);
    end();
}

TEST(a_queue_of_one_moves)
{
    struct flood f;
    json_t *refs;
    int r, w;

    begin();
    refs = make(1, &anna);
    w = dial(refs, "write");
    r = dial(refs, "read");
    flood(&f, w, 2000, 100);
    check_flood(r, 2000, 100);
    check_close(r, 1000);
    (void)pthread_join(f.thread, NULL);
    (void)close(w);
    json_decref(refs);
    end();
}

TEST(of_a_writer_that_is_lost_the_reader_gets_what_came)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    json_t *refs;
    int w, r;

    begin();
    for (int how = 0; how < 2; how++) {
        refs = make(0, &anna);
        w = dial(refs, "write");
        CHECK(put_text(w, "one"));
        CHECK(put(w, 0x01, "half", 4)); /* a message that is not whole is none */
        AWAIT(iii_channels_held(hub.channels) > 0);
        if (how == 1)
            (void)setsockopt(w, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        (void)close(w);
        r = dial(refs, "read");
        check_text(r, "one");
        check_close(r, 1000);
        json_decref(refs);
    }
    end();
}

TEST(what_came_before_a_close_is_delivered_though_the_queue_was_full)
{
    json_t *refs;
    int w, r;

    begin();
    refs = make(1, &anna);
    w = dial(refs, "write");
    for (int i = 0; i < 100; i++)
        CHECK(put_text(w, "before"));
    put_close(w);
    (void)close(w);
    AWAIT(iii_channels_held(hub.channels) > 0);
    r = dial(refs, "read");
    for (int i = 0; i < 100; i++)
        check_text(r, "before");
    check_close(r, 1000);
    json_decref(refs);
    end();
}

TEST(a_writer_whose_reader_has_gone_is_closed)
{
    struct flood f;
    json_t *refs;
    int w, r;

    linger_ms = 20; /* what a flood still sends is swallowed for so long */
    begin();
    for (int how = 0; how < 3; how++) { /* idle, idle after a Close, in the middle of it */
        refs = make(0, &anna);
        w = dial(refs, "write");
        r = dial(refs, "read");
        if (how == 2) {
            flood(&f, w, 100000, PIECE);
            check_flood(r, 3, PIECE);
        }
        if (how == 1)
            put_close(r);
        (void)close(r);
        if (how == 2)
            (void)pthread_join(f.thread, NULL); /* its sends fail */
        else
            check_close(w, 1000);
        if (how == 2)
            (void)close(w);
        AWAIT(iii_channels_count(hub.channels) == 0 && iii_channels_held(hub.channels) == 0);
        json_decref(refs);
    }
    end();
}

TEST(a_message_is_as_long_as_it_may_be_and_no_longer)
{
    char *data = xmalloc(CHANNEL_MESSAGE_MAX + 1);
    json_t *refs;
    struct flood f;
    int w, r;

    begin();
    refs = make(0, &anna);
    w = dial(refs, "write");
    r = dial(refs, "read");
    flood(&f, w, 3, CHANNEL_MESSAGE_MAX);
    check_flood(r, 3, CHANNEL_MESSAGE_MAX);
    check_close(r, 1000);
    (void)pthread_join(f.thread, NULL);
    (void)close(w);
    json_decref(refs);

    refs = make(0, &anna);
    w = dial(refs, "write");
    r = dial(refs, "read");
    memset(data, 'x', CHANNEL_MESSAGE_MAX + 1);
    (void)put(w, 0x82, data, CHANNEL_MESSAGE_MAX + 1);
    check_close(w, 1009);
    check_close(r, 1000);
    json_decref(refs);
    free(data);
    end();
}

TEST(a_reader_may_talk_and_ask)
{
    char data[100];
    json_t *refs;
    size_t len;
    int w, r;

    begin();
    refs = make(0, &anna);
    w = dial(refs, "write");
    r = dial(refs, "read");
    for (int i = 0; i < 200; i++)
        CHECK(put_text(r, "hello?"));
    CHECK(put(r, 0x89, "?", 1));
    CHECK_INT(get(r, data, sizeof(data), &len), 0x8a);
    CHECK(put_text(w, "yes"));
    check_text(r, "yes");
    (void)close(w);
    check_close(r, 1000);
    json_decref(refs);
    end();
}

/* ---- memory ---- */

TEST(who_makes_many_leaves_memory_to_others)
{
    struct flood f[12], other;
    json_t *refs[12], *free_one;
    int w[12], r;

    begin_with(4u << 20);
    for (int i = 0; i < 12; i++) {
        refs[i] = make(1024, &anna);
        w[i] = dial(refs[i], "write");
        flood(&f[i], w[i], 40, PIECE);
    }
    for (int i = 0; i < 12; i++)
        AWAIT(writer_waits(refs[i]));
    await_still(f, 12);
    CHECK(iii_channels_held(hub.channels) <= (2u << 20) + 12 * (PIECE + CHANNEL_ITEM_COST));
    free_one = make(0, &bert);
    r = dial(free_one, "read");
    flood(&other, dial(free_one, "write"), 300, PIECE);
    check_flood(r, 300, PIECE);
    check_close(r, 1000);
    (void)pthread_join(other.thread, NULL);
    (void)close(other.fd);
    json_decref(free_one);
    for (int i = 0; i < 12; i++) { /* and all of it moves in the end */
        r = dial(refs[i], "read");
        check_flood(r, 40, PIECE);
        check_close(r, 1000);
        (void)pthread_join(f[i].thread, NULL);
        (void)close(w[i]);
        json_decref(refs[i]);
    }
    end();
}

/* ---- lifetime ---- */

/* From here on there are services in which no token is one. */
static void end_tokens(void)
{
    static struct services none;

    (void)pthread_mutex_lock(&hub.channels->lock);
    hub.config.services = &none;
    (void)pthread_mutex_unlock(&hub.channels->lock);
}

TEST(a_channel_that_nobody_came_for_is_removed)
{
    json_t *refs[4];
    int w, r, both[2];

    begin();
    for (int i = 0; i < 4; i++)
        refs[i] = make(0, &anna);
    w = dial(refs[1], "write");
    r = dial(refs[2], "read");
    both[0] = dial(refs[3], "write");
    both[1] = dial(refs[3], "read");
    iii_channels_sweep(hub.channels, mono_ns() + CHANNEL_LIVES_NS - 60000000000ll);
    CHECK_INT(iii_channels_count(hub.channels), 4);
    iii_channels_sweep(hub.channels, mono_ns() + CHANNEL_LIVES_NS);
    CHECK_INT(iii_channels_count(hub.channels), 1);
    check_close(w, 1008);
    check_close(r, 1008);
    CHECK(put_text(both[0], "on"));
    check_text(both[1], "on");
    (void)close(both[0]);
    check_close(both[1], 1000);
    for (int i = 0; i < 4; i++)
        json_decref(refs[i]);
    end();
}

TEST(a_channel_ends_with_the_token_of_who_made_it)
{
    struct iii_asker holder = {.caller = {.name = "tok", .token_id = "tok_1"}};
    json_t *refs, *other;
    int w, r;

    begin();
    holder.share = iii_share_new(&holder.caller);
    refs = make(0, &holder);
    other = make(0, &anna);
    w = dial(refs, "write");
    r = dial(refs, "read");
    end_tokens();
    iii_channels_sweep(hub.channels, mono_ns());
    check_close(w, 1008);
    check_close(r, 1008);
    CHECK_INT(iii_channels_count(hub.channels), 1);
    json_decref(refs);
    json_decref(other);
    iii_share_unref(holder.share);
    end();
}

/* How many it can make until one is refused. */
static unsigned make_all(const struct iii_asker *maker)
{
    struct err err = {0};
    unsigned n = 0;
    json_t *refs;

    while (n <= III_CHANNELS_MAX && (refs = iii_channel_new(hub.channels, 0, maker, &err))) {
        json_decref(refs);
        n++;
    }
    CHECK_INT(err.kind, ERR_LIMIT);
    CHECK(strstr(err.text, "try again"));
    return n;
}

TEST(there_is_a_bound_on_channels_and_who_comes_finds_some_left)
{
    begin();
    CHECK_INT(make_all(&anna), III_CHANNELS_MAX / 2);
    CHECK_INT(make_all(&bert), III_CHANNELS_MAX / 4);
    CHECK_INT(make_all(&anna), 0);
    iii_channels_sweep(hub.channels, mono_ns() + CHANNEL_LIVES_NS);
    CHECK_INT(iii_channels_count(hub.channels), 0);
    CHECK_INT(make_all(&bert), III_CHANNELS_MAX / 2);
    end();
}

/* All who have no token have one name. */
TEST(connections_without_a_token_are_not_one_maker)
{
    struct iii_asker other = {.caller = anna.caller};

    begin();
    other.share = iii_share_new(&other.caller);
    CHECK_INT(make_all(&anna), III_CHANNELS_MAX / 2);
    CHECK_INT(make_all(&other), III_CHANNELS_MAX / 4);
    iii_share_unref(other.share);
    end();
}

static bool is_there(const json_t *refs)
{
    struct iii_channel *c = channel_find(hub.channels, field_of(refs, "writer", "channel_id"),
                                         field_of(refs, "writer", "access_key"));

    channel_unref(c);
    return c;
}

TEST(what_nobody_has_come_to_for_a_while_gives_way_to_its_maker)
{
    json_t *refs[3], *others;
    int r;

    begin();
    others = make(0, &bert);
    for (int i = 0; i < 3; i++)
        refs[i] = make(0, &anna);
    (void)make_all(&anna);
    r = dial(refs[0], "read");
    hub.channels->comes_ns = 0;
    json_decref(make(0, &anna));
    CHECK(is_there(refs[0])); /* somebody waits there */
    CHECK(!is_there(refs[1]));
    CHECK(is_there(refs[2]));
    CHECK(is_there(others));
    (void)close(r);
    for (int i = 0; i < 3; i++)
        json_decref(refs[i]);
    json_decref(others);
    end();
}

TEST(channels_of_a_connection_that_has_gone_are_in_nobodys_way)
{
    json_t *used_one;
    int w, r;

    begin();
    used_one = make(0, &anna);
    w = dial(used_one, "write");
    r = dial(used_one, "read");
    (void)make_all(&anna);
    atomic_store(&anna.share->gone, true);
    CHECK(is_there(used_one));
    /* As if there were none but the one that is used. */
    CHECK_INT(make_all(&bert), III_CHANNELS_MAX / 2);
    CHECK(put_text(w, "on"));
    check_text(r, "on");
    (void)close(w);
    check_close(r, 1000);
    (void)close(r);
    json_decref(used_one);
    end();
}

TEST(many_channels_move_at_once)
{
    struct flood f[60];
    json_t *refs[60];
    int r[60];

    begin();
    for (int i = 0; i < 60; i++) {
        refs[i] = make((unsigned)(1 + i), i % 2 ? &anna : &bert);
        r[i] = dial(refs[i], "read");
        flood(&f[i], dial(refs[i], "write"), 100, (size_t)(100 + 300 * i));
    }
    for (int i = 0; i < 60; i++) {
        check_flood(r[i], 100, (size_t)(100 + 300 * i));
        check_close(r[i], 1000);
        (void)pthread_join(f[i].thread, NULL);
        (void)close(f[i].fd);
        json_decref(refs[i]);
    }
    AWAIT(iii_channels_count(hub.channels) == 0);
    end();
}

/* ---- ends of our own ---- */

static struct pipe *open_end(const json_t *refs, bool writes)
{
    struct pipes *pipes = iii_channel_pipes(hub.channels);
    struct err err = {0};
    struct pipe *p =
        pipes->ops->open(pipes, json_object_get(refs, writes ? "writer" : "reader"), writes, &err);

    CHECK(p);
    return p;
}

static void await_bell(struct pipe *p)
{
    struct pollfd f = {.fd = p->ops->fd(p), .events = POLLIN};

    CHECK_INT(poll(&f, 1, -1), 1);
}

static bool is_rung(struct pipe *p)
{
    struct pollfd f = {.fd = p->ops->fd(p), .events = POLLIN};

    return poll(&f, 1, 0) == 1;
}

TEST(long_messages_wait_for_memory_one_after_the_other)
{
    size_t total = 0;
    struct flood f[8];
    struct pipe *p[8];
    json_t *refs[8];
    unsigned open = 8;
    char data[PIECE];

    begin_with(3u << 20); /* of which anna has room for one at a time */
    for (int i = 0; i < 8; i++) {
        refs[i] = make(2, &anna);
        p[i] = open_end(refs[i], false);
        flood(&f[i], dial(refs[i], "write"), 3, CHANNEL_MESSAGE_MAX);
    }
    for (int i = 0; open > 0; i = (i + 1) % 8) {
        ssize_t n = p[i] ? p[i]->ops->read(p[i], data, sizeof(data)) : 0;

        total += n > 0 ? (size_t)n : 0;
        CHECK(iii_channels_held(hub.channels) < (4u << 20));
        if (n < 0) {
            p[i]->ops->close(steal_ptr(p[i]));
            open--;
        }
    }
    CHECK_INT(total, 24 * CHANNEL_MESSAGE_MAX);
    for (int i = 0; i < 8; i++) {
        (void)pthread_join(f[i].thread, NULL);
        (void)close(f[i].fd);
        json_decref(refs[i]);
    }
    end();
}

TEST(we_read_what_a_client_writes)
{
    size_t total = 0, size = 3000;
    char data[7000], *want = xmalloc(size);
    struct flood f;
    struct pipe *p;
    json_t *refs;
    ssize_t n;
    int w;

    begin();
    refs = make(0, &anna);
    p = open_end(refs, false);
    CHECK_INT(p->ops->read(p, data, sizeof(data)), 0);
    CHECK(!is_rung(p));
    w = dial(refs, "write");
    CHECK(put_text(w, "words are not bytes"));
    flood(&f, w, 500, size);
    while ((n = p->ops->read(p, data, sizeof(data))) >= 0) {
        for (ssize_t i = 0; i < n; i++, total++) {
            if (total % size == 0)
                fill(want, size, (unsigned)(total / size));
            CHECK_INT(data[i], want[total % size]);
        }
        if (n == 0 || total % 3 == 0)
            await_bell(p); /* also in the middle: what is there rings */
    }
    CHECK_INT(total, 500 * size);
    CHECK(is_rung(p));
    (void)pthread_join(f.thread, NULL);
    (void)close(w);
    p->ops->close(p);
    AWAIT(iii_channels_count(hub.channels) == 0);
    json_decref(refs);
    free(want);
    end();
}

static void check_end(struct pipe *p, ssize_t end)
{
    char data[100];
    ssize_t n;

    while ((n = p->ops->read(p, data, sizeof(data))) >= 0)
        if (n == 0)
            await_bell(p);
    CHECK_INT(n, end);
    p->ops->close(p);
}

TEST(we_tell_the_end_from_a_writer_that_is_lost)
{
    static const struct {
        const char *close; /* NULL = it says nothing */
        size_t len;
        ssize_t end;
        bool half; /* a message is not whole */
    } ways[] = {
        {"\x03\xe8", 2, -1},
        {"\x03\xe8stream_complete", 17, -1},
        {"\x03\xe8"
         "channel_close",
         15, -1},
        {"", 0, -1},
        {NULL, 0, PIPE_LOST},
        {"\x03\xf3", 2, PIPE_LOST}, /* 1011 */
        {"\x03\xe9", 2, PIPE_LOST}, /* 1001: a page that was left, a program that ends */
        {"\x0f\xa0", 2, PIPE_LOST}, /* 4000: its own */
        {"\x03\xe8", 2, PIPE_LOST, .half = true},
        {"", 0, PIPE_LOST, .half = true},
    };

    begin();
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        json_t *refs = make(0, &anna);
        struct pipe *p = open_end(refs, false);
        int w = dial(refs, "write");

        CHECK(put(w, 0x82, "bytes", 5));
        if (ways[i].half)
            CHECK(put(w, 0x02, "half", 4));
        if (ways[i].close)
            CHECK(put(w, 0x88, ways[i].close, ways[i].len));
        (void)close(w);
        check_end(p, ways[i].end);
        json_decref(refs);
    }
    end();
}

TEST(we_write_when_somebody_reads_and_there_is_room)
{
    char data[PIECE];
    struct pipe *p;
    json_t *refs;
    size_t len;
    int r, n = 0;

    begin();
    refs = make(3, &anna);
    p = open_end(refs, true);
    CHECK_INT(p->ops->write(p, "x", 1), 0);
    CHECK(!is_rung(p));
    r = dial(refs, "read");
    await_bell(p);
    CHECK_INT(p->ops->say(p, "{\"n\": 1}"), 1);
    check_text(r, "{\"n\": 1}");
    fill(data, sizeof(data), 0);
    while (p->ops->write(p, data, sizeof(data)) == 1)
        n++;
    CHECK(n >= 3);
    CHECK(!is_rung(p) || p->ops->write(p, data, sizeof(data)) == 1);
    for (int i = 0; i < n; i++)
        CHECK_INT(get(r, data, sizeof(data), &len), 0x82);
    await_bell(p);
    (void)close(r);
    while (p->ops->write(p, "x", 1) >= 0)
        await_bell(p);
    CHECK_INT(p->ops->say(p, "x"), -1);
    p->ops->close(p);
    json_decref(refs);
    end();
}

TEST(what_is_no_reference_or_leads_nowhere_is_not_opened)
{
    static const char *bad[] = {
        "{}", "[]", "{\"channel_id\": \"x\", \"access_key\": \"y\"}",
        "{\"channel_id\": 1, \"access_key\": \"y\", \"direction\": \"read\"}"};
    struct pipes *pipes;
    struct err err = {0};
    struct pipe *p;
    json_t *refs, *ref;

    begin();
    pipes = iii_channel_pipes(hub.channels);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ref = json_loads(bad[i], 0, NULL);
        CHECK(!pipes->ops->open(pipes, ref, false, &err));
        CHECK_STR(err.code, "bad_channel");
        json_decref(ref);
    }
    refs = make(0, &anna);
    CHECK(!pipes->ops->open(pipes, json_object_get(refs, "writer"), false, &err));
    CHECK_STR(err.code, "bad_channel");
    ref = json_copy(json_object_get(refs, "reader"));
    (void)json_object_set_new(ref, "access_key", json_string("0"));
    CHECK(!pipes->ops->open(pipes, ref, false, &err));
    CHECK_STR(err.code, "channel_not_found");
    json_decref(ref);
    p = open_end(refs, false);
    CHECK(!pipes->ops->open(pipes, json_object_get(refs, "reader"), false, &err));
    CHECK_STR(err.code, "channel_not_found");
    check_close(dial(refs, "read"), 4009);
    p->ops->close(p);
    json_decref(refs);
    end();
}

TEST(our_end_is_told_that_nobody_came)
{
    struct pipe *in, *out;
    json_t *refs[2];
    char c;

    begin();
    refs[0] = make(0, &anna);
    refs[1] = make(0, &anna);
    in = open_end(refs[0], false);
    out = open_end(refs[1], true);
    CHECK_INT(in->ops->read(in, &c, 1), 0);
    CHECK_INT(out->ops->write(out, "x", 1), 0);
    iii_channels_sweep(hub.channels, mono_ns() + CHANNEL_LIVES_NS);
    await_bell(in);
    await_bell(out);
    CHECK_INT(in->ops->read(in, &c, 1), PIPE_LOST);
    CHECK_INT(out->ops->write(out, "x", 1), -1);
    in->ops->close(in);
    out->ops->close(out);
    json_decref(refs[0]);
    json_decref(refs[1]);
    end();
}

TEST(what_is_made_for_a_caller_ends_with_its_token)
{
    struct iii_asker holder = {.caller = {.name = "tok", .token_id = "tok_1"}};
    struct pipes *pipes;
    struct pipe *p[2];
    json_t *ref[2];

    begin();
    holder.share = iii_share_new(&holder.caller);
    pipes = iii_channel_pipes_new(hub.channels, &holder);
    p[0] = pipes->ops->make(pipes, &ref[0], NULL);
    iii_channel_pipes_free(pipes);
    iii_share_unref(holder.share);
    pipes = iii_channel_pipes(hub.channels);
    p[1] = pipes->ops->make(pipes, &ref[1], NULL);
    CHECK_INT(p[0]->ops->write(p[0], "x", 1), 0);
    end_tokens();
    iii_channels_sweep(hub.channels, mono_ns());
    await_bell(p[0]);
    CHECK_INT(p[0]->ops->write(p[0], "x", 1), -1);
    CHECK_INT(p[1]->ops->write(p[1], "x", 1), 0);
    for (int i = 0; i < 2; i++) {
        p[i]->ops->close(p[i]);
        json_decref(ref[i]);
    }
    end();
}

struct numbers {
    struct pipe_feed feed;
    unsigned n, max;
    size_t size;
    bool lent;
    char *data;
};

static atomic_int fed, freed;

static int numbers_fill(struct pipe_feed *feed, struct pipe *p)
{
    struct numbers *f = (struct numbers *)feed;

    atomic_fetch_add(&fed, 1);
    for (; f->n < f->max; f->n++) {
        fill(f->data, f->size, f->n);
        if (p->ops->write(p, f->data, f->size) != 1)
            return 1;
    }
    return 0;
}

static void numbers_free(struct pipe_feed *feed)
{
    struct numbers *f = (struct numbers *)feed;

    free(f->data);
    free(f);
    atomic_fetch_add(&freed, 1);
}

/* The reference of its reader, in place of both. */
static json_t *feed_numbers(unsigned max, size_t size)
{
    struct pipes *pipes = iii_channel_pipes(hub.channels);
    struct numbers *f = xcalloc(1, sizeof(*f));
    struct err err = {0};
    json_t *ref;
    struct pipe *p = pipes->ops->make(pipes, &ref, &err);

    CHECK(p);
    *f = (struct numbers){{numbers_fill, numbers_free}, .max = max, .size = size};
    f->data = xmalloc(size);
    pipes->ops->feed(pipes, p, &f->feed);
    return json_pack("{s:o, s:O}", "reader", ref, "writer", ref);
}

TEST(a_feed_fills_its_pipe_when_somebody_reads)
{
    json_t *refs;
    int r;

    begin();
    refs = feed_numbers(300, PIECE);
    r = dial(refs, "read");
    check_flood(r, 300, PIECE);
    check_close(r, 1000);
    CHECK_INT(atomic_load(&freed), 1);
    CHECK(atomic_load(&fed) < 200); /* not once a piece */
    json_decref(refs);
    end();
}

TEST(a_feed_is_not_asked_before_there_is_a_reader_and_ends_without_one)
{
    json_t *refs;

    begin();
    refs = feed_numbers(300, PIECE);
    iii_channels_sweep(hub.channels, mono_ns() + CHANNEL_LIVES_NS);
    AWAIT(atomic_load(&freed) == 1);
    CHECK_INT(atomic_load(&fed), 0);
    json_decref(refs);
    end();
}

TEST(a_feed_whose_reader_leaves_ends)
{
    json_t *refs;
    int r;

    begin();
    refs = feed_numbers(1000000, PIECE);
    r = dial(refs, "read");
    check_flood(r, 20, PIECE);
    (void)close(r);
    AWAIT(atomic_load(&freed) == 1 && iii_channels_count(hub.channels) == 0);
    json_decref(refs);
    end();
}

TEST(nothing_is_left_when_all_stops_in_the_middle)
{
    struct flood f[10];
    json_t *refs[30];
    int r[30];

    begin();
    for (int i = 0; i < 30; i++) {
        if (i < 10)
            refs[i] = feed_numbers(1000000, PIECE); /* of which nobody reads half */
        else
            refs[i] = make(0, &anna);
        r[i] = i < 5 || i >= 15 ? dial(refs[i], "read") : -1;
        if (i >= 20)
            flood(&f[i - 20], dial(refs[i], "write"), 1000000, PIECE);
    }
    for (int i = 0; i < 30; i++)
        if (r[i] >= 0 && (i < 5 || i >= 20))
            check_flood(r[i], 10, PIECE);
    end();
    CHECK_INT(atomic_load(&freed), 10);
    for (int i = 0; i < 30; i++) {
        if (i >= 20) {
            (void)pthread_join(f[i - 20].thread, NULL);
            (void)close(f[i - 20].fd);
        }
        if (r[i] >= 0)
            (void)close(r[i]);
        json_decref(refs[i]);
    }
}

TEST(readers_are_told_that_the_daemon_ends)
{
    json_t *refs;
    int r;

    begin();
    refs = make(0, &anna);
    r = dial(refs, "read");
    http_server_drain(server);
    check_close(r, 1012);
    json_decref(refs);
    end();
}

TEST(what_moves_when_the_daemon_ends_comes_to_its_end)
{
    enum { PIECES = 100, BEFORE = 10, SIZE = 40000 };
    char *data = xmalloc(SIZE);
    json_t *refs, *idle;
    struct flood f;
    int r, w, still;
    size_t len;

    begin();
    hub.channels->still_ns = 600 * 1000000000ll;
    refs = make(4, &anna);
    idle = make(0, &anna);
    still = dial(idle, "write");
    w = dial(refs, "write");
    r = dial(refs, "read");
    flood(&f, w, PIECES, SIZE);
    for (unsigned i = 0; i < BEFORE; i++)
        CHECK_INT(get(r, data, SIZE, &len), 0x82);
    http_server_drain(server);
    check_close(still, 1012); /* all have been told by then */
    for (unsigned i = BEFORE; i < PIECES; i++)
        CHECK_INT(get(r, data, SIZE, &len), 0x82);
    check_close(r, 1000);
    (void)pthread_join(f.thread, NULL);
    CHECK_INT(f.n, PIECES);
    (void)close(w);
    (void)close(still);
    json_decref(refs);
    json_decref(idle);
    free(data);
    end();
}

TEST(what_does_not_move_does_not_hold_up_the_end_of_the_daemon)
{
    json_t *refs;
    int r, w;

    begin();
    hub.channels->still_ns = 1000000;
    refs = make(0, &anna);
    w = dial(refs, "write");
    r = dial(refs, "read");
    CHECK(put_text(w, "on"));
    check_text(r, "on");
    http_server_drain(server);
    check_close(r, 1012);
    check_close(w, 1012);
    (void)close(r);
    (void)close(w);
    json_decref(refs);
    end();
}

#ifndef CHANNELS_BENCH
TAP_MAIN
#endif
