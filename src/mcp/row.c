#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/errors.h"
#include "functions/input.h"
#include "mcp/face_internal.h"

/* A function of the table, called for a request of MCP: it goes through the same steps as a call
 * over REST, so that scopes, reach, rates, traces and the audit log are the same. */

#define WORDS_MAX 200

/* ---- the sink ---- */

static bool is_wanted(const struct mcp_row *row)
{
    return !atomic_load(&row->op->cancelled);
}

/* The last line of a text, or what else an event has to say. */
static void event_words(const json_t *event, char *ret, size_t size)
{
    static const char *const keys[] = {"data", "text", "message", "event", "type", NULL};
    const char *text = NULL, *line;
    size_t len;

    for (const char *const *k = keys; *k && !text; k++)
        text = json_string_value(json_object_get(event, *k));
    if (!text)
        text = "";
    len = strlen(text);
    while (len > 0 && strchr("\r\n", text[len - 1]))
        len--;
    line = len ? memrchr(text, '\n', len) : NULL;
    line = line ? line + 1 : text;
    len -= (size_t)(line - text);
    len = utf8_cut(line, len < size - 1 ? len : size - 1);
    memcpy(ret, line, len);
    ret[len] = '\0';
}

static void tell_progress(struct mcp_row *row, const json_t *event)
{
    double seconds = (double)((mono_ns() - row->op->began_ns) / 1000) / 1e6;
    char words[WORDS_MAX];

    event_words(event, words, sizeof(words));
    if (words[0])
        mcp_progress(row->op, seconds, 0, words);
}

static void keep_item(struct mcp_row *row, json_t *item)
{
    row->n_items++;
    if (json_array_size(row->items) < MCP_ITEMS_MAX)
        (void)json_array_append(row->items, item);
    json_decref(item);
}

static int on_event(struct sink *sink, json_t *event)
{
    struct mcp_row *row = (struct mcp_row *)sink;

    if (event && row->function->answer == ANSWER_EVENTS) {
        keep_item(row, event);
    } else if (event) {
        tell_progress(row, event);
        json_decref(event);
    }
    return is_wanted(row) ? 0 : -1;
}

static int on_item(struct sink *sink, json_t *item)
{
    struct mcp_row *row = (struct mcp_row *)sink;

    keep_item(row, item);
    return is_wanted(row) ? 0 : -1;
}

/* Once there is enough the rest is not read at all. */
static int on_bytes(struct sink *sink, enum channel channel, const void *data, size_t len)
{
    struct mcp_row *row = (struct mcp_row *)sink;
    size_t room = row->bytes_max - row->bytes.len;

    if (channel != CHANNEL_ANSWER)
        return 0;
    (void)buf_add(&row->bytes, data, len < room ? len : room);
    row->is_full = len > room;
    return row->is_full || !is_wanted(row) ? -1 : 0;
}

static int on_size(struct sink *sink, uint64_t bytes, struct err *err)
{
    (void)err;
    ((struct mcp_row *)sink)->size = bytes;
    return 0;
}

static const struct sink_ops sink_ops = {
    .event = on_event, .bytes = on_bytes, .size = on_size, .item = on_item};

/* ---- life ---- */

struct mcp_row *mcp_row_new(const struct mcp_face *face, struct mcp_op *op,
                            const struct function *f, json_t *in, size_t bytes_max)
{
    struct mcp_row *row = xcalloc(1, sizeof(*row));
    const struct mcp_client *client = op->client;

    row->sink.ops = &sink_ops;
    row->op = op;
    row->function = f;
    row->caller = client->caller;
    row->caller.face = "mcp";
    row->items = json_array();
    row->bytes_max = bytes_max;
    buf_init(&row->bytes, bytes_max);
    row->call = (struct call){
        .engine = face->config.engine,
        .services = face->config.services,
        .about = face->config.about,
        .caller = &row->caller,
        .in = in,
        .sink = &row->sink,
        .events = op->progress_token != NULL && (f->flags & FUNCTION_EVENTS),
        .whole = true,
        .rates = client->rates,
        .rate = client->rate,
        .gone_fd = client->gone_fd,
        .gone = client->gone,
        .gone_arg = client->gone_arg,
        .traceparent = client->traceparent,
        .tracestate = client->tracestate,
    };
    function_begin(f, &row->call);
    return row;
}

/* That it has enough is no failure. */
static int settle(struct mcp_row *row, int r)
{
    if (r < 0 && row->is_full && is_wanted(row))
        r = TASK_DONE;
    if (r <= 0) {
        function_end(&row->call, r, r < 0 ? &row->err : NULL);
        row->ended = true;
    }
    return r;
}

static int run(struct mcp_row *row)
{
    if (input_take(row->function, row->call.about->prefix, row->call.in, &row->path, &row->err) < 0)
        return -1;
    return function_run(row->function, &row->call, &row->err);
}

int mcp_row_begin(struct mcp_row *row)
{
    int r = run(row);

    if (r == 0 && row->call.task) {
        json_decref(row->call.in); /* the task has copied what it needs */
        row->call.in = NULL;
        return TASK_AGAIN;
    }
    return settle(row, r);
}

int mcp_row_step(struct mcp_row *row)
{
    return settle(row, row->call.task->ops->step(row->call.task, &row->call, &row->err));
}

void mcp_row_wait(const struct mcp_row *row, struct mcp_work *work)
{
    const struct task *t = row->call.task;

    work->fd = t->fd;
    work->events = t->events;
    work->until_ns = t->until_ns;
}

size_t mcp_row_shown(const struct mcp_row *row)
{
    return row->is_full ? utf8_cut(row->bytes.data, row->bytes.len) : row->bytes.len;
}

static json_t *text_value(const struct mcp_row *row)
{
    size_t len = mcp_row_shown(row);
    auto_buf struct buf clean = {0};

    buf_init(&clean, 3 * len + 3); /* U+FFFD is three bytes */
    (void)utf8_clean(&clean, row->bytes.data ? row->bytes.data : "", len);
    return json_stringn_nocheck(clean.data ? clean.data : "", clean.len);
}

json_t *mcp_row_value(struct mcp_row *row)
{
    switch (row->function->answer) {
    case ANSWER_JSON:
        call_fold_texts(&row->call);
        return json_incref(row->call.out);
    case ANSWER_LIST:
    case ANSWER_EVENTS:
        return json_incref(row->items);
    case ANSWER_TEXT:
        return text_value(row);
    case ANSWER_BYTES:
    case ANSWER_TAR:
    case ANSWER_CAST:
    case ANSWER_PROMETHEUS:
    case ANSWER_ATTACH:
    case ANSWER_SOCKET:
    case ANSWER_DIAL:
        break;
    }
    return NULL;
}

json_t *mcp_row_error(struct mcp_row *row, int *ret_status)
{
    json_t *body = error_told(&row->err, row->function->method, row->path ? row->path : "");

    if (row->call.out)
        call_fold_texts(&row->call);
    (void)json_object_update_missing(body, row->call.out);
    *ret_status = error_status(row->err.kind);
    return body;
}

void mcp_row_free(struct mcp_row *row)
{
    if (!row)
        return;
    if (!row->ended) {
        (void)err_code(&row->err, ERR_CONFLICT, "cancelled", "the client has cancelled the call");
        function_end(&row->call, -1, &row->err);
    }
    call_done(&row->call);
    json_decref(row->items);
    buf_done(&row->bytes);
    free(row->path);
    free(row);
}
