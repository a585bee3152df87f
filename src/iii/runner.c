#include "iii/runner.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"

/* Threads take work from a queue. One more thread, the watcher, has the descriptors of all that
 * waits in one epoll set, and alone takes work out of there: so what epoll has told of is still
 * there when it is looked at. Who wakes something that waits puts it on a list for the watcher. */

#define STACK_BYTES (256u << 10) /* as a worker of the HTTP server has: the same functions run */
#define LEISURE_S   10           /* without work; then a thread leaves */
#define EVENTS      64

enum work_state { WORK_IDLE, WORK_QUEUED, WORK_RUNS, WORK_WAITS, WORK_WOKEN };

struct runner {
    pthread_mutex_t lock;
    pthread_cond_t queued;  /* for threads without work */
    pthread_cond_t settled; /* a thread has left */
    struct work *first, **last;
    struct work *waiting; /* also those that are woken */
    struct work *woken;   /* by their next_woken */
    unsigned waits;       /* how many are queued */
    unsigned threads, threads_max, idle;
    bool stops, watches;
    pthread_t watcher;
    int epoll_fd, wake_fd;
};

/* ---- the queue; under the lock ---- */

static void *take_work(void *arg);

static void add_thread(struct runner *r)
{
    pthread_attr_t how;
    pthread_t thread;

    (void)pthread_attr_init(&how);
    (void)pthread_attr_setstacksize(&how, STACK_BYTES);
    (void)pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &how, take_work, r) == 0)
        r->threads++; /* else those that are there do it all */
    (void)pthread_attr_destroy(&how);
}

static void put(struct runner *r, struct work *w)
{
    w->state = WORK_QUEUED;
    w->again = false;
    w->next = NULL;
    *r->last = w;
    r->last = &w->next;
    r->waits++;
    /* One that was signalled is idle until it has woken, and takes one only. */
    if (r->waits > r->idle && r->threads < r->threads_max)
        add_thread(r);
    else
        (void)pthread_cond_signal(&r->queued);
}

static struct work *take(struct runner *r)
{
    struct work *w = r->first;

    if (!w)
        return NULL;
    r->first = w->next;
    if (!r->first)
        r->last = &r->first;
    r->waits--;
    w->next = NULL;
    w->state = WORK_RUNS;
    return w;
}

/* ---- threads ---- */

/* False when nothing came for a while, or all is over. */
static bool wait_for_work(struct runner *r)
{
    struct timespec until;
    int late = 0;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LEISURE_S;
    r->idle++;
    while (!r->first && !r->stops && late == 0)
        late = pthread_cond_timedwait(&r->queued, &r->lock, &until);
    r->idle--;
    return r->first;
}

static void *take_work(void *arg)
{
    struct runner *r = arg;

    (void)pthread_mutex_lock(&r->lock);
    do {
        struct work *w;

        while ((w = take(r))) {
            (void)pthread_mutex_unlock(&r->lock);
            w->run(w); /* which may have freed it */
            (void)pthread_mutex_lock(&r->lock);
        }
    } while (wait_for_work(r));
    r->threads--;
    (void)pthread_cond_signal(&r->settled);
    (void)pthread_mutex_unlock(&r->lock);
    return NULL;
}

void runner_add(struct runner *r, struct work *w)
{
    (void)pthread_mutex_lock(&r->lock);
    put(r, w);
    (void)pthread_mutex_unlock(&r->lock);
}

/* ---- waiting; under the lock ---- */

static void leave(struct runner *r, struct work *w)
{
    if (w->fd >= 0)
        (void)epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
    if (w->prev)
        w->prev->next = w->next;
    else
        r->waiting = w->next;
    if (w->next)
        w->next->prev = w->prev;
    w->prev = NULL;
    put(r, w);
}

static bool watch(struct runner *r, struct work *w, uint32_t events)
{
    struct epoll_event e = {.events = events | EPOLLONESHOT, .data.ptr = w};

    return w->fd < 0 || epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, w->fd, &e) == 0;
}

/* Must the watcher look at its times anew? */
static bool is_soonest(const struct runner *r, const struct work *w)
{
    for (const struct work *o = r->waiting; o && w->until_ns; o = o->next)
        if (o != w && o->until_ns && o->until_ns <= w->until_ns)
            return false;
    return w->until_ns != 0;
}

void runner_wait(struct runner *r, struct work *w, int fd, uint32_t events, int64_t until_ns)
{
    bool poke = false;

    (void)pthread_mutex_lock(&r->lock);
    w->fd = events ? fd : -1;
    w->until_ns = until_ns;
    /* A descriptor that cannot be waited for is looked at at once. */
    if (w->again || r->stops || !watch(r, w, events)) {
        put(r, w);
    } else {
        w->state = WORK_WAITS;
        w->prev = NULL;
        w->next = r->waiting;
        if (w->next)
            w->next->prev = w;
        r->waiting = w;
        poke = is_soonest(r, w);
    }
    (void)pthread_mutex_unlock(&r->lock);
    if (poke)
        (void)eventfd_write(r->wake_fd, 1);
}

