#include "base/budget.h"
#include "base/clock.h"
#include "base/json.h"
#include "http/server.h"
#include "http/websocket.h"
#include "iii/iii_internal.h"
#include "iii/registry_internal.h"
#include "iii_clients.h"
#include "test_face.h"

/* Clients of iii at a real server, over real sockets; below the hub are the engine and the agent.
 */

#define CALL_ID "11111111-2222-4333-8444-555555555555"

static struct http_server *server;
static struct iii_hub *hub;
static unsigned port;
static struct budget *memory, *streams; /* NULL = no bound */
static size_t unsent_max;               /* 0 = the default */
static struct caller caller = {.face = "iii", .name = "test", .scopes = SCOPES_ALL, .admin = true};

static void handle(struct http_req *req, void *arg)
{
    const char *path = http_req_path(req);

    (void)arg;
    if (strcmp(path, "/otel") == 0)
        (void)iii_handle_otel(req, &caller, NULL, NULL, hub);
    else
        (void)iii_handle_worker(req, &caller, NULL, NULL, hub);
}

static void start(void)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    struct iii_config config = {.about = &about,
                                .services = &services,
                                .memory = memory,
                                .streams = streams,
                                .unsent_max = unsent_max};
    struct err err = {0};
    char accept[32];

    /* What libcrypto makes once is made here: a worker's would look lost while that thread ends. */
    websocket_accept_key("dGhlIHNhbXBsZSBub25jZQ==", accept);
    limits.body_timeout_ms = 600000; /* a client that waits for its test is not closed */
    config.engine = engine;          /* NULL unless the test has opened a world */
    hub = iii_hub_new(&config);
    CHECK_INT(iii_hub_start(hub, &err), 0);
    server = http_server_new(&limits, handle, NULL);
    CHECK_INT(http_server_listen(server, listen_on_any(&port), true, &err), 0);
    CHECK_INT(http_server_start(server, &err), 0);
}

static void finish(void)
{
    http_server_drain(server);
    http_server_stop(server, 5000);
    iii_hub_stop(hub);
    CHECK_INT(iii_rows_count(hub), 0);
    http_server_free(server);
    iii_hub_free(hub);
}

/* ---- clients ---- */

static void join(struct client *c)
{
    dial(c, port, "/", NULL);
    welcome(c);
}

static void check_call(struct client *c, const char *function, const char *data, const char *want)
{
    json_t *m = call(c, function, data, "");
    auto_free char *got =
        json_dumps(json_object_get(m, "result"), JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);

    CHECK(got);
    CHECK_STR(got, want);
    json_decref(m);
}

static void check_error(struct client *c, const char *function, const char *data, const char *more,
                        const char *code)
{
    json_t *m = call(c, function, data, more);

    CHECK_STR(json_text(json_object_get(m, "error"), "code"), code);
    CHECK(!json_object_get(m, "result"));
    json_decref(m);
}

/* Says who it is: what it registers counts from here on. */
static void introduce(struct client *c, const char *name)
{
    auto_free char *data =
        xasprintf("{\"name\":\"%s\",\"pid\":7,\"runtime\":\"test\",\"version\":\"1\"}", name);

    check_call(c, "engine::workers::register", data, "{\"success\":true}");
}

static void offer(struct client *c, const char *id)
{
    auto_free char *text =
        xasprintf("{\"type\":\"registerfunction\",\"id\":\"%s\",\"description\":\"d\"}", id);

    say(c, text);
}

/* ---- scopes ---- */

TEST(a_token_that_only_reads_calls_nothing_and_one_without_read_sees_nothing)
{
    static const char *const lists[] = {"engine::functions::list", "engine::workers::list",
                                        "engine::triggers::list",
                                        "engine::registered-triggers::list"};
    struct client c, w;

    start();
    join(&w);
    introduce(&w, "w");
    offer(&w, "f::x");
    settle(&w);
    caller.scopes = 1u << SCOPE_READ;
    join(&c);
    check_error(&c, "f::x", "{}", "", "FORBIDDEN");
    check_error(&c, "engine::register_trigger", "{}", "", "FORBIDDEN");
    check_call(&c, "engine::registered-triggers::list", "{}", "{\"registered_triggers\":[]}");
    leave(&c);
    caller.scopes = 1u << SCOPE_EXEC;
    join(&c);
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        check_error(&c, lists[i], "{}", "", "FORBIDDEN");
    leave(&c);
    leave(&w);
    caller.scopes = SCOPES_ALL;
    finish();
}

/* ---- what only an engine serves ---- */

TEST(a_trigger_is_refused_with_an_error_that_names_the_engine)
{
    static const struct {
        const char *type, *config;
    } rows[] = {
        {"cron", "{\"expression\":\"* * * * * *\"}"},
        {"http", "{\"api_path\":\"x\",\"http_method\":\"GET\"}"},
        {"queue", "{\"topic\":\"t\"}"},
        {"subscribe", "{\"topic\":\"t\"}"},
        {"durable:subscriber", "{}"},
        {"sandbox", "{}"}, /* the daemon has sandboxes, but no triggers */
        {"nobody.provides", "{}"},
    };
    struct client c;
    json_t *m, *error;

    start();
    join(&c); /* its namespace is not known, and the answer does not wait for it */
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_free char *text =
            xasprintf("{\"type\":\"registertrigger\",\"id\":\"t1\",\"trigger_type\":\"%s\","
                      "\"function_id\":\"f\",\"config\":%s}",
                      rows[i].type, rows[i].config);

        say(&c, text);
        m = hear_type(&c, "triggerregistrationresult");
        error = json_object_get(m, "error");
        CHECK_STR(json_text(m, "id"), "t1");
        CHECK_STR(json_text(m, "trigger_type"), rows[i].type);
        CHECK_STR(json_text(m, "function_id"), "f");
        CHECK_STR(json_text(error, "code"), "trigger_registration_failed");
        CHECK(strstr(json_text(error, "message"), "genuine iii engine"));
        json_decref(m);
    }
    check_error(&c, "engine::register_trigger", "{\"trigger_type\":\"cron\"}", "",
                "trigger_registration_failed");
    check_call(&c, "engine::unregister_trigger", "{\"id\":\"t1\"}", "{\"removed\":false}");
    check_call(&c, "engine::triggers::list", "{}", "{\"triggers\":[]}");
    check_error(&c, "engine::triggers::info", "{\"id\":\"cron\"}", "", "NOT_FOUND");
    leave(&c);
    finish();
}

