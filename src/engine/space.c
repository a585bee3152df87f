#include "engine/space_internal.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/health.h"
#include "engine/news_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/threads_internal.h"
#include "engine/turn_internal.h"
#include "engine/volumes_internal.h"
#include "engine/writer_internal.h"
#include "model/sandbox.h"
#include "runtime/runtime.h"

/* What a sandbox wrote goes from its own filesystem's memory to the file on the host; the host's
 * free space falls only then. What is in between is a debt: used - backed of each disk, and in sum
 * never more than all that the machine has not written yet. Room to spare is what is free, without
 * the reserve and the debts. */

#define MIB ((uint64_t)1 << 20)

#define RESERVE_MIN (64 * MIB) /* unless the operator says otherwise: a fiftieth within these */
#define RESERVE_MAX (1024 * MIB)

/* Writers are paused when less than this is to spare. */
#define LOW_MIN    (64 * MIB)
#define LOW_WRITER (16 * MIB) /* and for each of them */
#define LOW_MAX    (512 * MIB)

/* While there is more to spare than the machine can hold unwritten, and this, nobody needs a lease.
 */
#define COMFORT (256 * MIB)

#define LEASE_MIN  (8 * MIB)
#define LEASE_LOW  (2 * MIB) /* at most, for those that are not paused since they do not write */
#define LEASE_STEP (4 * MIB) /* a lease that has changed by less stays */

#define WRITES (256u << 10) /* who takes as much between two looks writes */
#define WRITES_LOW                                                                                 \
    (1u << 20)                 /* as does who takes as much while the disk is low, however slowly  \
                                */
#define WRITER_NS 500000000ll  /* and is a writer for so long */
#define RATE      (4096 * MIB) /* bytes a second that all together may write */
#define LOOK_MIN  5000000ll    /* ns */
#define LOOK_BUSY 200000000ll  /* at most, while leases are out */
#define LOOK_CALM 5000000000ll /* at most */

struct space {
    pthread_mutex_t lock;
    pthread_cond_t tick;
    bool stop, running;
    pthread_t thread;
    atomic_ullong promised; /* bytes: the sum of the disks' sizes */
    atomic_ullong debt;     /* bytes, at the last look; 0 while there is much room */
    atomic_bool low;        /* writers are paused, and no sandbox goes on */
    bool leases_out;        /* the thread's own */
};

struct space *space_new(void)
{
    struct space *s = xcalloc(1, sizeof(*s));

    pthread_mutex_init(&s->lock, NULL);
    cond_init_monotonic(&s->tick);
    return s;
}

void space_free(struct space *s)
{
    if (!s)
        return;
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->tick);
    free(s);
}

/* ---- promises ---- */

static uint64_t reserve_of(const struct engine *e, const struct host_room *h)
{
    uint64_t part = h->total / 50;

    if (e->config.disk_reserve_mb)
        return e->config.disk_reserve_mb * MIB;
    return part < RESERVE_MIN ? RESERVE_MIN : part > RESERVE_MAX ? RESERVE_MAX : part;
}

/* Negative: the reserve is being used. */
static int64_t spare_of(const struct engine *e, const struct host_room *h)
{
    return (int64_t)h->free - (int64_t)reserve_of(e, h);
}

/* What is free and not owed to a disk, as of the last look. */
static int room_of(struct engine *e, struct host_room *ret)
{
    uint64_t debt = atomic_load(&e->space->debt);

    if (runtime_room(e->runtime, ret, NULL) < 0)
        return -1;
    ret->free -= debt < ret->free ? debt : ret->free;
    return 0;
}

static bool any(struct sandbox *sb, const void *arg)
{
    (void)sb;
    (void)arg;
    return true;
}

/* What disks and volumes already take of what they were promised. */
static uint64_t given(struct engine *e)
{
    size_t n;
    auto_free struct sandbox **all = roster_select(e, any, NULL, 0, SIZE_MAX, &n, NULL);
    uint64_t bytes = volumes_backed(e);

    for (size_t i = 0; i < n; i++) {
        uint64_t max = all[i]->spec.limits.disk_mb * MIB;
        uint64_t has = runtime_disk_bytes(e->runtime, &all[i]->box);

        bytes += has < max ? has : max;
        sandbox_unref(all[i]);
    }
    return bytes;
}

