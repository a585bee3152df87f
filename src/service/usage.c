#include "service/usage.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "engine/metrics.h"
#include "service/prometheus.h"

#define FIRST_LEN     16  /* of a ring; it doubles until it is as long as it may be */
#define NAMED_MAX     100 /* sandboxes that /metrics tells of by their ids */
#define NS_PER_SECOND 1000000000ll

struct sample {
    int64_t time_ms;
    uint64_t rx_bytes, tx_bytes;
    float cpu_percent;
    uint32_t memory_kb, pids;
};

/* The looks at one sandbox. */
struct seen {
    char id[ID_SIZE];
    bool marked; /* it was there at the last look */
    int64_t look_ns;
    uint64_t cpu_ns;
    struct sample *ring;
    uint32_t len, n, next;
};

struct usage {
    struct engine *engine;
    uint32_t interval_s;
    pthread_t thread;
    bool runs;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t wake;
    bool stops;
    struct seen *list; /* in the order of their ids */
    size_t n;
    uint64_t cpu_ns; /* of all, since the daemon started */
};

/* ---- one sandbox ---- */

/* How many samples each may have. */
static uint32_t share(const struct usage *u)
{
    size_t hour = USAGE_HOUR_S / u->interval_s + 1;
    size_t most = USAGE_BYTES_MAX / sizeof(struct sample) / (u->n + 1);

    if (most > hour)
        most = hour;
    return most < FIRST_LEN ? FIRST_LEN : (uint32_t)most;
}

/* Another length; the newest stay. */
static void resize(struct seen *s, uint32_t len)
{
    struct sample *ring = xcalloc(len, sizeof(*ring));
    uint32_t keep = s->n < len ? s->n : len;

    for (uint32_t i = 0; i < keep; i++)
        ring[i] = s->ring[(s->next + s->len - keep + i) % s->len];
    free(s->ring);
    s->ring = ring;
    s->len = len;
    s->n = keep;
    s->next = keep % len;
}

static void add_sample(struct seen *s, const struct sample *sample, uint32_t most)
{
    if (s->len > most)
        resize(s, most);
    if (s->n == s->len && s->len < most) {
        uint32_t len = s->len ? 2 * s->len : FIRST_LEN;

        resize(s, len < most ? len : most);
    }
    s->ring[s->next] = *sample;
    s->next = (s->next + 1) % s->len;
    if (s->n < s->len)
        s->n++;
}

static const struct sample *last_sample(const struct seen *s)
{
    return &s->ring[(s->next + s->len - 1) % s->len];
}

/* ---- all of them ---- */

