/* An MCP server for the official conformance suite: the daemon's engine, with what the suite wants
 * to find (a JSON file, which is the only argument). It prints its port and ends with stdin. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "http/server.h"
#include "mcp/provider.h"
#include "mcp/server.h"
#include "rest/auth.h"

#define STEP_NS 50000000ll /* between what a tool says on its way */

static json_t *fixture;
static struct mcp_server *server;

/* ---- what is in the file ---- */

/* "${name}" in a text becomes the argument of that name. */
static void fill(struct buf *out, const char *text, const json_t *values)
{
    while (*text) {
        const char *open = strstr(text, "${"), *close = open ? strchr(open, '}') : NULL;
        auto_free char *name = close ? xstrndup(open + 2, (size_t)(close - open - 2)) : NULL;
        const char *value = name ? json_string_value(json_object_get(values, name)) : NULL;

        (void)buf_add(out, text, close ? (size_t)(open - text) : strlen(text));
        if (!close)
            return;
        (void)buf_add_str(out, value ? value : "");
        text = close + 1;
    }
}

static json_t *filled(const json_t *what, const json_t *values)
{
    json_t *copy, *one;
    const char *key;
    size_t i;

    if (json_is_string(what)) {
        auto_buf struct buf text = {0};

        buf_init(&text, 1 << 20);
        fill(&text, json_string_value(what), values);
        return json_string(text.data ? text.data : "");
    }
    if (json_is_array(what)) {
        copy = json_array();
        json_array_foreach(what, i, one)
        {
            (void)json_array_append_new(copy, filled(one, values));
        }
        return copy;
    }
    if (!json_is_object(what))
        return json_deep_copy(what);
    copy = json_object();
    json_object_foreach((json_t *)what, key, one)
    {
        (void)json_object_set_new(copy, key, filled(one, values));
    }
    return copy;
}

static const json_t *find(const char *kind, const char *key, const char *value)
{
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(fixture, kind), i, one)
    {
        const char *word = json_string_value(json_object_get(json_object_get(one, "shown"), key));

        if (word && strcmp(word, value) == 0)
            return one;
    }
    return NULL;
}

static void list(const char *kind, json_t *ret)
{
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(fixture, kind), i, one)
    {
        (void)json_array_append(ret, json_object_get(one, "shown"));
    }
}

/* ---- tools ---- */

struct work {
    struct mcp_work work; /* first */
    const json_t *tool;
    json_t *arguments;
    size_t at; /* steps that were taken */
};

static bool tell(struct mcp_op *op, const json_t *one)
{
    const json_t *log = json_object_get(one, "log"), *progress = json_object_get(one, "progress");

    if (log)
        mcp_log(op, MCP_INFO, "fixture", json_deep_copy(log));
    if (progress)
        mcp_progress(op, json_number_value(progress), 100, NULL);
    return true;
}

static void answer_asked(struct mcp_op *op, const struct work *w)
{
    const json_t *result = json_object_get(op->reply, "result");
    const json_t *content = json_object_get(result, "content");
    const char *said = json_string_value(json_object_get(content, "text"));
    auto_free char *dump = json_dumps(content ? content : json_null(), JSON_ENCODE_ANY);
    json_t *values =
        json_pack("{s:s, s:s, s:s}", "said", said ? said : "", "content", dump, "action", "");

    if (json_object_get(result, "action"))
        (void)json_object_set(values, "action", json_object_get(result, "action"));
    mcp_answer(op, filled(json_object_get(w->tool, "result"), values));
    json_decref(values);
}

static enum mcp_state step(struct mcp_work *work, struct mcp_op *op)
{
    struct work *w = (struct work *)work;
    const json_t *steps = json_object_get(w->tool, "steps"),
                 *asks = json_object_get(w->tool, "ask");

    if (work->until_ns && mono_ns() < work->until_ns)
        return MCP_WAITS;
    work->until_ns = 0;
    if (w->at < json_array_size(steps)) {
        (void)tell(op, json_array_get(steps, w->at++));
        work->until_ns = mono_ns() + STEP_NS;
        return MCP_WAITS;
    }
    if (asks && !op->reply)
        return MCP_WAITS;
    if (asks)
        answer_asked(op, w);
    else
        mcp_answer(op, filled(json_object_get(w->tool, "result"), w->arguments));
    return MCP_DONE;
}

static void free_work(struct mcp_work *work, struct mcp_op *op)
{
    (void)op;
    json_decref(((struct work *)work)->arguments);
    free(work);
}

static const struct mcp_work_ops work_ops = {.step = step, .free = free_work};

static void list_tools(void *arg, struct mcp_op *op, json_t *ret)
{
    (void)arg;
    (void)op;
    list("tools", ret);
}

