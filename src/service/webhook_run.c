/* The thread that brings events to webhooks.
 *
 * 1. An event is in a slot until it is delivered or given up, and the place of a webhook is before
 *    the oldest slot: what a restart finds behind the place is brought (again), so nothing is lost.
 * 2. An event that failed is sent again after a while that doubles; others go on meanwhile. A
 * target that takes what it is sent gets some at once; one that has failed gets one at a time, the
 *    oldest first, after a while that doubles, too. What is behind that waits in the store of
 *    events, not here.
 * 3. Every webhook can have one on its way, whatever the others have: the courier has room for
 *    that. More than one only while there is more room. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "service/events.h"
#include "service/webhooks_internal.h"

#define EXTRA_MAX      256 /* rule 3 */
#define DELAY_MS_MAX   (3600 * 1000ll)
#define REFUSALS_MAX   5 /* attempts of an event that a target answers but does not want */
#define BUSY_MS        200
#define SAVE_MS        1000
#define REST_MS        60000 /* so often places are looked at that move with what nobody wants */
#define NS_OF_MS(ms)   ((int64_t)(ms)*1000000)
#define MS_OF_SEQ(seq) ((seq) >> 16) /* as model/event.h says */

/* ---- slots ---- */

static void slot_remove(struct hook *h, unsigned i)
{
    free(h->slots[i].body);
    h->n--;
    memmove(&h->slots[i], &h->slots[i + 1], (h->n - i) * sizeof(h->slots[0]));
}

static struct slot *slot_of(struct hook *h, int64_t seq)
{
    for (unsigned i = 0; i < h->n; i++)
        if (h->slots[i].seq == seq)
            return &h->slots[i];
    return NULL;
}

/* Rule 1. */
static int64_t place_of(const struct hook *h)
{
    if (h->n > 0)
        return h->slots[0].seq - 1;
    return h->block || h->more ? h->last_seq : events_reader_place(h->reader);
}

/* Of what it was told itself it is not told. */
static bool is_own(const struct hook *h, const struct event *e)
{
    return strcmp(e->topic, WEBHOOK_FAILED) == 0 &&
           memmem(e->json, e->json_len, h->id, strlen(h->id));
}

static void slot_add(struct webhooks *w, struct hook *h, const struct event *e)
{
    struct slot *s = &h->slots[h->n++];
    struct err err = {0};

    *s = (struct slot){.seq = e->seq, .body = xstrndup(e->json, e->json_len)};
    memcpy(s->delivery.webhook, h->id, sizeof(s->delivery.webhook));
    memcpy(s->delivery.event, e->id, sizeof(s->delivery.event));
    (void)snprintf(s->delivery.topic, sizeof(s->delivery.topic), "%.131s", e->topic);
    webhook_delivery_id(h->id, e->id, s->delivery.id);
    /* Only of what was under way when another daemon ended is there anything. */
    if (MS_OF_SEQ(e->seq) <= w->opened_ms &&
        webhook_store_attempts(w->store, s->delivery.id, &s->attempts, &err) < 0)
        s->attempts = 0;
}

/* The next event that is for it becomes a slot; false when there is none now. */
static bool take_event(struct webhooks *w, struct hook *h)
{
    struct err err = {0};

    for (;;) {
        while (h->block && h->next < h->block->n) {
            const struct event *e = &h->block->events[h->next++];

            h->last_seq = e->seq;
            if (!is_own(h, e)) {
                slot_add(w, h, e);
                return true;
            }
        }
        events_block_unref(h->block);
        h->block = NULL;
        h->next = 0;
        if (events_take(h->reader, &h->block, &h->more, &err) < 0) {
            log_warn("cannot read events for a webhook, trying again", "webhook", h->id, "why",
                     err.text);
            h->more = false;
            w->busy_ns = mono_ns() + NS_OF_MS(BUSY_MS);
            return false;
        }
        if (!h->block && !h->more)
            return false;
    }
}

/* ---- sending ---- */

static bool send_slot(struct webhooks *w, struct hook *h, struct slot *s)
{
    struct flight *f = xcalloc(1, sizeof(*f));
    struct err err = {0};

    f->number = h->number;
    f->seq = s->seq;
    if (webhook_send(w, h, &s->delivery, s->attempts + 1, s->body, strlen(s->body), f, &err) < 0) {
        free(f);
        w->busy_ns = mono_ns() + NS_OF_MS(BUSY_MS);
        return false;
    }
    s->flying = true;
    s->round = h->round;
    h->flying++;
    w->flying++;
    return true;
}

static unsigned window_of(const struct webhooks *w, const struct hook *h)
{
    return h->failures > 0 || w->flying >= EXTRA_MAX ? 1 : WINDOW;
}

