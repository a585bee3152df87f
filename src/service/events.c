#include "service/events.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/event.h"
#include "service/events_internal.h"

#define LINGER_NS    (5 * 1000000ll) /* that events of commands wait for others to be written with */
#define TELL_MIN_NS  (2 * 1000000ll)  /* readers are told no more often than this, */
#define TELL_MAX_NS  (20 * 1000000ll) /* and, if they are many, than this */
#define TRIM_NS      (60 * 1000000000ll)
#define TRIM_BYTES   (16u << 20) /* that were written since are a reason, too */
#define EVENT_BYTES  4096u       /* on the disk for each that may be kept */
#define BATCH_EVENTS 1024
#define DAY_MS       (24 * 3600 * 1000ll)

enum outcome { WAITS, KEPT, NOT_KEPT };

struct pending {
    struct pending *next;
    struct event_row row; /* topic and sandbox_id lie behind it; data is made by the writer */
    json_t *data;
    enum outcome *outcome; /* of who waits for it, under the lock; NULL = nobody does */
    char words[];
};

/* ---- publish ---- */

static struct pending *pending_new(const char *topic, const char *sandbox_id, json_t *data)
{
    size_t topic_size = strlen(topic) + 1, id_size = strlen(sandbox_id) + 1;
    struct pending *p = xcalloc(1, sizeof(*p) + topic_size + id_size);

    memcpy(p->words, topic, topic_size);
    memcpy(p->words + topic_size, sandbox_id, id_size);
    p->row.topic = p->words;
    p->row.sandbox_id = p->words + topic_size;
    p->data = data ? data : json_object();
    if (getrandom(&p->row.salt, sizeof(p->row.salt), 0) != sizeof(p->row.salt))
        abort();
    return p;
}

static void pending_free(struct pending *p)
{
    json_decref(p->data);
    free((char *)p->row.data);
    free(p);
}

/* Under the lock: its place, and behind all others. */
static void enqueue(struct events *ev, struct pending *p)
{
    int64_t now = now_ms();

    ev->given = ev->given + 1 > EVENT_SEQ_OF_MS(now) ? ev->given + 1 : EVENT_SEQ_OF_MS(now);
    p->row.seq = ev->given;
    p->row.time_ms = now;
    *ev->tail = p;
    ev->tail = &p->next;
    ev->queued++;
    ev->published++;
}

/* Under the lock: the writer is to look at this time. */
static void want_writer(struct events *ev, int64_t at_ns)
{
    if (at_ns >= ev->wakes_ns)
        return;
    ev->wakes_ns = at_ns;
    (void)pthread_cond_signal(&ev->work);
}

/* Those of commands come often, and several at a time. */
static bool may_linger(const char *topic)
{
    return str_starts(topic, "exec.") || strcmp(topic, "sandbox.exec") == 0;
}

/* False when there is no room; then p is still the caller's. *ret: with its place and time. */
static bool publish(struct events *ev, struct pending *p, bool linger, struct event_row *ret)
{
    bool room;

    (void)pthread_mutex_lock(&ev->lock);
    room = ev->queued < EVENTS_QUEUE_MAX;
    if (room) {
        enqueue(ev, p);
        *ret = p->row;
        want_writer(ev, linger ? mono_ns() + LINGER_NS : 0);
    } else {
        ev->lost++;
        ev->untold++;
    }
    (void)pthread_mutex_unlock(&ev->lock);
    return room;
}

/* Has the sandbox a share left? What was lost before is told first. */
static bool take_share(struct events *ev, const char *topic, const char *sandbox_id)
{
    uint64_t lost;
    bool taken;

    (void)pthread_mutex_lock(&ev->lock);
    taken = event_share_take(&ev->shares, topic, sandbox_id, mono_ns(), &lost);
    ev->lost += !taken;
    (void)pthread_mutex_unlock(&ev->lock);
    if (lost > 0)
        events_publish(ev, EVENTS_LOST, sandbox_id, json_pack("{s:I}", "lost", (json_int_t)lost));
    return taken;
}

void events_publish(struct events *ev, const char *topic, const char *sandbox_id, json_t *data)
{
    struct pending *p;
    struct event_row row;

    if (!take_share(ev, topic, sandbox_id)) {
        json_decref(data);
        return;
    }
    p = pending_new(topic, sandbox_id, data);
    if (!publish(ev, p, may_linger(topic), &row))
        pending_free(p);
}