TEST(a_call_is_not_enqueued)
{
    struct client c, w;
    json_t *m;

    start();
    join(&w);
    introduce(&w, "w");
    offer(&w, "f::x");
    settle(&w);
    join(&c);
    check_error(&c, "f::x", "{}", ",\"action\":{\"type\":\"enqueue\",\"queue\":\"q\"}",
                "enqueue_error");
    check_error(&c, "publish", "{\"topic\":\"t\"}", "", "function_not_found");
    check_error(&c, "engine::queue::enqueue", "{\"queue\":\"q\"}", "", "function_not_found");
    /* The first call that the worker hears of is not the one that was to be enqueued. */
    invoke(&c, CALL_ID, "f::x", "{\"n\":2}", "");
    m = hear_type(&w, "invokefunction");
    CHECK_INT(json_int(json_object_get(m, "data"), "n"), 2);
    json_decref(m);
    leave(&c);
    leave(&w);
    finish();
}

TEST(messages_about_triggers_are_ignored_and_the_connection_kept)
{
    static const char *const texts[] = {
        "{\"type\":\"registertriggertype\",\"id\":\"x\",\"description\":\"d\"}",
        "{\"type\":\"unregistertriggertype\",\"id\":\"x\"}",
        "{\"type\":\"unregistertrigger\",\"id\":\"t\"}",
        "{\"type\":\"triggerregistrationresult\",\"id\":\"t\",\"trigger_type\":\"x\"}",
        "{\"type\":\"registerservice\",\"id\":\"s\"}",
        "{\"type\":\"registertrigger\",\"trigger_type\":\"cron\"}",
    };
    struct client c;
    json_t *m;

    start();
    join(&c);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        say(&c, texts[i]);
    say(&c, "{\"type\":\"ping\"}");
    m = hear(&c); /* none of them was answered */
    CHECK_STR(json_text(m, "type"), "pong");
    json_decref(m);
    leave(&c);
    finish();
}

/* ---- messages ---- */

TEST(what_cannot_be_understood_is_dropped_and_the_connection_kept)
{
    struct client c;

    start();
    join(&c);
    say(&c, "   ");
    say(&c, "{");
    say(&c, "[1, 2]");
    say(&c, "{\"type\":\"nonsense\"}");
    say(&c, "{\"type\":\"invokefunction\"}");
    say(&c, "{\"type\":\"invokefunction\",\"function_id\":\"a\",\"invocation_id\":\"no-uuid\"}");
    say(&c, "{\"type\":\"invocationresult\",\"invocation_id\":\"" CALL_ID "\",\"result\":1}");
    settle(&c);
    leave(&c);
    finish();
}

TEST(a_call_that_cannot_be_read_is_answered_if_its_id_can)
{
    struct client c;
    json_t *m;

    start();
    join(&c);
    say(&c, "{\"type\":\"invokefunction\",\"invocation_id\":\"" CALL_ID
            "\",\"function_id\":\"x\",\"data\":\"\\u0000\"}");
    m = hear_type(&c, "invocationresult");
    CHECK_STR(json_text(m, "invocation_id"), CALL_ID);
    CHECK_STR(json_text(json_object_get(m, "error"), "code"), "deserialization_error");
    json_decref(m);
    leave(&c);
    finish();
}

TEST(telemetry_is_thrown_away_and_other_bytes_are_messages)
{
    struct client c, otel;
    struct err err = {0};

    start();
    join(&c);
    CHECK_INT(websocket_client_send(c.ws, false, "OTLP{\"type\":\"ping\"}", 19, WAIT_MS, &err), 0);
    CHECK_INT(websocket_client_send(c.ws, false, "{\"type\":\"ping\"}", 15, WAIT_MS, &err), 0);
    json_decref(hear_type(&c, "pong"));
    dial(&otel, port, "/otel", NULL);
    CHECK_INT(websocket_client_send(otel.ws, false, "MTRC{}", 6, WAIT_MS, &err), 0);
    leave(&otel);
    leave(&c);
    finish();
}

/* ---- calls ---- */

TEST(one_client_calls_a_function_of_another)
{
    struct client a, b;
    json_t *m;

    start();
    join(&a);
    join(&b);
    introduce(&b, "b");
    offer(&b, "greet::one");
    settle(&b);
    invoke(&a, CALL_ID, "greet::one", "{\"x\":1}",
           ",\"traceparent\":\"00-a\",\"baggage\":\"k=v\",\"metadata\":{\"m\":2}");
    m = hear_type(&b, "invokefunction");
    CHECK_STR(json_text(json_object_get(m, "data"), "_caller_worker_id"), a.id);
    CHECK_INT(json_int(json_object_get(m, "data"), "x"), 1);
    CHECK_INT(json_int(json_object_get(m, "metadata"), "m"), 2);
    CHECK_STR(json_text(m, "traceparent"), "00-a");
    CHECK(strcmp(json_text(m, "invocation_id"), CALL_ID) != 0); /* ids are their callers' own */
    answer(&b, m, "\"result\":{\"y\":[1,2]}");
    json_decref(m);
    m = hear_type(&a, "invocationresult");
    CHECK_STR(json_text(m, "invocation_id"), CALL_ID);
    CHECK_STR(json_text(m, "traceparent"), "00-a");
    CHECK_STR(json_text(m, "baggage"), "k=v");
    CHECK_INT(json_array_size(json_object_get(json_object_get(m, "result"), "y")), 2);
    json_decref(m);
    /* A failure wins over a result, and a void call has no answer. */
    invoke(&a, CALL_ID, "greet::one", "null", "");
    m = hear_type(&b, "invokefunction");
    answer(&b, m, "\"result\":1,\"error\":{\"code\":\"E\",\"message\":\"m\"}");
    json_decref(m);
    m = hear_type(&a, "invocationresult");
    CHECK_STR(json_text(json_object_get(m, "error"), "code"), "E");
    json_decref(m);
    invoke(&a, CALL_ID, "greet::one", "{}", ",\"action\":{\"type\":\"void\"}");
    m = hear_type(&b, "invokefunction");
    answer(&b, m, "\"result\":1");
    json_decref(m);
    settle(&b);
    settle(&a);
    leave(&a);
    leave(&b);
    finish();
}

