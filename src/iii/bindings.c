#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "functions/callers.h"
#include "iii/registry_internal.h"
#include "iii/wire.h"

/* Functions that are called when something happens. The type of a binding is ours (triggers.c), or
 * that of a client who provides it, who is sent the binding and calls the function himself; one
 * that nobody provides waits, without a word, until somebody does. */

#define BOUNDS_MAX 4096 /* of all */

/* A type that a client provides. */
struct iii_type {
    char *namespace, *id, *description;
    char *request, *call; /* JSON, or NULL */
    struct iii_peer *owner;
    size_t bytes;
    struct iii_type *next;
};

struct iii_bound {
    struct iii_binding b;    /* whose texts are its own, and whose id nobody else knows; without
                              * config and metadata, */
    char *config, *metadata; /* which are here, as JSON, or NULL */
    char *id;                /* as who made it calls it; others may call theirs the same */
    const char *told_id;     /* as its provider knows it */
    char *type, *function_id, *namespace, *type_namespace; /* of the last NULL = any */
    struct iii_peer *owner;                                /* NULL = it outlives connections */
    struct iii_peer *provider; /* that was told; NULL = none: it waits, or the type is ours */
    bool ours;
    size_t bytes;
    struct iii_bound *next;
};

/* ---- texts ---- */

static char *register_text(const struct iii_bound *b)
{
    json_t *m = json_pack("{s:s, s:s, s:s, s:s, s:s}", "type", "registertrigger", "id", b->told_id,
                          "trigger_type", b->type, "function_id", b->function_id, "namespace",
                          b->namespace);
    char *text;

    wire_put_member(m, "config", b->config ? b->config : "{}");
    wire_put_member(m, "metadata", b->metadata);
    text = wire_text(m);
    json_decref(m);
    return text;
}

static char *unregister_text(const struct iii_bound *b)
{
    json_t *m = json_pack("{s:s, s:s, s:s}", "type", "unregistertrigger", "id", b->told_id,
                          "trigger_type", b->type);
    char *text = wire_text(m);

    json_decref(m);
    return text;
}

static char *result_text(const char *id, const char *type, const char *function_id, json_t *error)
{
    json_t *m = json_pack("{s:s, s:s, s:s, s:s, s:O}", "type", "triggerregistrationresult", "id",
                          id, "trigger_type", type, "function_id", function_id, "error", error);
    char *text = wire_text(m);

    json_decref(m);
    return text;
}

/* ---- bindings; under the lock unless it says otherwise ---- */

/* What one with a session provides is not for those who have none: they took it for another's. */
static bool serves(const struct iii_type *t, const struct iii_bound *b)
{
    return strcmp(t->id, b->type) == 0 && (!t->owner->asker.session || b->b.asker->session);
}

static struct iii_type *provider_of(const struct iii_registry *r, const struct iii_bound *b)
{
    const char *first = b->type_namespace ? b->type_namespace : b->namespace;
    struct iii_type *other = NULL;

    for (struct iii_type *t = r->types; t; t = t->next) {
        if (!serves(t, b))
            continue;
        if (strcmp(t->namespace, first) == 0)
            return t;
        if (!b->type_namespace && strcmp(t->namespace, III_NAMESPACE) == 0)
            other = t;
    }
    return other;
}

static void bound_free(struct iii_bound *b)
{
    iii_asker_unref(b->b.asker);
    if (b->provider)
        iii_asker_unref(&b->provider->asker);
    free(b->id);
    free(b->type);
    free(b->function_id);
    free(b->namespace);
    free(b->type_namespace);
    free(b->config);
    free(b->metadata);
    free(b);
}

static void unlink_bound(struct iii_registry *r, struct iii_bound *b)
{
    struct iii_bound **at = &r->bounds;

    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    b->next = NULL;
    r->n_bounds--;
    registry_give_bytes(r, b->owner, b->bytes);
    if (b->owner)
        b->owner->triggers--;
    else
        budget_give_share(&r->lasting, b->b.asker->caller.name, 1);
}

/* Not under the lock. */
static void end_bound(struct iii_registry *r, struct iii_bound *b)
{
    if (b->ours)
        iii_trigger_unbind(r->hub->triggers, b->b.id);
    if (b->provider)
        iii_peer_send(b->provider, unregister_text(b));
    bound_free(b);
}

