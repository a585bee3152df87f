#include "base/clock.h"
#include "base/json.h"
#include "http/server.h"
#include "iii/rbac.h"
#include "iii/registry_internal.h"
#include "iii_clients.h"
#include "test_face.h"

/* Listeners with a guard, over real sockets. The test is the worker that has the auth function, the
 * hooks and the middleware, at a listener without one; and it is the clients at the other. */

static struct http_server *server;
static struct iii_hub *hub;
static struct iii_guard *guard;
static unsigned ports[2]; /* for all, and with the guard */
static bool open_to_all = true;
static const struct caller trusted = {.name = "test", .scopes = SCOPES_ALL};

/* As the REST face does it. */
static void handle(struct http_req *req, void *arg)
{
    struct caller c = trusted;

    (void)arg;
    if (http_req_listener(req) && !http_req_header(req, "X-Token")) {
        c.scopes = 0;
        (void)snprintf(c.name, sizeof(c.name), "anyone");
    }
    (void)snprintf(c.from, sizeof(c.from), "127.0.0.1");
    (void)iii_handle_worker(req, &c, NULL, NULL, hub);
}

static struct iii_guard *guard_of(const char *text)
{
    json_t *listener = json_loads(text, 0, NULL);
    struct err err = {0};
    struct iii_guard *g;

    CHECK(listener);
    g = iii_guard_new(listener, &err);
    if (!g)
        TAP_FAIL("guard: %s", err.text);
    json_decref(listener);
    return g;
}

static void start(const char *listener)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    struct iii_config config = {.about = &about, .services = &services, .open = open_to_all};
    struct err err = {0};

    guard = guard_of(listener);
    hub = iii_hub_new(&config);
    CHECK_INT(iii_hub_start(hub, &err), 0);
    server = http_server_new(&limits, handle, NULL);
    CHECK_INT(http_server_listen(server, listen_on_any(&ports[0]), true, &err), 0);
    CHECK_INT(http_server_listen_as(server, listen_on_any(&ports[1]), true, guard, &err), 0);
    CHECK_INT(http_server_start(server, &err), 0);
}

static void finish(void)
{
    http_server_drain(server);
    http_server_stop(server, 5000);
    iii_hub_stop(hub);
    CHECK_INT(hub->entering.used, 0);
    http_server_free(server);
    iii_hub_free(hub);
    iii_guard_free(guard);
}

/* ---- clients ---- */

/* "ok", or the code of the error. */
static const char *outcome(struct client *c, const char *function, const char *data,
                           const char *more)
{
    static char code[64];
    json_t *m = call(c, function, data, more);
    const json_t *error = json_object_get(m, "error");

    (void)snprintf(code, sizeof(code), "%s", error ? json_text(error, "code") : "ok");
    json_decref(m);
    return code;
}

static void introduce(struct client *c)
{
    CHECK_STR(outcome(c, "engine::workers::register", "{\"pid\":7}", ""), "ok");
}

static void offer(struct client *c, const char *id, const char *metadata)
{
    auto_free char *text =
        xasprintf("{\"type\":\"registerfunction\",\"id\":\"%s\",\"metadata\":%s}", id, metadata);

    say(c, text);
}

static void bind_to(struct client *c, const char *id, const char *type, const char *function,
                    const char *config)
{
    auto_free char *text =
        xasprintf("{\"type\":\"registertrigger\",\"id\":\"%s\",\"trigger_type\":\"%s\","
                  "\"function_id\":\"%s\",\"config\":%s}",
                  id, type, function, config);

    say(c, text);
}

/* The next call that it is to carry out, of that function; answered with what. */
static json_t *serve(struct client *c, const char *function, const char *what)
{
    json_t *m = hear_type(c, "invokefunction");

    CHECK_STR(json_text(m, "function_id"), function);
    answer(c, m, what);
    return m;
}

/* The worker that has what the operator's rules are made of, and functions for the clients. */
static struct client worker;

static void start_worker(const char *const *functions)
{
    dial(&worker, ports[0], "/", NULL);
    welcome(&worker);
    introduce(&worker);
    for (; *functions; functions++)
        offer(&worker, *functions, "null");
    settle(&worker);
}

/* One that comes in with these rules. */
static void enter(struct client *c, const char *rules)
{
    auto_free char *what = xasprintf("\"result\":%s", rules);

    dial(c, ports[1], "/", NULL);
    json_decref(serve(&worker, "a::auth", what));
    welcome(c);
}

static void check_refused(struct client *c, const char *word)
{
    json_t *m = hear(c);

    CHECK_STR(json_text(m, "type"), "error");
    CHECK_STR(json_text(json_object_get(m, "error"), "code"), "AUTH_ERROR");
    if (!strstr(json_text(json_object_get(m, "error"), "message"), word))
        TAP_FAIL("no \"%s\" in: %s", word, json_text(json_object_get(m, "error"), "message"));
    json_decref(m);
    CHECK(!hear(c));
    leave(c);
}

static bool budget_is_taken(struct budget *b)
{
    bool taken;

    (void)pthread_mutex_lock(&b->lock);
    taken = b->used > 0;
    (void)pthread_mutex_unlock(&b->lock);
    return taken;
}

/* Until so many calls of all wait for an answer. */
static void await_calls(unsigned n)
{
    int64_t until = mono_ns() + WAIT_MS / 4 * 1000000ll;

    while (atomic_load(&hub->calls) != n) {
        if (mono_ns() >= until)
            TAP_FAIL("%u calls wait, not %u", atomic_load(&hub->calls), n);
        settle(&worker);
    }
}

/* A reference of what the hub has of a client. */
static struct iii_peer *peer_of(const struct client *c)
{
    struct iii_peer *p;

    (void)pthread_mutex_lock(&hub->registry->lock);
    for (p = hub->registry->peers; p && strcmp(p->asker.worker_id, c->id) != 0; p = p->next)
        ;
    if (!p)
        TAP_FAIL("a client is not known");
    (void)iii_asker_ref(&p->asker);
    (void)pthread_mutex_unlock(&hub->registry->lock);
    return p;
}

