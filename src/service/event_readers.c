#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/event.h"
#include "service/events_internal.h"

#define PAGE_EVENTS 128 /* that one who is behind reads from the store at once */
#define TOLD_BYTES                                                                                 \
    (16u << 10) /* what is longer is taken by who reads, when there is memory for it */

void readers_init(struct events *ev)
{
    (void)pthread_mutex_init(&ev->readers_lock, NULL);
    (void)pthread_mutex_init(&ev->ring.lock, NULL);
    ev->ring.floor = ev->ring.last = event_store_last(ev->store);
}

static struct events_block *ring_drop(struct events_ring *ring)
{
    struct events_block *b = ring->blocks[ring->at];

    ring->at = (ring->at + 1) % RING_BLOCKS;
    ring->n--;
    ring->bytes -= b->len;
    ring->floor = b->last;
    return b;
}

void readers_done(struct events *ev)
{
    while (ev->ring.n > 0)
        events_block_unref(ring_drop(&ev->ring));
    (void)pthread_mutex_destroy(&ev->ring.lock);
    (void)pthread_mutex_destroy(&ev->readers_lock);
}

/* ---- the writer's side ---- */

static bool wants(const struct events_reader *r, const struct event *e)
{
    return (!r->sandbox_id || strcmp(r->sandbox_id, e->sandbox_id) == 0) &&
           topics_match(r->topics, e->topic);
}

static bool wants_any(const struct events_reader *r, const struct events_block *b)
{
    if (!r->topics && !r->sandbox_id)
        return true;
    for (size_t i = 0; i < b->n; i++)
        if (wants(r, &b->events[i]))
            return true;
    return false;
}

static void ring_bell(struct events_reader *r)
{
    uint64_t one = 1;

    if (!atomic_exchange(&r->rung, true))
        (void)!write(r->fd, &one, sizeof(one));
}

static void ring_push(struct events_ring *ring, struct events_block *b)
{
    struct events_block *old = NULL;

    do {
        (void)pthread_mutex_lock(&ring->lock);
        old = ring->n == RING_BLOCKS || (ring->n > 0 && ring->bytes + b->len > RING_BYTES)
                  ? ring_drop(ring)
                  : NULL;
        if (!old) {
            ring->blocks[(ring->at + ring->n++) % RING_BLOCKS] = b;
            ring->bytes += b->len;
            ring->last = b->last;
        }
        (void)pthread_mutex_unlock(&ring->lock);
        events_block_unref(old);
    } while (old);
}

/* What this reader wants of it; takes the reference. NULL when it wants nothing. */
static struct events_block *select_from(const struct events_reader *r, struct events_block *b,
                                        int64_t place)
{
    struct block_maker m = {0};
    int64_t first = b->first, last = b->last;

    if (!r->topics && !r->sandbox_id && b->first > place)
        return b;
    for (size_t i = 0; i < b->n; i++) {
        if (b->events[i].seq <= place || !wants(r, &b->events[i]))
            continue;
        if (!m.block)
            block_begin(&m);
        block_copy(&m, b, &b->events[i]);
    }
    events_block_unref(b);
    return m.block ? block_end(&m, first, last) : NULL;
}

/* What it wants of it, when it waits and has all before. False = it is to be woken. */
static bool tell_now(struct events_reader *r, struct events_block *b, int64_t before)
{
    struct events_block *its;
    bool told;

    if (b->len > TOLD_BYTES || !r->tell_begin || !r->tell_begin(r->arg))
        return false;
    if (atomic_load(&r->rung) || atomic_load(&r->place) != before) {
        (void)r->tell_end(NULL, 0, r->arg);
        return false;
    }
    (void)atomic_fetch_add(&b->refs, 1);
    its = select_from(r, b, before);
    atomic_store(&r->place, b->last);
    told = r->tell_end(its ? its->text : NULL, its ? its->len : 0, r->arg);
    events_block_unref(its);
    return told;
}

/* Who is at the end and wants nothing of it is moved on, and sleeps on. */
static void tell_reader(struct events_reader *r, struct events_block *b, int64_t before)
{
    int64_t place = before;

    if (!wants_any(r, b) && atomic_compare_exchange_strong(&r->place, &place, b->last))
        return;
    if (!tell_now(r, b, before))
        ring_bell(r);
}

