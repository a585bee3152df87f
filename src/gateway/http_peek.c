#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "gateway/peek.h"

#define LENGTH_DIGITS 18
#define CHUNK_DIGITS  15

static bool is_token(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!isalnum(p[i]) && !(p[i] && strchr("!#$%&'*+-.^_`|~", p[i])))
            return false;
    }
    return len > 0;
}

/* Bytes of a head with its empty line, 0 while it is not whole. Lines end with CR LF only: a bare
 * LF is a line end to some and not to others. -1: there is one, or a zero byte. */
static ssize_t head_length(const uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (data[i] == '\0' || (data[i] == '\n' && (i == 0 || data[i - 1] != '\r')) ||
            (data[i] == '\r' && i + 1 < len && data[i + 1] != '\n'))
            return -1;
        if (data[i] == '\n' && i >= 3 && data[i - 2] == '\n')
            return (ssize_t)i + 1;
    }
    return 0;
}

/* What a head says about the body that follows. */
struct framing {
    unsigned hosts, lengths, codings, upgrades;
    bool chunked, http10, get;
    uint64_t length;
};

/* host, host:port, [address]:port. */
static bool read_authority(const char *text, size_t len, char ret[PEEK_NAME_MAX + 1])
{
    const char *colon = memrchr(text, ':', len);
    size_t host = len;

    if (colon && !memchr(colon, ']', (size_t)(text + len - colon))) {
        host = (size_t)(colon - text);
        for (const char *p = colon + 1; p < text + len; p++) {
            if (!isdigit((unsigned char)*p))
                return false;
        }
    }
    return peek_name(text, host, ret);
}

/* A path, "*", or a whole URL, whose host counts as the Host does. CONNECT's target is neither. */
static bool read_target(const char *text, size_t len, struct http_peek *h)
{
    const char *host, *end;

    if (len == 0 || text[0] == '/' || (len == 1 && text[0] == '*'))
        return len > 0;
    if (len > 7 && strncasecmp(text, "http://", 7) == 0)
        host = text + 7;
    else if (len > 8 && strncasecmp(text, "https://", 8) == 0)
        host = text + 8;
    else
        return false;
    for (end = host; end < text + len && !strchr("/?#", *end); end++)
        ;
    return read_authority(host, (size_t)(end - host), h->target);
}

static bool read_line(const uint8_t *line, size_t len, struct http_peek *h, struct framing *f)
{
    const uint8_t *target = memchr(line, ' ', len), *version;

    if (!target || !is_token(line, (size_t)(target - line)))
        return false;
    f->get = target - line == 3 && memcmp(line, "GET", 3) == 0;
    target++;
    version = memchr(target, ' ', (size_t)(line + len - target));
    if (!version || line + len - version != 9 || memcmp(version, " HTTP/1.", 8) != 0 ||
        (version[8] != '0' && version[8] != '1'))
        return false;
    f->http10 = version[8] == '0';
    for (const uint8_t *p = target; p < version; p++) {
        if (*p <= ' ' || *p == 0x7f)
            return false;
    }
    return read_target((const char *)target, (size_t)(version - target), h);
}

static bool read_length(const char *value, size_t len, uint64_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)value[i]))
            return false;
        *ret = *ret * 10 + (uint64_t)(value[i] - '0');
    }
    return len > 0 && len <= LENGTH_DIGITS;
}

static bool is(const char *text, size_t len, const char *what)
{
    return len == strlen(what) && strncasecmp(text, what, len) == 0;
}

/* The fields that say whom it is for and where it ends; others pass as they are. */
static bool read_field(const char *name, size_t name_len, const char *value, size_t len,
                       struct http_peek *h, struct framing *f)
{
    if (is(name, name_len, "host"))
        return f->hosts++ == 0 && read_authority(value, len, h->host);
    if (is(name, name_len, "content-length"))
        return f->lengths++ == 0 && read_length(value, len, &f->length);
    if (is(name, name_len, "transfer-encoding")) {
        f->chunked = true;
        return f->codings++ == 0 && is(value, len, "chunked");
    }
    if (is(name, name_len, "upgrade"))
        h->websocket = f->upgrades++ == 0 && is(value, len, "websocket");
    return true;
}

