#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "service/events.h"
#include "store/events.h"

/* What the files of events share: events.c has the queue and the writer, event_blocks.c how events
 * are rendered, event_readers.c the blocks of the last moments and who reads them. */

/* ---- event_blocks.c ---- */

#define BLOCK_BYTES (128u << 10) /* a block with so much text takes no more */

/* A block that is not whole yet. */
struct block_maker {
    struct events_block *block;
    size_t cap;
    struct buf text, words;
};

void block_begin(struct block_maker *m);
void block_add(struct block_maker *m, const struct event_row *row);
/* One that is in another block. */
void block_copy(struct block_maker *m, const struct events_block *from, const struct event *e);
/* The block is the caller's, from first to last; m is empty. */
struct events_block *block_end(struct block_maker *m, int64_t first, int64_t last);

/* {id, topic, sandboxId, data, timestamp} */
json_t *event_row_json(const struct event_row *row);

/* ---- event_readers.c ---- */

#define RING_BLOCKS 1024
#define RING_BYTES  (4u << 20)

/* The last blocks, in order and without a gap between them. */
struct events_ring {
    pthread_mutex_t lock;
    struct events_block *blocks[RING_BLOCKS];
    unsigned at, n; /* the oldest; how many */
    size_t bytes;
    int64_t floor; /* what came behind this place is in blocks, */
    int64_t last;  /* up to this one */
};

struct events_reader {
    struct events *ev;
    char *topics, *sandbox_id;
    _Atomic int64_t place;
    _Atomic bool rung; /* fd is readable, or is about to be */
    int fd;
    bool (*tell_begin)(void *arg); /* NULL = it is woken */
    bool (*tell_end)(const char *text, size_t len, void *arg);
    void *arg;
    bool told_lost; /* what is gone behind its place; not so of a time that it asked for */
    struct events_reader *prev, *next; /* of events, under readers_lock */
};

void readers_init(struct events *ev);
void readers_done(struct events *ev);
/* Takes the block, to the ring, and wakes those who wait for something in it. */
void readers_tell(struct events *ev, struct events_block *b);
/* Nobody reads: the ring begins anew behind this place. */
void readers_skip(struct events *ev, int64_t place);

/* ---- event_shares.c ---- */

/* What is kept is the same for all sandboxes: one that makes events by itself must not push out
 * those of others. Each has EVENT_SHARE of them, and some more every second; sandboxes with the
 * same hash have one share together. */
#define EVENT_SHARES         4096
#define EVENT_SHARE          500
#define EVENT_SHARE_A_SECOND 2

struct event_shares {
    struct event_share {
        double used; /* at that time */
        int64_t at_ns;
        uint64_t lost;
    } all[EVENT_SHARES];
};

/* False when its share is used up: it is counted, and *ret_lost of the next one says how many. */
bool event_share_take(struct event_shares *s, const char *topic, const char *sandbox_id,
                      int64_t now_ns, uint64_t *ret_lost);

/* ---- events.c ---- */

/* Returns when all that was published before is written: who asks sees it. */
void events_write_out(struct events *ev);

struct pending;

struct events {
    struct event_store *store;
    uint32_t max, days;
    pthread_t thread;

    pthread_mutex_t lock; /* of the queue, down to the blank line; held for a moment only */
    pthread_cond_t work, written;
    struct pending *first, **tail;
    unsigned queued;
    int64_t given;    /* the last place that was given to an event */
    int64_t finished; /* up to this one they are written, or could not be */
    uint64_t published, lost, untold;
    int64_t wakes_ns; /* when the writer looks by itself */
    struct event_shares shares;
    bool stopping;

    /* the writer's own */
    int64_t trim_ns;
    uint64_t fresh_bytes; /* of data, written since the last trim; the writer's */
    bool failing;

    pthread_t crier; /* tells what is open */
    pthread_mutex_t open_lock;
    pthread_cond_t cry, cried;
    struct block_maker open;
    /* places: the first of the block, the last before it that nobody read, the last; 0 = none */
    int64_t open_first, open_skipped, open_last;
    bool hoarse; /* the crier is to end */

    pthread_mutex_t readers_lock; /* of the list; before ring.lock */
    struct events_reader *readers;
    _Atomic unsigned n_readers;
    struct events_ring ring;
};
