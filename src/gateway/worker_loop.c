/* Descriptors and times of the worker: epoll, level triggered, and a heap of what is due. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "gateway/worker_internal.h"

#define EVENTS_A_ROUND 256
#define NS_A_MS        1000000

int source_set(struct worker *w, struct source *s, uint32_t interest)
{
    struct epoll_event e = {.events = interest, .data.ptr = s};
    int op = s->interest == 0 ? EPOLL_CTL_ADD : interest == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;

    if (s->fd < 0 || s->interest == interest)
        return 0;
    if (epoll_ctl(w->loop.epoll, op, s->fd, &e) < 0)
        return -errno;
    s->interest = interest;
    return 0;
}

/* Taken out of epoll first: the descriptor may be somebody else's copy too, whose file lives on. */
void source_close(struct worker *w, struct source *s)
{
    if (s->fd < 0)
        return;
    (void)source_set(w, s, 0);
    close_fd(&s->fd);
}

static void heap_put(struct loop *l, size_t slot, struct timer *t)
{
    l->heap[slot] = t;
    t->slot = slot;
}

static void heap_settle(struct loop *l, struct timer *t)
{
    size_t i = t->slot;

    while (i > 1 && l->heap[i / 2]->at > t->at) {
        heap_put(l, i, l->heap[i / 2]);
        i /= 2;
    }
    while (2 * i <= l->timers) {
        size_t child = 2 * i;

        if (child < l->timers && l->heap[child + 1]->at < l->heap[child]->at)
            child++;
        if (l->heap[child]->at >= t->at)
            break;
        heap_put(l, i, l->heap[child]);
        i = child;
    }
    heap_put(l, i, t);
}

void timer_set(struct worker *w, struct timer *t, int64_t after_ms)
{
    struct loop *l = &w->loop;

    t->at = mono_ns() + after_ms * NS_A_MS;
    if (t->slot == 0) {
        if (l->timers + 2 > l->heap_size) {
            l->heap_size = l->heap_size ? l->heap_size * 2 : 256;
            l->heap = xrealloc(l->heap, l->heap_size * sizeof(struct timer *));
        }
        heap_put(l, ++l->timers, t);
    }
    heap_settle(l, t);
}

void timer_stop(struct worker *w, struct timer *t)
{
    struct loop *l = &w->loop;
    struct timer *last;

    if (t->slot == 0)
        return;
    last = l->heap[l->timers--];
    if (last != t) {
        last->slot = t->slot;
        heap_settle(l, last);
    }
    t->slot = 0;
}

void bury(struct worker *w, struct grave *g)
{
    g->next = w->loop.graves;
    w->loop.graves = g;
}

int loop_init(struct worker *w)
{
    w->loop.epoll = epoll_create1(EPOLL_CLOEXEC);
    return w->loop.epoll < 0 ? -errno : 0;
}

static int until_next(const struct loop *l)
{
    int64_t left;

    if (l->timers == 0)
        return -1;
    left = l->heap[1]->at - mono_ns();
    return left <= 0 ? 0 : (int)(left / NS_A_MS) + 1;
}

int loop_round(struct worker *w)
{
    struct epoll_event events[EVENTS_A_ROUND];
    int n = epoll_wait(w->loop.epoll, events, EVENTS_A_ROUND, until_next(&w->loop));
    int64_t now;

    if (n < 0 && errno != EINTR)
        return -errno;
    for (int i = 0; i < n; i++) {
        struct source *s = events[i].data.ptr;

        if (s->fd >= 0 && s->interest != 0) /* else one before it in this round has closed it */
            s->ready(s, events[i].events);
    }
    now = mono_ns();
    while (w->loop.timers > 0 && w->loop.heap[1]->at <= now) {
        struct timer *t = w->loop.heap[1];

        timer_stop(w, t);
        t->fire(t);
    }
    while (w->loop.graves) {
        struct grave *g = w->loop.graves;

        w->loop.graves = g->next;
        free(g);
    }
    return 0;
}
