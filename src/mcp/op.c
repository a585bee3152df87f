#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "mcp/mcp_internal.h"

/* One request, from its message to its answer, whatever carries them. */

#define LEVEL_KEY       "io.modelcontextprotocol/logLevel"
#define SERVER_INFO_KEY "io.modelcontextprotocol/serverInfo"

const char *const mcp_version_words[MCP_VERSIONS + 1] = {"2024-11-05", "2025-03-26", "2025-06-18",
                                                         "2025-11-25", "2026-07-28", NULL};
const char *const mcp_level_words[] = {"debug", "info",     "notice", "warning",
                                       "error", "critical", "alert",  "emergency"};

int mcp_version_of(const char *word)
{
    for (int v = 0; word && v < MCP_VERSIONS; v++)
        if (strcmp(mcp_version_words[v], word) == 0)
            return v;
    return -1;
}

int mcp_level_of(const char *word)
{
    for (int level = 0; word && level < MCP_LEVELS; level++)
        if (strcmp(mcp_level_words[level], word) == 0)
            return level;
    return -1;
}

/* ---- life ---- */

static enum mcp_level level_of(const struct mcp_op *op)
{
    const json_t *meta = json_object_get(op->params, "_meta");
    int level = mcp_level_of(json_string_value(json_object_get(meta, LEVEL_KEY)));

    if (op->session)
        return op->session->level;
    return level < 0 ? MCP_SILENT : (enum mcp_level)level;
}

struct mcp_op *mcp_op_new(struct mcp_server *s, struct mcp_session *session,
                          struct mcp_client *client, enum mcp_version version,
                          const struct rpc_message *message)
{
    struct mcp_op *op = xcalloc(1, sizeof(*op));
    json_t *token;

    op->server = s;
    op->session = session;
    op->client = client;
    op->version = version;
    op->method = message->method;
    op->id = json_incref(message->id);
    op->params = message->params ? json_incref(message->params) : json_object();
    token = json_object_get(json_object_get(op->params, "_meta"), "progressToken");
    if (rpc_is_id(token))
        op->progress_token = token;
    op->level = level_of(op);
    op->began_ns = mono_ns();
    op->progress = -1;
    return op;
}

static void work_free(struct mcp_op *op)
{
    struct mcp_work *work = op->work;

    op->work = NULL;
    if (work)
        work->ops->free(work, op);
}

void mcp_op_free(struct mcp_op *op)
{
    work_free(op);
    json_decref(op->id);
    json_decref(op->params);
    json_decref(op->answer);
    json_decref(op->asked_id);
    json_decref(op->reply);
    free(op);
}

/* ---- going on ---- */

static enum mcp_state settle(struct mcp_op *op, enum mcp_state state)
{
    if (op->work && state != MCP_DONE && !op->answer)
        return state;
    work_free(op);
    if (!op->answer && !op->cancelled)
        mcp_fail(op, RPC_INTERNAL_ERROR, NULL, "%s has no answer", op->method);
    return MCP_DONE;
}

enum mcp_state mcp_op_begin(struct mcp_op *op)
{
    if (atomic_load(&op->cancelled))
        return MCP_DONE;
    mcp_method_call(op);
    return settle(op, op->work ? MCP_AGAIN : MCP_DONE);
}

enum mcp_state mcp_op_step(struct mcp_op *op)
{
    if (atomic_load(&op->cancelled)) {
        work_free(op);
        return MCP_DONE;
    }
    return settle(op, op->work->ops->step(op->work, op));
}

/* ---- answers ---- */

json_t *mcp_server_info(const struct mcp_server *s)
{
    return json_pack("{s:s, s:s, s:s}", "name", s->config.name, "title", s->config.title, "version",
                     s->config.version);
}

/* Which results a client may keep for a while, and for how long. What one may see depends on who
 * asks, so none is for others. */
static const struct {
    const char *method;
    int ttl_ms;
} cached[] = {
    {"server/discover", 60000}, {"tools/list", 60000}, {"prompts/list", 60000},
    {"resources/list", 0},      {"resources/read", 0}, {"resources/templates/list", 60000},
};

static void add_cache(const struct mcp_op *op, json_t *result)
{
    for (size_t i = 0; i < ARRAY_LEN(cached); i++)
        if (strcmp(op->method, cached[i].method) == 0) {
            (void)json_object_set_new(result, "ttlMs", json_integer(cached[i].ttl_ms));
            (void)json_object_set_new(result, "cacheScope", json_string("private"));
        }
}

static void add_envelope(const struct mcp_op *op, json_t *result)
{
    json_t *meta = json_object_get(result, "_meta");

    if (!meta) {
        meta = json_object();
        (void)json_object_set_new(result, "_meta", meta);
    }
    (void)json_object_set_new(meta, SERVER_INFO_KEY, mcp_server_info(op->server));
    if (!json_object_get(result, "resultType"))
        (void)json_object_set_new(result, "resultType", json_string("complete"));
    add_cache(op, result);
}

void mcp_answer(struct mcp_op *op, json_t *result)
{
    if (op->version >= MCP_2026_07)
        add_envelope(op, result);
    json_decref(op->answer);
    op->answer = rpc_result(op->id, result);
}

void mcp_fail(struct mcp_op *op, int code, json_t *data, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (code == RPC_NO_RESOURCE && op->version >= MCP_2026_07)
        code = RPC_INVALID_PARAMS; /* which has no word of its own for it any more */
    json_decref(op->answer);
    op->answer = rpc_error(op->id, code, text, data);
}

/* ---- messages ahead of the answer ---- */

void mcp_progress(struct mcp_op *op, double progress, double total, const char *text)
{
    json_t *params;

    if (!op->progress_token || progress <= op->progress || !op->send)
        return;
    params = json_pack("{s:O, s:f}", "progressToken", op->progress_token, "progress", progress);
    if (total > 0)
        (void)json_object_set_new(params, "total", json_real(total));
    if (text && op->version >= MCP_2025_03)
        (void)json_object_set_new(params, "message", json_string(text));
    if (op->send(op, rpc_notification("notifications/progress", params)))
        op->progress = progress;
}

void mcp_log(struct mcp_op *op, enum mcp_level level, const char *logger, json_t *data)
{
    json_t *params;

    if (level < op->level || !op->send) {
        json_decref(data);
        return;
    }
    params = json_pack("{s:s, s:s, s:o}", "level", mcp_level_words[level], "logger", logger, "data",
                       data);
    (void)op->send(op, rpc_notification("notifications/message", params));
}

static bool can_ask(const struct mcp_op *op, const char *method)
{
    if (!op->session || !op->send)
        return false;
    return strncmp(method, "sampling/", 9) == 0 ? op->session->can_sample : op->session->can_elicit;
}

bool mcp_ask(struct mcp_op *op, const char *method, json_t *params)
{
    struct mcp_server *s = op->server;
    json_t *id;

    if (!can_ask(op, method)) {
        json_decref(params);
        return false;
    }
    (void)pthread_mutex_lock(&s->lock);
    id = json_sprintf("ask-%llu", (unsigned long long)++s->asks);
    json_decref(op->asked_id);
    json_decref(op->reply);
    op->asked_id = id;
    op->reply = NULL;
    (void)pthread_mutex_unlock(&s->lock);
    return op->send(op, rpc_request(id, method, params));
}
