#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "http/client.h"
#include "http/http_internal.h"
#include "http/server.h"
#include "tap.h"

/* ---- a server under test: one handler for all, on a free port of 127.0.0.1 ---- */

static struct http_server *server;
static int port;
static atomic_int calls, gone_seen;
static pthread_barrier_t meeting;
static int entered[2] = {-1, -1}, leave[2] = {-1, -1}; /* pipes: a handler is in; let it go */

static void signal_pipe(const int p[2])
{
    CHECK_INT(write(p[1], "x", 1), 1);
}

static void await_pipe(const int p[2])
{
    char c;

    CHECK_INT(read(p[0], &c, 1), 1);
}

static void reply_err(struct http_req *req, const struct err *err)
{
    int status = err->kind == ERR_TOO_LARGE     ? 413
                 : err->kind == ERR_TIMEOUT     ? 408
                 : err->kind == ERR_UNAVAILABLE ? 503
                                                : 400;

    http_reply(req, status, "text/plain", err->text, strlen(err->text));
}

static void echo_body(struct http_req *req, const struct err *err, void *arg)
{
    const char *body;
    size_t len;

    (void)arg;
    if (err) {
        reply_err(req, err);
        return;
    }
    body = http_req_body(req, &len);
    http_reply(req, 200, "text/plain", body, len < 1000 ? len : 0);
}

static void echo(struct http_req *req)
{
    struct http_receiver to = {.max = strcmp(http_req_path(req), "/long") == 0 ? 1 << 20 : 1000,
                               .then = echo_body};

    http_receive(req, &to, NULL);
}

static int count_piece(const char *data, size_t len, void *arg, struct err *err)
{
    (void)data;
    (void)err;
    *(long long *)arg += (long long)len;
    return 0;
}

static void counted(struct http_req *req, const struct err *err, void *arg)
{
    auto_free long long *total = arg;
    char text[40];

    if (err) {
        reply_err(req, err);
        return;
    }
    snprintf(text, sizeof(text), "%lld", *total);
    http_reply(req, 200, "text/plain", text, strlen(text));
}

static void count_body(struct http_req *req)
{
    struct http_receiver to = {.piece = count_piece, .then = counted};

    http_receive(req, &to, xcalloc(1, sizeof(long long)));
}

static void stream(struct http_req *req)
{
    char line[64];

    (void)http_stream_begin(req, 200, "text/event-stream", -1);
    for (int i = 0; i < 100; i++) {
        int n = snprintf(line, sizeof(line), "data: %d\n\n", i);

        (void)http_stream_write(req, line, (size_t)n);
    }
    if (strcmp(http_req_query(req), "broken") != 0)
        http_stream_end(req);
}

static void stream_until_gone(struct http_req *req)
{
    struct pollfd p = {.fd = http_req_fd(req), .events = POLLRDHUP};

    (void)http_stream_begin(req, 200, "text/plain", -1);
    CHECK(!http_client_gone(req));
    (void)http_stream_write(req, "hello", 5);
    while (!http_client_gone(req))
        (void)poll(&p, 1, -1);
    while (http_stream_write(req, "hello", 5) == 0)
        continue;
    CHECK_INT(http_stream_write(req, "hello", 5), -1);
    atomic_fetch_add(&gone_seen, 1);
    signal_pipe(entered);
}

static bool echo_input(struct http_req *req, unsigned news, struct http_wait *wait, void *arg)
{
    char data[100];
    ssize_t n;

    (void)arg;
    if (news & HTTP_GONE)
        return false;
    while (http_unsent(req) == 0 && (n = http_upgraded_read(req, data, sizeof(data))) != 0)
        if (n < 0 || http_stream_write(req, data, (size_t)n) < 0)
            return false;
    wait->input = http_unsent(req) == 0;
    return true;
}

static void upgrade_with_body(struct http_req *req, const struct err *why, void *arg)
{
    struct http_wait wait = {.fd = -1, .input = true};
    struct err err = why ? *why : (struct err){0};
    const char *body;
    size_t len;

    (void)arg;
    if (why || (!http_upgrade_asked(req, "echo") &&
                err_set(&err, ERR_INVALID, "this path needs an upgrade to echo") < 0)) {
        reply_err(req, &err);
        return;
    }
    body = http_req_body(req, &len);
    CHECK_INT(http_upgrade(req, "echo"), 0);
    CHECK_INT(http_stream_write(req, body, len), 0);
    CHECK_INT(http_park(req, &wait, echo_input, NULL, NULL), 0);
}

static void upgrade(struct http_req *req)
{
    http_receive(req, &(struct http_receiver){.max = 1000, .then = upgrade_with_body}, NULL);
}

/* Upgrades not before its first step, as one does that waits for its command to start. */
static bool upgrade_late(struct http_req *req, unsigned news, struct http_wait *wait, void *arg)
{
    (void)arg;
    if (news & HTTP_GONE)
        return false;
    if (http_req_status(req))
        return echo_input(req, news, wait, NULL);
    *wait = (struct http_wait){.fd = -1, .input = true};
    return http_upgrade(req, "echo") == 0;
}

static void park_and_upgrade(struct http_req *req)
{
    struct http_wait wait = {.fd = -1, .until_ns = mono_ns()};

    CHECK_INT(http_park(req, &wait, upgrade_late, NULL, NULL), 0);
}

/* Ends with what the client sent meanwhile unread. */
static void upgrade_and_end(struct http_req *req)
{
    CHECK_INT(http_upgrade(req, "echo"), 0);
    signal_pipe(entered);
    await_pipe(leave);
    CHECK_INT(http_stream_write(req, "bye", 3), 0);
}

/* ---- parked requests. What they wait for is a pipe of the test: each byte is told on as it is,
 * '.' ends the answer ---- */

static int news_pipe[2];
static _Atomic unsigned news_seen, parked_ended;

static bool pass_news(struct http_req *req, unsigned news, struct http_wait *wait, void *arg)
{
    char c = 0;

    (void)arg;
    atomic_fetch_or(&news_seen, news);
    if (news & HTTP_GONE) {
        atomic_fetch_add(&parked_ended, 1);
        signal_pipe(entered);
        return false;
    }
    if ((news & HTTP_READY) && read(news_pipe[0], &c, 1) == 1 && c != '.')
        (void)http_stream_write(req, &c, 1);
    if (c == '.' || (news & (HTTP_TIME | HTTP_DRAIN))) {
        http_unpark(req);
        (void)http_stream_write(req, (news & HTTP_TIME) ? "time" : "end",
                                (news & HTTP_TIME) ? 4 : 3);
        http_stream_end(req);
        atomic_fetch_add(&parked_ended, 1);
        return false;
    }
    wait->fd = news_pipe[0];
    wait->events = EPOLLIN;
    return true;
}

static void park(struct http_req *req)
{
    struct http_wait wait = {.fd = news_pipe[0], .events = EPOLLIN};
    struct err err = {0};

    if (http_seat_take(req, &err) < 0) {
        reply_err(req, &err);
        return;
    }
    if (strcmp(http_req_query(req), "time") == 0)
        wait = (struct http_wait){.fd = -1, .until_ns = mono_ns() + 20 * 1000000};
    else if (strcmp(http_req_query(req), "alone") == 0)
        wait = (struct http_wait){.fd = -1};
    CHECK_INT(http_stream_begin(req, 200, "text/plain", -1), 0);
    CHECK_INT(http_park(req, &wait, pass_news, NULL, &err), 0);
    signal_pipe(entered);
}

/* Writes more than any socket holds, in steps, each when the one before was taken. */
static bool pour(struct http_req *req, unsigned news, struct http_wait *wait, void *arg)
{
    static char piece[1 << 20];
    unsigned *left = arg;

    if (news & HTTP_GONE) {
        free(left);
        atomic_fetch_add(&parked_ended, 1);
        signal_pipe(entered);
        return false;
    }
    while (*left > 0 && http_unsent(req) == 0) {
        memset(piece, 'a' + (int)(*left % 26), sizeof(piece));
        --*left;
        (void)http_stream_write(req, piece, sizeof(piece));
    }
    if (*left > 0 || http_unsent(req) > 0) {
        *wait = (struct http_wait){.fd = -1};
        return true;
    }
    http_stream_end(req);
    free(left);
    atomic_fetch_add(&parked_ended, 1);
    return false;
}

static void park_and_pour(struct http_req *req)
{
    struct http_wait wait = {.fd = -1, .until_ns = mono_ns()};
    unsigned *left = xmalloc(sizeof(*left));

    *left = 24;
    CHECK_INT(http_stream_begin(req, 200, "text/plain", -1), 0);
    CHECK_INT(http_park(req, &wait, pour, left, NULL), 0);
}

static atomic_uint late_steps;

/* Wants to be told of a time that is over, while its client takes nothing. */
static bool be_late(struct http_req *req, unsigned news, struct http_wait *wait, void *arg)
{
    static char piece[8 << 20];

    (void)arg;
    if (news & HTTP_GONE)
        return false;
    if (atomic_fetch_add(&late_steps, 1) == 0) {
        (void)http_stream_write(req, piece, sizeof(piece));
        signal_pipe(entered);
    }
    *wait = (struct http_wait){.fd = -1, .until_ns = 1};
    return true;
}

static void park_and_be_late(struct http_req *req)
{
    struct http_wait wait = {.fd = -1, .until_ns = mono_ns()};

    CHECK_INT(http_stream_begin(req, 200, "text/plain", -1), 0);
    CHECK_INT(http_park(req, &wait, be_late, NULL, NULL), 0);
}

