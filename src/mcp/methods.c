#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "mcp/mcp_internal.h"

/* What each method does. One that is called without what it needs, or in a revision that has not
 * got it, is refused before its function is called. */

#define PAGE_ITEMS     200
#define COMPLETION_MAX 100

/* ---- lists ---- */

typedef void (*lister)(void *arg, struct mcp_op *op, json_t *ret);

/* A cursor is where the page begins; to clients it is a word. */
static int read_cursor(struct mcp_op *op, size_t *ret)
{
    const json_t *cursor = json_object_get(op->params, "cursor");
    uint64_t number = 0;

    if (cursor && !json_is_null(cursor) &&
        (!json_is_string(cursor) || str_u64(json_string_value(cursor), &number) < 0 ||
         number > SIZE_MAX / 2)) {
        mcp_fail(op, RPC_INVALID_PARAMS, NULL, "the cursor is none that was given out");
        return -1;
    }
    *ret = (size_t)number;
    return 0;
}

static void answer_list(struct mcp_op *op, const char *key, lister list)
{
    json_t *all = json_array(), *page = json_array(), *result;
    size_t from, to;

    if (read_cursor(op, &from) == 0) {
        list(op->server->providers->arg, op, all);
        to = from + PAGE_ITEMS < json_array_size(all) ? from + PAGE_ITEMS : json_array_size(all);
        for (size_t i = from; i < to; i++)
            (void)json_array_append(page, json_array_get(all, i));
        result = json_pack("{s:O}", key, page);
        if (to < json_array_size(all))
            (void)json_object_set_new(result, "nextCursor", json_sprintf("%zu", to));
        if (!op->answer) /* the provider may have refused */
            mcp_answer(op, result);
        else
            json_decref(result);
    }
    json_decref(all);
    json_decref(page);
}

/* ---- who we are ---- */

static json_t *capabilities(const struct mcp_op *op)
{
    const struct mcp_providers *p = op->server->providers;
    json_t *all = json_object();

    if (p->tools)
        (void)json_object_set_new(all, "tools", json_pack("{s:b}", "listChanged", 0));
    if (p->resources)
        (void)json_object_set_new(all, "resources",
                                  json_pack("{s:b, s:b}", "subscribe",
                                            p->resources->subscribe != NULL, "listChanged",
                                            (int)p->resources->list_changes));
    if (p->prompts)
        (void)json_object_set_new(all, "prompts", json_pack("{s:b}", "listChanged", 0));
    if (p->complete)
        (void)json_object_set_new(all, "completions", json_object());
    (void)json_object_set_new(all, "logging", json_object());
    return all;
}

static void initialize(struct mcp_op *op)
{
    const json_t *theirs = json_object_get(op->params, "capabilities");
    json_t *result;

    (void)pthread_mutex_lock(&op->server->lock);
    op->session->can_sample = json_object_get(theirs, "sampling") != NULL;
    op->session->can_elicit = json_object_get(theirs, "elicitation") != NULL;
    (void)pthread_mutex_unlock(&op->server->lock);
    result = json_pack("{s:s, s:o, s:o}", "protocolVersion", mcp_version_words[op->version],
                       "capabilities", capabilities(op), "serverInfo", mcp_server_info(op->server));
    if (op->server->config.instructions)
        (void)json_object_set_new(result, "instructions",
                                  json_string(op->server->config.instructions));
    mcp_answer(op, result);
}

static void discover(struct mcp_op *op)
{
    json_t *versions = json_array(), *result;

    for (int v = MCP_VERSIONS - 1; v >= 0; v--)
        (void)json_array_append_new(versions, json_string(mcp_version_words[v]));
    result =
        json_pack("{s:o, s:o}", "supportedVersions", versions, "capabilities", capabilities(op));
    if (op->server->config.instructions)
        (void)json_object_set_new(result, "instructions",
                                  json_string(op->server->config.instructions));
    mcp_answer(op, result);
}

static void ping(struct mcp_op *op)
{
    mcp_answer(op, json_object());
}

static void set_level(struct mcp_op *op)
{
    const char *word = json_string_value(json_object_get(op->params, "level"));
    int level = mcp_level_of(word);

    if (level < 0) {
        mcp_fail(op, RPC_INVALID_PARAMS, NULL,
                 "level must be debug, info, notice, warning, error, critical, alert or emergency");
        return;
    }
    (void)pthread_mutex_lock(&op->server->lock);
    op->session->level = (enum mcp_level)level;
    (void)pthread_mutex_unlock(&op->server->lock);
    mcp_answer(op, json_object());
}

/* ---- tools ---- */

