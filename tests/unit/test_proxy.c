#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "http/answer.h"
#include "rest/proxy_internal.h"
#include "tap.h"

/* ---- which port of which sandbox ---- */

/* below: how the path ends, from the API's prefix on. */
static const char *address(const char *host, const char *path, const char *below)
{
    const char *rest = below ? path + strlen(path) - strlen(below) : NULL;
    static char text[2 * PROXY_WORD_MAX];
    struct proxy_address a;
    enum proxy_found found = proxy_address("localhost", host, path, rest, &a);

    if (found == PROXY_NONE)
        return "none";
    (void)snprintf(text, sizeof(text), "%s%s %u %s %zu", found == PROXY_BARE ? "bare " : "", a.word,
                   a.port, a.path, a.prefix_len);
    return text;
}

TEST(a_port_has_a_host_name_of_its_own)
{
    CHECK_STR(address("8080-web.localhost", "/a", NULL), "web 8080 /a 0");
    CHECK_STR(address("8080-web.localhost:3111", "/a", NULL), "web 8080 /a 0");
    CHECK_STR(address("80-Web-1.LOCALHOST", "/", NULL), "web-1 80 / 0");
    CHECK_STR(address("80-sbx-0123456789abcdef01234567.localhost", "/", NULL),
              "sbx_0123456789abcdef01234567 80 / 0");
    CHECK_STR(address("80-sbx_0123456789abcdef01234567.localhost", "/", NULL),
              "sbx_0123456789abcdef01234567 80 / 0");
    CHECK_STR(address("80-sbx-short.localhost", "/", NULL), "sbx-short 80 / 0");
}

TEST(other_host_names_are_not_taken_for_one)
{
    static const char *const others[] = {
        "localhost",           "localhost:3111",           "web.localhost",
        "8080-.localhost",     "-web.localhost",           "0-web.localhost",
        "65536-web.localhost", "080-web.localhost",        "8080-web.localhost.evil.test",
        "8080-web.evil.test",  "8080-web.localhost:",      "8080-web.localhost:1x",
        "8080-web.localhos",   "8080-web.localhost.",      "8080-a.b.localhost",
        "8080-w%62.localhost", "8080-web.xlocalhost",      "8080-web",
        "8080 -web.localhost", "8080-web.localhost:999999"};

    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        CHECK_STR(address(others[i], "/", NULL), "none");
}

TEST(a_port_is_found_below_the_api)
{
    CHECK_STR(address("localhost", "/s/proxy/web/80/a/b", "/proxy/web/80/a/b"), "web 80 /a/b 15");
    CHECK_STR(address("localhost", "/s/proxy/a%20b/80/", "/proxy/a%20b/80/"), "a b 80 / 17");
    CHECK_STR(address("localhost", "/s/proxy/a@k%3Dv/80/", "/proxy/a@k%3Dv/80/"), "a@k=v 80 / 19");
    CHECK_STR(address("localhost", "/s/proxy/web/80", "/proxy/web/80"), "bare web 80 / 15");
    CHECK_STR(address("localhost", "/s/proxy/web/x/", "/proxy/web/x/"), "none");
    CHECK_STR(address("localhost", "/s/proxy//80/", "/proxy//80/"), "none");
    CHECK_STR(address("localhost", "/s/proxy/web", "/proxy/web"), "none");
    CHECK_STR(address("localhost", "/s/proxy/%00/80/", "/proxy/%00/80/"), "none");
    CHECK_STR(address(NULL, "/s/sandboxes", "/sandboxes"), "none");
}

TEST(a_word_in_a_path_is_as_long_as_in_other_routes)
{
    char word[PROXY_WORD_MAX + 2], path[sizeof(word) + 16], want[sizeof(word) + 16];

    memset(word, 'w', sizeof(word));
    word[PROXY_WORD_MAX] = '\0';
    (void)snprintf(path, sizeof(path), "/proxy/%s/80/", word);
    (void)snprintf(want, sizeof(want), "%s 80 / %zu", word, strlen(path) - 1);
    CHECK_STR(address(NULL, path, path), want);
    word[PROXY_WORD_MAX] = 'w';
    word[PROXY_WORD_MAX + 1] = '\0';
    (void)snprintf(path, sizeof(path), "/proxy/%s/80/", word);
    CHECK_STR(address(NULL, path, path), "none");
}

/* ---- who may ask ---- */