static int wait_written(struct events *ev, const enum outcome *outcome, struct err *err)
{
    bool kept;

    (void)pthread_mutex_lock(&ev->lock);
    while (*outcome == WAITS)
        (void)pthread_cond_wait(&ev->written, &ev->lock);
    kept = *outcome == KEPT;
    (void)pthread_mutex_unlock(&ev->lock);
    if (kept)
        return 0;
    return err_set(err, ERR_UNAVAILABLE,
                   "the event could not be written; the daemon's log tells why");
}

/* The queue has a copy of its own: the writer reads it on another thread. */
int events_publish_kept(struct events *ev, const char *topic, const char *sandbox_id, json_t *data,
                        json_t **ret, struct err *err)
{
    struct pending *p = pending_new(topic, sandbox_id, json_deep_copy(data));
    enum outcome outcome = WAITS;
    struct event_row row;
    char id[ID_SIZE];

    p->row.published = true;
    p->outcome = &outcome;
    if (!publish(ev, p, false, &row)) {
        pending_free(p);
        json_decref(data);
        return err_code(err, ERR_UNAVAILABLE, "busy",
                        "%u events wait to be written; try again later", EVENTS_QUEUE_MAX);
    }
    if (wait_written(ev, &outcome, err) < 0) {
        json_decref(data);
        return -1;
    }
    event_id(id, row.seq, row.salt);
    *ret = json_pack("{s:s, s:s, s:s, s:o, s:I, s:b}", "id", id, "topic", topic, "sandboxId",
                     sandbox_id, "data", data ? data : json_object(), "timestamp",
                     (json_int_t)row.time_ms, "published", 1);
    return 0;
}

/* ---- the writer ---- */

static struct timespec time_of(int64_t ns)
{
    return (struct timespec){ns / 1000000000, ns % 1000000000};
}

/* Under the lock: how many were lost is an event too, once there is room for one. */
static void tell_untold(struct events *ev)
{
    if (ev->untold == 0)
        return;
    enqueue(ev, pending_new(EVENTS_LOST, "", json_pack("{s:I}", "lost", (json_int_t)ev->untold)));
    ev->untold = 0;
    ev->wakes_ns = 0;
}

/* Waits until some may be written, or until something else is due: some that are queued, and none
 * then. False when there will be none any more. */
static bool take_queue(struct events *ev, struct pending **ret)
{
    bool goes_on;

    (void)pthread_mutex_lock(&ev->lock);
    if (ev->trim_ns < ev->wakes_ns)
        ev->wakes_ns = ev->trim_ns;
    while (!ev->stopping && mono_ns() < ev->wakes_ns) {
        struct timespec at = time_of(ev->wakes_ns);

        (void)pthread_cond_timedwait(&ev->work, &ev->lock, &at);
    }
    *ret = ev->first;
    goes_on = !ev->stopping || ev->first;
    ev->first = NULL;
    ev->tail = &ev->first;
    ev->queued = 0;
    ev->wakes_ns = INT64_MAX;
    tell_untold(ev);
    (void)pthread_mutex_unlock(&ev->lock);
    return goes_on;
}

static void render(struct pending *p)
{
    char *text = json_dumps(p->data, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15));

    if (!text || strlen(text) > EVENT_DATA) {
        free(text);
        text = xstrdup("{\"truncated\":true}");
    }
    p->row.data = text;
    p->row.data_len = strlen(text);
}

/* What cannot be written is told all the same to those who read now. */
static bool write_rows(struct events *ev, const struct event_row *rows, size_t n)
{
    struct err err = {0};

    if (event_store_add(ev->store, rows, n, &err) == 0) {
        if (ev->failing)
            log_info("events are written again");
        ev->failing = false;
        return true;
    }
    if (!ev->failing)
        log_error("events cannot be written, going on without them", "error", err.text);
    ev->failing = true;
    (void)pthread_mutex_lock(&ev->lock);
    ev->lost += n;
    (void)pthread_mutex_unlock(&ev->lock);
    return false;
}

/* Nobody reads: then they are not rendered. */
static void add_row(struct events *ev, const struct event_row *row)
{
    if (!ev->open.block && atomic_load(&ev->n_readers) > 0) {
        block_begin(&ev->open);
        ev->open_first = row->seq;
    }
    if (ev->open.block)
        block_add(&ev->open, row);
    else
        ev->open_skipped = row->seq;
    ev->open_last = row->seq;
}