static struct iii_bound *find_bound(const struct iii_registry *r, const struct iii_peer *owner,
                                    const char *id)
{
    for (struct iii_bound *b = r->bounds; b; b = b->next)
        if (b->owner == owner && strcmp(b->id, id) == 0)
            return b;
    return NULL;
}

static struct iii_bound *bound_new(struct iii_peer *peer, struct iii_asker *asker, const json_t *m,
                                   const char *id, size_t bytes)
{
    struct iii_bound *b = xcalloc(1, sizeof(*b));
    const char *namespace = wire_name(m, "namespace", III_NAME_MAX);
    const char *type_namespace = wire_name(m, "trigger_namespace", III_NAME_MAX);

    iii_uuid_new(b->b.id);
    b->id = xstrdup(id);
    b->type = xstrdup(json_text(m, "trigger_type"));
    b->function_id = xstrdup(json_text(m, "function_id"));
    b->namespace = xstrdup(namespace ? namespace : asker->namespace);
    b->type_namespace = type_namespace ? xstrdup(type_namespace) : NULL;
    b->b.given_id = b->id;
    b->b.type = b->type;
    b->b.function_id = b->function_id;
    b->b.namespace = b->namespace;
    b->config = wire_member(m, "config");
    b->metadata = wire_member(m, "metadata");
    b->b.asker = iii_asker_ref(asker);
    b->owner = peer;
    b->ours = iii_trigger_is_ours(b->type);
    b->bytes = bytes;
    return b;
}

/* Has its provider another one of that id, from another client? */
static bool is_known(const struct iii_registry *r, const struct iii_peer *provider, const char *id)
{
    const struct iii_bound *b = r->bounds;

    while (b && (b->provider != provider || strcmp(b->told_id, id) != 0))
        b = b->next;
    return b;
}

/* False when it has no room, and gets it later. The lock is above that of a peer. */
static bool tell_provider(struct iii_registry *r, struct iii_bound *b, struct iii_peer *provider)
{
    b->told_id = is_known(r, provider, b->id) ? b->b.id : b->id;
    if (!iii_peer_offer(provider, register_text(b))) {
        atomic_store(&provider->owed, true);
        return false;
    }
    b->provider = provider;
    (void)iii_asker_ref(&provider->asker);
    return true;
}

static bool take_place(struct iii_registry *r, struct iii_bound *b)
{
    const char *who = b->b.asker->caller.name;

    if (r->n_bounds >= BOUNDS_MAX ||
        (b->owner && (b->owner->forgotten || b->owner->triggers >= III_TRIGGERS_MAX)))
        return false;
    if (!b->owner && !budget_take_share(&r->lasting, who, 1))
        return false;
    if (registry_take_bytes(r, b->owner, b->bytes))
        return true;
    if (!b->owner)
        budget_give_share(&r->lasting, who, 1);
    return false;
}

static int add_bound(struct iii_registry *r, struct iii_bound *b, struct err *err)
{
    struct iii_type *t = b->ours ? NULL : provider_of(r, b);

    if (!take_place(r, b))
        return err_code(err, ERR_LIMIT, "trigger_limit",
                        "there are as many triggers as there may be, or they are too long");
    if (t)
        (void)tell_provider(r, b, t->owner);
    if (b->owner)
        b->owner->triggers++;
    r->n_bounds++;
    b->next = r->bounds;
    r->bounds = b;
    return 0;
}

static int bind_ours(struct iii_registry *r, const struct iii_bound *b, const json_t *m,
                     struct err *err)
{
    struct iii_binding binding = b->b;

    binding.config = wire_value(m, "config");
    binding.metadata = wire_value(m, "metadata");
    return iii_trigger_bind(r->hub->triggers, &binding, err);
}

/* Those of no connection, whose token has ended: nobody else would ever take them away. Not under
 * the lock. */
