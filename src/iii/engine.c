#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/function.h"
#include "functions/reach.h"
#include "functions/schema.h"
#include "iii/iii_internal.h"
#include "iii/registry.h"
#include "iii/wire.h"

/* Functions that an engine offers itself: introspection and channels. Each returns its result, or
 * NULL with a->error. They are quick, so they run on the thread that asks; those that list all
 * functions or workers wait for their turn (later.c). */

#define INFO_MAX      32 /* functions asked for at once */
#define CHANNEL_ITEMS 64
#define CHANNEL_MOST  1024
#define WORKER_NAME   "iii-sandbox"

struct engine_call {
    struct iii_hub *hub;
    const struct iii_question *q;
    json_t *error;
};

static const char *text_of(const struct engine_call *a, const char *key)
{
    const char *text = json_string_value(json_object_get(a->q->data, key));

    return text && *text ? text : NULL;
}

static json_t *refuse(struct engine_call *a, const char *code, const char *text)
{
    a->error = iii_error(code, "%s", text);
    return NULL;
}

/* ---- functions ---- */

static json_t *row_json(const struct function *f, bool whole)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:s}", "function_id", f->id, "namespace", III_NAMESPACE,
                          "worker_name", WORKER_NAME, "description", f->help ? f->help : "");

    if (whole) {
        json_t *gives = function_gives(f);

        (void)json_object_set_new(o, "request_schema", function_takes(f));
        if (gives)
            (void)json_object_set_new(o, "response_schema", gives);
    }
    return o;
}

struct rows {
    json_t *list;
    bool table; /* those of the table: some of ours have the same ids */
};

static int add_row(const struct function *f, void *arg)
{
    struct rows *rows = arg;

    if (!rows->table || !iii_function(f->id))
        (void)json_array_append_new(rows->list, row_json(f, false));
    return 0;
}

static json_t *all_functions(struct iii_hub *hub)
{
    json_t *list = iii_registry_functions(hub->registry, false);
    struct rows rows = {.list = list};

    (void)iii_functions_each(add_row, &rows);
    rows.table = true;
    (void)functions_each(add_row, &rows);
    return list;
}

static bool has_text(const json_t *o, const char *needle)
{
    return strcasestr(json_text(o, "function_id"), needle) ||
           strcasestr(json_text(o, "description"), needle) ||
           strcasestr(json_text(o, "name"), needle);
}

static bool is_named(const json_t *names, const char *name)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *one = json_string_value(json_array_get(names, i));

        if (one && strcmp(one, name) == 0)
            return true;
    }
    return false;
}

static bool is_listed(const struct engine_call *a, const json_t *f)
{
    const json_t *workers = json_object_get(a->q->data, "workers");
    const char *search = text_of(a, "search"), *prefix = text_of(a, "prefix");
    const char *worker = text_of(a, "worker"), *name = json_text(f, "worker_name");
    bool internal = json_is_true(json_object_get(json_object_get(f, "metadata"), "internal"));

    if (internal && !json_is_true(json_object_get(a->q->data, "include_internal")))
        return false;
    if ((search && !has_text(f, search)) ||
        (prefix && !str_starts(json_text(f, "function_id"), prefix)))
        return false;
    return (!worker || strcmp(worker, name) == 0) &&
           (json_array_size(workers) == 0 || is_named(workers, name));
}

static json_t *functions_list(struct engine_call *a)
{
    json_t *all = all_functions(a->hub), *list = json_array(), *f;
    size_t i;

    json_array_foreach(all, i, f) if (is_listed(a, f))(void) json_array_append(list, f);
    json_decref(all);
    return json_pack("{s:o}", "functions", list);
}

/* NULL when there is none. */
static json_t *detail(struct iii_hub *hub, const char *namespace, const char *id)
{
    const struct function *f = NULL;
    json_t *o;

    if (strcmp(namespace, III_NAMESPACE) == 0)
        f = iii_function(id) ? iii_function(id) : function_find(id);
    o = f ? row_json(f, true) : iii_registry_function(hub->registry, namespace, id);
    if (o)
        (void)json_object_set_new(o, "registered_triggers", json_array());
    return o;
}

static json_t *details(struct engine_call *a, const char *namespace, const json_t *ids)
{
    json_t *list = json_array();

    for (size_t i = 0; i < json_array_size(ids); i++) {
        const char *id = json_string_value(json_array_get(ids, i));
        json_t *o = id ? detail(a->hub, namespace, id) : NULL;

        (void)json_array_append_new(
            list,
            o ? o : json_pack("{s:s, s:s}", "function_id", id ? id : "", "error", "not_found"));
    }
    return json_pack("{s:o}", "functions", list);
}