/* Calls that count as its own. */
static unsigned calls_of(const struct client *c)
{
    struct iii_peer *p = peer_of(c);
    unsigned calls = atomic_load(&p->asker.share->calls);

    iii_asker_unref(&p->asker);
    return calls;
}

static void ignore_answer(void *arg, json_t *result, json_t *error)
{
    (void)arg;
    (void)result;
    (void)error;
}

static const char *const auth_only[] = {"a::auth", "f::one", "f::two", "f::three", NULL};

#define AUTH "{\"rbac\":{\"auth_function_id\":\"a::auth\"}}"

/* ---- rules, without a connection ---- */

TEST(a_star_stands_for_any_text)
{
    CHECK(iii_pattern_matches("*", ""));
    CHECK(iii_pattern_matches("a::*", "a::b::c"));
    CHECK(!iii_pattern_matches("a::*", "b::a::c"));
    CHECK(iii_pattern_matches("*::public", "x::y::public"));
    CHECK(!iii_pattern_matches("*::public", "x::public2"));
    CHECK(iii_pattern_matches("a*b*c", "a-b-b-c"));
    CHECK(!iii_pattern_matches("a*b*c", "a-c-b"));
    CHECK(!iii_pattern_matches("a", "ab"));
    CHECK(!iii_pattern_matches("a?", "ab"));
    CHECK(!iii_pattern_matches("[a]", "a"));
}

TEST(rules_are_asked_in_the_order_of_the_contract)
{
    struct iii_guard *g = guard_of(
        "{\"rbac\":{\"auth_function_id\":\"a\",\"expose_functions\":[\"match(\\\"api::*\\\")\","
        "{\"match\":\"n::*\",\"namespace\":\"n\"},"
        "{\"metadata\":{\"public\":true,\"name\":\"match('x*')\"}}]}}");
    json_t *rules = json_loads("{\"allowed_functions\":[\"ok\",\"no\"],"
                               "\"forbidden_functions\":[\"no\",\"api::secret*\","
                               "\"engine::log::warn\"],\"namespaces\":{\"n\":[\"g::*\",\"no\"]}}",
                               0, NULL);
    json_t *fits = json_pack("{s:b, s:s, s:i}", "public", 1, "name", "xy", "more", 1);
    json_t *fits_not = json_pack("{s:b, s:s}", "public", 1, "name", "yx");
    struct iii_session *s = iii_session_new(g, rules, NULL);

    CHECK(s);
    CHECK(iii_session_lets(s, NULL, "ok", NULL));
    CHECK(!iii_session_lets(s, "n", "ok", NULL)); /* allowed_functions: in one namespace */
    CHECK(!iii_session_lets(s, NULL, "no", NULL));
    CHECK(!iii_session_lets(s, "n", "no", NULL));
    CHECK(iii_session_lets(s, NULL, "api::x", NULL));
    CHECK(!iii_session_lets(s, NULL, "api::secret::x", NULL));
    CHECK(!iii_session_lets(s, "n", "api::x", NULL));
    CHECK(iii_session_lets(s, "n", "n::x", NULL));
    CHECK(iii_session_lets(s, "n", "g::x", NULL));
    CHECK(!iii_session_lets(s, NULL, "g::x", NULL));
    CHECK(iii_session_lets(s, NULL, "any", fits));
    CHECK(!iii_session_lets(s, NULL, "any", fits_not));
    CHECK(!iii_session_lets(s, NULL, "any", NULL));
    CHECK(iii_session_lets(s, NULL, "engine::channels::create", NULL));
    CHECK(iii_session_lets(s, NULL, "engine::workers::register", NULL));
    CHECK(!iii_session_lets(s, NULL, "engine::log::warn", NULL));
    CHECK(!iii_session_lets(s, NULL, "engine::functions::list", NULL));
    CHECK(!iii_session_lets(s, NULL, "publish", NULL));
    iii_session_unref(s);
    json_decref(rules);
    json_decref(fits);
    json_decref(fits_not);
    iii_guard_free(g);
}

/* The hub answers for its own in whatever namespace it is asked. */
TEST(a_grant_for_a_namespace_is_none_for_the_functions_of_the_hub)
{
    struct iii_guard *g = guard_of(AUTH);
    json_t *rules = json_loads("{\"namespaces\":{\"n\":[\"*\"]}}", 0, NULL);
    struct iii_session *s = iii_session_new(g, rules, NULL);

    CHECK(iii_session_lets(s, "n", "x", NULL));
    CHECK(!iii_session_lets(s, "n", "publish", NULL));
    CHECK(!iii_session_lets(s, "n", "engine::register_trigger", NULL));
    iii_session_unref(s);
    json_decref(rules);
    iii_guard_free(g);
}

TEST(rules_that_make_no_sense_let_nobody_in)
{
    static const char *const bad[] = {"[]",
                                      "null",
                                      "true",
                                      "{\"allowed_functions\":\"a\"}",
                                      "{\"forbidden_functions\":[1]}",
                                      "{\"namespaces\":[]}",
                                      "{\"namespaces\":{\"n\":\"*\"}}",
                                      "{\"allow_function_registration\":\"no\"}",
                                      "{\"function_registration_prefix\":1}",
                                      "{\"context\":1}",
                                      "{\"allowed_trigger_types\":{}}"};
    struct iii_guard *g = guard_of(AUTH);

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        json_t *rules = json_loads(bad[i], JSON_DECODE_ANY, NULL);
        struct err err = {0};

        CHECK(!iii_session_new(g, rules, &err));
        CHECK_INT(err.kind, ERR_INVALID);
        json_decref(rules);
    }
    iii_guard_free(g);
}

TEST(a_rule_with_a_word_that_is_none_is_no_rule)
{
    static const char *const bad[] = {"{\"match\":\"*\",\"namespce\":\"blue\"}",
                                      "{\"metadata\":{\"a\":1},\"mach\":\"x\"}"};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        auto_free char *text = xasprintf("{\"rbac\":{\"expose_functions\":[%s]}}", bad[i]);
        json_t *listener = json_loads(text, 0, NULL);
        struct err err = {0};

        CHECK(!iii_guard_new(listener, &err));
        CHECK_INT(err.kind, ERR_INVALID);
        json_decref(listener);
    }
}