TEST(who_goes_leaves_its_callers_with_an_answer)
{
    struct client a, b;
    json_t *m;

    start();
    join(&a);
    join(&b);
    introduce(&b, "b");
    offer(&b, "slow::one");
    settle(&b);
    invoke(&a, CALL_ID, "slow::one", "{}", "");
    json_decref(hear_type(&b, "invokefunction"));
    leave(&b);
    m = hear_type(&a, "invocationresult");
    CHECK_STR(json_text(json_object_get(m, "error"), "code"), "invocation_stopped");
    json_decref(m);
    check_error(&a, "slow::one", "{}", "", "function_not_found");
    leave(&a);
    finish();
}

TEST(an_answer_counts_only_from_who_was_asked)
{
    struct client a, b, c;
    json_t *m;

    start();
    join(&a);
    join(&b);
    join(&c);
    introduce(&b, "b");
    offer(&b, "f::x");
    settle(&b);
    invoke(&a, CALL_ID, "f::x", "{}", "");
    m = hear_type(&b, "invokefunction");
    answer(&c, m, "\"result\":\"forged\"");
    settle(&c);
    answer(&b, m, "\"result\":\"own\"");
    json_decref(m);
    m = hear_type(&a, "invocationresult");
    CHECK_STR(json_text(m, "result"), "own");
    json_decref(m);
    leave(&a);
    leave(&b);
    leave(&c);
    finish();
}

TEST(a_name_is_its_first_owners)
{
    struct client a, b;
    json_t *m;

    start();
    join(&a);
    join(&b);
    introduce(&a, "a");
    introduce(&b, "b");
    offer(&a, "f::x");
    settle(&a);
    offer(&b, "f::x");
    m = hear_type(&b, "registrationrejected");
    CHECK_STR(json_text(m, "code"), "FUNCTION_NAMESPACE_CONFLICT");
    CHECK_STR(json_text(m, "function_id"), "f::x");
    CHECK_STR(json_text(m, "owner_worker_id"), a.id);
    json_decref(m);
    offer(&b, "cmd::run"); /* ours */
    json_decref(hear_type(&b, "registrationrejected"));
    offer(&b, "engine::mine");
    json_decref(hear_type(&b, "registrationrejected"));
    leave(&a);
    /* It is free when its owner has gone: who asks for it then gets it. */
    for (bool free = false; !free;) {
        offer(&b, "f::x");
        say(&b, "{\"type\":\"ping\"}");
        m = hear(&b);
        free = strcmp(json_text(m, "type"), "pong") == 0;
        json_decref(m);
        if (!free)
            json_decref(hear_type(&b, "pong"));
    }
    leave(&b);
    finish();
}

TEST(two_workers_of_a_name_are_one_too_many)
{
    struct client a, b;
    json_t *m;

    start();
    join(&a);
    join(&b);
    introduce(&a, "same");
    invoke(&b, CALL_ID, "engine::workers::register", "{\"name\":\"same\",\"pid\":1}", "");
    m = hear_type(&b, "registrationrejected");
    CHECK_STR(json_text(m, "code"), "WORKER_NAMESPACE_CONFLICT");
    CHECK_STR(json_text(m, "worker_name"), "same");
    json_decref(m);
    while ((m = hear(&b)))
        json_decref(m);
    leave(&b);
    settle(&a);
    leave(&a);
    finish();
}

TEST(who_comes_back_takes_the_place_of_its_old_connection)
{
    auto_free char *reattach = NULL;
    struct client old, new, other;
    json_t *m;

    start();
    join(&old);
    join(&other);
    introduce(&old, "w");
    offer(&old, "f::x");
    settle(&old);
    join(&new);
    say(&new, "{\"type\":\"reattach\",\"previous_worker_id\":\"x\",\"reattach_token\":\"y\"}");
    settle(&new);
    settle(&old); /* a wrong token changes nothing */
    reattach =
        xasprintf("{\"type\":\"reattach\",\"previous_worker_id\":\"%s\",\"reattach_token\":\"%s\"}",
                  old.id, old.token);
    say(&new, reattach);
    introduce(&new, "w");
    offer(&new, "f::x");
    settle(&new);
    while ((m = hear(&old)))
        json_decref(m);
    invoke(&other, CALL_ID, "f::x", "{}", "");
    m = hear_type(&new, "invokefunction");
    answer(&new, m, "\"result\":3");
    json_decref(m);
    m = hear_type(&other, "invocationresult");
    CHECK_INT(json_int(m, "result"), 3);
    json_decref(m);
    leave(&old);
    leave(&new);
    leave(&other);
    finish();
}

/* The order in which SDKs up to 0.22 send them. */
TEST(a_client_calls_its_own_function_before_it_has_said_its_name)
{
    struct client c;
    json_t *m;

    start();
    join(&c);
    offer(&c, "f::own");
    invoke(&c, CALL_ID, "f::own", "{\"n\":1}", "");
    check_error(&c, "f::other", "{}", "", "function_not_found");
    say(&c, "{\"type\":\"invokefunction\",\"function_id\":\"engine::workers::register\","
            "\"data\":{\"name\":\"c\"},\"action\":{\"type\":\"void\"}}");
    m = hear_type(&c, "invokefunction");
    CHECK_INT(json_int(json_object_get(m, "data"), "n"), 1);
    answer(&c, m, "\"result\":7");
    json_decref(m);
    m = hear_type(&c, "invocationresult");
    CHECK_STR(json_text(m, "invocation_id"), CALL_ID);
    CHECK_INT(json_int(m, "result"), 7);
    json_decref(m);
    leave(&c);
    finish();
}

