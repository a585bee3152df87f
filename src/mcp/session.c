#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "mcp/mcp_internal.h"

/* Sessions: what is remembered of a client between its requests. They live in memory only: a client
 * whose session is not known (the daemon was started anew) is told so with 404 and begins anew. */

#define SECOND_NS 1000000000ll

/* ---- under the lock ---- */

static void enlist(struct mcp_server *s, struct mcp_session *one)
{
    one->prev = NULL;
    one->next_session = s->sessions;
    if (s->sessions)
        s->sessions->prev = one;
    s->sessions = one;
}

static void delist(struct mcp_server *s, struct mcp_session *one)
{
    if (one->prev)
        one->prev->next_session = one->next_session;
    else
        s->sessions = one->next_session;
    if (one->next_session)
        one->next_session->prev = one->prev;
}

static void touch(struct mcp_server *s, struct mcp_session *one)
{
    one->used_ns = mono_ns();
    delist(s, one);
    enlist(s, one);
}

static void free_now(struct mcp_session *one, unsigned kept)
{
    for (unsigned i = 0; i < kept; i++)
        free(one->waiting[i].text);
    free(one->waiting);
    mcp_choice_done(&one->choice);
    free(one);
}

/* Nobody finds it any more, and what it does ends. Its subscriptions are the caller's to end, since
 * providers are not called under the lock. */
static struct mcp_subscription *forget(struct mcp_server *s, struct mcp_session *one)
{
    struct mcp_subscription *subscriptions = one->subscriptions;

    one->gone = true;
    for (struct mcp_subscription *sub = subscriptions; sub; sub = sub->next)
        sub->session = NULL; /* until it is ended it may still be told that something changed */
    one->subscriptions = NULL;
    one->n_subscriptions = 0;
    delist(s, one);
    s->n_sessions--;
    for (struct mcp_op *op = one->ops; op; op = op->next) {
        atomic_store(&op->cancelled, true);
        mcp_exchange_wake(op);
    }
    if (one->stream)
        mcp_stream_wake(one->stream);
    if (one->used == 0)
        free_now(one, s->config.limits.waiting);
    return subscriptions;
}

/* ---- beside it ---- */

static void end_subscriptions(struct mcp_server *s, struct mcp_subscription *list)
{
    const struct mcp_providers *p = s->providers;

    while (list) {
        struct mcp_subscription *next = list->next;

        p->resources->unsubscribe(p->arg, list);
        free(list->uri);
        free(list);
        list = next;
    }
}

static bool has_half(const struct mcp_server *s, const struct caller *caller)
{
    unsigned own = 0;

    for (const struct mcp_session *one = s->sessions; one; one = one->next_session)
        own += strcmp(one->owner, caller->name) == 0;
    return own >= (s->config.limits.sessions + 1) / 2;
}

/* A token is for somebody who shares the daemon with others, and leaves them half of it. */
static bool is_full(const struct mcp_server *s, const struct caller *caller)
{
    return s->n_sessions >= s->config.limits.sessions ||
           (caller->token_id[0] && has_half(s, caller));
}

/* Whose place a new one gets: that of the one which has been idle for longest; of the caller's own,
 * if it has half of all, so that nobody can push all others out. NULL = none is idle. */
static struct mcp_session *find_place(const struct mcp_server *s, const struct caller *caller)
{
    bool own_only = has_half(s, caller);
    struct mcp_session *last = NULL;

    for (struct mcp_session *one = s->sessions; one; one = one->next_session)
        if (one->used == 0 && (!own_only || strcmp(one->owner, caller->name) == 0))
            last = one;
    return last;
}

/* Those that nobody has used for long go, and one more when its place is needed. */
static struct mcp_subscription *sweep(struct mcp_server *s, const struct caller *caller)
{
    int64_t oldest = mono_ns() - s->config.limits.idle_s * SECOND_NS;
    struct mcp_subscription *ended = NULL, **end = &ended;
    struct mcp_session *place;

    for (struct mcp_session *one = s->sessions, *next; one; one = next) {
        next = one->next_session;
        if (one->used == 0 && one->used_ns < oldest) {
            *end = forget(s, one);
            while (*end)
                end = &(*end)->next;
        }
    }
    place = is_full(s, caller) ? find_place(s, caller) : NULL;
    if (place)
        *end = forget(s, place);
    return ended;
}

static struct mcp_session *make(struct mcp_server *s, const struct caller *caller,
                                enum mcp_version version, const struct mcp_choice *choice)
{
    struct mcp_session *one = xcalloc(1, sizeof(*one));

    id_new(one->id, "mcp");
    (void)snprintf(one->owner, sizeof(one->owner), "%s", caller->name);
    one->version = version;
    mcp_choice_copy(&one->choice, choice);
    one->used = 1;
    one->used_ns = mono_ns();
    one->level = MCP_DEBUG; /* until it says what it wants */
    one->waiting = xcalloc(s->config.limits.waiting, sizeof(*one->waiting));
    one->first = one->next = 1;
    return one;
}

