#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/callers.h"
#include "functions/errors.h"
#include "functions/function.h"
#include "functions/input.h"
#include "iii/iii_internal.h"
#include "iii/rows.h"

/* A function of the table, called for somebody who speaks iii. It goes through the same steps as a
 * call over REST, so that scopes, reach, rates, traces and the audit log are the same. It begins on
 * a thread of the runner; most commands are done within milliseconds, so that thread waits for them
 * a moment itself, if not too many do. Everything else waits without one.
 *
 * A row whose answer is a stream of events sends them to a channel that its input names, as texts;
 * there too, nothing piles up: it goes no further before the reader has taken what was sent. */

#define PATIENCE_NS (20 * 1000000ll)
#define PATIENT_MAX 32
#define BYTES_MAX   (8u << 20) /* of an answer that is bytes or a text */
#define ITEMS_MAX   10000      /* of one that is a list */
#define CHANNEL     "channel"  /* the key of the input that names one */

struct row {
    struct work work; /* first: the runner gives it back */
    struct sink sink;
    struct call call;
    struct caller caller;
    struct iii_hub *hub;
    struct iii_asker *asker; /* a reference */
    const struct function *function;
    bool own; /* it is one of functions/iii.h */
    iii_answered answered;
    void *arg;
    char *traceparent, *path;
    struct err err;
    bool begun;
    bool over; /* it has come to its end, and only events are still to be taken; */
    int end;   /* then this is what it came to */
    size_t weight;
    int64_t token_ns; /* when to look again whether the caller's token lives */

    struct pipe *channel; /* for events, or NULL */
    struct pipes *pipes;  /* of who asks, or NULL: the question has others */
    struct event {
        char *text;
        struct event *next;
    } * first, **last; /* that the channel has not taken */

    json_t *items; /* of a list */
    struct buf bytes;
    bool is_full;
    struct row *prev, *next; /* of all, under their lock */
};

struct iii_rows {
    pthread_mutex_t lock;
    struct row *all;
    atomic_uint patient;
};

struct iii_rows *iii_rows_new(void)
{
    struct iii_rows *rows = xcalloc(1, sizeof(*rows));

    (void)pthread_mutex_init(&rows->lock, NULL);
    return rows;
}

/* None runs any more. */
void iii_rows_free(struct iii_rows *rows)
{
    if (!rows)
        return;
    (void)pthread_mutex_destroy(&rows->lock);
    free(rows);
}

/* ---- the sink ---- */

static bool is_wanted(const struct row *row)
{
    return !atomic_load(&row->asker->gone) && !runner_stops(row->hub->runner);
}

static bool is_gone(void *arg)
{
    return !is_wanted(arg);
}

static struct row *row_of(struct sink *sink)
{
    return (struct row *)((char *)sink - offsetof(struct row, sink));
}

static void add_event(struct row *row, char *text)
{
    struct event *e = xcalloc(1, sizeof(*e));

    e->text = text;
    *row->last = e;
    row->last = &e->next;
}

static int on_event(struct sink *sink, json_t *event)
{
    struct row *row = row_of(sink);

    if (event && row->channel)
        add_event(row, json_dumps(event, JSON_COMPACT));
    json_decref(event);
    return is_wanted(row) ? 0 : -1;
}

static int on_item(struct sink *sink, json_t *item)
{
    struct row *row = row_of(sink);

    row->is_full = json_array_size(row->items) >= ITEMS_MAX;
    if (!row->is_full)
        (void)json_array_append(row->items, item);
    json_decref(item);
    return row->is_full || !is_wanted(row) ? -1 : 0;
}

static int on_bytes(struct sink *sink, enum channel channel, const void *data, size_t len)
{
    struct row *row = row_of(sink);

    if (channel != CHANNEL_ANSWER)
        return 0;
    row->is_full |= buf_add(&row->bytes, data, len) < 0;
    return row->is_full || !is_wanted(row) ? -1 : 0;
}