TEST(namespaces_are_apart)
{
    struct client a, b;
    json_t *m;

    start();
    join(&a);
    join(&b);
    /* Before its namespace is known what it registers waits. */
    offer(&a, "f::x");
    check_error(&b, "f::x", "{}", "", "function_not_found");
    check_call(&a, "engine::workers::register",
               "{\"name\":\"a\",\"pid\":1,\"namespace\":\"other\"}", "{\"success\":true}");
    check_error(&b, "f::x", "{}", "", "function_not_found");
    check_error(&b, "f::x", "{}", ",\"namespace\":\" \"", "INVALID_NAMESPACE");
    check_error(&b, "cmd::run", "{}", ",\"namespace\":\"other\"", "function_not_found");
    invoke(&b, CALL_ID, "f::x", "{}", ",\"namespace\":\"other\"");
    m = hear_type(&a, "invokefunction");
    answer(&a, m, "\"result\":1");
    json_decref(m);
    json_decref(hear_type(&b, "invocationresult"));
    leave(&a);
    leave(&b);
    finish();
}

TEST(what_one_connection_registers_has_a_bound)
{
    struct client c;
    json_t *m;
    unsigned taken = 0;

    start();
    join(&c);
    introduce(&c, "c");
    for (unsigned i = 0; i < III_FUNCTIONS_MAX + 2; i++) {
        auto_free char *id = xasprintf("f::x%u", i);

        offer(&c, id);
    }
    say(&c, "{\"type\":\"ping\"}");
    for (m = hear(&c); strcmp(json_text(m, "type"), "pong") != 0; m = hear(&c)) {
        CHECK_STR(json_text(m, "type"), "registrationrejected");
        taken++;
        json_decref(m);
    }
    json_decref(m);
    CHECK_INT(taken, 2);
    leave(&c);
    finish();
}

/* ---- what there is ---- */

TEST(functions_and_workers_are_listed)
{
    json_t *m, *list;
    struct client c;

    start();
    join(&c);
    introduce(&c, "me");
    offer(&c, "f::x");
    settle(&c);
    check_call(&c, "engine::functions::list", "{\"prefix\":\"f::\"}",
               "{\"functions\":[{\"description\":\"d\",\"function_id\":\"f::x\",\"namespace\":"
               "\"default\",\"worker_name\":\"me\"}]}");
    m = call(&c, "engine::functions::info", "{\"function_id\":\"cmd::run\"}", "");
    CHECK_STR(json_text(json_object_get(m, "result"), "worker_name"), "iii-sandbox");
    CHECK(json_object_get(json_object_get(m, "result"), "request_schema"));
    json_decref(m);
    check_error(&c, "engine::functions::info", "{\"function_id\":\"no\"}", "", "NOT_FOUND");
    check_error(&c, "engine::functions::info", "{}", "", "INVALID_ARGUMENTS");
    m = call(&c, "engine::workers::list", "{\"search\":\"me\"}", "");
    list = json_object_get(json_object_get(m, "result"), "workers");
    CHECK_INT(json_array_size(list), 1);
    CHECK_STR(json_text(json_array_get(list, 0), "id"), c.id);
    CHECK_INT(json_int(json_array_get(list, 0), "function_count"), 1);
    json_decref(m);
    m = call(&c, "engine::workers::info", "{\"name\":\"iii-sandbox\"}", "");
    CHECK(json_array_size(json_object_get(json_object_get(m, "result"), "functions")) > 50);
    json_decref(m);
    leave(&c);
    finish();
}

/* ---- load ---- */

/* Many calls in flight both ways, while connections come and go. */
TEST(many_calls_at_once)
{
    enum { CALLS = 400 };
    struct client a, b;
    unsigned answered = 0;

    start();
    join(&a);
    join(&b);
    introduce(&b, "b");
    offer(&b, "echo::x");
    settle(&b);
    for (unsigned sent = 0, served = 0; answered < CALLS;) {
        struct client passing;
        json_t *m;

        for (; sent < CALLS && sent < served + 100; sent++) {
            char id[UUID_SIZE];

            iii_uuid_new(id);
            invoke(&a, id, "echo::x", "{\"n\":1}", "");
        }
        join(&passing);
        for (; served < sent; served++) {
            m = hear_type(&b, "invokefunction");
            answer(&b, m, "\"result\":0");
            json_decref(m);
        }
        for (; answered < served; answered++)
            json_decref(hear_type(&a, "invocationresult"));
        leave(&passing);
    }
    leave(&a);
    leave(&b);
    finish();
}

/* Much more than the sockets of a connection and the daemon keep for one that does not read. */
#define PIECE    (256u << 10)
#define TOO_MUCH 64 /* pieces */

static char *piece(void)
{
    char *text = xmalloc(PIECE + 3);

    memset(text, 'x', PIECE + 2);
    text[0] = text[PIECE + 1] = '"';
    text[PIECE + 2] = '\0';
    return text;
}

TEST(a_client_that_does_not_take_its_answers_is_closed)
{
    auto_free char *data = piece(), *result = xasprintf("\"result\":%s", data);
    struct client a, b;
    json_t *m;

    unsent_max = 2u << 20;
    start();
    join(&a);
    join(&b);
    introduce(&a, "a");
    offer(&a, "f::x");
    settle(&a);
    for (unsigned i = 0; i < TOO_MUCH; i++)
        invoke(&b, CALL_ID, "f::x", "{}", "");
    for (unsigned i = 0; i < TOO_MUCH; i++) {
        m = hear_type(&a, "invokefunction");
        answer(&a, m, result);
        json_decref(m);
    }
    settle(&a);
    while ((m = hear(&b)))
        json_decref(m);
    leave(&b);
    leave(&a);
    finish();
}

