#include "base/budget.h"
#include "http/server.h"
#include "iii/iii_internal.h"
#include "iii_clients.h"
#include "test_face.h"

/* Triggers whose types clients provide, and what others may do to those who provide and call. */

static struct http_server *server;
static struct iii_hub *hub;
static unsigned port;
static struct caller caller = {.face = "iii", .name = "test", .scopes = SCOPES_ALL};

static void handle(struct http_req *req, void *arg)
{
    (void)arg;
    (void)iii_handle_worker(req, &caller, NULL, NULL, hub);
}

static void start(void)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    struct iii_config config = {.about = &about, .services = &services};
    struct err err = {0};

    limits.body_timeout_ms = 600000; /* a client that waits for its test is not closed */
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
    http_server_free(server);
    iii_hub_free(hub);
}

/* Connected, and past the time in which registrations wait. */
static void join(struct client *c, const char *name)
{
    auto_free char *data = xasprintf("{\"name\":\"%s\",\"pid\":7}", name);

    dial(c, port, "/", NULL);
    welcome(c);
    json_decref(call(c, "engine::workers::register", data, ""));
}

static void offer(struct client *c, const char *id)
{
    auto_free char *text = xasprintf("{\"type\":\"registerfunction\",\"id\":\"%s\"}", id);

    say(c, text);
    settle(c);
}

static void provide(struct client *c, const char *type, const char *more)
{
    auto_free char *text = xasprintf("{\"type\":\"registertriggertype\",\"id\":\"%s\","
                                     "\"description\":\"d\"%s}",
                                     type, more);

    say(c, text);
}

static void bind_to(struct client *c, const char *id, const char *type, const char *config)
{
    auto_free char *text =
        xasprintf("{\"type\":\"registertrigger\",\"id\":\"%s\",\"trigger_type\":\"%s\","
                  "\"function_id\":\"f\",\"config\":%s}",
                  id, type, config);

    say(c, text);
}

/* ---- answers ---- */

TEST(who_waits_for_an_answer_that_cannot_be_read_is_told)
{
    static const char *const bad[] = {"18446744073709551615", "\"a\\u0000b\"",     "1e999",
                                      "\"\\ud800\"",          "{\"a\":1,\"a\":2}", "[1,"};
    struct client a, b;
    json_t *m;

    start();
    join(&a, "a");
    join(&b, "b");
    offer(&b, "f");
    for (size_t i = 0; i <= ARRAY_LEN(bad); i++) {
        auto_buf struct buf text = {0};
        char id[UUID_SIZE];

        buf_init(&text, 1u << 20);
        if (i < ARRAY_LEN(bad)) {
            (void)buf_addf(&text, "\"result\":%s", bad[i]);
        } else {
            (void)buf_add_str(&text, "\"result\":[0");
            for (unsigned j = 0; j < 70000; j++)
                (void)buf_add_str(&text, ",1");
            (void)buf_add_str(&text, "]");
        }
        iii_uuid_new(id);
        invoke(&a, id, "f", "{}", "");
        m = hear_type(&b, "invokefunction");
        answer(&b, m, text.data);
        json_decref(m);
        m = hear_type(&a, "invocationresult");
        CHECK_STR(json_text(m, "invocation_id"), id);
        CHECK_STR(json_text(json_object_get(m, "error"), "code"), "deserialization_error");
        json_decref(m);
    }
    CHECK_INT(atomic_load(&hub->calls), 0);
    leave(&a);
    leave(&b);
    finish();
}

