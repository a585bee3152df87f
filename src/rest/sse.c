#include "rest/sse.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/server.h"

#define PING_MS   15000
#define EVENT_MAX (8u << 20) /* of one event: a frame of 256 KiB, each byte escaped, fits well */

void sse_format(struct buf *out, const json_t *value)
{
    auto_free char *text = json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);

    if (!text)
        abort();
    (void)buf_add_str(out, "data: ");
    (void)buf_add_str(out, text);
    (void)buf_add_str(out, "\n\n");
}

void sse_text_add(struct sse_text *t, const char *data, size_t len, bool last, struct buf *out)
{
    auto_buf struct buf joined = {0};
    size_t cut;

    buf_init(&joined, SIZE_MAX / 2);
    (void)buf_add(&joined, t->rest, t->len);
    (void)buf_add(&joined, data, len);
    cut = last ? joined.len : utf8_cut(joined.data, joined.len);
    t->len = joined.len - cut;
    memcpy(t->rest, joined.data + cut, t->len);
    (void)utf8_clean(out, joined.data, cut);
}

json_t *sse_output(const char *type, const char *data, size_t len)
{
    return json_pack("{s:s, s:o, s:I}", "type", type, "data", json_stringn(data ? data : "", len),
                     "timestamp", (json_int_t)now_ms());
}

int sse_begin(struct sse *s, struct http_req *req)
{
    *s = (struct sse){.req = req, .sent_ns = mono_ns()};
    buf_init(&s->line, EVENT_MAX);
    return http_stream_begin(req, 200, "text/event-stream", -1);
}

int sse_send(struct sse *s, json_t *value)
{
    buf_clear(&s->line);
    sse_format(&s->line, value);
    json_decref(value);
    s->sent_ns = mono_ns();
    return http_stream_write(s->req, s->line.data, s->line.len);
}

int sse_ping(struct sse *s)
{
    int64_t now = mono_ns();

    if (now - s->sent_ns < (int64_t)PING_MS * 1000000)
        return 0;
    s->sent_ns = now;
    return http_stream_write(s->req, ": ping\n\n", 8);
}

void sse_end(struct sse *s)
{
    http_stream_end(s->req);
}

void sse_done(struct sse *s)
{
    buf_done(&s->line);
}

/* -1 gone, 1 fd is readable, 0 nothing yet. A request that was sent ahead is not asked for: it
 * waits there, and polling for it would spin. */
static int wait_once(struct sse *s, int fd, int timeout_ms)
{
    struct pollfd p[2] = {
        {.fd = http_req_fd(s->req), .events = POLLRDHUP},
        {.fd = fd, .events = POLLIN},
    };

    if (poll(p, 2, timeout_ms) < 0)
        return errno == EINTR ? 0 : -1;
    if (p[0].revents)
        return -1;
    return p[1].revents != 0;
}

int sse_wait(struct sse *s, int fd, int timeout_ms)
{
    int64_t start = mono_ns();

    for (;;) {
        int64_t now = mono_ns();
        int64_t ping_in = PING_MS - (now - s->sent_ns) / 1000000;
        int64_t left = timeout_ms < 0 ? INT_MAX : timeout_ms - (now - start) / 1000000;
        int64_t wait = left < ping_in ? left : ping_in;
        int r = wait_once(s, fd, wait < 0 ? 0 : (int)wait);

        if (r != 0)
            return r;
        now = mono_ns();
        if (timeout_ms >= 0 && now - start >= (int64_t)timeout_ms * 1000000)
            return 0;
        if (sse_ping(s) < 0)
            return -1;
    }
}