/* Else anybody could have it lose its connection, and what it has registered. */
TEST(a_worker_is_not_closed_for_what_others_send_it)
{
    auto_free char *data = piece();
    json_t *m, *asked[TOO_MUCH];
    struct client a, b;
    unsigned refused = 0;

    unsent_max = 2u << 20;
    start();
    join(&a);
    join(&b);
    introduce(&b, "b");
    offer(&b, "f::x");
    settle(&b);
    for (unsigned i = 0; i < TOO_MUCH; i++)
        invoke(&a, CALL_ID, "f::x", data, "");
    say(&a, "{\"type\":\"ping\"}");
    while ((m = hear(&a)) && strcmp(json_text(m, "type"), "pong") != 0) {
        CHECK_STR(json_text(json_object_get(m, "error"), "code"), "invocation_error");
        refused++;
        json_decref(m);
    }
    CHECK(m && refused > 0 && refused < TOO_MUCH);
    json_decref(m);
    CHECK_INT(atomic_load(&hub->calls), TOO_MUCH - refused);
    for (unsigned i = 0; i < TOO_MUCH - refused; i++)
        asked[i] = hear_type(&b, "invokefunction");
    for (unsigned i = 0; i < TOO_MUCH - refused; i++) {
        answer(&b, asked[i], "\"result\":1");
        json_decref(asked[i]);
        m = hear_type(&a, "invocationresult");
        CHECK(json_object_get(m, "result"));
        json_decref(m);
    }
    settle(&b);
    leave(&b);
    leave(&a);
    finish();
}

/* What would end its calls comes by the connection that waits for them. */
TEST(who_waits_for_many_calls_can_still_answer)
{
    enum { CALLS = III_IN_FLIGHT_MAX + 44 };
    unsigned answered = 0;
    struct client c;

    start();
    join(&c);
    introduce(&c, "c");
    offer(&c, "f::x");
    for (unsigned i = 0; i < CALLS; i++) {
        char id[UUID_SIZE];

        iii_uuid_new(id);
        invoke(&c, id, "f::x", "{}", "");
    }
    while (answered < CALLS) {
        json_t *m = hear(&c);

        CHECK(m);
        if (strcmp(json_text(m, "type"), "invokefunction") == 0)
            answer(&c, m, "\"result\":1");
        answered += strcmp(json_text(m, "type"), "invocationresult") == 0;
        CHECK(!json_object_get(m, "error"));
        json_decref(m);
    }
    leave(&c);
    finish();
}

/* ---- memory ---- */

static int raw_join(void)
{
    static const char head[] = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                               "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                               "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK_INT(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    CHECK_INT(write_all(fd, head, sizeof(head) - 1), 0);
    return fd;
}

static void raw_hear(int fd, const char *word)
{
    char got[4096] = "";

    for (size_t n = 0; !memmem(got, n, word, strlen(word));) {
        ssize_t more = read(fd, got + n, sizeof(got) - n);

        CHECK(more > 0);
        n += (size_t)more;
    }
}

/* A message that has come with the start of another. */
TEST(a_message_counts_until_it_is_read)
{
    /* A ping under a mask of zeroes; then the start of a frame of 0x90000 bytes. */
    static const char bytes[] = "\x81\x8f\0\0\0\0{\"type\":\"ping\"}"
                                "\x81\xff\0\0\0\0\0\x09\0\0\0\0\0\0\"xx";
    struct budget room;
    int fd;

    budget_init(&room, 1u << 20);
    memory = &room;
    start();
    fd = raw_join();
    CHECK_INT(write_all(fd, bytes, sizeof(bytes) - 1), 0);
    raw_hear(fd, "pong");
    for (int i = 0; budget_take(&room, 0x80000); i++) { /* the rest is looked at behind the ping */
        CHECK(i < WAIT_MS);
        budget_give(&room, 0x80000);
        (void)usleep(1000);
    }
    (void)close(fd);
    finish();
    CHECK(budget_take(&room, 1u << 20));
    budget_done(&room);
}

/* ---- the runner ---- */

struct job {
    struct work work;
    atomic_bool done;
    const atomic_bool *until; /* it is not done before; NULL = at once */
};

static void do_job(struct work *w)
{
    struct job *j = (struct job *)w;

    while (j->until && !atomic_load(j->until))
        (void)usleep(1000);
    atomic_store(&j->done, true);
}

static bool is_done(struct job *j)
{
    for (int i = 0; i < WAIT_MS && !atomic_load(&j->done); i++)
        (void)usleep(1000);
    return atomic_load(&j->done);
}

/* One thread without work is signalled for the first of two, and has not woken yet. */
TEST(what_is_quick_does_not_wait_for_what_is_slow)
{
    struct err err = {0};

    for (int i = 0; i < 50; i++) {
        struct runner *r = runner_new(8);
        struct job first = {.work = {.run = do_job}}, quick = {.work = {.run = do_job}};
        struct job slow = {.work = {.run = do_job}, .until = &quick.done};

        CHECK_INT(runner_start(r, &err), 0);
        runner_add(r, &first.work);
        CHECK(is_done(&first));
        (void)usleep(2000);
        runner_add(r, &slow.work);
        runner_add(r, &quick.work);
        CHECK(is_done(&quick));
        CHECK(is_done(&slow));
        runner_stop(r);
        runner_free(r);
    }
}

static void begin_jobs(struct runner *r, struct runner_share *s, struct job *jobs, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        jobs[i].work.share = s;
        runner_add(r, &jobs[i].work);
    }
}

/* Each has begun and says so by itself; none is done before the others may be. */
struct busy {
    struct work work;
    atomic_uint *begun;
    const atomic_bool *until;
    atomic_uint *ended;
};

static void be_busy(struct work *w)
{
    struct busy *b = (struct busy *)w;

    atomic_fetch_add(b->begun, 1);
    while (!atomic_load(b->until))
        (void)usleep(1000);
    atomic_fetch_add(b->ended, 1);
}