/* For want of what is free, whoever was promised some of it. */
static int refuse_size(struct engine *e, const struct host_room *h, uint32_t disk_mb,
                       struct err *err)
{
    bool low = atomic_load(&e->space->low) || spare_of(e, h) < (int64_t)(DISK_MB_MIN * MIB);

    return err_code(err, ERR_UNAVAILABLE, "no_space",
                    "no room for a disk of %u MB: %s%llu MB are free on the host, and %llu MB are "
                    "kept (CAY_DISK_RESERVE)",
                    disk_mb, low ? "the host's disk is low, " : "",
                    (unsigned long long)(h->free / MIB),
                    (unsigned long long)(reserve_of(e, h) / MIB));
}

static int refuse_promise(struct engine *e, const struct host_room *h, uint64_t promised,
                          uint32_t disk_mb, struct err *err)
{
    uint64_t reserve = reserve_of(e, h);

    return err_code(err, ERR_UNAVAILABLE, "no_space",
                    "no room for a disk of %u MB: %llu MB are free, %llu of them kept "
                    "(CAY_DISK_RESERVE), and %llu promised to others (at most %u times what is "
                    "free, CAY_DISK_OVERCOMMIT)",
                    disk_mb, (unsigned long long)(h->free / MIB),
                    (unsigned long long)(reserve / MIB), (unsigned long long)(promised / MIB),
                    e->config.disk_overcommit);
}

/* The sum of all sizes is known, and mostly small enough; only else is it asked what they have
 * already taken. A size that nobody asked for is a limit and no wish, so it may be larger than what
 * is free. */
static int check_promise(struct engine *e, uint32_t disk_mb, bool asked, uint64_t promised,
                         struct err *err)
{
    uint64_t wanted = (asked ? disk_mb : DISK_MB_MIN) * MIB;
    struct host_room h;
    uint64_t has;
    int64_t spare;

    if (room_of(e, &h) < 0)
        return 0; /* a runtime whose disks are elsewhere */
    spare = spare_of(e, &h);
    if (spare < (int64_t)wanted || atomic_load(&e->space->low))
        return refuse_size(e, &h, disk_mb, err);
    if (!e->config.disk_overcommit ||
        (promised + disk_mb * MIB) / e->config.disk_overcommit <= (uint64_t)spare)
        return 0;
    has = given(e); /* of one that came meanwhile too */
    promised -= has < promised ? has : promised;
    if ((promised + disk_mb * MIB) / e->config.disk_overcommit <= (uint64_t)spare)
        return 0;
    return refuse_promise(e, &h, promised, disk_mb, err);
}

int space_promise(struct engine *e, uint32_t disk_mb, bool asked, struct err *err)
{
    uint64_t before = atomic_fetch_add(&e->space->promised, disk_mb * MIB);

    if (check_promise(e, disk_mb, asked, before, err) == 0)
        return 0;
    space_give(e, disk_mb);
    return -1;
}

void space_promised(struct engine *e, uint32_t disk_mb)
{
    atomic_fetch_add(&e->space->promised, disk_mb * MIB);
}

void space_give(struct engine *e, uint32_t disk_mb)
{
    atomic_fetch_sub(&e->space->promised, disk_mb * MIB);
}

/* ---- looking ---- */

struct look {
    struct engine *e;
    struct host_room h;
    struct unwritten unwritten;
    int64_t spare;
    int64_t now;
    struct sandbox **boxes;
    size_t n, writers;
};

static int64_t low_mark(size_t writers)
{
    uint64_t mark = LOW_MIN + writers * LOW_WRITER;

    return (int64_t)(mark < LOW_MAX ? mark : LOW_MAX);
}

/* Once it was low, there has to be room for one more writer, and as much again. */
static bool is_low(const struct look *l)
{
    if (atomic_load(&l->e->space->low))
        return l->spare < 2 * low_mark(l->writers + 1);
    return l->spare < low_mark(l->writers);
}

/* That of one that is stopped is open only while its files are used. Asked again in its turn: one
 * that was removed since is being destroyed, and nothing of its box may be touched. */
static bool has_open_disk(struct sandbox *sb, const void *arg)
{
    bool yes;

    (void)arg;
    pthread_mutex_lock(&sb->lock);
    yes = sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_PAUSED ||
          (sb->state == SANDBOX_STOPPED && sb->quiet == QUIET_BOX);
    pthread_mutex_unlock(&sb->lock);
    return yes;
}