static bool lets_type(const char *listener, const char *rules, const char *type)
{
    struct iii_guard *g = guard_of(listener);
    json_t *said = json_loads(rules, 0, NULL);
    struct iii_session *s = iii_session_new(g, said, NULL);
    bool lets = iii_session_lets_type(s, type);

    iii_session_unref(s);
    json_decref(said);
    iii_guard_free(g);
    return lets;
}

TEST(types_that_tell_of_others_need_a_right)
{
    static const char *const topics[] = {"subscribe", "queue", "durable:subscriber"};
    static const char middle[] =
        "{\"rbac\":{\"auth_function_id\":\"a\"},\"middleware_function_id\":\"m\"}";

    CHECK(lets_type(AUTH, "{}", "cron"));
    CHECK(lets_type(AUTH, "{}", "of-a-client"));
    CHECK(!lets_type(AUTH, "{}", "sandbox"));
    CHECK(lets_type(AUTH, "{\"allowed_functions\":[\"sandbox::list\"]}", "sandbox"));
    CHECK(!lets_type(middle, "{\"allowed_functions\":[\"sandbox::list\"]}", "sandbox"));
    CHECK(lets_type(middle, "{\"allowed_trigger_types\":[\"sandbox\"]}", "sandbox"));
    CHECK(!lets_type(AUTH, "{\"allowed_trigger_types\":[\"cron\"]}", "sandbox"));
    for (size_t i = 0; i < ARRAY_LEN(topics); i++) {
        CHECK(!lets_type(AUTH, "{}", topics[i]));
        CHECK(lets_type(AUTH, "{\"allowed_functions\":[\"publish\"]}", topics[i]));
        CHECK(lets_type(AUTH, "{\"allowed_functions\":[\"iii::durable::publish\"]}", topics[i]));
    }
    CHECK(!lets_type("{\"rbac\":{\"expose_functions\":[\"match('*')\"]}}", "{}",
                     "engine::workers-available"));
    CHECK(lets_type(AUTH, "{\"allowed_trigger_types\":[\"engine::workers-available\"]}",
                    "engine::workers-available"));
    CHECK(lets_type("{}", "{}", "engine::workers-available"));
}

/* ---- who comes in ---- */

TEST(the_auth_function_is_told_who_knocks_and_says_what_it_may)
{
    struct client c;
    const json_t *data, *list;
    json_t *m;

    start(AUTH);
    start_worker(auth_only);
    dial(&c, ports[1], "/?key=a%20b&key=c&z", (char *[]){"X-Key: 1", "X-Key: 2", NULL});
    m = serve(&worker, "a::auth", "\"result\":{\"allowed_functions\":[\"f::one\"]}");
    data = json_object_get(m, "data");
    CHECK_STR(json_text(data, "ip_address"), "127.0.0.1");
    CHECK_STR(json_text(json_object_get(data, "headers"), "x-key"), "1, 2");
    list = json_object_get(json_object_get(data, "query_params"), "key");
    CHECK_INT(json_array_size(list), 2);
    CHECK_STR(json_string_value(json_array_get(list, 0)), "a b");
    CHECK_STR(json_string_value(json_array_get(list, 1)), "c");
    CHECK(json_is_array(json_object_get(json_object_get(data, "query_params"), "z")));
    CHECK(!json_object_get(data, "_caller_worker_id"));
    json_decref(m);
    welcome(&c);
    invoke(&c, c.id, "f::one", "{}", "");
    json_decref(serve(&worker, "f::one", "\"result\":1"));
    json_decref(hear_type(&c, "invocationresult"));
    CHECK_STR(outcome(&c, "f::two", "{}", ""), "FORBIDDEN");
    CHECK_STR(outcome(&c, "nowhere", "{}", ""), "FORBIDDEN");
    leave(&c);
    leave(&worker);
    finish();
}

TEST(who_is_not_let_in_is_told_so_and_closed)
{
    struct client c;

    start(AUTH);
    dial(&c, ports[1], "/", NULL);
    check_refused(&c, "a::auth not found");
    start_worker(auth_only);
    dial(&c, ports[1], "/", NULL);
    json_decref(serve(&worker, "a::auth", "\"error\":{\"code\":\"X\",\"message\":\"go away\"}"));
    check_refused(&c, "go away");
    dial(&c, ports[1], "/", NULL);
    json_decref(serve(&worker, "a::auth", "\"result\":null"));
    check_refused(&c, "no rules");
    dial(&c, ports[1], "/", NULL);
    json_decref(hear_type(&worker, "invokefunction"));
    leave(&worker); /* while it is asked */
    check_refused(&c, "gone");
    finish();
}

TEST(an_auth_function_that_does_not_answer_lets_nobody_in)
{
    struct client c;
    json_t *m;

    start(AUTH);
    start_worker(auth_only);
    hub->answer_ns = 1;
    dial(&c, ports[1], "/", NULL);
    m = hear_type(&worker, "invokefunction");
    check_refused(&c, "in time");
    CHECK_INT(atomic_load(&hub->calls), 0);
    CHECK(!budget_is_taken(&hub->entering));
    answer(&worker, m, "\"result\":{}"); /* which is nobody's any more */
    json_decref(m);
    settle(&worker);
    hub->answer_ns = 60 * 1000000000ll;
    enter(&c, "{}");
    leave(&c);
    leave(&worker);
    finish();
}

TEST(who_leaves_while_it_waits_leaves_nothing_behind)
{
    struct client c;
    json_t *m;

    start(AUTH);
    start_worker(auth_only);
    dial(&c, ports[1], "/", NULL);
    m = hear_type(&worker, "invokefunction");
    leave(&c);
    while (budget_is_taken(&hub->entering))
        settle(&worker);
    CHECK_INT(atomic_load(&hub->calls), 0); /* its place is that of the call */
    answer(&worker, m, "\"result\":{}");
    json_decref(m);
    settle(&worker);
    leave(&worker);
    finish();
}