TEST(nobody_says_in_anothers_name_who_calls)
{
#define FORGED "\"data\":{\"_caller_worker_id\":\"x\",\"k\":1}}"
    static const char *const ways[][2] = {
        {"engine::queue::enqueue", "{\"queue\":\"q\",\"function_id\":\"f\"," FORGED},
        {"publish", "{\"topic\":\"t\"," FORGED},
    };
    struct client a, b;
    json_t *m, *data;

    start();
    join(&a, "a");
    join(&b, "b");
    offer(&b, "f");
    bind_to(&b, "t", "subscribe", "{\"topic\":\"t\"}");
    settle(&b);
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        m = call(&a, ways[i][0], ways[i][1], "");
        CHECK(!json_object_get(m, "error"));
        json_decref(m);
        m = hear_type(&b, "invokefunction");
        data = json_object_get(m, "data");
        CHECK_INT(json_int(data, "k"), 1);
        CHECK(!json_object_get(data, "_caller_worker_id"));
        answer(&b, m, "\"result\":null");
        json_decref(m);
    }
    leave(&a);
    leave(&b);
    finish();
}

/* ---- what is registered ---- */

/* 4 MiB of text become some 800 MiB of values when they are asked for. */
TEST(what_is_registered_counts_as_what_it_becomes)
{
    auto_buf struct buf text = {0};
    struct client c;
    unsigned taken = 0;

    buf_init(&text, 1u << 20);
    (void)buf_add_str(&text, "\"metadata\":[[]");
    for (unsigned i = 0; i < 20000; i++)
        (void)buf_add_str(&text, ",[]");
    (void)buf_add_str(&text, "]");
    start();
    join(&c, "c");
    for (unsigned i = 0; i < 60; i++) {
        auto_free char *m =
            xasprintf("{\"type\":\"registerfunction\",\"id\":\"f%u\",%s}", i, text.data);
        json_t *heard;

        say(&c, m);
        say(&c, "{\"type\":\"ping\"}");
        heard = hear(&c);
        taken += strcmp(json_text(heard, "type"), "pong") == 0;
        if (strcmp(json_text(heard, "type"), "registrationrejected") == 0)
            json_decref(hear_type(&c, "pong"));
        json_decref(heard);
    }
    CHECK(taken >= 1 && taken <= 4);
    leave(&c);
    finish();
}

static bool binds_for_good(struct client *c)
{
    json_t *m = call(c, "engine::register_trigger",
                     "{\"trigger_type\":\"nobody::has\",\"function_id\":\"f\"}", "");
    bool bound = *json_text(json_object_get(m, "result"), "id");

    json_decref(m);
    return bound;
}

TEST(nobody_binds_all_that_outlive_their_connections)
{
    struct client a, b;
    unsigned n = 0;

    start();
    join(&a, "a");
    while (n < 4096 && binds_for_good(&a))
        n++;
    CHECK_INT(n, 1024);
    leave(&a);
    join(&a, "a"); /* with a new connection it is who it was */
    CHECK(!binds_for_good(&a));
    (void)snprintf(caller.name, sizeof(caller.name), "other");
    join(&b, "b");
    CHECK(binds_for_good(&b));
    leave(&a);
    leave(&b);
    finish();
}

TEST(who_bound_for_good_ends_it)
{
    auto_free char *data = NULL;
    struct client a, b;
    json_t *m;

    start();
    join(&a, "a");
    m = call(&a, "engine::register_trigger",
             "{\"trigger_type\":\"nobody::has\",\"function_id\":\"f\"}", "");
    data = xasprintf("{\"id\":\"%s\"}", json_text(json_object_get(m, "result"), "id"));
    json_decref(m);
    (void)snprintf(caller.name, sizeof(caller.name), "other");
    join(&b, "b");
    for (unsigned i = 0; i < 3; i++) { /* another, he himself, and then it is gone */
        m = call(i ? &a : &b, "engine::unregister_trigger", data, "");
        CHECK_INT(json_is_true(json_object_get(json_object_get(m, "result"), "removed")), i == 1);
        json_decref(m);
    }
    leave(&a);
    leave(&b);
    finish();
}

/* ---- providers ---- */

#define BINDERS 3
#define EACH    14 /* MiB; together they are more than may wait for a client */

