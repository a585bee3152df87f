#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "iii/rbac.h"
#include "iii/registry.h"
#include "iii/wire.h"

/* What a session registers: first its rules are asked, then the listener's hook, which may change
 * it, then it goes to the registry. */

/* ---- refusals ---- */

static void refuse_function(struct iii_peer *peer, const json_t *m, const char *why)
{
    log_warn("a function is not registered", "id", json_text(m, "id"), "because", why);
    iii_registry_reject(peer, json_text(m, "id"), "");
}

static void refuse_type(struct iii_peer *peer, const json_t *m, const char *why)
{
    (void)peer;
    log_warn("a type of triggers is not registered", "id", json_text(m, "id"), "because", why);
}

static void refuse_trigger(struct iii_peer *peer, const json_t *m, const char *why)
{
    iii_registry_refuse(peer, m, "FORBIDDEN", why);
}

/* ---- rules ---- */

static const char *check_function(const struct iii_session *s, const json_t *m)
{
    (void)m;
    return s->registers_functions ? NULL : "this session may not register functions";
}

static const char *check_type(const struct iii_session *s, const json_t *m)
{
    (void)m;
    return s->registers_types ? NULL : "this session may not register types of triggers";
}

static const char *check_trigger(const struct iii_session *s, const json_t *m)
{
    return iii_session_lets_type(s, json_text(m, "trigger_type"))
               ? NULL
               : "this session may not bind triggers of that type";
}

/* ---- hooks ---- */

static json_t *ask_function(const json_t *m)
{
    return json_pack("{s:O*, s:O*, s:O*}", "function_id", json_object_get(m, "id"), "description",
                     wire_value(m, "description"), "metadata", wire_value(m, "metadata"));
}

static json_t *ask_type(const json_t *m)
{
    return json_pack("{s:O*, s:O*}", "trigger_type_id", json_object_get(m, "id"), "description",
                     wire_value(m, "description"));
}

static json_t *ask_trigger(const json_t *m)
{
    return json_pack("{s:O*, s:O*, s:O*, s:O*, s:O*}", "trigger_id", json_object_get(m, "id"),
                     "trigger_type", json_object_get(m, "trigger_type"), "function_id",
                     json_object_get(m, "function_id"), "config", wire_value(m, "config"),
                     "metadata", wire_value(m, "metadata"));
}

static const char *hook_function(const struct iii_guard *g)
{
    return g->on_function;
}

static const char *hook_type(const struct iii_guard *g)
{
    return g->on_type;
}

static const char *hook_trigger(const struct iii_guard *g)
{
    return g->on_trigger;
}

/* ---- the registry ---- */

static size_t bytes_of(const json_t *m)
{
    auto_free char *text = wire_text(m);

    return wire_weight(text, strlen(text));
}

/* given: as the client calls it, whatever became of that. */
static void put_function(struct iii_peer *peer, json_t *m, const char *given)
{
    const char *prefix = peer->asker.session->prefix;

    if (prefix) {
        auto_free char *full = xasprintf("%s::%s", prefix, json_text(m, "id"));

        (void)json_object_set_new(m, "id", json_string(full)); /* which may be too long now */
    }
    iii_registry_offer(peer->hub->registry, peer, m, given, bytes_of(m));
}

/* The type that it calls so, if a hook has given that another id, goes. */
static bool drop_type(struct iii_peer *peer, const json_t *m, const char *given)
{
    json_t *id = json_incref(json_object_get(peer->types_given, given)), *gone;

    if (!id)
        return false;
    gone = json_copy((json_t *)(uintptr_t)m);
    (void)json_object_set_new(gone, "id", id);
    (void)json_object_del(peer->types_given, given);
    iii_registry_withdraw_type(peer->hub->registry, peer, gone);
    json_decref(gone);
    return true;
}

static void put_type(struct iii_peer *peer, json_t *m, const char *given)
{
    (void)drop_type(peer, m, given);
    if (strcmp(json_text(m, "id"), given) != 0) {
        if (!peer->types_given)
            peer->types_given = json_object();
        if (json_object_size(peer->types_given) >= III_TRIGGERS_MAX) {
            refuse_type(peer, m, "there are too many of that connection");
            return;
        }
        (void)json_object_set(peer->types_given, given, json_object_get(m, "id"));
    }
    iii_registry_offer_type(peer->hub->registry, peer, m, bytes_of(m));
}

bool iii_session_withdraws_type(struct iii_peer *peer, const json_t *m)
{
    const char *id = wire_name(m, "id", III_NAME_MAX);

    return id && drop_type(peer, m, id);
}

/* The function is one of its own, by the name that it has for it, or one that it may call: who
 * provides the type calls it in his own name. */