static void call(void *arg, struct mcp_op *op, const char *name, json_t *arguments)
{
    const json_t *tool = find("tools", "name", name), *asks = json_object_get(tool, "ask");
    struct work *w;

    (void)arg;
    if (!tool) {
        mcp_fail(op, RPC_INVALID_PARAMS, NULL, "Unknown tool: %s", name);
        return;
    }
    if (json_object_get(tool, "needs") && op->version >= MCP_2026_07) {
        mcp_fail(op, RPC_CAPABILITY_MISSING,
                 json_pack("{s:O}", "requiredCapabilities", json_object_get(tool, "needs")),
                 "the client has not said that it can do this");
        return;
    }
    if (asks && !mcp_ask(op, json_string_value(json_object_get(asks, "method")),
                         filled(json_object_get(asks, "params"), arguments))) {
        mcp_answer(op, json_pack("{s:b, s:[{s:s, s:s}]}", "isError", 1, "content", "type", "text",
                                 "text", "this client cannot be asked"));
        return;
    }
    w = xcalloc(1, sizeof(*w));
    *w = (struct work){{&work_ops, -1, 0, 0}, tool, json_incref(arguments), 0};
    op->work = &w->work;
}

/* ---- resources and prompts ---- */

static void list_resources(void *arg, struct mcp_op *op, json_t *ret)
{
    (void)arg;
    (void)op;
    list("resources", ret);
}

static void list_templates(void *arg, struct mcp_op *op, json_t *ret)
{
    (void)arg;
    (void)op;
    list("templates", ret);
}

static void read_resource(void *arg, struct mcp_op *op, const char *uri)
{
    const json_t *one = find("resources", "uri", uri);
    char id[64];

    (void)arg;
    if (one) {
        mcp_answer(op, filled(json_object_get(one, "result"), NULL));
    } else if (sscanf(uri, "test://template/%63[^/]/data", id) == 1) {
        json_t *values = json_pack("{s:s, s:s}", "uri", uri, "id", id);

        mcp_answer(op,
                   filled(json_object_get(json_array_get(json_object_get(fixture, "templates"), 0),
                                          "result"),
                          values));
        json_decref(values);
    } else {
        mcp_fail(op, RPC_NO_RESOURCE, json_pack("{s:s}", "uri", uri), "Resource not found: %s",
                 uri);
    }
}

static int subscribe(void *arg, struct mcp_op *op, struct mcp_subscription *sub, struct err *err)
{
    (void)arg;
    (void)op;
    (void)sub;
    (void)err;
    return 0;
}

static void unsubscribe(void *arg, struct mcp_subscription *sub)
{
    (void)arg;
    (void)sub;
}

static void list_prompts(void *arg, struct mcp_op *op, json_t *ret)
{
    (void)arg;
    (void)op;
    list("prompts", ret);
}

static void get_prompt(void *arg, struct mcp_op *op, const char *name, json_t *arguments)
{
    const json_t *one = find("prompts", "name", name);

    (void)arg;
    if (one)
        mcp_answer(op, filled(json_object_get(one, "result"), arguments));
    else
        mcp_fail(op, RPC_INVALID_PARAMS, NULL, "Unknown prompt: %s", name);
}

static void complete(void *arg, struct mcp_op *op, const json_t *ref, const char *name,
                     const char *value, const json_t *others, json_t *ret)
{
    (void)arg;
    (void)op;
    (void)ref;
    (void)name;
    (void)others;
    (void)json_array_append_new(ret, json_sprintf("%s-1", value));
}

static const struct mcp_tools tools = {.list = list_tools, .call = call};
static const struct mcp_resources resources = {.list = list_resources,
                                               .templates = list_templates,
                                               .read = read_resource,
                                               .subscribe = subscribe,
                                               .unsubscribe = unsubscribe};
static const struct mcp_prompts prompts = {.list = list_prompts, .get = get_prompt};
static const struct mcp_providers providers = {
    .tools = &tools, .resources = &resources, .prompts = &prompts, .complete = complete};

/* ---- the server ---- */

/* The same look at where a request comes from as before the daemon's. */
static void handle(struct http_req *req, void *arg)
{
    const struct auth_config config = {0};
    const struct auth_request from = {.is_tcp = true,
                                      .host = http_req_header(req, "Host"),
                                      .origin = http_req_header(req, "Origin")};
    struct caller caller = {.face = "mcp", .name = "anyone", .scopes = SCOPES_ALL};
    struct rate_state rate = {0};
    struct err err = {0};

    (void)arg;
    if (auth_check_source(&config, &from, &err) < 0)
        http_reply(req, 403, "text/plain", err.text, strlen(err.text));
    else
        mcp_handle(req, &caller, NULL, &rate, server);
}

static int listener(unsigned *ret_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 64) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        return -1;
    *ret_port = ntohs(a.sin_port);
    return fd;
}

int main(int argc, char **argv)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    struct mcp_config config = {
        .name = "fixture", .title = "Fixture", .version = "1", .limits = MCP_LIMITS_DEFAULT};
    struct http_server *http;
    struct err err = {0};
    unsigned port = 0;
    char byte;
    int fd = listener(&port);

    fixture = argc == 2 ? json_load_file(argv[1], 0, NULL) : NULL;
    if (!fixture || fd < 0)
        return 1;
    server = mcp_server_new(&config, &providers);
    http = http_server_new(&limits, handle, NULL);
    if (http_server_listen(http, fd, true, &err) < 0 || http_server_start(http, &err) < 0)
        return 1;
    printf("%u\n", port);
    (void)fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    http_server_stop(http, 1000);
    http_server_free(http);
    mcp_server_free(server);
    json_decref(fixture);
    return 0;
}
