#include "engine/turn_internal.h"

#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "engine/engine_internal.h"
#include "engine/long_work_internal.h"
#include "engine/threads_internal.h"

void turn_init(struct turn *t)
{
    pthread_mutex_init(&t->lock, NULL);
    cond_init_monotonic(&t->given);
    t->taken = false;
}

void turn_done(struct turn *t)
{
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->given);
}

/* until NULL = for ever; a time that is past = not at all. */
static bool take(struct turn *t, const struct timespec *until)
{
    bool mine;

    pthread_mutex_lock(&t->lock);
    while (t->taken)
        if ((until ? pthread_cond_timedwait(&t->given, &t->lock, until)
                   : pthread_cond_wait(&t->given, &t->lock)) != 0)
            break;
    mine = !t->taken;
    t->taken = true;
    pthread_mutex_unlock(&t->lock);
    return mine;
}

bool turn_try(struct turn *t)
{
    return take(t, &(struct timespec){0});
}

int turn_take(struct engine *e, struct turn *t, struct err *err)
{
    int64_t until = mono_ns() + e->config.waits.turn * 1000000ll;
    struct timespec at = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    bool mine;

    if (turn_try(t))
        return 0;
    if (long_work_begin(e, err) < 0)
        return -1;
    mine = take(t, &at);
    long_work_end(e);
    if (mine)
        return 0;
    return err_code(err, ERR_UNAVAILABLE, "sandbox_busy",
                    "another call changes this sandbox, and is not done yet; try again later");
}

void turn_await(struct turn *t)
{
    (void)take(t, NULL);
}

void turn_give(struct turn *t)
{
    pthread_mutex_lock(&t->lock);
    t->taken = false;
    pthread_cond_signal(&t->given);
    pthread_mutex_unlock(&t->lock);
}