/* A registration is not to be had by making the hook slow. */
TEST(a_hook_that_does_not_answer_refuses)
{
    static const char *const functions[] = {"a::auth", "h::f", NULL};
    struct client c;
    json_t *m;

    start("{\"rbac\":{\"auth_function_id\":\"a::auth\","
          "\"on_function_registration_function_id\":\"h::f\"}}");
    start_worker(functions);
    enter(&c, "{}");
    introduce(&c);
    hub->answer_ns = 1;
    offer(&c, "mine", "null");
    m = hear_type(&c, "registrationrejected");
    CHECK_STR(json_text(m, "function_id"), "mine");
    json_decref(m);
    CHECK_INT(atomic_load(&hub->calls), 0);
    json_decref(serve(&worker, "h::f", "\"result\":{}"));
    settle(&worker);
    settle(&c);
    CHECK(!iii_registry_function(hub->registry, "default", "mine"));
    leave(&c);
    leave(&worker);
    finish();
}

TEST(the_call_of_a_hook_is_its_clients_and_ends_with_it)
{
    static const char *const functions[] = {"a::auth", "h::f", NULL};
    struct client c;
    json_t *m;

    start("{\"rbac\":{\"auth_function_id\":\"a::auth\","
          "\"on_function_registration_function_id\":\"h::f\"}}");
    start_worker(functions);
    enter(&c, "{}");
    introduce(&c);
    offer(&c, "mine", "null");
    m = hear_type(&worker, "invokefunction");
    CHECK_INT(calls_of(&c), 1);
    leave(&c);
    await_calls(0);
    answer(&worker, m, "\"result\":{}");
    json_decref(m);
    settle(&worker);
    CHECK(!iii_registry_function(hub->registry, "default", "mine"));
    leave(&worker);
    finish();
}

/* What was sent before is done when it is in, and not at all when it is not. */
TEST(nothing_is_read_before_it_is_let_in)
{
    struct client c, other;
    json_t *m, *n;

    start("{\"rbac\":{\"auth_function_id\":\"a::auth\",\"expose_functions\":[\"match('f::*')\"]}}");
    start_worker(auth_only);
    dial(&c, ports[1], "/", NULL);
    m = hear_type(&worker, "invokefunction");
    invoke(&c, "11111111-2222-4333-8444-555555555555", "f::one", "{}", "");
    dial(&other, ports[1], "/", NULL); /* another is served meanwhile */
    n = hear_type(&worker, "invokefunction");
    CHECK_STR(json_text(n, "function_id"), "a::auth");
    answer(&worker, n, "\"result\":{}");
    json_decref(n);
    welcome(&other);
    settle(&worker);
    answer(&worker, m, "\"result\":{}");
    json_decref(m);
    json_decref(serve(&worker, "f::one", "\"result\":1"));
    json_decref(hear_type(&c, "workerregistered"));
    json_decref(hear_type(&c, "invocationresult"));
    leave(&c);
    leave(&other);
    leave(&worker);
    finish();
}

TEST(only_so_many_of_one_address_wait_to_be_let_in)
{
    struct client c[III_ENTERING_MAX / 2];
    auto_free char *url = NULL;
    struct websocket_dial how = {.timeout_ms = WAIT_MS, .stop_fd = -1, .message_max = 1024};
    struct err err = {0};
    json_t *m;

    start(AUTH);
    start_worker(auth_only);
    for (size_t i = 0; i < ARRAY_LEN(c); i++)
        dial(&c[i], ports[1], "/", NULL);
    url = xasprintf("ws://127.0.0.1:%u/", ports[1]);
    how.url = url;
    CHECK(!websocket_dial(&how, &err));
    CHECK(strstr(err.text, "503"));
    /* When one is in there is room for the next. */
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        m = serve(&worker, "a::auth", "\"result\":{}");
        json_decref(m);
    }
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        welcome(&c[i]);
        leave(&c[i]);
    }
    enter(&c[0], "{}");
    leave(&c[0]);
    leave(&worker);
    finish();
}

TEST(who_has_a_token_needs_no_auth_function)
{
    struct client c;

    start(AUTH);
    dial(&c, ports[1], "/", (char *[]){"X-Token: t", NULL});
    welcome(&c);
    CHECK_STR(outcome(&c, "engine::functions::list", "{}", ""), "ok");
    leave(&c);
    finish();
}

/* Where a token is needed, a listener that asks nobody is no way around it. */
TEST(a_guard_without_an_auth_function_is_open_only_where_the_daemon_is)
{
    auto_free char *url = NULL;
    struct websocket_dial how = {.timeout_ms = WAIT_MS, .stop_fd = -1, .message_max = 1024};
    struct err err = {0};
    struct client c;

    start("{\"rbac\":{\"expose_functions\":[\"match('engine::queue::*')\"]}}");
    dial(&c, ports[1], "/", NULL);
    welcome(&c);
    CHECK_STR(outcome(&c, "engine::queue::list_topics", "{}", ""), "ok");
    CHECK_STR(outcome(&c, "engine::functions::list", "{}", ""), "FORBIDDEN");
    leave(&c);
    finish();
    open_to_all = false;
    start("{\"rbac\":{\"expose_functions\":[\"match('*')\"]}}");
    url = xasprintf("ws://127.0.0.1:%u/", ports[1]);
    how.url = url;
    CHECK(!websocket_dial(&how, &err));
    CHECK(strstr(err.text, "401"));
    finish();
    open_to_all = true;
}

/* ---- calls ---- */

