#include "service/traces.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/prometheus.h"
#include "service/trace_ring.h"
#include "service/trace_stats.h"

#define GATHER_MS 250 /* so many calls are written at once */
#define BATCH     256 /* in one transaction */
#define WAKE_FILL (TRACE_RING_LEN / 4)
#define TOLD_NS   (60 * 1000000000ll) /* between two lines in the log about a disk that fails */

struct traces {
    struct trace_ring *ring;
    atomic_uint in_flight;
    atomic_bool sleeps; /* the thread waits for the first of a batch */
    atomic_bool hurry;  /* it was told that there are many */
    atomic_bool stops;
    atomic_ullong lost; /* not kept one by one; they are counted all the same */
    int wake_fd;
    pthread_t thread;
    bool runs;

    pthread_mutex_t
        lock; /* who takes from the ring and writes; held while the disk is waited for */
    struct trace_store *store; /* NULL = there is none */
    struct trace batch[BATCH];
    int64_t told_ns;
    traces_listener listener;
    void *listener_arg;

    pthread_mutex_t stats_lock; /* taken after the other, never held for long */
    struct trace_stats *stats;
};

/* ---- those who call ---- */

void traces_begin(struct traces *t)
{
    atomic_fetch_add_explicit(&t->in_flight, 1, memory_order_relaxed);
}

static void wake(struct traces *t)
{
    uint64_t one = 1;

    (void)!write(t->wake_fd, &one, sizeof(one));
}

void traces_put(struct traces *t, const struct trace *trace)
{
    atomic_fetch_sub_explicit(&t->in_flight, 1, memory_order_relaxed);
    if (!trace_ring_put(t->ring, trace)) {
        pthread_mutex_lock(&t->stats_lock);
        trace_stats_add(t->stats, trace);
        pthread_mutex_unlock(&t->stats_lock);
        atomic_fetch_add(&t->lost, 1);
        return;
    }
    /* Between the put and this look the thread may have gone to sleep, and looks into the ring
     * after it has said so: one of the two sees the other. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&t->sleeps) && atomic_exchange(&t->sleeps, false))
        wake(t);
    else if (trace_ring_fill(t->ring) >= WAKE_FILL && !atomic_load(&t->hurry) &&
             !atomic_exchange(&t->hurry, true))
        wake(t);
}

void traces_refused(struct traces *t, enum err_kind kind)
{
    pthread_mutex_lock(&t->stats_lock);
    trace_stats_refused(t->stats, kind);
    pthread_mutex_unlock(&t->stats_lock);
}

/* ---- the one who writes ---- */

struct totals {
    struct trace_total *list;
    size_t n;
};

static void keep_total(const char *name, const char *text, void *arg)
{
    struct totals *totals = arg;

    totals->list = xrealloc(totals->list, (totals->n + 1) * sizeof(*totals->list));
    totals->list[totals->n++] = (struct trace_total){xstrdup(name), xstrdup(text)};
}

static void totals_done(struct totals *totals)
{
    for (size_t i = 0; i < totals->n; i++) {
        free((char *)totals->list[i].name);
        free((char *)totals->list[i].text);
    }
    free(totals->list);
}

static void tell_failure(struct traces *t, const struct err *err)
{
    if (t->told_ns && mono_ns() - t->told_ns < TOLD_NS)
        return;
    t->told_ns = mono_ns();
    log_warn("traces cannot be written and are lost; going on", "error", err->text);
}

/* Also without traces: totals may have changed. */
static void store(struct traces *t, size_t n)
{
    struct totals totals = {0};
    struct err err = {0};

    if (!t->store) {
        atomic_fetch_add(&t->lost, n);
        return;
    }
    pthread_mutex_lock(&t->stats_lock);
    trace_stats_changed(t->stats, keep_total, &totals);
    pthread_mutex_unlock(&t->stats_lock);
    if ((n > 0 || totals.n > 0) &&
        trace_store_add(t->store, t->batch, n, totals.list, totals.n, &err) < 0) {
        atomic_fetch_add(&t->lost, n);
        tell_failure(t, &err);
        pthread_mutex_lock(&t->stats_lock);
        trace_stats_touch(t->stats);
        pthread_mutex_unlock(&t->stats_lock);
    }
    totals_done(&totals);
}

/* All that is in the ring; with the lock. */
static void drain(struct traces *t)
{
    size_t n;

    atomic_store(&t->hurry, false);
    do {
        n = trace_ring_take(t->ring, t->batch, BATCH);
        pthread_mutex_lock(&t->stats_lock);
        for (size_t i = 0; i < n; i++)
            trace_stats_add(t->stats, &t->batch[i]);
        pthread_mutex_unlock(&t->stats_lock);
        if (n > 0 && t->listener)
            t->listener(t->batch, n, t->listener_arg);
        store(t, n);
    } while (n == BATCH);
}

static void take_and_write(struct traces *t)
{
    pthread_mutex_lock(&t->lock);
    drain(t);
    pthread_mutex_unlock(&t->lock);
}

/* -1 = without end. */
static void wait_wake(struct traces *t, int timeout_ms)
{
    struct pollfd p = {.fd = t->wake_fd, .events = POLLIN};
    uint64_t n;

    if (poll(&p, 1, timeout_ms) > 0)
        (void)!read(t->wake_fd, &n, sizeof(n));
}

static void *run(void *arg)
{
    struct traces *t = arg;

    while (!atomic_load(&t->stops)) {
        atomic_store(&t->sleeps, true);
        atomic_thread_fence(memory_order_seq_cst);
        if (trace_ring_fill(t->ring) == 0)
            wait_wake(t, -1);
        atomic_store(&t->sleeps, false);
        if (!atomic_load(&t->stops))
            wait_wake(t, GATHER_MS);
        take_and_write(t);
    }
    return NULL;
}

/* ---- its life ---- */

static void load_total(const struct trace_total *total, void *arg)
{
    trace_stats_load(arg, total->name, total->text);
}

struct traces *traces_open(const char *data_dir, uint32_t keep)
{
    struct traces *t = xcalloc(1, sizeof(*t));
    struct err err = {0};

    t->ring = trace_ring_new();
    t->stats = trace_stats_new();
    pthread_mutex_init(&t->lock, NULL);
    pthread_mutex_init(&t->stats_lock, NULL);
    t->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->wake_fd < 0)
        abort();
    if (trace_store_open(data_dir, keep, &t->store, &err) < 0 ||
        trace_store_totals(t->store, load_total, t->stats, &err) < 0)
        log_warn("traces cannot be kept; going on without", "error", err.text);
    return t;
}