TEST(who_has_much_to_do_leaves_threads_to_others)
{
    enum { THREADS = 12, MANY = 40 };
    struct runner_share *a = runner_share_new(), *b = runner_share_new(), *c = runner_share_new();
    atomic_uint begun_a = 0, begun_b = 0, ended = 0;
    struct runner *r = runner_new(THREADS);
    struct job quick[3] = {
        {.work = {.run = do_job}}, {.work = {.run = do_job}}, {.work = {.run = do_job}}};
    struct busy of_a[MANY], of_b[MANY];
    atomic_bool over = false;
    struct err err = {0};

    CHECK_INT(runner_start(r, &err), 0);
    for (unsigned i = 0; i < MANY; i++) {
        of_a[i] = (struct busy){{.run = be_busy, .share = a}, &begun_a, &over, &ended};
        of_b[i] = (struct busy){{.run = be_busy, .share = b}, &begun_b, &over, &ended};
        runner_add(r, &of_a[i].work);
    }
    AWAIT(atomic_load(&begun_a) >= THREADS / 2);
    for (unsigned i = 0; i < MANY; i++)
        runner_add(r, &of_b[i].work);
    AWAIT(atomic_load(&begun_b) >= THREADS / 4);
    begin_jobs(r, c, quick, 3);
    for (unsigned i = 0; i < 3; i++)
        CHECK(is_done(&quick[i]));
    CHECK_INT(atomic_load(&begun_a), THREADS / 2);
    CHECK_INT(atomic_load(&begun_b), THREADS / 4);
    atomic_store(&over, true);
    AWAIT(atomic_load(&ended) == 2 * MANY);
    runner_stop(r);
    runner_free(r);
    runner_share_unref(a);
    runner_share_unref(b);
    runner_share_unref(c);
}

/* ---- in which order ---- */

static struct {
    pthread_mutex_t lock;
    char names[64];
} order = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void note(char name)
{
    (void)pthread_mutex_lock(&order.lock);
    order.names[strlen(order.names)] = name;
    (void)pthread_mutex_unlock(&order.lock);
}

static bool noted(size_t n)
{
    bool all;

    (void)pthread_mutex_lock(&order.lock);
    all = strlen(order.names) == n;
    (void)pthread_mutex_unlock(&order.lock);
    return all;
}

struct named {
    struct work work;
    char name;
};

static void note_work(struct work *w)
{
    note(((struct named *)w)->name);
}

TEST(those_who_have_work_take_turns)
{
    struct runner_share *a = runner_share_new(), *b = runner_share_new();
    struct named all[] = {
        {{.run = note_work, .share = a}, 'a'}, {{.run = note_work, .share = a}, 'a'},
        {{.run = note_work, .share = a}, 'a'}, {{.run = note_work, .share = b}, 'b'},
        {{.run = note_work, .share = b}, 'b'}, {{.run = note_work}, 'd'}};
    atomic_uint begun = 0, ended = 0;
    atomic_bool over = false;
    struct busy first = {{.run = be_busy, .share = a}, &begun, &over, &ended};
    struct runner *r = runner_new(1);
    struct err err = {0};

    CHECK_INT(runner_start(r, &err), 0);
    runner_add(r, &first.work);
    AWAIT(atomic_load(&begun) == 1);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        runner_add(r, &all[i].work);
    atomic_store(&over, true);
    AWAIT(noted(ARRAY_LEN(all)));
    CHECK_STR(order.names, "abdaba");
    runner_stop(r);
    runner_free(r);
    runner_share_unref(a);
    runner_share_unref(b);
}

static atomic_bool line_goes_on;
static atomic_uint line_begun;

static void note_question(struct iii_hub *h, const struct iii_question *q, iii_answered answered,
                          void *arg)
{
    (void)h;
    (void)answered;
    (void)arg;
    atomic_fetch_add(&line_begun, 1);
    while (!atomic_load(&line_goes_on))
        (void)usleep(1000);
    note(*q->function_id);
}

TEST(who_asks_much_about_others_waits_for_himself)
{
    struct iii_asker *a = iii_asker_new(&caller, NULL, NULL);
    struct iii_asker *b = iii_asker_new(&caller, NULL, NULL);
    struct iii_question of_a = {.asker = a, .function_id = "a"};
    struct iii_question of_b = {.asker = b, .function_id = "b"};
    struct iii_line *line;

    start();
    line = iii_line_new(hub, note_question);
    iii_line_ask(line, &of_a, NULL, NULL);
    AWAIT(atomic_load(&line_begun) == 1);
    for (unsigned i = 0; i < 4; i++)
        iii_line_ask(line, &of_a, NULL, NULL);
    iii_line_ask(line, &of_b, NULL, NULL);
    iii_line_ask(line, &of_b, NULL, NULL);
    CHECK_INT(atomic_load(&hub->calls), 7);
    atomic_store(&line_goes_on, true);
    AWAIT(noted(7));
    CHECK_STR(order.names, "aababaa");
    AWAIT(atomic_load(&hub->calls) == 0);
    iii_asker_unref(a);
    iii_asker_unref(b);
    finish();
    iii_line_free(line);
}

/* ---- shares ---- */

TEST(who_has_no_token_of_its_own_is_one_by_its_connection)
{
    struct caller token = {.name = "tok_1", .token_id = "tok_1"};
    struct iii_share *a = iii_share_new(&caller), *b = iii_share_new(&caller);
    struct iii_share *c = iii_share_new(&token), *d = iii_share_new(&token);

    CHECK(strcmp(a->who, b->who) != 0);
    CHECK_STR(c->who, "tok_1");
    CHECK_STR(d->who, "tok_1");
    iii_share_unref(a);
    iii_share_unref(b);
    iii_share_unref(c);
    iii_share_unref(d);
}

#define LEFT 10 /* calls that others have not taken */

static void take_most_calls(void)
{
    atomic_store(&hub->calls, III_CALLS_MAX - LEFT);
}

static void ask_void(struct client *c, const char *function, const char *action)
{
    auto_free char *text = xasprintf("{\"type\":\"invokefunction\",\"function_id\":\"%s\","
                                     "\"data\":{},\"action\":%s}",
                                     function, action);

    say(c, text);
}

/* A worker that answers nothing. */
static void start_with_worker(struct client *w)
{
    start();
    join(w);
    introduce(w, "w");
    offer(w, "f::x");
    settle(w);
}

static void hear_calls(struct client *w, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        json_decref(hear_type(w, "invokefunction"));
}

/* Others of the same name: none has a token. */
static void check_that_some_are_left(struct client *w, struct client *greedy)
{
    struct client other;

    check_error(greedy, "f::x", "{}", "", "invocation_error");
    check_error(greedy, "cmd::run", "{}", "", "invocation_error");
    check_error(greedy, "engine::functions::list", "{}", "", "invocation_error");
    join(&other);
    invoke(&other, CALL_ID, "f::x", "{}", "");
    hear_calls(w, 1);
    check_error(&other, "cmd::run", "{}", "", "invalid");
    leave(&other);
}