static int on_size(struct sink *sink, uint64_t bytes, struct err *err)
{
    (void)sink;
    if (bytes > BYTES_MAX)
        return err_code(err, ERR_TOO_LARGE, "file_too_large",
                        "this is longer than %u MiB: read it with sandbox::fs::read, which gives a "
                        "channel, or over REST",
                        BYTES_MAX >> 20);
    return 0;
}

static const struct sink_ops sink_ops = {
    .event = on_event, .bytes = on_bytes, .size = on_size, .item = on_item};

/* ---- the answer ---- */

static json_t *bytes_value(const struct row *row)
{
    auto_buf struct buf text = {0};

    buf_init(&text, 3 * (size_t)BYTES_MAX + 16);
    if (row->function->answer == ANSWER_TEXT || row->function->answer == ANSWER_PROMETHEUS)
        (void)utf8_clean(&text, row->bytes.data ? row->bytes.data : "", row->bytes.len);
    else
        (void)base64_encode(&text, row->bytes.data, row->bytes.len);
    return json_stringn_nocheck(text.data ? text.data : "", text.len);
}

static json_t *value(struct row *row)
{
    switch (row->function->answer) {
    case ANSWER_LIST:
        return json_incref(row->items);
    case ANSWER_TEXT:
    case ANSWER_BYTES:
    case ANSWER_TAR:
    case ANSWER_CAST:
    case ANSWER_PROMETHEUS:
        return bytes_value(row);
    case ANSWER_JSON:
    case ANSWER_EVENTS:
    case ANSWER_ATTACH:
    case ANSWER_SOCKET:
    case ANSWER_DIAL:
        break;
    }
    if (row->call.out)
        call_fold_texts(&row->call);
    return row->call.out ? json_incref(row->call.out) : json_null();
}

static json_t *failure(struct row *row)
{
    json_t *body, *error;
    char *text;

    if (row->call.out)
        call_fold_texts(&row->call);
    if (row->own) {
        text = iii_error_text(&row->err, row->function->id, row->call.out);
        error = iii_error("invocation_failed", "%s", text);
        free(text);
        return error;
    }
    body = error_told(&row->err, "iii", row->function->id);
    error = iii_error(json_text(body, "code"), "%s", json_text(body, "error"));
    json_decref(body);
    return error;
}

static void row_free(struct row *row)
{
    struct iii_rows *rows = row->hub->rows;

    (void)pthread_mutex_lock(&rows->lock);
    if (row->prev)
        row->prev->next = row->next;
    else
        rows->all = row->next;
    if (row->next)
        row->next->prev = row->prev;
    (void)pthread_mutex_unlock(&rows->lock);
    call_done(&row->call);
    while (row->first) {
        struct event *e = row->first;

        row->first = e->next;
        free(e->text);
        free(e);
    }
    if (row->channel)
        row->channel->ops->close(row->channel);
    iii_channel_pipes_free(row->pipes);
    budget_give_share(row->hub->config.memory, row->asker->share->who, row->weight);
    iii_call_end(row->hub, row->asker);
    iii_asker_unref(row->asker);
    json_decref(row->items);
    buf_done(&row->bytes);
    free(row->traceparent);
    free(row->path);
    free(row);
}

/* r: TASK_DONE or -1. */
static void finish(struct row *row, int r)
{
    json_t *answer;

    if (r < 0 && row->is_full && is_wanted(row))
        (void)err_code(&row->err, ERR_TOO_LARGE, "answer_too_large",
                       "the answer is longer than a message may be; ask for less of it");
    function_end(&row->call, r, r < 0 ? &row->err : NULL);
    answer = r < 0 ? failure(row) : value(row);
    row->answered(row->arg, r < 0 ? NULL : answer, r < 0 ? answer : NULL);
    json_decref(answer);
    row_free(row);
}

/* ---- running it ---- */