TEST(no_kind_of_call_goes_round_the_rules)
{
    static const char enqueue[] = ",\"action\":{\"type\":\"enqueue\",\"queue\":\"q\"}";
    struct client c;
    json_t *m;

    start(AUTH);
    start_worker(auth_only);
    enter(&c, "{\"allowed_functions\":[\"f::one\",\"engine::queue::enqueue\"]}");
    CHECK_STR(outcome(&c, "f::two", "{}", enqueue), "FORBIDDEN");
    CHECK_STR(outcome(&c, "engine::queue::enqueue",
                      "{\"queue\":\"q\",\"function_id\":\"f::two\",\"data\":1}", ""),
              "FORBIDDEN");
    CHECK_STR(outcome(&c, "publish", "{\"topic\":\"t\",\"data\":1}", ""), "FORBIDDEN");
    CHECK_STR(outcome(&c, "iii::durable::publish", "{\"topic\":\"t\",\"data\":1}", ""),
              "FORBIDDEN");
    CHECK_STR(outcome(&c, "engine::register_trigger",
                      "{\"trigger_type\":\"cron\",\"function_id\":\"f::one\"}", ""),
              "FORBIDDEN");
    CHECK_STR(outcome(&c, "engine::functions::list", "{}", ""), "FORBIDDEN");
    CHECK_STR(outcome(&c, "f::one", "{}", ",\"namespace\":\"n\""), "FORBIDDEN");
    say(&c, "{\"type\":\"invokefunction\",\"function_id\":\"f::two\",\"data\":{},"
            "\"action\":{\"type\":\"void\"}}");
    CHECK_STR(outcome(&c, "f::one", "{}", enqueue), "ok");
    m = hear_type(&worker, "invokefunction");
    CHECK_STR(json_text(m, "function_id"), "f::one"); /* and nothing before it */
    answer(&worker, m, "\"result\":1");
    json_decref(m);
    leave(&c);
    leave(&worker);
    finish();
}

/* It may do what its rules let it, but never hand out rights: to expose token::* is no way. */
TEST(a_session_administers_nothing)
{
    struct client c;

    start("{\"rbac\":{\"auth_function_id\":\"a::auth\",\"expose_functions\":[\"match('*')\"]}}");
    start_worker(auth_only);
    enter(&c, "{}");
    CHECK_STR(outcome(&c, "token::list", "{}", ""), "scope_missing");
    leave(&c);
    leave(&worker);
    finish();
}

TEST(the_middleware_is_called_in_place_of_the_function)
{
    static const char *const functions[] = {"a::auth", "a::mid", "f::one", NULL};
    const json_t *data;
    struct client c;
    json_t *m;

    start("{\"rbac\":{\"auth_function_id\":\"a::auth\",\"expose_functions\":[\"match('f::*')\"]},"
          "\"middleware_function_id\":\"a::mid\"}");
    start_worker(functions);
    enter(&c, "{\"context\":{\"user\":\"u\"}}");
    introduce(&c); /* is about the connection, and goes round it */
    invoke(&c, c.id, "f::one", "{\"x\":1}", "");
    m = serve(&worker, "a::mid", "\"result\":\"middle\"");
    data = json_object_get(m, "data");
    CHECK_STR(json_text(data, "function_id"), "f::one");
    CHECK_INT(json_int(json_object_get(data, "payload"), "x"), 1);
    CHECK_STR(json_text(json_object_get(data, "context"), "user"), "u");
    CHECK_STR(json_text(data, "namespace"), "default");
    CHECK(!json_object_get(data, "action"));
    json_decref(m);
    m = hear_type(&c, "invocationresult");
    CHECK_STR(json_text(m, "result"), "middle");
    json_decref(m);
    /* Also what would be queued, which is up to it. */
    invoke(&c, c.id, "f::one", "{}", ",\"action\":{\"type\":\"enqueue\",\"queue\":\"q\"}");
    m = serve(&worker, "a::mid", "\"result\":{\"messageReceiptId\":\"r\"}");
    data = json_object_get(json_object_get(m, "data"), "action");
    CHECK_STR(json_text(data, "queue"), "q");
    json_decref(m);
    m = hear_type(&c, "invocationresult");
    CHECK_STR(json_text(json_object_get(m, "result"), "messageReceiptId"), "r");
    json_decref(m);
    /* What may not be called does not come to it. */
    CHECK_STR(outcome(&c, "a::mid", "{}", ""), "FORBIDDEN");
    leave(&worker);
    CHECK_STR(outcome(&c, "f::one", "{}", ""), "function_not_found");
    leave(&c);
    finish();
}

TEST(a_trigger_goes_through_the_middleware_unless_the_function_is_its_own)
{
    static const char *const functions[] = {"a::auth", "a::mid", "f::one", NULL};
    struct client c;
    json_t *m;

    start("{\"rbac\":{\"auth_function_id\":\"a::auth\",\"expose_functions\":[\"match('f::*')\"]},"
          "\"middleware_function_id\":\"a::mid\"}");
    start_worker(functions);
    enter(&c, "{\"allowed_trigger_types\":[\"subscribe\"]}");
    introduce(&c);
    offer(&c, "mine", "null");
    bind_to(&c, "t1", "subscribe", "mine", "{\"topic\":\"t\"}");
    bind_to(&c, "t2", "subscribe", "f::one", "{\"topic\":\"t\"}");
    settle(&c);
    say(&worker, "{\"type\":\"invokefunction\",\"function_id\":\"publish\",\"data\":{\"topic\":"
                 "\"t\",\"data\":{\"n\":5}},\"action\":{\"type\":\"void\"}}");
    m = serve(&c, "mine", "\"result\":1");
    CHECK_INT(json_int(json_object_get(m, "data"), "n"), 5);
    json_decref(m);
    m = serve(&worker, "a::mid", "\"result\":1");
    CHECK_STR(json_text(json_object_get(m, "data"), "function_id"), "f::one");
    json_decref(m);
    leave(&c);
    leave(&worker);
    finish();
}

TEST(calls_of_the_middleware_are_its_callers_and_end_with_it)
{
    static const char *const functions[] = {"a::auth", "a::mid", NULL};
    struct client c;
    json_t *m;

    start("{\"rbac\":{\"auth_function_id\":\"a::auth\",\"expose_functions\":[\"match('f::*')\"]},"
          "\"middleware_function_id\":\"a::mid\"}");
    start_worker(functions);
    enter(&c, "{}");
    invoke(&c, c.id, "f::one", "{}", "");
    m = hear_type(&worker, "invokefunction");
    CHECK_INT(calls_of(&c), 1);
    leave(&c);
    await_calls(0);
    answer(&worker, m, "\"result\":1"); /* which is nobody's any more */
    json_decref(m);
    settle(&worker);
    leave(&worker);
    finish();
}