static void list_tools(struct mcp_op *op)
{
    answer_list(op, "tools", op->server->providers->tools->list);
}

static void call_tool(struct mcp_op *op)
{
    const struct mcp_providers *p = op->server->providers;
    const char *name = json_string_value(json_object_get(op->params, "name"));
    json_t *arguments = json_object_get(op->params, "arguments");

    if (!arguments || json_is_null(arguments)) {
        arguments = json_object();
        (void)json_object_set_new(op->params, "arguments", arguments);
    }
    if (!name || !json_is_object(arguments))
        mcp_fail(op, RPC_INVALID_PARAMS, NULL, "name must be a string and arguments an object");
    else
        p->tools->call(p->arg, op, name, arguments);
}

/* ---- resources ---- */

static const char *uri_of(struct mcp_op *op)
{
    const char *uri = json_string_value(json_object_get(op->params, "uri"));

    if (!uri)
        mcp_fail(op, RPC_INVALID_PARAMS, NULL, "uri must be a string");
    return uri;
}

static void list_resources(struct mcp_op *op)
{
    answer_list(op, "resources", op->server->providers->resources->list);
}

static void list_templates(struct mcp_op *op)
{
    answer_list(op, "resourceTemplates", op->server->providers->resources->templates);
}

static void read_resource(struct mcp_op *op)
{
    const struct mcp_providers *p = op->server->providers;
    const char *uri = uri_of(op);

    if (uri)
        p->resources->read(p->arg, op, uri);
}

static bool may_subscribe(struct mcp_op *op)
{
    if (op->server->providers->resources->subscribe)
        return true;
    mcp_fail(op, RPC_METHOD_NOT_FOUND, NULL, "nothing can be subscribed to");
    return false;
}

static void unsubscribe(struct mcp_op *op)
{
    const struct mcp_providers *p = op->server->providers;
    const char *uri = uri_of(op);
    struct mcp_subscription *sub;

    if (!uri || !may_subscribe(op))
        return;
    sub = mcp_session_unsubscribe(op->server, op->session, uri);
    if (sub) {
        p->resources->unsubscribe(p->arg, sub);
        free(sub->uri);
        free(sub);
    }
    mcp_answer(op, json_object());
}

/* True when the session has room for it, and not yet that one. */
static bool is_new(struct mcp_op *op, const char *uri)
{
    struct mcp_server *s = op->server;
    unsigned max = s->config.limits.subscribed;
    bool has = false, full;

    (void)pthread_mutex_lock(&s->lock);
    full = op->session->n_subscriptions >= max;
    for (struct mcp_subscription *one = op->session->subscriptions; one; one = one->next)
        has |= strcmp(one->uri, uri) == 0;
    (void)pthread_mutex_unlock(&s->lock);
    if (has)
        mcp_answer(op, json_object());
    else if (full)
        mcp_fail(op, RPC_REFUSED, NULL, "a session may have %u subscriptions", max);
    return !has && !full;
}

static void subscribe(struct mcp_op *op)
{
    const struct mcp_providers *p = op->server->providers;
    const char *uri = uri_of(op);
    struct mcp_subscription *sub;
    struct err err = {0};
    bool kept;

    if (!uri || !may_subscribe(op) || !is_new(op, uri))
        return;
    sub = xcalloc(1, sizeof(*sub));
    sub->uri = xstrdup(uri);
    sub->session = op->session;
    if (p->resources->subscribe(p->arg, op, sub, &err) < 0) {
        mcp_fail(op, RPC_NO_RESOURCE, json_pack("{s:s}", "uri", uri), "%s", err.text);
        free(sub->uri);
        free(sub);
        return;
    }
    (void)pthread_mutex_lock(&op->server->lock);
    kept = !op->session->gone;
    if (kept) {
        sub->next = op->session->subscriptions;
        op->session->subscriptions = sub;
        op->session->n_subscriptions++;
    }
    (void)pthread_mutex_unlock(&op->server->lock);
    if (!kept) {
        p->resources->unsubscribe(p->arg, sub);
        free(sub->uri);
        free(sub);
    }
    mcp_answer(op, json_object());
}

/* ---- prompts ---- */

static void list_prompts(struct mcp_op *op)
{
    answer_list(op, "prompts", op->server->providers->prompts->list);
}

static void get_prompt(struct mcp_op *op)
{
    const struct mcp_providers *p = op->server->providers;
    const char *name = json_string_value(json_object_get(op->params, "name"));
    json_t *arguments = json_object_get(op->params, "arguments");

    if (json_is_null(arguments))
        arguments = NULL;
    if (!name || (arguments && !json_is_object(arguments)))
        mcp_fail(op, RPC_INVALID_PARAMS, NULL, "name must be a string and arguments an object");
    else
        p->prompts->get(p->arg, op, name, arguments);
}