static int open_channel(struct row *row)
{
    const json_t *ref = json_object_get(row->call.in, CHANNEL);
    enum answer_kind kind = row->function->answer;

    if (kind == ANSWER_ATTACH || kind == ANSWER_SOCKET || kind == ANSWER_DIAL)
        return err_code(&row->err, ERR_UNSUPPORTED, "unsupported",
                        "%s needs a connection of its own; it is there over REST",
                        row->function->id);
    if (!row->own && ref) {
        row->channel = row->call.pipes->ops->open(row->call.pipes, ref, true, &row->err);
        if (!row->channel)
            return -1;
        (void)json_object_del(row->call.in, CHANNEL);
    }
    if (kind == ANSWER_EVENTS && !row->channel)
        return err_code(&row->err, ERR_INVALID, "channel_required",
                        "%s gives a stream of events: make a channel with engine::channels::create "
                        "and send its writer as \"" CHANNEL "\"",
                        row->function->id);
    row->call.events = row->channel != NULL;
    return 0;
}

static int begin(struct row *row)
{
    const struct function *f = row->function;
    int r;

    if (!json_is_object(row->call.in)) {
        json_decref(row->call.in);
        row->call.in = json_object();
        if (row->own)
            return err_code(&row->err, ERR_INVALID, "bad_payload",
                            "invalid type: expected an object");
    }
    if (open_channel(row) < 0)
        return -1;
    r = row->own ? iii_input(f, row->call.in, &row->err)
                 : input_take(f, row->call.about->prefix, row->call.in, &row->path, &row->err);
    if (r == 0)
        r = function_run(f, &row->call, &row->err);
    if (r == 0 && row->call.task) {
        json_decref(row->call.in); /* the task has copied what it needs */
        row->call.in = NULL;
        return TASK_AGAIN;
    }
    return r;
}

/* 1 = all is sent, 0 = the channel has no room, -1 = nobody reads it any more. */
static int send_events(struct row *row)
{
    while (row->first) {
        struct event *e = row->first;
        int r = row->channel->ops->say(row->channel, e->text);

        if (r <= 0)
            return r;
        row->first = e->next;
        if (!row->first)
            row->last = &row->first;
        free(e->text);
        free(e);
    }
    return 1;
}

/* As far as it goes with a little patience. */
static int go_on(struct row *row, int64_t until)
{
    struct iii_rows *rows = row->hub->rows;
    bool patient = !row->channel && atomic_fetch_add(&rows->patient, 1) < PATIENT_MAX;
    int r;

    if (patient)
        r = call_wait(&row->call, until, &row->err);
    else
        r = row->call.task->ops->step(row->call.task, &row->call, &row->err);
    if (!row->channel)
        atomic_fetch_sub(&rows->patient, 1);
    return r;
}

static bool token_ended(struct row *row)
{
    if (!row->caller.token_id[0] || mono_ns() < row->token_ns)
        return false;
    row->token_ns = mono_ns() + CALLER_LIVE_NS;
    return !caller_token_live(row->hub->config.services, row->caller.token_id);
}

static int nobody_waits(struct row *row)
{
    return err_code(&row->err, ERR_CONFLICT, "cancelled",
                    "the caller went away and the call was ended");
}

static void park(struct row *row, int fd, uint32_t events, int64_t until)
{
    if (row->caller.token_id[0] && (!until || row->token_ns < until))
        until = row->token_ns;
    runner_wait(row->hub->runner, &row->work, fd, events, until);
}

/* It has ended, or goes on when what it said was taken. */
static void park_for_reader(struct row *row, int r)
{
    row->over = r <= 0;
    row->end = r;
    park(row, row->channel->ops->fd(row->channel), EPOLLIN, 0);
}

static void run(struct work *work)
{
    struct row *row = (struct row *)work;
    int64_t end = mono_ns() + PATIENCE_NS;
    int r = TASK_AGAIN, sent = 1;
    bool lost = false;

    if (!is_wanted(row) || token_ended(row)) {
        lost = true;
    } else if (!row->begun) {
        row->begun = true;
        r = begin(row);
    } else if (row->over) {
        r = row->end;
    }
    sent = send_events(row); /* it was woken before all was taken */
    do {
        if (r == TASK_AGAIN && sent > 0 && !lost)
            r = go_on(row, end);
        if (sent > 0)
            sent = send_events(row);
    } while (r == TASK_AGAIN && sent > 0 && !lost && mono_ns() < end);
    if (lost || sent < 0)
        finish(row, nobody_waits(row));
    else if (r == TASK_AGAIN && sent > 0)
        runner_add(row->hub->runner, &row->work); /* others have their turn */
    else if (sent == 0)
        park_for_reader(row, r);
    else if (r > 0)
        park(row, row->call.task->fd, row->call.task->events, row->call.task->until_ns);
    else
        finish(row, r);
}

