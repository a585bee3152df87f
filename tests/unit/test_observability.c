#include "service/otlp.h"
#include "service/prometheus.h"
#include "service/traces.h"
#include "service/usage.h"
#include "test_face.h"

/* What the services around calls see of them, without HTTP. */

static size_t samples(void)
{
    json_t *history = ask("metrics::history", "{}");
    size_t n = json_array_size(json_object_get(history, "samples"));

    json_decref(history);
    return n;
}

TEST(a_look_is_a_sample_and_an_hour_of_them_is_kept)
{
    up("{\"image\": \"host\"}");
    usage_stop(services.usage); /* from here on we look */
    usage_free(services.usage);
    services.usage = usage_new(engine, 100); /* 36 an hour */
    CHECK_INT(samples(), 0);
    for (int i = 1; i <= 20; i++) {
        usage_look(services.usage);
        CHECK_INT(samples(), i);
    }
    for (int i = 0; i < 100; i++)
        usage_look(services.usage);
    CHECK_INT(samples(), USAGE_HOUR_S / 100 + 1);
    down();
}

TEST(a_sandbox_that_is_gone_is_forgotten)
{
    struct prometheus p;

    up("{\"image\": \"host\"}");
    usage_look(services.usage);
    prometheus_init(&p);
    usage_prometheus(services.usage, &p);
    CHECK(strstr(p.text.data, sandbox) != NULL);
    prometheus_done(&p);
    do_call("sandbox::kill", "{}");
    usage_look(services.usage);
    prometheus_init(&p);
    usage_prometheus(services.usage, &p);
    CHECK(strstr(p.text.data, sandbox) == NULL);
    prometheus_done(&p);
    down();
}

TEST(a_call_by_another_face_leaves_a_trace_too)
{
    const char *function = "cmd::run";
    struct err err = {0};
    json_t *o = NULL, *t;

    up("{\"image\": \"host\"}");
    do_call("cmd::run", "{\"command\": \"exit 3\"}");
    CHECK_INT(traces_list(services.traces, &(struct trace_query){.limit = 10, .function = function},
                          &o, &err),
              0);
    CHECK_INT(json_array_size(json_object_get(o, "traces")), 1);
    t = json_array_get(json_object_get(o, "traces"), 0);
    CHECK_STR(json_string_value(json_object_get(t, "sandboxId")), sandbox);
    CHECK_STR(json_string_value(json_object_get(t, "status")), "ok");
    json_decref(o);
    down();
}

/* ---- a collector that cannot be had ---- */

static double lost(struct otlp *o)
{
    struct prometheus p;
    double n;

    prometheus_init(&p);
    otlp_prometheus(o, &p);
    n = strtod(strstr(p.text.data, "\ncay_otlp_spans_lost_total ") +
                   strlen("\ncay_otlp_spans_lost_total "),
               NULL);
    prometheus_done(&p);
    return n;
}

TEST(what_waits_for_a_collector_is_bounded)
{
    const struct otlp_config config = {.endpoint = "http://127.0.0.1:9", .service = "cay"};
    struct courier *courier = NULL;
    struct otlp *o = NULL;
    struct err err = {0};
    struct trace t = {.function = "a::b", .face = "rest", .exec_us = -1};

    trace_context_new(&t.context);
    CHECK_INT(courier_new(&(struct courier_config){0}, &courier, &err), 0); /* brings nothing */
    CHECK_INT(otlp_new(&config, courier, &o, &err), 0);
    for (int i = 0; i < 100000; i++)
        otlp_take(&t, 1, o);
    CHECK_INT((int)lost(o), 100000 - OTLP_WAITING_MAX);
    CHECK_INT(otlp_start(o, &err), 0);
    otlp_stop(o); /* tries once for each that waits, and gives up */
    CHECK_INT((int)lost(o), 100000);
    courier_stop(courier);
    courier_free(courier);
    otlp_free(o);
}

TEST(configurations_that_make_no_sense_are_refused)
{
    static const struct otlp_config bad[] = {
        {.endpoint = "localhost:4318", .service = "cay"},
        {.endpoint = "http://a", .headers = "novalue", .service = "cay"},
        {.endpoint = "http://a", .headers = "=v", .service = "cay"},
        {.endpoint = "http://a", .headers = "a=b%0d%0aX: y", .service = "cay"},
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct otlp *o = NULL;
        struct err err = {0};

        CHECK_INT(otlp_new(&bad[i], NULL, &o, &err), -1);
        CHECK_INT(err.kind, ERR_INVALID);
        CHECK(strstr(err.text, "CAY_OTLP_") != NULL);
    }
}

TAP_MAIN
