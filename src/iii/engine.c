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
#include "iii/rbac.h"
#include "iii/registry.h"
#include "iii/wire.h"

/* Functions that an engine offers itself: what there is, channels, triggers that outlive their
 * maker. Each gives its result, or NULL with *ret_error. They are quick, so they run where they are
 * asked; those that tell of all that there is wait for their turn (later.c). */

#define INFO_MAX      32 /* functions asked for at once */
#define CHANNEL_ITEMS 64
#define CHANNEL_MOST  1024
#define LETTERS_MAX   1000 /* dead ones that are told at once */
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

static const struct iii_session *session_of(const struct engine_call *a)
{
    return a->q->asker->session;
}

/* Of a list of functions, or of what is bound to some, what concerns those that it may call or has
 * itself registered; takes the list. */
static json_t *visible(const struct engine_call *a, json_t *all)
{
    json_t *list, *o;
    size_t i;

    if (!session_of(a))
        return all;
    list = json_array();
    json_array_foreach(all, i, o)
    {
        if (iii_session_sees(a->hub, session_of(a), json_text(o, "namespace"),
                             json_text(o, "function_id")))
            (void)json_array_append(list, o);
    }
    json_decref(all);
    return list;
}

static json_t *functions_list(struct engine_call *a)
{
    json_t *all = visible(a, all_functions(a->hub)), *list = json_array(), *f;
    size_t i;

    json_array_foreach(all, i, f) if (is_listed(a, f))(void) json_array_append(list, f);
    json_decref(all);
    return json_pack("{s:o}", "functions", list);
}

static bool is_hidden(const struct engine_call *a, const char *namespace, const char *id)
{
    return session_of(a) && !iii_session_sees(a->hub, session_of(a), namespace, id);
}

static void put_bindings(struct iii_hub *hub, json_t *o, const char *namespace, const char *id)
{
    json_t *all = iii_registry_bindings(hub->registry), *list = json_array(), *b;
    size_t i;

    json_array_foreach(all, i, b)
    {
        if (strcmp(json_text(b, "function_id"), id) == 0 &&
            strcmp(json_text(b, "namespace"), namespace) == 0)
            (void)json_array_append(list, b);
    }
    json_decref(all);
    (void)json_object_set_new(o, "registered_triggers", list);
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
        put_bindings(hub, o, namespace, id);
    return o;
}