void readers_tell(struct events *ev, struct events_block *b)
{
    int64_t before = ev->ring.last; /* only this thread changes it */

    (void)atomic_fetch_add(&b->refs, 1);
    ring_push(&ev->ring, b);
    (void)pthread_mutex_lock(&ev->readers_lock);
    for (struct events_reader *r = ev->readers; r; r = r->next)
        tell_reader(r, b, before);
    (void)pthread_mutex_unlock(&ev->readers_lock);
    events_block_unref(b);
}

void readers_skip(struct events *ev, int64_t place)
{
    (void)pthread_mutex_lock(&ev->ring.lock);
    while (ev->ring.n > 0)
        events_block_unref(ring_drop(&ev->ring));
    ev->ring.floor = ev->ring.last = place;
    (void)pthread_mutex_unlock(&ev->ring.lock);
    (void)pthread_mutex_lock(&ev->readers_lock);
    for (struct events_reader *r = ev->readers; r; r = r->next)
        ring_bell(r); /* it came this moment */
    (void)pthread_mutex_unlock(&ev->readers_lock);
}

/* ---- the reader's side ---- */

/* What waits to be written has happened before one who wants what happens from now on. */
static int64_t last_given(struct events *ev)
{
    int64_t given;

    (void)pthread_mutex_lock(&ev->lock);
    given = ev->given;
    (void)pthread_mutex_unlock(&ev->lock);
    return given;
}

static int64_t place_of(struct events *ev, const struct events_from *from)
{
    int64_t last = event_store_last(ev->store), place;

    if (!from->after && !from->since_ms)
        return last_given(ev);
    place = from->after ? from->after : EVENT_SEQ_OF_MS(from->since_ms) - 1;
    return place < last ? place : last;
}

int events_subscribe(struct events *ev, const struct events_from *from, struct events_reader **ret,
                     struct err *err)
{
    struct events_reader *r;
    int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);

    if (fd < 0)
        return err_code(err, ERR_UNAVAILABLE, "busy",
                        "the daemon has no descriptor left to wait with (%s); try again later",
                        strerror(errno));
    if (atomic_fetch_add(&ev->n_readers, 1) >= EVENTS_READERS_MAX) {
        (void)atomic_fetch_sub(&ev->n_readers, 1);
        close_fd(&fd);
        return err_code(err, ERR_LIMIT, "too_many_streams",
                        "%d readers of events are open, which is as many as there may be",
                        EVENTS_READERS_MAX);
    }
    if (from->after || from->since_ms)
        events_write_out(ev);
    r = xcalloc(1, sizeof(*r));
    *r = (struct events_reader){.ev = ev, .fd = fd, .told_lost = from->after || !from->since_ms};
    r->topics = from->topics ? xstrdup(from->topics) : NULL;
    r->sandbox_id = from->sandbox_id ? xstrdup(from->sandbox_id) : NULL;
    r->tell_begin = from->tell_begin;
    r->tell_end = from->tell_end;
    r->arg = from->arg;
    atomic_init(&r->rung, true);
    (void)pthread_mutex_lock(&ev->readers_lock);
    atomic_init(&r->place, place_of(ev, from));
    r->next = ev->readers;
    if (r->next)
        r->next->prev = r;
    ev->readers = r;
    (void)pthread_mutex_unlock(&ev->readers_lock);
    *ret = r;
    return 0;
}

void events_unsubscribe(struct events_reader *r)
{
    struct events *ev;

    if (!r)
        return;
    ev = r->ev;
    (void)pthread_mutex_lock(&ev->readers_lock);
    if (r->prev)
        r->prev->next = r->next;
    else
        ev->readers = r->next;
    if (r->next)
        r->next->prev = r->prev;
    (void)pthread_mutex_unlock(&ev->readers_lock);
    (void)atomic_fetch_sub(&ev->n_readers, 1);
    close_fd(&r->fd);
    free(r->topics);
    free(r->sandbox_id);
    free(r);
}

int events_reader_fd(const struct events_reader *r)
{
    return r->fd;
}

int64_t events_reader_place(const struct events_reader *r)
{
    return atomic_load(&r->place);
}

