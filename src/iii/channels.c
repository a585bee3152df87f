#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/callers.h"
#include "iii/channels_internal.h"

#define CHARGE        (256u << 10)     /* bytes that the budget is asked for at once */
#define FEED_AGAIN_NS (50 * 1000000ll) /* between looks whether there is memory again */

static struct budget *budget_of(const struct iii_channel *c)
{
    return c->all->hub->config.streams;
}

/* ---- the queue; under the lock of its channel ---- */

static size_t cost(size_t len)
{
    return len + CHANNEL_ITEM_COST;
}

static bool is_over(const struct iii_channel *c, enum channel_side side)
{
    return c->gone || c->sides[side].over;
}

static void wake(struct iii_channel *c, enum channel_side side)
{
    c->sides[side].waits = false;
    if (c->sides[side].holder)
        c->sides[side].holder->wake(c->sides[side].holder);
}

static bool charge(struct iii_channel *c, size_t want)
{
    size_t more;

    if (want <= c->charged)
        return true;
    more = want - c->charged > CHARGE ? want - c->charged : CHARGE;
    if (!budget_take_share(budget_of(c), c->maker->who, more))
        return false;
    c->charged += more;
    return true;
}

/* What is there has memory, and a little more, so that the budget is not asked for each item. */
static void discharge(struct iii_channel *c)
{
    size_t keep = c->bytes ? c->bytes + CHARGE : 0;

    if (c->charged <= keep)
        return;
    budget_give_share(budget_of(c), c->maker->who, c->charged - keep);
    c->charged = keep;
}

static void settle(struct iii_channel *c, size_t bytes)
{
    c->bytes -= bytes;
    (void)atomic_fetch_sub(&c->all->held, bytes);
    discharge(c);
}

static void drop_items(struct iii_channel *c)
{
    struct channel_item *i = c->first;

    c->first = NULL;
    c->last = &c->first;
    c->items = 0;
    for (struct channel_item *next; i; i = next) {
        next = i->next;
        settle(c, cost(i->len));
        free(i);
    }
}

/* Nobody tells when there is memory again, so who looks after all of them asks now and then. */
static void starve(struct iii_channel *c)
{
    struct iii_channels *all = c->all;

    c->starved = c->sides[CHANNEL_WRITER].waits = true;
    if (!atomic_exchange(&all->starved, true))
        runner_wake(all->hub->runner, &all->work);
}

static bool has_room(const struct iii_channel *c, unsigned of)
{
    return c->items <= (c->items_max - 1) / of && c->bytes <= (CHANNEL_BYTES_MAX - 1) / of;
}

static void wake_writer_if_room(struct iii_channel *c)
{
    if (c->sides[CHANNEL_WRITER].waits && has_room(c, 2))
        wake(c, CHANNEL_WRITER);
}

/* ---- what ends do with it ---- */

int channel_room(struct iii_channel *c, bool for_reader)
{
    int r = 0;

    (void)pthread_mutex_lock(&c->lock);
    if (is_over(c, CHANNEL_READER))
        r = -1;
    else if (!has_room(c, 1) || (for_reader && !c->sides[CHANNEL_READER].taken))
        c->sides[CHANNEL_WRITER].waits = true;
    else if (c->bytes == 0 || charge(c, c->bytes + cost(PIPE_PIECE)))
        r = 1;
    else
        starve(c);
    (void)pthread_mutex_unlock(&c->lock);
    return r;
}

void channel_put(struct iii_channel *c, bool is_text, const void *data, size_t len)
{
    struct channel_item *i = xmalloc(sizeof(*i) + len);
    bool dropped;

    i->next = NULL;
    i->len = len;
    i->is_text = is_text;
    memcpy(i->data, data, len);
    (void)pthread_mutex_lock(&c->lock);
    dropped = is_over(c, CHANNEL_READER);
    if (!dropped) {
        *c->last = i;
        c->last = &i->next;
        c->items++;
        c->moved_ns = mono_ns();
        c->bytes += cost(len);
        (void)atomic_fetch_add(&c->all->held, cost(len));
        if (c->bytes > c->charged) {
            budget_add_share(budget_of(c), c->maker->who, c->bytes - c->charged);
            c->charged = c->bytes;
        }
        if (c->sides[CHANNEL_READER].waits)
            wake(c, CHANNEL_READER);
    }
    (void)pthread_mutex_unlock(&c->lock);
    if (dropped)
        free(i);
}

