#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "functions/call.h"
#include "functions/function.h"
#include "http/client.h"
#include "http/server.h"
#include "mcp/face_internal.h"
#include "mcp/mcp_internal.h"
#include "mcp_fixture.h"
#include "tap.h"

/* The engine behind a real server, with providers that know no daemon. */

static struct http_server *http;
static struct mcp_server *mcp;
static char target[64];

/* Who asks says so in a header. */
static void handle(struct http_req *req, void *arg)
{
    const char *who = http_req_header(req, "X-Caller");
    struct caller caller = {.face = "mcp", .scopes = SCOPES_ALL};
    struct rate_state rate = {0};

    (void)arg;
    (void)snprintf(caller.name, sizeof(caller.name), "%s", who ? who : "me");
    mcp_handle(req, &caller, NULL, &rate, mcp);
}

static int listener(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    CHECK_INT(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    CHECK_INT(listen(fd, 64), 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    (void)snprintf(target, sizeof(target), "http://127.0.0.1:%d", ntohs(a.sin_port));
    return fd;
}

static void up_with(struct mcp_limits limits)
{
    struct http_limits http_limits = HTTP_LIMITS_DEFAULT;
    struct mcp_config config = {.name = "test",
                                .title = "A test",
                                .version = "1",
                                .instructions = "be brief",
                                .limits = limits};
    struct err err = {0};

    CHECK_INT(pipe(fixture_begun), 0);
    CHECK_INT(pipe(fixture_freed), 0);
    mcp = mcp_server_new(&config, &fixture_providers);
    http = http_server_new(&http_limits, handle, NULL);
    CHECK_INT(http_server_listen(http, listener(), true, &err), 0);
    CHECK_INT(http_server_start(http, &err), 0);
}

static void up(void)
{
    up_with((struct mcp_limits)MCP_LIMITS_DEFAULT);
}

static void down(void)
{
    http_server_stop(http, 2000);
    http_server_free(http);
    mcp_server_free(mcp);
}

/* ---- a client ---- */

struct reply {
    int status;
    char type[64], session[64];
    json_t *body; /* of a stream: its messages, in an array */
};

static char session[64], version[32]; /* that requests are sent with; "" = none */
static const char *caller_name;

static json_t *messages_of(char *text)
{
    json_t *all = json_array();
    char *rest = text;

    for (char *line; (line = strsep(&rest, "\n"));)
        if (str_starts(line, "data: "))
            (void)json_array_append_new(all, json_loads(line + 6, 0, NULL));
    return all;
}

static struct http_client *client(void)
{
    struct http_client *c = http_client_new(target, NULL);

    http_client_accept(c, "application/json, text/event-stream");
    http_client_want(c, "mcp-session-id");
    if (session[0])
        http_client_header(c, "Mcp-Session-Id", session);
    if (version[0])
        http_client_header(c, "MCP-Protocol-Version", version);
    if (caller_name)
        http_client_header(c, "X-Caller", caller_name);
    return c;
}

static struct reply take(struct http_client *c, const struct http_response *r)
{
    struct reply reply = {.status = r->status};
    struct err err = {0};
    char *text;
    size_t len;

    CHECK_INT(http_client_body(c, 1 << 20, &text, &len, &err), 0);
    (void)snprintf(reply.type, sizeof(reply.type), "%s", r->type);
    (void)snprintf(reply.session, sizeof(reply.session), "%s", http_client_wanted(c));
    reply.body = strcmp(r->type, "text/event-stream") == 0 ? messages_of(text)
                                                           : json_loadb(text, len, 0, NULL);
    free(text);
    http_client_free(c);
    return reply;
}

static struct reply send_as(const char *method, const char *text, const char *type)
{
    struct http_client *c = client();
    struct http_response r;
    struct err err = {0};

    CHECK_INT(http_client_send(c, method, "/mcp", type, text, text ? strlen(text) : 0, &r, &err),
              0);
    return take(c, &r);
}

static struct reply post(const char *text)
{
    return send_as("POST", text, "application/json");
}

/* Its status alone. */
static int sent(struct reply r)
{
    json_decref(r.body);
    return r.status;
}

static json_int_t code_of(const struct reply *r)
{
    return json_integer_value(json_object_get(json_object_get(r->body, "error"), "code"));
}

static int status_of(const char *text, json_int_t *ret_code)
{
    struct reply r = post(text);

    *ret_code = code_of(&r);
    json_decref(r.body);
    return r.status;
}

#define INITIALIZE                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"     \
    "\"%s\",\"capabilities\":{\"elicitation\":{}},\"clientInfo\":{\"name\":\"t\",\"version\":"     \
    "\"1\"}}}"

/* A session, which later requests are sent with. */
static void begin(const char *asked)
{
    char text[512];
    struct reply r;

    session[0] = version[0] = '\0';
    (void)snprintf(text, sizeof(text), INITIALIZE, asked);
    r = post(text);
    CHECK_INT(r.status, 200);
    CHECK(r.session[0]);
    (void)snprintf(session, sizeof(session), "%s", r.session);
    (void)snprintf(
        version, sizeof(version), "%s",
        json_string_value(json_object_get(json_object_get(r.body, "result"), "protocolVersion")));
    json_decref(r.body);
}

static json_t *result_of(const char *text)
{
    struct reply r = post(text);
    json_t *result = json_incref(json_object_get(r.body, "result"));

    CHECK_INT(r.status, 200);
    CHECK(result);
    json_decref(r.body);
    return result;
}

/* Requests that wait, in a thread of their own. */
static void *post_thread(void *text)
{
    struct reply *r = malloc(sizeof(*r));

    *r = post(text);
    return r;
}

static pthread_t post_beside(const char *text)
{
    pthread_t thread;

    CHECK_INT(pthread_create(&thread, NULL, post_thread, (void *)text), 0);
    return thread;
}

static struct reply join(pthread_t thread)
{
    struct reply *r, copy;

    CHECK_INT(pthread_join(thread, (void **)&r), 0);
    copy = *r;
    free(r);
    return copy;
}

static void await(const int pipe_fds[2])
{
    char c;

    CHECK_INT(read(pipe_fds[0], &c, 1), 1);
}

#define CALL(id, name)                                                                             \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" name    \
    "\"}}"

/* ---- revisions with sessions ---- */

TEST(both_agree_on_the_newest_revision_that_they_know)
{
    static const char *const asked[][2] = {
        {"2024-11-05", "2024-11-05"}, {"2025-03-26", "2025-03-26"}, {"2025-06-18", "2025-06-18"},
        {"2025-11-25", "2025-11-25"}, {"2026-07-28", "2025-11-25"}, {"1999-01-01", "2025-11-25"}};

    up();
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        begin(asked[i][0]);
        CHECK_STR(version, asked[i][1]);
    }
    down();
}

TEST(a_session_is_needed_and_is_its_callers_alone)
{
    json_int_t code;

    up();
    CHECK_INT(status_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", &code), 400);
    begin("2025-06-18");
    json_decref(result_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"));
    caller_name = "another";
    CHECK_INT(status_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", &code), 404);
    caller_name = NULL;
    CHECK_INT(sent(send_as("DELETE", NULL, NULL)), 204);
    CHECK_INT(status_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", &code), 404);
    CHECK_INT(code, RPC_NO_SESSION);
    down();
}

TEST(what_is_no_message_is_refused)
{
    json_int_t code;

    up();
    begin("2025-06-18");
    CHECK_INT(status_of("{nope", &code), 400);
    CHECK_INT(code, RPC_PARSE_ERROR);
    CHECK_INT(status_of("7", &code), 400);
    CHECK_INT(code, RPC_INVALID_REQUEST);
    CHECK_INT(status_of("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", &code), 400);
    CHECK_INT(status_of("{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"ping\"}", &code), 400);
    CHECK_INT(status_of("[]", &code), 400);
    CHECK_INT(sent(send_as("POST", "{}", "text/plain")), 415);
    CHECK_INT(sent(send_as("PUT", "{}", "application/json")), 405);
    down();
}

TEST(a_refusal_that_cuts_what_was_sent_is_still_an_error)
{
    auto_buf struct buf text = {0};
    json_int_t code;

    up();
    begin("2025-06-18");
    buf_init(&text, 1024);
    (void)buf_add_str(&text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x");
    while (text.len < 300)
        (void)buf_add_str(&text, "\xc3\xa4");
    (void)buf_add_str(&text, "\"}");
    CHECK_INT(status_of(text.data, &code), 200);
    CHECK_INT(code, RPC_METHOD_NOT_FOUND);
    down();
}

TEST(what_wants_no_answer_gets_none)
{
    up();
    begin("2025-06-18");
    CHECK_INT(sent(post("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}")), 202);
    CHECK_INT(sent(post("{\"jsonrpc\":\"2.0\",\"id\":\"ask-9\",\"result\":{}}")), 202);
    down();
}

TEST(a_tool_that_forgets_to_answer_has_failed)
{
    struct reply r;

    up();
    begin("2025-06-18");
    r = post(CALL("1", "mute"));
    CHECK_INT(code_of(&r), RPC_INTERNAL_ERROR);
    json_decref(r.body);
    down();
}

TEST(a_cancel_ends_the_work_and_there_is_no_answer)
{
    pthread_t thread;
    struct reply r;

    up();
    begin("2025-06-18");
    thread = post_beside(CALL("\"a\"", "wait"));
    await(fixture_begun);
    CHECK_INT(sent(post("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":"
                        "{\"requestId\":\"a\"}}")),
              202);
    r = join(thread);
    await(fixture_freed);
    CHECK_INT(r.status, 200);
    CHECK_STR(r.type, "text/event-stream");
    CHECK_INT(json_array_size(r.body), 0);
    json_decref(r.body);
    down();
}

TEST(who_hangs_up_has_cancelled)
{
    struct http_client *c;
    struct err err = {0};

    up();
    begin("2025-06-18");
    c = client();
    CHECK_INT(http_client_begin(c, "POST", "/mcp", "application/json",
                                (int64_t)strlen(CALL("1", "wait")), &err),
              0);
    CHECK_INT(http_client_write(c, CALL("1", "wait"), strlen(CALL("1", "wait")), &err), 0);
    await(fixture_begun);
    http_client_free(c);
    await(fixture_freed);
    down();
}

TEST(the_end_of_a_session_ends_its_work)
{
    pthread_t thread;

    up();
    begin("2025-06-18");
    thread = post_beside(CALL("1", "wait"));
    await(fixture_begun);
    CHECK_INT(sent(send_as("DELETE", NULL, NULL)), 204);
    await(fixture_freed);
    json_decref(join(thread).body);
    down();
}

TEST(messages_come_ahead_of_the_answer_as_grave_as_was_asked_for)
{
    struct reply r;

    up();
    begin("2025-06-18");
    json_decref(result_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"logging/setLevel\","
                          "\"params\":{\"level\":\"info\"}}"));
    r = post("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":"
             "\"tell\",\"_meta\":{\"progressToken\":7}}}");
    CHECK_STR(r.type, "text/event-stream");
    CHECK_INT(json_array_size(r.body), 3);
    CHECK_STR(json_string_value(json_object_get(json_array_get(r.body, 0), "method")),
              "notifications/message");
    CHECK_STR(json_string_value(json_object_get(json_array_get(r.body, 1), "method")),
              "notifications/progress");
    CHECK_INT(json_integer_value(json_object_get(json_array_get(r.body, 2), "id")), 2);
    json_decref(r.body);
    down();
}

TEST(a_client_can_be_asked)
{
    pthread_t thread;
    struct reply r;
    json_t *content;

    up();
    begin("2025-06-18");
    thread = post_beside(CALL("1", "ask"));
    await(fixture_begun);
    /* It may not have asked yet: its answer is looked for until it has. */
    while (poll(&(struct pollfd){fixture_freed[0], POLLIN, 0}, 1, 10) == 0)
        CHECK_INT(
            sent(post("{\"jsonrpc\":\"2.0\",\"id\":\"ask-1\",\"result\":{\"word\":\"blue\"}}")),
            202);
    r = join(thread);
    CHECK_INT(json_array_size(r.body), 2);
    content = json_object_get(json_object_get(json_array_get(r.body, 1), "result"), "content");
    CHECK_STR(json_string_value(json_object_get(json_array_get(content, 0), "text")), "blue");
    json_decref(r.body);
    down();
}

TEST(lists_come_in_pages)
{
    json_t *page;
    size_t seen = 0;
    char text[256] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}";
    json_int_t code;

    up();
    begin("2025-06-18");
    for (const char *cursor = ""; cursor;) {
        page = result_of(text);
        seen += json_array_size(json_object_get(page, "tools"));
        cursor = json_string_value(json_object_get(page, "nextCursor"));
        if (cursor)
            (void)snprintf(text, sizeof(text),
                           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{"
                           "\"cursor\":\"%s\"}}",
                           cursor);
        json_decref(page);
    }
    CHECK_INT(seen, 450);
    CHECK_INT(status_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{"
                        "\"cursor\":\"x\"}}",
                        &code),
              200);
    CHECK_INT(code, RPC_INVALID_PARAMS);
    down();
}

TEST(completions_are_a_hundred_at_most)
{
    json_t *r, *completion;

    up();
    begin("2025-06-18");
    r = result_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"completion/complete\",\"params\":{"
                  "\"ref\":{\"type\":\"ref/prompt\",\"name\":\"p\"},\"argument\":{\"name\":\"a\","
                  "\"value\":\"v\"}}}");
    completion = json_object_get(r, "completion");
    CHECK_INT(json_array_size(json_object_get(completion, "values")), 100);
    CHECK_INT(json_integer_value(json_object_get(completion, "total")), 150);
    CHECK(json_is_true(json_object_get(completion, "hasMore")));
    json_decref(r);
    down();
}

/* ---- bounds ---- */

TEST(of_too_many_sessions_the_longest_idle_goes)
{
    struct mcp_limits limits = MCP_LIMITS_DEFAULT;
    char first[64];
    json_int_t code;

    limits.sessions = 4;
    up_with(limits);
    caller_name = "other";
    begin("2025-06-18");
    (void)snprintf(first, sizeof(first), "%s", session);
    caller_name = NULL;
    for (int i = 0; i < 10; i++) /* who has half of them takes its own places */
        begin("2025-06-18");
    caller_name = "other";
    (void)snprintf(session, sizeof(session), "%s", first);
    json_decref(result_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"));
    for (int i = 0; i < 3; i++)
        begin("2025-06-18");
    (void)snprintf(session, sizeof(session), "%s", first);
    CHECK_INT(status_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", &code), 404);
    down();
}

TEST(a_session_has_so_many_requests_at_once)
{
    struct mcp_limits limits = MCP_LIMITS_DEFAULT;
    pthread_t threads[2];
    struct reply r;

    limits.in_flight = 2;
    up_with(limits);
    begin("2025-06-18");
    threads[0] = post_beside(CALL("1", "wait"));
    threads[1] = post_beside(CALL("2", "wait"));
    await(fixture_begun);
    await(fixture_begun);
    r = post("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}");
    CHECK_INT(code_of(&r), RPC_REFUSED);
    json_decref(r.body);
    CHECK_INT(sent(send_as("DELETE", NULL, NULL)), 204);
    json_decref(join(threads[0]).body);
    json_decref(join(threads[1]).body);
    down();
}

TEST(arrays_of_messages_are_for_old_revisions_and_bounded)
{
    static const char two[] = "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},"
                              "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"},"
                              "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"nope\"},{}]";
    struct mcp_limits limits = MCP_LIMITS_DEFAULT;
    struct reply r;

    up();
    begin("2025-03-26");
    r = post(two);
    CHECK_INT(r.status, 200);
    CHECK_INT(json_array_size(r.body), 3);
    json_decref(r.body);
    begin("2025-06-18");
    CHECK_INT(sent(post(two)), 400);
    down();
    limits.batch = 3;
    up_with(limits);
    begin("2025-03-26");
    CHECK_INT(sent(post(two)), 400);
    down();
}

TEST(a_message_has_a_size)
{
    struct mcp_limits limits = MCP_LIMITS_DEFAULT;
    auto_buf struct buf text = {0};

    limits.message = 1000;
    up_with(limits);
    buf_init(&text, 4000);
    while (text.len < 2000)
        (void)buf_add_str(&text, " ");
    CHECK_INT(sent(post(text.data)), 413);
    down();
}

/* ---- streams ---- */

/* The next message of a stream that was opened. */
static json_t *next(struct http_client *c, struct buf *in)
{
    struct err err = {0};
    char data[1024];

    for (;;) {
        char *end = in->len ? memmem(in->data, in->len, "\n\n", 2) : NULL;
        char *at;
        json_t *message;
        ssize_t n;

        if (end) {
            *end = '\0';
            at = strstr(in->data, "data: ");
            message = at ? json_loads(at + 6, 0, NULL) : NULL;
            buf_shift(in, (size_t)(end - in->data) + 2);
            if (message)
                return message;
            continue;
        }
        n = http_client_read(c, data, sizeof(data), &err);
        if (n <= 0)
            return NULL;
        CHECK_INT(buf_add(in, data, (size_t)n), 0);
    }
}

static struct http_client *open_stream(const char *last_event)
{
    struct http_client *c = client();
    struct http_response r;
    struct err err = {0};

    if (last_event)
        http_client_header(c, "Last-Event-ID", last_event);
    CHECK_INT(http_client_send(c, "GET", "/mcp", NULL, NULL, 0, &r, &err), 0);
    CHECK_INT(r.status, 200);
    CHECK_STR(r.type, "text/event-stream");
    return c;
}

static void expect(struct http_client *c, struct buf *in, const char *method)
{
    json_t *message = next(c, in);

    CHECK_STR(json_string_value(json_object_get(message, "method")), method);
    json_decref(message);
}

TEST(a_stream_has_what_was_said_before_and_while_it_is_open)
{
    auto_buf struct buf in = {0};
    struct http_client *c;

    up();
    buf_init(&in, 1 << 20);
    begin("2025-06-18");
    mcp_list_changed(mcp, MCP_LIST_TOOLS);
    c = open_stream(NULL);
    expect(c, &in, "notifications/tools/list_changed");
    mcp_list_changed(mcp, MCP_LIST_PROMPTS);
    expect(c, &in, "notifications/prompts/list_changed");
    CHECK_INT(sent(send_as("DELETE", NULL, NULL)), 204);
    CHECK(!next(c, &in));
    http_client_free(c);
    down();
}

TEST(who_comes_back_gets_what_it_has_not_seen)
{
    auto_buf struct buf in = {0};
    struct http_client *c;

    up();
    buf_init(&in, 1 << 20);
    begin("2025-06-18");
    mcp_list_changed(mcp, MCP_LIST_TOOLS);
    mcp_list_changed(mcp, MCP_LIST_PROMPTS);
    c = open_stream(NULL);
    expect(c, &in, "notifications/tools/list_changed");
    expect(c, &in, "notifications/prompts/list_changed");
    http_client_free(c);
    buf_clear(&in);
    c = open_stream("1");
    expect(c, &in, "notifications/prompts/list_changed");
    http_client_free(c);
    down();
}

TEST(a_new_stream_takes_the_place_of_the_old_one)
{
    auto_buf struct buf in = {0};
    struct http_client *old, *young;

    up();
    buf_init(&in, 1 << 20);
    begin("2025-06-18");
    old = open_stream(NULL);
    young = open_stream(NULL);
    CHECK(!next(old, &in));
    buf_clear(&in);
    mcp_list_changed(mcp, MCP_LIST_TOOLS);
    expect(young, &in, "notifications/tools/list_changed");
    http_client_free(old);
    http_client_free(young);
    down();
}

TEST(who_has_subscribed_is_told_until_it_unsubscribes)
{
    auto_buf struct buf in = {0};
    struct http_client *c;
    json_int_t code;

    up();
    buf_init(&in, 1 << 20);
    begin("2025-06-18");
    json_decref(result_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/subscribe\","
                          "\"params\":{\"uri\":\"test://a\"}}"));
    CHECK(fixture_watched);
    mcp_updated(mcp, fixture_watched);
    mcp_updated(mcp, fixture_watched); /* told once, since nobody has taken it */
    mcp_list_changed(mcp, MCP_LIST_TOOLS);
    c = open_stream(NULL);
    expect(c, &in, "notifications/resources/updated");
    expect(c, &in, "notifications/tools/list_changed");
    json_decref(result_of("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/unsubscribe\","
                          "\"params\":{\"uri\":\"test://a\"}}"));
    CHECK(!fixture_watched);
    CHECK_INT(status_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/subscribe\","
                        "\"params\":{\"uri\":\"other://a\"}}",
                        &code),
              200);
    CHECK_INT(code, RPC_NO_RESOURCE);
    http_client_free(c);
    down();
}

TEST(the_end_of_a_session_ends_its_subscriptions)
{
    up();
    begin("2025-06-18");
    json_decref(result_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/subscribe\","
                          "\"params\":{\"uri\":\"test://a\"}}"));
    CHECK_INT(sent(send_as("DELETE", NULL, NULL)), 204);
    CHECK(!fixture_watched);
    down();
}

/* ---- revisions without sessions ---- */

#define META                                                                                       \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io."                  \
    "modelcontextprotocol/clientCapabilities\":{}}"

static struct http_response modern(struct http_client **ret, const char *method, const char *name,
                                   const char *text)
{
    struct http_response r;
    struct err err = {0};

    session[0] = '\0';
    (void)snprintf(version, sizeof(version), "2026-07-28");
    *ret = client();
    http_client_header(*ret, "Mcp-Method", method);
    if (name)
        http_client_header(*ret, "Mcp-Name", name);
    CHECK_INT(
        http_client_send(*ret, "POST", "/mcp", "application/json", text, strlen(text), &r, &err),
        0);
    return r;
}

static struct reply ask_modern(const char *method, const char *name, const char *text)
{
    struct http_client *c;
    struct http_response r = modern(&c, method, name, text);

    return take(c, &r);
}

TEST(a_request_that_says_all_of_itself_needs_no_session)
{
    struct reply r;
    json_t *result;

    up();
    r = ask_modern("server/discover", NULL,
                   "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{" META
                   "}}");
    result = json_object_get(r.body, "result");
    CHECK_INT(r.status, 200);
    CHECK_STR(r.session, "");
    CHECK_STR(json_string_value(json_array_get(json_object_get(result, "supportedVersions"), 0)),
              "2026-07-28");
    CHECK_STR(json_string_value(json_object_get(result, "resultType")), "complete");
    CHECK(json_object_get(result, "ttlMs") && json_object_get(result, "cacheScope"));
    json_decref(r.body);
    r = ask_modern("tools/call", "=?base64?ZWNobw==?=",
                   "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
                   "\"echo\"," META "}}");
    CHECK_INT(r.status, 200);
    json_decref(r.body);
    down();
}

TEST(headers_that_say_something_else_are_refused)
{
    static const char call[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":"
                               "{\"name\":\"echo\"," META "}}";
    static const char *const headers[][2] = {{"tools/list", "echo"},
                                             {"tools/call", "other"},
                                             {"tools/call", NULL},
                                             {"tools/call", "=?base64?!?="}};

    up();
    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        struct reply r = ask_modern(headers[i][0], headers[i][1], call);

        CHECK_INT(r.status, 400);
        CHECK_INT(code_of(&r), RPC_HEADER_MISMATCH);
        json_decref(r.body);
    }
    down();
}

TEST(a_request_must_say_what_it_speaks_and_can)
{
    struct reply r;

    up();
    r = ask_modern("tools/list", NULL, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
    CHECK_INT(r.status, 400);
    CHECK_INT(code_of(&r), RPC_INVALID_PARAMS);
    json_decref(r.body);
    r = ask_modern("nope", NULL,
                   "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"nope\",\"params\":{" META "}}");
    CHECK_INT(r.status, 404);
    CHECK_INT(code_of(&r), RPC_METHOD_NOT_FOUND);
    json_decref(r.body);
    (void)snprintf(version, sizeof(version), "2031-01-01");
    r = post("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
    CHECK_INT(r.status, 400);
    json_decref(r.body);
    down();
}

TEST(a_request_that_listens_is_told_what_it_asked_for)
{
    auto_buf struct buf in = {0};
    struct http_response r;
    struct http_client *c;
    json_t *message, *honored;

    up();
    buf_init(&in, 1 << 20);
    r = modern(&c, "subscriptions/listen", NULL,
               "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"subscriptions/listen\",\"params\":{"
               "\"notifications\":{\"toolsListChanged\":true,\"resourceSubscriptions\":["
               "\"test://a\",\"other://b\"]}," META "}}");
    CHECK_STR(r.type, "text/event-stream");
    message = next(c, &in);
    honored = json_object_get(json_object_get(message, "params"), "notifications");
    CHECK_INT(json_array_size(json_object_get(honored, "resourceSubscriptions")), 1);
    json_decref(message);
    mcp_list_changed(mcp, MCP_LIST_PROMPTS); /* which it did not ask for */
    mcp_updated(mcp, fixture_watched);
    expect(c, &in, "notifications/resources/updated");
    mcp_list_changed(mcp, MCP_LIST_TOOLS);
    expect(c, &in, "notifications/tools/list_changed");
    http_server_drain(http); /* the daemon is about to end: it is answered */
    message = next(c, &in);
    CHECK_INT(json_integer_value(json_object_get(message, "id")), 5);
    json_decref(message);
    CHECK(!next(c, &in));
    http_client_free(c);
    down();
    CHECK(!fixture_watched);
}

/* ---- what the daemon's tools are made of ---- */

static int count_tools(const struct function *f, void *arg)
{
    if (f->tool) {
        const struct tool_look *look = tool_looks;

        while (look->name && strcmp(look->name, f->tool) != 0)
            look++;
        if (!look->name)
            TAP_FAIL("%s has no look", f->tool);
        ++*(int *)arg;
    }
    return 0;
}

TEST(every_tool_of_the_table_has_a_look_and_schemas_without_references)
{
    struct mcp_face_config config = {.output = 32768};
    struct mcp_face *face = mcp_face_new(&config);
    struct mcp_choice all = {0};
    struct mcp_client who = {.caller = {.scopes = SCOPES_ALL}, .choice = &all};
    struct mcp_op op = {.client = &who, .version = MCP_2026_07};
    json_t *list = json_array(), *one;
    auto_free char *text = NULL;
    int rows = 0;
    size_t i;

    (void)functions_each(count_tools, &rows);
    CHECK_INT(rows, 39);
    mcp_face_providers(face)->tools->list(face, &op, list);
    CHECK_INT(json_array_size(list), 39);
    text = json_dumps(list, 0);
    CHECK(!strstr(text, "$ref"));
    json_array_foreach(list, i, one)
    {
        json_t *out = json_object_get(one, "outputSchema");

        CHECK_STR(json_string_value(json_object_get(out, "type")), "object");
        CHECK(json_object_get(one, "annotations"));
    }
    json_decref(list);
    mcp_face_free(face);
}

static size_t listed(const struct mcp_face *face, const struct caller *caller, const char *query)
{
    struct mcp_choice choice;
    struct mcp_client who = {.caller = *caller, .choice = &choice};
    struct mcp_op op = {.client = &who, .version = MCP_2025_06};
    json_t *list = json_array();
    size_t n;

    CHECK_INT(mcp_choice_read(&choice, query, NULL), 0);
    mcp_face_providers(face)->tools->list((void *)face, &op, list);
    n = json_array_size(list);
    json_decref(list);
    mcp_choice_done(&choice);
    return n;
}

TEST(who_may_less_and_who_wants_less_sees_fewer_tools)
{
    struct mcp_face_config config = {.output = 32768};
    struct mcp_face *face = mcp_face_new(&config);
    struct caller all = {.scopes = SCOPES_ALL}, reader = {.scopes = 1u << SCOPE_READ};
    struct caller one = {.scopes = SCOPES_ALL, .sandbox_id = "sbx_0"};

    CHECK_INT(listed(face, &all, "tools=core"), 10);
    CHECK_INT(listed(face, &all, "tools=all"), 39);
    CHECK_INT(listed(face, &all, "tools=sandbox_exec%2Csandbox_kill,nope"), 2);
    CHECK_INT(listed(face, &all, "tools=sandbox_exec,sandbox_list&readOnly=true"), 1);
    CHECK(listed(face, &reader, "") == listed(face, &all, "readOnly=true"));
    CHECK(listed(face, &one, "") < 39);
    CHECK_INT(listed(face, &one, "tools=sandbox_create,sandbox_clone,sandbox_exec"), 1);
    CHECK_INT(mcp_choice_read(&(struct mcp_choice){0}, "tools=", NULL), -1);
    mcp_face_free(face);
}

static json_t *cut(json_t *value, size_t max, struct cut *c)
{
    buf_init(&c->words, 4096);
    cut_value(value, max, c);
    CHECK(json_dumpb(value, NULL, 0, JSON_INDENT(2)) <= max + max / 8);
    return value;
}

TEST(long_texts_lose_their_middle_and_lists_their_end)
{
    auto_buf struct buf text = {0};
    struct cut c = {0}, head = {.head_only = true}, none = {0};
    json_t *value, *list = json_array();

    buf_init(&text, 200000);
    while (text.len < 100000)
        (void)buf_add_str(&text, "é line\n");
    value = cut(json_pack("{s:s}", "stdout", text.data), 8000, &c);
    CHECK(strstr(c.words.data, "stdout: of 100000 bytes the first "));
    CHECK(utf8_valid(json_string_value(json_object_get(value, "stdout")),
                     json_string_length(json_object_get(value, "stdout"))));
    CHECK(str_ends(json_string_value(json_object_get(value, "stdout")), "line\n"));
    json_decref(value);
    value = cut(json_pack("{s:s}", "stdout", text.data), 8000, &head);
    CHECK(memcmp(json_string_value(json_object_get(value, "stdout")), text.data, head.head) == 0);
    json_decref(value);
    for (int i = 0; i < 1000; i++)
        (void)json_array_append_new(list, json_pack("{s:i, s:s}", "n", i, "name", "something"));
    buf_done(&c.words);
    c = (struct cut){0};
    value = cut(json_pack("{s:o}", "items", list), 8000, &c);
    CHECK(strstr(c.words.data, "items: of 1000 the first "));
    json_decref(value);
    value = cut(json_pack("{s:s}", "short", "text"), 8000, &none);
    CHECK_INT(none.words.len, 0);
    json_decref(value);
    buf_done(&c.words);
    buf_done(&head.words);
    buf_done(&none.words);
}

TAP_MAIN