static bool is_writer(const struct look *l, const struct sandbox *sb)
{
    return sb->wrote_ns && l->now - sb->wrote_ns < WRITER_NS;
}

/* What another thread does something with is taken to be as it was. */
static void look_at(struct look *l, struct sandbox *sb)
{
    struct disk_room room;

    if (!turn_try(&sb->turn))
        return;
    if (sb->disk_boots != sb->boots) {
        sb->disk_used = sb->disk_mark = sb->disk_debt = sb->lease = 0;
        sb->wrote_ns = 0;
        sb->disk_boots = sb->boots;
    }
    if (has_open_disk(sb, NULL) && runtime_disk_room(l->e->runtime, &sb->box, &room, NULL) == 0) {
        if (!atomic_load(&l->e->space->low) || !sb->disk_mark)
            sb->disk_mark = room.used;
        if ((sb->disk_used && room.used > sb->disk_used + WRITES) ||
            room.used > sb->disk_mark + WRITES_LOW)
            sb->wrote_ns = l->now;
        sb->disk_used = room.used;
        sb->disk_debt = room.used > room.backed ? room.used - room.backed : 0;
    }
    turn_give(&sb->turn);
}

static void look_at_all(struct look *l)
{
    uint64_t debt = volumes_debt(l->e);

    l->boxes = roster_select(l->e, has_open_disk, NULL, 0, SIZE_MAX, &l->n, NULL);
    for (size_t i = 0; i < l->n; i++) {
        look_at(l, l->boxes[i]);
        debt += l->boxes[i]->disk_debt;
        l->writers += is_writer(l, l->boxes[i]);
    }
    if (debt > l->unwritten.now)
        debt = l->unwritten.now;
    atomic_store(&l->e->space->debt, debt);
    l->spare -= (int64_t)debt;
}

static void look_done(struct look *l)
{
    for (size_t i = 0; i < l->n; i++)
        sandbox_unref(l->boxes[i]);
    free(l->boxes);
}

/* ---- leases ---- */

static uint64_t at_least(uint64_t bytes, uint64_t min)
{
    return bytes > min ? bytes : min;
}

/* Half of what there is to those that write, and an eighth to each of the others: several would
 * have to start writing at once, and to use up all of it before the next look. */
static uint64_t lease_of(const struct look *l, const struct sandbox *sb, bool low)
{
    uint64_t spare = l->spare > 0 ? (uint64_t)l->spare : 0;

    if (low)
        return spare / 16 < LEASE_LOW ? spare / 16 : LEASE_LOW;
    return at_least(is_writer(l, sb) ? spare / 2 / l->writers : spare / 8, LEASE_MIN);
}

static void lease(struct engine *e, struct sandbox *sb, uint64_t more)
{
    uint64_t until = more == LEASE_ANY ? LEASE_ANY : sb->disk_used + more;
    struct err err = {0};

    if (until == sb->lease || (sb->lease && more != LEASE_ANY && sb->lease != LEASE_ANY &&
                               until < sb->lease + LEASE_STEP && sb->lease < until + LEASE_STEP))
        return;
    if (!turn_try(&sb->turn))
        return;
    if (!has_open_disk(sb, NULL)) {
        sb->lease = 0;
    } else if (runtime_disk_lease(e->runtime, &sb->box, more, &err) == 0) {
        sb->lease = until;
        if (more != LEASE_ANY)
            e->space->leases_out = true;
    } else if (err.kind != ERR_UNSUPPORTED) {
        log_warn("what a sandbox writes cannot be bounded while the host's disk is low", "id",
                 sb->box.id, "error", err.text);
    }
    turn_give(&sb->turn);
}

static bool has_lease(struct sandbox *sb, const void *arg)
{
    (void)arg;
    return sb->lease && sb->lease != LEASE_ANY;
}

/* Who writes to a volume cannot be told, and so is not paused: while the disk is low nothing more
 * is taken for any of them. */
static void lease_volumes(const struct look *l, bool low)
{
    uint64_t spare = l->spare > 0 ? (uint64_t)l->spare : 0;

    volumes_lease(l->e, low ? 0 : spare / 8);
    l->e->space->leases_out = true;
}

static void lease_all(struct look *l, bool low)
{
    for (size_t i = 0; i < l->n; i++)
        if (sandbox_check_box(l->boxes[i], NULL) == 0)
            lease(l->e, l->boxes[i], lease_of(l, l->boxes[i], low));
    lease_volumes(l, low);
}

