#include <string.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "functions/input.h"
#include "functions/rates.h"
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

/* Counts the call against the rate of its caller. ERR_LIMIT "rate_limited" with retry_s. */
static int take_rate(const struct iii_asker *asker, struct err *err)
{
    struct rate_state state;

    return asker->rates
               ? rates_take_caller(asker->rates, asker->caller.name, mono_ns(), &state, err)
               : 0;
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
    if (take_rate(&peer->asker, &err) < 0)
        return iii_error("rate_limited", "%s", err.text);
    if (strcmp(json_text(wire_value(m, "action"), "type"), "enqueue") == 0)
        return iii_error("enqueue_error", "%s", III_NO_QUEUES);
    if (atomic_load(&peer->in_flight) > III_IN_FLIGHT_MAX + atomic_load(&peer->forwarded))
        return iii_error("invocation_error", "%d calls of this connection wait for their answers",
                         III_IN_FLIGHT_MAX);
    return NULL;
}

static void ask(struct iii_peer *peer, const json_t *m, const struct iii_question *q,
                const char *id)
{
    iii_answered answered = id ? on_answer : nobody_listens;
    void *arg = id ? (void *)waiting_new(peer, id, q) : (void *)iii_asker_ref(&peer->asker);
    json_t *error;

    atomic_fetch_add(&peer->in_flight, 1);
    error = why_not(peer, m);
    if (error)
        answered(arg, NULL, error);
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

static void register_now(struct iii_peer *peer, const json_t *m, size_t bytes)
{
    const char *id = wire_name(m, "id", III_NAME_MAX);

    if (strcmp(json_text(m, "type"), "registerfunction") == 0)
        iii_registry_offer(peer->hub->registry, peer, m, bytes);
    else if (id)
        iii_registry_withdraw(peer->hub->registry, peer, id);
}

/* Keeps a message until the namespace of the connection is known. False when it is known, or when
 * there is no room. */
static bool keep(struct iii_peer *peer, const json_t *m)
{
    auto_free char *text = NULL;
    size_t bytes;

    if (!peer->unnamed)
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

/* Keeps a call of a function whose registration is kept: SDKs send their name last, and a program
 * that calls its own function at once would be told that there is none. */
static bool keep_call(struct iii_peer *peer, const json_t *m)
{
    const char *id = wire_name(m, "function_id", III_NAME_MAX);

    return id && json_object_get(peer->early_ids, id) && keep(peer, m);
}

void iii_peer_replay(struct iii_peer *peer)
{
    json_t *early = steal_ptr(peer->early), *kept;
    size_t i;

    peer->unnamed = false;
    json_decref(steal_ptr(peer->early_ids));
    iii_registry_unkeep(peer->hub->registry, peer, peer->early_bytes);
    peer->early_bytes = 0;
    json_array_foreach(early, i, kept)
    {
        const char *text = json_string_value(kept);
        size_t bytes = wire_weight(text, strlen(text));
        json_t *m = json_loads(text, 0, NULL);

        if (strcmp(json_text(m, "type"), "invokefunction") == 0)
            take_invoke(peer, m, bytes > WEIGHT_FREE ? bytes : 0);
        else
            register_now(peer, m, bytes);
        json_decref(m);
    }
    json_decref(early);
}

static void take_registration(struct iii_peer *peer, const json_t *m, size_t bytes)
{
    const char *id = wire_name(m, "id", III_NAME_MAX);

    if (keep(peer, m)) {
        if (!peer->early_ids)
            peer->early_ids = json_object();
        if (id)
            (void)json_object_set_new(peer->early_ids, id, json_null());
        return;
    }
    iii_peer_replay(peer); /* the registrations that came before it */
    register_now(peer, m, bytes);
}

/* ---- what only an engine serves ---- */

/* Tells the client that its trigger is not bound: its SDK would wait for a call that never comes.
 */
static void refuse_trigger(struct iii_peer *peer, const json_t *m)
{
    const char *id = wire_name(m, "id", III_NAME_MAX);

    iii_peer_ignore(peer, IGNORED_TRIGGERS, "registertrigger");
    if (id)
        iii_peer_send(peer, wire_trigger_refused(m, id));
}

void iii_peer_ignore(struct iii_peer *peer, enum iii_ignored kind, const char *type)
{
    static const char *const lines[] = {
        [IGNORED_TELEMETRY] = "telemetry of an iii client is thrown away",
        [IGNORED_TRIGGERS] = "an iii client uses triggers, which only a genuine iii engine has",
        [IGNORED_UNKNOWN] = "messages of an iii client have an unknown type and are ignored",
    };

    if (peer->ignored & 1u << kind)
        return;
    peer->ignored |= 1u << kind;
    if (kind == IGNORED_TELEMETRY)
        log_info(lines[kind], "worker", peer->asker.worker_id);
    else
        log_warn(lines[kind], "worker", peer->asker.worker_id, "type", type);
}

static void ignore(struct iii_peer *peer, const char *type)
{
    static const char *const triggers[] = {"registertriggertype", "unregistertriggertype",
                                           "unregistertrigger", "triggerregistrationresult"};

    for (size_t i = 0; i < ARRAY_LEN(triggers); i++)
        if (strcmp(type, triggers[i]) == 0) {
            iii_peer_ignore(peer, IGNORED_TRIGGERS, type);
            return;
        }
    if (strcmp(type, "pong") != 0)
        iii_peer_ignore(peer, IGNORED_UNKNOWN, type);
}

/* ---- all of them ---- */

static void take_reattach(struct iii_peer *peer, const json_t *m)
{
    const char *id = wire_name(m, "previous_worker_id", UUID_SIZE - 1);
    const char *token = wire_name(m, "reattach_token", UUID_SIZE - 1);
    struct iii_peer *old = id ? iii_registry_reattach(peer->hub->registry, id, token) : NULL;

    if (old && old != peer) {
        iii_registry_forget(peer->hub->registry, old); /* what it has is free for its successor */
        iii_peer_evict(old);
    }
    if (old)
        iii_asker_unref(&old->asker);
}

static void take_call(struct iii_peer *peer, json_t *m, size_t weight)
{
    if (!keep_call(peer, m))
        take_invoke(peer, m, weight);
}

static void dispatch(struct iii_peer *peer, json_t *m, size_t bytes, size_t weight)
{
    const char *type = json_text(m, "type");

    if (strcmp(type, "invokefunction") == 0)
        take_call(peer, m, weight);
    else if (strcmp(type, "invocationresult") == 0)
        iii_registry_answer(peer->hub->registry, peer, m);
    else if (strcmp(type, "registerfunction") == 0 || strcmp(type, "unregisterfunction") == 0)
        take_registration(peer, m, bytes);
    else if (strcmp(type, "registertrigger") == 0)
        refuse_trigger(peer, m);
    else if (strcmp(type, "reattach") == 0)
        take_reattach(peer, m);
    else if (strcmp(type, "ping") == 0)
        iii_peer_send(peer, xstrdup("{\"type\":\"pong\"}"));
    else
        ignore(peer, type);
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
