#include "service/trace_stats.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "service/prometheus.h"

#define NAME_SIZE 64
#define PLACES    (2 * STATS_FUNCTIONS_MAX) /* of the table by name; a power of two */
#define EXECS     "*exec"                   /* no function is called so */

/* ---- counters ---- */

/* Seconds; the last has no end. */
static const double bounds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                0.5,    1,     2.5,    5,     10,   30,    60,   300};
#define BOUNDS ARRAY_LEN(bounds)

struct latency {
    uint64_t counts[BOUNDS + 1];
    uint64_t sum_us;
};

static void latency_add(struct latency *l, int64_t us)
{
    unsigned i = 0;

    while (i < BOUNDS && (double)us > bounds[i] * 1e6)
        i++;
    l->counts[i]++;
    l->sum_us += (uint64_t)us;
}

static uint64_t latency_calls(const struct latency *l)
{
    uint64_t n = 0;

    for (unsigned i = 0; i <= BOUNDS; i++)
        n += l->counts[i];
    return n;
}

/* ---- percentiles ---- */

/* How many calls took about so long. Each power of two is cut into 16 equal parts, so what is read
 * from the middle of one is off by 3 % at most; below 32 µs it is exact. */
#define PART_BITS  4
#define PARTS      (1u << PART_BITS)
#define POWER_MAX  40 /* 2^40 µs are 12 days */
#define SPREAD_LEN ((POWER_MAX - PART_BITS + 1) * PARTS)

struct spread {
    uint32_t counts[SPREAD_LEN];
};

static unsigned spread_place(uint64_t us)
{
    unsigned power, place;

    if (us < 2 * PARTS)
        return (unsigned)us;
    power = 63u - (unsigned)__builtin_clzll(us);
    place = (power - PART_BITS) * PARTS + (unsigned)(us >> (power - PART_BITS));
    return place < SPREAD_LEN ? place : SPREAD_LEN - 1;
}

static double spread_us(unsigned place)
{
    unsigned power = place / PARTS - 1; /* how often the first 32 places were doubled */

    if (place < 2 * PARTS)
        return place;
    return ((double)(place % PARTS + PARTS) + 0.5) * (double)(1ull << power);
}

/* sorted[floor(n × part)], as the public contract has it. */
static double spread_part(const struct spread *s, uint64_t n, double part)
{
    uint64_t rank = (uint64_t)((double)n * part), seen = 0;

    if (n == 0)
        return 0;
    if (rank >= n)
        rank = n - 1;
    for (unsigned i = 0; i < SPREAD_LEN; i++) {
        seen += s->counts[i];
        if (seen > rank)
            return spread_us(i);
    }
    return spread_us(SPREAD_LEN - 1);
}

/* ---- by function ---- */

/* Since the last clear. */
struct window {
    uint64_t calls, failed;
    uint64_t timed; /* of these, with a duration that says something */
    uint64_t us;    /* of those */
};

struct of_function {
    char name[NAME_SIZE];
    uint64_t answers[ERR_KINDS]; /* [ERR_NONE] went well */
    struct latency latency;
    struct window window;
    struct spread *spread; /* of the window; NULL = nothing in it yet */
    bool changed;
};

struct trace_stats {
    struct of_function *list[STATS_FUNCTIONS_MAX];
    unsigned n;
    uint16_t places[PLACES]; /* 1 + the place in the list; 0 = free */
    struct latency execs;
    bool execs_changed;
    char *text; /* of trace_stats_changed() */
};

struct trace_stats *trace_stats_new(void)
{
    return xcalloc(1, sizeof(struct trace_stats));
}

void trace_stats_free(struct trace_stats *s)
{
    if (!s)
        return;
    for (unsigned i = 0; i < s->n; i++) {
        free(s->list[i]->spread);
        free(s->list[i]);
    }
    free(s->text);
    free(s);
}

static struct of_function *find(struct trace_stats *s, const char *name)
{
    uint32_t at = str_hash(name) % PLACES;
    struct of_function *f;

    for (; s->places[at]; at = (at + 1) % PLACES) {
        f = s->list[s->places[at] - 1];
        if (strncmp(f->name, name, NAME_SIZE - 1) == 0)
            return f;
    }
    if (s->n >= STATS_FUNCTIONS_MAX - 1 && strcmp(name, STATS_OTHER) != 0)
        return find(s, STATS_OTHER);
    f = xcalloc(1, sizeof(*f));
    (void)snprintf(f->name, sizeof(f->name), "%s", name);
    s->list[s->n++] = f;
    s->places[at] = (uint16_t)s->n;
    return f;
}

static void window_add(struct of_function *f, const struct trace *t)
{
    f->window.calls++;
    f->window.failed += t->kind != ERR_NONE;
    f->changed = true;
    if (t->is_stream)
        return;
    if (!f->spread)
        f->spread = xcalloc(1, sizeof(*f->spread));
    f->spread->counts[spread_place((uint64_t)t->duration_us)]++;
    f->window.timed++;
    f->window.us += (uint64_t)t->duration_us;
}