bool channel_reserve(struct iii_channel *c, size_t len)
{
    bool room = budget_take_share(budget_of(c), c->maker->who, len);

    if (room)
        return true;
    (void)pthread_mutex_lock(&c->lock);
    starve(c);
    (void)pthread_mutex_unlock(&c->lock);
    return false;
}

void channel_unreserve(struct iii_channel *c, size_t len)
{
    budget_give_share(budget_of(c), c->maker->who, len);
}

int channel_get(struct iii_channel *c, struct channel_item **ret)
{
    struct channel_item *i;
    int r = 1;

    (void)pthread_mutex_lock(&c->lock);
    i = c->first;
    if (i) {
        c->first = i->next;
        if (!c->first)
            c->last = &c->first;
        c->items--;
        wake_writer_if_room(c);
        *ret = i;
    } else if (is_over(c, CHANNEL_WRITER)) {
        r = -1;
    } else {
        c->sides[CHANNEL_READER].waits = true;
        r = 0;
    }
    (void)pthread_mutex_unlock(&c->lock);
    return r;
}

void channel_taken(struct iii_channel *c, size_t len)
{
    (void)pthread_mutex_lock(&c->lock);
    settle(c, cost(len));
    c->moved_ns = mono_ns();
    wake_writer_if_room(c);
    (void)pthread_mutex_unlock(&c->lock);
}

int64_t channel_moves_until(struct iii_channel *c)
{
    int64_t until;

    (void)pthread_mutex_lock(&c->lock);
    until = c->moved_ns ? c->moved_ns + c->all->still_ns : 0;
    (void)pthread_mutex_unlock(&c->lock);
    return until;
}

const char *channel_gone(struct iii_channel *c)
{
    const char *why;

    (void)pthread_mutex_lock(&c->lock);
    why = c->gone;
    (void)pthread_mutex_unlock(&c->lock);
    return why;
}

/* ---- life ---- */

static void channel_free(struct iii_channel *c)
{
    drop_items(c);
    discharge(c);
    iii_share_unref(c->maker);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
}

void channel_unref(struct iii_channel *c)
{
    if (c && atomic_fetch_sub(&c->refs, 1) == 1)
        channel_free(c);
}

/* Under the lock of all. */
static struct iii_channel **bucket(struct iii_channels *all, const char *id)
{
    return &all->buckets[str_hash(id) % CHANNEL_BUCKETS];
}

/* Under the lock of all: it is found no more, and the table's reference is the caller's. False when
 * that was done. */
static bool delist(struct iii_channel *c)
{
    struct iii_channel **at = bucket(c->all, c->id);

    if (!c->listed)
        return false;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    c->listed = false;
    c->all->count--;
    c->maker->channels--;
    return true;
}

/* How many references that leaves to the caller: none or one. */
static unsigned forget(struct iii_channel *c)
{
    bool was;

    (void)pthread_mutex_lock(&c->all->lock);
    was = delist(c);
    (void)pthread_mutex_unlock(&c->all->lock);
    return was;
}

bool channel_claim(struct iii_channel *c, enum channel_side side, struct channel_holder *holder)
{
    bool free_yet;

    (void)pthread_mutex_lock(&c->lock);
    free_yet = !c->sides[side].taken && !c->gone;
    if (free_yet) {
        c->sides[side].taken = true;
        c->sides[side].holder = holder;
        (void)atomic_fetch_add(&c->refs, 1);
        if (c->sides[!side].waits && side == CHANNEL_READER)
            wake(c, CHANNEL_WRITER); /* it may have waited for somebody who reads */
    }
    (void)pthread_mutex_unlock(&c->lock);
    return free_yet;
}

