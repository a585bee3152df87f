#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/prepared_internal.h"
#include "engine/reaper_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/threads_internal.h"
#include "engine/writer_internal.h"
#include "runtime/runtime.h"

struct prepared {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct box *ready;
    unsigned n, size;
    int64_t taken_ns; /* when a box was last taken */
    bool stop, running;
    pthread_t thread;
};

#define RETRY_S_MAX 30
#define CALM_NS     10000000ll

static void discard(struct engine *e, const struct box *box)
{
    auto_sandbox struct sandbox *sb = sandbox_alloc(e, box);

    sb->state = SANDBOX_REMOVING;
    reaper_doom(e, sb);
}

/* The row comes first, with the id range, which must be known before anything runs: whatever
 * happens next, the row leads a later start to what was made. */
int prepared_make(struct engine *e, const struct sandbox_limits *limits, struct box *ret,
                  struct err *err)
{
    struct box box = {.slot = BOX_NO_SLOT};

    id_new(box.id, "sbx");
    if (runtime_reserve(e->runtime, &box, err) < 0)
        return -1;
    if (writer_put_box(e, &box, err) < 0) {
        (void)runtime_destroy(e->runtime, &box, NULL);
        writer_delete(e, box.id); /* it may be written, and not synced */
        return -1;
    }
    if (runtime_prepare(e->runtime, &box, limits, err) < 0) {
        discard(e, &box);
        return err_no_space(err, "free some space on the host");
    }
    *ret = box;
    return 0;
}

static int prepare(struct engine *e, struct box *ret, struct err *err)
{
    return prepared_make(e, &e->config.default_limits, ret, err);
}

int prepared_take(struct engine *e, struct box *ret, struct err *err)
{
    struct prepared *p = e->prepared;
    bool got = false;

    pthread_mutex_lock(&p->lock);
    if (p->n > 0) {
        /* The oldest: the latest may still be busy with being made. */
        *ret = p->ready[0];
        memmove(p->ready, p->ready + 1, --p->n * sizeof(*p->ready));
        got = true;
    }
    p->taken_ns = mono_ns();
    pthread_cond_signal(&p->more);
    pthread_mutex_unlock(&p->lock);
    return got ? 0 : prepare(e, ret, err);
}

/* Until then, or until somebody takes a box or the engine stops. */
static void wait_until(struct prepared *p, int64_t ns)
{
    struct timespec until = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    (void)pthread_cond_timedwait(&p->more, &p->lock, &until);
}

/* Waits until ids are wanted; not before some time, if the last could not be made. Making one takes
 * the processor that the sandbox just created needs for its first command, so it comes a little
 * later, unless there is none left. false = stop. */
static bool wait_for_want(struct prepared *p, unsigned delay_s)
{
    int64_t not_before = mono_ns() + delay_s * 1000000000ll;
    bool go;

    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        int64_t calm = p->n > 0 ? p->taken_ns + CALM_NS : 0;
        int64_t due = calm > not_before ? calm : not_before;

        if (p->n >= p->size)
            pthread_cond_wait(&p->more, &p->lock);
        else if (due > mono_ns())
            wait_until(p, due);
        else
            break;
    }
    go = !p->stop;
    pthread_mutex_unlock(&p->lock);
    return go;
}

static void *prepared_main(void *arg)
{
    struct engine *e = arg;
    struct prepared *p = e->prepared;
    unsigned delay_s = 0;

    thread_is_background();
    while (wait_for_want(p, delay_s)) {
        struct err err = {0};
        struct box box;

        if (prepare(e, &box, &err) < 0) {
            log_warn("no box could be prepared ahead; creates will prepare their own", "error",
                     err.text);
            delay_s = delay_s ? 2 * delay_s : 1;
            if (delay_s > RETRY_S_MAX)
                delay_s = RETRY_S_MAX;
            continue;
        }
        delay_s = 0;
        pthread_mutex_lock(&p->lock);
        p->ready[p->n++] = box;
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

struct prepared *prepared_new(void)
{
    struct prepared *p = xcalloc(1, sizeof(*p));

    pthread_mutex_init(&p->lock, NULL);
    cond_init_monotonic(&p->more);
    return p;
}

void prepared_free(struct prepared *p)
{
    if (!p)
        return;
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->more);
    free(p->ready);
    free(p);
}

/* With one box ready before the first request comes; if that fails the thread says so and tries on.
 */
int prepared_start(struct engine *e, struct err *err)
{
    struct prepared *p = e->prepared;
    int r;

    p->size = e->config.prepared;
    p->ready = xcalloc(p->size + 1, sizeof(*p->ready));
    if (p->size > 0 && prepare(e, &p->ready[0], NULL) == 0)
        p->n = 1;
    r = pthread_create(&p->thread, NULL, prepared_main, e);
    if (r != 0)
        return err_sys(err, r, "start the thread that prepares boxes");
    p->running = true;
    return 0;
}

void prepared_stop(struct engine *e)
{
    struct prepared *p = e->prepared;

    if (!p->running)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->more);
    pthread_mutex_unlock(&p->lock);
    (void)pthread_join(p->thread, NULL);
    p->running = false;
    while (p->n > 0)
        discard(e, &p->ready[--p->n]);
}
