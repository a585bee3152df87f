#include "iii/registry.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/function.h"
#include "functions/reach.h"
#include "iii/registry_internal.h"
#include "iii/wire.h"

#define DESCRIPTION_MAX 280 /* characters that others are shown */

static void look_at_clock(struct work *w);

/* ---- life ---- */

struct iii_registry *iii_registry_new(struct iii_hub *hub)
{
    struct iii_registry *r = xcalloc(1, sizeof(*r));

    r->hub = hub;
    r->forward_limit_ns = FORWARD_LIMIT_NS;
    r->bytes_max = REGISTERED_ALL_MAX;
    r->clock.run = look_at_clock;
    (void)pthread_mutex_init(&r->lock, NULL);
    return r;
}

/* Every connection has gone by then, and with it what it had. */
void iii_registry_free(struct iii_registry *r)
{
    if (!r)
        return;
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

/* Counts that many bytes more as registered by the client, if there is room. Under the lock. */
static bool take_bytes(struct iii_registry *r, struct iii_peer *peer, size_t bytes)
{
    size_t own = peer->registered_bytes + bytes;

    if (own > REGISTERED_MAX || r->bytes + bytes > r->bytes_max || own > r->bytes_max - r->bytes)
        return false;
    peer->registered_bytes = own;
    r->bytes += bytes;
    return true;
}

/* Under the lock. */
static void give_bytes(struct iii_registry *r, struct iii_peer *peer, size_t bytes)
{
    peer->registered_bytes -= bytes;
    r->bytes -= bytes;
}

/* May it register functions? A token for some sandboxes only may not, nor one that only reads. */
static bool may_register(const struct iii_peer *peer)
{
    const struct caller *c = &peer->asker.caller;

    return (c->scopes & 1u << SCOPE_WRITE) && !caller_is_restricted(c);
}

bool iii_registry_keep(struct iii_registry *r, struct iii_peer *peer, size_t bytes)
{
    bool room;

    (void)pthread_mutex_lock(&r->lock);
    room = may_register(peer) && take_bytes(r, peer, bytes);
    (void)pthread_mutex_unlock(&r->lock);
    return room;
}

void iii_registry_unkeep(struct iii_registry *r, struct iii_peer *peer, size_t bytes)
{
    (void)pthread_mutex_lock(&r->lock);
    give_bytes(r, peer, bytes);
    (void)pthread_mutex_unlock(&r->lock);
}

/* ---- functions ---- */

static int by_name(const void *a, const void *b)
{
    const struct iii_offer *x = a, *y = b;
    int r = strcmp(x->id, y->id);

    return r ? r : strcmp(x->namespace, y->namespace);
}

static struct iii_offer *find_offer(const struct iii_registry *r, const char *namespace,
                                    const char *id)
{
    /* The tree only compares. */
    const struct iii_offer key = {.namespace = (char *)(uintptr_t) namespace,
                                  .id = (char *)(uintptr_t)id};
    struct iii_offer **found = tfind(&key, &r->offers, by_name);

    return found ? *found : NULL;
}

static void offer_free(struct iii_registry *r, struct iii_offer *o)
{
    (void)tdelete(o, &r->offers, by_name);
    give_bytes(r, o->owner, o->bytes);
    o->owner->functions--;
    r->n_offers--;
    if (o->prev)
        o->prev->next = o->next;
    else
        o->owner->offers = o->next;
    if (o->next)
        o->next->prev = o->prev;
    free(o->namespace);
    free(o->id);
    free(o->description);
    free(o->request);
    free(o->response);
    free(o->metadata);
    free(o);
}

/* Ids of the hub's own functions are taken, and all that could be. */
static bool is_ours(const char *namespace, const char *id)
{
    if (iii_engine_has(id))
        return true;
    return strcmp(namespace, III_NAMESPACE) == 0 && (iii_function(id) || function_find(id));
}

static void reject(struct iii_peer *peer, const char *function_id, const char *owner)
{
    iii_peer_send(peer, wire_rejected("FUNCTION_NAMESPACE_CONFLICT", peer->asker.namespace, NULL,
                                      function_id, owner));
}

/* Under the lock. False: there is no room for it. */
static bool add_offer(struct iii_registry *r, struct iii_peer *peer, const json_t *m,
                      const char *id, size_t bytes)
{
    struct iii_offer *o;

    if (peer->functions >= III_FUNCTIONS_MAX || r->n_offers >= III_FUNCTIONS_ALL ||
        !take_bytes(r, peer, bytes))
        return false;
    o = xcalloc(1, sizeof(*o));
    *o = (struct iii_offer){
        .namespace = xstrdup(peer->asker.namespace),
        .id = xstrdup(id),
        .owner = peer,
        .request = wire_member(m, "request_format"),
        .response = wire_member(m, "response_format"),
        .metadata = wire_member(m, "metadata"),
        .bytes = bytes,
    };
    if (json_is_string(json_object_get(m, "description")))
        o->description = xstrdup(json_text(m, "description"));
    if (!tsearch(o, &r->offers, by_name))
        abort(); /* out of memory */
    o->next = peer->offers;
    if (o->next)
        o->next->prev = o;
    peer->offers = o;
    peer->functions++;
    r->n_offers++;
    return true;
}

static bool may_offer(struct iii_peer *peer, const json_t *m, const char *id)
{
    const char *why = NULL;

    if (!may_register(peer))
        why = "its token may not register functions";
    else if (wire_value(m, "invocation"))
        why = "functions that are called over HTTP are not served here";
    if (why)
        log_warn("a function is not registered", "id", id, "because", why);
    return !why;
}

void iii_registry_offer(struct iii_registry *r, struct iii_peer *peer, const json_t *m,
                        size_t bytes)
{
    const char *id = wire_name(m, "id", III_NAME_MAX);
    char owner[UUID_SIZE] = "";
    bool taken, full = false;
    struct iii_offer *o;

    if (!id)
        return;
    if (!may_offer(peer, m, id)) {
        reject(peer, id, "");
        return;
    }
    if (is_ours(peer->asker.namespace, id)) {
        reject(peer, id, str_starts(id, "engine::") ? "" : r->hub->worker_id);
        return;
    }
    (void)pthread_mutex_lock(&r->lock);
    o = find_offer(r, peer->asker.namespace, id);
    taken = o && o->owner != peer;
    if (taken)
        (void)snprintf(owner, sizeof(owner), "%s", o->owner->asker.worker_id);
    else if (o)
        offer_free(r, o);
    if (!taken && !peer->forgotten)
        full = !add_offer(r, peer, m, id, bytes);
    (void)pthread_mutex_unlock(&r->lock);
    if (full)
        log_warn("a function is not registered: there are too many of that connection, or they are "
                 "too long",
                 "id", id);
    if (taken || full)
        reject(peer, id, owner);
}

void iii_registry_withdraw(struct iii_registry *r, struct iii_peer *peer, const char *id)
{
    struct iii_offer *o;

    (void)pthread_mutex_lock(&r->lock);
    o = find_offer(r, peer->asker.namespace, id);
    if (o && o->owner == peer)
        offer_free(r, o);
    (void)pthread_mutex_unlock(&r->lock);
}

/* ---- calls that one carries out for another ---- */

static int by_id(const void *a, const void *b)
{
    const struct iii_forward *x = a, *y = b;

    return strcmp(x->id, y->id);
}

/* Under the lock: it is the caller's now. */
static void take_forward(struct iii_registry *r, struct iii_forward *f)
{
    (void)tdelete(f, &r->forwards, by_id);
    if (f->prev)
        f->prev->next = f->next;
    else
        r->all_forwards = f->next;
    if (f->next)
        f->next->prev = f->prev;
    else
        r->oldest_forward = f->prev;
    f->prev = f->next = NULL;
}

/* Not under the lock. */
static void end_forward(struct iii_registry *r, struct iii_forward *f, json_t *result,
                        json_t *error)
{
    atomic_fetch_sub(&f->by->serving, 1);
    if (f->from)
        atomic_fetch_sub(&f->from->forwarded, 1);
    iii_call_end(r->hub, f->asker);
    f->answered(f->arg, result, error);
    iii_asker_unref(&f->by->asker);
    iii_asker_unref(f->asker);
    free(f);
}

/* Under the lock: there is something to wait for. What it waits for already comes before that. */
static void wind_clock(struct iii_registry *r)
{
    if (!r->clock_runs)
        runner_add(r->hub->runner, &r->clock);
    else if (!r->clock_ns)
        runner_wake(r->hub->runner, &r->clock);
    r->clock_runs = true;
    if (!r->clock_ns)
        r->clock_ns = r->oldest_forward->at_ns + r->forward_limit_ns;
}

static struct iii_forward *add_forward(struct iii_registry *r, struct iii_peer *by,
                                       const struct iii_question *q, iii_answered answered,
                                       void *arg)
{
    struct iii_forward *f = xcalloc(1, sizeof(*f));

    iii_uuid_new(f->id);
    (void)iii_asker_ref(&by->asker);
    f->by = by;
    f->asker = iii_asker_ref(q->asker);
    f->from = q->peer;
    if (f->from)
        atomic_fetch_add(&f->from->forwarded, 1);
    f->at_ns = mono_ns();
    f->answered = answered;
    f->arg = arg;
    f->next = r->all_forwards;
    if (f->next)
        f->next->prev = f;
    else
        r->oldest_forward = f;
    r->all_forwards = f;
    if (!tsearch(f, &r->forwards, by_id))
        abort(); /* out of memory */
    iii_peer_serves(by);
    wind_clock(r);
    return f;
}

/* The function learns who calls it, as engines tell it; nobody else tells it that. */
static char *invoke_text(const struct iii_question *q, const char *id)
{
    static const char key[] = "_caller_worker_id";
    json_t *data = q->data;
    char *text;

    if (json_is_object(data) && (q->asker->worker_id[0] || json_object_get(data, key))) {
        data = json_copy(data);
        if (q->asker->worker_id[0])
            (void)json_object_set_new(data, key, json_string(q->asker->worker_id));
        else
            (void)json_object_del(data, key);
    } else {
        json_incref(data);
    }
    text = wire_invoke(id, q->function_id, data, q->metadata, q->traceparent, q->baggage);
    json_decref(data);
    return text;
}

static json_t *why_not(struct iii_registry *r, const struct iii_question *q)
{
    if (!iii_may_call(&q->asker->caller))
        return iii_error("FORBIDDEN", "this token may not call functions of other clients");
    if (q->peer && atomic_load(&q->peer->forwarded) >= III_FORWARDED_MAX)
        return iii_error("invocation_error",
                         "%d calls of this client wait for their answers; try again",
                         III_FORWARDED_MAX);
    return iii_call_begin(r->hub, q->asker);
}

/* The caller's now; NULL when it has none of that id, or it is over. */
static struct iii_forward *claim_forward(struct iii_registry *r, const struct iii_peer *by,
                                         const char *id)
{
    struct iii_forward key = {0}, **found, *f = NULL;

    (void)snprintf(key.id, sizeof(key.id), "%s", id);
    (void)pthread_mutex_lock(&r->lock);
    found = tfind(&key, &r->forwards, by_id);
    if (found && (*found)->by == by) {
        f = *found;
        take_forward(r, f);
    }
    (void)pthread_mutex_unlock(&r->lock);
    return f;
}

/* The worker has not taken the calls that came before. */
static void refuse_forward(struct iii_registry *r, const struct iii_peer *by, const char *id)
{
    struct iii_forward *f = claim_forward(r, by, id);
    json_t *error;

    if (!f)
        return;
    error = iii_error("invocation_error",
                      "the worker does not take its calls as fast as they come; try again later");
    end_forward(r, f, NULL, error);
    json_decref(error);
}

bool iii_registry_ask(struct iii_registry *r, const struct iii_question *q, iii_answered answered,
                      void *arg)
{
    struct iii_peer *by = NULL;
    char id[UUID_SIZE];
    struct iii_offer *o;
    json_t *error = NULL;

    (void)pthread_mutex_lock(&r->lock);
    o = find_offer(r, q->namespace ? q->namespace : III_NAMESPACE, q->function_id);
    if (o)
        error = why_not(r, q);
    if (o && !error) {
        by = o->owner;
        (void)iii_asker_ref(&by->asker);
        (void)snprintf(id, sizeof(id), "%s", add_forward(r, by, q, answered, arg)->id);
    }
    (void)pthread_mutex_unlock(&r->lock);
    if (by) {
        if (!iii_peer_offer(by, invoke_text(q, id)))
            refuse_forward(r, by, id);
        iii_asker_unref(&by->asker);
    }
    if (error)
        answered(arg, NULL, error);
    json_decref(error);
    return o;
}

void iii_registry_answer(struct iii_registry *r, struct iii_peer *peer, const json_t *m)
{
    const char *id = wire_name(m, "invocation_id", UUID_SIZE - 1);
    json_t *error = wire_value(m, "error"), *result = json_object_get(m, "result");
    struct iii_forward *f = id ? claim_forward(r, peer, id) : NULL;
    json_t *nothing = json_null();

    if (f)
        end_forward(r, f, error ? NULL : result ? result : nothing, error);
}

void iii_registry_answer_lost(struct iii_registry *r, const struct iii_peer *peer, const char *id,
                              const char *why)
{
    struct iii_forward *f = claim_forward(r, peer, id);
    json_t *error;

    if (!f)
        return;
    error = iii_error("deserialization_error", "the function's answer cannot be taken: %s", why);
    end_forward(r, f, NULL, error);
    json_decref(error);
}

/* ---- their time ---- */

/* Takes the error. */
static void end_forwards(struct iii_registry *r, struct iii_forward *list, json_t *error)
{
    while (list) {
        struct iii_forward *f = list;

        list = f->next;
        end_forward(r, f, NULL, error);
    }
    json_decref(error);
}

void registry_sweep(struct iii_registry *r, int64_t now_ns)
{
    struct iii_forward *late = NULL, *f;

    (void)pthread_mutex_lock(&r->lock);
    while ((f = r->oldest_forward) && f->at_ns + r->forward_limit_ns <= now_ns) {
        take_forward(r, f);
        f->next = late;
        late = f;
    }
    (void)pthread_mutex_unlock(&r->lock);
    if (late)
        end_forwards(r, late,
                     iii_error("TIMEOUT", "the function has not answered within %lld minutes",
                               (long long)(r->forward_limit_ns / 60000000000)));
}

static void look_at_clock(struct work *w)
{
    struct iii_registry *r =
        (struct iii_registry *)((char *)w - offsetof(struct iii_registry, clock));
    int64_t until;

    if (runner_stops(r->hub->runner))
        return;
    registry_sweep(r, mono_ns());
    (void)pthread_mutex_lock(&r->lock);
    until = r->oldest_forward ? r->oldest_forward->at_ns + r->forward_limit_ns : 0;
    r->clock_ns = until;
    (void)pthread_mutex_unlock(&r->lock);
    runner_wait(r->hub->runner, w, -1, 0, until); /* once more if it was woken meanwhile */
}

/* ---- who is connected ---- */

void iii_registry_join(struct iii_registry *r, struct iii_peer *peer)
{
    (void)pthread_mutex_lock(&r->lock);
    (void)iii_asker_ref(&peer->asker);
    peer->forgotten = false;
    peer->connected_ms = now_ms();
    peer->next = r->peers;
    if (peer->next)
        peer->next->prev = peer;
    r->peers = peer;
    (void)pthread_mutex_unlock(&r->lock);
}

/* Those that one carries out, and those that one waits for; a list by next. */
static struct iii_forward *take_forwards(struct iii_registry *r, const struct iii_peer *by,
                                         const struct iii_asker *asker)
{
    struct iii_forward *gone = NULL;

    for (struct iii_forward *f = r->all_forwards, *next; f; f = next) {
        next = f->next;
        if (f->by != by && f->asker != asker)
            continue;
        take_forward(r, f);
        f->next = gone;
        gone = f;
    }
    return gone;
}

static void stop_forwards(struct iii_registry *r, struct iii_forward *gone)
{
    end_forwards(r, gone, iii_error("invocation_stopped", "the worker that ran it has gone"));
}

static void metadata_done(struct iii_metadata *m)
{
    free(m->name);
    free(m->description);
    free(m->runtime);
    free(m->version);
    free(m->os);
    free(m->isolation);
    *m = (struct iii_metadata){0};
}

void iii_registry_forget(struct iii_registry *r, struct iii_peer *peer)
{
    struct iii_forward *forwards;

    (void)pthread_mutex_lock(&r->lock);
    if (peer->forgotten) {
        /* It was read on for a moment, and may have asked for something. */
        forwards = take_forwards(r, peer, &peer->asker);
        (void)pthread_mutex_unlock(&r->lock);
        stop_forwards(r, forwards);
        return;
    }
    peer->forgotten = true;
    if (peer->prev)
        peer->prev->next = peer->next;
    else
        r->peers = peer->next;
    if (peer->next)
        peer->next->prev = peer->prev;
    while (peer->offers)
        offer_free(r, peer->offers);
    forwards = take_forwards(r, peer, &peer->asker);
    metadata_done(&peer->about);
    (void)pthread_mutex_unlock(&r->lock);
    stop_forwards(r, forwards);
    iii_asker_unref(&peer->asker);
}

struct iii_peer *iii_registry_reattach(struct iii_registry *r, const char *worker_id,
                                       const char *token)
{
    struct iii_peer *p;

    (void)pthread_mutex_lock(&r->lock);
    for (p = r->peers; p; p = p->next)
        if (strcmp(p->asker.worker_id, worker_id) == 0 && token &&
            str_equal_secret(p->reattach_token, token))
            break;
    if (p)
        (void)iii_asker_ref(&p->asker);
    (void)pthread_mutex_unlock(&r->lock);
    return p;
}

/* ---- what they say of themselves ---- */

/* Text that others are shown: without control characters and marks that turn its direction. */
static char *clean_text(const json_t *data, const char *key)
{
    static const char *const marks[] = {"\xe2\x80\xaa", "\xe2\x80\xab", "\xe2\x80\xac",
                                        "\xe2\x80\xad", "\xe2\x80\xae", "\xe2\x81\xa6",
                                        "\xe2\x81\xa7", "\xe2\x81\xa8", "\xe2\x81\xa9",
                                        "\xe2\x80\x8e", "\xe2\x80\x8f"};
    const char *s = json_text(data, key);
    auto_free char *out = xmalloc(strlen(s) + 1);
    unsigned n = 0;
    size_t len = 0;

    while (*s && n < DESCRIPTION_MAX) {
        size_t skip = (unsigned char)*s < 0x20 || *s == 0x7f ? 1 : 0;

        for (size_t i = 0; i < ARRAY_LEN(marks) && !skip; i++)
            skip = str_starts(s, marks[i]) ? strlen(marks[i]) : 0;
        if (skip) {
            s += skip;
            continue;
        }
        n++;
        do
            out[len++] = *s++;
        while (((unsigned char)*s & 0xc0) == 0x80);
    }
    out[len] = '\0';
    return len ? steal_ptr(out) : NULL;
}

/* Names are those of workers: who may register nothing neither takes one nor learns who has it. */
static bool name_is_taken(const struct iii_registry *r, const struct iii_peer *peer,
                          const char *namespace, const char *name, char ret_owner[UUID_SIZE])
{
    if (!may_register(peer))
        return false;
    for (const struct iii_peer *p = r->peers; p; p = p->next) {
        if (p == peer || !may_register(p) || !p->about.name || strcmp(p->about.name, name) != 0 ||
            strcmp(p->asker.namespace, namespace) != 0)
            continue;
        (void)snprintf(ret_owner, UUID_SIZE, "%s", p->asker.worker_id);
        return true;
    }
    return false;
}

int iii_registry_describe(struct iii_registry *r, struct iii_peer *peer, const json_t *data)
{
    const char *namespace = wire_name(data, "namespace", III_NAME_MAX);
    struct iii_metadata m = {
        .given = true,
        .name = clean_text(data, "name"),
        .description = clean_text(data, "description"),
        .runtime = clean_text(data, "runtime"),
        .version = clean_text(data, "version"),
        .os = clean_text(data, "os"),
        .isolation = clean_text(data, "isolation"),
        .pid = json_int(data, "pid"),
    };
    char owner[UUID_SIZE] = "";
    bool taken;

    if (!namespace || strspn(namespace, " \t\r\n") == strlen(namespace))
    namespace = III_NAMESPACE;
    (void)pthread_mutex_lock(&r->lock);
    taken = peer->forgotten || (m.name && name_is_taken(r, peer, namespace, m.name, owner));
    if (!taken) {
        /* It is known from here on: before, nothing of it is registered. */
        if (!peer->about.given)
            (void)snprintf(peer->asker.namespace, sizeof(peer->asker.namespace), "%s", namespace);
        metadata_done(&peer->about);
        peer->about = m;
    }
    (void)pthread_mutex_unlock(&r->lock);
    if (!taken)
        return 0;
    iii_peer_send(peer, wire_rejected("WORKER_NAMESPACE_CONFLICT", namespace, m.name, NULL, owner));
    metadata_done(&m);
    return -1;
}

/* ---- introspection ---- */

static const char *owner_name(const struct iii_peer *p)
{
    return p->about.name ? p->about.name : p->asker.worker_id;
}

struct listing {
    json_t *list;
    bool whole;
};

static json_t *offer_json(const struct iii_offer *f, bool whole)
{
    json_t *o = json_pack("{s:s, s:s, s:s}", "function_id", f->id, "namespace", f->namespace,
                          "worker_name", owner_name(f->owner));

    json_put_text(o, "description", f->description);
    wire_put_member(o, "metadata", f->metadata);
    if (whole) {
        wire_put_member(o, "request_schema", f->request);
        wire_put_member(o, "response_schema", f->response);
    }
    return o;
}

static void list_offer(const void *node, VISIT visit, void *arg)
{
    struct listing *l = arg;

    if (visit == postorder || visit == leaf)
        (void)json_array_append_new(l->list,
                                    offer_json(*(struct iii_offer *const *)node, l->whole));
}

json_t *iii_registry_function(struct iii_registry *r, const char *namespace, const char *id)
{
    const struct iii_offer *f;
    json_t *o;

    (void)pthread_mutex_lock(&r->lock);
    f = find_offer(r, namespace, id);
    o = f ? offer_json(f, true) : NULL;
    (void)pthread_mutex_unlock(&r->lock);
    return o;
}

json_t *iii_registry_functions(struct iii_registry *r, bool whole)
{
    struct listing l = {.list = json_array(), .whole = whole};

    (void)pthread_mutex_lock(&r->lock);
    twalk_r(r->offers, list_offer, &l);
    (void)pthread_mutex_unlock(&r->lock);
    return l.list;
}

static void put_or_null(json_t *o, const char *key, const char *value)
{
    (void)json_object_set_new(o, key, value ? json_string(value) : json_null());
}

static json_t *worker_json(const struct iii_peer *p, bool whole)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:s}", "name", owner_name(p),
                          "id", p->asker.worker_id, "namespace", p->asker.namespace, "runtime",
                          p->about.runtime ? p->about.runtime : "unknown", "status", "connected",
                          "function_count", (json_int_t)p->functions, "connected_at_ms",
                          (json_int_t)p->connected_ms, "active_invocations",
                          (json_int_t)atomic_load(&p->serving), "ip_address", p->asker.caller.from);

    put_or_null(o, "description", p->about.description);
    put_or_null(o, "version", p->about.version);
    put_or_null(o, "os", p->about.os);
    put_or_null(o, "isolation", p->about.isolation);
    if (whole)
        (void)json_object_update_new(
            o, json_pack("{s:I, s:b}", "pid", (json_int_t)p->about.pid, "internal", 0));
    return o;
}

/* Those that have not said their pid are hidden, as an engine does. */
json_t *iii_registry_workers(struct iii_registry *r, bool whole)
{
    json_t *list = json_array();

    (void)pthread_mutex_lock(&r->lock);
    for (const struct iii_peer *p = r->peers; p; p = p->next)
        if (p->about.pid > 0)
            (void)json_array_append_new(list, worker_json(p, whole));
    (void)pthread_mutex_unlock(&r->lock);
    return list;
}