void channel_leave(struct iii_channel *c, enum channel_side side)
{
    unsigned refs = 1;
    bool done;

    (void)pthread_mutex_lock(&c->lock);
    c->sides[side].over = true;
    c->sides[side].holder = NULL;
    if (side == CHANNEL_READER)
        drop_items(c);
    wake(c, !side);
    /* A writer who has not come yet need not come any more. */
    done = c->sides[CHANNEL_READER].over && !c->sides[CHANNEL_WRITER].holder;
    (void)pthread_mutex_unlock(&c->lock);
    refs += done ? forget(c) : 0;
    if (atomic_fetch_sub(&c->refs, refs) == refs)
        channel_free(c);
}

void channel_lose(struct iii_channel *c)
{
    (void)pthread_mutex_lock(&c->lock);
    c->lost = true;
    (void)pthread_mutex_unlock(&c->lock);
    channel_leave(c, CHANNEL_WRITER);
}

bool channel_is_whole(struct iii_channel *c)
{
    bool whole;

    (void)pthread_mutex_lock(&c->lock);
    whole = !c->gone && !c->lost;
    (void)pthread_mutex_unlock(&c->lock);
    return whole;
}

static void end_channel(struct iii_channel *c, const char *why)
{
    (void)pthread_mutex_lock(&c->lock);
    c->gone = why;
    drop_items(c);
    wake(c, CHANNEL_WRITER);
    wake(c, CHANNEL_READER);
    (void)pthread_mutex_unlock(&c->lock);
}

void channel_end(struct iii_channel *c, const char *why)
{
    end_channel(c, why);
    if (forget(c))
        channel_unref(c);
}

/* ---- looking after all of them ---- */

/* Why it has to end; NULL = it has not. */
static const char *why_over(struct iii_channel *c, int64_t now_ns)
{
    const struct iii_config *config = &c->all->hub->config;
    bool both;

    if (config->services && !caller_token_live(config->services, c->token_id))
        return "the token of who made it was revoked or has expired";
    if (now_ns < c->made_ns + CHANNEL_LIVES_NS)
        return NULL;
    (void)pthread_mutex_lock(&c->lock);
    both = c->sides[CHANNEL_WRITER].taken && c->sides[CHANNEL_READER].taken;
    (void)pthread_mutex_unlock(&c->lock);
    return both ? NULL : "nobody came for its other end";
}

/* Each is ended outside the lock of all, since that may free it. */
void iii_channels_sweep(struct iii_channels *all, int64_t now_ns)
{
    struct iii_channel *over = NULL;

    (void)pthread_mutex_lock(&all->lock);
    for (unsigned i = 0; i < CHANNEL_BUCKETS; i++)
        for (struct iii_channel *c = all->buckets[i], *next; c; c = next) {
            const char *why = why_over(c, now_ns);

            next = c->next;
            if (!why)
                continue;
            end_channel(c, why);
            (void)delist(c);
            c->next = over;
            over = c;
        }
    (void)pthread_mutex_unlock(&all->lock);
    for (struct iii_channel *next; over; over = next) {
        next = over->next;
        channel_unref(over);
    }
}

static void feed_starved(struct iii_channels *all)
{
    (void)pthread_mutex_lock(&all->lock);
    for (unsigned i = 0; i < CHANNEL_BUCKETS; i++)
        for (struct iii_channel *c = all->buckets[i]; c; c = c->next) {
            (void)pthread_mutex_lock(&c->lock);
            if (c->starved)
                wake(c, CHANNEL_WRITER);
            c->starved = false;
            (void)pthread_mutex_unlock(&c->lock);
        }
    (void)pthread_mutex_unlock(&all->lock);
}

static void look_after(struct work *w)
{
    struct iii_channels *all =
        (struct iii_channels *)((char *)w - offsetof(struct iii_channels, work));
    struct runner *runner = all->hub->runner;
    int64_t now = mono_ns(), until;

    if (runner_stops(runner))
        return;
    if (now >= all->look_ns) {
        all->look_ns = now + CALLER_LIVE_NS;
        iii_channels_sweep(all, now);
    }
    if (now >= all->feed_ns && atomic_exchange(&all->starved, false)) {
        all->feed_ns = now + FEED_AGAIN_NS;
        feed_starved(all);
    }
    until = iii_channels_count(all) > 0 ? all->look_ns : 0;
    if (atomic_load(&all->starved) && (!until || all->feed_ns < until))
        until = all->feed_ns;
    runner_wait(runner, w, -1, 0, until);
}

/* ---- new ones ---- */