/* Sends what may be sent now. */
static void pump(struct webhooks *w, struct hook *h)
{
    int64_t now = mono_ns();

    if (!h->active || now < w->busy_ns || (h->failures > 0 && (now < h->retry_ns || h->flying > 0)))
        return;
    for (unsigned i = 0; i < h->n && h->flying < window_of(w, h); i++)
        if (!h->slots[i].flying && now >= h->slots[i].retry_ns && !send_slot(w, h, &h->slots[i]))
            return;
    while (h->n < WINDOW && h->flying < window_of(w, h) && take_event(w, h))
        if (!send_slot(w, h, &h->slots[h->n - 1]))
            return;
}

/* ---- landing ---- */

static void add_row(struct webhooks *w, const struct delivery *d)
{
    if ((w->n_rows & (w->n_rows + 1)) == 0)
        w->rows = xrealloc(w->rows, (w->n_rows + 1) * 2 * sizeof(*w->rows));
    w->rows[w->n_rows++] = *d;
}

/* It is there and does not want this event: another time would not help. */
static bool is_refusal(int status)
{
    return (status >= 300 && status < 500) && status != 408 && status != 425 && status != 429;
}

static bool is_given_up(const struct webhooks *w, const struct slot *s)
{
    if (is_refusal(s->delivery.status) && s->attempts >= REFUSALS_MAX)
        return true;
    return now_ms() - MS_OF_SEQ(s->seq) > (int64_t)w->config.retry_hours * 3600 * 1000;
}

/* Twice as long each time, a quarter more or less (random), so that many do not come at once. */
static int64_t delay_ms(const struct webhooks *w, unsigned failures, uint32_t random,
                        unsigned retry_after_s)
{
    int64_t delay = w->config.retry_ms, asked = (int64_t)retry_after_s * 1000;

    for (unsigned i = 1; i < failures && delay < DELAY_MS_MAX; i++)
        delay *= 2;
    if (delay > DELAY_MS_MAX)
        delay = DELAY_MS_MAX;
    delay = delay * 3 / 4 + delay * (int64_t)(random % 1024) / 2048;
    if (asked > DELAY_MS_MAX)
        asked = DELAY_MS_MAX;
    return delay > asked ? delay : asked;
}

static void tell_given_up(struct webhooks *w, const struct hook *h, const struct delivery *d)
{
    log_warn("an event was given up for a webhook", "webhook", h->id, "event", d->event, "topic",
             d->topic);
    /* Targets that take nothing would tell of each other without end. */
    if (strcmp(d->topic, WEBHOOK_FAILED) == 0)
        return;
    events_publish(w->events, WEBHOOK_FAILED, h->sandbox_id ? h->sandbox_id : "",
                   json_pack("{s:s, s:s, s:s, s:I, s:I, s:s}", "webhookId", h->id, "eventId",
                             d->event, "topic", d->topic, "attempts", (json_int_t)d->attempts,
                             "status", (json_int_t)d->status, "error", d->error));
}

/* Rule 2. Of a target that is dead both times are the same, so that the oldest event is what it is
 * tried with. Milliseconds until this event's. */
static int64_t count_failure(struct webhooks *w, struct hook *h, struct slot *s,
                             unsigned retry_after_s)
{
    int64_t now = mono_ns(), delay;
    uint32_t random = 0;

    (void)!getrandom(&random, sizeof(random), 0);
    delay = delay_ms(w, s->attempts, random, retry_after_s);
    s->retry_ns = now + NS_OF_MS(delay);
    if (s->round == h->round) {
        h->round++;
        if (h->failures++ == 0)
            log_info("a webhook's target does not take what it is sent; trying again", "webhook",
                     h->id);
        h->retry_ns = now + NS_OF_MS(delay_ms(w, h->failures, random, retry_after_s));
    }
    return delay;
}

static void land_failure(struct webhooks *w, struct hook *h, struct slot *s, unsigned retry_after_s)
{
    int64_t delay = count_failure(w, h, s, retry_after_s);
    struct delivery *d = &s->delivery;

    if (!is_given_up(w, s)) {
        d->state = DELIVERY_RETRYING;
        d->next_ms = d->at_ms + delay;
        return;
    }
    d->state = DELIVERY_FAILED;
    tell_given_up(w, h, d);
    if (is_refusal(d->status))
        h->failures = 0; /* the next may be welcome */
}

static void land_slot(struct webhooks *w, struct hook *h, struct slot *s, const struct flight *f)
{
    struct delivery *d = &s->delivery;

    s->flying = false;
    h->flying--;
    w->flying--;
    d->attempts = ++s->attempts;
    flight_put(f, d);
    d->next_ms = 0;
    if (d->status / 100 == 2) {
        d->state = DELIVERY_DELIVERED;
        if (h->failures > 0)
            log_info("a webhook's target takes what it is sent again", "webhook", h->id);
        h->failures = 0;
    } else {
        land_failure(w, h, s, f->retry_after_s);
    }
    h->last = *d;
    add_row(w, d);
    if (d->state != DELIVERY_RETRYING)
        slot_remove(h, (unsigned)(s - h->slots));
}