static void drop_ended(struct iii_registry *r)
{
    struct iii_bound *gone = NULL;

    (void)pthread_mutex_lock(&r->lock);
    for (struct iii_bound *b = r->bounds, *next; b; b = next) {
        next = b->next;
        if (b->owner || caller_token_live(r->hub->config.services, b->b.asker->caller.token_id))
            continue;
        unlink_bound(r, b);
        b->next = gone;
        gone = b;
    }
    (void)pthread_mutex_unlock(&r->lock);
    bindings_tell(r, gone);
}

static int put_bound(struct iii_registry *r, struct iii_bound *b, const json_t *m, struct err *err)
{
    int x;

    if (b->ours && bind_ours(r, b, m, err) < 0) {
        bound_free(b);
        return -1;
    }
    (void)pthread_mutex_lock(&r->lock);
    x = add_bound(r, b, err);
    (void)pthread_mutex_unlock(&r->lock);
    if (x < 0)
        end_bound(r, b);
    return x;
}

static int check_message(const json_t *m, struct err *err)
{
    if (!wire_name(m, "trigger_type", III_NAME_MAX) || !wire_name(m, "function_id", III_NAME_MAX))
        return err_set(err, ERR_INVALID,
                       "trigger_type and function_id must be strings of 1 to %d bytes",
                       III_NAME_MAX);
    return 0;
}

void iii_registry_refuse(struct iii_peer *peer, const json_t *m, const char *code, const char *why)
{
    json_t *error = iii_error(code, "%s", why);

    iii_peer_send(peer, result_text(json_text(m, "id"), json_text(m, "trigger_type"),
                                    json_text(m, "function_id"), error));
    json_decref(error);
}

int iii_registry_bind(struct iii_registry *r, struct iii_peer *peer, struct iii_asker *asker,
                      const json_t *m, size_t bytes, char ret_id[UUID_SIZE], struct err *err)
{
    const char *id = wire_name(m, "id", III_NAME_MAX);
    int x = check_message(m, err);

    if (!peer)
        iii_uuid_new(ret_id);
    if (peer && !id)
        return err_set(err, ERR_INVALID, "id must be a string of 1 to %d bytes", III_NAME_MAX);
    if (x == 0 && peer && !registry_may(peer))
        x = err_code(err, ERR_FORBIDDEN, "scope_missing", "this token may not bind triggers");
    drop_ended(r);
    if (x == 0 && peer)
        (void)iii_registry_unbind(r, peer, id); /* what is bound anew takes its place */
    if (x == 0)
        x = put_bound(r, bound_new(peer, asker, m, peer ? id : ret_id, bytes), m, err);
    return x;
}

void iii_registry_bind_told(struct iii_registry *r, struct iii_peer *peer, const json_t *m,
                            size_t bytes)
{
    struct err err = {0};

    if (iii_registry_bind(r, peer, &peer->asker, m, bytes, NULL, &err) < 0 &&
        wire_name(m, "id", III_NAME_MAX))
        iii_registry_refuse(peer, m, "trigger_registration_failed", err.text);
}

static bool unbind(struct iii_registry *r, const struct iii_peer *peer, const struct caller *caller,
                   const char *id)
{
    struct iii_bound *b;

    (void)pthread_mutex_lock(&r->lock);
    b = find_bound(r, peer, id);
    if (b && caller && !caller->admin && strcmp(caller->name, b->b.asker->caller.name) != 0)
        b = NULL;
    if (b)
        unlink_bound(r, b);
    (void)pthread_mutex_unlock(&r->lock);
    if (b)
        end_bound(r, b);
    return b;
}

bool iii_registry_unbind(struct iii_registry *r, const struct iii_peer *peer, const char *id)
{
    return unbind(r, peer, NULL, id);
}

bool iii_registry_unbind_lasting(struct iii_registry *r, const struct caller *caller,
                                 const char *id)
{
    return unbind(r, NULL, caller, id);
}

