#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iii/iii_internal.h"

/* What the files of channels share: channels.c has the table and the queues, channel_socket.c the
 * ends that are connections, channel_pipe.c those that are ours.
 *
 *  1. A queue is bounded in items and in bytes. Bytes count from when they are put in until the
 *     reader's connection has taken them, or the function that reads them has.
 *  2. They are taken from the budget of streams in the name of who made the channel. A queue that
 *     is empty takes one item also without: so each moves. Of a message that is not whole a piece
 *     is kept without asking, more when there is memory for all that it may become: so none waits
 *     for memory that others hold who wait for it too.
 *  3. Nobody makes one more while he has as many as are free (share.h), unless one of his gives
 *     way: of those that nobody came to read, or to either side for a while, the oldest. Those of
 *     a connection that has gone count for nothing and give way to anybody, at once. One that is
 *     read never does.
 *  4. Each side is taken once. One that has waited is woken when it may go on, another when the
 *     channel or the other side is over. What has no room is woken when half of it is there, and a
 *     reader once for all that comes until it looks: not once an item.
 *  5. Locks: that of all channels, then that of one, then what waking takes (of a request, of the
 *     runner) and the budget's. Nothing that is woken runs in the turn of who wakes it. */

#define CHANNEL_ITEMS       64
#define CHANNEL_ITEMS_MAX   1024
#define CHANNEL_BYTES_MAX   (1u << 20) /* past it the writer waits */
#define CHANNEL_MESSAGE_MAX (1u << 20)
#define CHANNEL_ITEM_COST   64 /* bytes that one counts for beside what is in it */
#define CHANNEL_LIVES_NS    (300 * 1000000000ll) /* while one side was never taken */
#define CHANNEL_COMES_NS    (30 * 1000000000ll)  /* as clients wait for a call that takes its ref */
#define CHANNEL_STILL_NS    (1000000000ll)       /* then it does not hold up the daemon's end */
#define CHANNEL_KEY_SIZE    65
#define CHANNEL_BUCKETS     256

enum channel_side { CHANNEL_WRITER, CHANNEL_READER };

/* Who has a side. */
struct channel_holder {
    void (*wake)(struct channel_holder *h); /* under the lock of the channel */
};

struct channel_item {
    struct channel_item *next;
    size_t len;
    bool is_text;
    char data[];
};

struct iii_channel {
    struct iii_channels *all;
    struct iii_channel *next; /* in its bucket */
    bool listed;              /* under the lock of all, as is next */
    atomic_uint refs;
    char id[UUID_SIZE], key[CHANNEL_KEY_SIZE];
    struct iii_share *maker; /* a reference */
    char token_id[ID_SIZE];
    unsigned items_max;
    int64_t made_ns;

    pthread_mutex_t lock; /* of what follows */
    const char *gone;     /* why it has ended before its time; NULL = it has not */
    bool lost;            /* the writer has left without a word */
    struct channel_item *first, **last;
    unsigned items;
    int64_t moved_ns;      /* when something was put in or taken; 0 = never */
    size_t bytes, charged; /* what the budget was asked for is more, so that it is asked seldom */
    bool starved;          /* the writer waits for memory, of which nobody tells */
    struct {
        struct channel_holder *holder; /* NULL = nobody, yet or any more */
        bool taken, over, waits;
    } sides[2];
};

/* What functions are given: the channels that they make are of that maker. */
struct channel_pipes {
    struct pipes pipes;
    struct iii_channels *all;
    struct iii_share *maker; /* a reference */
    char token_id[ID_SIZE];
};

struct iii_channels {
    struct iii_hub *hub;
    struct channel_pipes pipes; /* of nobody in particular */
    pthread_mutex_t lock;       /* of what follows */
    struct iii_channel *buckets[CHANNEL_BUCKETS];
    unsigned count;
    int64_t comes_ns;  /* then one that nobody has come to may give way */
    int64_t still_ns;  /* without a move: then the daemon ends without waiting for it */
    bool looked_after; /* the work was given to the runner */

    /* Looks after all of them now and then: who never came, whose token has ended, who waits for
     * memory. */
    struct work work;
    int64_t look_ns, feed_ns; /* the work's own: not before */
    atomic_bool starved;
    atomic_size_t held;
};

/* ---- the table ---- */

/* NULL: ERR_LIMIT. Has a reference of the caller's. */
struct iii_channel *channel_make(struct iii_channels *all, unsigned items, struct iii_share *maker,
                                 const char *token_id, struct err *err);
/* With a reference; NULL when there is none, or its key is another. */
struct iii_channel *channel_find(struct iii_channels *all, const char *id, const char *key);
void channel_unref(struct iii_channel *c);
/* {channel_id, access_key, direction}. */
json_t *channel_ref_json(const struct iii_channel *c, enum channel_side side);
/* Over before its time, for both sides; why is a literal. Who has a side leaves it as ever. */
void channel_end(struct iii_channel *c, const char *why);
/* Ends those whose time is over. */
void iii_channels_sweep(struct iii_channels *all, int64_t now_ns);

/* ---- one of them ---- */

/* False when somebody has or had it. Who takes it leaves it: then the other is told. */
bool channel_claim(struct iii_channel *c, enum channel_side side, struct channel_holder *holder);
void channel_leave(struct iii_channel *c, enum channel_side side);
/* A writer that leaves without having said that it has written all of it. */
void channel_lose(struct iii_channel *c);
/* Why it is over, for who is told that it is; a literal. NULL = the other side has left. */
const char *channel_gone(struct iii_channel *c);

/* Of the writer. 1 = there is room for an item, 0 = not now, it will be woken; -1 = nobody will
 * read it. for_reader: also not while there is no reader yet. */
int channel_room(struct iii_channel *c, bool for_reader);
/* Only after that said 1. */
void channel_put(struct iii_channel *c, bool is_text, const void *data, size_t len);
/* Memory for a long message that is yet to come. False: it will be woken. */
bool channel_reserve(struct iii_channel *c, size_t len);
void channel_unreserve(struct iii_channel *c, size_t len);

/* Of the reader. 1 = the next item, the caller's to free; 0 = none now, it will be woken; -1 =
 * there will be none any more. */
int channel_get(struct iii_channel *c, struct channel_item **ret);
/* Then: was it all that there was to be? */
bool channel_is_whole(struct iii_channel *c);
/* The bytes of an item, of which none is kept any more. */
void channel_taken(struct iii_channel *c, size_t len);

/* Until when a daemon that is about to end lets it go on, unless something moves. */
int64_t channel_moves_until(struct iii_channel *c);

/* ---- ends of our own ---- */

/* maker NULL = nobody in particular. */
void channel_pipes_init(struct channel_pipes *p, struct iii_channels *all,
                        const struct iii_asker *maker);