void trace_stats_add(struct trace_stats *s, const struct trace *t)
{
    struct of_function *f = find(s, t->function);

    f->answers[t->kind]++;
    if (!t->is_stream)
        latency_add(&f->latency, t->duration_us);
    if (t->exec_us >= 0) {
        latency_add(&s->execs, t->exec_us);
        s->execs_changed = true;
    }
    window_add(f, t);
}

void trace_stats_refused(struct trace_stats *s, enum err_kind kind)
{
    struct of_function *f = find(s, STATS_REFUSED);

    f->answers[kind]++;
    f->changed = true;
}

void trace_stats_clear(struct trace_stats *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        struct of_function *f = s->list[i];

        free(f->spread);
        f->spread = NULL;
        f->window = (struct window){0};
        f->changed = true;
    }
}

void trace_stats_add_again(struct trace_stats *s, const struct trace *t)
{
    window_add(find(s, t->function), t);
}

/* ---- as JSON ---- */

static double ms(double us)
{
    return us / 1000;
}

static void set_durations(json_t *o, const struct window *w, const struct spread *spread)
{
    static const struct spread none;
    double average = w->timed ? (double)w->us / (double)w->timed : 0;

    if (!spread)
        spread = &none;
    (void)json_object_set_new(o, "avgDuration", json_real(ms(average)));
    (void)json_object_set_new(o, "p50Duration", json_real(ms(spread_part(spread, w->timed, 0.5))));
    (void)json_object_set_new(o, "p95Duration", json_real(ms(spread_part(spread, w->timed, 0.95))));
    (void)json_object_set_new(o, "p99Duration", json_real(ms(spread_part(spread, w->timed, 0.99))));
}

static json_t *function_json(const struct of_function *f)
{
    json_t *o = json_pack("{s:s, s:I, s:I}", "functionId", f->name, "count",
                          (json_int_t)f->window.calls, "errors", (json_int_t)f->window.failed);

    set_durations(o, &f->window, f->spread);
    return o;
}

static int busiest_first(const void *a, const void *b)
{
    const struct of_function *f = *(struct of_function *const *)a;
    const struct of_function *g = *(struct of_function *const *)b;

    if (f->window.calls != g->window.calls)
        return f->window.calls < g->window.calls ? 1 : -1;
    return strcmp(f->name, g->name);
}

static void sum_up(struct window *all, struct spread *spread, const struct of_function *f)
{
    all->calls += f->window.calls;
    all->failed += f->window.failed;
    all->timed += f->window.timed;
    all->us += f->window.us;
    for (unsigned i = 0; f->spread && i < SPREAD_LEN; i++)
        spread->counts[i] += f->spread->counts[i];
}

json_t *trace_stats_json(const struct trace_stats *s)
{
    json_t *o = json_object(), *counts = json_object(), *functions = json_array();
    auto_free struct spread *spread = xcalloc(1, sizeof(*spread));
    struct of_function *sorted[STATS_FUNCTIONS_MAX];
    struct window all = {0};

    memcpy(sorted, s->list, s->n * sizeof(*sorted));
    qsort(sorted, s->n, sizeof(*sorted), busiest_first); /* NOLINT: pointers are meant */
    for (unsigned i = 0; i < s->n && sorted[i]->window.calls > 0; i++) {
        sum_up(&all, spread, sorted[i]);
        (void)json_object_set_new(counts, sorted[i]->name,
                                  json_integer((json_int_t)sorted[i]->window.calls));
        (void)json_array_append_new(functions, function_json(sorted[i]));
    }
    (void)json_object_set_new(o, "totalRequests", json_integer((json_int_t)all.calls));
    (void)json_object_set_new(o, "totalErrors", json_integer((json_int_t)all.failed));
    set_durations(o, &all, spread);
    (void)json_object_set_new(o, "functionCounts", counts);
    (void)json_object_set_new(o, "functions", functions);
    return o;
}

/* ---- kept over a restart ---- */

/* Pairs of a place and a count, of those that are not 0. Bounds are told as they are, so that
 * other ones of a later version find theirs. */
static json_t *latency_json(const struct latency *l)
{
    json_t *counts = json_array();

    for (unsigned i = 0; i <= BOUNDS; i++)
        if (l->counts[i])
            (void)json_array_append_new(counts, json_pack("[f, I]", i < BOUNDS ? bounds[i] : -1.0,
                                                          (json_int_t)l->counts[i]));
    return json_pack("{s:I, s:o}", "us", (json_int_t)l->sum_us, "counts", counts);
}

static void latency_load(struct latency *l, const json_t *o)
{
    const json_t *pair;
    size_t n;

    l->sum_us = (uint64_t)json_integer_value(json_object_get(o, "us"));
    json_array_foreach(json_object_get(o, "counts"), n, pair)
    {
        double bound = json_number_value(json_array_get(pair, 0));
        unsigned i = 0;

        while (i < BOUNDS && (bound < 0 || bound > bounds[i]))
            i++;
        l->counts[i] += (uint64_t)json_integer_value(json_array_get(pair, 1));
    }
}

