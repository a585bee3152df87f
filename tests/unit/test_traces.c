#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "model/trace.h"
#include "service/prometheus.h"
#include "service/trace_ring.h"
#include "service/trace_stats.h"
#include "service/traces.h"
#include "tap.h"
#include "tmpdir.h"

static struct trace a_trace(const char *function, int64_t us)
{
    struct trace t = {.function = function,
                      .face = "rest",
                      .duration_us = us,
                      .exec_us = -1,
                      .end_ms = 1000,
                      .caller = "root"};

    trace_context_new(&t.context);
    return t;
}

/* ---- W3C Trace Context ---- */

#define PARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

TEST(a_call_joins_the_trace_of_its_caller)
{
    struct trace_context c;
    char text[TRACE_PARENT_SIZE], span[17], id[ID_SIZE];

    trace_context_new(&c);
    trace_context_join(&c, PARENT);
    CHECK(c.remote);
    trace_context_text(&c, text);
    hex_text(c.span_id, 8, span);
    CHECK(strncmp(text, PARENT, 36) == 0); /* the same trace */
    CHECK(strncmp(text + 36, "b7ad6b7169203331", 16) != 0);
    CHECK(strncmp(text + 36, span, 16) == 0); /* and our own span */
    CHECK_STR(text + 52, "-01");
    trace_id(&c, id);
    CHECK(id_valid(id, "trc"));
}

TEST(what_is_no_traceparent_is_as_if_it_were_not_there)
{
    static const char *const bad[] = {
        "",
        "00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", /* version 0 has no more */
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x",
        NULL,
    };

    for (const char *const *b = bad; *b; b++) {
        struct trace_context c, before;

        trace_context_new(&c);
        before = c;
        trace_context_join(&c, *b);
        if (memcmp(&c, &before, sizeof(c)) != 0)
            TAP_FAIL("\"%s\" was taken", *b);
    }
}

TEST(later_versions_may_have_more)
{
    struct trace_context c;

    trace_context_new(&c);
    trace_context_join(&c, "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-what");
    CHECK(c.remote);
    CHECK_INT(c.flags, 0);
}