static json_t *functions_info(struct engine_call *a)
{
    const char *id = text_of(a, "function_id"), *namespace = text_of(a, "namespace");
    const json_t *ids = json_object_get(a->q->data, "function_ids");
    json_t *o;

    if (!namespace)
    namespace = III_NAMESPACE;
    if (!id == !ids || (ids && (!json_is_array(ids) || json_array_size(ids) > INFO_MAX)))
        return refuse(a, "INVALID_ARGUMENTS",
                      "one of function_id and function_ids (at most 32) is required");
    if (ids)
        return details(a, namespace, ids);
    o = detail(a->hub, namespace, id);
    if (!o)
        a->error = iii_error("NOT_FOUND", "Function %s not found", id);
    return o;
}

/* ---- workers ---- */

static int count(const struct function *f, void *arg)
{
    struct rows *rows = arg;

    if (!rows->table || !iii_function(f->id))
        (void)json_array_append_new(rows->list, json_null());
    return 0;
}

static json_t *ourselves(struct iii_hub *hub, bool whole)
{
    struct rows rows = {.list = json_array()};
    json_t *o;

    (void)iii_functions_each(count, &rows);
    rows.table = true;
    (void)functions_each(count, &rows);
    o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:n}", "name",
                  WORKER_NAME, "description", "Sandboxes of this daemon", "version", CAY_VERSION,
                  "id", hub->worker_id, "namespace", III_NAMESPACE, "runtime", "cay", "os", "linux",
                  "status", "connected", "function_count", (json_int_t)json_array_size(rows.list),
                  "connected_at_ms", (json_int_t)hub->started_ms, "active_invocations",
                  (json_int_t)iii_rows_count(hub), "isolation", hub->config.about->runtime,
                  "ip_address");
    if (whole)
        (void)json_object_update_new(
            o, json_pack("{s:I, s:b}", "pid", (json_int_t)getpid(), "internal", 1));
    json_decref(rows.list);
    return o;
}

static json_t *all_workers(struct iii_hub *hub, bool whole)
{
    json_t *list = iii_registry_workers(hub->registry, whole);

    (void)json_array_insert_new(list, 0, ourselves(hub, whole));
    return list;
}

static json_t *workers_list(struct engine_call *a)
{
    const char *search = text_of(a, "search"), *runtime = text_of(a, "runtime");
    const char *status = text_of(a, "status");
    json_t *all = all_workers(a->hub, false), *list = json_array(), *w;
    size_t i;

    json_array_foreach(all, i, w) if ((!search || has_text(w, search)) &&
                                      (!runtime || strcmp(runtime, json_text(w, "runtime")) == 0) &&
                                      (!status || strcmp(status, json_text(w, "status")) == 0))(
        void) json_array_append(list, w);
    json_decref(all);
    return json_pack("{s:o}", "workers", list);
}

/* Of a list those whose member has that value; takes the list. */
static json_t *only(json_t *all, const char *key, const char *value)
{
    json_t *list = json_array(), *o;
    size_t i;

    json_array_foreach(all, i, o) if (strcmp(json_text(o, key), value) == 0)(void)
        json_array_append(list, o);
    json_decref(all);
    return list;
}

static json_t *workers_info(struct engine_call *a)
{
    const char *name = text_of(a, "name"), *namespace = text_of(a, "namespace");
    json_t *named = only(all_workers(a->hub, true), "name", name ? name : ""), *w;

    named = only(named, "namespace", namespace ? namespace : III_NAMESPACE);
    w = json_incref(json_array_get(named, 0));
    json_decref(named);
    if (!w) {
        a->error = iii_error("NOT_FOUND", "Worker %s not found", name ? name : "");
        return NULL;
    }
    return json_pack("{s:o, s:o, s:[], s:[]}", "worker", w, "functions",
                     only(all_functions(a->hub), "worker_name", name), "trigger_types",
                     "registered_triggers");
}

static json_t *workers_register(struct engine_call *a)
{
    struct iii_peer *peer = a->q->peer;

    if (!peer)
        return refuse(a, "INVALID_ARGUMENTS", "only a connection can say what it is");
    if (iii_registry_describe(a->hub->registry, peer, a->q->data) < 0) {
        peer->refused = true;
        return refuse(a, "WORKER_NAMESPACE_CONFLICT", "another worker has that name");
    }
    if (peer->unnamed)
        iii_peer_replay(peer);
    return json_pack("{s:b}", "success", 1);
}

/* ---- triggers: there are none ---- */

static json_t *triggers_list(struct engine_call *a)
{
    (void)a;
    return json_pack("{s:[]}", "triggers");
}

static json_t *registered_list(struct engine_call *a)
{
    (void)a;
    return json_pack("{s:[]}", "registered_triggers");
}

