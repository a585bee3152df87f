/* The proxy between a client and a server that both send what they like: the head of an answer, its
 * body in pieces, what the client is told of it, and trailers. What leaves must be HTTP with
 * exactly one reading. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "http/answer.h"
#include "rest/proxy_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* Lines that end in CRLF, each "Name: value", none about the connection. */
static void check_lines(const char *text, size_t len)
{
    const char *p = text, *end = text + len;

    while (p < end) {
        const char *line_end = memchr(p, '\n', (size_t)(end - p)), *colon;

        require(line_end && line_end > p && line_end[-1] == '\r' &&
                !memchr(p, '\r', (size_t)(line_end - 1 - p)));
        colon = memchr(p, ':', (size_t)(line_end - p));
        require(colon && colon > p && *p != ' ' && *p != '\t');
        require(strncasecmp(p, "transfer-encoding:", 18) != 0);
        require(strncasecmp(p, "content-length:", 15) != 0);
        require(strncasecmp(p, "connection:", 11) != 0);
        p = line_end + 1;
    }
}

static void check_answer(const struct http_answer *a, bool by_host)
{
    struct proxy_rules rules = {.port = 80, .by_host = by_host, .prefix = "/p", .cors = "*"};
    auto_buf struct buf out = {.max = 1u << 20};
    const char *first;

    require(a->status >= 100 && a->status < 600 && a->length >= -1);
    require(!(a->chunked && a->length >= 0) && !(a->chunked && a->http10));
    require(proxy_answer_head(a, &rules, &out) == 0);
    first = strstr(out.data, "\r\n");
    require(first && strlen(out.data) == out.len);
    check_lines(first + 2, out.len - (size_t)(first + 2 - out.data));
    require(by_host || strstr(out.data, "\r\nContent-Security-Policy: sandbox "));
    require(by_host || !strcasestr(out.data, "\r\nSet-Cookie:"));
}

/* However it is cut, the same bytes come out. */
static size_t decode(const struct http_answer *a, const char *data, size_t len, size_t piece,
                     bool *ret_done)
{
    struct http_body b;
    auto_buf struct buf trailers = {.max = 64u << 10};
    size_t total = 0, off = 0;

    http_body_init(&b, a, false);
    while (off < len && !b.done) {
        size_t n = len - off < piece ? len - off : piece, used, got;
        auto_free char *copy = xmalloc(n);

        memcpy(copy, data + off, n);
        if (http_body_decode(&b, copy, n, &used, &got) < 0) {
            http_body_done(&b);
            *ret_done = false;
            return 0;
        }
        require(used <= n && got <= used && (used == n || b.done));
        total += got;
        off += used;
    }
    proxy_trailers(&b.trailers, &trailers);
    if (trailers.len > 0)
        check_lines(trailers.data, trailers.len);
    *ret_done = b.done;
    http_body_done(&b);
    return total;
}

static void check_address(const char *text, size_t len)
{
    auto_free char *word = xstrndup(text, len);
    struct proxy_address a;
    char value[8];
    auto_buf struct buf rest = {.max = 1u << 20};

    if (proxy_address("localhost", word, "/", NULL, &a) == PROXY_FOUND)
        require(a.port > 0 && a.word[0] && a.by_host);
    if (word[0] == '/' && proxy_address("localhost", NULL, word, word, &a) != PROXY_NONE)
        require(a.port > 0 && a.word[0] && a.prefix_len <= strlen(word) && a.path[0] == '/');
    (void)proxy_cookie_take(word, PROXIED_SIGNATURE, value, sizeof(value), &rest);
    require(!rest.data || !strstr(rest.data, "; " PROXIED_SIGNATURE "="));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct http_answer a;
    auto_free char *copy = xmalloc(size + 1);
    bool whole, bytes;
    ssize_t end;
    size_t n;

    if (size > 0)
        memcpy(copy, data, size);
    check_address(copy, size);
    end = http_answer_end(copy, size, 0);
    if (end <= 0 || http_answer_parse(&a, copy, (size_t)end))
        return 0;
    check_answer(&a, true);
    check_answer(&a, false);
    n = decode(&a, copy + end, size - (size_t)end, SIZE_MAX, &whole);
    require(n == decode(&a, copy + end, size - (size_t)end, 1, &bytes) && whole == bytes);
    return 0;
}
