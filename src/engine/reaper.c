#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/boot_internal.h"
#include "engine/destroyer_internal.h"
#include "engine/drain_internal.h"
#include "engine/engine_internal.h"
#include "engine/idle_internal.h"
#include "engine/lifecycle_internal.h"
#include "engine/news_internal.h"
#include "engine/quiet_internal.h"
#include "engine/reaper_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"
#include "engine/stopped_internal.h"
#include "engine/threads_internal.h"
#include "engine/turn_internal.h"
#include "engine/writer_internal.h"
#include "model/sandbox.h"
#include "runtime/runtime.h"

struct reaper {
    pthread_mutex_t lock;
    pthread_cond_t tick;
    bool stop, running;
    int64_t idle_ns; /* when some sandbox may be idle, or one has stopped; INT64_MAX = none */
    int epoll_fd, wake_fd;
    struct sandbox *ended; /* the watcher's: those whose turn another has */
    pthread_t sweeper, watcher;
};

#define WAKE_SERIAL 0  /* serials of sandboxes start at 1 */
#define AGAIN_MS    50 /* until the watcher tries again to have a turn */

#define IDLE_LOOK_NS (1000 * 1000000ll)

void reaper_doom(struct engine *e, struct sandbox *sb)
{
    destroyer_add(e, sb);
}

/* ---- expiry ---- */

static bool is_expired(struct sandbox *sb, const void *now)
{
    bool expired;

    pthread_mutex_lock(&sb->lock);
    /* One that is being committed goes after that. */
    expired = sb->state != SANDBOX_CREATING && !sb->committing &&
              sb->deadline_ns <= *(const int64_t *)now;
    pthread_mutex_unlock(&sb->lock);
    return expired;
}

/* Somebody else changes it: the next sweep comes. */
static bool is_busy(const struct err *err)
{
    return err->code && strcmp(err->code, "sandbox_busy") == 0;
}

static bool is_to_stop(struct sandbox *sb)
{
    bool yes;

    pthread_mutex_lock(&sb->lock);
    yes = sb->spec.expiry_stops && sb->state != SANDBOX_STOPPED;
    pthread_mutex_unlock(&sb->lock);
    return yes;
}

int engine_sweep(struct engine *e, unsigned *ret, struct err *err)
{
    int64_t now = mono_ns();
    size_t n;
    auto_free struct sandbox **found = roster_select(e, is_expired, &now, 0, SIZE_MAX, &n, NULL);
    struct err failure = {0};
    unsigned swept = 0;
    int r = 0;

    for (size_t i = 0; i < n; i++) {
        struct err one = {0};

        if (is_to_stop(found[i])) {
            swept += drain_expired(e, found[i]);
        } else if (sandbox_remove(e, found[i], REMOVED_BY_EXPIRY, &one) == 0) {
            swept++;
        } else if (one.kind != ERR_NOT_FOUND && one.kind != ERR_CONFLICT && !is_busy(&one)) {
            failure = one;
            r = -1;
        }
        sandbox_unref(found[i]);
    }
    if (r < 0 && err)
        *err = failure;
    *ret = swept + stopped_evict(e);
    return r;
}

void reaper_look_at(struct engine *e, int64_t when_ns)
{
    struct reaper *r = e->reaper;

    pthread_mutex_lock(&r->lock);
    if (when_ns < r->idle_ns) {
        r->idle_ns = when_ns;
        pthread_cond_broadcast(&r->tick);
    }
    pthread_mutex_unlock(&r->lock);
}

/* With the lock held. When time is set back nothing is lost: it is the monotonic clock. */
static void look_for_idle(struct engine *e, struct reaper *r)
{
    int64_t next;

    r->idle_ns = INT64_MAX;
    pthread_mutex_unlock(&r->lock);
    next = idle_sweep(e);
    (void)stopped_evict(e);
    pthread_mutex_lock(&r->lock);
    if (next < r->idle_ns)
        r->idle_ns = next;
}

static void sweep(struct engine *e, struct reaper *r)
{
    struct err err = {0};
    unsigned n;

    pthread_mutex_unlock(&r->lock);
    if (engine_sweep(e, &n, &err) < 0)
        log_error("an expired sandbox could not be removed", "error", err.text);
    pthread_mutex_lock(&r->lock);
}

/* With the lock held: what is next, and by then at most. However many become idle one after the
 * other, they are looked for once in IDLE_LOOK_NS. */
static void wait_until(struct reaper *r, int64_t sweep_ns, int64_t looked_ns)
{
    while (!r->stop) {
        int64_t idle_ns = r->idle_ns, next;
        struct timespec until;

        if (idle_ns < looked_ns + IDLE_LOOK_NS)
            idle_ns = looked_ns + IDLE_LOOK_NS;
        next = r->idle_ns < INT64_MAX && idle_ns < sweep_ns ? idle_ns : sweep_ns;
        if (mono_ns() >= next)
            return;
        until = (struct timespec){.tv_sec = next / 1000000000, .tv_nsec = next % 1000000000};
        (void)pthread_cond_timedwait(&r->tick, &r->lock, &until);
    }
}