static struct row *row_new(struct iii_hub *hub, const struct function *f,
                           const struct iii_question *q)
{
    struct row *row = xcalloc(1, sizeof(*row));

    row->work.run = run;
    row->work.share = q->asker->share->threads;
    row->sink.ops = &sink_ops;
    row->hub = hub;
    row->asker = iii_asker_ref(q->asker);
    row->function = f;
    row->own = iii_function(f->id) == f;
    row->caller = q->asker->caller;
    row->items = json_array();
    row->last = &row->first;
    row->weight = q->weight;
    row->token_ns = mono_ns() + CALLER_LIVE_NS;
    row->traceparent = q->traceparent ? xstrdup(q->traceparent) : NULL;
    buf_init(&row->bytes, BYTES_MAX);
    row->pipes = q->pipes ? NULL : iii_channel_pipes_new(hub->channels, row->asker);
    row->call = (struct call){
        .engine = hub->config.engine,
        .services = hub->config.services,
        .about = hub->config.about,
        .caller = &row->caller,
        .in = json_deep_copy(q->data), /* another thread's */
        .sink = &row->sink,
        .pipes = q->pipes ? q->pipes : row->pipes,
        .whole = true,
        .rates = q->asker->rates,
        .gone_fd = -1,
        .gone = is_gone,
        .gone_arg = row,
        .traceparent = row->traceparent,
    };
    return row;
}

/* What it holds of the memory is his. One whose only call it is has it whatever there is: its
 * message has been taken, and is as long as one may be. */
static bool take_memory(struct iii_hub *hub, const struct iii_question *q)
{
    const struct iii_share *s = q->asker->share;

    if (q->weight == 0 || budget_take_share(hub->config.memory, s->who, q->weight))
        return true;
    if (atomic_load(&s->calls) > 1)
        return false;
    budget_add_share(hub->config.memory, s->who, q->weight);
    return true;
}

/* NULL when it may be called. */
static json_t *enter(struct iii_hub *hub, const struct iii_question *q)
{
    json_t *error = iii_call_begin(hub, q->asker);

    if (error || take_memory(hub, q))
        return error;
    iii_call_end(hub, q->asker);
    return iii_error("invocation_error",
                     "calls of this client hold as much data as they may; try again when some have "
                     "been answered");
}

void iii_row_ask(struct iii_hub *hub, const struct function *f, const struct iii_question *q,
                 iii_answered answered, void *arg)
{
    struct iii_rows *rows = hub->rows;
    json_t *error = enter(hub, q);
    struct row *row;

    if (error) {
        answered(arg, NULL, error);
        json_decref(error);
        return;
    }
    row = row_new(hub, f, q);
    row->answered = answered;
    row->arg = arg;
    (void)pthread_mutex_lock(&rows->lock);
    row->next = rows->all;
    if (row->next)
        row->next->prev = row;
    rows->all = row;
    (void)pthread_mutex_unlock(&rows->lock);
    function_begin(f, &row->call);
    runner_add(hub->runner, &row->work);
}

unsigned iii_rows_count(struct iii_hub *hub)
{
    unsigned n = 0;

    (void)pthread_mutex_lock(&hub->rows->lock);
    for (const struct row *row = hub->rows->all; row; row = row->next)
        n++;
    (void)pthread_mutex_unlock(&hub->rows->lock);
    return n;
}

void iii_rows_wake(struct iii_hub *hub, const struct iii_asker *asker)
{
    (void)pthread_mutex_lock(&hub->rows->lock);
    for (struct row *row = hub->rows->all; row; row = row->next)
        if (row->asker == asker)
            runner_wake(hub->runner, &row->work);
    (void)pthread_mutex_unlock(&hub->rows->lock);
}
