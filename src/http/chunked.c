#include <string.h>

#include "http/http_internal.h"

/* llhttp decodes: sizes are hex digits, and a CRLF follows each size and each chunk. What it takes
 * beyond that is refused here: extensions, trailers and, in version 8, an LF alone as the last line
 * end. */

static int on_body(llhttp_t *p, const char *at, size_t len)
{
    struct chunked *k = p->data;

    k->span = at;
    k->span_len = len;
    return HPE_PAUSED;
}

static int on_message_complete(llhttp_t *p)
{
    struct chunked *k = p->data;

    k->done = true;
    return HPE_PAUSED;
}

static int on_extension(llhttp_t *p, const char *at, size_t len)
{
    const struct chunked *k = p->data;

    (void)at;
    (void)len;
    return k->trailers ? 0 : -1;
}

/* There is no data yet while chunked_init() shows the parser its head. */
static int on_trailer(llhttp_t *p, const char *at, size_t len)
{
    const struct chunked *k = p->data;

    if (!k)
        return 0;
    return k->trailers && buf_add(k->trailers, at, len) == 0 ? 0 : -1;
}

static int on_trailer_name(llhttp_t *p)
{
    return on_trailer(p, ": ", 2);
}

static int on_trailer_value(llhttp_t *p)
{
    return on_trailer(p, "\r\n", 2);
}

static const llhttp_settings_t body_settings = {
    .on_body = on_body,
    .on_message_complete = on_message_complete,
    .on_chunk_extension_name = on_extension,
    .on_header_field = on_trailer,
    .on_header_field_complete = on_trailer_name,
    .on_header_value = on_trailer,
    .on_header_value_complete = on_trailer_value,
};

/* llhttp has no way to start in a body, and a parser keeps the callbacks that it was made with. So
 * the body gets a parser of its own, which is shown a head that leads to it. */
void chunked_init(struct chunked *k)
{
    static const char head[] = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";

    *k = (struct chunked){0};
    llhttp_init(&k->parser, HTTP_REQUEST, &body_settings);
    (void)llhttp_execute(&k->parser, head, sizeof(head) - 1);
}

int chunked_step(struct chunked *k, const char *data, size_t len, size_t *ret_used)
{
    size_t used = len;
    llhttp_errno_t e;

    k->span_len = 0;
    k->parser.data = k;
    llhttp_resume(&k->parser);
    e = llhttp_execute(&k->parser, data, len);
    if (e == HPE_PAUSED)
        used = (size_t)(llhttp_get_error_pos(&k->parser) - data);
    else if (e != HPE_OK)
        return -1;
    if (k->done && (used > 1 ? data[used - 2] : k->last) != '\r')
        return -1;
    if (used > 0)
        k->last = data[used - 1];
    *ret_used = used;
    return 0;
}

ssize_t chunked_decode(struct chunked *k, const char *data, size_t len, char *out, size_t *ret_used)
{
    size_t off = 0, n = 0;

    while (off < len && !k->done) {
        size_t used = 0;

        if (chunked_step(k, data + off, len - off, &used) < 0)
            return -1;
        if (k->span_len > 0)
            memmove(out + n, k->span, k->span_len);
        n += k->span_len;
        k->span_len = 0;
        off += used;
    }
    *ret_used = off;
    return (ssize_t)n;
}