static void *sweeper_main(void *arg)
{
    struct engine *e = arg;
    struct reaper *r = e->reaper;
    int64_t every_ns = (e->config.sweep_s ? e->config.sweep_s : 1) * 1000000000ll;
    int64_t sweep_ns = mono_ns() + every_ns, looked_ns = 0;

    pthread_mutex_lock(&r->lock);
    for (;;) {
        wait_until(r, sweep_ns, looked_ns);
        if (r->stop)
            break;
        if (mono_ns() >= r->idle_ns) {
            looked_ns = mono_ns();
            look_for_idle(e, r);
        }
        if (mono_ns() >= sweep_ns) {
            sweep(e, r);
            sweep_ns = mono_ns() + every_ns;
        }
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* ---- boxes that end by themselves ---- */

void reaper_watch(struct engine *e, struct sandbox *sb)
{
    int fd = runtime_watch_fd(e->runtime, &sb->box);
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = sb->serial};

    if (fd < 0)
        return;
    if (epoll_ctl(e->reaper->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0) {
        log_warn("a sandbox cannot be watched; its end will be seen by the next call", "id",
                 sb->box.id, "error", strerror(errno));
        return;
    }
    pthread_mutex_lock(&sb->lock);
    sb->watched_fd = fd;
    pthread_mutex_unlock(&sb->lock);
}

/* Before the runtime may close the descriptor: its number could be another's by then. So under the
 * lock: whoever comes second finds it done. */
void reaper_unwatch(struct engine *e, struct sandbox *sb)
{
    pthread_mutex_lock(&sb->lock);
    if (sb->watched_fd >= 0)
        (void)epoll_ctl(e->reaper->epoll_fd, EPOLL_CTL_DEL, sb->watched_fd, NULL);
    sb->watched_fd = -1;
    pthread_mutex_unlock(&sb->lock);
}

/* In its turn. One that is stopped has a box for its files at most, which is not watched. */
static void note_ended(struct engine *e, struct sandbox *sb)
{
    if (sandbox_is_stopped(sb))
        return;
    if (runtime_lives(e->runtime, &sb->box)) {
        reaper_watch(e, sb); /* it was stopped and started since */
    } else if (sandbox_move_stopped(e, sb, "agent_lost", NULL) == 0) {
        roster_settle(e, sb);
        writer_leave(e, writer_put(e, sb));
        quiet_leave_rest(e, sb);
        log_warn("a sandbox ended by itself", "id", sb->box.id);
        sandbox_tell(e, sb, "sandbox.lost", json_pack("{s:s}", "reason", "agent_lost"));
        sandbox_tell(
            e, sb, "sandbox.error",
            json_pack("{s:s, s:s}", "code", "agent_lost", "error", "the sandbox ended by itself"));
    }
}

/* False when another has its turn. */
static bool box_ended(struct engine *e, struct sandbox *sb)
{
    if (!turn_try(&sb->turn))
        return false;
    note_ended(e, sb);
    turn_give(&sb->turn);
    return true;
}

/* Out of the set at once, where it would be told of without end; then as soon as it has its turn.
 */
static void note_end(struct engine *e, uint64_t serial)
{
    struct sandbox *sb = roster_find_serial(e, serial);

    if (!sb)
        return;
    reaper_unwatch(e, sb);
    sb->ended_next = e->reaper->ended;
    e->reaper->ended = sb;
}

static void settle_ends(struct engine *e)
{
    struct sandbox **at = &e->reaper->ended;

    while (*at) {
        struct sandbox *sb = *at;

        if (box_ended(e, sb)) {
            *at = sb->ended_next;
            sandbox_unref(sb);
        } else {
            at = &sb->ended_next;
        }
    }
}

static void *watcher_main(void *arg)
{
    struct engine *e = arg;
    struct reaper *r = e->reaper;
    struct epoll_event events[16];

    for (;;) {
        int n = epoll_wait(r->epoll_fd, events, ARRAY_LEN(events), r->ended ? AGAIN_MS : -1);

        for (int i = 0; i < n; i++) {
            if (events[i].data.u64 == WAKE_SERIAL)
                return NULL;
            note_end(e, events[i].data.u64);
        }
        settle_ends(e);
    }
}

/* ---- start and stop ---- */

struct reaper *reaper_new(void)
{
    struct reaper *r = xcalloc(1, sizeof(*r));

    pthread_mutex_init(&r->lock, NULL);
    cond_init_monotonic(&r->tick);
    r->epoll_fd = r->wake_fd = -1;
    r->idle_ns = INT64_MAX;
    return r;
}

void reaper_free(struct reaper *r)
{
    if (!r)
        return;
    while (r->ended) { /* the next start finds out by itself */
        struct sandbox *sb = r->ended;

        r->ended = sb->ended_next;
        sandbox_unref(sb);
    }
    close_fd(&r->epoll_fd);
    close_fd(&r->wake_fd);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->tick);
    free(r);
}

bool reaper_runs(const struct engine *e)
{
    return e->reaper->running;
}

int reaper_start(struct engine *e, struct err *err)
{
    struct reaper *r = e->reaper;
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = WAKE_SERIAL};

    r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    r->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (r->epoll_fd < 0 || r->wake_fd < 0 ||
        epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, r->wake_fd, &ev) < 0)
        return err_sys(err, errno, "make the descriptors that watch sandboxes");
    if (destroyer_start(e, err) < 0)
        return -1;
    errno = pthread_create(&r->sweeper, NULL, sweeper_main, e);
    if (errno == 0)
        errno = pthread_create(&r->watcher, NULL, watcher_main, e);
    if (errno != 0)
        return err_sys(err, errno, "start the threads that look after sandboxes");
    r->running = true;
    return 0;
}

void reaper_stop(struct engine *e)
{
    struct reaper *r = e->reaper;
    uint64_t one = 1;

    if (!r->running)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->tick);
    pthread_mutex_unlock(&r->lock);
    (void)!write(r->wake_fd, &one, sizeof(one));
    (void)pthread_join(r->sweeper, NULL);
    (void)pthread_join(r->watcher, NULL);
    /* Only now: a sweep that was under way has handed over its last sandbox. */
    destroyer_stop(e);
    r->running = false;
}
