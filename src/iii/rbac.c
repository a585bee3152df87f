#include "iii/rbac.h"

#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "iii/registry.h"
#include "iii/wire.h"

#define RULES_BYTES (64u << 10) /* of what an auth function may say of one client */

/* ---- what the auth function has said ---- */

static int read_list(const json_t *rules, const char *key, char ***ret, struct err *err)
{
    const json_t *list = wire_value(rules, key), *one;
    size_t i;

    if (!list)
        return 0;
    *ret = xcalloc(1, sizeof(**ret)); /* none at all is not the same as any */
    json_array_foreach(list, i, one)
    {
        if (!json_is_string(one))
            break;
        *ret = strv_add(*ret, json_string_value(one));
    }
    if (!json_is_array(list) || i < json_array_size(list))
        return err_set(err, ERR_INVALID, "%s must be a list of texts", key);
    return 0;
}

static int read_bool(const json_t *rules, const char *key, bool preset, bool *ret, struct err *err)
{
    const json_t *value = wire_value(rules, key);

    if (value && !json_is_boolean(value))
        return err_set(err, ERR_INVALID, "%s must be true or false", key);
    *ret = value ? json_is_true(value) : preset;
    return 0;
}

static int read_grants(struct iii_session *s, const json_t *rules, struct err *err)
{
    json_t *all = wire_value(rules, "namespaces"), *list, *one;
    const char *namespace;
    size_t i;

    if (all && !json_is_object(all))
        return err_set(err, ERR_INVALID, "namespaces must hold lists of patterns");
    json_object_foreach(all, namespace, list)
    {
        if (!json_is_array(list))
            return err_set(err, ERR_INVALID, "namespaces must hold lists of patterns");
        json_array_foreach(list, i, one)
        {
            if (!json_is_string(one))
                return err_set(err, ERR_INVALID, "namespaces must hold lists of patterns");
            s->grants = xrealloc(s->grants, (s->n_grants + 1) * sizeof(*s->grants));
            s->grants[s->n_grants++] = (struct iii_grant){
                .namespace = xstrdup(namespace), .pattern = xstrdup(json_string_value(one))};
        }
    }
    return 0;
}

static int read_prefix(struct iii_session *s, const json_t *rules, struct err *err)
{
    const json_t *value = wire_value(rules, "function_registration_prefix");

    if (value && (!json_is_string(value) || json_string_length(value) > III_NAME_MAX))
        return err_set(err, ERR_INVALID, "function_registration_prefix must be a text");
    if (json_string_length(value) > 0)
        s->prefix = xstrdup(json_string_value(value));
    return 0;
}

static int read_context(struct iii_session *s, const json_t *rules, struct err *err)
{
    const json_t *context = wire_value(rules, "context");

    if (context && !json_is_object(context))
        return err_set(err, ERR_INVALID, "context must be an object");
    s->context = context ? wire_text(context) : xstrdup("{}");
    return 0;
}

static int read_all(struct iii_session *s, const json_t *rules, struct err *err)
{
    if (!json_is_object(rules))
        return err_set(err, ERR_INVALID, "it gave no rules");
    if (json_dumpb(rules, NULL, 0, JSON_COMPACT) > RULES_BYTES)
        return err_set(err, ERR_INVALID, "it gave more than %u KiB of rules", RULES_BYTES >> 10);
    if (read_list(rules, "forbidden_functions", &s->forbidden, err) < 0 ||
        read_list(rules, "allowed_functions", &s->allowed, err) < 0 ||
        read_list(rules, "allowed_trigger_types", &s->types, err) < 0 ||
        read_bool(rules, "allow_function_registration", true, &s->registers_functions, err) < 0 ||
        read_bool(rules, "allow_trigger_type_registration", false, &s->registers_types, err) < 0 ||
        read_grants(s, rules, err) < 0 || read_prefix(s, rules, err) < 0)
        return -1;
    return read_context(s, rules, err);
}

struct iii_session *iii_session_new(const struct iii_guard *guard, const json_t *rules,
                                    struct err *err)
{
    struct iii_session *s = xcalloc(1, sizeof(*s));

    atomic_init(&s->refs, 1);
    s->guard = guard;
    if (!guard->auth) {
        s->registers_functions = true;
        s->context = xstrdup("{}");
        return s;
    }
    if (read_all(s, rules, err) == 0)
        return s;
    iii_session_unref(s);
    return NULL;
}

struct iii_session *iii_session_ref(struct iii_session *s)
{
    if (s)
        atomic_fetch_add(&s->refs, 1);
    return s;
}