/* Where it is, or would be. */
static size_t place_of(const struct usage *u, const char *id, bool *ret_found)
{
    size_t low = 0, high = u->n;

    *ret_found = false;
    while (low < high && !*ret_found) {
        size_t middle = (low + high) / 2;
        int c = strcmp(u->list[middle].id, id);

        *ret_found = c == 0;
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return *ret_found ? high : low;
}

static struct seen *seen_of(struct usage *u, const struct engine_usage *now)
{
    bool found;
    size_t at = place_of(u, now->id, &found);
    struct seen *s;

    if (!found) {
        u->list = xrealloc(u->list, (u->n + 1) * sizeof(*u->list));
        memmove(&u->list[at + 1], &u->list[at], (u->n - at) * sizeof(*u->list));
        u->n++;
        u->list[at] = (struct seen){0};
        (void)snprintf(u->list[at].id, sizeof(u->list[at].id), "%s", now->id);
    }
    s = &u->list[at];
    s->marked = true;
    return s;
}

/* Since the look before. A box that came up again begins at 0, so does its share. */
static uint64_t used_since(const struct seen *s, const struct engine_usage *now)
{
    return now->cpu_ns >= s->cpu_ns ? now->cpu_ns - s->cpu_ns : now->cpu_ns;
}

static void on_usage(const struct engine_usage *now, void *arg)
{
    struct usage *u = arg;
    int64_t time_ns = mono_ns();
    struct sample sample = {.time_ms = now_ms(),
                            .rx_bytes = now->rx_bytes,
                            .tx_bytes = now->tx_bytes,
                            .memory_kb = (uint32_t)(now->memory_bytes >> 10),
                            .pids = (uint32_t)now->pids};
    struct seen *s;
    uint64_t used;

    pthread_mutex_lock(&u->lock);
    s = seen_of(u, now);
    used = used_since(s, now);
    if (s->look_ns && time_ns > s->look_ns)
        sample.cpu_percent = (float)(100.0 * (double)used / (double)(time_ns - s->look_ns));
    u->cpu_ns += s->look_ns ? used : 0;
    s->look_ns = time_ns;
    s->cpu_ns = now->cpu_ns;
    add_sample(s, &sample, share(u));
    pthread_mutex_unlock(&u->lock);
}

/* Those that were not there any more. */
static void forget_gone(struct usage *u)
{
    size_t kept = 0;

    for (size_t i = 0; i < u->n; i++) {
        if (u->list[i].marked)
            u->list[kept++] = u->list[i];
        else
            free(u->list[i].ring);
    }
    u->n = kept;
}

void usage_look(struct usage *u)
{
    pthread_mutex_lock(&u->lock);
    for (size_t i = 0; i < u->n; i++)
        u->list[i].marked = false;
    pthread_mutex_unlock(&u->lock);
    engine_each_usage(u->engine, on_usage, u);
    pthread_mutex_lock(&u->lock);
    forget_gone(u);
    pthread_mutex_unlock(&u->lock);
}

/* ---- its life ---- */

static void *run(void *arg)
{
    struct usage *u = arg;
    int64_t next = mono_ns();

    pthread_mutex_lock(&u->lock);
    while (!u->stops) {
        struct timespec until;

        pthread_mutex_unlock(&u->lock);
        usage_look(u);
        next += u->interval_s * NS_PER_SECOND;
        if (next < mono_ns()) /* it took longer than that: none is made up for */
            next = mono_ns() + u->interval_s * NS_PER_SECOND;
        until = (struct timespec){next / NS_PER_SECOND, next % NS_PER_SECOND};
        pthread_mutex_lock(&u->lock);
        while (!u->stops && pthread_cond_timedwait(&u->wake, &u->lock, &until) == 0)
            continue;
    }
    pthread_mutex_unlock(&u->lock);
    return NULL;
}

struct usage *usage_new(struct engine *engine, uint32_t interval_s)
{
    struct usage *u = xcalloc(1, sizeof(*u));
    pthread_condattr_t monotonic;

    u->engine = engine;
    u->interval_s = interval_s;
    pthread_mutex_init(&u->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&u->wake, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    return u;
}

int usage_start(struct usage *u, struct err *err)
{
    int r = pthread_create(&u->thread, NULL, run, u);

    if (r != 0)
        return err_sys(err, r, "start the thread that looks at what sandboxes use");
    u->runs = true;
    return 0;
}

void usage_stop(struct usage *u)
{
    if (!u || !u->runs)
        return;
    pthread_mutex_lock(&u->lock);
    u->stops = true;
    pthread_cond_signal(&u->wake);
    pthread_mutex_unlock(&u->lock);
    (void)pthread_join(u->thread, NULL);
    u->runs = false;
}

void usage_free(struct usage *u)
{
    if (!u)
        return;
    usage_stop(u);
    for (size_t i = 0; i < u->n; i++)
        free(u->list[i].ring);
    free(u->list);
    pthread_cond_destroy(&u->wake);
    pthread_mutex_destroy(&u->lock);
    free(u);
}

/* ---- those who ask ---- */

static json_t *sample_json(const struct sample *s)
{
    return json_pack("{s:I, s:f, s:f, s:I, s:I, s:I}", "timestamp", (json_int_t)s->time_ms,
                     "cpuPercent", (double)s->cpu_percent, "memoryUsageMb",
                     (double)s->memory_kb / 1024, "pids", (json_int_t)s->pids, "networkRxBytes",
                     (json_int_t)s->rx_bytes, "networkTxBytes", (json_int_t)s->tx_bytes);
}

int usage_history(struct usage *u, const char *id, int64_t since_ms, json_t **ret, struct err *err)
{
    json_t *samples;
    uint32_t limit_mb;
    bool found;
    size_t at;

    if (engine_memory_limit(u->engine, id, &limit_mb, err) < 0)
        return -1;
    samples = json_array();
    pthread_mutex_lock(&u->lock);
    at = place_of(u, id, &found);
    for (uint32_t i = 0; found && i < u->list[at].n; i++) {
        const struct seen *s = &u->list[at];
        const struct sample *one = &s->ring[(s->next + s->len - s->n + i) % s->len];

        if (one->time_ms >= since_ms)
            (void)json_array_append_new(samples, sample_json(one));
    }
    pthread_mutex_unlock(&u->lock);
    *ret = json_pack("{s:s, s:f, s:f, s:o}", "sandboxId", id, "interval", (double)u->interval_s,
                     "memoryLimitMb", (double)limit_mb, "samples", samples);
    return 0;
}

static int by_memory(const void *a, const void *b)
{
    uint32_t x = last_sample(*(const struct seen *const *)a)->memory_kb;
    uint32_t y = last_sample(*(const struct seen *const *)b)->memory_kb;

    return (x < y) - (x > y);
}

/* Labels are what fills a Prometheus, so not all sandboxes are told of: those with most memory. */
static void tell_named(struct prometheus *p, const struct seen **all, size_t n)
{
    prometheus_family(p, "cay_sandbox_cpu_percent", "gauge",
                      "Of a core, for the 100 sandboxes that use most memory.");
    for (size_t i = 0; i < n; i++)
        prometheus_sample(p, (double)last_sample(all[i])->cpu_percent, "sandbox", all[i]->id, NULL);
    prometheus_family(p, "cay_sandbox_memory_bytes", "gauge", "In use, for the same.");
    for (size_t i = 0; i < n; i++)
        prometheus_sample(p, 1024.0 * last_sample(all[i])->memory_kb, "sandbox", all[i]->id, NULL);
    prometheus_family(p, "cay_sandbox_pids", "gauge", "Processes and threads, for the same.");
    for (size_t i = 0; i < n; i++)
        prometheus_sample(p, last_sample(all[i])->pids, "sandbox", all[i]->id, NULL);
}

void usage_prometheus(struct usage *u, struct prometheus *p)
{
    auto_free const struct seen **all = NULL;
    double memory = 0, pids = 0;
    size_t n = 0;

    pthread_mutex_lock(&u->lock);
    all = xcalloc(u->n + 1, sizeof(*all));
    for (size_t i = 0; i < u->n; i++) {
        if (u->list[i].n == 0)
            continue;
        all[n++] = &u->list[i];
        memory += 1024.0 * last_sample(&u->list[i])->memory_kb;
        pids += last_sample(&u->list[i])->pids;
    }
    qsort((void *)all, n, sizeof(*all), by_memory);
    prometheus_gauge(p, "cay_sandboxes_memory_bytes", memory, "In use by all sandboxes.");
    prometheus_gauge(p, "cay_sandboxes_pids", pids, "Processes and threads of all sandboxes.");
    prometheus_counter(p, "cay_sandboxes_cpu_seconds_total", (double)u->cpu_ns / 1e9,
                       "Used by all sandboxes since the daemon started.");
    tell_named(p, all, n < NAMED_MAX ? n : NAMED_MAX);
    pthread_mutex_unlock(&u->lock);
}
