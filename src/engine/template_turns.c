#include "engine/template_turns_internal.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/long_work_internal.h"
#include "engine/threads_internal.h"
#include "engine/watch.h"

#define LOOK_NS (250 * 1000000ll) /* between two looks whether who waits still wants to */

struct turn_of {
    struct turn_of *next;
    char *name;
};

struct template_turns {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct turn_of *first; /* those that are taken */
};

struct template_turns *template_turns_new(void)
{
    struct template_turns *t = xcalloc(1, sizeof(*t));

    (void)pthread_mutex_init(&t->lock, NULL);
    cond_init_monotonic(&t->ended);
    return t;
}

/* Nobody has a turn or waits for one by then. */
void template_turns_free(struct template_turns *t)
{
    if (!t)
        return;
    (void)pthread_mutex_destroy(&t->lock);
    (void)pthread_cond_destroy(&t->ended);
    free(t);
}

static struct turn_of **find(struct template_turns *t, const char *name)
{
    struct turn_of **at = &t->first;

    while (*at && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    return at;
}

/* Under the lock. */
static bool try_take(struct template_turns *t, const char *name)
{
    struct turn_of **at = find(t, name);

    if (*at)
        return false;
    *at = xcalloc(1, sizeof(**at));
    (*at)->name = xstrdup(name);
    return true;
}

static int still_wanted(struct engine *e, const struct engine_watch *w, struct err *err)
{
    struct pollfd caller = {.fd = w ? w->cancel_fd : -1, .events = POLLRDHUP};

    if (atomic_load(&e->draining))
        return err_set(err, ERR_UNAVAILABLE, "cay is stopping; try again when it runs");
    if (!w)
        return 0;
    if (w->until_ns && mono_ns() >= w->until_ns)
        return err_set(err, ERR_TIMEOUT, "the template is still being built by another call");
    if ((poll(&caller, 1, 0) == 1 && (!w->cancelled || w->cancelled(w->arg))) ||
        (w->progress && w->progress(NULL, w->arg) < 0))
        return err_code(err, ERR_UNAVAILABLE, "cancelled", "nobody waits for the template");
    return 0;
}

/* With the lock, which is not held while the caller is asked. */
static int await(struct engine *e, struct template_turns *t, const char *name,
                 const struct engine_watch *watch, struct err *err)
{
    while (!try_take(t, name)) {
        int64_t until = mono_ns() + LOOK_NS;
        struct timespec at = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
        int r;

        (void)pthread_cond_timedwait(&t->ended, &t->lock, &at);
        (void)pthread_mutex_unlock(&t->lock);
        r = still_wanted(e, watch, err);
        (void)pthread_mutex_lock(&t->lock);
        if (r < 0)
            return -1;
    }
    return 0;
}

int template_turn_begin(struct engine *e, struct template_turns *t, const char *name,
                        const struct engine_watch *watch, struct err *err)
{
    int r = 0;

    (void)pthread_mutex_lock(&t->lock);
    if (!try_take(t, name)) {
        r = long_work_begin(e, err);
        if (r == 0) {
            r = await(e, t, name, watch, err);
            long_work_end(e);
        }
    }
    (void)pthread_mutex_unlock(&t->lock);
    return r;
}

void template_turn_end(struct template_turns *t, const char *name)
{
    struct turn_of **at, *gone;

    (void)pthread_mutex_lock(&t->lock);
    at = find(t, name);
    gone = *at;
    if (gone) {
        *at = gone->next;
        free(gone->name);
        free(gone);
    }
    (void)pthread_cond_broadcast(&t->ended);
    (void)pthread_mutex_unlock(&t->lock);
}