TEST(flags_that_are_known_are_handed_on)
{
    struct trace_context c;
    char text[TRACE_PARENT_SIZE];

    trace_context_new(&c);
    trace_context_join(&c, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff");
    trace_context_text(&c, text);
    CHECK_STR(text + 53, "03");
    trace_context_join(&c, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-02");
    trace_context_text(&c, text);
    CHECK_STR(text + 53, "02");
}

TEST(ids_differ)
{
    struct trace_context a, b;

    for (int i = 0; i < 1000; i++) {
        trace_context_new(&a);
        trace_context_new(&b);
        CHECK(memcmp(a.span_id, b.span_id, 8) != 0);
        CHECK(memcmp(a.trace_id, b.trace_id, 16) != 0);
    }
}

/* ---- the ring ---- */

TEST(a_full_ring_takes_no_more_and_forgets_nothing)
{
    struct trace_ring *r = trace_ring_new();
    struct trace t = a_trace("a::b", 0), out[100];
    size_t n, next = 0;

    for (int i = 0; i < TRACE_RING_LEN; i++) {
        t.duration_us = i;
        CHECK(trace_ring_put(r, &t));
    }
    CHECK(!trace_ring_put(r, &t));
    CHECK_INT(trace_ring_fill(r), TRACE_RING_LEN);
    while ((n = trace_ring_take(r, out, 100)) > 0)
        for (size_t i = 0; i < n; i++)
            CHECK_INT(out[i].duration_us, (int64_t)next++);
    CHECK_INT(next, TRACE_RING_LEN);
    CHECK(trace_ring_put(r, &t));
    trace_ring_free(r);
}

#define PUTTERS  4
#define PUT_EACH 20000

struct putter {
    struct trace_ring *ring;
    int number;
};

static void *put_many(void *arg)
{
    const struct putter *p = arg;
    struct trace t = a_trace("a::b", 0);

    for (int i = 0; i < PUT_EACH; i++) {
        t.duration_us = i;
        t.exec_us = p->number;
        while (!trace_ring_put(p->ring, &t))
            sched_yield();
    }
    return NULL;
}

TEST(of_many_who_put_each_ones_order_stays)
{
    struct trace_ring *r = trace_ring_new();
    struct trace out[64];
    struct putter putters[PUTTERS];
    pthread_t threads[PUTTERS];
    int64_t next[PUTTERS] = {0};
    int seen = 0;

    for (int i = 0; i < PUTTERS; i++) {
        putters[i] = (struct putter){r, i};
        CHECK_INT(pthread_create(&threads[i], NULL, put_many, &putters[i]), 0);
    }
    while (seen < PUTTERS * PUT_EACH) {
        size_t n = trace_ring_take(r, out, 64);

        for (size_t i = 0; i < n; i++)
            CHECK_INT(out[i].duration_us, next[out[i].exec_us]++);
        seen += (int)n;
        if (n == 0)
            sched_yield();
    }
    for (int i = 0; i < PUTTERS; i++)
        pthread_join(threads[i], NULL);
    trace_ring_free(r);
}

/* ---- what they add up to ---- */

static double number(const json_t *o, const char *name)
{
    return json_number_value(json_object_get(o, name));
}

TEST(percentiles_are_right_to_three_percent)
{
    struct trace_stats *s = trace_stats_new();
    json_t *o;

    for (int us = 10; us <= 100000; us += 10) { /* 10,000 of them, in no order */
        struct trace t = a_trace("a::b", (us * 7919ll) % 100000 + 10);

        trace_stats_add(s, &t);
    }
    o = trace_stats_json(s);
    CHECK_INT((int)number(o, "totalRequests"), 10000);
    CHECK(number(o, "p50Duration") > 50 * 0.96 && number(o, "p50Duration") < 50 * 1.04);
    CHECK(number(o, "p95Duration") > 95 * 0.96 && number(o, "p95Duration") < 95 * 1.04);
    CHECK(number(o, "p99Duration") > 99 * 0.96 && number(o, "p99Duration") < 99 * 1.04);
    CHECK(number(o, "avgDuration") > 49.9 && number(o, "avgDuration") < 50.2);
    json_decref(o);
    trace_stats_free(s);
}

TEST(a_percentile_is_the_contracts)
{
    struct trace_stats *s = trace_stats_new();
    json_t *o;

    for (int us = 0; us < 20; us++) { /* small ones are exact: sorted[floor(20 × 0.95)] = 19 */
        struct trace t = a_trace("a::b", us);

        trace_stats_add(s, &t);
    }
    o = trace_stats_json(s);
    CHECK(number(o, "p95Duration") == 0.019);
    CHECK(number(o, "p50Duration") == 0.010);
    json_decref(o);
    trace_stats_free(s);
}

TEST(streams_count_and_their_length_does_not)
{
    struct trace_stats *s = trace_stats_new();
    struct trace t = a_trace("stream::events", 3600ll * 1000000), u = a_trace("a::b", 1000);
    json_t *o;

    t.is_stream = true;
    trace_stats_add(s, &t);
    trace_stats_add(s, &u);
    o = trace_stats_json(s);
    CHECK_INT((int)number(o, "totalRequests"), 2);
    CHECK(number(o, "avgDuration") == 1.0);
    json_decref(o);
    trace_stats_free(s);
}

#define FUNCTIONS 100000

TEST(a_hundred_thousand_functions_are_counted_in_a_bounded_table)
{
    struct trace_stats *s = trace_stats_new();
    static char names[FUNCTIONS][16];
    const json_t *counts;
    json_t *o;

    for (int i = 0; i < FUNCTIONS; i++) {
        struct trace t;

        (void)snprintf(names[i], sizeof(names[i]), "f::%d", i);
        t = a_trace(names[i], 1);
        trace_stats_add(s, &t);
    }
    o = trace_stats_json(s);
    counts = json_object_get(o, "functionCounts");
    CHECK_INT((int)number(o, "totalRequests"), FUNCTIONS);
    CHECK_INT(json_object_size(counts), STATS_FUNCTIONS_MAX);
    CHECK_INT((int)number(counts, STATS_OTHER), FUNCTIONS - STATS_FUNCTIONS_MAX + 1);
    json_decref(o);
    trace_stats_free(s);
}

/* ---- Prometheus ---- */

TEST(labels_are_escaped)
{
    struct prometheus p;

    prometheus_init(&p);
    prometheus_family(&p, "a", "gauge", "Help.");
    prometheus_sample(&p, 1.5, "b", "a\\b\"c\nd", "e", "", NULL);
    prometheus_sample(&p, 123456789012, NULL);
    CHECK_STR(p.text.data, "# HELP a Help.\n# TYPE a gauge\n"
                           "a{b=\"a\\\\b\\\"c\\nd\",e=\"\"} 1.5\na 123456789012\n");
    prometheus_done(&p);
}

/* ---- the service ---- */

static char *dir;

static json_t *listed(struct traces *t, struct trace_query q, int total)
{
    struct err err = {0};
    json_t *o = NULL, *list;

    if (traces_list(t, &q, &o, &err) < 0)
        TAP_FAIL("%s", err.text);
    CHECK_INT((int)number(o, "total"), total);
    list = json_incref(json_object_get(o, "traces"));
    json_decref(o);
    return list;
}

static void put(struct traces *t, struct trace trace)
{
    traces_begin(t);
    traces_put(t, &trace);
}

static void put_some(struct traces *t)
{
    for (int i = 0; i < 10; i++) {
        struct trace one = a_trace(i % 2 ? "cmd::run" : "fs::read", 1000 * (i + 1));

        one.end_ms = 1000 + i;
        (void)snprintf(one.sandbox_id, sizeof(one.sandbox_id), "sbx_%d", i % 5);
        if (i == 7) {
            one.kind = ERR_NOT_FOUND;
            one.code = "file_not_found";
            (void)snprintf(one.error, sizeof(one.error), "no such file");
            trace_context_join(&one.context, PARENT);
        }
        put(t, one);
    }
}

static const char *text_of(const json_t *list, size_t i, const char *name)
{
    const char *text = json_string_value(json_object_get(json_array_get(list, i), name));

    return text ? text : "";
}

TEST(who_asks_finds_what_was_put_before)
{
    struct traces *t;
    uint8_t id[16];
    json_t *list;

    dir = dir_new();
    t = traces_open(dir, 1000);
    put_some(t);
    list = listed(t, (struct trace_query){.limit = 3, .offset = 1}, 10);
    CHECK_INT(json_array_size(list), 3);
    CHECK(number(json_array_get(list, 0), "timestamp") == 1008); /* newest first */
    json_decref(list);

    list = listed(t, (struct trace_query){.limit = 100, .sandbox_id = "sbx_2"}, 2);
    CHECK_STR(text_of(list, 0, "functionId"), "cmd::run");
    CHECK_STR(text_of(list, 0, "status"), "error");
    CHECK_STR(text_of(list, 0, "code"), "file_not_found");
    CHECK_STR(text_of(list, 0, "error"), "no such file");
    CHECK_STR(text_of(list, 0, "parentSpanId"), "b7ad6b7169203331");
    CHECK_STR(text_of(list, 1, "status"), "ok");
    json_decref(list);

    json_decref(listed(t, (struct trace_query){.limit = 100, .function = "fs::read"}, 5));
    json_decref(listed(t, (struct trace_query){.limit = 100, .outcome = TRACE_FAILED}, 1));
    json_decref(listed(t, (struct trace_query){.limit = 100, .outcome = TRACE_OK}, 9));
    json_decref(listed(t, (struct trace_query){.limit = 100, .since_ms = 1005}, 5));
    CHECK(hex_bytes(PARENT + 3, 16, id));
    json_decref(listed(t, (struct trace_query){.limit = 100, .trace_id = id}, 1));
    traces_close(t);
    dir_remove(&dir);
}

TEST(the_thread_writes_them_too)
{
    struct err err = {0};
    struct traces *t;

    dir = dir_new();
    t = traces_open(dir, 1000);
    CHECK_INT(traces_start(t, &err), 0);
    put_some(t);
    traces_stop(t);
    json_decref(listed(t, (struct trace_query){.limit = 1}, 10));
    traces_close(t);
    dir_remove(&dir);
}

TEST(the_oldest_go)
{
    struct traces *t;
    json_t *list;

    dir = dir_new();
    t = traces_open(dir, 100);
    for (int round = 0; round < 30; round++) {
        put_some(t);
        json_decref(traces_summary(t)); /* writes them */
    }
    list = listed(t, (struct trace_query){.limit = 1000}, 100);
    CHECK_INT(json_array_size(list), 100);
    json_decref(list);
    traces_close(t);
    dir_remove(&dir);
}

static char *metrics_of(struct traces *t)
{
    struct prometheus p;
    char *text;

    prometheus_init(&p);
    traces_prometheus(t, &p);
    text = xstrdup(p.text.data);
    prometheus_done(&p);
    return text;
}

TEST(totals_outlive_a_restart)
{
    auto_free char *before = NULL, *after = NULL;
    struct trace exec = a_trace("cmd::run", 2000);
    struct traces *t;
    json_t *then, *now;

    dir = dir_new();
    t = traces_open(dir, 10);
    exec.exec_us = 1500;
    put(t, exec); /* first, as it is in the order of names */
    put_some(t);
    before = metrics_of(t);
    then = traces_summary(t);
    traces_close(t);

    t = traces_open(dir, 10);
    after = metrics_of(t);
    now = traces_summary(t);
    CHECK_STR(after, before);
    CHECK(json_equal(now, then));
    CHECK(strstr(after, "cay_http_requests_total{function=\"cmd::run\",status=\"404\"} 1\n"));
    CHECK(strstr(after, "cay_exec_duration_seconds_sum 0.0015\n"));
    json_decref(then);
    json_decref(now);
    traces_close(t);
    dir_remove(&dir);
}

TEST(a_clear_forgets_what_is_older_and_counters_stay)
{
    auto_free char *before = NULL, *after = NULL;
    struct err err = {0};
    struct traces *t;
    uint64_t cleared;
    json_t *o;

    dir = dir_new();
    t = traces_open(dir, 1000);
    put_some(t);
    before = metrics_of(t);
    CHECK_INT(traces_clear(t, 1000, &cleared, &err), 0); /* strictly older */
    CHECK_INT(cleared, 0);
    CHECK_INT(traces_clear(t, 1006, &cleared, &err), 0);
    CHECK_INT(cleared, 6);
    json_decref(listed(t, (struct trace_query){.limit = 1}, 4));
    o = traces_summary(t);
    CHECK_INT((int)number(o, "totalRequests"), 4);
    CHECK_INT((int)number(o, "totalErrors"), 1);
    CHECK(number(o, "avgDuration") == 8.5);
    json_decref(o);
    CHECK_INT(traces_clear(t, INT64_MAX, &cleared, &err), 0);
    CHECK_INT(cleared, 4);
    o = traces_summary(t);
    CHECK_INT((int)number(o, "totalRequests"), 0);
    CHECK_INT(json_object_size(json_object_get(o, "functionCounts")), 0);
    json_decref(o);
    after = metrics_of(t);
    CHECK_STR(after, before);
    traces_close(t);
    dir_remove(&dir);
}

TEST(without_a_database_calls_are_counted)
{
    struct traces *t = traces_open("/nowhere/at/all", 100);
    auto_free char *text = NULL;
    json_t *o;

    put_some(t);
    o = traces_summary(t);
    CHECK_INT((int)number(o, "totalRequests"), 10);
    json_decref(o);
    json_decref(listed(t, (struct trace_query){.limit = 1}, 0));
    text = metrics_of(t);
    CHECK(strstr(text, "cay_traces_lost_total 10\n"));
    traces_close(t);
}

/* More at once than the ring holds, while nobody takes them out: all are counted. */
TEST(a_burst_is_counted_whole)
{
    struct traces *t;
    struct trace one = a_trace("cmd::run", 5);
    auto_free char *text = NULL;
    json_t *o;

    dir = dir_new();
    t = traces_open(dir, 100000);
    for (int i = 0; i < TRACE_RING_LEN + 500; i++)
        put(t, one);
    o = traces_summary(t);
    CHECK_INT((int)number(o, "totalRequests"), TRACE_RING_LEN + 500);
    json_decref(o);
    json_decref(listed(t, (struct trace_query){.limit = 1}, TRACE_RING_LEN));
    text = metrics_of(t);
    CHECK(strstr(text, "cay_traces_lost_total 500\n"));
    traces_close(t);
    dir_remove(&dir);
}

TAP_MAIN