static void handle(struct http_req *req, void *arg)
{
    const char *path = http_req_path(req);

    (void)arg;
    atomic_fetch_add(&calls, 1);
    if (strcmp(path, "/echo") == 0 || strcmp(path, "/long") == 0)
        echo(req);
    else if (strcmp(path, "/count") == 0)
        count_body(req);
    else if (strcmp(path, "/stream") == 0)
        stream(req);
    else if (strcmp(path, "/gone") == 0)
        stream_until_gone(req);
    else if (strcmp(path, "/upgrade") == 0)
        upgrade(req);
    else if (strcmp(path, "/upgrade-late") == 0)
        park_and_upgrade(req);
    else if (strcmp(path, "/upgrade-and-end") == 0)
        upgrade_and_end(req);
    else if (strcmp(path, "/park") == 0)
        park(req);
    else if (strcmp(path, "/pour") == 0)
        park_and_pour(req);
    else if (strcmp(path, "/late") == 0)
        park_and_be_late(req);
    else if (strcmp(path, "/query") == 0)
        http_reply(req, 200, "text/plain", http_req_query(req), strlen(http_req_query(req)));
    else if (strcmp(path, "/meet") == 0) {
        (void)pthread_barrier_wait(&meeting);
        http_reply(req, 200, "text/plain", "met", 3);
    } else if (strcmp(path, "/block") == 0) {
        signal_pipe(entered);
        await_pipe(leave);
        http_reply(req, 200, "text/plain", "late", 4);
    } else if (strcmp(path, "/inject") == 0) {
        http_reply_header(req, "X-Name", "a\r\nSet-Cookie: b");
        http_reply(req, 200, NULL, NULL, 0);
    } else if (strcmp(path, "/silent") != 0) {
        http_reply_header(req, "X-Method", http_req_method(req));
        http_reply(req, 200, "application/json", "{}", 2);
    }
}

