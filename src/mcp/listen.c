#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "mcp/mcp_internal.h"

/* Who is told that something has changed. In revisions with sessions that is a session, through its
 * stream; in those without it is a request, subscriptions/listen, whose answer is the stream: what
 * it hears of is said first, each message names it, and it is answered when the daemon ends. What
 * changes twice before it was told is told once. */

#define SUBSCRIPTION_ID_KEY "io.modelcontextprotocol/subscriptionId"
#define LISTENS_MAX         1024

struct mcp_listen {
    struct mcp_work work; /* first: the work's functions get it */
    struct mcp_op *op;
    bool wants[MCP_LISTS];

    /* under the server's lock */
    bool changed[MCP_LISTS];
    struct mcp_subscription *subscriptions;
    struct mcp_listen *prev, *next;

    json_t *acknowledged; /* what is to be said first; NULL once it was */
};

static const char *const list_methods[MCP_LISTS] = {
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/prompts/list_changed",
};
static const char *const list_words[MCP_LISTS] = {"toolsListChanged", "resourcesListChanged",
                                                  "promptsListChanged"};

/* ---- telling ---- */

static json_t *updated(const struct mcp_subscription *sub, json_t *meta)
{
    json_t *params = json_pack("{s:s}", "uri", sub->uri);

    if (meta)
        (void)json_object_set_new(params, "_meta", meta);
    return rpc_notification("notifications/resources/updated", params);
}

/* Its last message has not been taken, and is still kept. */
static bool is_waiting(const struct mcp_subscription *sub)
{
    return sub->number > sub->session->taken && sub->number >= sub->session->first;
}

void mcp_updated(struct mcp_server *s, struct mcp_subscription *sub)
{
    (void)pthread_mutex_lock(&s->lock);
    if (sub->listen && !sub->changed) {
        sub->changed = true;
        mcp_exchange_wake(sub->listen->op);
    }
    if (sub->session && !sub->session->gone && !is_waiting(sub)) {
        sub->number = sub->session->next;
        mcp_session_put(s, sub->session, updated(sub, NULL));
    }
    (void)pthread_mutex_unlock(&s->lock);
}

void mcp_list_changed(struct mcp_server *s, enum mcp_list list)
{
    (void)pthread_mutex_lock(&s->lock);
    for (struct mcp_session *one = s->sessions; one; one = one->next_session)
        mcp_session_put(s, one, rpc_notification(list_methods[list], NULL));
    for (struct mcp_listen *one = s->listens; one; one = one->next)
        if (one->wants[list] && !one->changed[list]) {
            one->changed[list] = true;
            mcp_exchange_wake(one->op);
        }
    (void)pthread_mutex_unlock(&s->lock);
}

/* ---- the request ---- */

static json_t *stamp(const struct mcp_listen *l)
{
    return json_pack("{s:O}", SUBSCRIPTION_ID_KEY, l->op->id);
}

/* The next thing that it has not been told; NULL = nothing. */
static json_t *take_news(struct mcp_listen *l)
{
    struct mcp_server *s = l->op->server;
    json_t *message = NULL;

    (void)pthread_mutex_lock(&s->lock);
    for (int list = 0; list < MCP_LISTS && !message; list++)
        if (l->changed[list]) {
            l->changed[list] = false;
            message = rpc_notification(list_methods[list], json_pack("{s:o}", "_meta", stamp(l)));
        }
    for (struct mcp_subscription *sub = l->subscriptions; sub && !message; sub = sub->next)
        if (sub->changed) {
            sub->changed = false;
            message = updated(sub, stamp(l));
        }
    (void)pthread_mutex_unlock(&s->lock);
    return message;
}

static enum mcp_state step(struct mcp_work *w, struct mcp_op *op)
{
    struct mcp_listen *l = (struct mcp_listen *)w;
    json_t *message = l->acknowledged;

    l->acknowledged = NULL;
    if (!message)
        message = take_news(l);
    if (!message)
        return MCP_WAITS;
    (void)op->send(op, message);
    return MCP_AGAIN; /* once the client has taken it */
}