TEST(calls_that_nobody_answers_leave_some_to_others)
{
    struct client a, w;

    start_with_worker(&w);
    join(&a);
    take_most_calls();
    for (unsigned i = 0; i < LEFT / 2; i++)
        ask_void(&a, "f::x", i % 2 ? "{\"type\":\"void\"}" : "null");
    hear_calls(&w, LEFT / 2);
    check_that_some_are_left(&w, &a);
    leave(&a);
    leave(&w);
    finish();
}

TEST(a_call_that_is_never_answered_has_an_end)
{
    struct client a, w;
    json_t *m, *asked;

    start_with_worker(&w);
    join(&a);
    invoke(&a, CALL_ID, "f::x", "{}", "");
    asked = hear_type(&w, "invokefunction");
    ask_void(&a, "f::x", "{\"type\":\"void\"}");
    hear_calls(&w, 1);
    registry_sweep(hub->registry, mono_ns() + FORWARD_LIMIT_NS - 60000000000ll);
    CHECK_INT(atomic_load(&hub->calls), 2);
    registry_sweep(hub->registry, mono_ns() + FORWARD_LIMIT_NS);
    m = hear_type(&a, "invocationresult");
    CHECK_STR(json_text(m, "invocation_id"), CALL_ID);
    CHECK_STR(json_text(json_object_get(m, "error"), "code"), "TIMEOUT");
    CHECK_STR(json_text(json_object_get(m, "error"), "message"),
              "the function has not answered within 30 minutes");
    CHECK_INT(atomic_load(&hub->calls), 0);
    json_decref(m);
    answer(&w, asked, "\"result\":1"); /* which nobody waits for any more */
    json_decref(asked);
    settle(&w);
    settle(&a);
    leave(&a);
    leave(&w);
    finish();
}

/* Also those that come when none has waited for a while. */
TEST(the_clock_ends_calls_that_are_never_answered)
{
    struct client a, w;

    start_with_worker(&w);
    join(&a);
    hub->registry->forward_limit_ns = 1000000;
    for (unsigned i = 0; i < 3; i++)
        check_error(&a, "f::x", "{}", "", "TIMEOUT");
    AWAIT(atomic_load(&hub->calls) == 0);
    leave(&a);
    leave(&w);
    finish();
}

/* A row is a call as any other. */
TEST(calls_have_a_bound_of_all)
{
    struct client c;

    start();
    join(&c);
    atomic_store(&hub->calls, III_CALLS_MAX);
    check_error(&c, "cmd::run", "{}", "", "invocation_error");
    atomic_store(&hub->calls, 0);
    check_error(&c, "cmd::run", "{}", "", "invalid");
    while (atomic_load(&hub->calls) > 0) /* it ends just behind its answer */
        (void)usleep(1000);
    leave(&c);
    finish();
}

/* ---- rows ---- */

struct told {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool over;
    char code[64];
};

#define TOLD_NOTHING                                                                               \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER                        \
    }

static void on_told(void *arg, json_t *result, json_t *error)
{
    struct told *t = arg;

    (void)result;
    (void)pthread_mutex_lock(&t->lock);
    (void)snprintf(t->code, sizeof(t->code), "%s", json_text(error, "code"));
    t->over = true;
    (void)pthread_cond_signal(&t->cond);
    (void)pthread_mutex_unlock(&t->lock);
}

static void await_told(struct told *t)
{
    (void)pthread_mutex_lock(&t->lock);
    while (!t->over)
        (void)pthread_cond_wait(&t->cond, &t->lock);
    (void)pthread_mutex_unlock(&t->lock);
}

TEST(what_has_not_begun_when_its_caller_goes_does_not_begin)
{
    struct iii_asker *asker = iii_asker_new(&caller, NULL, NULL);
    struct iii_question q = {.asker = asker, .function_id = "cmd::run"};
    struct told told = TOLD_NOTHING;

    start();
    atomic_store(&asker->gone, true);
    iii_row_ask(hub, function_find("cmd::run"), &q, on_told, &told);
    await_told(&told);
    CHECK_STR(told.code, "cancelled");
    iii_asker_unref(asker);
    finish();
}

/* A stream without end, and a channel that nobody reads. */

static atomic_uint steps;

static int chatter_step(struct task *t, struct call *call, struct err *err)
{
    (void)t;
    atomic_fetch_add(&steps, 1);
    return sink_event(call, json_pack("{s:i}", "n", 1), err) < 0 ? -1 : TASK_AGAIN;
}

static void chatter_free(struct task *t)
{
    free(t);
}

static int chatter_run(struct call *call, struct err *err)
{
    static const struct task_ops ops = {.step = chatter_step, .free = chatter_free};

    (void)err;
    call->task = xcalloc(1, sizeof(*call->task));
    *call->task = (struct task){.ops = &ops, .fd = -1};
    return 0;
}

static int deaf_fd(struct pipe *p)
{
    (void)p;
    return -1;
}

static int deaf_say(struct pipe *p, const char *text)
{
    (void)p;
    (void)text;
    return 0;
}

static void deaf_close(struct pipe *p)
{
    (void)p;
}

static struct pipe *deaf_open(struct pipes *all, const json_t *ref, bool writes, struct err *err)
{
    static const struct pipe_ops ops = {.fd = deaf_fd, .say = deaf_say, .close = deaf_close};
    static struct pipe p = {&ops};

    (void)all;
    (void)ref;
    (void)writes;
    (void)err;
    return &p;
}

static const struct field no_fields[] = {{0}};
static const struct function chatter = {"test::chatter",
                                        "POST",
                                        "/chatter",
                                        no_fields,
                                        chatter_run,
                                        .scope = SCOPE_READ,
                                        .reach = REACH_ALL,
                                        .flags = FUNCTION_WAITS,
                                        .answer = ANSWER_EVENTS};

