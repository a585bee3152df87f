/* What the first bytes of a connection say: TLS and HTTP. */
#include "base/mem.h"
#include "gateway/peek.h"
#include "gateway/refusal.h"
#include "tap.h"

static enum peek_kind classify(const char *text)
{
    return peek_classify((const uint8_t *)text, strlen(text));
}

TEST(protocols_are_told_apart_by_their_first_bytes)
{
    CHECK_INT(classify(""), PEEK_MORE);
    CHECK_INT(classify("\x16"), PEEK_MORE);
    CHECK_INT(classify("\x16\x03\x01"), PEEK_TLS);
    CHECK_INT(classify("\x16\x16"), PEEK_OTHER);
    CHECK_INT(classify("GET"), PEEK_MORE);
    CHECK_INT(classify("GET / HTTP/1.1"), PEEK_MORE);
    CHECK_INT(classify("GET / HTTP/1.1\r\n"), PEEK_HTTP);
    CHECK_INT(classify("get / http/1.1\n"), PEEK_HTTP);
    CHECK_INT(classify("GET\t/\tHTTP/1.1\n"), PEEK_HTTP);
    CHECK_INT(classify("\r\n\r\n GET / HTTP/1.1\r\n"), PEEK_HTTP);
    CHECK_INT(classify("GET /\xc3\xa9 HTTP/1.1\r\n"), PEEK_HTTP);
    CHECK_INT(classify("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), PEEK_HTTP);
    CHECK_INT(classify("A-METHOD-THAT-NOBODY-EVER-HEARD-OF-BEFORE-NOW / HTTP/1.1\r\n"), PEEK_HTTP);
    CHECK_INT(classify("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), PEEK_OTHER);
    CHECK_INT(classify("*1\r\n$4\r\nPING\r\n"), PEEK_OTHER);
    CHECK_INT(classify("\x80\x2e\x01"), PEEK_OTHER);
    CHECK_INT(peek_classify((const uint8_t *)"0033git-upload-pack /x\0host=a\0", 30), PEEK_OTHER);
}

/* ---- TLS ---- */

struct hello {
    uint8_t data[70000];
    size_t len;
};

static void put(struct hello *h, const void *data, size_t len)
{
    memcpy(h->data + h->len, data, len);
    h->len += len;
}

static void put16(struct hello *h, size_t n)
{
    uint8_t two[2] = {(uint8_t)(n >> 8), (uint8_t)n};

    put(h, two, 2);
}

static void add_name(struct hello *h, const char *name)
{
    size_t n = strlen(name);

    put16(h, 0);
    put16(h, n + 5);
    put16(h, n + 3);
    put(h, "", 1);
    put16(h, n);
    put(h, name, n);
}

/* A message with these extensions, in records of at most `piece` bytes. */
static void make(struct hello *ret, const struct hello *extensions, size_t piece)
{
    struct hello m = {.len = 0};
    static const uint8_t fixed[2 + 32 + 1] = {3, 3};
    size_t body = sizeof(fixed) + 4 + 2 + 2 + extensions->len;

    put(&m, (uint8_t[]){1, (uint8_t)(body >> 16), (uint8_t)(body >> 8), (uint8_t)body}, 4);
    put(&m, fixed, sizeof(fixed));
    put(&m, "\0\x02\x13\x01", 4);
    put(&m, "\x01\0", 2);
    put16(&m, extensions->len);
    put(&m, extensions->data, extensions->len);
    ret->len = 0;
    for (size_t at = 0; at < m.len; at += piece) {
        size_t n = m.len - at < piece ? m.len - at : piece;

        put(ret, "\x16\x03\x01", 3);
        put16(ret, n);
        put(ret, m.data + at, n);
    }
}

static enum hello_result parse_with(const struct hello *extensions, size_t piece,
                                    struct client_hello *ret)
{
    static struct hello h;

    make(&h, extensions, piece);
    /* Not before the last byte, and whatever follows it. */
    for (size_t n = 0; n < h.len; n++)
        CHECK_INT(client_hello_parse(h.data, n, ret), HELLO_MORE);
    return client_hello_parse(h.data, h.len, ret);
}

TEST(the_name_of_a_hello_is_found_however_it_is_cut)
{
    static const size_t pieces[] = {1, 3, 50, 16384};
    struct hello e = {.len = 0};

    add_name(&e, "WWW.Good.test");
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        struct client_hello got;

        CHECK_INT(parse_with(&e, pieces[i], &got), HELLO_DONE);
        CHECK_STR(got.name, "www.good.test");
        CHECK(!got.encrypted);
    }
}

TEST(a_hello_can_have_no_name)
{
    struct hello e = {.len = 0};
    struct client_hello got;

    CHECK_INT(parse_with(&e, 16384, &got), HELLO_DONE);
    CHECK_STR(got.name, "");
}

TEST(an_encrypted_hello_shows_its_outer_name)
{
    struct hello e = {.len = 0};
    struct client_hello got;

    add_name(&e, "outer.test");
    put(&e, "\xfe\x0d\0\x03xyz", 7);
    CHECK_INT(parse_with(&e, 16384, &got), HELLO_DONE);
    CHECK_STR(got.name, "outer.test");
    CHECK(got.encrypted);
}

TEST(two_names_or_odd_ones_are_no_hello)
{
    static const char *const odd[] = {"", "a b", "a/b", "b\xc3\xa9.test", ".test", "a..b", "[::1"};
    static struct hello h;
    struct client_hello got;
    struct hello e = {.len = 0};

    add_name(&e, "good.test");
    add_name(&e, "evil.test");
    make(&h, &e, 16384);
    CHECK_INT(client_hello_parse(h.data, h.len, &got), HELLO_BAD);
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        e.len = 0;
        add_name(&e, odd[i]);
        make(&h, &e, 16384);
        CHECK_INT(client_hello_parse(h.data, h.len, &got), HELLO_BAD);
    }
}

TEST(lengths_that_do_not_add_up_are_no_hello)
{
    static struct hello h;
    struct client_hello got;
    struct hello e = {.len = 0};

    add_name(&e, "good.test");
    e.data[5]++; /* the list is longer than the extension */
    make(&h, &e, 16384);
    CHECK_INT(client_hello_parse(h.data, h.len, &got), HELLO_BAD);
    e.data[5]--;
    make(&h, &e, 16384);
    h.data[8]++; /* the message is longer than its parts: more is to come */
    CHECK_INT(client_hello_parse(h.data, h.len, &got), HELLO_MORE);
    h.data[8] -= 2; /* or shorter */
    CHECK_INT(client_hello_parse(h.data, h.len, &got), HELLO_BAD);
}

TEST(a_hello_that_is_too_long_is_not_waited_for)
{
    struct client_hello got;

    CHECK_INT(client_hello_parse((const uint8_t *)"\x16\x03\x01\0\x04\x01\xff\xff\xff", 9, &got),
              HELLO_BAD);
    CHECK_INT(client_hello_parse((const uint8_t *)"\x16\x03\x01\xff\xff", 5, &got), HELLO_BAD);
    CHECK_INT(client_hello_parse((const uint8_t *)"\x16\x03\x01\0\0", 5, &got), HELLO_BAD);
    CHECK_INT(client_hello_parse((const uint8_t *)"\x16\x03\x01\0\x04\x02\0\0\0", 9, &got),
              HELLO_BAD);
}

/* ---- HTTP ---- */

static enum http_step step(struct http_peek *h, const char *text, size_t *ret_n)
{
    *ret_n = 0;
    return http_peek_step(h, (const uint8_t *)text, strlen(text), ret_n);
}

static void head_is(const char *text, const char *host, const char *target)
{
    struct http_peek h = {0};
    size_t n;

    CHECK_INT(step(&h, text, &n), HTTP_HEAD);
    CHECK_INT((intmax_t)n, (intmax_t)strlen(text));
    CHECK_STR(h.host, host);
    CHECK_STR(h.target, target);
}

TEST(a_head_says_whom_it_is_for)
{
    head_is("GET / HTTP/1.1\r\nHost: Good.Test\r\n\r\n", "good.test", "");
    head_is("GET / HTTP/1.1\r\nhost:good.test:8080 \r\n\r\n", "good.test", "");
    head_is("GET / HTTP/1.1\r\nHost: good.test.\r\n\r\n", "good.test", "");
    head_is("GET / HTTP/1.1\r\nHost: [2600::1]:80\r\n\r\n", "2600::1", "");
    head_is("GET / HTTP/1.0\r\n\r\n", "", "");
    head_is("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "a", "");
    head_is("GET http://evil.test/x HTTP/1.1\r\nHost: good.test\r\n\r\n", "good.test", "evil.test");
    head_is("GET HTTP://evil.test:80?x HTTP/1.1\r\nHost: good.test\r\n\r\n", "good.test",
            "evil.test");
}

TEST(heads_with_two_readings_are_bad)
{
    static const char *const bad[] = {
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost:\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a:8o\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        "GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
        "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://u:p@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999999999999\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct http_peek h = {0};
        size_t n;

        if (step(&h, bad[i], &n) != HTTP_BAD)
            TAP_FAIL("taken: %s", bad[i]);
    }
}

TEST(a_body_ends_where_its_length_says)
{
    struct http_peek h = {0};
    size_t n;

    CHECK_INT(step(&h, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", &n), HTTP_HEAD);
    CHECK_INT(step(&h, "abc", &n), HTTP_PASS);
    CHECK_INT((intmax_t)n, 3);
    CHECK_INT(step(&h, "deGET / HTTP/1.1\r\nHost: b\r\n\r\n", &n), HTTP_PASS);
    CHECK_INT((intmax_t)n, 2);
    CHECK_INT(step(&h, "GET / HTTP/1.1\r\nHost: b\r\n\r\n", &n), HTTP_HEAD);
    CHECK_STR(h.host, "b");
    CHECK_INT(h.requests, 2);
}

TEST(chunks_come_in_any_pieces)
{
    static const char body[] = "4\r\nwiki\r\n0A\r\n0123456789\r\n0\r\n\r\n";
    struct http_peek h = {0};
    size_t n;

    CHECK_INT(step(&h, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", &n),
              HTTP_HEAD);
    for (size_t i = 0; body[i]; i++) {
        CHECK(h.state != HTTP_IN_HEAD);
        CHECK_INT(http_peek_step(&h, (const uint8_t *)body + i, 1, &n), HTTP_PASS);
        CHECK_INT((intmax_t)n, 1);
    }
    CHECK_INT(h.state, HTTP_IN_HEAD);
}

TEST(chunks_that_are_not_exactly_so_are_bad)
{
    static const char *const bad[] = {
        "\r\n",   "4 \r\nwiki\r\n",       "4;x=1\r\nwiki\r\n", "0x4\r\nwiki\r\n",
        "4\n",    "4\r\nwikiX\r\n",       "4\r\nwiki\nX",      "0\r\nX: y\r\n\r\n",
        "-1\r\n", "1234567890abcdef\r\n",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct http_peek h = {.state = HTTP_CHUNK_SIZE};
        size_t n;

        if (step(&h, bad[i], &n) != HTTP_BAD)
            TAP_FAIL("taken: %s", bad[i]);
    }
}

TEST(only_a_websocket_may_become_something_else)
{
    struct http_peek h = {0};
    size_t n;

    CHECK_INT(step(&h, "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: WebSocket\r\n\r\n", &n), HTTP_HEAD);
    CHECK(h.websocket);
    CHECK_INT(step(&h, "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n\r\n", &n), HTTP_HEAD);
    CHECK(!h.websocket);
    CHECK_INT(
        step(&h, "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n\r\n", &n),
        HTTP_HEAD);
    CHECK(!h.websocket);
    CHECK_INT(step(&h, "POST / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n", &n), HTTP_HEAD);
    CHECK(!h.websocket);
}

TEST(a_head_that_is_too_long_is_bad)
{
    static char text[PEEK_BYTES_MAX + 10];
    struct http_peek h = {0};
    size_t n;

    memset(text, 'a', sizeof(text) - 1);
    CHECK_INT(http_peek_step(&h, (const uint8_t *)text, PEEK_BYTES_MAX - 1, &n), HTTP_MORE);
    CHECK_INT(http_peek_step(&h, (const uint8_t *)text, PEEK_BYTES_MAX, &n), HTTP_BAD);
}

TEST(a_page_is_whole_and_names_the_rule)
{
    char page[REFUSAL_PAGE_MAX];
    size_t n = refusal_page("sb_1", "evil.test", "rules[2]: deny evil.test", page);
    const char *body = strstr(page, "\r\n\r\n");

    CHECK(body != NULL);
    CHECK_INT((intmax_t)n, (intmax_t)strlen(page));
    CHECK_INT(strtol(strstr(page, "Content-Length: ") + 16, NULL, 10), (intmax_t)strlen(body + 4));
    CHECK(strstr(page, "403 Forbidden") && strstr(body, "rules[2]: deny evil.test"));
    CHECK(strstr(body, "cay net explain sb_1 evil.test"));
}

TEST(a_page_for_the_longest_names_fits)
{
    char page[REFUSAL_PAGE_MAX], name[254], why[160];
    size_t n;

    memset(name, 'a', 253);
    memset(why, 'w', 159);
    name[253] = why[159] = '\0';
    n = refusal_page("sb_123456789012345678901234567890", name, why, page);
    CHECK_INT((intmax_t)n, (intmax_t)strlen(page));
    CHECK_INT(strtol(strstr(page, "Content-Length: ") + 16, NULL, 10),
              (intmax_t)strlen(strstr(page, "\r\n\r\n") + 4));
}

TAP_MAIN
