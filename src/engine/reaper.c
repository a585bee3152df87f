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
#include "engine/engine_internal.h"
#include "engine/images_used_internal.h"
#include "engine/lifecycle_internal.h"
#include "engine/reaper_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"
#include "engine/threads_internal.h"
#include "engine/turn_internal.h"
#include "engine/writer_internal.h"
#include "model/sandbox.h"
#include "runtime/runtime.h"

struct reaper {
    pthread_mutex_t lock;
    pthread_cond_t more, tick;
    struct sandbox *head, *tail;
    bool stop, drain, running;
    int epoll_fd, wake_fd;
    pthread_t destroyer, sweeper, watcher;
};

#define DESTROY_ATTEMPTS 3 /* then the row stays for the next start */
#define WAKE_SERIAL      0 /* serials of sandboxes start at 1 */

/* ---- destroying ---- */

void reaper_doom(struct engine *e, struct sandbox *sb)
{
    struct reaper *r = e->reaper;

    sandbox_ref(sb);
    pthread_mutex_lock(&r->lock);
    sb->doomed_next = NULL;
    if (r->tail)
        r->tail->doomed_next = sb;
    else
        r->head = sb;
    r->tail = sb;
    pthread_cond_signal(&r->more);
    pthread_mutex_unlock(&r->lock);
}

static void destroy(struct engine *e, struct sandbox *sb)
{
    struct err err = {0};

    if (runtime_kill(e->runtime, &sb->box, &err) == 0 &&
        runtime_destroy(e->runtime, &sb->box, &err) == 0) {
        if (writer_delete(e, sb->box.id, &err) < 0)
            log_error("row of a removed sandbox stays until the next start", "id", sb->box.id,
                      "error", err.text);
        images_drop(e, sb->image_id, sb->spec.image);
        return;
    }
    if (++sb->attempts < DESTROY_ATTEMPTS) {
        log_warn("a sandbox could not be destroyed; trying again", "id", sb->box.id, "error",
                 err.text);
        reaper_doom(e, sb);
        return;
    }
    log_error("a sandbox could not be destroyed; the next start tries again", "id", sb->box.id,
              "error", err.text);
}

static void *destroyer_main(void *arg)
{
    struct engine *e = arg;
    struct reaper *r = e->reaper;

    thread_is_background();
    pthread_mutex_lock(&r->lock);
    for (;;) {
        struct sandbox *sb;

        while (!r->head && !r->drain)
            pthread_cond_wait(&r->more, &r->lock);
        sb = r->head;
        if (!sb)
            break;
        r->head = sb->doomed_next;
        if (!r->head)
            r->tail = NULL;
        pthread_mutex_unlock(&r->lock);
        destroy(e, sb);
        pthread_mutex_lock(&r->lock);
        sandbox_unref(sb);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* ---- expiry ---- */

static bool is_expired(struct sandbox *sb, const void *now)
{
    bool expired;

    pthread_mutex_lock(&sb->lock);
    expired = sb->state != SANDBOX_CREATING && sb->deadline_ns <= *(const int64_t *)now;
    pthread_mutex_unlock(&sb->lock);
    return expired;
}

/* Somebody else changes it: the next sweep comes. */
static bool is_busy(const struct err *err)
{
    return err->code && strcmp(err->code, "sandbox_busy") == 0;
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

        if (sandbox_remove(e, found[i], REMOVED_BY_EXPIRY, &one) == 0) {
            swept++;
        } else if (one.kind != ERR_NOT_FOUND && one.kind != ERR_CONFLICT && !is_busy(&one)) {
            failure = one;
            r = -1;
        }
        sandbox_unref(found[i]);
    }
    if (r < 0 && err)
        *err = failure;
    *ret = swept;
    return r;
}

static void *sweeper_main(void *arg)
{
    struct engine *e = arg;
    struct reaper *r = e->reaper;
    unsigned every = e->config.sweep_s ? e->config.sweep_s : 1;

    pthread_mutex_lock(&r->lock);
    while (!r->stop) {
        struct timespec until;
        struct err err = {0};
        unsigned n;

        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += every;
        while (!r->stop && pthread_cond_timedwait(&r->tick, &r->lock, &until) != ETIMEDOUT)
            ;
        if (r->stop)
            break;
        pthread_mutex_unlock(&r->lock);
        if (engine_sweep(e, &n, &err) < 0)
            log_error("an expired sandbox could not be removed", "error", err.text);
        pthread_mutex_lock(&r->lock);
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

/* Before the runtime may close the descriptor: its number could be another's by then. */
void reaper_unwatch(struct engine *e, struct sandbox *sb)
{
    int fd;

    pthread_mutex_lock(&sb->lock);
    fd = sb->watched_fd;
    sb->watched_fd = -1;
    pthread_mutex_unlock(&sb->lock);
    if (fd >= 0)
        (void)epoll_ctl(e->reaper->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void box_ended(struct engine *e, struct sandbox *sb)
{
    struct err err = {0};

    turn_await(&sb->turn);
    reaper_unwatch(e, sb);
    if (sandbox_move(sb, SANDBOX_STOPPED, "agent_lost", NULL) == 0) {
        struct write_job *job = writer_put(e, sb);

        log_warn("a sandbox ended by itself", "id", sb->box.id);
        if (runtime_kill(e->runtime, &sb->box, &err) < 0)
            log_error("what is left of a sandbox could not be ended", "id", sb->box.id, "error",
                      err.text);
        writer_leave(e, job);
    }
    turn_give(&sb->turn);
}

static void *watcher_main(void *arg)
{
    struct engine *e = arg;
    struct epoll_event events[16];

    for (;;) {
        int n = epoll_wait(e->reaper->epoll_fd, events, ARRAY_LEN(events), -1);

        for (int i = 0; i < n; i++) {
            auto_sandbox struct sandbox *sb = NULL;

            if (events[i].data.u64 == WAKE_SERIAL)
                return NULL;
            sb = roster_find_serial(e, events[i].data.u64);
            if (sb)
                box_ended(e, sb);
        }
    }
}

/* ---- start and stop ---- */

struct reaper *reaper_new(void)
{
    struct reaper *r = xcalloc(1, sizeof(*r));

    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->more, NULL);
    cond_init_monotonic(&r->tick);
    r->epoll_fd = r->wake_fd = -1;
    return r;
}

void reaper_free(struct reaper *r)
{
    if (!r)
        return;
    while (r->head) { /* removed after the stop; the next start destroys them */
        struct sandbox *sb = r->head;

        r->head = sb->doomed_next;
        sandbox_unref(sb);
    }
    close_fd(&r->epoll_fd);
    close_fd(&r->wake_fd);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->more);
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
    errno = pthread_create(&r->destroyer, NULL, destroyer_main, e);
    if (errno == 0)
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
    pthread_mutex_lock(&r->lock);
    r->drain = true;
    pthread_cond_broadcast(&r->more);
    pthread_mutex_unlock(&r->lock);
    (void)pthread_join(r->destroyer, NULL);
    r->running = false;
}