struct mcp_session *mcp_session_new(struct mcp_server *s, const struct caller *caller,
                                    enum mcp_version version, const struct mcp_choice *choice,
                                    struct err *err)
{
    struct mcp_subscription *ended;
    struct mcp_session *one = NULL;

    (void)pthread_mutex_lock(&s->lock);
    ended = sweep(s, caller);
    if (!is_full(s, caller)) {
        one = make(s, caller, version, choice);
        enlist(s, one);
        s->n_sessions++;
    }
    (void)pthread_mutex_unlock(&s->lock);
    end_subscriptions(s, ended);
    if (!one)
        (void)err_code(err, ERR_UNAVAILABLE, "busy",
                       "as many MCP sessions as may be (%u, and half of them for one token) are in "
                       "use; try again when some have ended",
                       s->config.limits.sessions);
    return one;
}

struct mcp_session *mcp_session_find(struct mcp_server *s, const struct caller *caller,
                                     const char *id)
{
    struct mcp_session *one;

    (void)pthread_mutex_lock(&s->lock);
    for (one = s->sessions; one; one = one->next_session)
        if (strcmp(one->id, id) == 0 && strcmp(one->owner, caller->name) == 0)
            break;
    if (one) {
        one->used++;
        touch(s, one);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return one;
}

void mcp_session_leave(struct mcp_server *s, struct mcp_session *one)
{
    (void)pthread_mutex_lock(&s->lock);
    one->used--;
    one->used_ns = mono_ns();
    if (one->gone && one->used == 0)
        free_now(one, s->config.limits.waiting);
    (void)pthread_mutex_unlock(&s->lock);
}

void mcp_session_end(struct mcp_server *s, struct mcp_session *one)
{
    struct mcp_subscription *ended = NULL;

    (void)pthread_mutex_lock(&s->lock);
    if (!one->gone)
        ended = forget(s, one);
    (void)pthread_mutex_unlock(&s->lock);
    end_subscriptions(s, ended);
}

/* ---- requests ---- */

int mcp_session_enter(struct mcp_session *one, struct mcp_op *op, struct err *err)
{
    struct mcp_server *s = op->server;
    unsigned max = s->config.limits.in_flight;
    bool fits;

    (void)pthread_mutex_lock(&s->lock);
    fits = one->n_ops < max;
    if (fits) {
        op->next = one->ops;
        if (op->next)
            op->next->prev = op;
        one->ops = op;
        one->n_ops++;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (fits)
        return 0;
    return err_code(err, ERR_LIMIT, "too_many_requests",
                    "this session has %u requests that are not answered yet, and may have no more",
                    max);
}

void mcp_session_exit(struct mcp_op *op)
{
    struct mcp_session *one = op->session;

    (void)pthread_mutex_lock(&op->server->lock);
    if (op->prev)
        op->prev->next = op->next;
    else
        one->ops = op->next;
    if (op->next)
        op->next->prev = op->prev;
    one->n_ops--;
    (void)pthread_mutex_unlock(&op->server->lock);
}

void mcp_session_cancel(struct mcp_server *s, struct mcp_session *one, const json_t *id)
{
    (void)pthread_mutex_lock(&s->lock);
    for (struct mcp_op *op = one->ops; op; op = op->next)
        if (json_equal(op->id, id) && strcmp(op->method, "initialize") != 0) {
            atomic_store(&op->cancelled, true);
            mcp_exchange_wake(op);
            break;
        }
    (void)pthread_mutex_unlock(&s->lock);
}

void mcp_session_reply(struct mcp_server *s, struct mcp_session *one,
                       const struct rpc_message *message)
{
    bool ok = message->result != NULL;

    (void)pthread_mutex_lock(&s->lock);
    for (struct mcp_op *op = one->ops; op; op = op->next)
        if (!op->reply && op->asked_id && json_equal(op->asked_id, message->id)) {
            op->reply =
                json_pack("{s:O}", ok ? "result" : "error", ok ? message->result : message->error);
            mcp_exchange_wake(op);
            break;
        }
    (void)pthread_mutex_unlock(&s->lock);
}

/* ---- messages that belong to no request ---- */

void mcp_session_put(struct mcp_server *s, struct mcp_session *one, json_t *message)
{
    unsigned max = s->config.limits.waiting;
    struct mcp_waiting *place = &one->waiting[one->next % max];

    free(place->text);
    *place = (struct mcp_waiting){one->next, json_dumps(message, MCP_DUMP | JSON_ENSURE_ASCII)};
    one->next++;
    if (one->next - one->first > max)
        one->first = one->next - max; /* the oldest has gone */
    if (one->stream)
        mcp_stream_wake(one->stream);
    json_decref(message);
}

struct mcp_subscription *mcp_session_unsubscribe(struct mcp_server *s, struct mcp_session *one,
                                                 const char *uri)
{
    struct mcp_subscription **at, *found;

    (void)pthread_mutex_lock(&s->lock);
    for (at = &one->subscriptions; *at && strcmp((*at)->uri, uri) != 0; at = &(*at)->next)
        ;
    found = *at;
    if (found) {
        *at = found->next;
        found->next = NULL;
        one->n_subscriptions--;
    }
    (void)pthread_mutex_unlock(&s->lock);
    return found;
}
