#include <string.h>

#include "http/http_internal.h"

/* The parser decodes; outside its strict mode it takes any two bytes for the CRLF after a chunk and
 * skips what it does not know after a size. Every byte that is not body is therefore checked here:
 * only hex digits and CRLF pairs, and a CRLF where a chunk ends. */

#define CHUNK_DATA_ENDED (-1)

void chunked_init(struct chunked *k, http_parser *parser)
{
    *k = (struct chunked){.parser = parser, .last = '\n'};
    parser->data = k;
}

static int on_body(http_parser *p, const char *at, size_t len)
{
    struct chunked *k = p->data;

    k->span = at;
    k->span_len = len;
    http_parser_pause(p, 1);
    return 0;
}

static int on_message_complete(http_parser *p)
{
    struct chunked *k = p->data;

    k->done = true;
    http_parser_pause(p, 1);
    return 0;
}

static const http_parser_settings body_settings = {
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool framing_is_strict(struct chunked *k, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = data[i];

        if (k->last == CHUNK_DATA_ENDED && c != '\r')
            return false;
        if ((k->last == '\r') != (c == '\n'))
            return false;
        if (c != '\r' && c != '\n' && !is_hex(c))
            return false;
        k->last = (unsigned char)c;
    }
    return true;
}

int chunked_step(struct chunked *k, const char *data, size_t len, size_t *ret_used)
{
    size_t used, before;

    k->span_len = 0;
    if (HTTP_PARSER_ERRNO(k->parser) == HPE_PAUSED)
        http_parser_pause(k->parser, 0);
    used = http_parser_execute(k->parser, &body_settings, data, len);
    if (HTTP_PARSER_ERRNO(k->parser) != HPE_OK && HTTP_PARSER_ERRNO(k->parser) != HPE_PAUSED)
        return -1;
    before = k->span_len ? (size_t)(k->span - data) : used;
    if (!framing_is_strict(k, data, before))
        return -1;
    if (k->span_len) {
        size_t after = before + k->span_len;

        /* The parser counts down what is left of the chunk. */
        if (k->parser->content_length == 0)
            k->last = CHUNK_DATA_ENDED;
        if (!framing_is_strict(k, data + after, used - after))
            return -1;
    }
    *ret_used = used;
    return 0;
}
