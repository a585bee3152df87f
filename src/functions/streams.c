#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/engine.h"
#include "functions/functions_internal.h"
#include "rest/rest.h"
#include "rest/sse.h"

#define LOG_CHUNK    (256u << 10) /* read at a time */
#define LOG_TAIL_MAX (8u << 20)   /* kept while looking for the last lines */
#define LOG_LINE_MAX (64u << 10)  /* a longer line is cut into events of this size */
#define LOG_POLL_MS  250

/* The log has only an offset to ask from, so the tail is found by reading on and forgetting all but
 * the last lines. */
static void keep_tail(struct buf *text, size_t lines)
{
    size_t at = text->len, seen = 0;

    if (lines == 0) {
        buf_clear(text);
        return;
    }
    /* The end of the last line is not a beginning. */
    if (at > 0 && text->data[at - 1] == '\n')
        at--;
    while (at > 0 && (text->data[at - 1] != '\n' || ++seen < lines))
        at--;
    if (text->len - at > LOG_TAIL_MAX)
        at = text->len - LOG_TAIL_MAX;
    if (at > 0)
        buf_shift(text, at);
}

/* Appends what is new. 1 = there may be more right now, 0 = caught up. */
static int read_chunk(struct call *call, uint64_t *cursor, struct buf *text, bool *running,
                      struct err *err)
{
    auto_buf struct buf chunk = {0};

    buf_init(&chunk, LOG_CHUNK);
    if (engine_main_log(call->engine, in_id(call), cursor, &chunk, running, err) < 0)
        return -1;
    if (chunk.len > 0)
        (void)buf_add(text, chunk.data, chunk.len);
    return chunk.len > 0;
}

static int send_line(struct sse *sse, const char *line, size_t len)
{
    auto_buf struct buf clean = {0};

    buf_init(&clean, 3 * len + 1);
    (void)utf8_clean(&clean, line, len);
    return sse_send(sse, sse_output("stdout", clean.data, clean.len));
}

/* Sends whole lines and takes them out; at the end also a line without its newline. */
static int send_lines(struct sse *sse, struct buf *text, bool last)
{
    size_t at = 0;

    while (at < text->len) {
        const char *start = text->data + at;
        const char *newline = memchr(start, '\n', text->len - at);
        size_t len = newline ? (size_t)(newline - start) : text->len - at;
        size_t skip = newline ? len + 1 : len;

        if (len > LOG_LINE_MAX)
            len = skip = utf8_cut(start, LOG_LINE_MAX);
        else if (!newline && !last)
            break;
        if (send_line(sse, start, len) < 0)
            return -1;
        at += skip;
    }
    if (at > 0)
        buf_shift(text, at);
    return 0;
}

/* Until the source ends: 0, or -1 when the client has gone. */
static int follow_log(struct call *call, struct sse *sse, uint64_t cursor, struct buf *text,
                      bool running)
{
    while (running) {
        int r = sse_wait(sse, rest_drain_fd(call->rest), LOG_POLL_MS);

        if (r != 0)
            return r < 0 ? -1 : 0;
        do {
            r = read_chunk(call, &cursor, text, &running, NULL);
            if (send_lines(sse, text, false) < 0)
                return -1;
        } while (r > 0);
        if (r < 0) /* the sandbox is gone */
            return 0;
    }
    return 0;
}

static int logs(struct call *call, struct err *err)
{
    bool running = false;
    auto_buf struct buf text = {0};
    uint64_t cursor = 0;
    struct sse sse;
    int r;

    buf_init(&text, LOG_TAIL_MAX + LOG_CHUNK);
    while ((r = read_chunk(call, &cursor, &text, &running, err)) > 0)
        keep_tail(&text, (size_t)in_int(call, "tail"));
    if (r < 0)
        return -1;
    r = sse_begin(&sse, call->req);
    if (r == 0)
        r = send_lines(&sse, &text, false);
    if (r == 0 && in_bool(call, "follow"))
        r = follow_log(call, &sse, cursor, &text, running);
    if (r == 0)
        r = send_lines(&sse, &text, true);
    if (r == 0 && sse_send(&sse, sse_output("end", "", 0)) == 0)
        sse_end(&sse);
    sse_done(&sse);
    return 0;
}

static int metrics(struct call *call, struct err *err)
{
    int interval_ms = (int)(in_number(call, "interval") * 1000);
    json_t *now;
    struct sse sse;
    int r;

    if (engine_sandbox_metrics(call->engine, in_id(call), &now, err) < 0)
        return -1;
    r = sse_begin(&sse, call->req);
    if (r < 0)
        json_decref(now);
    while (r == 0) {
        r = sse_send(&sse, now);
        if (r == 0)
            r = sse_wait(&sse, rest_drain_fd(call->rest), interval_ms);
        if (r == 0 && engine_sandbox_metrics(call->engine, in_id(call), &now, NULL) < 0)
            r = 1; /* the sandbox is gone */
    }
    if (r > 0)
        sse_end(&sse);
    sse_done(&sse);
    return 0;
}

static const struct field logs_fields[] = {
    {"tail", FIELD_INT, .clamp = true, .min = 0, .max = 100000, .preset = "100",
     .help = "how many of the last lines to begin with"},
    {"follow", FIELD_BOOL, .preset = "true", .help = "stay and send new lines"},
    {0},
};

static const struct field metrics_fields[] = {
    {"interval", FIELD_NUMBER, .clamp = true, .min = 1, .max = 3600, .preset = "5",
     .help = "seconds between two events"},
    {0},
};

const struct function stream_functions[] = {
    {"stream::logs", "GET", "/sandboxes/:sandboxId/stream/logs", logs_fields, logs,
     "sandbox_stream_logs", SCOPE_READ, .flags = FUNCTION_STREAM,
     .help = "Streams the output of the main process", .events = &log_event_shape,
     .errors = ERRORS_AGENT " log_not_found"},
    {"stream::metrics", "GET", "/sandboxes/:sandboxId/stream/metrics", metrics_fields, metrics,
     NULL, SCOPE_READ, .flags = FUNCTION_STREAM, .help = "Streams what a sandbox uses",
     .events = &metrics_shape, .errors = "sandbox_not_found"},
    {0},
};