static json_t *details(struct engine_call *a, const char *namespace, const json_t *ids)
{
    json_t *list = json_array();

    for (size_t i = 0; i < json_array_size(ids); i++) {
        const char *id = json_string_value(json_array_get(ids, i));
        bool hidden = id && is_hidden(a, namespace, id);
        json_t *o = id && !hidden ? detail(a->hub, namespace, id) : NULL;

        (void)json_array_append_new(list,
                                    o ? o
                                      : json_pack("{s:s, s:s}", "function_id", id ? id : "",
                                                  "error", hidden ? "forbidden" : "not_found"));
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
    if (is_hidden(a, namespace, id)) {
        a->error = iii_error("FORBIDDEN", "function '%s' not allowed", id);
        return NULL;
    }
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

/* Where others come from is not for one with a session. */
static json_t *known_workers(const struct engine_call *a, bool whole)
{
    json_t *all = all_workers(a->hub, whole), *w;
    size_t i;

    json_array_foreach(all, i, w) if (session_of(a))(void)
        json_object_set_new(w, "ip_address", json_null());
    return all;
}

static json_t *workers_list(struct engine_call *a)
{
    const char *search = text_of(a, "search"), *runtime = text_of(a, "runtime");
    const char *status = text_of(a, "status");
    json_t *all = known_workers(a, false), *list = json_array(), *w;
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

/* Of a list of types those that it may bind to; takes the list. */
static json_t *known_types(const struct engine_call *a, json_t *all)
{
    json_t *list, *o;
    size_t i;

    if (!session_of(a))
        return all;
    list = json_array();
    json_array_foreach(all, i, o) if (iii_session_lets_type(session_of(a), json_text(o, "id")))(
        void) json_array_append(list, o);
    json_decref(all);
    return list;
}

static json_t *workers_info(struct engine_call *a)
{
    const char *name = text_of(a, "name"), *namespace = text_of(a, "namespace");
    json_t *named = only(known_workers(a, true), "name", name ? name : ""), *w;

    named = only(named, "namespace", namespace ? namespace : III_NAMESPACE);
    w = json_incref(json_array_get(named, 0));
    json_decref(named);
    if (!w) {
        a->error = iii_error("NOT_FOUND", "Worker %s not found", name ? name : "");
        return NULL;
    }
    return json_pack(
        "{s:o, s:o, s:o, s:o}", "worker", w, "functions",
        only(visible(a, all_functions(a->hub)), "worker_name", name), "trigger_types",
        only(known_types(a, iii_registry_types(a->hub->registry)), "worker_name", name),
        "registered_triggers", visible(a, iii_registry_bindings(a->hub->registry)));
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

/* ---- triggers ---- */

static json_t *all_types(struct iii_hub *hub)
{
    json_t *list = iii_trigger_types(), *others = iii_registry_types(hub->registry);

    (void)json_array_extend(list, others);
    json_decref(others);
    return list;
}

static json_t *triggers_list(struct engine_call *a)
{
    json_t *list = known_types(a, all_types(a->hub));
    const char *search = text_of(a, "search");

    if (search)
        list = only(list, "id", search);
    return json_pack("{s:o}", "triggers", list);
}

static json_t *one_of(struct engine_call *a, json_t *all, const char *what)
{
    const char *id = text_of(a, "id");
    json_t *found = only(all, "id", id ? id : ""), *o = json_incref(json_array_get(found, 0));

    json_decref(found);
    if (!o)
        a->error = iii_error("NOT_FOUND", "%s %s not found", what, id ? id : "");
    return o;
}

static json_t *triggers_info(struct engine_call *a)
{
    return one_of(a, known_types(a, all_types(a->hub)), "Trigger type");
}

static json_t *registered_list(struct engine_call *a)
{
    const char *type = text_of(a, "trigger_type"), *function = text_of(a, "function_id");
    json_t *list = visible(a, iii_registry_bindings(a->hub->registry));

    if (type)
        list = only(list, "trigger_type", type);
    if (function)
        list = only(list, "function_id", function);
    return json_pack("{s:o}", "registered_triggers", list);
}

static json_t *registered_info(struct engine_call *a)
{
    return one_of(a, visible(a, iii_registry_bindings(a->hub->registry)), "Trigger");
}

/* One with a session has nothing that outlives its connection: it binds as with a message. */
static json_t *register_own(struct engine_call *a)
{
    struct iii_peer *peer = a->q->peer;
    struct err err = {0};
    char id[UUID_SIZE];
    json_t *m;
    int r;

    if (!peer)
        return refuse(a, "FORBIDDEN", "only a connection binds triggers");
    if (session_of(a)->guard->on_trigger)
        return refuse(a, "FORBIDDEN",
                      "bind it with a registertrigger, which the hook is asked for");
    iii_uuid_new(id);
    m = json_copy(a->q->data);
    (void)json_object_set_new(m, "id", json_string(id));
    r = iii_session_binds(peer, m, &err);
    json_decref(m);
    if (r < 0)
        return refuse(a, err.kind == ERR_FORBIDDEN ? "FORBIDDEN" : "trigger_registration_failed",
                      err.text);
    return json_pack("{s:s}", "id", id);
}

/* Beyond the connection, so with nothing of it but who it was. */
static json_t *register_trigger(struct engine_call *a)
{
    const struct iii_asker *from = a->q->asker;
    auto_free char *text = NULL;
    struct iii_asker *asker;
    char id[UUID_SIZE];
    struct err err = {0};
    int r;

    if (!json_is_object(a->q->data))
        return refuse(a, "INVALID_ARGUMENTS", "trigger_type and function_id are required");
    if (session_of(a))
        return register_own(a);
    text = wire_text(a->q->data);
    asker = iii_asker_for(from);
    r = iii_registry_bind(a->hub->registry, NULL, asker, a->q->data,
                          wire_weight(text, strlen(text)), id, &err);
    iii_asker_unref(asker);
    if (r < 0)
        return refuse(a, "trigger_registration_failed", err.text);
    return json_pack("{s:s}", "id", id);
}

static json_t *unregister_trigger(struct engine_call *a)
{
    const char *id = text_of(a, "id");
    struct iii_registry *r = a->hub->registry;
    bool removed;

    if (session_of(a) && !a->q->peer)
        return refuse(a, "FORBIDDEN", "only a connection ends its triggers");
    removed = id && (session_of(a) ? iii_registry_unbind(r, a->q->peer, id)
                                   : iii_registry_unbind_lasting(r, &a->q->asker->caller, id));
    return json_pack("{s:b}", "removed", removed);
}

/* ---- channels, queues ---- */

static const char *queue_of(const struct engine_call *a)
{
    const char *name = text_of(a, "queue");

    return name ? name : text_of(a, "topic");
}

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

/* Functions are called with it in the name of who bound them. */
static json_t *publish(struct engine_call *a)
{
    const char *topic = queue_of(a);
    json_t *data = json_object_get(a->q->data, "data");
    struct err err = {0};

    if (!topic)
        return refuse(a, "INVALID_ARGUMENTS", "topic is required");
    if (iii_publish(a->hub->triggers, topic, data, a->q->asker, &err) < 0)
        return refuse(a, "enqueue_error", err.text);
    return json_null();
}

static json_t *enqueue(struct engine_call *a)
{
    const char *queue = text_of(a, "queue"), *function = text_of(a, "function_id");
    struct iii_question q = *a->q;
    char receipt[UUID_SIZE];
    struct err err = {0};

    q.function_id = function;
    q.data = json_object_get(a->q->data, "data");
    q.namespace = text_of(a, "namespace");
    if (!queue || !function)
        return refuse(a, "INVALID_ARGUMENTS", "queue and function_id are required");
    if (session_of(a))
        a->error = iii_session_why_not(a->hub, session_of(a), q.namespace, function);
    if (a->error)
        return NULL;
    if (iii_enqueue(a->hub->triggers, queue, &q, receipt, &err) < 0)
        return refuse(a, "enqueue_error", err.text);
    return json_pack("{s:s}", "messageReceiptId", receipt);
}

static json_t *queue_define(struct engine_call *a)
{
    json_t *config = json_object_get(a->q->data, "config");
    const char *queue = queue_of(a);
    struct err err = {0};

    if (!queue)
        queue = text_of(a, "name");
    if (!queue)
        return refuse(a, "INVALID_ARGUMENTS", "queue is required");
    if (iii_queue_define(a->hub->triggers, queue, config ? config : a->q->data,
                         &a->q->asker->caller, &err) < 0)
        return refuse(a,
                      err.kind == ERR_FORBIDDEN ? "FORBIDDEN"
                      : err.kind == ERR_INVALID ? "INVALID_ARGUMENTS"
                                                : "invocation_error",
                      err.text);
    return json_pack("{s:s}", "queue", queue);
}

static json_t *queue_list(struct engine_call *a)
{
    return iii_queues(a->hub->triggers);
}

static json_t *queue_stats(struct engine_call *a)
{
    const char *name = queue_of(a);
    json_t *found = only(iii_queues(a->hub->triggers), "name", name ? name : "");
    const json_t *one = json_array_get(found, 0);
    json_t *o =
        json_pack("{s:I, s:I, s:I, s:O?}", "depth", (json_int_t)json_int(one, "depth"),
                  "consumer_count", (json_int_t)json_int(one, "subscriber_count"), "dlq_depth",
                  (json_int_t)json_int(one, "dlq_depth"), "config", json_object_get(one, "config"));

    json_decref(found);
    return o;
}

static json_t *dead_queues(struct engine_call *a)
{
    return iii_dead_queues(a->hub->triggers, &a->q->asker->caller);
}

static json_t *dead_letters(struct engine_call *a)
{
    const char *name = queue_of(a);
    int64_t offset = json_int(a->q->data, "offset"), limit = json_int(a->q->data, "limit");

    if (!name)
        return refuse(a, "INVALID_ARGUMENTS", "queue or topic is required");
    return iii_dead_letters(a->hub->triggers, name, offset > 0 ? (size_t)offset : 0,
                            limit > 0 && limit < LETTERS_MAX ? (size_t)limit : LETTERS_MAX,
                            &a->q->asker->caller);
}

static json_t *act_on_dead(struct engine_call *a, bool one,
                           unsigned (*act)(struct iii_triggers *t, const char *queue,
                                           const char *id, const struct caller *caller))
{
    const char *name = queue_of(a), *id = text_of(a, "message_id");
    const struct caller *caller = &a->q->asker->caller;
    json_t *o;

    if (!name || (one && !id))
        return refuse(a, "INVALID_ARGUMENTS",
                      one ? "queue and message_id are required" : "queue is required");
    o = json_pack("{s:s, s:I}", "queue", name, "redriven",
                  (json_int_t)act(a->hub->triggers, name, one ? id : NULL, caller));
    if (one)
        (void)json_object_set_new(o, "message_id", json_string(id));
    return o;
}

static json_t *redrive(struct engine_call *a)
{
    return act_on_dead(a, false, iii_dead_redrive);
}

static json_t *redrive_message(struct engine_call *a)
{
    return act_on_dead(a, true, iii_dead_redrive);
}

static json_t *discard_message(struct engine_call *a)
{
    return act_on_dead(a, true, iii_dead_discard);
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
    {"engine::triggers::list", triggers_list, SCOPE_READ, true},
    {"engine::triggers::info", triggers_info, SCOPE_READ, true},
    {"engine::registered-triggers::list", registered_list, SCOPE_READ, true},
    {"engine::registered-triggers::info", registered_info, SCOPE_READ, true},
    {"engine::register_trigger", register_trigger, SCOPE_WRITE, false},
    {"engine::unregister_trigger", unregister_trigger, SCOPE_WRITE, false},
    {"engine::channels::create", channels_create, SCOPE_NONE, false},
    {"engine::queue::enqueue", enqueue, SCOPE_NONE, false},
    {"queue::define", queue_define, SCOPE_EXEC, false},
    {"engine::queue::list_topics", queue_list, SCOPE_READ, true},
    {"engine::queue::topic_stats", queue_stats, SCOPE_READ, true},
    {"engine::queue::dlq_topics", dead_queues, SCOPE_READ, true},
    {"engine::queue::dlq_messages", dead_letters, SCOPE_READ, true},
    {"iii::queue::redrive", redrive, SCOPE_WRITE, true},
    {"iii::queue::redrive_message", redrive_message, SCOPE_WRITE, true},
    {"iii::queue::discard_message", discard_message, SCOPE_WRITE, true},
    {"iii::durable::publish", publish, SCOPE_EXEC, false},
    {"publish", publish, SCOPE_EXEC, false},
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