static int find_target(struct iii_peer *peer, json_t *m, struct err *err)
{
    struct iii_hub *hub = peer->hub;
    const char *namespace = wire_name(m, "namespace", III_NAME_MAX);
    const char *id = json_text(m, "function_id");
    auto_free char *own = NULL;

    if (!namespace)
    namespace = peer->asker.namespace;
    own = iii_registry_own_id(hub->registry, peer, namespace, id);
    if (own)
        (void)json_object_set_new(m, "function_id", json_string(own));
    else if (!iii_session_lets_call(hub, peer->asker.session, namespace, id))
        return err_set(err, ERR_FORBIDDEN, "function '%.200s' not allowed", id);
    return 0;
}

static void put_trigger(struct iii_peer *peer, json_t *m, const char *given)
{
    struct err err = {0};

    (void)given;
    if (find_target(peer, m, &err) < 0)
        refuse_trigger(peer, m, err.text);
    else
        iii_registry_bind_told(peer->hub->registry, peer, m, bytes_of(m));
}

int iii_session_binds(struct iii_peer *peer, json_t *m, struct err *err)
{
    const char *why = check_trigger(peer->asker.session, m);

    if (why)
        return err_set(err, ERR_FORBIDDEN, "%s", why);
    if (find_target(peer, m, err) < 0)
        return -1;
    return iii_registry_bind(peer->hub->registry, peer, &peer->asker, m, bytes_of(m), NULL, err);
}

/* ---- all of them ---- */

static const struct kind {
    const char *type;
    const char *keys[5]; /* of the message, in the order of the next */
    const char *told[5]; /* as hooks call them */
    const char *(*check)(const struct iii_session *s, const json_t *m);
    const char *(*hook)(const struct iii_guard *g);
    json_t *(*ask)(const json_t *m);
    void (*put)(struct iii_peer *peer, json_t *m, const char *given);
    void (*refuse)(struct iii_peer *peer, const json_t *m, const char *why);
} kinds[] = {
    {"registerfunction",
     {"id", "description", "metadata"},
     {"function_id", "description", "metadata"},
     check_function,
     hook_function,
     ask_function,
     put_function,
     refuse_function},
    {"registertriggertype",
     {"id", "description"},
     {"trigger_type_id", "description"},
     check_type,
     hook_type,
     ask_type,
     put_type,
     refuse_type},
    {"registertrigger",
     {"trigger_type", "function_id", "config", "metadata"}, /* its id is the client's alone */
     {"trigger_type", "function_id", "config", "metadata"},
     check_trigger,
     hook_trigger,
     ask_trigger,
     put_trigger,
     refuse_trigger},
};

static const struct kind *kind_of(const char *type)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i].type, type) == 0)
            return &kinds[i];
    return NULL;
}

bool iii_session_registers(struct iii_peer *peer, const char *type, json_t *m)
{
    const struct iii_session *s = peer->asker.session;
    const struct kind *k = kind_of(type);
    const char *id = wire_name(m, "id", III_NAME_MAX), *why;

    if (!k)
        return false;
    if (!id)
        return true;
    why = k->check(s, m);
    if (why) {
        k->refuse(peer, m, why);
    } else if (k->hook(s->guard)) {
        json_t *input = k->ask(m);

        (void)json_object_set_new(input, "context", iii_session_context(s));
        peer->inquiry.message = json_incref(m);
        peer->inquiry.given = xstrdup(id);
        iii_inquire(peer, k->hook(s->guard), input);
    } else {
        auto_free char *given = xstrdup(id); /* m may change */

        k->put(peer, m, given);
    }
    return true;
}

/* What the hook says nothing of stays as it was. */
static void change(const struct kind *k, json_t *m, const json_t *result)
{
    for (size_t i = 0; i < ARRAY_LEN(k->keys) && k->keys[i]; i++) {
        json_t *value = wire_value(result, k->told[i]);

        if (value)
            (void)json_object_set(m, k->keys[i], value);
    }
}

bool iii_session_registered(struct iii_peer *peer)
{
    auto_free char *why = NULL, *given = NULL;
    json_t *result = NULL, *m;
    const struct kind *k;

    if (!iii_inquiry_take(peer, &result, &why))
        return false;
    m = steal_ptr(peer->inquiry.message);
    given = steal_ptr(peer->inquiry.given);
    k = kind_of(json_text(m, "type"));
    if (json_is_object(result)) {
        change(k, m, result);
        k->put(peer, m, given);
    } else {
        k->refuse(peer, m, why ? why : "the hook refuses it");
    }
    json_decref(result);
    json_decref(m);
    return true;
}