int traces_start(struct traces *t, struct err *err)
{
    int r = pthread_create(&t->thread, NULL, run, t);

    if (r != 0)
        return err_sys(err, r, "start the thread that writes traces");
    t->runs = true;
    return 0;
}

void traces_stop(struct traces *t)
{
    if (!t)
        return;
    if (t->runs) {
        atomic_store(&t->stops, true);
        wake(t);
        (void)pthread_join(t->thread, NULL);
        t->runs = false;
    }
    take_and_write(t);
}

void traces_close(struct traces *t)
{
    if (!t)
        return;
    traces_stop(t);
    trace_store_close(t->store);
    trace_stats_free(t->stats);
    trace_ring_free(t->ring);
    (void)close(t->wake_fd);
    pthread_mutex_destroy(&t->stats_lock);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

void traces_listen(struct traces *t, traces_listener listener, void *arg)
{
    t->listener = listener;
    t->listener_arg = arg;
}

/* ---- those who ask ---- */

static void set_text(json_t *o, const char *name, const char *text)
{
    if (text && *text)
        (void)json_object_set_new(o, name, json_string(text));
}

static json_t *trace_json(const struct trace *t)
{
    char id[ID_SIZE], trace[33], span[17], parent[17];
    json_t *o;

    trace_id(&t->context, id);
    hex_text(t->context.trace_id, 16, trace);
    hex_text(t->context.span_id, 8, span);
    hex_text(t->context.parent_id, 8, parent);
    o = json_pack("{s:s, s:s, s:f, s:s, s:I, s:s, s:s, s:s, s:s}", "id", id, "functionId",
                  t->function, "duration", (double)t->duration_us / 1000, "status",
                  t->kind == ERR_NONE ? "ok" : "error", "timestamp", (json_int_t)t->end_ms,
                  "caller", t->caller, "face", t->face, "traceId", trace, "spanId", span);
    set_text(o, "sandboxId", t->sandbox_id);
    set_text(o, "error", t->error);
    set_text(o, "code", t->code);
    if (t->context.remote)
        set_text(o, "parentSpanId", parent);
    return o;
}

static void list_one(const struct trace *t, void *arg)
{
    (void)json_array_append_new(arg, trace_json(t));
}

int traces_list(struct traces *t, const struct trace_query *q, json_t **ret, struct err *err)
{
    json_t *list = json_array();
    uint64_t total = 0;

    take_and_write(t);
    if (t->store && trace_store_list(t->store, q, list_one, list, &total, err) < 0) {
        json_decref(list);
        return -1;
    }
    *ret = json_pack("{s:o, s:I}", "traces", list, "total", (json_int_t)total);
    return 0;
}

static void add_again(const struct trace *t, void *arg)
{
    trace_stats_add_again(arg, t);
}

/* What is left is what the percentiles are of, from here on. */
static int count_again(struct traces *t, struct err *err)
{
    const struct trace_query all = {.limit = UINT32_MAX};
    uint64_t total;
    int r;

    pthread_mutex_lock(&t->stats_lock);
    trace_stats_clear(t->stats);
    r = trace_store_list(t->store, &all, add_again, t->stats, &total, err);
    pthread_mutex_unlock(&t->stats_lock);
    store(t, 0);
    return r;
}

int traces_clear(struct traces *t, int64_t before_ms, uint64_t *ret_cleared, struct err *err)
{
    int r = 0;

    *ret_cleared = 0;
    pthread_mutex_lock(&t->lock);
    drain(t);
    if (t->store)
        r = trace_store_clear(t->store, before_ms, ret_cleared, err);
    if (r == 0 && *ret_cleared > 0)
        r = count_again(t, err);
    pthread_mutex_unlock(&t->lock);
    return r;
}

json_t *traces_summary(struct traces *t)
{
    json_t *o;

    take_and_write(t);
    pthread_mutex_lock(&t->stats_lock);
    o = trace_stats_json(t->stats);
    pthread_mutex_unlock(&t->stats_lock);
    return o;
}

json_t *traces_no_summary(void)
{
    struct trace_stats *none = trace_stats_new();
    json_t *o = trace_stats_json(none);

    trace_stats_free(none);
    return o;
}

void traces_prometheus(struct traces *t, struct prometheus *p)
{
    take_and_write(t);
    pthread_mutex_lock(&t->stats_lock);
    trace_stats_prometheus(t->stats, p);
    pthread_mutex_unlock(&t->stats_lock);
    prometheus_gauge(p, "cay_http_requests_in_flight", atomic_load(&t->in_flight),
                     "Calls that have begun and not ended.");
    prometheus_counter(p, "cay_traces_lost_total", (double)atomic_load(&t->lost),
                       "Calls that are counted and not kept one by one.");
}