/* Before it looks: what comes from here on rings again. */
static void hush(struct events_reader *r)
{
    uint64_t count;

    if (!atomic_load(&r->rung))
        return;
    (void)!read(r->fd, &count, sizeof(count));
    atomic_store(&r->rung, false);
}

/* The block that goes on behind the place, with a reference; NULL when there is none. *ret_behind:
 * it has left the ring. */
static struct events_block *ring_next(struct events_ring *ring, int64_t place, bool *ret_behind)
{
    struct events_block *b = NULL;
    unsigned low = 0, high;

    (void)pthread_mutex_lock(&ring->lock);
    *ret_behind = place < ring->floor;
    high = ring->n;
    while (low < high && !*ret_behind) {
        unsigned mid = (low + high) / 2;

        if (ring->blocks[(ring->at + mid) % RING_BLOCKS]->last > place)
            high = mid;
        else
            low = mid + 1;
    }
    if (!*ret_behind && low < ring->n) {
        b = ring->blocks[(ring->at + low) % RING_BLOCKS];
        (void)atomic_fetch_add(&b->refs, 1);
    }
    (void)pthread_mutex_unlock(&ring->lock);
    return b;
}

/* ---- one who is behind ---- */

struct page {
    const struct events_reader *reader;
    struct block_maker maker;
    unsigned n;
    int64_t last;
};

static void add_to_page(const struct event_row *row, void *arg)
{
    struct page *p = arg;
    const struct event e = {.topic = row->topic, .sandbox_id = row->sandbox_id};

    /* What is too much for this page is read again for the next. */
    if (p->maker.block && p->maker.text.len >= BLOCK_BYTES)
        return;
    p->n++;
    p->last = row->seq;
    if (!wants(p->reader, &e))
        return;
    if (!p->maker.block)
        block_begin(&p->maker);
    block_add(&p->maker, row);
}

/* What was removed behind its place is told as one event, whose id is the last of what is gone. */
static struct events_block *tell_lost(struct events_reader *r, int64_t place, int64_t floor)
{
    char from[ID_SIZE], to[ID_SIZE], data[2 * ID_SIZE + 32];
    struct event_row row = {
        .seq = floor, .time_ms = now_ms(), .topic = EVENTS_LOST, .sandbox_id = "", .data = data};
    struct block_maker m;

    event_id(from, place, 0);
    event_id(to, floor, 0);
    row.data_len =
        (size_t)snprintf(data, sizeof(data), "{\"from\":\"%s\",\"to\":\"%s\"}", from, to);
    block_begin(&m);
    block_add(&m, &row);
    atomic_store(&r->place, floor);
    return block_end(&m, floor, floor);
}

static int read_page(struct events_reader *r, int64_t place, struct events_block **ret,
                     struct err *err)
{
    struct page page = {.reader = r, .last = place};
    int64_t floor = event_store_floor(r->ev->store);

    if (place < floor && r->told_lost) {
        *ret = tell_lost(r, place, floor);
        return 0;
    }
    r->told_lost = true; /* from here on nothing may be missing */
    if (event_store_after(r->ev->store, place, PAGE_EVENTS, add_to_page, &page, err) < 0) {
        if (page.maker.block)
            events_block_unref(block_end(&page.maker, place, place));
        return -1;
    }
    atomic_store(&r->place, page.last);
    *ret = page.maker.block ? block_end(&page.maker, place + 1, page.last) : NULL;
    return 0;
}

/* One step: a block of the ring, or a page of the store. */
int events_take(struct events_reader *r, struct events_block **ret, bool *ret_more, struct err *err)
{
    struct events_ring *ring = &r->ev->ring;
    struct events_block *b;
    int64_t place;
    bool behind;

    *ret = NULL;
    hush(r);
    place = atomic_load(&r->place);
    b = ring_next(ring, place, &behind);
    if (b) {
        int64_t last = b->last;

        *ret = select_from(r, b, place);
        atomic_store(&r->place, last);
    } else if (behind && read_page(r, place, ret, err) < 0) {
        return -1;
    }
    (void)pthread_mutex_lock(&ring->lock);
    /* Nothing more is kept below the ring: what is missing there could not be written. */
    if (behind && atomic_load(&r->place) == place)
        atomic_store(&r->place, ring->floor);
    *ret_more = atomic_load(&r->place) < ring->last;
    (void)pthread_mutex_unlock(&ring->lock);
    return 0;
}