static json_t *no_trigger(struct engine_call *a)
{
    return refuse(a, "NOT_FOUND", III_NO_TRIGGERS);
}

static json_t *register_trigger(struct engine_call *a)
{
    return refuse(a, "trigger_registration_failed", III_NO_TRIGGERS);
}

static json_t *unregister_trigger(struct engine_call *a)
{
    (void)a;
    return json_pack("{s:b}", "removed", 0);
}

/* ---- channels ---- */

static json_t *channels_create(struct engine_call *a)
{
    const json_t *size = json_object_get(a->q->data, "buffer_size");
    json_int_t items = json_is_integer(size) ? json_integer_value(size) : CHANNEL_ITEMS;
    struct err err = {0};
    json_t *o;

    items = items < 1 ? 1 : items > CHANNEL_MOST ? CHANNEL_MOST : items;
    o = iii_channel_new(a->hub->channels, (unsigned)items, a->q->asker, &err);
    return o ? o : refuse(a, "invocation_error", err.text);
}

/* Words for the log, which older clients send as calls; ours has what happens here. */
static json_t *nothing(struct engine_call *a)
{
    (void)a;
    return json_null();
}

/* ---- all of them ---- */

static const struct {
    const char *id;
    json_t *(*run)(struct engine_call *a);
    enum scope scope; /* asked for here, and nowhere else */
    bool later;       /* it looks at all that there is */
} functions[] = {
    {"engine::functions::list", functions_list, SCOPE_READ, true},
    {"engine::functions::info", functions_info, SCOPE_READ, true},
    {"engine::workers::list", workers_list, SCOPE_READ, true},
    {"engine::workers::info", workers_info, SCOPE_READ, true},
    {"engine::workers::register", workers_register, SCOPE_NONE, false},
    {"engine::triggers::list", triggers_list, SCOPE_READ, false},
    {"engine::triggers::info", no_trigger, SCOPE_READ, false},
    {"engine::registered-triggers::list", registered_list, SCOPE_READ, false},
    {"engine::registered-triggers::info", no_trigger, SCOPE_READ, false},
    {"engine::register_trigger", register_trigger, SCOPE_WRITE, false},
    {"engine::unregister_trigger", unregister_trigger, SCOPE_WRITE, false},
    {"engine::channels::create", channels_create, SCOPE_NONE, false},
    {"engine::log::trace", nothing, SCOPE_NONE, false},
    {"engine::log::debug", nothing, SCOPE_NONE, false},
    {"engine::log::info", nothing, SCOPE_NONE, false},
    {"engine::log::warn", nothing, SCOPE_NONE, false},
    {"engine::log::error", nothing, SCOPE_NONE, false},
};

/* A token for some sandboxes only may say what it is and make channels; the rest tells of others.
 */
static bool may(const struct iii_question *q)
{
    static const char *const harmless[] = {"engine::workers::register", "engine::channels::create"};

    if (!caller_is_restricted(&q->asker->caller) || str_starts(q->function_id, "engine::log::"))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(harmless); i++)
        if (strcmp(harmless[i], q->function_id) == 0)
            return true;
    return false;
}

static void answer(struct iii_hub *hub, const struct iii_question *q, size_t i,
                   iii_answered answered, void *arg)
{
    struct engine_call a = {.hub = hub, .q = q};
    json_t *result = functions[i].run(&a);

    answered(arg, result, a.error);
    json_decref(result);
    json_decref(a.error);
}

static size_t find(const char *id)
{
    size_t i = 0;

    while (i < ARRAY_LEN(functions) && strcmp(functions[i].id, id) != 0)
        i++;
    return i;
}

bool iii_engine_has(const char *id)
{
    return find(id) < ARRAY_LEN(functions) || str_starts(id, "engine::");
}

void iii_engine_answer(struct iii_hub *hub, const struct iii_question *q, iii_answered answered,
                       void *arg)
{
    answer(hub, q, find(q->function_id), answered, arg);
}

bool iii_engine_ask(struct iii_hub *hub, const struct iii_question *q, iii_answered answered,
                    void *arg)
{
    size_t i = find(q->function_id);
    json_t *error = NULL;

    if (i == ARRAY_LEN(functions))
        return false;
    if (!may(q))
        error = iii_error("FORBIDDEN", "this token is for some sandboxes only");
    else if (functions[i].scope != SCOPE_NONE &&
             !(q->asker->caller.scopes & 1u << functions[i].scope))
        error = iii_error("FORBIDDEN", "this token lacks a scope that %s needs", q->function_id);
    if (error) {
        answered(arg, NULL, error);
        json_decref(error);
    } else if (functions[i].later) {
        iii_line_ask(hub->line, q, answered, arg);
    } else {
        answer(hub, q, i, answered, arg);
    }
    return true;
}