TEST(who_may_ask_is_decided_by_a_table)
{
    static const struct {
        bool proved, token, foreign;               /* who */
        bool by_name, exposed, is_signed, require; /* what */
        enum proxy_verdict want;
    } rows[] = {
        /* proof opens everything */
        {1, 1, 1, 1, 0, 0, 1, PROXY_OPEN},
        {0, 1, 1, 1, 0, 1, 1, PROXY_OPEN},
        {0, 0, 1, 1, 0, 1, 1, PROXY_OPEN},
        /* requireAuth asks for it always, also where there is no token */
        {0, 0, 0, 0, 1, 0, 1, PROXY_UNPROVED},
        {0, 1, 0, 0, 1, 0, 1, PROXY_UNPROVED},
        /* an id and an exposed port are enough otherwise */
        {0, 1, 0, 0, 1, 0, 0, PROXY_OPEN},
        {0, 1, 1, 0, 1, 0, 0, PROXY_OPEN},
        {0, 0, 1, 0, 1, 0, 0, PROXY_OPEN},
        /* a name or a port that is not exposed is not */
        {0, 1, 0, 1, 1, 0, 0, PROXY_UNPROVED},
        {0, 1, 0, 0, 0, 0, 0, PROXY_UNPROVED},
        /* without a token it is as with the API: anybody here, no page of others */
        {0, 0, 0, 1, 0, 0, 0, PROXY_OPEN},
        {0, 0, 1, 1, 1, 0, 0, PROXY_FOREIGN},
        {0, 0, 1, 0, 0, 0, 0, PROXY_FOREIGN},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct proxy_asker asker = {rows[i].proved, rows[i].token, rows[i].foreign};
        struct proxied to = {.by_name = rows[i].by_name,
                             .exposed = rows[i].exposed,
                             .is_signed = rows[i].is_signed,
                             .require_auth = rows[i].require};

        if (proxy_judge(&asker, &to) != rows[i].want)
            TAP_FAIL("row %zu", i);
    }
}

TEST(pages_of_others_are_told_by_what_browsers_say)
{
    const char *host = "80-web.localhost:3111", *own = "http://80-web.localhost:3111";

    CHECK(!proxy_is_foreign("GET", host, NULL, NULL, NULL, NULL)); /* curl */
    CHECK(!proxy_is_foreign("POST", host, own, "same-origin", "cors", "empty"));
    CHECK(!proxy_is_foreign("GET", host, NULL, "none", "navigate", "document"));
    CHECK(!proxy_is_foreign("GET", host, NULL, "cross-site", "navigate", "document"));
    CHECK(proxy_is_foreign("GET", host, NULL, "cross-site", "navigate", "iframe"));
    CHECK(proxy_is_foreign("GET", host, NULL, "cross-site", "no-cors", "image"));
    CHECK(proxy_is_foreign("GET", host, NULL, "same-site", "no-cors", "script"));
    CHECK(proxy_is_foreign("POST", host, NULL, "cross-site", "navigate", "document"));
    CHECK(proxy_is_foreign("GET", host, "https://evil.test", NULL, NULL, NULL));
    CHECK(proxy_is_foreign("GET", host, "null", NULL, NULL, NULL));
    CHECK(proxy_is_foreign("GET", host, "http://localhost:3111", "same-site", NULL, NULL));
    CHECK(proxy_is_foreign("GET", NULL, own, NULL, NULL, NULL));
}

/* ---- what is ours in queries and cookies ---- */

static const char *taken(bool (*take)(const char *, const char *, char *, size_t, struct buf *),
                         const char *text)
{
    static char answer[256];
    auto_buf struct buf rest = {.max = 256};
    char value[8] = "";
    bool found = take(text, "sig", value, sizeof(value), &rest);

    (void)snprintf(answer, sizeof(answer), "%s|%s", found ? value : "-", rest.len ? rest.data : "");
    return answer;
}

TEST(a_signature_is_taken_out_of_a_query_and_of_cookies)
{
    CHECK_STR(taken(proxy_query_take, "sig=1"), "1|");
    CHECK_STR(taken(proxy_query_take, "a=b&sig=1&c"), "1|a=b&c");
    CHECK_STR(taken(proxy_query_take, "a=sig=1&xsig=2&sigh=3"), "-|a=sig=1&xsig=2&sigh=3");
    CHECK_STR(taken(proxy_query_take, "sig=1&sig=2"), "2|");
    CHECK_STR(taken(proxy_query_take, "sig=0123456789"), "0123456|");
    CHECK_STR(taken(proxy_cookie_take, "a=b; sig=1; c=d"), "1|a=b; c=d");
    CHECK_STR(taken(proxy_cookie_take, "sig=1"), "1|");
    CHECK_STR(taken(proxy_cookie_take, "a=b;  c=d"), "-|a=b; c=d");
}

/* ---- answers of servers that nobody trusts ---- */

static const char *parsed(const char *text)
{
    static char answer[256];
    static struct http_answer a;
    size_t len = strlen(text);
    auto_free char *copy = xstrndup(text, len);
    ssize_t end = http_answer_end(copy, len, 0);
    const char *why;

    if (end <= 0)
        return end == 0 ? "incomplete" : "bad start";
    why = http_answer_parse(&a, copy, (size_t)end);
    if (why)
        return "refused";
    (void)snprintf(answer, sizeof(answer), "%d %s%s%s%lld %u", a.status, a.http10 ? "1.0 " : "",
                   a.keep_alive ? "keeps " : "", a.chunked ? "chunked " : "", (long long)a.length,
                   a.count);
    return answer;
}