/* Its own is called past the rules; that of another who has taken its name is not. */
TEST(a_name_that_another_has_taken_is_not_its_own)
{
    struct iii_question q = {.function_id = "mine"};
    struct iii_peer *peer;
    struct client c;

    start(AUTH);
    start_worker(auth_only);
    enter(&c, "{}");
    introduce(&c);
    offer(&c, "mine", "null");
    settle(&c);
    peer = peer_of(&c);
    q.asker = iii_asker_for(&peer->asker);
    CHECK(iii_registry_ask_own(hub->registry, &q, ignore_answer, NULL));
    json_decref(serve(&c, "mine", "\"result\":1"));
    await_calls(0);
    offer(&worker, "mine", "null");
    settle(&worker);
    CHECK(!iii_registry_ask_own(hub->registry, &q, ignore_answer, NULL));
    CHECK_INT(atomic_load(&hub->calls), 0);
    iii_asker_unref(q.asker);
    iii_asker_unref(&peer->asker);
    leave(&c);
    leave(&worker);
    finish();
}

/* A rule by metadata does not read schemas. */
TEST(metadata_is_to_be_had_alone)
{
    json_t *m;

    start(AUTH);
    start_worker(auth_only);
    offer(&worker, "f::open", "{\"public\":true}");
    settle(&worker);
    m = iii_registry_metadata(hub->registry, "default", "f::open");
    CHECK_INT(json_object_size(m), 1);
    CHECK(json_is_true(json_object_get(m, "public")));
    json_decref(m);
    CHECK(!iii_registry_metadata(hub->registry, "default", "f::one"));
    CHECK(!iii_registry_metadata(hub->registry, "other", "f::open"));
    leave(&worker);
    finish();
}

/* ---- what it sees ---- */

TEST(it_sees_what_it_may_call_and_what_is_its_own)
{
    static const char info[] = "{\"function_ids\":[\"f::one\",\"f::two\",\"mine\",\"nowhere\"]}";
    struct client c;
    json_t *m, *list;

    start(
        "{\"rbac\":{\"auth_function_id\":\"a::auth\",\"expose_functions\":[\"match('engine::*')\","
        "{\"metadata\":{\"public\":true}}]}}");
    start_worker(auth_only);
    offer(&worker, "f::open", "{\"public\":true}");
    bind_to(&worker, "w", "subscribe", "f::two", "{\"topic\":\"secret\"}");
    settle(&worker);
    enter(&c, "{\"allowed_functions\":[\"f::one\",\"nowhere\"],"
              "\"allowed_trigger_types\":[\"cron\"]}");
    introduce(&c);
    offer(&c, "mine", "null");
    settle(&c);
    m = call(&c, "engine::functions::list", "{\"search\":\"\"}", "");
    list = json_object_get(json_object_get(m, "result"), "functions");
    CHECK_INT(json_array_size(list), 3);
    json_decref(m);
    m = call(&c, "engine::functions::info", info, "");
    list = json_object_get(json_object_get(m, "result"), "functions");
    CHECK(!json_object_get(json_array_get(list, 0), "error"));
    CHECK_STR(json_text(json_array_get(list, 1), "error"), "forbidden");
    CHECK(!json_object_get(json_array_get(list, 2), "error"));
    CHECK_STR(json_text(json_array_get(list, 3), "error"), "not_found");
    json_decref(m);
    CHECK_STR(outcome(&c, "engine::functions::info", "{\"function_id\":\"f::two\"}", ""),
              "FORBIDDEN");
    m = call(&c, "engine::registered-triggers::list", "{}", "");
    list = json_object_get(json_object_get(m, "result"), "registered_triggers");
    CHECK_INT(json_array_size(list), 0);
    json_decref(m);
    m = call(&c, "engine::triggers::list", "{}", "");
    list = json_object_get(json_object_get(m, "result"), "triggers");
    CHECK_INT(json_array_size(list), 1);
    json_decref(m);
    /* By metadata it may call what is open. */
    invoke(&c, c.id, "f::open", "{}", "");
    json_decref(serve(&worker, "f::open", "\"result\":1"));
    json_decref(hear_type(&c, "invocationresult"));
    leave(&c);
    leave(&worker);
    finish();
}

/* ---- registrations ---- */

TEST(functions_get_the_prefix_and_their_owner_knows_them_without)
{
    struct client c;

    start(AUTH);
    start_worker(auth_only);
    enter(
        &c,
        "{\"allowed_trigger_types\":[\"subscribe\"],\"function_registration_prefix\":\"tenant\"}");
    introduce(&c);
    offer(&c, "f::one", "null"); /* which the worker has, too */
    bind_to(&c, "t", "subscribe", "f::one", "{\"topic\":\"t\"}");
    settle(&c);
    say(&worker, "{\"type\":\"invokefunction\",\"function_id\":\"tenant::f::one\",\"data\":{}}");
    json_decref(serve(&c, "f::one", "\"result\":1"));
    /* Its trigger calls its own, not the other. */
    say(&worker, "{\"type\":\"invokefunction\",\"function_id\":\"publish\",\"data\":{\"topic\":"
                 "\"t\",\"data\":{}},\"action\":{\"type\":\"void\"}}");
    json_decref(serve(&c, "f::one", "\"result\":1"));
    say(&c, "{\"type\":\"unregisterfunction\",\"id\":\"f::one\"}");
    settle(&c);
    CHECK_STR(outcome(&worker, "tenant::f::one", "{}", ""), "function_not_found");
    leave(&c);
    leave(&worker);
    finish();
}