static void key_new(char ret[CHANNEL_KEY_SIZE])
{
    unsigned char b[(CHANNEL_KEY_SIZE - 1) / 2];

    if (getrandom(b, sizeof(b), 0) != sizeof(b))
        abort();
    for (size_t i = 0; i < sizeof(b); i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", b[i]);
}

/* Under the lock of all, as what follows: may it have one more? */
static bool has_share(const struct iii_channels *all, const struct iii_share *maker)
{
    return all->count < III_CHANNELS_MAX && maker->channels < III_CHANNELS_MAX - all->count;
}

/* One that nobody reads has a writer, and it may be ours: files that are read come with such a one
 * also when they are short enough to be in the answer itself, and then many a client never looks at
 * it. To one that nobody has either side of somebody may still be on his way. */
static bool may_give_way(struct iii_channel *c, const struct iii_share *to, int64_t now_ns)
{
    bool gone = atomic_load(&c->maker->gone), written, read;

    if (!gone && c->maker != to)
        return false;
    (void)pthread_mutex_lock(&c->lock);
    written = c->sides[CHANNEL_WRITER].taken;
    read = c->sides[CHANNEL_READER].taken;
    (void)pthread_mutex_unlock(&c->lock);
    return !read && (written || gone || now_ns >= c->made_ns + c->all->comes_ns);
}

static void keep_older(struct iii_channel **oldest, struct iii_channel *c)
{
    if (!*oldest || c->made_ns < (*oldest)->made_ns)
        *oldest = c;
}

/* Channels that may be ended so that a maker can make one more. */
struct yielding {
    struct iii_channel *gone; /* the oldest whose maker has gone, or NULL */
    struct iii_channel *own;  /* the oldest of that maker, or NULL */
    unsigned n_gone;
};

static struct yielding who_gives_way(struct iii_channels *all, const struct iii_share *to)
{
    struct yielding y = {0};
    int64_t now = mono_ns();

    for (unsigned i = 0; i < CHANNEL_BUCKETS; i++)
        for (struct iii_channel *c = all->buckets[i]; c; c = c->next) {
            if (!may_give_way(c, to, now))
                continue;
            if (atomic_load(&c->maker->gone)) {
                keep_older(&y.gone, c);
                y.n_gone++;
            } else {
                keep_older(&y.own, c);
            }
        }
    return y;
}

/* True when the maker may have one more if the n_gone channels of makers that have gone ended. */
static bool would_have_share(const struct iii_channels *all, const struct iii_share *maker,
                             unsigned n_gone)
{
    unsigned held = all->count - n_gone;

    return held < III_CHANNELS_MAX && maker->channels < III_CHANNELS_MAX - held;
}

/* The one that goes for one more of the maker's; NULL = none. */
static struct iii_channel *make_way(struct iii_channels *all, const struct iii_share *to)
{
    struct yielding y = who_gives_way(all, to);

    return y.gone && would_have_share(all, to, y.n_gone) ? y.gone : y.own;
}

/* Takes the reference. */
static bool enlist(struct iii_channel *c)
{
    struct iii_channels *all = c->all;
    struct iii_channel **at = bucket(all, c->id), *old = NULL;
    bool room;

    (void)pthread_mutex_lock(&all->lock);
    room = has_share(all, c->maker);
    if (!room)
        old = make_way(all, c->maker);
    if (old) {
        end_channel(old, "nobody came to read it, and there are many");
        room = delist(old);
    }
    if (room) {
        c->listed = true;
        c->next = *at;
        *at = c;
        all->count++;
        c->maker->channels++;
        if (!all->looked_after)
            runner_add(all->hub->runner, &all->work);
        else if (all->count == 1)
            runner_wake(all->hub->runner, &all->work);
        all->looked_after = true;
    }
    (void)pthread_mutex_unlock(&all->lock);
    if (old)
        channel_unref(old);
    return room;
}

struct iii_channel *channel_make(struct iii_channels *all, unsigned items, struct iii_share *maker,
                                 const char *token_id, struct err *err)
{
    struct iii_channel *c = xcalloc(1, sizeof(*c));

    c->all = all;
    c->last = &c->first;
    c->made_ns = mono_ns();
    c->items_max = items == 0                  ? CHANNEL_ITEMS
                   : items > CHANNEL_ITEMS_MAX ? CHANNEL_ITEMS_MAX
                                               : items;
    iii_uuid_new(c->id);
    key_new(c->key);
    c->maker = iii_share_ref(maker);
    (void)snprintf(c->token_id, sizeof(c->token_id), "%s", token_id);
    (void)pthread_mutex_init(&c->lock, NULL);
    atomic_init(&c->refs, 2); /* the table's, and the caller's */
    if (enlist(c))
        return c;
    channel_free(c);
    (void)err_code(err, ERR_LIMIT, "too_many_channels",
                   "this client has its share of the %d channels that may be open: connect to both "
                   "ends of those that it made, or close them, and try again; one that nobody "
                   "connects to gives way after %d seconds",
                   III_CHANNELS_MAX, (int)(CHANNEL_COMES_NS / 1000000000));
    return NULL;
}

/* Under the lock. */
static struct iii_channel *find(struct iii_channels *all, const char *id)
{
    struct iii_channel *c = *bucket(all, id);

    while (c && strcmp(c->id, id) != 0)
        c = c->next;
    return c;
}

struct iii_channel *channel_find(struct iii_channels *all, const char *id, const char *key)
{
    struct iii_channel *c;

    (void)pthread_mutex_lock(&all->lock);
    c = find(all, id);
    if (c && !str_equal_secret(c->key, key))
        c = NULL;
    if (c)
        (void)atomic_fetch_add(&c->refs, 1);
    (void)pthread_mutex_unlock(&all->lock);
    return c;
}

json_t *channel_ref_json(const struct iii_channel *c, enum channel_side side)
{
    return json_pack("{s:s, s:s, s:s}", "channel_id", c->id, "access_key", c->key, "direction",
                     side == CHANNEL_WRITER ? "write" : "read");
}

json_t *iii_channel_new(struct iii_channels *all, unsigned items, const struct iii_asker *maker,
                        struct err *err)
{
    struct iii_channel *c = channel_make(all, items, maker->share, maker->caller.token_id, err);
    json_t *refs;

    if (!c)
        return NULL;
    refs = json_pack("{s:o, s:o}", "writer", channel_ref_json(c, CHANNEL_WRITER), "reader",
                     channel_ref_json(c, CHANNEL_READER));
    channel_unref(c);
    return refs;
}

/* ---- all of them ---- */

struct iii_channels *iii_channels_new(struct iii_hub *hub)
{
    struct iii_channels *all = xcalloc(1, sizeof(*all));

    all->hub = hub;
    all->work.run = look_after;
    all->comes_ns = CHANNEL_COMES_NS;
    all->still_ns = CHANNEL_STILL_NS;
    (void)pthread_mutex_init(&all->lock, NULL);
    channel_pipes_init(&all->pipes, all, NULL);
    return all;
}

void iii_channels_free(struct iii_channels *all)
{
    if (!all)
        return;
    for (unsigned i = 0; i < CHANNEL_BUCKETS; i++)
        for (struct iii_channel *c = all->buckets[i], *next; c; c = next) {
            next = c->next;
            channel_unref(c);
        }
    iii_share_unref(all->pipes.maker);
    (void)pthread_mutex_destroy(&all->lock);
    free(all);
}

struct pipes *iii_channel_pipes(struct iii_channels *all)
{
    return &all->pipes.pipes;
}

struct pipes *iii_channel_pipes_new(struct iii_channels *all, const struct iii_asker *maker)
{
    struct channel_pipes *p = xmalloc(sizeof(*p));

    channel_pipes_init(p, all, maker);
    return &p->pipes;
}

void iii_channel_pipes_free(struct pipes *pipes)
{
    struct channel_pipes *p = (struct channel_pipes *)pipes;

    if (!p)
        return;
    iii_share_unref(p->maker);
    free(p);
}

size_t iii_channels_held(struct iii_channels *all)
{
    return atomic_load(&all->held);
}

unsigned iii_channels_count(struct iii_channels *all)
{
    unsigned n;

    (void)pthread_mutex_lock(&all->lock);
    n = all->count;
    (void)pthread_mutex_unlock(&all->lock);
    return n;
}