static void end_leases(struct look *l)
{
    l->e->space->leases_out = false;
    volumes_lease(l->e, LEASE_ANY);
    l->boxes = roster_select(l->e, has_lease, NULL, 0, SIZE_MAX, &l->n, NULL);
    for (size_t i = 0; i < l->n; i++) {
        lease(l->e, l->boxes[i], LEASE_ANY);
        if (has_lease(l->boxes[i], NULL))
            l->e->space->leases_out = true; /* somebody has its turn: the next look */
    }
}

/* ---- pausing, and going on ---- */

/* Frozen before the row says so: it is urgent, and a start that finds it frozen and its row running
 * lets it go on. */
static void pause_in_turn(struct engine *e, struct sandbox *sb)
{
    struct err err = {0};

    if (sandbox_check_running(sb, NULL) < 0)
        return;
    if (runtime_pause(e->runtime, &sb->box, true, &err) < 0) {
        log_warn("a sandbox that writes could not be paused, though the host's disk is low", "id",
                 sb->box.id, "error", err.text);
        return;
    }
    sb->starved_ns = mono_ns();
    (void)sandbox_move(sb, SANDBOX_PAUSED, SPACE_REASON, NULL);
    writer_leave(e, writer_put_state(e, sb));
    log_warn("a sandbox that writes was paused: the host's disk is low", "id", sb->box.id);
    sandbox_tell(e, sb, "sandbox.paused", json_pack("{s:s}", "reason", SPACE_REASON));
}

static void pause_writers(struct look *l)
{
    for (size_t i = 0; i < l->n; i++) {
        struct sandbox *sb = l->boxes[i];

        if (!is_writer(l, sb) || !turn_try(&sb->turn))
            continue;
        pause_in_turn(l->e, sb);
        turn_give(&sb->turn);
    }
}

static bool waits_for_room(struct sandbox *sb, const void *arg)
{
    bool yes;

    (void)arg;
    pthread_mutex_lock(&sb->lock);
    yes = sb->state == SANDBOX_PAUSED && sb->reason && strcmp(sb->reason, SPACE_REASON) == 0;
    pthread_mutex_unlock(&sb->lock);
    return yes;
}

/* One that is being committed stands still until that is done. */
static bool go_on_in_turn(struct engine *e, struct sandbox *sb)
{
    struct err err = {0};

    if (!waits_for_room(sb, NULL) || sandbox_is_committing(sb))
        return false;
    if (runtime_pause(e->runtime, &sb->box, false, &err) < 0) {
        log_warn("a sandbox could not be made to go on", "id", sb->box.id, "error", err.text);
        return false;
    }
    sb->wrote_ns = mono_ns(); /* it will go on with what it did */
    (void)sandbox_move(sb, SANDBOX_RUNNING, NULL, NULL);
    writer_leave(e, writer_put_state(e, sb));
    log_info("a sandbox goes on: there is room on the host's disk again", "id", sb->box.id);
    sandbox_tell(e, sb, "sandbox.resumed", json_pack("{s:s}", "reason", SPACE_REASON));
    return true;
}

static bool let_go_on(struct look *l, struct sandbox *sb)
{
    bool goes_on;

    lease(l->e, sb, at_least((uint64_t)l->spare / 2 / (l->writers + 1), LEASE_MIN));
    if (!turn_try(&sb->turn))
        return false;
    goes_on = go_on_in_turn(l->e, sb);
    turn_give(&sb->turn);
    return goes_on;
}

static int by_wait(const void *a, const void *b)
{
    const struct sandbox *x = *(struct sandbox *const *)a, *y = *(struct sandbox *const *)b;

    return x->starved_ns < y->starved_ns ? -1 : x->starved_ns > y->starved_ns;
}

/* The first that can, and no more at a look: the next one has to find room too. Who has waited
 * longest comes first: one that uses up whatever room there is must not keep the others waiting for
 * ever. True = one waits. */
static bool go_on(struct look *l)
{
    bool done = l->spare <= 2 * low_mark(l->writers + 1);
    size_t n, total;
    auto_free struct sandbox **paused =
        roster_select(l->e, waits_for_room, NULL, 0, done ? 0 : SIZE_MAX, &n, &total);

    qsort(paused, n, sizeof(struct sandbox *), by_wait);
    for (size_t i = 0; i < n; i++) {
        done = done || let_go_on(l, paused[i]);
        sandbox_unref(paused[i]);
    }
    return total > 0;
}