static int tcp_listener(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    CHECK_INT(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    CHECK_INT(listen(fd, 1024), 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    port = ntohs(a.sin_port);
    return fd;
}

static void start_with(struct http_limits limits)
{
    struct err err = {0};

    CHECK_INT(pipe(entered), 0);
    CHECK_INT(pipe(leave), 0);
    CHECK_INT(pipe2(news_pipe, O_NONBLOCK), 0);
    server = http_server_new(&limits, handle, NULL);
    CHECK_INT(http_server_listen(server, tcp_listener(), true, &err), 0);
    CHECK_INT(http_server_start(server, &err), 0);
}

static void start(void)
{
    start_with((struct http_limits)HTTP_LIMITS_DEFAULT);
}

static void finish(void)
{
    http_server_stop(server, 2000);
    CHECK_INT(http_server_connections(server), 0);
    http_server_free(server);
}

/* ---- raw connections ---- */

static int dial(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    a.sin_port = htons((uint16_t)port);
    CHECK(fd >= 0);
    CHECK_INT(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

static void put_bytes(int fd, const char *data, size_t len)
{
    CHECK(send(fd, data, len, MSG_NOSIGNAL) == (ssize_t)len);
}

static void put(int fd, const char *text)
{
    put_bytes(fd, text, strlen(text));
}

/* Reads until the answer has this text, or to the end when it is NULL. */
static const char *get(int fd, const char *until)
{
    static char text[65536];
    size_t len = 0;

    text[0] = '\0';
    while (len < sizeof(text) - 1) {
        ssize_t n = read_some(fd, text + len, sizeof(text) - 1 - len);

        if (n <= 0) {
            if (until)
                TAP_FAIL("the stream ended before \"%s\": \"%s\"", until, text);
            break;
        }
        len += (size_t)n;
        text[len] = '\0';
        if (until && strstr(text, until))
            break;
    }
    return text;
}

static int status_of(const char *answer)
{
    int status = -1;

    (void)sscanf(answer, "HTTP/1.1 %d ", &status);
    return status;
}

/* The status of one raw request on a connection of its own, which the server must close. */
static int refused(const char *data, size_t len)
{
    auto_close int fd = dial();

    /* It may be refused before all of it is sent. */
    (void)send(fd, data, len, MSG_NOSIGNAL);
    return status_of(get(fd, NULL));
}

static struct http_client *new_client(void)
{
    char target[64];

    snprintf(target, sizeof(target), "http://127.0.0.1:%d", port);
    return http_client_new(target, "secret");
}

static void check_fetch(struct http_client *c, const char *path, const char *want)
{
    struct http_response r;
    struct err err = {0};
    auto_free char *body = NULL;
    size_t len;

    if (http_client_send(c, "GET", path, NULL, NULL, 0, &r, &err) < 0 ||
        http_client_body(c, 1 << 20, &body, &len, &err) < 0)
        TAP_FAIL("%s: %s", path, err.text);
    CHECK_INT(r.status, 200);
    CHECK_STR(body, want);
}

/* ---- the protocol ---- */

TEST(a_connection_is_kept_for_many_requests)
{
    struct http_client *c;

    start();
    c = new_client();
    for (int i = 0; i < 50; i++)
        check_fetch(c, "/query?a=1", "a=1");
    CHECK_INT(http_server_connections(server), 1);
    http_client_free(c);
    finish();
}

TEST(pipelined_requests_are_answered_in_order)
{
    auto_close int fd = -1;
    const char *text;

    start();
    fd = dial();
    put(fd, "GET /query?1st HTTP/1.1\r\nHost: a\r\n\r\n"
            "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n2nd"
            "GET /query?3rd HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    text = get(fd, NULL);
    CHECK(strstr(text, "1st") && strstr(text, "2nd") && strstr(text, "3rd"));
    CHECK(strstr(text, "1st") < strstr(text, "2nd") && strstr(text, "2nd") < strstr(text, "3rd"));
    finish();
}

TEST(a_head_may_come_byte_by_byte)
{
    static const char request[] = "GET /query?drip HTTP/1.1\r\nHost: a\r\nX-A: b\r\n\r\n";
    auto_close int fd = -1;

    start();
    fd = dial();
    for (size_t i = 0; i < sizeof(request) - 1; i++)
        CHECK_INT(send(fd, request + i, 1, MSG_NOSIGNAL), 1);
    CHECK_INT(status_of(get(fd, "drip")), 200);
    finish();
}

TEST(a_chunked_body_arrives_whole_however_it_is_cut)
{
    static const char request[] = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                                  "\r\n5\r\nhello\r\n00a\r\n0123456789\r\n0\r\n\r\n";

    start();
    for (size_t cut = 1; cut < sizeof(request) - 1; cut++) {
        auto_close int fd = dial();

        CHECK(send(fd, request, cut, MSG_NOSIGNAL) == (ssize_t)cut);
        put(fd, request + cut);
        put(fd, "GET /query?next HTTP/1.1\r\nHost: a\r\n\r\n");
        CHECK(strstr(get(fd, "next"), "\r\n\r\nhello0123456789HTTP/1.1 200"));
    }
    finish();
}

TEST(a_large_body_streams_through)
{
    static char data[64 << 10];
    struct http_client *c;
    struct http_response r;
    struct err err = {0};
    auto_free char *body = NULL;
    size_t len;

    start();
    c = new_client();
    CHECK_INT(http_client_begin(c, "PUT", "/count", NULL, 64 * (int64_t)sizeof(data), &err), 0);
    for (int i = 0; i < 64; i++)
        CHECK_INT(http_client_write(c, data, sizeof(data), &err), 0);
    CHECK_INT(http_client_finish(c, &r, &err), 0);
    CHECK_INT(r.status, 200);
    CHECK_INT(http_client_body(c, 100, &body, &len, &err), 0);
    CHECK_STR(body, "4194304");
    check_fetch(c, "/query?again", "again");
    CHECK_INT(http_server_connections(server), 1);
    http_client_free(c);
    finish();
}

TEST(a_body_over_the_limit_gets_413_with_and_without_a_length)
{
    static char data[1 << 20];
    struct http_client *c;
    struct http_response r;
    struct err err = {0};
    auto_close int fd = -1;

    start();
    c = new_client();
    CHECK_INT(http_client_send(c, "POST", "/echo", NULL, data, 1000, &r, &err), 0);
    CHECK_INT(r.status, 200);
    CHECK_INT(http_client_send(c, "POST", "/echo", NULL, data, 1001, &r, &err), 0);
    CHECK_INT(r.status, 413);
    CHECK_INT(http_client_send(c, "POST", "/echo", NULL, data, sizeof(data), &r, &err), 0);
    CHECK_INT(r.status, 413);
    http_client_free(c);

    fd = dial();
    put(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n");
    CHECK_INT(write_all(fd, data, 1001), 0);
    CHECK_INT(status_of(get(fd, NULL)), 413);
    finish();
}

TEST(an_expecting_client_is_told_to_continue_or_refused_before_it_sends)
{
    auto_close int a = -1;
    auto_close int b = -1;

    start();
    a = dial();
    put(a, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    CHECK_STR(get(a, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    put(a, "hello");
    CHECK_INT(status_of(get(a, "hello")), 200);

    b = dial();
    put(b, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
           "Content-Length: 1000000\r\n\r\n");
    CHECK_INT(status_of(get(b, "larger")), 413);
    finish();
}

TEST(a_body_nobody_read_is_skipped_or_ends_the_connection)
{
    auto_close int fd = -1;
    const char *text;

    start();
    fd = dial();
    put(fd, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
            "GET /query?next HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK_INT(status_of(get(fd, "next")), 200);
    put(fd, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
    text = get(fd, NULL);
    CHECK_INT(status_of(text), 200);
    CHECK(strstr(text, "Connection: close\r\n"));
    finish();
}

#define OK_HEAD "GET / HTTP/1.1\r\nHost: a\r\n"
#define CHUNKED "POST /count HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"

static const struct {
    const char *what;
    int status;
    const char *data;
} refusals[] = {
    {"bare LF", 400, "GET / HTTP/1.1\nHost: a\n\n"},
    {"bare LF in headers", 400, "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n"},
    {"bare CR", 400, OK_HEAD "X: a\rb\r\n\r\n"},
    {"folded header", 400, OK_HEAD "X: a\r\n b\r\n\r\n"},
    {"folded header with a tab", 400, OK_HEAD "X: a\r\n\tb\r\n\r\n"},
    {"folded first header", 400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n"},
    {"space before the colon", 400, OK_HEAD "X : a\r\n\r\n"},
    {"tab before the colon", 400, OK_HEAD "X\t: a\r\n\r\n"},
    {"space in a name", 400, OK_HEAD "X Y: a\r\n\r\n"},
    {"odd byte in a name", 400, OK_HEAD "X(Y): a\r\n\r\n"},
    {"empty name", 400, OK_HEAD ": a\r\n\r\n"},
    {"no colon", 400, OK_HEAD "XY\r\n\r\n"},
    {"control byte in a value", 400, OK_HEAD "X: a\001b\r\n\r\n"},
    {"DEL in a value", 400, OK_HEAD "X: a\177b\r\n\r\n"},
    {"two lengths", 400, OK_HEAD "Content-Length: 0\r\nContent-Length: 0\r\n\r\n"},
    {"a list of lengths", 400, OK_HEAD "Content-Length: 3, 3\r\n\r\nabc"},
    {"negative length", 400, OK_HEAD "Content-Length: -1\r\n\r\n"},
    {"signed length", 400, OK_HEAD "Content-Length: +1\r\n\r\na"},
    {"hex length", 400, OK_HEAD "Content-Length: 0x1\r\n\r\na"},
    {"empty length", 400, OK_HEAD "Content-Length:\r\n\r\n"},
    {"length with a space", 400, OK_HEAD "Content-Length: 1 1\r\n\r\n"},
    {"length past 64 bits", 400, OK_HEAD "Content-Length: 18446744073709551617\r\n\r\na"},
    {"length and coding", 400, CHUNKED "Content-Length: 5\r\n\r\n0\r\n\r\n"},
    {"coding and length", 400, OK_HEAD "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {"unknown coding", 400, OK_HEAD "Transfer-Encoding: xchunked\r\n\r\n"},
    {"identity coding", 400, OK_HEAD "Transfer-Encoding: identity\r\n\r\n"},
    {"two codings", 400, OK_HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n"},
    {"coding twice", 400, CHUNKED "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
    {"coding with a tab behind", 400, OK_HEAD "Transfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n"},
    {"coding on 1.0", 400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
    {"two hosts", 400, OK_HEAD "Host: a\r\n\r\n"},
    {"no host", 400, "GET / HTTP/1.1\r\n\r\n"},
    {"host with a path", 400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"},
    {"host with a user", 400, "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"},
    {"two tokens", 400, OK_HEAD "Authorization: a\r\nAuthorization: b\r\n\r\n"},
    {"absolute target", 400, "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"asterisk target", 400, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"authority target", 400, "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"CONNECT with a path", 400, "CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"control byte in the target", 400, "GET /\001 HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"tab in the target", 400, "GET /\ta HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"fragment in the target", 400, "GET /#a HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"raw UTF-8 in the target", 400, "GET /\303\244 HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"no target", 400, "GET HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"two spaces", 400, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"two spaces before the version", 400, "GET /  HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"space after the version", 400, "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"},
    {"tab in the line", 400, "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"empty first line", 400, "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"HTTP/0.9", 400, "GET /\r\n\r\n"},
    {"CR alone after the version", 400, "GET / HTTP/1.1\rHost: a\r\n\r\n"},
    {"CR alone after an empty value", 400, OK_HEAD "X:\rY: a\r\n\r\n"},
    {"folded empty value", 400, OK_HEAD "X:\r\n a\r\n\r\n"},
    {"other protocol", 400, "GET / ICY/1.1\r\nHost: a\r\n\r\n"},
    {"a TLS hello", 400, "\026\003\001\002"},
    {"HTTP/2", 505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
    {"HTTP/1.2", 505, "GET / HTTP/1.2\r\nHost: a\r\n\r\n"},
    {"unknown method", 501, "BREW / HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"a method of RTSP", 501, "DESCRIBE / HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"a method of HTTP/2", 501, "PRI / HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"lower-case method", 501, "get / HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"unknown expectation", 417, OK_HEAD "Expect: tea\r\n\r\n"},
    {"bad chunk size", 400, CHUNKED "\r\nx\r\n"},
    {"negative chunk size", 400, CHUNKED "\r\n-1\r\n"},
    {"chunk size past 64 bits", 400, CHUNKED "\r\n10000000000000001\r\na\r\n0\r\n\r\n"},
    {"chunk with a bare LF", 400, CHUNKED "\r\n1\na\r\n0\r\n\r\n"},
    {"chunk size with CR alone", 400, CHUNKED "\r\n1\rXa\r\n0\r\n\r\n"},
    {"chunk without its CRLF", 400, CHUNKED "\r\n1\r\naab0\r\n\r\n"},
    {"chunk with LF for CRLF", 400, CHUNKED "\r\n1\r\na\n0\r\n\r\n"},
    {"chunk extension", 400, CHUNKED "\r\n1;a=\n\r\na\r\n0\r\n\r\n"},
    {"chunk extension without a name", 400, CHUNKED "\r\n1;=a\r\na\r\n0\r\n\r\n"},
    {"extension of the last chunk", 400, CHUNKED "\r\n1\r\na\r\n0;a\r\n\r\n"},
    {"space after a chunk size", 400, CHUNKED "\r\n1 \r\na\r\n0\r\n\r\n"},
    {"trailer", 400, CHUNKED "\r\n1\r\na\r\n0\r\nHost: b\r\n\r\n"},
    {"trailer without a name", 400, CHUNKED "\r\n1\r\na\r\n0\r\n: b\r\n\r\n"},
    {"end of chunks with a bare LF", 400, CHUNKED "\r\n0\r\n\n"},
};

TEST(what_has_two_readings_is_refused_and_the_connection_closed)
{
    static const char nul[] = OK_HEAD "X: a\0b\r\n\r\n";

    start();
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        int status = refused(refusals[i].data, strlen(refusals[i].data));

        if (status != refusals[i].status)
            TAP_FAIL("%s gives %d, not %d", refusals[i].what, status, refusals[i].status);
    }
    CHECK_INT(refused(nul, sizeof(nul) - 1), 400);
    finish();
}

TEST(a_refused_head_reaches_no_handler)
{
    start();
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
        if (!strstr(refusals[i].data, "/count"))
            (void)refused(refusals[i].data, strlen(refusals[i].data));
    CHECK_INT(atomic_load(&calls), 0);
    finish();
}

TEST(long_lines_and_many_headers_have_their_own_statuses)
{
    auto_buf struct buf b;
    auto_free char *a = xmalloc(1 << 20);

    memset(a, 'a', 1 << 20);
    buf_init(&b, 4 << 20);
    start();
    (void)buf_addf(&b, "GET /%.*s HTTP/1.1\r\nHost: a\r\n\r\n", 1 << 20, a);
    CHECK_INT(refused(b.data, b.len), 414);
    buf_clear(&b);
    (void)buf_addf(&b, OK_HEAD "X: %.*s\r\n\r\n", 1 << 20, a);
    CHECK_INT(refused(b.data, b.len), 431);
    buf_clear(&b);
    (void)buf_addf(&b, OK_HEAD "X: %.*s\r\n\r\n", (32 << 10) - 100, a);
    (void)buf_addf(&b, OK_HEAD "Connection: close\r\n\r\n");
    CHECK_INT(refused(b.data, b.len), 200);
    buf_clear(&b);
    (void)buf_add_str(&b, OK_HEAD);
    for (int i = 0; i < 100; i++)
        (void)buf_addf(&b, "X-%d: a\r\n", i);
    (void)buf_add_str(&b, "\r\n");
    CHECK_INT(refused(b.data, b.len), 431);
    buf_clear(&b);
    (void)buf_add_str(&b, OK_HEAD);
    for (int i = 0; i < 10000; i++)
        (void)buf_addf(&b, "X-%d: a\r\n", i);
    CHECK_INT(refused(b.data, b.len), 431);
    finish();
}

TEST(unusual_but_valid_heads_are_accepted)
{
    static const char *const valid[] = {
        "GET / HTTP/1.0\r\n\r\n",
        OK_HEAD "connection:close\r\nX-Empty:\r\nX-Tab:\t a b \t\r\nX-Latin: \344\r\n\r\n",
        ("POST /count HTTP/1.1\r\nhost: [::1]:3111\r\nConnection: close\r\n"
         "TRANSFER-ENCODING: CHUNKED\r\n\r\nA\r\n0123456789\r\n000\r\n\r\n"),
        "DELETE /a?b=%20&c=1+2?d HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    };

    start();
    for (size_t i = 0; i < ARRAY_LEN(valid); i++)
        if (refused(valid[i], strlen(valid[i])) != 200)
            TAP_FAIL("refused: %s", valid[i]);
    finish();
}

/* Each row: an Accept header and what http_prefers() says of events over JSON. */
static const struct {
    const char *accept;
    bool events;
} accepts[] = {
    {NULL, false},
    {"", false},
    {"text/event-stream", true},
    {"Text/Event-Stream", true},
    {"application/json", false},
    {"text/html, text/event-stream", true},
    {"text/html,text/event-stream,", true},
    {" , ,\ttext/event-stream ; charset=utf-8", true},
    {"text/event-streams", false},
    {"text/event-stream2;q=1, xtext/event-stream", false},
    {"*/*", false},
    {"text/*", false},
    {"text/*, application/json;q=0.1", false},
    {"text/event-stream, */*", true},
    {"*/*, text/event-stream", true},
    {"text/event-stream;q=0.5, */*", false},
    {"text/event-stream;q=0.9, */*;q=0.8", true},
    {"text/event-stream, application/*", true},
    {"text/event-stream, application/json", true},
    {"application/json, text/event-stream", false},
    {"application/json;q=0.5, text/event-stream", true},
    {"application/json;q=0.999, text/event-stream;q=1.000", true},
    {"text/event-stream;q=0.999, application/json", false},
    {"application/json;q=0, text/event-stream;q=0.001", true},
    {"text/event-stream;q=0", false},
    {"text/event-stream;Q=0.0, */*;q=0", false},
    {"application/*;q=0.4, */*;q=0.9, text/event-stream;q=0.5", true},
    {"text/event-stream;a=\"q=0, application/json\";q=0.5", true},
    {"application/json;a=\"\\\", text/event-stream\"", false},
    {"application/json;a=\"text/event-stream", false},
    {"text/event-stream;q=2", false},
    {"text/event-stream;q=1.001", false},
    {"text/event-stream;q=0.1234", false},
    {"text/event-stream;q=.5", false},
    {"text/event-stream;q=", false},
    {"text/event-stream;q=0.x", false},
    {"application/json;q=1e9, text/event-stream", true},
};

TEST(an_accept_header_is_read_as_a_whole)
{
    for (size_t i = 0; i < ARRAY_LEN(accepts); i++)
        if (http_prefers(accepts[i].accept, "text/event-stream", "application/json") !=
            accepts[i].events)
            TAP_FAIL("\"%s\" must %sprefer events", accepts[i].accept,
                     accepts[i].events ? "" : "not ");
}

/* Lists put together from pieces without sense. Each is in memory of exactly its size, so that the
 * sanitizer sees a read behind it. */
TEST(no_accept_header_prefers_both_of_two_types)
{
    static const char *const pieces[] = {"a/b", "a/c", "a/*", "*/*",  ";",    ",",
                                         "q=",  "0",   "1",   ".",    "5",    "\"",
                                         "\\",  " ",   "\t",  ";q=0", "\377", "=*/"};
    uint32_t random = 1;
    int preferring = 0;

    for (int i = 0; i < 100000; i++) {
        char text[128] = "";
        auto_free char *accept = NULL;
        bool one, other;

        for (int n = i % 16; n >= 0; n--) {
            random = random * 1664525 + 1013904223;
            (void)strncat(text, pieces[(random >> 16) % ARRAY_LEN(pieces)], 4);
        }
        accept = xstrdup(text);
        one = http_prefers(accept, "a/b", "a/c");
        other = http_prefers(accept, "a/c", "a/b");
        if (one && other)
            TAP_FAIL("\"%s\" prefers both", accept);
        preferring += one || other;
    }
    CHECK(preferring > 1000);
}

TEST(head_is_answered_without_a_body)
{
    auto_close int fd = -1;
    const char *text;

    start();
    fd = dial();
    put(fd, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\nHEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n"
            "GET /query?last HTTP/1.1\r\nHost: a\r\n\r\n");
    text = get(fd, "last");
    CHECK(strstr(text, "Content-Length: 2\r\n"));
    CHECK(strstr(text, "X-Method: HEAD\r\n"));
    CHECK(strstr(text, "Transfer-Encoding: chunked\r\n"));
    CHECK(!strstr(text, "{}") && !strstr(text, "data:"));
    CHECK(!strstr(text, "Server:"));
    finish();
}

TEST(an_unanswered_request_gets_a_500_in_json)
{
    auto_close int fd = -1;
    const char *text;

    start();
    fd = dial();
    put(fd, "GET /silent HTTP/1.1\r\nHost: a\r\n\r\n");
    text = get(fd, "\"code\"");
    CHECK_INT(status_of(text), 500);
    CHECK(strstr(text, "Content-Type: application/json\r\n"));
    CHECK(strstr(text, "{\"error\": \""));
    finish();
}

TEST(an_answer_header_with_a_line_end_is_refused)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        struct rlimit none = {0, 0};
        auto_close int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        auto_close int fd = -1;

        (void)setrlimit(RLIMIT_CORE, &none);
        (void)dup2(null, STDERR_FILENO);
        (void)signal(SIGABRT, SIG_DFL);
        start();
        fd = dial();
        put(fd, "GET /inject HTTP/1.1\r\nHost: a\r\n\r\n");
        _exit(strstr(get(fd, NULL), "Cookie") ? 1 : 0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* ---- time and load ---- */

TEST(a_slow_head_is_closed_at_its_deadline_however_it_drips)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    auto_close int quiet = -1;
    auto_close int drip = -1;

    limits.head_timeout_ms = 100;
    start_with(limits);
    quiet = dial();
    put(quiet, "GET / HTT");
    CHECK_INT(status_of(get(quiet, NULL)), 408);
    drip = dial();
    put(drip, "GET / HTTP/1.1\r\nX: ");
    for (;;) {
        struct pollfd p = {.fd = drip, .events = POLLIN};

        if (poll(&p, 1, 10) > 0)
            break;
        (void)send(drip, "a", 1, MSG_NOSIGNAL);
    }
    finish();
}

static bool conn_is_idle(struct conn *c)
{
    return atomic_load(&c->deadline) > 1 && atomic_load(&c->waits) == WAITS_REQUEST;
}

/* Waits until `count` connections are idle at once, and brings the deadline of each forward by
 * `ns`, or, with INT64_MAX, into the past. Returns the latest of their deadlines before. */
static int64_t age_idle(int count, int64_t ns)
{
    int64_t latest = 0, give_up = mono_ns() + PATIENCE_NS;

    for (int idle = 0; idle < count; (void)poll(NULL, 0, 1)) {
        CHECK(mono_ns() < give_up);
        idle = 0;
        pthread_mutex_lock(&server->lock);
        for (struct conn *c = server->conns; c; c = c->next)
            idle += conn_is_idle(c);
        for (struct conn *c = server->conns; c && idle >= count; c = c->next) {
            int64_t due = atomic_load(&c->deadline);

            if (conn_is_idle(c) &&
                atomic_compare_exchange_strong(&c->deadline, &due, due > ns ? due - ns : 1))
                latest = due > latest ? due : latest;
        }
        pthread_mutex_unlock(&server->lock);
    }
    return latest;
}

TEST(an_idle_connection_is_closed_and_the_client_reconnects)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    auto_close int fd = -1;
    int64_t before = mono_ns(), due;
    struct http_client *c;

    limits.head_timeout_ms = 40; /* looks every 10 ms; a whole head has no deadline */
    start_with(limits);
    c = new_client();
    check_fetch(c, "/query?1", "1");
    fd = dial();
    due = age_idle(2, INT64_MAX);
    CHECK(due >= before + 75 * 1000000000ll && due <= mono_ns() + 75 * 1000000000ll);
    CHECK_STR(get(fd, NULL), "");
    while (http_server_connections(server) > 0)
        (void)poll(NULL, 0, 1);
    check_fetch(c, "/query?2", "2");
    http_client_free(c);
    finish();
}

TEST(a_body_that_stops_coming_times_out)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    auto_close int fd = -1;

    limits.body_timeout_ms = 50;
    start_with(limits);
    fd = dial();
    put(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
    CHECK_INT(status_of(get(fd, NULL)), 408);
    finish();
}

TEST(a_reader_that_stops_reading_is_given_up)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    auto_close int fd = -1;

    limits.body_timeout_ms = 50;
    start_with(limits);
    fd = dial();
    for (;;) {
        static const char request[] = "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n";
        struct pollfd p = {.fd = fd, .events = POLLOUT | POLLRDHUP};

        CHECK(poll(&p, 1, -1) > 0);
        if (p.revents & (POLLRDHUP | POLLHUP | POLLERR))
            break;
        (void)send(fd, request, sizeof(request) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    finish();
}

/* The number of connections that wait for `what` and that no worker owns. */
static unsigned conns_waiting(enum conn_wait what)
{
    unsigned n = 0;

    pthread_mutex_lock(&server->lock);
    for (struct conn *c = server->conns; c; c = c->next)
        n += atomic_load(&c->deadline) > 0 && atomic_load(&c->waits) == what;
    pthread_mutex_unlock(&server->lock);
    return n;
}

static unsigned count_workers(void)
{
    unsigned n;

    pthread_mutex_lock(&server->lock);
    n = server->workers;
    pthread_mutex_unlock(&server->lock);
    return n;
}

/* Every worker waits for an event. `waiting` is read first: a worker that starts another one raises
 * `workers` before it raises `waiting`. */
static bool all_workers_wait(void)
{
    unsigned waiting = atomic_load(&server->waiting);

    return waiting == count_workers();
}

/* Waits until `idle` connections wait for a request, `partial` connections wait for the rest of a
 * head, and no worker is busy. */
static void await_idle_workers(unsigned idle, unsigned partial)
{
    AWAIT(conns_waiting(WAITS_REQUEST) == idle && conns_waiting(WAITS_REST) == partial &&
          all_workers_wait());
}

/* The server begins with 3 workers and starts another one when a request finds fewer than 2 that
 * wait. The test sends nothing before all workers wait, so at most 2 are busy: one with what the
 * test has sent, one with the clock tick. So a fourth worker may start, and a fifth may not. */
TEST(idle_connections_and_partial_heads_use_no_workers)
{
    enum { CONNECTIONS = 200, WORKERS_MOST = 4 };
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    int fds[CONNECTIONS];

    limits.head_timeout_ms = limits.idle_timeout_ms = 10 * PATIENCE_MS;
    start_with(limits);
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        unsigned partial = i / 2, idle = i - partial;

        fds[i] = dial();
        await_idle_workers(idle + 1, partial);
        put(fds[i], "GET /query?x HTTP/1.1\r\nHost: a\r\n\r\n");
        (void)get(fds[i], "\r\n\r\nx");
        await_idle_workers(idle + 1, partial);
        if (i % 2) {
            put(fds[i], "GET /quer");
            await_idle_workers(idle, partial + 1);
        }
    }
    CHECK(count_workers() <= WORKERS_MOST);
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        put(fds[i],
            i % 2 ? "y?y HTTP/1.1\r\nHost: a\r\n\r\n" : "GET /query?y HTTP/1.1\r\nHost: a\r\n\r\n");
        CHECK_INT(status_of(get(fds[i], "\r\n\r\ny")), 200);
        await_idle_workers(CONNECTIONS / 2 + (i + 1) / 2, CONNECTIONS / 2 - (i + 1) / 2);
    }
    CHECK(count_workers() <= WORKERS_MOST);
    CHECK_INT(http_server_connections(server), CONNECTIONS);
    for (int i = 0; i < CONNECTIONS; i++)
        (void)close(fds[i]);
    finish();
}

TEST(connections_past_the_maximum_get_a_503)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    auto_close int a = -1;
    auto_close int b = -1;

    limits.connections_max = 1;
    start_with(limits);
    a = dial();
    put(a, "GET /query?a HTTP/1.1\r\nHost: a\r\n\r\n");
    (void)get(a, "\r\n\r\na");
    b = dial();
    CHECK_INT(status_of(get(b, NULL)), 503);
    finish();
}

/* The status of a request on a connection of its own. */
static int ask_once_more(void)
{
    auto_close int fd = dial();

    put(fd, "GET /query?b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    return status_of(get(fd, NULL));
}

TEST(idle_connections_give_way_when_there_is_no_room)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    int64_t hour = 3600 * INT64_C(1000000000);
    auto_close int idle = -1;
    int status = 503;

    limits.connections_max = 1;
    limits.idle_timeout_ms = 3600 * 1000;
    start_with(limits);
    idle = dial();
    (void)age_idle(1, 0);
    CHECK_INT(ask_once_more(), 503);
    /* It has been idle for less than a 64th of the hour, so it is still there. Then it is older
     * than that, but far from its own deadline. */
    CHECK(age_idle(1, hour / 32) > mono_ns() + hour / 2);
    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until; (void)poll(NULL, 0, 10))
        if ((status = ask_once_more()) != 503)
            break;
    CHECK_INT(status, 200);
    CHECK_STR(get(idle, NULL), "");
    finish();
}

TEST(bodies_that_stop_coming_hold_no_worker_and_are_answered_when_they_go_on)
{
    static const struct {
        const char *begin, *rest, *answer;
    } cases[] = {
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel", "lo", "hello"},
        {"POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel", "lo", "\r\n\r\n5"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
         "lo\r\n0\r\n\r\n", "hello"},
        /* One that nobody wants, whose answer comes first. */
        {"POST /query?q HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel", "lo", NULL},
    };
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    struct http_client *c;
    int fds[40];

    limits.workers_max = 8;
    limits.crowded_grace_ms = limits.body_timeout_ms; /* none is ended for the others */
    start_with(limits);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = dial();
        put(fds[i], cases[i % ARRAY_LEN(cases)].begin);
        if (!cases[i % ARRAY_LEN(cases)].answer)
            (void)get(fds[i], "\r\n\r\nq");
    }
    c = new_client();
    for (int i = 0; i < 20; i++)
        check_fetch(c, "/query?free", "free");
    http_client_free(c);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        const char *answer = cases[i % ARRAY_LEN(cases)].answer;

        put(fds[i], cases[i % ARRAY_LEN(cases)].rest);
        if (answer)
            (void)get(fds[i], answer);
        put(fds[i], "GET /query?next HTTP/1.1\r\nHost: a\r\n\r\n");
        (void)get(fds[i], "next");
        (void)close(fds[i]);
    }
    finish();
}

/* Waits until one connection waits for a body, and moves the time by which that has kept its pace
 * back by `ns`. */
static void age_body(int64_t ns)
{
    bool found = false;

    for (int64_t until = mono_ns() + PATIENCE_NS; !found; (void)poll(NULL, 0, 1)) {
        CHECK(mono_ns() < until);
        pthread_mutex_lock(&server->lock);
        for (struct conn *c = server->conns; c && !found; c = c->next)
            if (atomic_load(&c->deadline) > 0 && atomic_load(&c->waits) == WAITS_BODY) {
                atomic_fetch_sub(&c->pace_ns, ns);
                found = true;
            }
        pthread_mutex_unlock(&server->lock);
    }
}

#define PART 40000

/* Sends a body but for its last byte. */
static int dial_and_stall(void)
{
    static char body[PART];
    int fd = dial();

    put(fd, "POST /long HTTP/1.1\r\nHost: a\r\nContent-Length: 40001\r\n\r\n");
    memset(body, 'x', sizeof(body));
    put_bytes(fd, body, sizeof(body));
    return fd;
}

TEST(what_stalled_bodies_hold_is_taken_from_the_memory_budget)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    auto_close int first = -1;
    auto_close int second = -1;
    struct budget memory;

    budget_init(&memory, 2 * PART); /* one, and no two with what a buffer has beside */
    limits.memory = &memory;
    start_with(limits);
    first = dial_and_stall();
    age_body(0);
    CHECK(memory.used >= PART);
    second = dial_and_stall();
    CHECK_INT(status_of(get(second, "\r\n\r\n")), 503);
    put(first, "x");
    CHECK_INT(status_of(get(first, "\r\n\r\n")), 200);
    finish();
    CHECK_INT(memory.used, 0);
    budget_done(&memory);
}

TEST(stalled_bodies_hold_no_more_than_what_has_come_of_them)
{
    static const char *const begins[] = {
        "POST /long HTTP/1.1\r\nHost: a\r\nContent-Length: 40001\r\n\r\nx",
        "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx",
        "POST /long HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\nx",
    };
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    struct budget memory;

    budget_init(&memory, 2 * PART);
    limits.memory = &memory;
    start_with(limits);
    for (size_t i = 0; i < ARRAY_LEN(begins); i++) {
        auto_close int fd = dial();

        put(fd, begins[i]);
        age_body(0);
        CHECK_INT(memory.used, 0);
        CHECK_INT(shutdown(fd, SHUT_WR), 0);
        (void)get(fd, NULL);
    }
    finish();
    CHECK_INT(memory.used, 0);
    budget_done(&memory);
}

TEST(a_slow_body_that_holds_scarce_memory_is_ended_and_another_is_not)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    auto_close int fd = -1;
    struct budget memory;
    const char *text;

    budget_init(&memory, 2 * PART);
    limits.memory = &memory;
    limits.head_timeout_ms = 100; /* so that the clock ticks */
    start_with(limits);
    fd = dial_and_stall();
    age_body(HOLDER_GRACE_NS + PART * SLOW_NS_PER_BYTE);
    text = get(fd, NULL);
    CHECK_INT(status_of(text), 503);
    CHECK(strstr(text, "too many clients send slowly"));
    finish();
    CHECK_INT(memory.used, 0);
    budget_done(&memory);
}

TEST(slow_bodies_give_way_when_there_is_no_room)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    int64_t hour = 3600 * INT64_C(1000000000);
    auto_close int fd = -1;
    int status = 503;

    limits.connections_max = 1;
    limits.idle_timeout_ms = limits.body_timeout_ms = 3600 * 1000;
    start_with(limits);
    fd = dial_and_stall();
    age_body(0);
    CHECK_INT(ask_once_more(), 503);
    age_body(hour / 32);
    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until; (void)poll(NULL, 0, 10))
        if ((status = ask_once_more()) != 503)
            break;
    CHECK_INT(status, 200);
    CHECK_INT(status_of(get(fd, NULL)), 503);
    finish();
}

#define MANY 40

TEST(as_many_handlers_as_needed_block_at_once)
{
    int fds[MANY];

    CHECK_INT(pthread_barrier_init(&meeting, NULL, MANY), 0);
    start();
    for (int i = 0; i < MANY; i++) {
        fds[i] = dial();
        put(fds[i], "GET /meet HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for (int i = 0; i < MANY; i++) {
        CHECK_INT(status_of(get(fds[i], "met")), 200);
        (void)close(fds[i]);
    }
    finish();
}

/* ---- streams, upgrades, stopping ---- */

TEST(a_streamed_answer_is_read_whole_and_the_connection_kept)
{
    auto_buf struct buf want;
    struct http_client *c;

    buf_init(&want, 1 << 16);
    for (int i = 0; i < 100; i++)
        (void)buf_addf(&want, "data: %d\n\n", i);
    start();
    c = new_client();
    for (int i = 0; i < 3; i++)
        check_fetch(c, "/stream", want.data);
    CHECK_INT(http_server_connections(server), 1);
    http_client_free(c);
    finish();
}

TEST(a_parked_request_is_answered_as_its_news_comes_and_the_connection_kept)
{
    auto_close int fd = -1;

    start();
    fd = dial();
    /* The second request is there before the first has its answer. */
    put(fd, "GET /park HTTP/1.1\r\nHost: a\r\n\r\nGET /query?next HTTP/1.1\r\nHost: a\r\n\r\n");
    await_pipe(entered);
    CHECK_INT(write(news_pipe[1], "a", 1), 1);
    (void)get(fd, "1\r\na\r\n");
    CHECK_INT(write(news_pipe[1], ".", 1), 1);
    (void)get(fd, "next");
    CHECK_INT(http_server_connections(server), 1);
    finish();
}

TEST(requests_that_come_in_one_go_are_all_answered_in_order)
{
    auto_buf struct buf requests = {0};
    auto_close int fd = -1;
    const char *text, *at;

    buf_init(&requests, 1 << 20);
    for (int i = 0; i < 100; i++)
        (void)buf_addf(&requests, "GET /query?<%02d> HTTP/1.1\r\nHost: a\r\n\r\n", i);
    start();
    fd = dial();
    put(fd, requests.data);
    CHECK_INT(shutdown(fd, SHUT_WR), 0);
    at = text = get(fd, NULL);
    for (int i = 0; i < 100; i++) {
        char want[16];

        snprintf(want, sizeof(want), "<%02d>", i);
        at = strstr(at, want);
        if (!at)
            TAP_FAIL("there is no answer %d, or not in its place", i);
    }
    finish();
}

TEST(many_parked_requests_keep_no_thread)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    struct http_client *c;
    int fds[100];

    limits.workers_max = 3;
    start_with(limits);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = dial();
        put(fds[i], "GET /park HTTP/1.1\r\nHost: a\r\n\r\n");
        await_pipe(entered);
    }
    c = new_client();
    check_fetch(c, "/query?free", "free");
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        CHECK_INT(write(news_pipe[1], ".", 1), 1);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        (void)get(fds[i], "end\r\n0\r\n");
        (void)close(fds[i]);
    }
    while (parked_ended < ARRAY_LEN(fds)) /* the answer is there a moment before that */
        (void)poll(NULL, 0, 1);
    http_client_free(c);
    finish();
}

/* The kernel allows a descriptor 500 nested sets, so the parked may not share one. */
TEST(a_thousand_requests_can_be_parked_and_all_hear_of_the_end)
{
    struct rlimit files;
    static int fds[1000];

    CHECK_INT(getrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_max < 8 * ARRAY_LEN(fds))
        SKIP("needs 8,000 descriptors");
    files.rlim_cur = files.rlim_max;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &files), 0);
    start();
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = dial();
        put(fds[i], "GET /park?alone HTTP/1.1\r\nHost: a\r\n\r\n");
        await_pipe(entered);
    }
    http_server_drain(server);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        (void)get(fds[i], "end\r\n0\r\n");
        (void)close(fds[i]);
    }
    finish();
}

TEST(a_parked_request_is_woken_at_its_time)
{
    auto_close int fd = -1;

    start();
    fd = dial();
    put(fd, "GET /park?time HTTP/1.1\r\nHost: a\r\n\r\n");
    (void)get(fd, "time\r\n0\r\n");
    CHECK(news_seen & HTTP_TIME);
    finish();
}

TEST(a_parked_request_hears_that_its_client_has_gone)
{
    int fd;

    start();
    fd = dial();
    put(fd, "GET /park HTTP/1.1\r\nHost: a\r\n\r\n");
    await_pipe(entered);
    (void)close(fd);
    await_pipe(entered);
    CHECK(news_seen & HTTP_GONE);
    finish();
}

TEST(parked_requests_hear_that_the_server_is_about_to_end)
{
    auto_close int fd = -1;

    start();
    fd = dial();
    put(fd, "GET /park HTTP/1.1\r\nHost: a\r\n\r\n");
    await_pipe(entered);
    http_server_drain(server);
    (void)get(fd, "end\r\n0\r\n");
    CHECK(news_seen & HTTP_DRAIN);
    finish();
}

TEST(what_a_slow_client_does_not_take_waits_and_comes_whole)
{
    auto_close int fd = -1;
    static char data[1 << 16];
    size_t total = 0;
    ssize_t n;

    start();
    fd = dial();
    put(fd, "GET /pour HTTP/1.0\r\n\r\n");
    while ((n = read_some(fd, data, sizeof(data))) > 0)
        total += (size_t)n;
    CHECK_INT(n, 0);
    CHECK(total > 24u << 20 && total < (24u << 20) + 1000);
    finish();
}

TEST(a_client_that_takes_nothing_is_given_up)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    auto_close int fd = -1;

    limits.body_timeout_ms = 50;
    start_with(limits);
    fd = dial();
    put(fd, "GET /pour HTTP/1.1\r\nHost: a\r\n\r\n");
    await_pipe(entered);
    CHECK_INT(parked_ended, 1);
    finish();
}

TEST(a_time_that_is_over_is_not_told_again_while_the_client_takes_nothing)
{
    int fd;

    start();
    atomic_store(&late_steps, 0);
    fd = dial();
    put(fd, "GET /late HTTP/1.1\r\nHost: a\r\n\r\n");
    await_pipe(entered);
    for (int i = 0; i < 100; i++) /* as many requests are answered meanwhile */
        CHECK_INT(ask_once_more(), 200);
    CHECK(atomic_load(&late_steps) < 4);
    (void)close(fd); /* so that finish() does not wait for the client */
    finish();
}

TEST(a_request_past_the_last_seat_is_refused_and_a_seat_is_given_back)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    auto_close int first = -1, second = -1;

    limits.seats_max = 1;
    start_with(limits);
    first = dial();
    put(first, "GET /park HTTP/1.1\r\nHost: a\r\n\r\n");
    await_pipe(entered);
    second = dial();
    put(second, "GET /park HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK_INT(status_of(get(second, "try again")), 503);
    CHECK_INT(write(news_pipe[1], ".", 1), 1);
    (void)get(first, "end\r\n0\r\n");
    (void)close(steal_fd(first));
    while (http_server_connections(server) > 1)
        (void)poll(NULL, 0, 1);
    put(second, "GET /park HTTP/1.1\r\nHost: a\r\n\r\n");
    await_pipe(entered);
    CHECK_INT(write(news_pipe[1], ".", 1), 1);
    (void)get(second, "end\r\n0\r\n");
    finish();
}

TEST(a_long_body_waits_for_memory_and_is_refused_without)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    auto_free char *body = xcalloc(1, 200000);
    struct http_response r;
    struct http_client *c;
    struct budget memory;
    struct err err = {0};

    budget_init(&memory, 300000);
    limits.memory = &memory;
    limits.memory_wait_ms = 20; /* the first finds its memory free */
    start_with(limits);
    c = new_client();
    CHECK_INT(http_client_send(c, "POST", "/long", NULL, body, 100000, &r, &err), 0);
    CHECK_INT(r.status, 200);
    http_client_free(c);
    c = new_client();
    CHECK_INT(http_client_send(c, "POST", "/long", NULL, body, 200000, &r, &err), 0);
    CHECK_INT(r.status, 503);
    http_client_free(c);
    finish();
    CHECK_INT(memory.used, 0);
    budget_done(&memory);
}

static bool is_used(struct budget *memory)
{
    bool used;

    (void)pthread_mutex_lock(&memory->lock);
    used = memory->used > 0;
    (void)pthread_mutex_unlock(&memory->lock);
    return used;
}

TEST(long_bodies_that_come_together_do_not_wait_for_each_other)
{
    enum { LONG = 1000000, START = 200000 };
    static char body[LONG];
    static const char head[] = "POST /long HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    auto_close int first = -1, second = -1;
    struct budget memory;

    memset(body, 'x', sizeof(body));
    budget_init(&memory, 2 * LONG + START); /* one, and no two */
    limits.memory = &memory;
    limits.memory_wait_ms = 60000;
    start_with(limits);
    first = dial();
    put(first, head);
    put_bytes(first, body, START);
    while (!is_used(&memory))
        (void)poll(NULL, 0, 1);
    second = dial();
    put(second, head);
    put_bytes(second, body, START);
    put_bytes(first, body + START, LONG - START);
    CHECK_INT(status_of(get(first, "\r\n\r\n")), 200);
    put_bytes(second, body + START, LONG - START);
    CHECK_INT(status_of(get(second, "\r\n\r\n")), 200);
    finish();
    budget_done(&memory);
}

TEST(a_stream_that_was_not_ended_looks_broken)
{
    struct http_client *c;
    struct http_response r;
    struct err err = {0};
    auto_free char *body = NULL;
    auto_close int fd = -1;
    char text[4096];
    ssize_t n;
    size_t len;

    start();
    c = new_client();
    CHECK_INT(http_client_send(c, "GET", "/stream?broken", NULL, NULL, 0, &r, &err), 0);
    CHECK_STR(r.type, "text/event-stream");
    CHECK_INT(r.length, -1);
    CHECK_INT(http_client_body(c, 1 << 20, &body, &len, &err), -1);
    CHECK_INT(err.kind, ERR_UNAVAILABLE);
    http_client_free(c);

    /* HTTP/1.0 has no end mark but the close, so it must be a reset. */
    fd = dial();
    put(fd, "GET /stream?broken HTTP/1.0\r\n\r\n");
    while ((n = read_some(fd, text, sizeof(text))) > 0)
        continue;
    CHECK_INT(n, -ECONNRESET);
    finish();
}

TEST(the_client_can_wait_for_an_answer_and_for_its_parts_without_blocking)
{
    struct http_client *c;
    struct http_response r;
    struct err err = {0};
    char byte, all[4096];
    size_t len = 0;
    ssize_t n;

    start();
    c = new_client();
    CHECK_INT(http_client_begin(c, "POST", "/block", NULL, 0, &err), 0);
    await_pipe(entered);
    CHECK(!http_client_wait(c, 0));
    signal_pipe(leave);
    CHECK(http_client_wait(c, -1));
    CHECK_INT(http_client_finish(c, &r, &err), 0);
    CHECK_INT(http_client_read(c, all, sizeof(all), &err), 4);
    /* Whatever is left of a chunk, or is in the buffer, or the end itself, is something to read. */
    CHECK_INT(http_client_send(c, "GET", "/stream", NULL, NULL, 0, &r, &err), 0);
    do {
        CHECK(http_client_wait(c, -1));
        n = http_client_read(c, &byte, 1, &err);
        len += n > 0 ? 1 : 0;
    } while (n > 0);
    CHECK_INT(n, 0);
    CHECK_INT(len, 10 * 9 + 90 * 10);
    http_client_free(c);
    finish();
}

TEST(a_client_that_vanishes_is_noticed_by_the_stream)
{
    int fd;

    start();
    fd = dial();
    put(fd, "GET /gone HTTP/1.1\r\nHost: a\r\n\r\n");
    (void)get(fd, "hello");
    (void)close(fd);
    await_pipe(entered);
    CHECK_INT(atomic_load(&gone_seen), 1);
    finish();
}

TEST(an_upgraded_connection_echoes_with_its_body_and_early_bytes)
{
    struct http_client *c;
    struct http_response r;
    struct err err = {0};
    char text[20] = "";
    int fd = -1, raw;

    start();
    c = new_client();
    CHECK_INT(http_client_upgrade(c, "/upgrade", "echo", "body", 4, &r, &fd, &err), 0);
    CHECK_INT(r.status, 101);
    CHECK_INT(read_exact(fd, text, 4), 0);
    CHECK_STR(text, "body");
    CHECK_INT(write_all(fd, "ping", 4), 0);
    CHECK_INT(read_exact(fd, text, 4), 0);
    CHECK_STR(text, "ping");
    check_fetch(c, "/query?other", "other");
    http_client_free(c);

    raw = dial();
    put(raw, "GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n"
             "Upgrade: tea, Echo\r\n\r\nearly");
    CHECK_INT(status_of(get(raw, "early")), 101);
    (void)close(fd); /* so that finish() does not wait for the clients */
    (void)close(raw);
    finish();
}

TEST(bytes_that_come_with_a_request_are_there_when_a_step_upgrades_it)
{
    int fd;

    start();
    fd = dial();
    put(fd, "GET /upgrade-late HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
            "Upgrade: echo\r\n\r\nearly");
    CHECK_INT(status_of(get(fd, "early")), 101);
    (void)close(fd); /* so that finish() does not wait for the client */
    finish();
}

/* Closing with unread bytes resets the connection, and the client loses what is on its way. */
TEST(the_end_of_an_upgraded_connection_is_no_reset)
{
    char text[512];
    size_t len = 0;
    ssize_t n;
    auto_close int fd = -1;

    start();
    fd = dial();
    put(fd, "GET /upgrade-and-end HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
            "Upgrade: echo\r\n\r\n");
    await_pipe(entered);
    put(fd, "never read");
    signal_pipe(leave);
    while ((n = read(fd, text + len, sizeof(text) - len)) > 0)
        len += (size_t)n;
    CHECK_INT(n, 0);
    CHECK(len > 3 && memcmp(text + len - 3, "bye", 3) == 0);
    finish();
}

TEST(an_upgrade_that_was_not_asked_for_is_refused)
{
    struct http_client *c;
    struct http_response r;
    struct err err = {0};
    int fd = 0;

    start();
    c = new_client();
    CHECK_INT(http_client_send(c, "POST", "/upgrade", NULL, NULL, 0, &r, &err), 0);
    CHECK_INT(r.status, 400);
    CHECK_INT(http_client_upgrade(c, "/upgrade", "tea", NULL, 0, &r, &fd, &err), 0);
    CHECK_INT(r.status, 400);
    CHECK_INT(fd, -1);
    http_client_free(c);
    finish();
}

static void *stop_thread(void *arg)
{
    http_server_stop(server, *(int *)arg);
    return NULL;
}

TEST(a_stop_closes_idle_connections_and_lets_a_request_finish)
{
    auto_close int busy = -1;
    auto_close int idle = -1;
    int drain_ms = 60000;
    pthread_t t;
    const char *text;

    start();
    idle = dial();
    put(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    (void)get(idle, "{}");
    busy = dial();
    put(busy, "GET /block HTTP/1.1\r\nHost: a\r\n\r\n");
    await_pipe(entered);
    CHECK_INT(pthread_create(&t, NULL, stop_thread, &drain_ms), 0);
    CHECK_STR(get(idle, NULL), "");
    signal_pipe(leave);
    text = get(busy, NULL);
    CHECK_INT(status_of(text), 200);
    CHECK(strstr(text, "Connection: close\r\n") && strstr(text, "late"));
    CHECK_INT(pthread_join(t, NULL), 0);
    http_server_free(server);
}

TEST(a_stop_lets_a_body_come_to_its_end)
{
    auto_close int fd = -1;
    auto_close int idle = -1;
    int drain_ms = 60000;
    const char *text;
    pthread_t t;

    start();
    fd = dial();
    put(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
    age_body(0);
    idle = dial();
    put(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    (void)get(idle, "{}");
    CHECK_INT(pthread_create(&t, NULL, stop_thread, &drain_ms), 0);
    CHECK_STR(get(idle, NULL), ""); /* all that can be closed was looked at */
    put(fd, "lo");
    text = get(fd, NULL);
    CHECK_INT(status_of(text), 200);
    CHECK(strstr(text, "Connection: close\r\n") && strstr(text, "hello"));
    CHECK_INT(pthread_join(t, NULL), 0);
    http_server_free(server);
}

TEST(a_stop_shuts_down_what_does_not_finish_in_time)
{
    auto_close int fd = -1;

    start();
    fd = dial();
    put(fd, "GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    CHECK_INT(status_of(get(fd, "\r\n\r\n")), 101);
    http_server_stop(server, 20);
    CHECK_STR(get(fd, NULL), "");
    http_server_free(server);
}

/* ---- a successor ---- */

#define LOADERS 3

static struct {
    pthread_mutex_t lock;
    int fds[1000];
    unsigned n;
} inherited = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void inherit(int fd, bool is_tcp, void *arg)
{
    (void)arg;
    CHECK(is_tcp);
    pthread_mutex_lock(&inherited.lock);
    CHECK(inherited.n < ARRAY_LEN(inherited.fds));
    inherited.fds[inherited.n++] = fd;
    pthread_mutex_unlock(&inherited.lock);
}

static void *hand_over_thread(void *arg)
{
    http_server_hand_over(server, *(int *)arg, &(struct http_heir){inherit, NULL});
    return NULL;
}

/* Another server on the same socket, with the connections of the first. */
static void succeed(int listener)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    struct err err = {0};

    server = http_server_new(&limits, handle, NULL);
    CHECK_INT(http_server_listen(server, listener, true, &err), 0);
    CHECK_INT(http_server_start(server, &err), 0);
    while (inherited.n > 0)
        http_server_take(server, inherited.fds[--inherited.n], true);
}

static int start_shared(void)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    int listener = tcp_listener();
    struct err err = {0};

    CHECK_INT(pipe(entered), 0);
    CHECK_INT(pipe(leave), 0);
    server = http_server_new(&limits, handle, NULL);
    CHECK_INT(http_server_listen(server, fcntl(listener, F_DUPFD_CLOEXEC, 0), true, &err), 0);
    CHECK_INT(http_server_start(server, &err), 0);
    return listener;
}

/* Until the server has read a part of a request: before, it would go to the successor. */
static void await_partial(void)
{
    for (bool found = false; !found; (void)poll(NULL, 0, 1)) {
        pthread_mutex_lock(&server->lock);
        for (struct conn *c = server->conns; c; c = c->next)
            found = found || atomic_load(&c->waits) == WAITS_REST;
        pthread_mutex_unlock(&server->lock);
    }
}

TEST(a_successor_gets_idle_connections_and_those_that_wait_to_be_accepted)
{
    auto_close int busy = -1, idle = -1, fresh = -1, late = -1, partial = -1;
    int drain_ms = 60000, listener = start_shared();
    const char *text;
    pthread_t t;

    idle = dial();
    put(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    (void)get(idle, "{}");
    fresh = dial();
    busy = dial();
    put(busy, "GET /block HTTP/1.1\r\nHost: a\r\n\r\n");
    await_pipe(entered);
    partial = dial();
    put(partial, "GET / HTTP/1.1\r\nHo");
    await_partial();
    CHECK_INT(pthread_create(&t, NULL, hand_over_thread, &drain_ms), 0);
    while (http_server_connections(server) > 2)
        (void)poll(NULL, 0, 1);
    late = dial();
    put(late, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    put(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    put(partial, "st: a\r\n\r\n");
    CHECK(strstr(get(partial, NULL), "Connection: close\r\n") != NULL);
    signal_pipe(leave);
    text = get(busy, NULL);
    CHECK_INT(status_of(text), 200);
    CHECK(strstr(text, "Connection: close\r\n") && strstr(text, "late"));
    CHECK_INT(pthread_join(t, NULL), 0);
    http_server_free(server);

    succeed(listener);
    put(fresh, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK_INT(status_of(get(idle, "{}")), 200);
    CHECK_INT(status_of(get(fresh, "{}")), 200);
    CHECK_INT(status_of(get(late, "{}")), 200);
    finish();
}

/* A drain_ms of 0 leaves no time to requests in flight, but idle connections are not in flight. */
TEST(a_successor_gets_idle_connections_also_when_nothing_is_waited_for)
{
    auto_close int busy = -1, idle = -1, fresh = -1;
    int drain_ms = 0, listener = start_shared();

    idle = dial();
    put(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    (void)get(idle, "{}");
    fresh = dial();
    busy = dial();
    put(busy, "GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    CHECK_INT(status_of(get(busy, "\r\n\r\n")), 101);
    (void)age_idle(2, 0);
    (void)hand_over_thread(&drain_ms);
    CHECK_INT(http_server_connections(server), 0);
    CHECK_INT(inherited.n, 2);
    CHECK_STR(get(busy, NULL), "");
    http_server_free(server);

    succeed(listener);
    put(fresh, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    put(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK_INT(status_of(get(fresh, "{}")), 200);
    CHECK_INT(status_of(get(idle, "{}")), 200);
    finish();
}

TEST(a_stop_without_a_drain_closes_idle_connections)
{
    auto_close int idle = -1;

    start();
    idle = dial();
    (void)age_idle(1, 0);
    http_server_stop(server, 0);
    CHECK_INT(http_server_connections(server), 0);
    CHECK_STR(get(idle, NULL), "");
    http_server_free(server);
}

/* A whole answer of this handler; get() is for one thread. Says whether another may follow. */
static bool get_answer(int fd)
{
    char text[1024];
    size_t len = 0;

    do {
        ssize_t n = read_some(fd, text + len, sizeof(text) - 1 - len);

        if (n <= 0)
            TAP_FAIL("the stream ended with %zd after %zu bytes", n, len);
        len += (size_t)n;
        text[len] = '\0';
    } while (!strstr(text, "{}"));
    return !strstr(text, "Connection: close");
}

static void *load_main(void *arg)
{
    atomic_uint *done = arg;

    while (atomic_load(done) < 2000) {
        auto_close int fd = dial();

        /* A second one, if the first answer allows it. */
        for (int i = 0; i < 2; i++) {
            put(fd, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            if (!get_answer(fd))
                break;
        }
        atomic_fetch_add(done, 1);
    }
    return NULL;
}

TEST(under_load_no_request_is_lost_on_the_way_to_a_successor)
{
    int drain_ms = 60000, listener = start_shared();
    pthread_t loaders[LOADERS];
    atomic_uint done = 0;

    for (int i = 0; i < LOADERS; i++)
        CHECK_INT(pthread_create(&loaders[i], NULL, load_main, &done), 0);
    while (atomic_load(&done) < 1500) {
        unsigned before = atomic_load(&done);

        while (atomic_load(&done) < before + 20)
            (void)poll(NULL, 0, 1);
        (void)hand_over_thread(&drain_ms);
        http_server_free(server);
        succeed(fcntl(listener, F_DUPFD_CLOEXEC, 0));
    }
    for (int i = 0; i < LOADERS; i++)
        CHECK_INT(pthread_join(loaders[i], NULL), 0);
    (void)close(listener);
    finish();
}

/* ---- unix sockets and the client ---- */

static uid_t seen_uid;

static void handle_uid(struct http_req *req, void *arg)
{
    const char *token = http_req_header(req, "AUTHORIZATION");

    (void)arg;
    seen_uid = http_req_peer_uid(req);
    CHECK(!http_req_is_tcp(req));
    http_reply(req, 200, "Text/Plain; charset=utf-8", token ? token : "",
               token ? strlen(token) : 0);
}

TEST(a_unix_peer_is_known_by_its_uid_and_sends_its_token)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    char dir[] = "/tmp/test_http.XXXXXX", path[64], target[80];
    struct http_response r;
    struct err err = {0};
    struct http_client *c;
    auto_free char *body = NULL;
    size_t len;

    CHECK(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/s", dir);
    snprintf(target, sizeof(target), "unix:%s", path);
    server = http_server_new(&limits, handle_uid, NULL);
    CHECK_INT(http_server_listen(server, unix_listen(path, 10), false, &err), 0);
    CHECK_INT(http_server_start(server, &err), 0);
    c = http_client_new(target, "secret");
    CHECK_INT(http_client_send(c, "GET", "/", NULL, NULL, 0, &r, &err), 0);
    CHECK_INT(http_client_body(c, 100, &body, &len, &err), 0);
    CHECK_STR(body, "Bearer secret");
    CHECK_STR(r.type, "text/plain");
    CHECK_INT(r.length, 13);
    CHECK_INT(seen_uid, getuid());
    finish();
    CHECK_INT(http_client_send(c, "GET", "/", NULL, NULL, 0, &r, &err), -1);
    CHECK_INT(err.kind, ERR_UNAVAILABLE);
    http_client_free(c);
    CHECK_INT(unlink(path), 0);
    CHECK_INT(rmdir(dir), 0);
}

TEST(the_client_refuses_what_would_split_its_request)
{
    struct http_client *c = http_client_new("http://127.0.0.1:1", NULL);
    struct http_response r;
    struct err err = {0};

    CHECK_INT(http_client_send(c, "GET", "/a b", NULL, NULL, 0, &r, &err), -1);
    CHECK_INT(err.kind, ERR_INVALID);
    CHECK_INT(http_client_send(c, "GET", "/a\r\nX: b", NULL, NULL, 0, &r, &err), -1);
    CHECK_INT(err.kind, ERR_INVALID);
    CHECK_INT(http_client_send(c, "GET", "/", NULL, NULL, 0, &r, &err), -1);
    CHECK_INT(err.kind, ERR_UNAVAILABLE);
    http_client_free(c);
    c = http_client_new("ftp://a", NULL);
    CHECK_INT(http_client_send(c, "GET", "/", NULL, NULL, 0, &r, &err), -1);
    CHECK_INT(err.kind, ERR_INVALID);
    http_client_free(c);
}

/* The status of one raw answer to the client, or -1. */
static int status_read(const char *answer)
{
    auto_close int listener = tcp_listener();
    auto_close int fd = -1;
    struct http_client *c = new_client();
    struct http_response r = {0};
    struct err err = {0};
    bool answered;

    CHECK_INT(http_client_begin(c, "GET", "/", NULL, 0, &err), 0);
    fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    put(fd, answer);
    CHECK_INT(shutdown(fd, SHUT_WR), 0);
    answered = http_client_finish(c, &r, &err) == 0;
    if (!answered)
        CHECK_INT(err.kind, ERR_UNAVAILABLE);
    http_client_free(c);
    return answered ? r.status : -1;
}

#define ANSWER "HTTP/1.1 200 OK\r\n"

TEST(the_client_refuses_an_answer_with_two_readings)
{
    static const char *const answers[] = {
        ANSWER "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        ANSWER "Content-Length: -1\r\n\r\n",
        ANSWER "Content-Length: 18446744073709551615\r\n\r\n",
        ANSWER "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        ANSWER "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        ANSWER "Transfer-Encoding: identity\r\n\r\na",
        ANSWER "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\nA: b\n\nHTTP/1.1 404 Not Found\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "220 mail.example ESMTP\r\n\r\n",
    };

    CHECK_INT(status_read(ANSWER "Content-Length: 0\r\n\r\n"), 200);
    CHECK_INT(status_read(ANSWER "TRANSFER-ENCODING: Chunked\r\n\r\n0\r\n\r\n"), 200);
    CHECK_INT(status_read("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 404\r\n\r\n"), 404);
    for (size_t i = 0; i < ARRAY_LEN(answers); i++)
        if (status_read(answers[i]) != -1)
            TAP_FAIL("taken: %s", answers[i]);
}

TEST(an_answer_over_the_callers_limit_is_refused)
{
    struct http_client *c;
    struct http_response r;
    struct err err = {0};
    char *body;
    size_t len;

    start();
    c = new_client();
    CHECK_INT(http_client_send(c, "GET", "/stream", NULL, NULL, 0, &r, &err), 0);
    CHECK_INT(http_client_body(c, 10, &body, &len, &err), -1);
    CHECK_INT(err.kind, ERR_TOO_LARGE);
    check_fetch(c, "/query?next", "next");
    http_client_free(c);
    finish();
}

TAP_MAIN
