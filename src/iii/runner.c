#include "iii/runner.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/clock.h"
#include "base/ended.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"

/* Threads take work from queues. One more thread, the watcher, has the descriptors of all that
 * waits in one epoll set, and alone takes work out of there: so what epoll has told of is still
 * there when it is looked at. Who wakes something that waits puts it on a list for the watcher. */

#define STACK_BYTES (256u << 10) /* as a worker of the HTTP server has: the same functions run */
#define LEISURE_S   10           /* without work; then a thread leaves */
#define EVENTS      64

enum work_state { WORK_IDLE, WORK_QUEUED, WORK_RUNS, WORK_WAITS, WORK_WOKEN };

struct runner_share {
    atomic_uint refs;
    /* under the lock of the runner: */
    struct work *first, **last; /* that are queued */
    struct runner_share *next;
    unsigned running;
};

struct runner {
    pthread_mutex_t lock;
    pthread_cond_t queued;                   /* for threads without work */
    pthread_cond_t settled;                  /* a thread has left */
    struct runner_share own;                 /* of the daemon's work, which is short */
    struct runner_share *turns, **turns_end; /* those who have work that is queued */
    struct work *waiting;                    /* also those that are woken */
    struct work *woken;                      /* by their next_woken */
    unsigned threads, threads_max, idle, busy;
    bool called; /* a thread without work, or a new one, is about to look for some */
    bool stops, watches;
    struct ended ended; /* of the threads */
    pthread_t watcher;
    int epoll_fd, wake_fd;
};

/* ---- the queue; under the lock ---- */

static void *take_work(void *arg);

static bool may_run(const struct runner *r, const struct runner_share *s)
{
    return r->stops || s == &r->own || s->running < r->threads_max - r->busy;
}

/* Those that may not have a thread each: so there are fewer of them than threads. */
static struct runner_share **next_turn(struct runner *r)
{
    struct runner_share **at = &r->turns;

    while (*at && !may_run(r, *at))
        at = &(*at)->next;
    return at;
}

static void add_turn(struct runner *r, struct runner_share *s)
{
    s->next = NULL;
    *r->turns_end = s;
    r->turns_end = &s->next;
}

static bool add_thread(struct runner *r)
{
    pthread_attr_t how;
    pthread_t thread;
    bool made;

    (void)pthread_attr_init(&how);
    (void)pthread_attr_setstacksize(&how, STACK_BYTES);
    made = pthread_create(&thread, &how, take_work, r) == 0;
    r->threads += made; /* else those that are there do it all */
    (void)pthread_attr_destroy(&how);
    return made;
}

/* Has a thread look for work, if there is some. One is on its way at a time: what it leaves, the
 * next is called for. */
static void call_thread(struct runner *r)
{
    if (r->called || !*next_turn(r))
        return;
    if (r->idle > 0) {
        r->called = true;
        (void)pthread_cond_signal(&r->queued);
    } else if (r->threads < r->threads_max) {
        r->called = add_thread(r);
    }
}

static void put(struct runner *r, struct work *w)
{
    struct runner_share *s = w->share ? w->share : &r->own;

    w->state = WORK_QUEUED;
    w->again = false;
    w->next = NULL;
    if (!s->first)
        add_turn(r, s);
    *s->last = w;
    s->last = &w->next;
    call_thread(r);
}

/* Whose it is has a reference until put_back(). */
static struct work *take(struct runner *r, struct runner_share **ret)
{
    struct runner_share **at = next_turn(r), *s = *at;
    struct work *w;

    if (!s)
        return NULL;
    *at = s->next;
    if (!*at)
        r->turns_end = at;
    w = s->first;
    s->first = w->next;
    if (s->first)
        add_turn(r, s); /* behind the others */
    else
        s->last = &s->first;
    atomic_fetch_add(&s->refs, 1);
    s->running++;
    r->busy++;
    w->next = NULL;
    w->state = WORK_RUNS;
    *ret = s;
    return w;
}

static void put_back(struct runner *r, struct runner_share *s)
{
    s->running--;
    r->busy--;
    runner_share_unref(s);
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
    while (!*next_turn(r) && !r->stops && late == 0) {
        late = pthread_cond_timedwait(&r->queued, &r->lock, &until);
        r->called = false; /* for whomever it was: this one looks */
    }
    r->idle--;
    return *next_turn(r);
}

static void *take_work(void *arg)
{
    struct runner *r = arg;
    struct ended before;

    (void)pthread_mutex_lock(&r->lock);
    r->called = false;
    do {
        struct runner_share *s;
        struct work *w;

        while ((w = take(r, &s))) {
            call_thread(r);
            (void)pthread_mutex_unlock(&r->lock);
            w->run(w); /* which may have freed it */
            (void)pthread_mutex_lock(&r->lock);
            put_back(r, s);
        }
    } while (wait_for_work(r));
    r->threads--;
    before = ended_swap(&r->ended);
    (void)pthread_cond_signal(&r->settled);
    (void)pthread_mutex_unlock(&r->lock);
    ended_join(before);
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

/* ---- shares ---- */

static void share_init(struct runner_share *s)
{
    atomic_init(&s->refs, 1);
    s->last = &s->first;
}

struct runner_share *runner_share_new(void)
{
    struct runner_share *s = xcalloc(1, sizeof(*s));

    share_init(s);
    return s;
}

void runner_share_unref(struct runner_share *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1)
        free(s);
}

/* ---- life ---- */

struct runner *runner_new(unsigned threads_max)
{
    struct runner *r = xcalloc(1, sizeof(*r));

    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_cond_init(&r->queued, NULL);
    (void)pthread_cond_init(&r->settled, NULL);
    share_init(&r->own);
    r->turns_end = &r->turns;
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
    struct ended last;

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
    while (r->threads > 0 || r->turns) {
        if (r->threads == 0)
            (void)add_thread(r);
        (void)pthread_cond_wait(&r->settled, &r->lock);
    }
    last = r->ended;
    r->ended = (struct ended){0};
    (void)pthread_mutex_unlock(&r->lock);
    ended_join(last);
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
