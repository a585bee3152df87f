#include <string.h>

#include "base/mem.h"
#include "iii/link_internal.h"
#include "iii/wire.h"

#define BAGGAGE_MAX 8192

/* A call that the engine has made. */
struct served {
    struct iii_link *l;
    uint64_t connection;
    char *id, *function_id; /* id NULL = nobody wants to know */
    char *traceparent, *baggage;
};

static void served_free(struct served *s)
{
    free(s->id);
    free(s->function_id);
    free(s->traceparent);
    free(s->baggage);
    free(s);
}

static void leave(struct iii_link *l)
{
    (void)pthread_mutex_lock(&l->lock);
    l->in_flight--;
    if (l->drains)
        (void)pthread_cond_broadcast(&l->told);
    (void)pthread_mutex_unlock(&l->lock);
}

static bool enter(struct iii_link *l)
{
    bool room;

    (void)pthread_mutex_lock(&l->lock);
    room = !l->stops && !l->drains && l->in_flight < l->config.in_flight_max;
    l->in_flight += room;
    (void)pthread_mutex_unlock(&l->lock);
    return room;
}

static void say_result(const struct served *s, json_t *result, json_t *error)
{
    char *text = wire_result(s->id, s->function_id, result, error, s->traceparent, s->baggage);
    json_t *instead;

    if (strlen(text) > LINK_MESSAGE_MAX) {
        free(text);
        instead = iii_error("invocation_error",
                            "the result is longer than a message may be; have it sent through a "
                            "channel, or ask for less");
    } else if (link_say(s->l, s->connection, text)) {
        return;
    } else { /* unless the connection is lost: then this is too */
        instead = iii_error("invocation_error",
                            "busy: more waits to be sent to the engine than it takes");
    }
    (void)link_say(s->l, s->connection,
                   wire_result(s->id, s->function_id, NULL, instead, s->traceparent, s->baggage));
    json_decref(instead);
}

static void answered(void *arg, json_t *result, json_t *error)
{
    struct served *s = arg;
    struct iii_link *l = s->l;

    if (s->id)
        say_result(s, result, error);
    served_free(s);
    leave(l);
}

/* With one that was not let in. */
static void refuse(struct served *s, const char *code, const char *why)
{
    json_t *error = iii_error(code, "%s", why);

    if (s->id)
        say_result(s, NULL, error);
    json_decref(error);
    served_free(s);
}

static char *copy(const json_t *m, const char *key, size_t max)
{
    const char *text = wire_name(m, key, max);

    return text ? xstrdup(text) : NULL;
}

static bool is_void(const json_t *m)
{
    const char *type = wire_name(json_object_get(m, "action"), "type", III_NAME_MAX);

    return type && strcmp(type, "void") == 0;
}

void link_called(struct iii_link *l, uint64_t connection, json_t *m, size_t weight)
{
    struct served *s = xcalloc(1, sizeof(*s));

    *s = (struct served){.l = l,
                         .connection = connection,
                         .function_id = copy(m, "function_id", III_NAME_MAX),
                         .traceparent = copy(m, "traceparent", III_NAME_MAX),
                         .baggage = copy(m, "baggage", BAGGAGE_MAX)};
    if (!is_void(m))
        s->id = copy(m, "invocation_id", III_NAME_MAX);
    if (!s->function_id || !json_object_get(l->offered, s->function_id)) {
        if (!s->function_id)
            s->function_id = xstrdup("");
        refuse(s, "function_not_found", "this worker has no such function");
    } else if (!enter(l)) {
        refuse(s, "invocation_error",
               "busy: too many calls are in flight, or this worker is about to end");
    } else {
        /* Of the message, which outlives the answer. */
        const struct iii_question q = {.asker = l->asker,
                                       .function_id = wire_name(m, "function_id", III_NAME_MAX),
                                       .data = json_object_get(m, "data"),
                                       .metadata = wire_value(m, "metadata"),
                                       .traceparent = wire_name(m, "traceparent", III_NAME_MAX),
                                       .baggage = wire_name(m, "baggage", BAGGAGE_MAX),
                                       .pipes = link_pipes_ops(l->pipes),
                                       .weight = weight};

        iii_ask(l->hub, &q, answered, s);
    }
}

void link_refuse(struct iii_link *l, uint64_t connection, const char *id, const char *code,
                 const char *why)
{
    json_t *error = iii_error(code, "%s", why);

    (void)link_say(l, connection, wire_result(id, "", NULL, error, NULL, NULL));
    json_decref(error);
}
