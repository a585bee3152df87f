#include "rest/sse.h"

#include "base/clock.h"
#include "base/mem.h"
#include "http/server.h"

#define PING_NS   (15 * 1000000000ll)
#define EVENT_MAX (8u << 20) /* of one event: a frame of 256 KiB, each byte escaped, fits well */

void sse_format(struct buf *out, const json_t *value)
{
    auto_free char *text = json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY |
                                                 JSON_REAL_PRECISION(15));

    if (!text)
        abort();
    (void)buf_add_str(out, "data: ");
    (void)buf_add_str(out, text);
    (void)buf_add_str(out, "\n\n");
}

int sse_begin(struct sse *s)
{
    if (s->begun)
        return 0;
    s->begun = true;
    s->sent_ns = mono_ns();
    return http_stream_begin(s->req, 200, "text/event-stream", -1);
}

int sse_send(struct sse *s, json_t *value)
{
    auto_buf struct buf line = {0};
    int r = sse_begin(s);

    buf_init(&line, EVENT_MAX);
    if (r == 0) {
        sse_format(&line, value);
        s->sent_ns = mono_ns();
        r = http_stream_write(s->req, line.data, line.len);
    }
    json_decref(value);
    return r;
}

int sse_send_text(struct sse *s, const char *text, size_t len)
{
    if (sse_begin(s) < 0)
        return -1;
    s->sent_ns = mono_ns();
    s->ids = true;
    return http_stream_write(s->req, text, len);
}

int64_t sse_ping_ns(const struct sse *s)
{
    return s->sent_ns + PING_NS;
}

int sse_ping(struct sse *s)
{
    int64_t now = mono_ns();

    if (sse_begin(s) < 0)
        return -1;
    if (now < sse_ping_ns(s))
        return 0;
    s->sent_ns = now;
    if (s->ids)
        return http_stream_write(s->req, ": ping\n", 7);
    return http_stream_write(s->req, ": ping\n\n", 8);
}

void sse_end(struct sse *s)
{
    if (sse_begin(s) == 0)
        http_stream_end(s->req);
}