static void land(struct webhooks *w, struct flight *f)
{
    struct hook *h;
    struct slot *s;

    if (f->test) {
        struct delivery d;

        w->tests--;
        webhook_test_landed(f, &d);
        /* Who is told of it finds it among the deliveries. */
        if (hook_find(w, d.webhook))
            (void)webhook_store_write(w->store, &d, 1, NULL, 0, NULL);
        webhook_test_tell(f);
        return;
    }
    TAILQ_FOREACH(h, &w->hooks, link)
    if (h->number == f->number)
        break;
    s = h ? slot_of(h, f->seq) : NULL;
    if (s && s->flying)
        land_slot(w, h, s, f);
}

static void land_all(struct webhooks *w)
{
    struct flights all;
    struct flight *f;

    STAILQ_INIT(&all);
    pthread_mutex_lock(&w->landed_lock);
    STAILQ_CONCAT(&all, &w->landed);
    pthread_mutex_unlock(&w->landed_lock);
    while ((f = STAILQ_FIRST(&all))) {
        STAILQ_REMOVE_HEAD(&all, link);
        land(w, f);
        free(f);
    }
}

/* ---- what is kept ---- */

/* Under the lock: places that have moved, if it is time for that. */
static size_t list_places(struct webhooks *w, struct webhook_place *ret, bool all)
{
    int64_t now = mono_ns();
    struct hook *h;
    size_t n = 0;

    if (!all && w->n_rows == 0 && now < w->saved_ns + NS_OF_MS(SAVE_MS))
        return 0;
    w->saved_ns = now;
    TAILQ_FOREACH(h, &w->hooks, link)
    {
        int64_t place = place_of(h);

        if (place <= h->saved || n >= WEBHOOKS_MAX)
            continue;
        memcpy(ret[n].webhook, h->id, sizeof(ret[n].webhook));
        ret[n++].place = h->saved = place;
    }
    return n;
}

static void keep(struct webhooks *w, const struct webhook_place *places, size_t n_places)
{
    struct err err = {0};

    if (w->n_rows == 0 && n_places == 0)
        return;
    if (webhook_store_write(w->store, w->rows, w->n_rows, places, n_places, &err) == 0) {
        w->disk_told = false;
    } else if (!w->disk_told) {
        w->disk_told = true;
        log_warn("cannot keep how far webhooks have come; after a restart some is sent again",
                 "why", err.text);
    }
    w->n_rows = 0;
}

/* ---- the thread ---- */

static void take_earlier(int64_t *until, int64_t when, int64_t now)
{
    if (when > now && (*until == 0 || when < *until))
        *until = when;
}

static int ms_until(int64_t when)
{
    int64_t left = when - mono_ns();

    return left > 0 ? (int)(left / 1000000) + 1 : 0;
}

/* Whom to wait for, and how long at most (-1 = without end). now: from before all were pumped, so
 * that no time passes unseen in between. */
static nfds_t list_waits(struct webhooks *w, int64_t now, struct pollfd *p, int *ret_ms)
{
    int64_t until = 0;
    struct hook *h;
    nfds_t n = 0;

    take_earlier(&until, w->busy_ns, now);
    p[n++] = (struct pollfd){.fd = w->wake, .events = POLLIN};
    TAILQ_FOREACH(h, &w->hooks, link)
    {
        if (!h->active || n > WEBHOOKS_MAX)
            continue;
        if (h->failures > 0)
            take_earlier(&until, h->retry_ns, now);
        for (unsigned i = 0; i < h->n; i++)
            take_earlier(&until, h->slots[i].retry_ns, now);
        /* Of one that can take no more the descriptor says nothing new. */
        if (now >= w->busy_ns && h->flying < window_of(w, h) && h->n < WINDOW &&
            (h->failures == 0 || h->retry_ns <= now))
            p[n++] = (struct pollfd){.fd = events_reader_fd(h->reader), .events = POLLIN};
    }
    *ret_ms = until ? ms_until(until) : -1;
    if (w->n > 0 && (*ret_ms < 0 || *ret_ms > REST_MS))
        *ret_ms = REST_MS;
    return n;
}

void *webhooks_run(void *arg)
{
    struct webhook_place *places = xcalloc(WEBHOOKS_MAX, sizeof(*places));
    struct pollfd *p = xcalloc(WEBHOOKS_MAX + 2, sizeof(*p));
    struct webhooks *w = arg;
    uint64_t ignored;
    bool stop = false;

    while (!stop) {
        int64_t now = mono_ns();
        struct hook *h;
        size_t n_places;
        nfds_t n;
        int ms;

        pthread_mutex_lock(&w->lock);
        land_all(w);
        stop = w->stop;
        TAILQ_FOREACH(h, &w->hooks, link)
        if (!stop)
            pump(w, h);
        n_places = list_places(w, places, stop);
        n = list_waits(w, now, p, &ms);
        pthread_mutex_unlock(&w->lock);
        keep(w, places, n_places);
        if (!stop && poll(p, n, ms) > 0 && p[0].revents)
            (void)read_some(w->wake, &ignored, sizeof(ignored));
    }
    free(places);
    free(p);
    return NULL;
}
