#pragma once

/* Providers of MCP for tests: they know no daemon. */

#include <sys/epoll.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "mcp/provider.h"
#include "mcp/server.h"

static int fixture_begun[2] = {-1, -1}, fixture_freed[2] = {-1, -1}; /* a byte for each wait */
static struct mcp_subscription *fixture_watched;

/* ---- a tool that waits until it is cancelled ---- */

static enum mcp_state wait_step(struct mcp_work *w, struct mcp_op *op)
{
    (void)op;
    w->fd = -1;
    return MCP_WAITS;
}

static void wait_free(struct mcp_work *w, struct mcp_op *op)
{
    (void)op;
    if (fixture_freed[1] >= 0)
        (void)!write(fixture_freed[1], "x", 1);
    free(w);
}

static const struct mcp_work_ops wait_ops = {.step = wait_step, .free = wait_free};

/* ---- a tool that asks the client ---- */

static enum mcp_state ask_step(struct mcp_work *w, struct mcp_op *op)
{
    (void)w;
    if (!op->reply)
        return MCP_WAITS;
    mcp_answer(op, json_pack("{s:[{s:s, s:o}]}", "content", "type", "text", "text",
                             json_string(json_string_value(
                                 json_object_get(json_object_get(op->reply, "result"), "word")))));
    return MCP_DONE;
}

static const struct mcp_work_ops ask_ops = {.step = ask_step, .free = wait_free};

static void start_work(struct mcp_op *op, const struct mcp_work_ops *ops)
{
    op->work = xcalloc(1, sizeof(*op->work));
    *op->work = (struct mcp_work){.ops = ops, .fd = -1};
    if (fixture_begun[1] >= 0)
        (void)!write(fixture_begun[1], "x", 1);
}

static void fixture_call(void *arg, struct mcp_op *op, const char *name, json_t *arguments)
{
    (void)arg;
    if (strcmp(name, "echo") == 0) {
        mcp_answer(op, json_pack("{s:[], s:O}", "content", "structuredContent", arguments));
    } else if (strcmp(name, "tell") == 0) {
        mcp_log(op, MCP_WARNING, "fixture", json_string("careful"));
        mcp_log(op, MCP_DEBUG, "fixture", json_string("detail"));
        mcp_progress(op, 1, 2, "half");
        mcp_answer(op, json_pack("{s:[]}", "content"));
    } else if (strcmp(name, "wait") == 0) {
        start_work(op, &wait_ops);
    } else if (strcmp(name, "ask") == 0) {
        start_work(op, &ask_ops);
        if (!mcp_ask(op, "elicitation/create", json_pack("{s:s}", "message", "which?")))
            mcp_fail(op, RPC_REFUSED, NULL, "this client cannot be asked");
    } else if (strcmp(name, "mute") != 0) { /* which forgets to answer */
        mcp_fail(op, RPC_INVALID_PARAMS, NULL, "Unknown tool: %s", name);
    }
}

static void fixture_tools(void *arg, struct mcp_op *op, json_t *ret)
{
    (void)arg;
    (void)op;
    for (int i = 0; i < 450; i++)
        (void)json_array_append_new(ret, json_pack("{s:o}", "name", json_sprintf("tool%d", i)));
}

/* ---- resources and prompts ---- */

static void fixture_resources(void *arg, struct mcp_op *op, json_t *ret)
{
    (void)arg;
    (void)op;
    (void)json_array_append_new(ret, json_pack("{s:s, s:s}", "uri", "test://a", "name", "a"));
}

static void fixture_read(void *arg, struct mcp_op *op, const char *uri)
{
    (void)arg;
    if (strcmp(uri, "test://a") == 0)
        mcp_answer(op, json_pack("{s:[{s:s, s:s}]}", "contents", "uri", uri, "text", "hello"));
    else
        mcp_fail(op, RPC_NO_RESOURCE, json_pack("{s:s}", "uri", uri), "Resource not found");
}

static int fixture_subscribe(void *arg, struct mcp_op *op, struct mcp_subscription *sub,
                             struct err *err)
{
    (void)arg;
    (void)op;
    if (strncmp(sub->uri, "test://", 7) != 0)
        return err_set(err, ERR_NOT_FOUND, "there is no %s", sub->uri);
    fixture_watched = sub;
    return 0;
}

static void fixture_unsubscribe(void *arg, struct mcp_subscription *sub)
{
    (void)arg;
    if (fixture_watched == sub)
        fixture_watched = NULL;
}

static void fixture_get(void *arg, struct mcp_op *op, const char *name, json_t *arguments)
{
    (void)arg;
    (void)arguments;
    mcp_answer(op, json_pack("{s:s, s:[]}", "description", name, "messages"));
}

static void fixture_complete(void *arg, struct mcp_op *op, const json_t *ref, const char *name,
                             const char *value, const json_t *others, json_t *ret)
{
    (void)arg;
    (void)op;
    (void)ref;
    (void)name;
    (void)others;
    for (int i = 0; i < 150; i++)
        (void)json_array_append_new(ret, json_sprintf("%s%d", value, i));
}

static const struct mcp_tools fixture_tool_ops = {.list = fixture_tools, .call = fixture_call};
static const struct mcp_resources fixture_resource_ops = {.list = fixture_resources,
                                                          .templates = fixture_resources,
                                                          .read = fixture_read,
                                                          .subscribe = fixture_subscribe,
                                                          .unsubscribe = fixture_unsubscribe};
static const struct mcp_prompts fixture_prompt_ops = {.list = fixture_resources,
                                                      .get = fixture_get};
static const struct mcp_providers fixture_providers = {.tools = &fixture_tool_ops,
                                                       .resources = &fixture_resource_ops,
                                                       .prompts = &fixture_prompt_ops,
                                                       .complete = fixture_complete};