/* One that is long is told at once, by whoever has made it so. */
static void add_to_open(struct events *ev, const struct event_row *rows, size_t n)
{
    (void)pthread_mutex_lock(&ev->open_lock);
    for (size_t i = 0; i < n; i++) {
        while (ev->open.block && ev->open.text.len >= BLOCK_BYTES)
            (void)pthread_cond_wait(&ev->cried, &ev->open_lock);
        add_row(ev, &rows[i]);
        if (ev->open.block && ev->open.text.len >= BLOCK_BYTES)
            (void)pthread_cond_signal(&ev->cry);
    }
    (void)pthread_cond_signal(&ev->cry);
    (void)pthread_mutex_unlock(&ev->open_lock);
}

/* Writes, renders and frees up to BATCH_EVENTS of them; returns the rest. */
static struct pending *write_batch(struct events *ev, struct event_row rows[BATCH_EVENTS],
                                   struct pending *p)
{
    struct pending *all = p;
    bool kept;
    size_t n = 0;

    for (; p && n < BATCH_EVENTS; p = p->next) {
        render(p);
        ev->fresh_bytes += p->row.data_len;
        rows[n++] = p->row;
    }
    kept = write_rows(ev, rows, n);
    add_to_open(ev, rows, n);
    (void)pthread_mutex_lock(&ev->lock);
    for (struct pending *one = all; one != p; one = one->next)
        if (one->outcome)
            *one->outcome = kept ? KEPT : NOT_KEPT;
    ev->finished = rows[n - 1].seq;
    (void)pthread_cond_broadcast(&ev->written);
    (void)pthread_mutex_unlock(&ev->lock);
    while (all != p) {
        struct pending *next = all->next;

        pending_free(all);
        all = next;
    }
    return p;
}

/* A piece at a time, so that nobody waits long for what it writes. */
static void trim(struct events *ev)
{
    const struct event_bounds keep = {.count = ev->max,
                                      .bytes = (uint64_t)ev->max * EVENT_BYTES + TRIM_BYTES,
                                      .since_ms = now_ms() - ev->days * DAY_MS};
    bool more = false;
    uint64_t slack = ev->max / 100 + 1;
    struct err err = {0};

    if (mono_ns() < ev->trim_ns && event_store_count(ev->store) <= ev->max + slack &&
        ev->fresh_bytes < TRIM_BYTES)
        return;
    if (event_store_trim(ev->store, &keep, &more, &err) < 0 && !ev->failing)
        log_warn("old events cannot be removed, going on", "error", err.text);
    ev->trim_ns = more ? 0 : mono_ns() + TRIM_NS;
    ev->fresh_bytes = 0;
}

static void *writer(void *arg)
{
    auto_free struct event_row *rows = xcalloc(BATCH_EVENTS, sizeof(*rows));
    struct events *ev = arg;
    struct pending *p;

    (void)pthread_setname_np(pthread_self(), "events");
    while (take_queue(ev, &p)) {
        while (p)
            p = write_batch(ev, rows, p);
        trim(ev);
    }
    return NULL;
}

/* ---- the crier ---- */

/* Waits for something to tell, and a little for more of it unless it is much; false at the end. */
static bool await_open(struct events *ev, int64_t next_ns)
{
    struct timespec at = time_of(next_ns);

    while (!ev->open_last && !ev->hoarse)
        (void)pthread_cond_wait(&ev->cry, &ev->open_lock);
    while (mono_ns() < next_ns && !ev->hoarse && ev->open.text.len < BLOCK_BYTES)
        (void)pthread_cond_timedwait(&ev->cry, &ev->open_lock, &at);
    return ev->open_last;
}

/* From one telling to the next, so that a third of the time is left to others. */
static int64_t pause_ns(int64_t took_ns)
{
    int64_t pause = took_ns + took_ns / 2;

    return pause < TELL_MIN_NS ? TELL_MIN_NS : pause < TELL_MAX_NS ? pause : TELL_MAX_NS;
}