void iii_session_unref(struct iii_session *s)
{
    if (!s || atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    strv_free(s->forbidden);
    strv_free(s->allowed);
    strv_free(s->types);
    for (size_t i = 0; i < s->n_grants; i++) {
        free(s->grants[i].namespace);
        free(s->grants[i].pattern);
    }
    free(s->grants);
    free(s->prefix);
    free(s->context);
    free(s);
}

json_t *iii_session_context(const struct iii_session *s)
{
    return json_loads(s->context, 0, NULL);
}

/* ---- what they mean ---- */

/* What a client needs to be one at all. They are about its own connection, so nobody else can be
 * asked for them in its place. */
static bool is_infrastructure(const char *id)
{
    static const char *const ids[] = {"engine::channels::create", "engine::workers::register",
                                      "engine::log::trace",       "engine::log::debug",
                                      "engine::log::info",        "engine::log::warn",
                                      "engine::log::error",       "engine::baggage::get",
                                      "engine::baggage::set",     "engine::baggage::get_all"};

    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        if (strcmp(ids[i], id) == 0)
            return true;
    return false;
}

static bool has_pattern(char *const *list, const char *id)
{
    for (; list && *list; list++)
        if (iii_pattern_matches(*list, id))
            return true;
    return false;
}

static bool has_word(char *const *list, const char *word)
{
    for (; list && *list; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

static bool has_grant(const struct iii_session *s, const char *namespace, const char *id)
{
    for (size_t i = 0; i < s->n_grants; i++)
        if (strcmp(s->grants[i].namespace, namespace) == 0 &&
            iii_pattern_matches(s->grants[i].pattern, id))
            return true;
    return false;
}

/* The hub answers for its own in every namespace, so they are in one. */
static const char *namespace_of(const char *namespace, const char *id)
{
    return !namespace || iii_engine_has(id) ? III_NAMESPACE : namespace;
}

bool iii_session_lets(const struct iii_session *s, const char *namespace, const char *id,
                      const json_t *metadata)
{
    const char *in = namespace_of(namespace, id);

    if (has_pattern(s->forbidden, id))
        return false;
    if (has_grant(s, in, id) || (strcmp(in, III_NAMESPACE) == 0 && has_word(s->allowed, id)) ||
        is_infrastructure(id))
        return true;
    return iii_guard_exposes(s->guard, in, id, metadata);
}

bool iii_session_lets_call(struct iii_hub *hub, const struct iii_session *s, const char *namespace,
                           const char *id)
{
    json_t *metadata = NULL;
    bool lets;

    if (s->guard->by_metadata)
        metadata = iii_registry_metadata(hub->registry, namespace_of(namespace, id), id);
    lets = iii_session_lets(s, namespace, id, metadata);
    json_decref(metadata);
    return lets;
}

bool iii_session_sees(struct iii_hub *hub, const struct iii_session *s, const char *namespace,
                      const char *id)
{
    return iii_session_lets_call(hub, s, namespace, id) ||
           iii_registry_is_own(hub->registry, s, namespace, id);
}

/* Types that tell of others' doings, and a call by which one has to do with the same: topics are
 * there for all kinds that are bound to them. A middleware may let only some of that through, and
 * does not see what triggers tell. */
static bool lets_learn(const struct iii_session *s, const char *type)
{
    static const struct {
        const char *type, *ids[2];
    } told[] = {{"sandbox", {"sandbox::list"}},
                {"subscribe", {"publish", "iii::durable::publish"}},
                {"queue", {"publish", "iii::durable::publish"}},
                {"durable:subscriber", {"publish", "iii::durable::publish"}}};
    bool passes = !s->guard->middleware;

    if (str_starts(type, "engine::"))
        return passes && s->guard->all;
    for (size_t i = 0; i < ARRAY_LEN(told); i++)
        if (strcmp(told[i].type, type) == 0)
            return passes && (iii_session_lets(s, NULL, told[i].ids[0], NULL) ||
                              (told[i].ids[1] && iii_session_lets(s, NULL, told[i].ids[1], NULL)));
    return true;
}

bool iii_session_lets_type(const struct iii_session *s, const char *type)
{
    return s->types ? has_word(s->types, type) : lets_learn(s, type);
}

json_t *iii_session_why_not(struct iii_hub *hub, const struct iii_session *s, const char *namespace,
                            const char *id)
{
    if (iii_session_lets_call(hub, s, namespace, id))
        return NULL;
    return iii_error("FORBIDDEN", "function '%s' not allowed", id);
}

/* ---- calls ---- */

/* In the name of who calls, as a call that it waits for, but past its rules: they have been asked.
 */
static void ask_middleware(struct iii_hub *hub, const struct iii_question *q, iii_answered answered,
                           void *arg)
{
    const struct iii_session *s = q->asker->session;
    struct iii_question m = *q;

    m.peer = NULL;
    m.namespace = NULL;
    m.function_id = s->guard->middleware;
    m.trusted = true;
    m.data = json_pack("{s:s, s:O?, s:O*, s:o, s:s}", "function_id", q->function_id, "payload",
                       q->data, "action", q->action, "context", iii_session_context(s), "namespace",
                       q->namespace ? q->namespace : III_NAMESPACE);
    iii_ask(hub, &m, answered, arg);
    json_decref(m.data);
}

bool iii_session_takes(struct iii_hub *hub, const struct iii_question *q, iii_answered answered,
                       void *arg)
{
    const struct iii_session *s = q->asker->session;
    bool fired = !q->asker->worker_id[0]; /* by a trigger, whose function may be its own */
    json_t *error = NULL;

    if (fired && iii_registry_ask_own(hub->registry, q, answered, arg))
        return true;
    error = iii_session_why_not(hub, s, q->namespace, q->function_id);
    if (error)
        answered(arg, NULL, error);
    else if (s->guard->middleware && !is_infrastructure(q->function_id))
        ask_middleware(hub, q, answered, arg);
    else
        return false;
    json_decref(error);
    return true;
}