TEST(a_provider_gets_its_bindings_as_it_takes_them)
{
    auto_free char *config = xmalloc((1u << 20) + 3);
    struct client p, all[BINDERS];
    json_t *seen = json_object(), *m;

    memset(config, 'x', (1u << 20) + 2);
    config[0] = config[(1u << 20) + 1] = '"';
    config[(1u << 20) + 2] = '\0';
    start();
    for (unsigned i = 0; i < BINDERS; i++) {
        char name[8];

        (void)snprintf(name, sizeof(name), "b%u", i);
        join(&all[i], name);
        for (unsigned j = 0; j < EACH; j++) {
            auto_free char *id = xasprintf("%u-%u", i, j);

            bind_to(&all[i], id, "p::type", config);
        }
        settle(&all[i]);
    }
    join(&p, "p");
    provide(&p, "p::type", "");
    bind_to(&all[0], "late", "p::type", "{}");
    settle(&all[0]);
    while (json_object_size(seen) < BINDERS * EACH + 1) {
        m = hear_type(&p, "registertrigger");
        CHECK(!json_object_get(seen, json_text(m, "id")));
        (void)json_object_set_new(seen, json_text(m, "id"), json_true());
        json_decref(m);
    }
    settle(&p);
    json_decref(seen);
    leave(&p);
    for (unsigned i = 0; i < BINDERS; i++)
        leave(&all[i]);
    finish();
}

TEST(bindings_of_one_id_are_told_apart)
{
    struct client p, a, b;
    char first[80], second[80];
    json_t *m;

    start();
    join(&p, "p");
    provide(&p, "p::type", "");
    settle(&p);
    join(&a, "a");
    join(&b, "b");
    bind_to(&a, "x", "p::type", "{}");
    m = hear_type(&p, "registertrigger");
    CHECK_STR(json_text(m, "id"), "x");
    (void)snprintf(first, sizeof(first), "%s", json_text(m, "id"));
    json_decref(m);
    bind_to(&b, "x", "p::type", "{}");
    m = hear_type(&p, "registertrigger");
    (void)snprintf(second, sizeof(second), "%s", json_text(m, "id"));
    json_decref(m);
    CHECK(strcmp(first, second) != 0);
    say(&b, "{\"type\":\"unregistertrigger\",\"id\":\"x\"}");
    m = hear_type(&p, "unregistertrigger");
    CHECK_STR(json_text(m, "id"), second);
    json_decref(m);
    say(&p, "{\"type\":\"triggerregistrationresult\",\"id\":\"x\",\"trigger_type\":\"p::type\","
            "\"function_id\":\"f\",\"error\":{\"code\":\"no\",\"message\":\"no\"}}");
    m = hear_type(&a, "triggerregistrationresult");
    CHECK_STR(json_text(m, "id"), "x");
    json_decref(m);
    leave(&p);
    leave(&a);
    leave(&b);
    finish();
}

static unsigned active(struct client *c)
{
    json_t *m = call(c, "engine::registered-triggers::list", "{}", ""), *b;
    unsigned n = 0;
    size_t i;

    json_array_foreach(json_object_get(json_object_get(m, "result"), "registered_triggers"), i, b)
    {
        n += json_is_true(json_object_get(b, "active"));
    }
    json_decref(m);
    return n;
}

TEST(a_type_goes_from_the_namespace_that_it_is_in)
{
    struct client p, q, a;

    start();
    join(&p, "p");
    join(&q, "q");
    join(&a, "a");
    provide(&p, "p::type", ",\"namespace\":\"other\"");
    provide(&p, "p::type", "");
    settle(&p);
    bind_to(&a, "x", "p::type", "{}");
    json_decref(hear_type(&p, "registertrigger"));
    say(&p, "{\"type\":\"unregistertriggertype\",\"id\":\"p::type\",\"namespace\":\"other\"}");
    settle(&p);
    CHECK_INT(active(&a), 1);
    say(&p, "{\"type\":\"unregistertriggertype\",\"id\":\"p::type\"}");
    settle(&p);
    CHECK_INT(active(&a), 0);
    provide(&q, "p::type", "");
    json_decref(hear_type(&q, "registertrigger"));
    leave(&p);
    leave(&q);
    leave(&a);
    finish();
}

TAP_MAIN
