#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "functions/callers.h"
#include "iii/lane_internal.h"

/* Queues that calls name, and topics that functions are bound to. */

#define BACKOFF_MAX 3600000 /* ms */
#define RULES_MAX   1000    /* of at once and of attempts */

/* ---- named queues ---- */

const struct lane_rules queue_rules = {
    .at_once = 10, .attempts = 3, .backoff_ms = 1000, .buries = true};

static char *copy(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

static char *text_of(const json_t *data)
{
    char *text = data ? json_dumps(data, JOB_DUMP) : NULL;

    return text ? text : xstrdup("null");
}

static size_t size_of(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static struct job *call_of(const struct iii_question *q)
{
    struct job *j = job_new(text_of(q->data));
    const char *namespace = q->namespace ? q->namespace : III_NAMESPACE;

    j->function_id = xstrdup(q->function_id);
    j->namespace = xstrdup(namespace);
    j->metadata = q->metadata ? json_dumps(q->metadata, JOB_DUMP) : NULL;
    j->traceparent = copy(q->traceparent);
    j->baggage = copy(q->baggage);
    j->who = xstrdup(q->asker->caller.name);
    j->paid = q->peer;
    /* Its connection may go before its turn comes. */
    j->asker = iii_asker_for(q->asker);
    j->bytes = JOB_BYTES + sizeof(*j->asker) + size_of(j->data) + size_of(j->metadata) +
               size_of(j->function_id) + size_of(j->namespace) + size_of(j->traceparent) +
               size_of(j->baggage);
    return j;
}

static int put_call(struct iii_triggers *t, const char *queue, struct job *j, json_t *data,
                    struct err *err)
{
    struct lane *l = lane_find_queue(t, queue);

    if (t->stops)
        return err_set(err, ERR_UNAVAILABLE, "the daemon is about to end");
    if (!l && t->n_queues >= QUEUES_MAX)
        return err_code(err, ERR_LIMIT, "queue_full", "there are %d queues, as many as may be",
                        QUEUES_MAX);
    if (l && l->group_field) {
        j->group_key = group_key_of(data, l->group_field);
        j->bytes += 2 * size_of(j->group_key) + sizeof(struct group);
    }
    if (job_take_room(t, j->who, j->bytes, err) < 0)
        return -1;
    j->lane = l ? l : lane_new(t, LANE_NAMED, queue, &queue_rules);
    job_ready(t, j, false);
    return 0;
}

int iii_enqueue(struct iii_triggers *t, const char *queue, const struct iii_question *q,
                char ret[UUID_SIZE], struct err *err)
{
    char id[UUID_SIZE];
    struct job *j;
    int r;

    if (!queue || !*queue || strlen(queue) > III_NAME_MAX)
        return err_set(err, ERR_INVALID, "queue: a name of 1 to %d bytes", III_NAME_MAX);
    j = call_of(q);
    memcpy(id, j->id, UUID_SIZE);
    triggers_lock(t);
    r = put_call(t, queue, j, q->data, err);
    triggers_unlock(t);
    if (r < 0) {
        job_unref(t, j);
        return -1;
    }
    memcpy(ret, id, UUID_SIZE);
    triggers_wake(t);
    return 0;
}

/* ---- topics ---- */

static int config_number(const json_t *config, const char *key, const char *also, int64_t max,
                         int64_t *ret, struct err *err)
{
    const json_t *value = json_object_get(config, key);

    if (!value)
        value = json_object_get(config, also);
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > max)
        return err_set(err, ERR_INVALID, "%s: a whole number of 0 to %lld", key, (long long)max);
    *ret = json_integer_value(value);
    return 0;
}

/* By both spellings: in queue_config as SDKs have it, or beside the topic. */
static int read_rules(const json_t *config, bool grouped, struct lane_rules *r, struct err *err)
{
    int64_t retries = r->attempts, at_once = r->at_once;
    const char *type;

    if (config_number(config, "max_retries", "maxRetries", RULES_MAX, &retries, err) < 0 ||
        config_number(config, "concurrency", "concurrency", RULES_MAX, &at_once, err) < 0 ||
        config_number(config, "backoff_ms", "backoffDelayMs", BACKOFF_MAX, &r->backoff_ms, err) <
            0 ||
        config_text(config, "type", &type, err) < 0)
        return -1;
    if (type && strcmp(type, "fifo") != 0 && strcmp(type, "standard") != 0)
        return err_set(err, ERR_INVALID, "type: standard or fifo");
    r->fifo |= type && strcmp(type, "fifo") == 0;
    r->attempts = retries > 0 ? (unsigned)retries : 1;
    r->at_once = (r->fifo && !grouped) || at_once == 0 ? 1 : (unsigned)at_once;
    return 0;
}

/* ---- queues that are defined ---- */

/* Those of tokens that have ended make room. */
static void drop_orphans(struct iii_triggers *t)
{
    for (struct lane *l = t->lanes, *next; l; l = next) {
        next = l->next;
        if (!l->definer || !t->hub->config.services ||
            caller_token_live(t->hub->config.services, l->definer_token))
            continue;
        free(l->definer);
        l->definer = NULL;
        t->n_defined--;
        t->n_queues++;
        lane_settle(t, l);
    }
}

static unsigned defined_by(const struct iii_triggers *t, const char *who)
{
    unsigned n = 0;

    for (const struct lane *l = t->lanes; l; l = l->next)
        n += l->definer && strcmp(l->definer, who) == 0;
    return n;
}

static bool has_room(const struct iii_triggers *t, const char *who)
{
    return t->n_defined < DEFINED_MAX && defined_by(t, who) < DEFINED_MAX / 2;
}

/* The queue, as one that the caller has defined. NULL: why not. */
static struct lane *lane_defined(struct iii_triggers *t, const char *queue,
                                 const struct caller *who, struct err *err)
{
    struct lane *l = lane_find_queue(t, queue);

    if (t->stops) {
        (void)err_set(err, ERR_UNAVAILABLE, "the daemon is about to end");
        return NULL;
    }
    if (l && l->definer) {
        if (strcmp(l->definer, who->name) == 0 || (who->scopes & 1u << SCOPE_WRITE))
            return l;
        (void)err_code(err, ERR_FORBIDDEN, "queue_taken",
                       "somebody else has defined that queue, and this token may not write");
        return NULL;
    }
    if (!has_room(t, who->name))
        drop_orphans(t);
    if (!has_room(t, who->name)) {
        (void)err_code(err, ERR_LIMIT, "queue_full",
                       "as many queues are defined as may be: %d, and half of them by one caller",
                       DEFINED_MAX);
        return NULL;
    }
    l = lane_find_queue(t, queue); /* it may have gone with the others */
    if (!l)
        l = lane_new(t, LANE_NAMED, queue, &queue_rules);
    t->n_queues--;
    t->n_defined++;
    l->definer = xstrdup(who->name);
    (void)snprintf(l->definer_token, sizeof(l->definer_token), "%s", who->token_id);
    return l;
}

int iii_queue_define(struct iii_triggers *t, const char *queue, const json_t *config,
                     const struct caller *who, struct err *err)
{
    struct lane_rules rules = queue_rules;
    const char *field;
    struct lane *l;

    if (!queue || !*queue || strlen(queue) > III_NAME_MAX)
        return err_set(err, ERR_INVALID, "queue: a name of 1 to %d bytes", III_NAME_MAX);
    if (config && !json_is_object(config) && !json_is_null(config))
        return err_set(err, ERR_INVALID, "config: an object");
    if (config_text(config, "message_group_field", &field, err) < 0 ||
        read_rules(config, field, &rules, err) < 0)
        return -1;
    triggers_lock(t);
    l = lane_defined(t, queue, who, err);
    if (l) {
        l->rules = rules;
        l->blocked &= rules.fifo;
        free(l->group_field);
        l->group_field = rules.fifo ? copy(field) : NULL;
        lane_arm(t, l);
    }
    triggers_unlock(t);
    if (!l)
        return -1;
    triggers_wake(t);
    return 0;
}

/* ---- bindings to topics ---- */

static int read_topic(struct bound *b, const json_t *config, struct err *err)
{
    const char *topic, *queue;

    if (config_text(config, "topic", &topic, err) < 0 ||
        config_text(config, "queue", &queue, err) < 0)
        return -1;
    if (!topic && !queue)
        return err_set(err, ERR_INVALID, "topic is required for %s triggers", b->kind->id);
    b->topic = xstrdup(topic ? topic : queue);
    return 0;
}

static int queue_bind(struct iii_triggers *t, struct bound *b, const json_t *config,
                      struct err *err)
{
    const json_t *more = json_object_get(config, "queue_config");

    (void)t;
    b->rules = queue_rules;
    if (read_topic(b, config, err) < 0 || read_rules(config, false, &b->rules, err) < 0)
        return -1;
    return json_is_object(more) ? read_rules(more, false, &b->rules, err) : 0;
}

static int queue_enter(struct iii_triggers *t, struct bound *b, const struct bound *old,
                       struct err *err)
{
    const char *binder = b->asker->caller.name;
    struct lane *l = lane_find_topic(t, b->topic, b->function_id, b->namespace, binder);

    (void)old;
    (void)err;
    if (!l) {
        l = lane_new(t, LANE_TOPIC, b->topic, &b->rules);
        l->function_id = xstrdup(b->function_id);
        l->namespace = xstrdup(b->namespace);
        l->binder = xstrdup(binder);
        t->n_alone++;
    }
    t->n_alone -= l->consumers == 0;
    l->consumers++;
    l->consumer = b;
    l->rules = b->rules;
    b->lane = l;
    lane_arm(t, l);
    return 0;
}

static const struct lane_rules subscribe_rules = {.at_once = 100, .attempts = 1};

static int subscribe_bind(struct iii_triggers *t, struct bound *b, const json_t *config,
                          struct err *err)
{
    (void)t;
    return read_topic(b, config, err);
}

static int subscribe_enter(struct iii_triggers *t, struct bound *b, const struct bound *old,
                           struct err *err)
{
    (void)old;
    (void)err;
    lane_open(t, b, &subscribe_rules);
    return 0;
}

static bool wants(const struct lane *l, const char *topic)
{
    return strcmp(l->name, topic) == 0 &&
           (l->kind == LANE_TOPIC ||
            (l->kind == LANE_OWN && l->consumer->kind == &subscribe_trigger));
}

static int put_message(struct iii_triggers *t, struct lane *l, const char *text, const char *who,
                       struct err *err)
{
    size_t bytes = strlen(text) + JOB_BYTES;
    struct job *j;

    if (job_take_room(t, who, bytes, err) < 0)
        return -1;
    j = job_new(xstrdup(text));
    j->who = xstrdup(who);
    j->bytes = bytes;
    j->lane = l;
    job_ready(t, j, false);
    return 0;
}

int iii_publish(struct iii_triggers *t, const char *topic, json_t *data, struct iii_asker *asker,
                struct err *err)
{
    auto_free char *text = text_of(data);
    int r = 0;

    if (!topic || !*topic || strlen(topic) > ROUTE_MAX)
        return err_set(err, ERR_INVALID, "topic: a text of 1 to %d bytes", ROUTE_MAX);
    triggers_lock(t);
    for (struct lane *l = t->lanes; l && r == 0; l = l->next)
        if (wants(l, topic))
            r = put_message(t, l, text, asker->caller.name, err);
    triggers_unlock(t);
    triggers_wake(t);
    return r;
}

/* ---- types ---- */

#define TOPIC_CONFIG                                                                               \
    "{\"type\": \"object\", \"properties\": {\"topic\": {\"type\": \"string\"}, \"queue\": "       \
    "{\"type\": \"string\", \"description\": \"the same as topic\"}, "                             \
    "\"condition_function_id\": {\"type\": \"string\"}"
#define QUEUE_CONFIG                                                                               \
    TOPIC_CONFIG                                                                                   \
    ", \"max_retries\": {\"type\": \"integer\", \"default\": 3}, \"backoff_ms\": {\"type\": "      \
    "\"integer\", \"default\": 1000}, \"concurrency\": {\"type\": \"integer\", \"default\": 10}, " \
    "\"queue_config\": {\"type\": \"object\", \"description\": \"type (standard, fifo), "          \
    "maxRetries, concurrency, backoffDelayMs\"}}}"

const struct trigger_kind queue_trigger = {
    "queue",      "Calls a function with what is published on a topic, again when it fails",
    QUEUE_CONFIG, "{}",
    queue_bind,   queue_enter,
    lane_leave,
};

const struct trigger_kind durable_trigger = {
    "durable:subscriber",
    "Calls a function with what is published on a topic, again when it fails; kept in memory",
    QUEUE_CONFIG,
    "{}",
    queue_bind,
    queue_enter,
    lane_leave,
};

const struct trigger_kind subscribe_trigger = {
    "subscribe",       "Calls a function once with what is published on a topic",
    TOPIC_CONFIG "}}", "{}",
    subscribe_bind,    subscribe_enter,
    lane_leave,
};
