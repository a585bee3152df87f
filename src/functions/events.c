#include "service/events.h"

#include <string.h>
#include <sys/epoll.h>

#include "base/err.h"
#include "functions/functions_internal.h"
#include "model/event.h"
#include "service/services.h"

#define MS_MAX 1e14 /* what a place in the order of events can hold, see model/event.h */

static int take_service(const struct call *call, struct events **ret, struct err *err)
{
    *ret = call->services ? call->services->events : NULL;
    return *ret ? 0 : err_set(err, ERR_UNSUPPORTED, "this daemon keeps no events");
}

static int check_topics(const char *topics, struct err *err)
{
    if (!topics || topics_valid(topics))
        return 0;
    return err_code(err, ERR_INVALID, "bad_topic",
                    "topic: topics and beginnings of topics with commas between them, as in "
                    "sandbox.created,exec.*");
}

/* ---- what was ---- */

static int history(struct call *call, struct err *err)
{
    const struct event_query q = {
        .sandbox_id = in_str(call, "sandboxId"),
        .topics = in_str(call, "topic"),
        .since_ms = in_int(call, "since"),
        .until_ms = in_int(call, "until"),
        .limit = (unsigned)in_int(call, "limit"),
        .offset = (unsigned)in_int(call, "offset"),
    };
    struct events *ev;

    if (take_service(call, &ev, err) < 0 || check_topics(q.topics, err) < 0)
        return -1;
    return events_history(ev, &q, &call->out, err);
}

/* ---- publish ---- */

static int check_event(const char *topic, const json_t *data, struct err *err)
{
    size_t bytes = json_dumpb(data, NULL, 0, JSON_COMPACT | JSON_ENSURE_ASCII);

    if (!topic_valid(topic))
        return err_code(err, ERR_INVALID, "bad_topic",
                        "topic: up to %d letters, digits and . _ : / -", TOPIC_MAX);
    if (bytes > EVENT_DATA)
        return err_code(err, ERR_TOO_LARGE, "event_too_large",
                        "data: an event has room for %u KiB of JSON", EVENT_DATA >> 10);
    return 0;
}

static int publish(struct call *call, struct err *err)
{
    const char *topic = in_str(call, "topic");
    json_t *data = json_object_get(call->in, "data");
    struct events *ev;

    if (take_service(call, &ev, err) < 0 || check_event(topic, data, err) < 0)
        return -1;
    return events_publish_kept(ev, topic, in_id(call), json_incref(data), &call->out, err);
}

/* ---- what comes ---- */

struct events_task {
    struct task task;
    struct events_reader *reader;
};

static void events_free(struct task *task)
{
    struct events_task *t = (struct events_task *)task;

    events_unsubscribe(t->reader);
    free(t);
}

/* A block a step. Its caller comes back to the next daemon with the id that it has seen last. */
static int events_step(struct task *task, struct call *call, struct err *err)
{
    struct events_task *t = (struct events_task *)task;
    struct events_block *block;
    bool more;
    int r;

    if (events_take(t->reader, &block, &more, err) < 0)
        return -1;
    r = block ? sink_stream(call, block->text, block->len, err) : sink_event(call, NULL, err);
    events_block_unref(block);
    if (r < 0)
        return -1;
    if (call->draining && (block || !more))
        return TASK_DONE;
    return more ? TASK_AGAIN : TASK_WAITS;
}

static const struct task_ops events_ops = {.step = events_step, .free = events_free};

/* From when the task waits until it is freed. */
static bool tell_begin(void *call)
{
    return sink_tell_begin(call);
}

static bool tell_end(const char *text, size_t len, void *call)
{
    return sink_tell_end(call, text, len);
}