TEST(heads_of_answers_have_one_reading_or_none)
{
    static const char *const rows[][2] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "200 keeps 5 1"},
        {"HTTP/1.1 200\r\n\r\n", "200 keeps -1 0"},
        {"HTTP/1.1 404 Not There At All\r\nA: b\r\n\r\n", "404 keeps -1 1"},
        {"HTTP/1.0 200 OK\r\n\r\n", "200 1.0 -1 0"},
        {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", "200 1.0 keeps -1 1"},
        {"HTTP/1.1 200 OK\r\nConnection: x, close\r\n\r\n", "200 -1 1"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "200 keeps chunked -1 1"},
        {"HTTP/1.1 101 X\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\n", "101 keeps -1 2"},
        {"HTTP/1.1 200 OK\r\n", "incomplete"},
        {"HTTP/1.1 200 OK\nA: b\n\n", "bad start"},
        {"\r\nHTTP/1.1 200 OK\r\n\r\n", "bad start"},
        {"HTTP/1.1  200 OK\r\n\r\n", "refused"},
        {"HTTP/1.2 200 OK\r\n\r\n", "refused"},
        {"HTTP/2.0 200 OK\r\n\r\n", "refused"},
        {"HTTP/1.1 20 OK\r\n\r\n", "refused"},
        {"HTTP/1.1 2000 OK\r\n\r\n", "refused"},
        {"HTTP/1.1 099 OK\r\n\r\n", "refused"},
        {"HTTP/1.1 600 OK\r\n\r\n", "refused"},
        {"http/1.1 200 OK\r\n\r\n", "refused"},
        {"SSH-2.0-x\r\n\r\n", "refused"},
        {"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "refused"},
        {"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", "refused"},
        {"HTTP/1.1 200 OK\r\n: b\r\n\r\n", "refused"},
        {"HTTP/1.1 200 OK\r\nA\r\n\r\n", "refused"},
        {"HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n", "refused"},
        {"HTTP/1.1 200 O\rK\r\n\r\n", "refused"},
        {"HTTP/1.1 200 OK\r\nA: \x01\r\n\r\n", "refused"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", "refused"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n", "refused"},
        {"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", "refused"},
        {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "refused"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0x1\r\n\r\n", "refused"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n", "refused"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "refused"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
         "refused"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "refused"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n", "refused"},
        {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "refused"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(parsed(rows[i][0]), rows[i][1]) != 0)
            TAP_FAIL("%s gives %s, not %s", rows[i][0], parsed(rows[i][0]), rows[i][1]);
}

static const char *decoded(const char *text, size_t piece)
{
    static char answer[256];
    struct http_answer a = {.status = 200, .chunked = true, .length = -1};
    struct http_body b;
    auto_buf struct buf body = {.max = 200};
    size_t len = strlen(text), off = 0;

    http_body_init(&b, &a, false);
    while (off < len && !b.done) {
        size_t n = len - off < piece ? len - off : piece, used, got;
        auto_free char *copy = xstrndup(text + off, n);

        if (http_body_decode(&b, copy, n, &used, &got) < 0) {
            http_body_done(&b);
            return "bad";
        }
        (void)buf_add(&body, copy, got);
        off += used;
    }
    (void)snprintf(answer, sizeof(answer), "%s|%s|%s", body.len ? body.data : "",
                   b.trailers.len ? b.trailers.data : "", b.done ? text + off : "open");
    http_body_done(&b);
    return answer;
}

TEST(chunks_of_answers_are_decoded_however_they_are_cut)
{
    static const char *const rows[][2] = {
        {"5\r\nhello\r\n0\r\n\r\n", "hello||"},
        {"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\nmore", "hello||more"},
        {"1\r\na\r\n0\r\nX-Sum: 1\r\nY:  2\r\n\r\n", "a|X-Sum: 1\r\nY: 2\r\n|"},
        {"5\r\nhel", "hel||open"},
        {"5\nhello\r\n0\r\n\r\n", "bad"},
        {"zz\r\n", "bad"},
        {"-1\r\n", "bad"},
        {"1\r\nab\r\n0\r\n\r\n", "bad"},
        {"ffffffffffffffffff\r\n", "bad"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (size_t piece = 1; piece < 40; piece += 3)
            if (strcmp(decoded(rows[i][0], piece), rows[i][1]) != 0)
                TAP_FAIL("%s in pieces of %zu gives %s, not %s", rows[i][0], piece,
                         decoded(rows[i][0], piece), rows[i][1]);
}

/* ---- the head that the client gets ---- */

static const char *passed_on(const char *text, const struct proxy_rules *rules)
{
    static char answer[2048];
    static struct http_answer a;
    auto_buf struct buf out = {.max = 4096};
    auto_free char *copy = xstrdup(text);

    CHECK(!http_answer_parse(&a, copy, strlen(text)));
    CHECK_INT(proxy_answer_head(&a, rules, &out), 0);
    (void)snprintf(answer, sizeof(answer), "%s", out.data);
    return answer;
}

TEST(a_page_below_the_api_gets_an_origin_of_its_own_and_keeps_nothing)
{
    struct proxy_rules rules = {.port = 80, .prefix = "/s/proxy/w/80"};
    const char *got = passed_on("HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nClear-Site-Data: \"*\"\r\n"
                                "Service-Worker-Allowed: /\r\nAlt-Svc: h3\r\nLocation: /x\r\n"
                                "NEL: {}\r\nReport-To: {}\r\n"
                                "Content-Security-Policy: default-src *\r\n\r\n",
                                &rules);

    CHECK_STR(got, "HTTP/1.1 200 OK\r\nLocation: /s/proxy/w/80/x\r\n"
                   "Content-Security-Policy: default-src *\r\n"
                   "Content-Security-Policy: sandbox allow-downloads allow-forms allow-modals "
                   "allow-popups allow-scripts\r\n");
}

TEST(cookies_belong_to_the_host_that_set_them)
{
    struct proxy_rules rules = {.port = 80, .by_host = true};

    CHECK_STR(passed_on("HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Domain=localhost; Path=/; "
                        "domain = x;\tDomain=y; \t domain=z; HttpOnly\r\n"
                        "Set-Cookie: cay_signature=x; Path=/\r\nSet-Cookie: domain=y\r\n\r\n",
                        &rules),
              "HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/; HttpOnly\r\nSet-Cookie: domain=y\r\n");
}

TEST(only_addresses_of_the_server_itself_are_led_back)
{
    struct proxy_rules rules = {.port = 80, .prefix = "/p"};
    static const char *const rows[][2] = {
        {"http://localhost:80/a", "/p/a"},
        {"http://127.0.0.1:80", "/p/"},
        {"http://localhost:80?q", "/p/?q"},
        {"/a", "/p/a"},
        {"//other.test/a", "//other.test/a"},
        {"http://localhost:8080/a", "http://localhost:8080/a"},
        {"http://localhost:80.evil.test/", "http://localhost:80.evil.test/"},
        {"https://other.test/", "https://other.test/"},
        {"a", "a"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_free char *text = xasprintf("HTTP/1.1 302 F\r\nLocation: %s\r\n\r\n", rows[i][0]);
        auto_free char *want = xasprintf("Location: %s\r\n", rows[i][1]);

        if (!strstr(passed_on(text, &rules), want))
            TAP_FAIL("%s gives %s", rows[i][0], passed_on(text, &rules));
    }
}

/* ---- connections that are kept ---- */

/* A connection whose other side takes nothing: close() would wait for what is unsent, since
 * another holder of the socket has set SO_LINGER. */
static void stuck_pair(int *ret_ours, int *ret_theirs)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger wait = {.l_onoff = 1, .l_linger = 5};
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    static const char data[64 << 10];
    socklen_t len = sizeof(at);

    CHECK_INT(bind(s, (struct sockaddr *)&at, len), 0);
    CHECK_INT(listen(s, 1), 0);
    CHECK_INT(getsockname(s, (struct sockaddr *)&at, &len), 0);
    *ret_ours = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(connect(*ret_ours, (struct sockaddr *)&at, len), 0);
    *ret_theirs = accept(s, NULL, NULL);
    while (send(*ret_ours, data, sizeof(data), MSG_DONTWAIT) > 0)
        ;
    CHECK_INT(setsockopt(*ret_ours, SOL_SOCKET, SO_LINGER, &wait, sizeof(wait)), 0);
    (void)close(s);
}

TEST(closing_a_connection_of_a_sandbox_is_not_waited_for)
{
    struct proxy_pool *pool = proxy_pool_new();
    struct linger wait = {.l_onoff = 1};
    socklen_t len = sizeof(wait);
    int ours, theirs, held;

    stuck_pair(&ours, &theirs);
    held = dup(ours);
    proxy_pool_put(pool, "sbx_1", 80, ours);
    proxy_pool_free(pool);
    CHECK(fcntl(ours, F_GETFD) < 0);
    CHECK_INT(getsockopt(held, SOL_SOCKET, SO_LINGER, &wait, &len), 0);
    CHECK_INT(wait.l_onoff, 0); /* so close() does not wait */
    (void)close(held);
    (void)close(theirs);
}

TAP_MAIN