static void tell(struct look *l, bool low)
{
    char free_mb[24];

    if (atomic_exchange(&l->e->space->low, low) == low)
        return;
    (void)snprintf(free_mb, sizeof(free_mb), "%llu", (unsigned long long)(l->h.free / MIB));
    if (low) {
        (void)engine_trouble(l->e, "disk_low", "", "sandboxes that write are paused");
        log_warn("the host's disk is low: sandboxes that write are paused until there is room "
                 "(CAY_DISK_RESERVE says how much is kept)",
                 "freeMb", free_mb);
    } else {
        engine_trouble_over(l->e, "disk_low", "");
        log_info("there is room on the host's disk again", "freeMb", free_mb);
    }
}

/* ---- the thread ---- */

static int64_t bounded(int64_t ns, int64_t min, int64_t max)
{
    return ns < min ? min : ns > max ? max : ns;
}

/* Nanoseconds until the next look: long before all that can be written meanwhile is too much. */
static int64_t look_once(struct engine *e)
{
    struct look l = {.e = e, .now = mono_ns()};
    int64_t calm, wait;
    bool low = false, waiting;

    if (runtime_room(e->runtime, &l.h, NULL) < 0)
        return LOOK_CALM;
    runtime_unwritten(e->runtime, &l.unwritten);
    l.spare = spare_of(e, &l.h);
    calm = l.spare - (int64_t)(l.unwritten.max + COMFORT);
    if (calm > 0) {
        atomic_store(&e->space->debt, 0);
        tell(&l, false);
        if (e->space->leases_out)
            end_leases(&l);
        wait = bounded(calm / (int64_t)(RATE / 1000000) * 1000, LOOK_MIN, LOOK_CALM);
    } else {
        look_at_all(&l);
        low = is_low(&l);
        tell(&l, low); /* first: nobody resumes one that is being paused */
        if (low)
            pause_writers(&l);
        lease_all(&l, low);
        wait = bounded(l.spare / 8 / (int64_t)(RATE / 1000000) * 1000, LOOK_MIN, LOOK_BUSY);
    }
    waiting = go_on(&l);
    look_done(&l);
    return low && !l.writers ? LOOK_BUSY : waiting && wait > LOOK_BUSY ? LOOK_BUSY : wait;
}

static void *space_main(void *arg)
{
    struct engine *e = arg;
    struct space *s = e->space;
    int64_t wait = 0;

    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        int64_t until = mono_ns() + wait;
        struct timespec at = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};

        if (wait == 0 || pthread_cond_timedwait(&s->tick, &s->lock, &at) != 0) {
            pthread_mutex_unlock(&s->lock);
            wait = look_once(e);
            pthread_mutex_lock(&s->lock);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

int space_start(struct engine *e, struct err *err)
{
    int r = pthread_create(&e->space->thread, NULL, space_main, e);

    if (r != 0)
        return err_sys(err, r, "start the thread that watches the host's disk");
    e->space->running = true;
    return 0;
}

void space_stop(struct engine *e)
{
    struct space *s = e->space;

    if (!s->running)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->tick);
    pthread_mutex_unlock(&s->lock);
    (void)pthread_join(s->thread, NULL);
    s->running = false;
}

/* ---- for others ---- */

void space_look(struct engine *e, struct space_state *ret)
{
    struct host_room h;

    *ret = (struct space_state){.promised = atomic_load(&e->space->promised)};
    if (room_of(e, &h) < 0)
        return;
    ret->free = h.free;
    ret->reserve = reserve_of(e, &h);
    ret->low = atomic_load(&e->space->low) || spare_of(e, &h) < low_mark(0);
}

int space_check(struct engine *e, struct err *err)
{
    struct space_state s;

    space_look(e, &s);
    if (!s.low)
        return 0;
    return err_code(err, ERR_UNAVAILABLE, "no_space",
                    "the host's disk is low: %llu MB are free, %llu of them kept "
                    "(CAY_DISK_RESERVE); free some space, or remove sandboxes or images",
                    (unsigned long long)(s.free / MIB), (unsigned long long)(s.reserve / MIB));
}

int space_check_resume(struct engine *e, struct sandbox *sb, struct err *err)
{
    return waits_for_room(sb, NULL) ? space_check(e, err) : 0;
}