/* Beside the writer, so that what is published is written while thousands are told. */
static void *crier(void *arg)
{
    struct events *ev = arg;
    int64_t next_ns = 0;

    (void)pthread_setname_np(pthread_self(), "crier");
    (void)pthread_mutex_lock(&ev->open_lock);
    while (await_open(ev, next_ns)) {
        int64_t from_ns = mono_ns();
        int64_t skipped = ev->open_skipped;
        struct events_block *b =
            ev->open.block ? block_end(&ev->open, ev->open_first, ev->open_last) : NULL;

        ev->open_skipped = ev->open_last = 0;
        (void)pthread_cond_signal(&ev->cried);
        (void)pthread_mutex_unlock(&ev->open_lock);
        if (skipped)
            readers_skip(ev, skipped);
        if (b)
            readers_tell(ev, b);
        next_ns = from_ns + pause_ns(mono_ns() - from_ns);
        (void)pthread_mutex_lock(&ev->open_lock);
    }
    (void)pthread_mutex_unlock(&ev->open_lock);
    return NULL;
}

/* ---- life ---- */

static void init_locks(struct events *ev)
{
    pthread_condattr_t monotonic;

    (void)pthread_mutex_init(&ev->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&ev->work, &monotonic);
    (void)pthread_cond_init(&ev->cry, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)pthread_cond_init(&ev->written, NULL);
    (void)pthread_mutex_init(&ev->open_lock, NULL);
    (void)pthread_cond_init(&ev->cried, NULL);
}

static void events_free(struct events *ev)
{
    readers_done(ev);
    event_store_close(ev->store);
    (void)pthread_cond_destroy(&ev->work);
    (void)pthread_cond_destroy(&ev->written);
    (void)pthread_mutex_destroy(&ev->lock);
    (void)pthread_cond_destroy(&ev->cry);
    (void)pthread_cond_destroy(&ev->cried);
    (void)pthread_mutex_destroy(&ev->open_lock);
    free(ev);
}

static void end_crier(struct events *ev)
{
    (void)pthread_mutex_lock(&ev->open_lock);
    ev->hoarse = true;
    (void)pthread_cond_signal(&ev->cry);
    (void)pthread_mutex_unlock(&ev->open_lock);
    (void)pthread_join(ev->crier, NULL);
}

int events_open(const struct events_config *config, struct events **ret, struct err *err)
{
    struct events *ev = xcalloc(1, sizeof(*ev));
    int r;

    if (event_store_open(config->data_dir, &ev->store, err) < 0) {
        free(ev);
        return -1;
    }
    ev->max = config->max;
    ev->days = config->days;
    ev->tail = &ev->first;
    ev->given = ev->finished = event_store_last(ev->store);
    ev->wakes_ns = INT64_MAX;
    init_locks(ev);
    readers_init(ev);
    r = pthread_create(&ev->crier, NULL, crier, ev);
    if (r == 0 && (r = pthread_create(&ev->thread, NULL, writer, ev)) != 0)
        end_crier(ev);
    if (r != 0) {
        events_free(ev);
        return err_sys(err, r, "start the writer of events");
    }
    *ret = ev;
    return 0;
}

void events_close(struct events *ev)
{
    if (!ev)
        return;
    (void)pthread_mutex_lock(&ev->lock);
    ev->stopping = true;
    (void)pthread_cond_signal(&ev->work);
    (void)pthread_mutex_unlock(&ev->lock);
    (void)pthread_join(ev->thread, NULL);
    end_crier(ev);
    events_free(ev);
}

/* ---- what was ---- */

static void add_event(const struct event_row *row, void *arg)
{
    (void)json_array_append_new(arg, event_row_json(row));
}

void events_write_out(struct events *ev)
{
    int64_t given;

    (void)pthread_mutex_lock(&ev->lock);
    given = ev->given;
    if (ev->finished < given)
        want_writer(ev, 0);
    while (ev->finished < given)
        (void)pthread_cond_wait(&ev->written, &ev->lock);
    (void)pthread_mutex_unlock(&ev->lock);
}

int events_history(struct events *ev, const struct event_query *q, json_t **ret, struct err *err)
{
    json_t *list = json_array();
    uint64_t total = 0;

    events_write_out(ev);
    if (event_store_find(ev->store, q, add_event, list, &total, err) < 0) {
        json_decref(list);
        return -1;
    }
    *ret = json_pack("{s:o, s:I}", "events", list, "total", (json_int_t)total);
    return 0;
}

void events_figures(struct events *ev, struct events_figures *ret)
{
    (void)pthread_mutex_lock(&ev->lock);
    *ret = (struct events_figures){.published = ev->published,
                                   .lost = ev->lost,
                                   .queued = ev->queued,
                                   .kept = event_store_count(ev->store),
                                   .readers = atomic_load(&ev->n_readers)};
    (void)pthread_mutex_unlock(&ev->lock);
}