TEST(what_a_session_may_not_register_is_refused)
{
    struct client c;
    json_t *m;

    start(AUTH);
    start_worker(auth_only);
    enter(&c, "{\"allow_function_registration\":false,\"allowed_trigger_types\":[\"subscribe\"],"
              "\"allowed_functions\":[\"f::one\"]}");
    introduce(&c);
    offer(&c, "mine", "null");
    m = hear_type(&c, "registrationrejected");
    CHECK_STR(json_text(m, "function_id"), "mine");
    json_decref(m);
    say(&c, "{\"type\":\"registertriggertype\",\"id\":\"ty\",\"description\":\"d\"}");
    bind_to(&c, "t1", "cron", "f::one", "{\"expression\":\"0 0 0 1 1 *\"}");
    m = hear_type(&c, "triggerregistrationresult");
    CHECK_STR(json_text(json_object_get(m, "error"), "code"), "FORBIDDEN");
    json_decref(m);
    /* A function that it may not call, by a type whose provider would call it in his own name. */
    bind_to(&c, "t2", "subscribe", "f::two", "{\"topic\":\"t\"}");
    m = hear_type(&c, "triggerregistrationresult");
    CHECK_STR(json_text(m, "id"), "t2");
    CHECK_STR(json_text(json_object_get(m, "error"), "code"), "FORBIDDEN");
    json_decref(m);
    settle(&c);
    m = iii_registry_types(hub->registry);
    CHECK_INT(json_array_size(m), 0);
    json_decref(m);
    m = iii_registry_bindings(hub->registry);
    CHECK_INT(json_array_size(m), 0);
    json_decref(m);
    leave(&c);
    leave(&worker);
    finish();
}

TEST(hooks_change_registrations_or_refuse_them_in_order)
{
    static const char *const functions[] = {"a::auth", "h::f", "h::t", "h::y", NULL};
    const json_t *data;
    struct client c;
    json_t *m;

    start("{\"rbac\":{\"auth_function_id\":\"a::auth\","
          "\"on_function_registration_function_id\":\"h::f\","
          "\"on_trigger_registration_function_id\":\"h::t\","
          "\"on_trigger_type_registration_function_id\":\"h::y\"}}");
    start_worker(functions);
    enter(&c, "{\"allowed_trigger_types\":[\"subscribe\"],\"allow_trigger_type_registration\":true,"
              "\"context\":{\"user\":\"u\"},"
              "\"function_registration_prefix\":\"p\"}");
    introduce(&c);
    offer(&c, "bad", "null");
    offer(&c, "one", "{\"k\":1}");
    bind_to(&c, "t", "subscribe", "one", "{\"topic\":\"asked\"}");
    say(&c, "{\"type\":\"registertriggertype\",\"id\":\"ty\",\"description\":\"d\"}");
    settle(&c); /* the rest of what it says goes on meanwhile */
    m = serve(&worker, "h::f", "\"error\":{\"code\":\"X\",\"message\":\"no\"}");
    CHECK_STR(json_text(json_object_get(m, "data"), "function_id"), "bad");
    json_decref(m);
    m = hear_type(&c, "registrationrejected");
    CHECK_STR(json_text(m, "function_id"), "bad");
    json_decref(m);
    m = serve(&worker, "h::f", "\"result\":{\"function_id\":\"uno\",\"metadata\":{\"seen\":true}}");
    data = json_object_get(m, "data");
    CHECK_STR(json_text(json_object_get(data, "context"), "user"), "u");
    CHECK_INT(json_int(json_object_get(data, "metadata"), "k"), 1);
    json_decref(m);
    m = serve(&worker, "h::t",
              "\"result\":{\"trigger_id\":\"u\",\"config\":{\"topic\":\"given\"},"
              "\"metadata\":{\"seen\":1}}");
    data = json_object_get(m, "data");
    CHECK_STR(json_text(data, "trigger_id"), "t");
    CHECK_STR(json_text(data, "function_id"), "one");
    json_decref(m);
    m = serve(&worker, "h::y", "\"result\":{\"trigger_type_id\":\"typ\"}");
    CHECK_STR(json_text(json_object_get(m, "data"), "trigger_type_id"), "ty");
    json_decref(m);
    /* Answers are taken in a step of the client's. */
    for (;;) {
        m = iii_registry_types(hub->registry);
        if (json_array_size(m) > 0)
            break;
        json_decref(m);
        settle(&c);
    }
    CHECK_STR(json_text(json_array_get(m, 0), "id"), "typ");
    json_decref(m);
    say(&worker, "{\"type\":\"invokefunction\",\"function_id\":\"p::uno\",\"data\":{}}");
    json_decref(serve(&c, "one", "\"result\":1"));
    m = iii_registry_function(hub->registry, "default", "p::uno");
    CHECK(json_is_true(json_object_get(json_object_get(m, "metadata"), "seen")));
    json_decref(m);
    say(&worker, "{\"type\":\"invokefunction\",\"function_id\":\"publish\",\"data\":{\"topic\":"
                 "\"given\",\"data\":{}},\"action\":{\"type\":\"void\"}}");
    json_decref(serve(&c, "one", "\"result\":1"));
    m = iii_registry_bindings(hub->registry);
    CHECK_INT(json_int(json_object_get(json_array_get(m, 0), "metadata"), "seen"), 1);
    json_decref(m);
    /* All of it goes by what the client calls it. */
    say(&c, "{\"type\":\"unregistertrigger\",\"id\":\"t\"}");
    say(&c, "{\"type\":\"unregistertriggertype\",\"id\":\"ty\"}");
    settle(&c);
    m = iii_registry_bindings(hub->registry);
    CHECK_INT(json_array_size(m), 0);
    json_decref(m);
    m = iii_registry_types(hub->registry);
    CHECK_INT(json_array_size(m), 0);
    json_decref(m);
    leave(&c);
    leave(&worker);
    finish();
}

#define TYPES "{\"allow_trigger_type_registration\":true}"

static void provide(struct client *c, const char *id)
{
    auto_free char *text =
        xasprintf("{\"type\":\"registertriggertype\",\"id\":\"%s\",\"description\":\"d\"}", id);

    say(c, text);
}

TEST(a_type_of_a_session_is_not_for_who_has_none)
{
    struct client c, d;
    json_t *m;

    start(AUTH);
    start_worker(auth_only);
    enter(&c, TYPES);
    introduce(&c);
    provide(&c, "state");
    settle(&c);
    bind_to(&worker, "secret", "state", "f::one", "{\"password\":1}");
    settle(&worker);
    say(&c, "{\"type\":\"ping\"}");
    m = hear(&c);
    CHECK_STR(json_text(m, "type"), "pong"); /* it was sent no binding */
    json_decref(m);
    dial(&d, ports[0], "/", NULL);
    welcome(&d);
    introduce(&d);
    provide(&d, "state");
    m = hear_type(&d, "registertrigger"); /* the type is the other's now */
    CHECK_STR(json_text(m, "id"), "secret");
    json_decref(m);
    leave(&c);
    leave(&d);
    leave(&worker);
    finish();
}