void iii_registry_bound(struct iii_registry *r, struct iii_peer *peer, const json_t *m)
{
    json_t *error = wire_value(m, "error");
    struct iii_bound *b = NULL, *next;
    struct iii_peer *owner = NULL;
    auto_free char *text = NULL;

    if (!error || !wire_name(m, "id", III_NAME_MAX))
        return;
    (void)pthread_mutex_lock(&r->lock);
    for (next = r->bounds; next && !b; next = next->next)
        if (next->provider == peer && strcmp(next->told_id, json_text(m, "id")) == 0)
            b = next;
    if (b) {
        unlink_bound(r, b);
        text = result_text(b->id, b->type, b->function_id, error);
        owner = b->owner;
        if (owner)
            (void)iii_asker_ref(&owner->asker);
    }
    (void)pthread_mutex_unlock(&r->lock);
    if (owner) {
        iii_peer_send(owner, steal_ptr(text));
        iii_asker_unref(&owner->asker);
    }
    if (b)
        bound_free(b); /* the provider does not have it */
}

/* ---- types ---- */

static void type_free(struct iii_registry *r, struct iii_type **at)
{
    struct iii_type *t = *at;

    *at = t->next;
    registry_give_bytes(r, t->owner, t->bytes);
    t->owner->types--;
    free(t->namespace);
    free(t->id);
    free(t->description);
    free(t->request);
    free(t->call);
    free(t);
}

static struct iii_type **find_type(struct iii_registry *r, const char *namespace, const char *id)
{
    struct iii_type **at = &r->types;

    while (*at && (strcmp((*at)->id, id) != 0 || strcmp((*at)->namespace, namespace) != 0))
        at = &(*at)->next;
    return at;
}

/* Those that wait for it, or that another of that id had: the new provider is sent them, as far as
 * it takes them. */
static void adopt(struct iii_registry *r, const struct iii_type *t)
{
    for (struct iii_bound *b = r->bounds; b; b = b->next)
        if (!b->ours && !b->provider && provider_of(r, b) == t && !tell_provider(r, b, t->owner))
            return;
}

void iii_registry_catch_up(struct iii_registry *r, struct iii_peer *peer)
{
    if (!atomic_exchange(&peer->owed, false))
        return;
    (void)pthread_mutex_lock(&r->lock);
    for (const struct iii_type *t = r->types; t && !peer->forgotten; t = t->next)
        if (t->owner == peer)
            adopt(r, t);
    (void)pthread_mutex_unlock(&r->lock);
}

/* It does not provide a type any more, or none at all (NULL): those bindings go to another who
 * does, or wait again. */
static void orphan(struct iii_registry *r, struct iii_peer *provider, const char *id)
{
    for (struct iii_bound *b = r->bounds; b; b = b->next) {
        struct iii_type *t = b->provider == provider ? provider_of(r, b) : NULL;

        if (b->provider != provider || (id && strcmp(b->type, id) != 0) ||
            (t && t->owner == provider))
            continue;
        b->provider = NULL;
        iii_asker_unref(&provider->asker);
        if (t)
            (void)tell_provider(r, b, t->owner);
    }
}

static const char *type_namespace(const struct iii_peer *peer, const json_t *m)
{
    const char *namespace = wire_name(m, "namespace", III_NAME_MAX);

    return namespace ? namespace : peer->asker.namespace;
}

/* Under the lock. What one with a session has gives way to one without, as functions do. */
static bool may_provide(struct iii_registry *r, struct iii_peer *peer, const json_t *m,
                        const char *id, size_t bytes)
{
    struct iii_type **at = find_type(r, type_namespace(peer, m), id);
    struct iii_peer *owner = *at ? (*at)->owner : NULL;

    if (owner && (owner == peer || (owner->asker.session && !peer->asker.session))) {
        type_free(r, at);
        if (owner != peer)
            orphan(r, owner, id);
        owner = NULL;
    }
    return !owner && !peer->forgotten && peer->types < III_TRIGGERS_MAX &&
           registry_take_bytes(r, peer, bytes);
}

