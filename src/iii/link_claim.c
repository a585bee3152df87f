#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "functions/function.h"
#include "iii/link_internal.h"
#include "iii/wire.h"

/* Which worker has our functions at the engine. An engine of 0.23 refuses a function that another
 * live worker has. One of 0.22 gives the function to the worker that registers last, without a
 * word, and removes it when that worker leaves. So the link asks the engine before it registers,
 * and registers again when the engine has lost our functions. */

#define LISTS_WITHOUT_US 3 /* after this many in a row the engine's list is of no use */
#define LOOKS_MAX        3 /* that an engine may leave without an answer before we register */

static const char worker_conflict[] = "WORKER_NAMESPACE_CONFLICT";
static const char function_conflict[] = "FUNCTION_NAMESPACE_CONFLICT";

/* ---- conflicts ---- */

/* Ends the connection; the link dials again after standby_ms. Logs once until it has registered. */
static void step_back(struct iii_link *l, const char *why)
{
    l->steps_back = true;
    if (l->told_conflict)
        return;
    l->told_conflict = true;
    if (l->config.standby)
        log_info("standing by until the other worker has gone", "engine", l->config.url, "why",
                 why);
    else
        log_error("cannot be the sandbox worker of the engine: stop the other worker, or set "
                  "CAY_ENGINE_NAMESPACE and CAY_ENGINE_NAME; cay keeps trying and serves its other "
                  "clients meanwhile",
                  "engine", l->config.url, "why", why);
}

/* One of our additional functions stays another worker's until the next connection. */
static void skip_extra(struct iii_link *l, const char *id, const char *why)
{
    if (json_object_get(l->taken, id))
        return;
    (void)json_object_set_new(l->taken, id, json_null());
    (void)json_object_del(l->offered, id);
    (void)json_object_del(l->look.seen, id);
    log_warn("a function is not registered: the engine has it from another worker", "engine",
             l->config.url, "function", id, "why", why);
}

static char *why_rejected(const json_t *m, const char *code, const char *function_id)
{
    const char *namespace = json_text(m, "namespace"), *owner = json_text(m, "owner_worker_id");
    bool worker = strcmp(code, worker_conflict) == 0;
    const char *name = worker || !function_id ? json_text(m, "worker_name") : function_id;
    const char *what = worker                                 ? "another worker is connected as"
                       : strcmp(code, function_conflict) == 0 ? "another worker has the function"
                                                              : "the engine refuses";

    return xasprintf("%s %.100s in the namespace %.100s%s%.64s (%.100s)", what, name,
                     *namespace ? namespace : III_NAMESPACE, *owner ? ": " : "", owner, code);
}

/* An engine of the future may have other codes for it. */
static bool is_of_worker(const struct iii_link *l, const json_t *m, const char *code)
{
    return strcmp(code, worker_conflict) == 0 ||
           strcmp(json_text(m, "worker_name"), l->config.name) == 0;
}

void link_take_rejection(struct iii_link *l, const json_t *m)
{
    const char *code = json_text(m, "code");
    const char *id = wire_name(m, "function_id", III_NAME_MAX);
    bool ours = id && json_object_get(l->offered, id);
    auto_free char *why = why_rejected(m, code, id);

    if (ours && !iii_function(id)) {
        skip_extra(l, id, why);
    } else if (ours || is_of_worker(l, m, code)) {
        /* A worker with some of iii's functions would look whole to callers. */
        step_back(l, why);
    } else if (!l->told_odd) {
        l->told_odd = true;
        log_warn("the engine refuses something unknown", "engine", l->config.url, "why", why);
    }
}

/* ---- a look at the engine's lists ---- */

static void ask_list(struct iii_link *l, const char *function_id, json_t *data, char id[UUID_SIZE])
{
    iii_uuid_new(id);
    link_send_now(l, wire_invoke(id, function_id, data, NULL, NULL, NULL));
    json_decref(data);
}