static int subscribe(struct call *call, struct err *err)
{
    const char *last = in_str(call, "lastEventId");
    struct events_from from = {
        .topics = in_str(call, "topic"),
        .sandbox_id = in_str(call, "sandboxId"),
        .since_ms = in_int(call, "since"),
        .tell_begin = tell_begin,
        .tell_end = tell_end,
        .arg = call,
    };
    struct events_reader *reader;
    struct events_task *t;
    struct events *ev;

    if (last && !event_id_seq(last, &from.after))
        return err_code(err, ERR_INVALID, "bad_event_id",
                        "lastEventId: the id of an event, evt_ and 24 hex digits");
    if (take_service(call, &ev, err) < 0 || check_topics(from.topics, err) < 0 ||
        events_subscribe(ev, &from, &reader, err) < 0)
        return -1;
    t = xcalloc(1, sizeof(*t));
    t->task = (struct task){.ops = &events_ops, .fd = events_reader_fd(reader), .events = EPOLLIN};
    t->reader = reader;
    call->task = &t->task;
    return 0;
}

#define TOPIC_FIELD                                                                                \
    {                                                                                              \
        "topic", FIELD_STRING, .optional = true, .max = TOPICS_MAX, .pattern = TOPICS_REGEX,       \
                               .help = "these topics: a list with commas; * at the end of one is " \
                                       "whatever follows"                                          \
    }
#define SANDBOX_FIELD                                                                              \
    {                                                                                              \
        "sandboxId", FIELD_STRING, .optional = true, .min = 1, .max = 1024,                        \
                                   .help = "of this sandbox, which may be gone; a name is one "    \
                                           "that is there"                                         \
    }
#define SINCE_FIELD                                                                                \
    {                                                                                              \
        "since", FIELD_INT, .optional = true, .min = 0, .max = MS_MAX,                             \
                            .help = "from this time on, in Unix milliseconds"                      \
    }

static const struct field history_fields[] = {
    SANDBOX_FIELD,
    TOPIC_FIELD,
    SINCE_FIELD,
    {"until", FIELD_INT, .optional = true, .min = 0, .max = MS_MAX,
     .help = "up to this time, in Unix milliseconds"},
    {"limit", FIELD_INT, .clamp = true, .min = 1, .max = 1000, .preset = "50",
     .help = "how many at most"},
    {"offset", FIELD_INT, .clamp = true, .min = 0, .max = 10000000, .preset = "0",
     .help = "how many of the newest to leave out"},
    {0},
};

static const struct field publish_fields[] = {
    {"topic", FIELD_STRING, .min = 1, .max = TOPIC_MAX, .pattern = TOPIC_REGEX,
     .example = "\"deploy.done\"", .help = "what happened"},
    {"sandboxId", FIELD_STRING, .min = 1, .max = 1024, .example = EXAMPLE_SANDBOX_ID,
     .help = "to which sandbox; it need not be there"},
    {"data", FIELD_OBJECT, .preset = "{}", .example = "{\"version\": \"1.2\"}",
     .help = "what there is to say about it"},
    {0},
};

static const struct field stream_fields[] = {
    TOPIC_FIELD,
    SANDBOX_FIELD,
    SINCE_FIELD,
    {"lastEventId", FIELD_STRING, .optional = true, .max = 64, .example = EXAMPLE_EVENT_ID,
     .help = "go on behind this event; also as the header Last-Event-ID"},
    {0},
};

const struct function event_functions[] = {
    {"event::history", "GET", "/events/history", history_fields, history, "sandbox_events_history",
     SCOPE_READ, .reach = REACH_FILTER, .flags = FUNCTION_ANY_SANDBOX,
     .help = "Lists what has happened, the newest first", .gives = &event_list_shape,
     .errors = "bad_topic"},
    {"event::publish", "POST", "/events/publish", publish_fields, publish, "sandbox_events_publish",
     SCOPE_WRITE, .reach = REACH_SANDBOX, .flags = FUNCTION_MAKES | FUNCTION_ANY_SANDBOX,
     .help = "Keeps an event of the caller's own, and tells it to all who listen",
     .gives = &event_shape, .errors = "bad_topic event_too_large"},
    {"stream::events", "GET", "/stream/events", stream_fields, subscribe, NULL, SCOPE_READ,
     .reach = REACH_FILTER, .flags = FUNCTION_WAITS | FUNCTION_ANY_SANDBOX, .answer = ANSWER_EVENTS,
     .help = "Streams what happens; Last-Event-ID goes on where a stream ended",
     .events = &event_shape, .errors = "bad_topic bad_event_id too_many_streams"},
    {0},
};