void iii_registry_offer_type(struct iii_registry *r, struct iii_peer *peer, const json_t *m,
                             size_t bytes)
{
    const char *id = wire_name(m, "id", III_NAME_MAX);
    struct iii_type *t = NULL;

    (void)pthread_mutex_lock(&r->lock);
    if (id && registry_may(peer) && !iii_trigger_is_ours(id) &&
        may_provide(r, peer, m, id, bytes)) {
        t = xcalloc(1, sizeof(*t));
        *t = (struct iii_type){.namespace = xstrdup(type_namespace(peer, m)),
                               .id = xstrdup(id),
                               .description = xstrdup(json_text(m, "description")),
                               .request = wire_member(m, "trigger_request_format"),
                               .call = wire_member(m, "call_request_format"),
                               .owner = peer,
                               .bytes = bytes,
                               .next = r->types};
        r->types = t;
        peer->types++;
        adopt(r, t);
    }
    (void)pthread_mutex_unlock(&r->lock);
    if (!t)
        log_warn("a type of triggers is not registered: it may not, there are too many, or another "
                 "has that id",
                 "id", id ? id : "", "worker", peer->asker.worker_id);
}

void iii_registry_withdraw_type(struct iii_registry *r, struct iii_peer *peer, const json_t *m)
{
    const char *id = wire_name(m, "id", III_NAME_MAX);
    struct iii_type **at;

    if (!id)
        return;
    (void)pthread_mutex_lock(&r->lock);
    at = find_type(r, type_namespace(peer, m), id);
    if (*at && (*at)->owner == peer) {
        type_free(r, at);
        orphan(r, peer, id);
    }
    (void)pthread_mutex_unlock(&r->lock);
}

/* ---- the end of a connection ---- */

struct iii_bound *bindings_forget(struct iii_registry *r, struct iii_peer *peer)
{
    struct iii_bound *gone = NULL, **end = &gone;

    for (struct iii_type **at = &r->types; *at;) {
        if ((*at)->owner == peer)
            type_free(r, at);
        else
            at = &(*at)->next;
    }
    orphan(r, peer, NULL);
    for (struct iii_bound *b = r->bounds, *next; b; b = next) {
        next = b->next;
        if (b->owner != peer)
            continue;
        unlink_bound(r, b);
        *end = b;
        end = &b->next;
    }
    return gone;
}

struct iii_bound *bindings_of(struct iii_registry *r, const struct iii_peer *peer,
                              const char *namespace, const char *function_id)
{
    struct iii_bound *gone = NULL;

    for (struct iii_bound *b = r->bounds, *next; b; b = next) {
        next = b->next;
        if (b->owner != peer || b->ours || strcmp(b->function_id, function_id) != 0 ||
            strcmp(b->namespace, namespace) != 0)
            continue;
        unlink_bound(r, b);
        b->next = gone;
        gone = b;
    }
    return gone;
}

void bindings_tell(struct iii_registry *r, struct iii_bound *gone)
{
    while (gone) {
        struct iii_bound *b = gone;

        gone = b->next;
        end_bound(r, b);
    }
}

/* Those that outlived their connections. */
void bindings_free(struct iii_registry *r)
{
    while (r->bounds) {
        struct iii_bound *b = r->bounds;

        unlink_bound(r, b);
        bound_free(b);
    }
}

/* ---- introspection ---- */

json_t *iii_registry_types(struct iii_registry *r)
{
    json_t *list = json_array();

    (void)pthread_mutex_lock(&r->lock);
    for (const struct iii_type *t = r->types; t; t = t->next) {
        json_t *o =
            json_pack("{s:s, s:s, s:s, s:s}", "id", t->id, "description", t->description,
                      "namespace", t->namespace, "worker_name",
                      t->owner->about.name ? t->owner->about.name : t->owner->asker.worker_id);

        wire_put_member(o, "trigger_request_format", t->request);
        wire_put_member(o, "call_request_format", t->call);
        (void)json_array_append_new(list, o);
    }
    (void)pthread_mutex_unlock(&r->lock);
    return list;
}

json_t *iii_registry_bindings(struct iii_registry *r)
{
    json_t *list = json_array();

    drop_ended(r);
    (void)pthread_mutex_lock(&r->lock);
    for (const struct iii_bound *b = r->bounds; b; b = b->next) {
        json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:b}", "id", b->id, "trigger_type", b->type,
                              "function_id", b->function_id, "namespace", b->namespace, "active",
                              b->ours || b->provider);

        wire_put_member(o, "config", b->config ? b->config : "{}");
        wire_put_member(o, "metadata", b->metadata);
        (void)json_array_append_new(list, o);
    }
    (void)pthread_mutex_unlock(&r->lock);
    return list;
}
