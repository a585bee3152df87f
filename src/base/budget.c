#include "base/budget.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

#define TRIM_FROM (16u << 20)

void budget_init(struct budget *b, size_t max)
{
    pthread_condattr_t attr;

    (void)pthread_mutex_init(&b->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&b->freed, &attr);
    (void)pthread_condattr_destroy(&attr);
    b->max = max;
    b->used = 0;
    b->waiting = 0;
    b->shares = NULL;
}

void budget_done(struct budget *b)
{
    (void)pthread_cond_destroy(&b->freed);
    (void)pthread_mutex_destroy(&b->lock);
}

bool budget_take(struct budget *b, size_t n)
{
    return budget_wait(b, n, 0);
}

static bool has_room(const struct budget *b, size_t n)
{
    return b->used <= b->max && n <= b->max - b->used;
}

/* With the lock held. */
static bool await_room(struct budget *b, size_t n, int64_t until_ns)
{
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    int r = 0;

    if (has_room(b, n))
        return true;
    if (until_ns == 0 || b->waiting >= BUDGET_WAITERS_MAX)
        return false;
    b->waiting++;
    while (r == 0 && !has_room(b, n))
        r = pthread_cond_timedwait(&b->freed, &b->lock, &until);
    b->waiting--;
    return has_room(b, n);
}

bool budget_wait(struct budget *b, size_t n, int64_t until_ns)
{
    bool room;

    if (!b)
        return true;
    (void)pthread_mutex_lock(&b->lock);
    room = await_room(b, n, until_ns);
    if (room)
        b->used += n;
    (void)pthread_mutex_unlock(&b->lock);
    return room;
}

void budget_add(struct budget *b, size_t n)
{
    if (!b || n == 0)
        return;
    (void)pthread_mutex_lock(&b->lock);
    b->used += n;
    (void)pthread_mutex_unlock(&b->lock);
}

void budget_give(struct budget *b, size_t n)
{
    if (!b || n == 0)
        return;
    (void)pthread_mutex_lock(&b->lock);
    b->used -= n;
    (void)pthread_cond_broadcast(&b->freed);
    (void)pthread_mutex_unlock(&b->lock);
}

/* ---- shares ---- */

/* Of those who have something; who asked last is the first. */
struct budget_share {
    struct budget_share *next;
    size_t used;
    char who[];
};

/* With the lock held: takes it out of the list, or makes it. */
static struct budget_share *share_take(struct budget *b, const char *who)
{
    struct budget_share **at = &b->shares, *s;

    while (*at && strcmp((*at)->who, who) != 0)
        at = &(*at)->next;
    s = *at;
    if (s) {
        *at = s->next;
        return s;
    }
    s = xcalloc(1, sizeof(*s) + strlen(who) + 1);
    memcpy(s->who, who, strlen(who) + 1);
    return s;
}

static void share_put(struct budget *b, struct budget_share *s)
{
    if (s->used == 0) {
        free(s);
        return;
    }
    s->next = b->shares;
    b->shares = s;
}

bool budget_take_share(struct budget *b, const char *who, size_t n)
{
    struct budget_share *s;
    bool room;

    if (!b)
        return true;
    (void)pthread_mutex_lock(&b->lock);
    s = share_take(b, who);
    room = has_room(b, n) && s->used + n <= b->max / 2;
    b->used += room ? n : 0;
    s->used += room ? n : 0;
    share_put(b, s);
    (void)pthread_mutex_unlock(&b->lock);
    return room;
}

void budget_add_share(struct budget *b, const char *who, size_t n)
{
    struct budget_share *s;

    if (!b || n == 0)
        return;
    (void)pthread_mutex_lock(&b->lock);
    s = share_take(b, who);
    b->used += n;
    s->used += n;
    share_put(b, s);
    (void)pthread_mutex_unlock(&b->lock);
}

void budget_give_share(struct budget *b, const char *who, size_t n)
{
    struct budget_share *s;

    if (!b || n == 0)
        return;
    (void)pthread_mutex_lock(&b->lock);
    s = share_take(b, who);
    s->used -= n;
    share_put(b, s);
    (void)pthread_mutex_unlock(&b->lock);
    budget_give(b, n);
}

bool budget_is_tight(struct budget *b)
{
    bool tight;

    if (!b)
        return false;
    (void)pthread_mutex_lock(&b->lock);
    tight = b->used > b->max / 2;
    (void)pthread_mutex_unlock(&b->lock);
    return tight;
}

void memory_trim(void)
{
    if (mallinfo2().fordblks >= TRIM_FROM)
        (void)malloc_trim(0);
}
