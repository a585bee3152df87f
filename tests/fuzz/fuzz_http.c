/* The request as the server reads it: the head in one piece and in growing ones, then a chunked
 * body in pieces whose sizes come from the input. What is accepted must be what the checks promise.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "http/http_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEADERS 16

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* The end must not depend on how the bytes arrive. */
static ssize_t find_end(const char *data, size_t size)
{
    ssize_t whole = head_end(data, size, 0), found = 0;
    size_t scanned = 0;

    for (size_t len = 1; len <= size && found == 0; len += 1 + len / 8) {
        found = head_end(data, len, scanned);
        scanned = len;
    }
    if (found != 0 && whole != 0 && whole != -1 && found != -1)
        require(found == whole);
    return whole;
}

static void check_head(const struct head *h, const char *data, size_t len)
{
    require(h->path[0] == '/' && strlen(h->path) < len && !strchr(h->path, '?'));
    require(!strpbrk(h->path, " \r\n\t#") && !strpbrk(h->query, " \r\n\t#"));
    require(h->length >= 0 && !(h->chunked && h->length > 0));
    require(h->http10 || head_find(h, "HOST"));
    require(!http_prefers(head_find(h, "Accept"), "text/event-stream", "application/json") ||
            !http_prefers(head_find(h, "Accept"), "application/json", "text/event-stream"));
    for (unsigned i = 0; i < h->count; i++) {
        const struct http_field *f = &h->headers[i];

        require(f->name >= data && f->name + f->name_len < data + len);
        require(strlen(f->name) == f->name_len && strlen(f->value) == f->value_len);
        require(!strpbrk(f->value, "\r\n") && !strpbrk(f->name, " \t:\r\n"));
    }
}

/* Framing that was accepted must give the same body when it comes byte by byte. */
static size_t decode(const char *data, size_t len, size_t piece, bool *ret_ok)
{
    struct chunked k;
    size_t total = 0, off = 0;

    chunked_init(&k);
    *ret_ok = false;
    while (off < len && !k.done) {
        size_t n = len - off < piece ? len - off : piece, used = 0;

        if (chunked_step(&k, data + off, n, &used) < 0)
            return 0;
        require(used <= n && (used > 0 || k.span_len > 0 || k.done));
        require(k.span_len <= used);
        total += k.span_len;
        off += used;
    }
    *ret_ok = k.done;
    return total;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_field headers[HEADERS];
    struct head h = {.headers = headers, .max = HEADERS};
    auto_free char *copy = xmalloc(size);
    ssize_t end;

    if (size > 0)
        memcpy(copy, data, size);
    end = find_end(copy, size);
    if (end <= 0 || head_parse(&h, copy, (size_t)end))
        return 0;
    check_head(&h, copy, (size_t)end);
    if (h.chunked) {
        bool whole, bytes;
        size_t a = decode(copy + end, size - (size_t)end, SIZE_MAX, &whole);
        size_t b = decode(copy + end, size - (size_t)end, 1, &bytes);

        require(whole == bytes && (!whole || a == b));
    }
    return 0;
}
