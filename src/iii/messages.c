#include <string.h>

#include "base/budget.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "functions/input.h"
#include "iii/rbac.h"
#include "iii/registry.h"
#include "iii/wire.h"

/* What the messages of a client mean. What cannot be understood is dropped, as an engine does, but
 * for a call whose id can be made out: its caller would wait for nothing. */

#define WEIGHT_FREE (64u << 10) /* what the budget is not asked for */
#define TRACE_MAX   1024        /* of traceparent */
#define BAGGAGE_MAX 8192

/* ---- calls ---- */

/* One that waits for its answer. */
struct waiting {
    struct iii_peer *peer; /* a reference of its asker */
    char *invocation_id, *function_id, *traceparent, *baggage;
};

static void waiting_free(struct waiting *w)
{
    iii_asker_unref(&w->peer->asker);
    free(w->invocation_id);
    free(w->function_id);
    free(w->traceparent);
    free(w->baggage);
    free(w);
}

static void on_answer(void *arg, json_t *result, json_t *error)
{
    struct waiting *w = arg;

    iii_peer_send(w->peer, wire_result(w->invocation_id, w->function_id, result, error,
                                       w->traceparent, w->baggage));
    iii_peer_served(w->peer);
    waiting_free(w);
}

static void nobody_listens(void *arg, json_t *result, json_t *error)
{
    struct iii_peer *peer = arg;

    (void)result;
    (void)error;
    iii_peer_served(peer);
    iii_asker_unref(&peer->asker);
}