static json_t *spread_json(const struct spread *s)
{
    json_t *counts = json_array();

    for (unsigned i = 0; s && i < SPREAD_LEN; i++)
        if (s->counts[i])
            (void)json_array_append_new(counts,
                                        json_pack("[i, I]", (int)i, (json_int_t)s->counts[i]));
    return counts;
}

static json_t *answers_json(const uint64_t answers[ERR_KINDS])
{
    json_t *o = json_object();

    for (int i = 0; i < ERR_KINDS; i++)
        if (answers[i])
            (void)json_object_set_new(o, i == ERR_NONE ? "ok" : err_kind_code((enum err_kind)i),
                                      json_integer((json_int_t)answers[i]));
    return o;
}

static json_t *kept_json(const struct of_function *f)
{
    const struct window *w = &f->window;

    return json_pack("{s:o, s:o, s:{s:I, s:I, s:I, s:I, s:o}}", "answers", answers_json(f->answers),
                     "latency", latency_json(&f->latency), "window", "calls", (json_int_t)w->calls,
                     "failed", (json_int_t)w->failed, "timed", (json_int_t)w->timed, "us",
                     (json_int_t)w->us, "spread", spread_json(f->spread));
}

static void tell(struct trace_stats *s, const char *name, json_t *o,
                 void (*each)(const char *name, const char *text, void *arg), void *arg)
{
    free(s->text);
    s->text = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    each(name, s->text, arg);
}

size_t trace_stats_changed(struct trace_stats *s,
                           void (*each)(const char *name, const char *text, void *arg), void *arg)
{
    size_t n = 0;

    for (unsigned i = 0; i < s->n; i++) {
        struct of_function *f = s->list[i];

        if (!f->changed)
            continue;
        tell(s, f->name, kept_json(f), each, arg);
        f->changed = false;
        n++;
    }
    if (s->execs_changed) {
        tell(s, EXECS, latency_json(&s->execs), each, arg);
        s->execs_changed = false;
        n++;
    }
    return n;
}

void trace_stats_touch(struct trace_stats *s)
{
    for (unsigned i = 0; i < s->n; i++)
        s->list[i]->changed = true;
    s->execs_changed = true;
}

static void load_window(struct of_function *f, const json_t *o)
{
    const json_t *spread = json_object_get(o, "spread"), *pair;
    size_t n;

    f->window = (struct window){
        .calls = (uint64_t)json_integer_value(json_object_get(o, "calls")),
        .failed = (uint64_t)json_integer_value(json_object_get(o, "failed")),
        .timed = (uint64_t)json_integer_value(json_object_get(o, "timed")),
        .us = (uint64_t)json_integer_value(json_object_get(o, "us")),
    };
    if (json_array_size(spread) > 0 && !f->spread)
        f->spread = xcalloc(1, sizeof(*f->spread));
    json_array_foreach(spread, n, pair)
    {
        json_int_t place = json_integer_value(json_array_get(pair, 0));

        if (place >= 0 && place < (json_int_t)SPREAD_LEN)
            f->spread->counts[place] = (uint32_t)json_integer_value(json_array_get(pair, 1));
    }
}

void trace_stats_load(struct trace_stats *s, const char *name, const char *text)
{
    json_t *o = json_loads(text, 0, NULL);
    const json_t *answers = json_object_get(o, "answers");
    struct of_function *f;

    if (strcmp(name, EXECS) == 0) {
        latency_load(&s->execs, o);
    } else if (o) {
        f = find(s, name);
        for (int i = 0; i < ERR_KINDS; i++)
            f->answers[i] += (uint64_t)json_integer_value(
                json_object_get(answers, i == ERR_NONE ? "ok" : err_kind_code((enum err_kind)i)));
        latency_load(&f->latency, json_object_get(o, "latency"));
        load_window(f, json_object_get(o, "window"));
    }
    json_decref(o);
}

/* ---- for Prometheus ---- */

void trace_stats_prometheus(const struct trace_stats *s, struct prometheus *p)
{
    prometheus_family(p, "cay_http_requests_total", "counter",
                      "Calls that have ended, by function and status of HTTP.");
    for (unsigned i = 0; i < s->n; i++) {
        for (int kind = 0; kind < ERR_KINDS; kind++) {
            char status[8];

            if (!s->list[i]->answers[kind])
                continue;
            (void)snprintf(status, sizeof(status), "%d", err_kind_status((enum err_kind)kind));
            prometheus_sample(p, (double)s->list[i]->answers[kind], "function", s->list[i]->name,
                              "status", status, NULL);
        }
    }
    prometheus_family(
        p, "cay_http_request_duration_seconds", "histogram",
        "How long calls took, without those that last as long as their caller likes.");
    for (unsigned i = 0; i < s->n; i++)
        if (latency_calls(&s->list[i]->latency) > 0)
            prometheus_histogram(p, bounds, BOUNDS, s->list[i]->latency.counts,
                                 (double)s->list[i]->latency.sum_us / 1e6, "function",
                                 s->list[i]->name);
    prometheus_family(p, "cay_exec_duration_seconds", "histogram",
                      "How long commands ran that somebody waited for.");
    prometheus_histogram(p, bounds, BOUNDS, s->execs.counts, (double)s->execs.sum_us / 1e6, NULL,
                         NULL);
}
