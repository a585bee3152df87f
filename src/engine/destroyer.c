#include "engine/destroyer_internal.h"

#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/health.h"
#include "engine/images_used_internal.h"
#include "engine/network_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/threads_internal.h"
#include "engine/volumes_internal.h"
#include "engine/writer_internal.h"
#include "runtime/runtime.h"

#define THREADS        2
#define AGAIN_NS_MAX   (60 * 1000000000ll)
#define ATTEMPTS_STOP  3 /* at the end of the engine: then the row stays for the next start */
#define NOT_REMOVED    "sandbox_not_removed"
#define BEHIND         8 /* boxes that wait to be taken away */
#define FAR_BEHIND     64
#define FAILURES_COUNT 8 /* past so many the time between two attempts does not grow */

struct destroyer {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct sandbox *fresh, *fresh_last;
    unsigned n_fresh;
    struct sandbox *failed; /* in no order */
    bool retrying;          /* one of the threads is */
    bool stop;
    pthread_t threads[THREADS];
    unsigned n_threads;
};

void destroyer_add(struct engine *e, struct sandbox *sb)
{
    struct destroyer *d = e->destroyer;

    sandbox_ref(sb);
    pthread_mutex_lock(&d->lock);
    sb->doomed_next = NULL;
    if (d->fresh)
        d->fresh_last->doomed_next = sb;
    else
        d->fresh = sb;
    d->fresh_last = sb;
    d->n_fresh++;
    pthread_cond_signal(&d->more);
    pthread_mutex_unlock(&d->lock);
}

/* ---- one box ---- */

static int destroy(struct engine *e, struct sandbox *sb, struct err *err)
{
    if (runtime_kill(e->runtime, &sb->box, err) < 0)
        return -1;
    network_detach(e, sb);
    if (runtime_destroy(e->runtime, &sb->box, err) < 0)
        return -1;
    network_log_remove(e, sb->box.id);
    sb->box.slot = BOX_NO_SLOT; /* from here on it may be another's: not to be given back again */
    writer_delete(e, sb->box.id);
    return 0;
}

static int64_t again_after(const struct engine *e, unsigned attempts)
{
    int64_t ns = e->config.waits.again * 1000000ll;

    for (unsigned i = 1; i < attempts && i < FAILURES_COUNT; i++)
        ns *= 4;
    return ns < AGAIN_NS_MAX ? ns : AGAIN_NS_MAX;
}

static bool is_gone(struct engine *e, struct sandbox *sb)
{
    struct err err = {0};

    if (destroy(e, sb, &err) == 0) {
        if (sb->attempts > 0)
            engine_trouble_over(e, NOT_REMOVED, sb->box.id);
        images_drop(e, sb->image_id, sb->spec.image);
        volumes_settle(e, sb->spec.mounts);
        return true;
    }
    sb->attempts++;
    sb->again_ns = mono_ns() + again_after(e, sb->attempts);
    if (engine_trouble(e, NOT_REMOVED, sb->box.id, err.text))
        log_warn("a sandbox could not be taken away; trying again", "id", sb->box.id, "error",
                 err.text);
    return false;
}

/* ---- the queues, with the lock held ---- */

static struct sandbox *take_fresh(struct destroyer *d)
{
    struct sandbox *sb = d->fresh;

    if (sb) {
        d->fresh = sb->doomed_next;
        d->n_fresh--;
    }
    return sb;
}

static bool is_due(const struct destroyer *d, const struct sandbox *sb)
{
    return d->stop ? sb->attempts < ATTEMPTS_STOP : sb->again_ns <= mono_ns();
}

static struct sandbox *take_failed(struct destroyer *d)
{
    struct sandbox **at = &d->failed, *sb;

    while (*at && !is_due(d, *at))
        at = &(*at)->doomed_next;
    sb = *at;
    if (sb)
        *at = sb->doomed_next;
    return sb;
}

static void wait_for_more(struct destroyer *d)
{
    int64_t next = INT64_MAX;
    struct timespec until;

    if (!d->retrying)
        for (const struct sandbox *sb = d->failed; sb; sb = sb->doomed_next)
            next = sb->again_ns < next ? sb->again_ns : next;
    until = (struct timespec){.tv_sec = next / 1000000000, .tv_nsec = next % 1000000000};
    if (next == INT64_MAX)
        (void)pthread_cond_wait(&d->more, &d->lock);
    else
        (void)pthread_cond_timedwait(&d->more, &d->lock, &until);
}

/* ---- the threads ---- */

/* Requests come first, but not for ever: when they make sandboxes faster than these are taken away,
 * what is left of them would grow without end. So the more there are, the less they give way. */
static int give_way(unsigned n_fresh)
{
    static const int nice[] = {10, 0, -5};
    int at = n_fresh < BEHIND ? 0 : n_fresh < FAR_BEHIND ? 1 : 2;

    return nice[at];
}

static void *destroyer_main(void *arg)
{
    struct engine *e = arg;
    struct destroyer *d = e->destroyer;

    pthread_mutex_lock(&d->lock);
    for (;;) {
        int nice = give_way(d->n_fresh);
        struct sandbox *sb = take_fresh(d);
        bool again = !sb && !d->retrying, gone;

        if (again)
            sb = take_failed(d);
        if (!sb && d->stop && !d->retrying)
            break;
        if (!sb) {
            wait_for_more(d);
            continue;
        }
        d->retrying |= again;
        pthread_mutex_unlock(&d->lock);
        thread_gives_way(nice);
        gone = is_gone(e, sb);
        pthread_mutex_lock(&d->lock);
        if (gone) {
            sandbox_unref(sb);
        } else {
            sb->doomed_next = d->failed;
            d->failed = sb;
        }
        if (again)
            d->retrying = false;
        /* The other may wait for this one's end, or for too long. */
        if (again || !gone || d->stop)
            pthread_cond_broadcast(&d->more);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* ---- start and stop ---- */

struct destroyer *destroyer_new(void)
{
    struct destroyer *d = xcalloc(1, sizeof(*d));

    pthread_mutex_init(&d->lock, NULL);
    cond_init_monotonic(&d->more);
    return d;
}

static void leave_to_next_start(struct sandbox *list)
{
    while (list) {
        struct sandbox *sb = list;

        list = sb->doomed_next;
        sandbox_unref(sb);
    }
}

void destroyer_free(struct destroyer *d)
{
    if (!d)
        return;
    leave_to_next_start(d->fresh); /* removed after the stop */
    leave_to_next_start(d->failed);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->more);
    free(d);
}

int destroyer_start(struct engine *e, struct err *err)
{
    struct destroyer *d = e->destroyer;

    while (d->n_threads < THREADS) {
        int r = pthread_create(&d->threads[d->n_threads], NULL, destroyer_main, e);

        if (r != 0)
            return err_sys(err, r, "start the threads that take sandboxes away");
        d->n_threads++;
    }
    return 0;
}

void destroyer_stop(struct engine *e)
{
    struct destroyer *d = e->destroyer;

    pthread_mutex_lock(&d->lock);
    d->stop = true;
    pthread_cond_broadcast(&d->more);
    pthread_mutex_unlock(&d->lock);
    while (d->n_threads > 0)
        (void)pthread_join(d->threads[--d->n_threads], NULL);
}