void link_look_reset(struct iii_link *l)
{
    free(l->look.other);
    json_decref(l->look.seen);
    json_decref(l->look.others);
    l->look = (struct link_look){.due_ns = INT64_MAX};
}

void link_look_begin(struct iii_link *l)
{
    unsigned without_us = l->look.without_us, unanswered = l->look.unanswered;

    link_look_reset(l);
    l->look.without_us = without_us;
    l->look.unanswered = unanswered;
    l->look.seen = json_object();
    l->look.others = json_object();
    l->look.runs = true;
    l->look.due_ns = mono_ns() + l->config.ask_ms * 1000000ll;
    ask_list(l, "engine::functions::list",
             l->config.extra ? json_object() : json_pack("{s:s}", "prefix", "sandbox::"),
             l->look.functions_id);
    ask_list(l, "engine::workers::list", json_object(), l->look.workers_id);
}

/* Engines before 0.23 name no namespace: they have one. */
static bool is_in_our_namespace(const struct iii_link *l, const json_t *listed)
{
    const char *namespace = wire_name(listed, "namespace", III_NAME_MAX);

    return !namespace ||
           strcmp(namespace, l->config.namespace ? l->config.namespace : III_NAMESPACE) == 0;
}

static void take_function(struct iii_link *l, const json_t *listed)
{
    const char *id = wire_name(listed, "function_id", III_NAME_MAX);
    const char *owner = wire_name(listed, "worker_name", III_NAME_MAX);
    auto_free char *why = NULL;

    if (wire_name(listed, "namespace", III_NAME_MAX))
        l->look.has_namespaces = true;
    if (!id || !is_in_our_namespace(l, listed))
        return;
    if (json_object_get(l->offered, id))
        (void)json_object_set_new(l->look.seen, id, json_null());
    if (!owner && l->offers) /* may be ours */
        return;
    if (owner && strcmp(owner, l->config.name) == 0) {
        l->look.of_our_name |= iii_function(id) != NULL;
        return;
    }
    why = xasprintf("the worker %.100s has the function %.100s", owner ? owner : "?", id);
    if (iii_function(id) && !l->look.other)
        l->look.other = steal_ptr(why);
    else if (l->config.extra && link_may_offer(id)) {
        (void)json_object_set_new(l->look.others, id, json_null());
        skip_extra(l, id, why);
    }
}

/* Another connection of our name; not a remainder of our own last one. */
static bool is_twin(const struct iii_link *l, const json_t *listed)
{
    const char *id = json_text(listed, "id");
    const json_t *functions = json_object_get(listed, "function_count");

    return l->identified && strcmp(json_text(listed, "name"), l->config.name) == 0 &&
           is_in_our_namespace(l, listed) && strcmp(id, l->worker_id) != 0 &&
           strcmp(id, l->previous_id) != 0 &&
           !(json_is_integer(functions) && json_integer_value(functions) == 0);
}

static void take_functions(struct iii_link *l, const json_t *m)
{
    const json_t *list = json_object_get(json_object_get(m, "result"), "functions");
    const json_t *listed;
    size_t i;

    l->look.functions_id[0] = '\0';
    l->look.is_known = json_is_array(list);
    l->look.is_unknown = !l->look.is_known;
    json_array_foreach(list, i, listed) take_function(l, listed);
}

static void take_workers(struct iii_link *l, const json_t *m)
{
    const json_t *list = json_object_get(json_object_get(m, "result"), "workers");
    const json_t *listed;
    size_t i;

    l->look.workers_id[0] = '\0';
    json_array_foreach(list, i, listed)
    {
        l->look.twin |= is_twin(l, listed);
        l->look.self |= strcmp(json_text(listed, "id"), l->hub->worker_id) == 0;
    }
}