static bool read_header(const uint8_t *line, size_t len, struct http_peek *h, struct framing *f)
{
    const uint8_t *colon = memchr(line, ':', len), *value, *end = line + len;

    if (!colon || !is_token(line, (size_t)(colon - line)))
        return false; /* folded lines too: they begin with a space */
    for (value = colon + 1; value < end && (*value == ' ' || *value == '\t'); value++)
        ;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    for (const uint8_t *p = value; p < end; p++) {
        if ((*p < ' ' && *p != '\t') || *p == 0x7f)
            return false;
    }
    return read_field((const char *)line, (size_t)(colon - line), (const char *)value,
                      (size_t)(end - value), h, f);
}

/* len bytes that end with the empty line. */
static bool read_head(const uint8_t *data, size_t len, struct http_peek *h)
{
    const uint8_t *line = data, *end = data + len - 2;
    struct framing f = {0};

    h->host[0] = h->target[0] = '\0';
    h->websocket = false;
    while (line < end) {
        const uint8_t *eol = memchr(line, '\r', (size_t)(end - line));
        size_t n = (size_t)(eol - line);

        if (!eol || !(line == data ? read_line(line, n, h, &f) : read_header(line, n, h, &f)))
            return false;
        line = eol + 2;
    }
    if ((f.hosts == 0 && !f.http10) || (f.chunked && (f.http10 || f.lengths > 0)))
        return false;
    h->websocket = h->websocket && f.get && !f.http10 && !f.chunked && f.length == 0;
    h->left = f.chunked ? 0 : f.length;
    h->digits = 0;
    h->state = f.chunked ? HTTP_CHUNK_SIZE : f.length > 0 ? HTTP_IN_BODY : HTTP_IN_HEAD;
    h->requests++;
    return true;
}

static int hex(uint8_t c)
{
    return isdigit(c) ? c - '0' : isxdigit(c) ? tolower(c) - 'a' + 10 : -1;
}

/* One byte of what stands around chunks. False: not exactly as the standard writes it; extensions
 * and trailers, which nobody needs, are not known. */
static bool chunk_byte(struct http_peek *h, uint8_t c)
{
    switch (h->state) {
    case HTTP_CHUNK_SIZE:
        if (c == '\r' && h->digits > 0) {
            h->state = HTTP_CHUNK_SIZE_LF;
            return true;
        }
        if (hex(c) < 0 || ++h->digits > CHUNK_DIGITS)
            return false;
        h->left = h->left << 4 | (uint64_t)hex(c);
        return true;
    case HTTP_CHUNK_SIZE_LF:
        h->state = h->left > 0 ? HTTP_CHUNK_DATA : HTTP_CHUNK_END_CR;
        return c == '\n';
    case HTTP_CHUNK_CR:
        h->state = HTTP_CHUNK_LF;
        return c == '\r';
    case HTTP_CHUNK_LF:
        h->state = HTTP_CHUNK_SIZE;
        h->digits = 0;
        return c == '\n';
    case HTTP_CHUNK_END_CR:
        h->state = HTTP_CHUNK_END_LF;
        return c == '\r';
    case HTTP_CHUNK_END_LF:
        h->state = HTTP_IN_HEAD;
        return c == '\n';
    case HTTP_IN_HEAD:
    case HTTP_IN_BODY:
    case HTTP_CHUNK_DATA:
    default:
        return false;
    }
}

static enum http_step step_body(struct http_peek *h, const uint8_t *data, size_t len, size_t *ret_n)
{
    size_t n = 0;

    while (n < len && h->state != HTTP_IN_HEAD) {
        if (h->state == HTTP_IN_BODY || h->state == HTTP_CHUNK_DATA) {
            size_t part = h->left < len - n ? (size_t)h->left : len - n;

            n += part;
            h->left -= part;
            if (h->left == 0)
                h->state = h->state == HTTP_IN_BODY ? HTTP_IN_HEAD : HTTP_CHUNK_CR;
        } else if (!chunk_byte(h, data[n++])) {
            return HTTP_BAD;
        }
    }
    *ret_n = n;
    return HTTP_PASS;
}

enum http_step http_peek_step(struct http_peek *h, const uint8_t *data, size_t len, size_t *ret_n)
{
    ssize_t head;

    if (len == 0)
        return HTTP_MORE;
    if (h->state != HTTP_IN_HEAD)
        return step_body(h, data, len, ret_n);
    head = head_length(data, len < PEEK_BYTES_MAX ? len : PEEK_BYTES_MAX);
    if (head == 0)
        return len < PEEK_BYTES_MAX ? HTTP_MORE : HTTP_BAD;
    if (head < 0 || !read_head(data, (size_t)head, h))
        return HTTP_BAD;
    *ret_n = (size_t)head;
    return HTTP_HEAD;
}
