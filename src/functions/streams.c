#include <string.h>
#include <sys/epoll.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/logs.h"
#include "engine/metrics.h"
#include "engine/sandboxes.h"
#include "functions/functions_internal.h"
#include "functions/output.h"

#define LINE_MAX (64u << 10) /* a longer line is cut into events of this size */

/* ---- logs ---- */

/* The start of a line whose end has not come, and when that came. */
struct line {
    const char *type;
    struct buf text;
    int64_t time_ms;
};

struct logs_task {
    struct task task;
    struct log_stream *log;
    struct line lines[2]; /* of stdout and of stderr: one does not end the other's line */
};

static void logs_free(struct task *task)
{
    struct logs_task *t = (struct logs_task *)task;

    log_stream_close(t->log);
    for (size_t i = 0; i < ARRAY_LEN(t->lines); i++)
        buf_done(&t->lines[i].text);
    free(t);
}

static int send_line(struct call *call, const struct line *l, const char *text, size_t len,
                     struct err *err)
{
    struct output_text whole = {0};
    auto_buf struct buf clean = {0};

    buf_init(&clean, 3 * (len + sizeof(whole.rest))); /* U+FFFD is three bytes */
    output_text_add(&whole, text, len, true, &clean);
    return sink_event(call, output_event_of(l->type, clean.data, clean.len, l->time_ms), err);
}

/* Sends whole lines and takes them out; at the end also a line without its newline. */
static int send_lines(struct call *call, struct line *l, bool last, struct err *err)
{
    struct buf *text = &l->text;
    size_t at = 0;

    while (at < text->len) {
        const char *start = text->data + at;
        const char *newline = memchr(start, '\n', text->len - at);
        size_t len = newline ? (size_t)(newline - start) : text->len - at;
        size_t skip = newline ? len + 1 : len;

        if (len > LINE_MAX)
            len = skip = utf8_cut(start, LINE_MAX);
        else if (!newline && !last)
            break;
        if (send_line(call, l, start, len, err) < 0)
            return -1;
        at += skip;
    }
    buf_shift(text, at);
    if (text->len == 0)
        buf_done(text);
    return 0;
}

/* A line has the time of its first byte. */
static int add_piece(struct call *call, struct line *l, const struct log_piece *piece,
                     struct err *err)
{
    const char *newline = memchr(piece->data, '\n', piece->len);
    size_t first = newline ? (size_t)(newline - piece->data) + 1 : piece->len;

    if (l->text.len > 0) {
        (void)buf_add(&l->text, piece->data, first);
        if (send_lines(call, l, false, err) < 0)
            return -1;
    } else {
        first = 0;
    }
    if (l->text.len == 0)
        l->time_ms = piece->time_ms;
    (void)buf_add(&l->text, piece->data + first, piece->len - first);
    return send_lines(call, l, false, err);
}

static int logs_end(struct logs_task *t, struct call *call, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(t->lines); i++)
        if (send_lines(call, &t->lines[i], true, err) < 0)
            return -1;
    return sink_event(call, output_event("end", "", 0), err);
}

static void set_log_wait(struct logs_task *t)
{
    t->task.fd = -1;
    if (t->log)
        log_stream_wait(t->log, &t->task.fd, &t->task.until_ns);
    t->task.events = t->task.fd >= 0 ? EPOLLIN : 0;
}

/* A piece of the log a step. When the sandbox goes, so does its log: that is an end too. */
static int logs_step(struct task *task, struct call *call, struct err *err)
{
    struct logs_task *t = (struct logs_task *)task;
    struct log_piece piece;
    int r = t->log ? log_stream_next(t->log, &piece, NULL) : LOG_ENDED;

    if (r == LOG_ENDED || r < 0 || (r == LOG_WAITS && call->draining))
        return logs_end(t, call, err);
    if (r == LOG_WAITS) {
        set_log_wait(t);
        return sink_event(call, NULL, err) < 0 ? -1 : TASK_WAITS;
    }
    return add_piece(call, &t->lines[piece.is_stderr], &piece, err) < 0 ? -1 : TASK_AGAIN;
}

static const struct task_ops logs_ops = {.step = logs_step, .free = logs_free};

static int logs(struct call *call, struct err *err)
{
    struct log_stream *log = NULL;
    struct logs_task *t;

    if (engine_log_open(call->engine, in_id(call), (uint64_t)in_int(call, "tail"),
                        in_bool(call, "follow"), &log, err) < 0)
        return -1;
    t = xcalloc(1, sizeof(*t));
    t->task.ops = &logs_ops;
    t->log = log;
    set_log_wait(t);
    for (size_t i = 0; i < ARRAY_LEN(t->lines); i++) {
        t->lines[i].type = i == 0 ? "stdout" : "stderr";
        buf_init(&t->lines[i].text, LOG_PIECE_MAX + LINE_MAX);
    }
    call->task = &t->task;
    return 0;
}

/* ---- metrics ---- */

struct metrics_task {
    struct task task;
    char id[ID_SIZE];
    int64_t interval_ns;
};

static void metrics_free(struct task *task)
{
    free(task);
}

static int metrics_step(struct task *task, struct call *call, struct err *err)
{
    struct metrics_task *t = (struct metrics_task *)task;
    json_t *now;

    /* Asked with every ping too: with a long interval it would outlive the sandbox by an hour. */
    if (call->draining || !engine_has(call->engine, t->id))
        return TASK_DONE;
    if (mono_ns() < task->until_ns)
        return TASK_WAITS;
    if (engine_sandbox_metrics(call->engine, t->id, &now, NULL) < 0)
        return TASK_DONE; /* it went this moment */
    task->until_ns = mono_ns() + t->interval_ns;
    return sink_event(call, now, err) < 0 ? -1 : TASK_WAITS;
}

static const struct task_ops metrics_ops = {.step = metrics_step, .free = metrics_free};

static int metrics(struct call *call, struct err *err)
{
    struct metrics_task *t;
    json_t *first;

    if (engine_sandbox_metrics(call->engine, in_id(call), &first, err) < 0)
        return -1;
    if (sink_event(call, first, err) < 0)
        return -1;
    t = xcalloc(1, sizeof(*t));
    t->task = (struct task){.ops = &metrics_ops, .fd = -1};
    (void)snprintf(t->id, sizeof(t->id), "%s", in_id(call));
    t->interval_ns = (int64_t)(in_number(call, "interval") * 1e9);
    t->task.until_ns = mono_ns() + t->interval_ns;
    call->task = &t->task;
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
     "sandbox_stream_logs", SCOPE_READ, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS,
     .answer = ANSWER_EVENTS, .help = "Streams the output of the main process, line by line",
     .events = &log_event_shape, .errors = ERRORS_AGENT " log_not_found too_many_streams"},
    {"stream::metrics", "GET", "/sandboxes/:sandboxId/stream/metrics", metrics_fields, metrics,
     NULL, SCOPE_READ, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS, .answer = ANSWER_EVENTS,
     .help = "Streams what a sandbox uses", .events = &metrics_shape, .errors = ERRORS_GONE},
    {0},
};