bool link_look_take(struct iii_link *l, const json_t *m)
{
    const char *id = wire_name(m, "invocation_id", UUID_SIZE - 1);

    if (!id || !l->look.runs)
        return false;
    if (strcmp(id, l->look.functions_id) == 0)
        take_functions(l, m);
    else if (strcmp(id, l->look.workers_id) == 0)
        take_workers(l, m);
    else
        return false;
    return true;
}

/* ---- what follows from it ---- */

/* An engine that has namespaces refuses a second owner, and one without the list cannot be asked:
 * neither is watched. */
static void watch_on(struct iii_link *l)
{
    if (!l->look.is_unknown && !l->look.has_namespaces && l->look.without_us <= LISTS_WITHOUT_US)
        l->look.due_ns = mono_ns() + l->config.standby_ms * 1000000ll;
}

/* A daemon is not the worker of itself. III_ENGINE_URL, when it is set for all programs of the
 * machine, leads here. */
static void leave_self(struct iii_link *l)
{
    l->steps_back = l->is_self = true;
    if (!l->told_conflict)
        log_warn("the engine is this daemon itself, which serves its clients without a link: unset "
                 "CAY_ENGINE or III_ENGINE_URL",
                 "engine", l->config.url);
    l->told_conflict = true;
}

/* True when the engine has not said enough and is asked again. One that never answers does not keep
 * us from registering. */
static bool looks_again(struct iii_link *l)
{
    bool enough = l->look.is_unknown ||
                  (l->look.is_known && (!l->look.of_our_name || !l->look.workers_id[0]));

    if (enough || ++l->look.unanswered >= LOOKS_MAX)
        return false;
    link_look_begin(l);
    return true;
}

/* Before the functions of this connection are registered. */
static void judge_first(struct iii_link *l)
{
    if (l->look.self && (l->look.other || l->look.of_our_name))
        leave_self(l);
    else if (l->look.other)
        step_back(l, l->look.other);
    else if (l->look.of_our_name && l->look.twin)
        step_back(l, "another worker of our name has our functions");
    else
        link_offer(l);
}

static void tell_replaced(struct iii_link *l)
{
    if (l->told_replaced || (!l->look.other && !l->look.twin))
        return;
    l->told_replaced = true;
    log_warn("another worker has registered our functions at the engine, which may call that "
             "worker; cay registers again when it has gone",
             "engine", l->config.url, "why",
             l->look.other ? l->look.other : "it has the name of this worker");
}

/* Forgets that other workers have additional functions which the engine lists no more. */
static bool regain_extras(struct iii_link *l)
{
    bool regained = false;
    const char *id;
    json_t *value;
    void *next;

    json_object_foreach_safe(l->taken, next, id, value)
    {
        if (json_object_get(l->look.others, id))
            continue;
        (void)json_object_del(l->taken, id);
        regained = true;
    }
    return regained;
}

static void judge_later(struct iii_link *l)
{
    tell_replaced(l);
    if (!l->look.is_known || l->look.has_namespaces)
        return;
    if (regain_extras(l)) {
        link_offer(l);
        return;
    }
    if (json_object_size(l->look.seen) >= json_object_size(l->offered)) {
        l->look.without_us = 0;
    } else if (!l->look.other && l->look.without_us++ < LISTS_WITHOUT_US) {
        log_info("the engine has lost our functions; registering again", "engine", l->config.url);
        l->told_replaced = false;
        link_offer(l);
    }
}

void link_look_step(struct iii_link *l)
{
    bool due = mono_ns() >= l->look.due_ns;
    bool answered = !l->look.functions_id[0] && !l->look.workers_id[0];

    if (!l->look.runs && due)
        link_look_begin(l);
    else if (l->look.runs && (due || answered)) {
        l->look.runs = false;
        l->look.due_ns = INT64_MAX;
        if (!l->offers && looks_again(l))
            return;
        if (l->offers)
            judge_later(l);
        else
            judge_first(l);
        watch_on(l);
    }
}