TEST(a_trigger_of_a_session_does_not_come_to_what_takes_its_functions_name)
{
    struct client c, p;
    json_t *m;

    start(AUTH);
    start_worker(auth_only);
    dial(&p, ports[0], "/", NULL);
    welcome(&p);
    introduce(&p);
    provide(&p, "state");
    settle(&p);
    for (unsigned i = 0; i < 2; i++) {
        enter(&c, "{}");
        introduce(&c);
        offer(&c, "late::admin", "null");
        bind_to(&c, "t", "state", "late::admin", "{}");
        settle(&c);
        json_decref(hear_type(&p, "registertrigger"));
        if (i == 0)
            say(&c, "{\"type\":\"unregisterfunction\",\"id\":\"late::admin\"}");
        else
            offer(&worker, "late::admin", "null");
        m = hear_type(&p, "unregistertrigger");
        CHECK_STR(json_text(m, "id"), "t");
        json_decref(m);
        leave(&c);
    }
    leave(&p);
    leave(&worker);
    finish();
}

TEST(what_is_refused_is_called_as_the_client_calls_it)
{
    auto_free char *longest = xmalloc(III_NAME_MAX + 1);
    struct client c;
    json_t *m;

    memset(longest, 'x', III_NAME_MAX);
    longest[III_NAME_MAX] = '\0';
    start(AUTH);
    start_worker(auth_only);
    enter(&c, "{\"function_registration_prefix\":\"f\"}");
    introduce(&c);
    offer(&c, "one", "null"); /* f::one is the worker's */
    m = hear_type(&c, "registrationrejected");
    CHECK_STR(json_text(m, "function_id"), "one");
    json_decref(m);
    offer(&c, longest, "null"); /* with the prefix it is too long */
    m = hear_type(&c, "registrationrejected");
    CHECK_STR(json_text(m, "function_id"), longest);
    json_decref(m);
    m = call(&c, "engine::register_trigger",
             "{\"trigger_type\":\"cron\",\"function_id\":\"f::one\",\"config\":{}}", "");
    CHECK(json_object_get(m, "error"));
    json_decref(m);
    say(&c, "{\"type\":\"ping\"}");
    m = hear(&c);
    CHECK_STR(json_text(m, "type"), "pong"); /* it was told that once */
    json_decref(m);
    leave(&c);
    leave(&worker);
    finish();
}

/* Or whoever is let in first would say who comes in next. */
TEST(a_session_is_never_the_auth_function)
{
    struct client c, stranger;
    json_t *m;

    start(AUTH);
    start_worker(auth_only);
    enter(&c, "{}");
    introduce(&c);
    leave(&worker);
    do /* until the worker's are free */
        m = iii_registry_function(hub->registry, "default", "a::auth");
    while (m ? (json_decref(m), true) : false);
    offer(&c, "a::auth", "null");
    settle(&c);
    m = iii_registry_function(hub->registry, "default", "a::auth");
    CHECK(m);
    json_decref(m);
    dial(&stranger, ports[1], "/", NULL);
    check_refused(&stranger, "not found");
    /* And the worker gets its own back. */
    start_worker(auth_only);
    enter(&stranger, "{}");
    leave(&stranger);
    leave(&c);
    leave(&worker);
    finish();
}

TEST(what_it_binds_by_a_call_ends_with_it_and_is_its_own)
{
    static const char bind[] = "{\"trigger_type\":\"subscribe\",\"function_id\":\"f::one\","
                               "\"config\":{\"topic\":\"t\"}}";
    auto_free char *other = NULL;
    struct client c;
    json_t *m;

    start(
        "{\"rbac\":{\"auth_function_id\":\"a::auth\",\"expose_functions\":[\"match('engine::*')\"]"
        "}}");
    start_worker(auth_only);
    m = call(&worker, "engine::register_trigger", bind, "");
    other = xasprintf("{\"id\":\"%s\"}", json_text(json_object_get(m, "result"), "id"));
    json_decref(m);
    enter(&c, "{\"allowed_trigger_types\":[\"subscribe\"],\"allowed_functions\":[\"f::one\"]}");
    CHECK_STR(outcome(&c, "engine::register_trigger",
                      "{\"trigger_type\":\"subscribe\",\"function_id\":\"f::two\","
                      "\"config\":{\"topic\":\"t\"}}",
                      ""),
              "FORBIDDEN");
    CHECK_STR(outcome(&c, "engine::register_trigger", bind, ""), "ok");
    m = call(&c, "engine::unregister_trigger", other, "");
    CHECK(json_is_false(json_object_get(json_object_get(m, "result"), "removed")));
    json_decref(m);
    leave(&c);
    do {
        m = iii_registry_bindings(hub->registry);
        CHECK(json_array_size(m) > 0);
        if (json_array_size(m) == 1)
            break;
        json_decref(m);
        settle(&worker);
    } while (true);
    json_decref(m);
    leave(&worker);
    finish();
}

TEST(another_callers_place_is_not_to_be_had)
{
    auto_free char *text = NULL;
    struct client a, b;
    struct iii_peer *peer;

    start(AUTH);
    start_worker(auth_only);
    enter(&a, "{\"context\":{\"caller\":\"alice\"}}");
    enter(&b, "{\"context\":{\"caller\":\"bob\"}}");
    text = xasprintf("{\"type\":\"reattach\",\"previous_worker_id\":\"%s\","
                     "\"reattach_token\":\"%s\"}",
                     a.id, a.token);
    say(&b, text);
    settle(&b);
    settle(&a); /* it is still there */
    peer = peer_of(&a);
    CHECK_STR(peer->asker.share->who, "rbac:alice"); /* as budgets know it */
    iii_asker_unref(&peer->asker);
    leave(&b);
    enter(&b, "{\"context\":{\"caller\":\"alice\"}}");
    say(&b, text);
    settle(&b);
    CHECK(!hear(&a));
    leave(&a);
    leave(&b);
    leave(&worker);
    finish();
}

TAP_MAIN