static void free_listen(struct mcp_work *w, struct mcp_op *op)
{
    struct mcp_listen *l = (struct mcp_listen *)w;
    const struct mcp_providers *p = op->server->providers;
    struct mcp_server *s = op->server;

    for (struct mcp_subscription *sub = l->subscriptions, *next; sub; sub = next) {
        next = sub->next;
        p->resources->unsubscribe(p->arg, sub);
        free(sub->uri);
        free(sub);
    }
    (void)pthread_mutex_lock(&s->lock);
    if (l->prev)
        l->prev->next = l->next;
    else
        s->listens = l->next;
    if (l->next)
        l->next->prev = l->prev;
    s->n_listens--;
    (void)pthread_mutex_unlock(&s->lock);
    json_decref(l->acknowledged);
    free(l);
}

static const struct mcp_work_ops listen_ops = {.step = step, .free = free_listen};

/* What cannot be had is left out of what is acknowledged. */
static void subscribe(struct mcp_listen *l, const json_t *uris, json_t *honored)
{
    const struct mcp_providers *p = l->op->server->providers;
    json_t *kept = json_array(), *uri;
    size_t i;

    json_array_foreach(uris, i, uri)
    {
        struct mcp_subscription *sub;

        if (!json_is_string(uri) || i >= l->op->server->config.limits.subscribed)
            continue;
        sub = xcalloc(1, sizeof(*sub));
        sub->uri = xstrdup(json_string_value(uri));
        sub->listen = l;
        sub->next = l->subscriptions;
        if (p->resources->subscribe(p->arg, l->op, sub, NULL) < 0) {
            free(sub->uri);
            free(sub);
            continue;
        }
        l->subscriptions = sub;
        (void)json_array_append(kept, uri);
    }
    if (json_array_size(kept) > 0)
        (void)json_object_set(honored, "resourceSubscriptions", kept);
    json_decref(kept);
}

/* One token leaves half of them to others. */
static bool is_full(const struct mcp_server *s, const struct caller *caller)
{
    unsigned own = 0;

    for (const struct mcp_listen *l = s->listens; l && caller->token_id[0]; l = l->next)
        own += strcmp(l->op->client->caller.token_id, caller->token_id) == 0;
    return s->n_listens >= LISTENS_MAX || own >= LISTENS_MAX / 2;
}

static bool enlist(struct mcp_listen *l)
{
    struct mcp_server *s = l->op->server;
    bool fits;

    (void)pthread_mutex_lock(&s->lock);
    fits = !is_full(s, &l->op->client->caller);
    if (fits) {
        l->next = s->listens;
        if (l->next)
            l->next->prev = l;
        s->listens = l;
        s->n_listens++;
    }
    (void)pthread_mutex_unlock(&s->lock);
    return fits;
}

void mcp_listen_begin(struct mcp_op *op)
{
    const json_t *wanted = json_object_get(op->params, "notifications");
    const struct mcp_resources *resources = op->server->providers->resources;
    json_t *honored = json_object();
    struct mcp_listen *l;

    l = xcalloc(1, sizeof(*l));
    l->work = (struct mcp_work){.ops = &listen_ops, .fd = -1};
    l->op = op;
    if (!enlist(l)) {
        mcp_fail(op, RPC_REFUSED, NULL,
                 "as many requests as may listen do: %d, and half of them for one token",
                 LISTENS_MAX);
        json_decref(honored);
        free(l);
        return;
    }
    for (int list = 0; list < MCP_LISTS; list++)
        if (json_is_true(json_object_get(wanted, list_words[list]))) {
            l->wants[list] = true;
            (void)json_object_set_new(honored, list_words[list], json_true());
        }
    if (resources && resources->subscribe)
        subscribe(l, json_object_get(wanted, "resourceSubscriptions"), honored);
    l->acknowledged =
        rpc_notification("notifications/subscriptions/acknowledged",
                         json_pack("{s:o, s:o}", "notifications", honored, "_meta", stamp(l)));
    op->work = &l->work;
}

void mcp_listen_end(struct mcp_op *op)
{
    mcp_answer(op, json_pack("{s:o}", "_meta", stamp((struct mcp_listen *)op->work)));
}