static void complete(struct mcp_op *op)
{
    const struct mcp_providers *p = op->server->providers;
    const json_t *ref = json_object_get(op->params, "ref");
    const json_t *argument = json_object_get(op->params, "argument");
    const char *name = json_string_value(json_object_get(argument, "name"));
    const char *value = json_string_value(json_object_get(argument, "value"));
    json_t *values;
    size_t total;

    if (!json_is_object(ref) || !name || !value) {
        mcp_fail(op, RPC_INVALID_PARAMS, NULL,
                 "ref must be an object, argument one with name and value");
        return;
    }
    values = json_array();
    p->complete(p->arg, op, ref, name, value,
                json_object_get(json_object_get(op->params, "context"), "arguments"), values);
    total = json_array_size(values);
    while (json_array_size(values) > COMPLETION_MAX)
        (void)json_array_remove(values, json_array_size(values) - 1);
    if (!op->answer)
        mcp_answer(op, json_pack("{s:{s:O, s:I, s:b}}", "completion", "values", values, "total",
                                 (json_int_t)total, "hasMore", total > COMPLETION_MAX));
    json_decref(values);
}

/* ---- the table ---- */

enum needs { NEEDS_NOTHING, NEEDS_TOOLS, NEEDS_RESOURCES, NEEDS_PROMPTS, NEEDS_COMPLETE };

static const struct method {
    const char *name;
    enum needs needs;
    enum mcp_version since, until;
    void (*call)(struct mcp_op *op);
} methods[] = {
    {"initialize", NEEDS_NOTHING, MCP_2024_11, MCP_2025_11, initialize},
    {"ping", NEEDS_NOTHING, MCP_2024_11, MCP_2025_11, ping},
    {"logging/setLevel", NEEDS_NOTHING, MCP_2024_11, MCP_2025_11, set_level},
    {"server/discover", NEEDS_NOTHING, MCP_2026_07, MCP_2026_07, discover},
    {"tools/list", NEEDS_TOOLS, MCP_2024_11, MCP_2026_07, list_tools},
    {"tools/call", NEEDS_TOOLS, MCP_2024_11, MCP_2026_07, call_tool},
    {"resources/list", NEEDS_RESOURCES, MCP_2024_11, MCP_2026_07, list_resources},
    {"resources/templates/list", NEEDS_RESOURCES, MCP_2024_11, MCP_2026_07, list_templates},
    {"resources/read", NEEDS_RESOURCES, MCP_2024_11, MCP_2026_07, read_resource},
    {"resources/subscribe", NEEDS_RESOURCES, MCP_2024_11, MCP_2025_11, subscribe},
    {"resources/unsubscribe", NEEDS_RESOURCES, MCP_2024_11, MCP_2025_11, unsubscribe},
    {"subscriptions/listen", NEEDS_NOTHING, MCP_2026_07, MCP_2026_07, mcp_listen_begin},
    {"prompts/list", NEEDS_PROMPTS, MCP_2024_11, MCP_2026_07, list_prompts},
    {"prompts/get", NEEDS_PROMPTS, MCP_2024_11, MCP_2026_07, get_prompt},
    {"completion/complete", NEEDS_COMPLETE, MCP_2024_11, MCP_2026_07, complete},
};

static bool is_served(const struct mcp_providers *p, enum needs needs)
{
    switch (needs) {
    case NEEDS_NOTHING:
        return true;
    case NEEDS_TOOLS:
        return p->tools;
    case NEEDS_RESOURCES:
        return p->resources;
    case NEEDS_PROMPTS:
        return p->prompts;
    case NEEDS_COMPLETE:
        return p->complete;
    }
    abort();
}

void mcp_method_call(struct mcp_op *op)
{
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        const struct method *m = &methods[i];

        if (strcmp(m->name, op->method) == 0 && op->version >= m->since &&
            op->version <= m->until && is_served(op->server->providers, m->needs)) {
            m->call(op);
            return;
        }
    }
    mcp_fail(op, RPC_METHOD_NOT_FOUND, NULL, "there is no method %.100s in revision %s", op->method,
             mcp_version_words[op->version]);
}

void mcp_notified(struct mcp_server *s, struct mcp_session *session,
                  const struct rpc_message *message)
{
    const json_t *id = json_object_get(message->params, "requestId");

    if (strcmp(message->method, "notifications/cancelled") == 0 && id)
        mcp_session_cancel(s, session, id);
}