void runner_wake(struct runner *r, struct work *w)
{
    bool poke = false;

    (void)pthread_mutex_lock(&r->lock);
    if (w->state == WORK_WAITS) {
        w->state = WORK_WOKEN;
        w->next_woken = r->woken;
        r->woken = w;
        poke = true;
    } else if (w->state == WORK_RUNS) {
        w->again = true;
    }
    (void)pthread_mutex_unlock(&r->lock);
    if (poke)
        (void)eventfd_write(r->wake_fd, 1);
}

/* ---- the watcher ---- */

static int wait_ms(const struct runner *r)
{
    int64_t soonest = 0, left;

    for (const struct work *w = r->waiting; w; w = w->next)
        if (w->until_ns && (!soonest || w->until_ns < soonest))
            soonest = w->until_ns;
    if (!soonest)
        return -1;
    left = (soonest - mono_ns() + 999999) / 1000000;
    return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

static void take_woken(struct runner *r)
{
    while (r->woken) {
        struct work *w = r->woken;

        r->woken = w->next_woken;
        leave(r, w);
    }
}

static void take_late(struct runner *r, bool all)
{
    int64_t now = mono_ns();

    for (struct work *w = r->waiting, *next; w; w = next) {
        next = w->next;
        if (all || (w->until_ns && w->until_ns <= now))
            leave(r, w);
    }
}

/* Under the lock: what is woken stays in the list until take_woken(). */
static void take_ready(struct runner *r, const struct epoll_event *e, int n)
{
    for (int i = 0; i < n; i++) {
        struct work *w = e[i].data.ptr;

        if (w && w->state == WORK_WAITS)
            leave(r, w);
    }
}

static void *watch_all(void *arg)
{
    struct runner *r = arg;
    struct epoll_event e[EVENTS];
    eventfd_t count;

    (void)pthread_mutex_lock(&r->lock);
    while (!r->stops) {
        int ms = wait_ms(r), n;

        (void)pthread_mutex_unlock(&r->lock);
        n = epoll_wait(r->epoll_fd, e, EVENTS, ms);
        (void)eventfd_read(r->wake_fd, &count);
        (void)pthread_mutex_lock(&r->lock);
        take_ready(r, e, n);
        take_woken(r);
        take_late(r, false);
    }
    take_woken(r);
    take_late(r, true);
    (void)pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* ---- life ---- */

struct runner *runner_new(unsigned threads_max)
{
    struct runner *r = xcalloc(1, sizeof(*r));

    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_cond_init(&r->queued, NULL);
    (void)pthread_cond_init(&r->settled, NULL);
    r->last = &r->first;
    r->threads_max = threads_max;
    r->epoll_fd = r->wake_fd = -1;
    return r;
}

int runner_start(struct runner *r, struct err *err)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};

    r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    r->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->epoll_fd < 0 || r->wake_fd < 0 ||
        epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, r->wake_fd, &e) < 0)
        return err_sys(err, errno, "make an epoll set");
    if (pthread_create(&r->watcher, NULL, watch_all, r) != 0)
        return err_set(err, ERR_UNAVAILABLE, "cannot start a thread");
    r->watches = true;
    return 0;
}

void runner_stop(struct runner *r)
{
    (void)pthread_mutex_lock(&r->lock);
    r->stops = true;
    (void)pthread_mutex_unlock(&r->lock);
    if (r->watches) {
        (void)eventfd_write(r->wake_fd, 1);
        (void)pthread_join(r->watcher, NULL);
    }
    r->watches = false;
    (void)pthread_mutex_lock(&r->lock);
    (void)pthread_cond_broadcast(&r->queued);
    while (r->threads > 0 || r->first) {
        if (r->threads == 0)
            add_thread(r);
        (void)pthread_cond_wait(&r->settled, &r->lock);
    }
    (void)pthread_mutex_unlock(&r->lock);
}

bool runner_stops(struct runner *r)
{
    bool stops;

    (void)pthread_mutex_lock(&r->lock);
    stops = r->stops;
    (void)pthread_mutex_unlock(&r->lock);
    return stops;
}

void runner_free(struct runner *r)
{
    if (!r)
        return;
    close_fd(&r->epoll_fd);
    close_fd(&r->wake_fd);
    (void)pthread_cond_destroy(&r->settled);
    (void)pthread_cond_destroy(&r->queued);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}