TEST(nothing_piles_up_for_a_channel_that_is_not_read)
{
    static const struct pipes_ops ops = {.open = deaf_open};
    struct pipes pipes = {&ops};
    struct iii_asker *asker = iii_asker_new(&caller, NULL, NULL);
    json_t *data = json_pack("{s:{}}", "channel");
    struct iii_question q = {
        .asker = asker, .function_id = "test::chatter", .data = data, .pipes = &pipes};
    struct told told = TOLD_NOTHING;

    start();
    iii_row_ask(hub, &chatter, &q, on_told, &told);
    while (atomic_load(&steps) == 0)
        (void)usleep(1000);
    for (int i = 0; i < 50; i++) {
        iii_rows_wake(hub, asker);
        (void)usleep(2000);
    }
    CHECK_INT(atomic_load(&steps), 1);
    atomic_store(&asker->gone, true);
    iii_rows_wake(hub, asker);
    await_told(&told);
    CHECK_STR(told.code, "cancelled");
    iii_asker_unref(asker);
    json_decref(data);
    finish();
}

/* Calls that hold what they were sent, and go on for as long as their caller stays. */
TEST(calls_of_one_client_do_not_hold_all_memory)
{
    static const struct pipes_ops ops = {.open = deaf_open};
    struct pipes pipes = {&ops};
    struct iii_asker *a = iii_asker_new(&caller, NULL, NULL),
                     *b = iii_asker_new(&caller, NULL, NULL);
    json_t *data = json_pack("{s:{}}", "channel");
    struct iii_question q = {.asker = a,
                             .data = data,
                             .pipes = &pipes,
                             .weight = 300u << 10,
                             .function_id = "test::chatter"};
    struct told first = TOLD_NOTHING, second = TOLD_NOTHING, third = TOLD_NOTHING;
    struct budget room;

    budget_init(&room, 1u << 20);
    memory = &room;
    start();
    iii_row_ask(hub, &chatter, &q, on_told, &first);
    iii_row_ask(hub, &chatter, &q, on_told, &second);
    await_told(&second);
    CHECK_STR(second.code, "invocation_error");
    q.asker = b;
    q.weight = 2u << 20; /* alone it may, whatever there is */
    iii_row_ask(hub, &chatter, &q, on_told, &third);
    CHECK_INT(atomic_load(&hub->calls), 2);
    atomic_store(&a->gone, true);
    atomic_store(&b->gone, true);
    iii_rows_wake(hub, a);
    iii_rows_wake(hub, b);
    await_told(&first);
    await_told(&third);
    CHECK_STR(third.code, "cancelled");
    iii_asker_unref(a);
    iii_asker_unref(b);
    json_decref(data);
    finish();
    CHECK(budget_take(&room, 1u << 20));
    budget_done(&room);
}

TEST(who_may_not_register_takes_no_name)
{
    struct client c, worker, late;

    start();
    (void)snprintf(caller.sandbox_id, sizeof(caller.sandbox_id), "sb_1");
    join(&c);
    introduce(&c, "w");
    caller.sandbox_id[0] = '\0';
    join(&worker);
    introduce(&worker, "w");
    (void)snprintf(caller.sandbox_id, sizeof(caller.sandbox_id), "sb_1");
    join(&late);
    introduce(&late, "w"); /* and does not learn who has it */
    leave(&late);
    leave(&worker);
    leave(&c);
    finish();
}

TEST(a_call_whose_names_are_too_long_is_answered)
{
    auto_free char *name = xmalloc(III_NAME_MAX + 2), *more = NULL;
    struct client c;

    memset(name, 'x', III_NAME_MAX + 1);
    name[III_NAME_MAX + 1] = '\0';
    more = xasprintf(",\"namespace\":\"%s\"", name);
    start();
    join(&c);
    introduce(&c, "c");
    offer(&c, "f::x");
    check_error(&c, name, "{}", "", "function_not_found");
    check_error(&c, "f::x", "{}", more, "INVALID_NAMESPACE");
    leave(&c);
    finish();
}

/* Others may hold all that there is for what is unsent. */
TEST(who_takes_its_messages_is_not_closed_for_others)
{
    struct budget room;
    struct client c;

    budget_init(&room, 1u << 20);
    streams = &room;
    start();
    join(&c);
    CHECK(budget_take_share(&room, "a", 1u << 19));
    CHECK(budget_take_share(&room, "b", 1u << 19));
    settle(&c);
    settle(&c);
    budget_give_share(&room, "a", 1u << 19);
    budget_give_share(&room, "b", 1u << 19);
    leave(&c);
    finish();
    CHECK(budget_take(&room, 1u << 20));
    budget_done(&room);
}

TEST(registrations_of_who_may_not_do_not_wait)
{
    struct client c;
    json_t *m;

    start();
    caller.scopes = 1u << SCOPE_NONE | 1u << SCOPE_READ;
    join(&c);
    offer(&c, "f::x");
    say(&c, "{\"type\":\"ping\"}");
    m = hear(&c);
    CHECK_STR(json_text(m, "type"), "registrationrejected");
    json_decref(m);
    leave(&c);
    finish();
}

/* Before a namespace is said: more than all may have. */
TEST(registrations_that_wait_count_as_registered)
{
    enum { CLIENTS = 12, BYTES = 0xe0000 };
    auto_free char *text = xmalloc(BYTES + 1);
    struct client all[CLIENTS];
    unsigned rejected = 0;

    memset(text, 'x', BYTES);
    text[BYTES] = '\0';
    start();
    hub->registry->bytes_max = 8u << 20;
    for (unsigned i = 0; i < CLIENTS; i++) {
        auto_free char *offered = xasprintf(
            "{\"type\":\"registerfunction\",\"id\":\"f::%u\",\"description\":\"%s\"}", i, text);
        json_t *m;

        join(&all[i]);
        say(&all[i], offered);
        say(&all[i], "{\"type\":\"ping\"}");
        m = hear(&all[i]);
        rejected += strcmp(json_text(m, "type"), "registrationrejected") == 0;
        json_decref(m);
    }
    CHECK(rejected > 0);
    for (unsigned i = 0; i < CLIENTS; i++)
        leave(&all[i]);
    finish();
}

TAP_MAIN