static char *copy_of(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

static struct waiting *waiting_new(struct iii_peer *peer, const char *id,
                                   const struct iii_question *q)
{
    struct waiting *w = xcalloc(1, sizeof(*w));

    (void)iii_asker_ref(&peer->asker);
    w->peer = peer;
    w->invocation_id = xstrdup(id);
    w->function_id = xstrdup(q->function_id ? q->function_id : "");
    w->traceparent = copy_of(q->traceparent);
    w->baggage = copy_of(q->baggage);
    return w;
}

static void enqueue(struct iii_peer *peer, const struct iii_question *q, const json_t *action,
                    iii_answered answered, void *arg)
{
    const char *queue = wire_name(action, "queue", III_NAME_MAX);
    json_t *result = NULL, *error = NULL;
    char receipt[UUID_SIZE];
    struct err err = {0};

    if (!queue)
        error = iii_error("enqueue_error", "action.queue must be a string of 1 to %d bytes",
                          III_NAME_MAX);
    else if (iii_enqueue(peer->hub->triggers, queue, q, receipt, &err) < 0)
        error = iii_error("enqueue_error", "%s", err.text);
    else
        result = json_pack("{s:s}", "messageReceiptId", receipt);
    answered(arg, result, error);
    json_decref(result);
    json_decref(error);
}

/* NULL when it may be asked. */
static json_t *why_not(struct iii_peer *peer, const json_t *m)
{
    const char *namespace = wire_name(m, "namespace", III_NAME_MAX);
    struct err err = {0};

    if (wire_value(m, "namespace") &&
        (!namespace || strspn(namespace, " \t\r\n") == strlen(namespace)))
        return iii_error("INVALID_NAMESPACE",
                         "a namespace must be a string of 1 to %d bytes that is not blank",
                         III_NAME_MAX);
    if (!wire_name(m, "function_id", III_NAME_MAX))
        return iii_error("function_not_found", "function_id must be a string of 1 to %d bytes",
                         III_NAME_MAX);
    if (iii_take_rate(&peer->asker, &err) < 0)
        return iii_error("rate_limited", "%s", err.text);
    if (atomic_load(&peer->in_flight) > III_IN_FLIGHT_MAX + atomic_load(&peer->forwarded))
        return iii_error("invocation_error", "%d calls of this connection wait for their answers",
                         III_IN_FLIGHT_MAX);
    return NULL;
}

static void ask(struct iii_peer *peer, const json_t *m, const struct iii_question *q,
                const char *id)
{
    const json_t *action = wire_value(m, "action");
    const char *kind = json_text(action, "type");
    iii_answered answered = id ? on_answer : nobody_listens;
    void *arg = id ? (void *)waiting_new(peer, id, q) : (void *)iii_asker_ref(&peer->asker);
    const struct iii_session *s = peer->asker.session;
    /* With a middleware it is that one's to enqueue it, or not to. */
    bool enqueues = strcmp(kind, "enqueue") == 0 && !(s && s->guard->middleware);
    json_t *error;

    atomic_fetch_add(&peer->in_flight, 1);
    error = why_not(peer, m);
    if (!error && s && enqueues)
        error = iii_session_why_not(peer->hub, s, q->namespace, q->function_id);
    if (error)
        answered(arg, NULL, error);
    else if (enqueues)
        enqueue(peer, q, action, answered, arg);
    else
        iii_ask(peer->hub, q, answered, arg);
    json_decref(error);
}

static void take_invoke(struct iii_peer *peer, json_t *m, size_t weight)
{
    const char *id = wire_name(m, "invocation_id", UUID_SIZE - 1);
    bool is_void = strcmp(json_text(wire_value(m, "action"), "type"), "void") == 0;
    struct iii_question q = {
        .asker = &peer->asker,
        .peer = peer,
        .namespace = wire_name(m, "namespace", III_NAME_MAX),
        .function_id = wire_name(m, "function_id", III_NAME_MAX),
        .data = json_object_get(m, "data"),
        .metadata = wire_value(m, "metadata"),
        .action = wire_value(m, "action"),
        .traceparent = wire_name(m, "traceparent", TRACE_MAX),
        .baggage = wire_name(m, "baggage", BAGGAGE_MAX),
        .weight = weight,
    };

    if (wire_value(m, "invocation_id") && (!id || !iii_uuid_valid(id))) {
        log_debug("a call with an id that is no UUID is dropped", "worker", peer->asker.worker_id);
        return;
    }
    ask(peer, m, &q, is_void ? NULL : id);
}

/* ---- registrations ---- */

static void take_unregister(struct iii_peer *peer, json_t *m, size_t bytes)
{
    const char *id = wire_name(m, "id", III_NAME_MAX);

    (void)bytes;
    if (id)
        iii_registry_withdraw(peer->hub->registry, peer, id);
}

static void take_register(struct iii_peer *peer, json_t *m, size_t bytes)
{
    iii_registry_offer(peer->hub->registry, peer, m, NULL, bytes);
}

static void take_type(struct iii_peer *peer, json_t *m, size_t bytes)
{
    iii_registry_offer_type(peer->hub->registry, peer, m, bytes);
}

static void take_no_type(struct iii_peer *peer, json_t *m, size_t bytes)
{
    (void)bytes;
    if (!iii_session_withdraws_type(peer, m))
        iii_registry_withdraw_type(peer->hub->registry, peer, m);
}

static void take_trigger(struct iii_peer *peer, json_t *m, size_t bytes)
{
    iii_registry_bind_told(peer->hub->registry, peer, m, bytes);
}

static void take_no_trigger(struct iii_peer *peer, json_t *m, size_t bytes)
{
    const char *id = wire_name(m, "id", III_NAME_MAX);

    (void)bytes;
    if (id)
        (void)iii_registry_unbind(peer->hub->registry, peer, id);
}

static void ignore(struct iii_peer *peer, json_t *m, size_t bytes)
{
    (void)peer;
    (void)m;
    (void)bytes;
}

/* What belongs to a namespace waits until that is known. */
static const struct {
    const char *type;
    void (*take)(struct iii_peer *peer, json_t *m, size_t bytes);
} registrations[] = {
    {"registerfunction", take_register}, {"unregisterfunction", take_unregister},
    {"registertriggertype", take_type},  {"unregistertriggertype", take_no_type},
    {"registertrigger", take_trigger},   {"unregistertrigger", take_no_trigger},
    {"registerservice", ignore},
};

/* False when it is not to wait, or there is no room for it. */
static bool keep(struct iii_peer *peer, const json_t *m)
{
    auto_free char *text = NULL;
    size_t bytes;

    if (!peer->unnamed && !peer->inquiry.open)
        return false;
    text = wire_text(m);
    bytes = wire_weight(text, strlen(text));
    if (!iii_registry_keep(peer->hub->registry, peer, bytes))
        return false;
    if (!peer->early)
        peer->early = json_array();
    (void)json_array_append_new(peer->early, json_string_nocheck(text));
    peer->early_bytes += bytes;
    return true;
}

static void register_now(struct iii_peer *peer, size_t row, json_t *m, size_t bytes)
{
    if (!peer->asker.session || !iii_session_registers(peer, registrations[row].type, m))
        registrations[row].take(peer, m, bytes);
}

static size_t find_registration(const char *type)
{
    size_t i = 0;

    while (i < ARRAY_LEN(registrations) && strcmp(registrations[i].type, type) != 0)
        i++;
    return i;
}

void iii_peer_go_on(struct iii_peer *peer)
{
    while (!peer->unnamed && !peer->inquiry.open &&
           peer->early_next < json_array_size(peer->early)) {
        const char *text = json_string_value(json_array_get(peer->early, peer->early_next++));
        size_t bytes = wire_weight(text, strlen(text));
        json_t *m = json_loads(text, 0, NULL);

        iii_registry_unkeep(peer->hub->registry, peer, bytes);
        peer->early_bytes -= bytes;
        register_now(peer, find_registration(json_text(m, "type")), m, bytes);
        json_decref(m);
    }
    if (peer->early_next < json_array_size(peer->early))
        return;
    json_decref(peer->early);
    peer->early = NULL;
    peer->early_next = 0;
}

void iii_peer_replay(struct iii_peer *peer)
{
    peer->unnamed = false;
    iii_peer_go_on(peer);
}

static bool take_registration(struct iii_peer *peer, const char *type, json_t *m, size_t bytes)
{
    size_t i = find_registration(type);

    if (i == ARRAY_LEN(registrations))
        return false;
    if (keep(peer, m))
        return true;
    iii_peer_replay(peer); /* those that came before it, if any wait */
    if (peer->inquiry.open)
        log_warn("a registration is dropped: too many wait for a hook", "worker",
                 peer->asker.worker_id);
    else
        register_now(peer, i, m, bytes);
    return true;
}

/* Another's place is not to be had by one who is under other rules. */
static bool may_take_place(const struct iii_peer *peer, const struct iii_peer *old)
{
    const struct iii_session *s = peer->asker.session, *t = old->asker.session;

    return !s || (t && s->guard == t->guard &&
                  strcmp(peer->asker.caller.name, old->asker.caller.name) == 0);
}

static void take_reattach(struct iii_peer *peer, const json_t *m)
{
    const char *id = wire_name(m, "previous_worker_id", UUID_SIZE - 1);
    const char *token = wire_name(m, "reattach_token", UUID_SIZE - 1);
    struct iii_peer *old = id ? iii_registry_reattach(peer->hub->registry, id, token) : NULL;

    if (old && old != peer && may_take_place(peer, old)) {
        iii_registry_forget(peer->hub->registry, old); /* what it has is free for its successor */
        iii_peer_evict(old);
    }
    if (old)
        iii_asker_unref(&old->asker);
}

/* ---- all of them ---- */

static void dispatch(struct iii_peer *peer, json_t *m, size_t bytes, size_t weight)
{
    const char *type = json_text(m, "type");

    if (strcmp(type, "invokefunction") == 0)
        take_invoke(peer, m, weight);
    else if (strcmp(type, "invocationresult") == 0)
        iii_registry_answer(peer->hub->registry, peer, m);
    else if (strcmp(type, "triggerregistrationresult") == 0)
        iii_registry_bound(peer->hub->registry, peer, m);
    else if (strcmp(type, "reattach") == 0)
        take_reattach(peer, m);
    else if (strcmp(type, "ping") == 0)
        iii_peer_send(peer, xstrdup("{\"type\":\"pong\"}"));
    else if (!take_registration(peer, type, m, bytes) && strcmp(type, "pong") != 0)
        log_debug("a message of an unknown type is dropped", "type", type);
}

/* A call that cannot be read is answered; of an answer, who waits for it is told. */
static void refuse(struct iii_peer *peer, const char *text, size_t len, const char *code,
                   const char *why)
{
    json_t *error = iii_error(code, "%s", why);
    char id[UUID_SIZE];

    switch (wire_find_id(text, len, id)) {
    case WIRE_CALL:
        iii_peer_send(peer, wire_result(id, "", NULL, error, NULL, NULL));
        break;
    case WIRE_ANSWER:
        iii_registry_answer_lost(peer->hub->registry, peer, id, why);
        break;
    case WIRE_OTHER:
        log_debug("a message is dropped", "worker", peer->asker.worker_id, "because", why);
        break;
    }
    json_decref(error);
}

void iii_peer_take(struct iii_peer *peer, const char *text, size_t len)
{
    struct budget *memory = peer->hub->config.memory;
    size_t weight = input_weight(text, len);
    struct err err = {0};
    json_t *m;

    if (weight <= WEIGHT_FREE)
        weight = 0;
    if (weight && !budget_take(memory, weight)) {
        refuse(peer, text, len, "invocation_error",
               "the daemon holds as much of other callers' data as it may; send it again");
        return;
    }
    m = input_parse(text, len, &err);
    if (!m)
        refuse(peer, text, len, "deserialization_error", err.text);
    else if (json_is_object(m))
        dispatch(peer, m, wire_weight(text, len), weight || len > WEIGHT_FREE ? weight + len : 0);
    json_decref(m);
    budget_give(memory, weight);
}
