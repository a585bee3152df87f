#include "service/interpreter/cancelled.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"
#include "engine/exec.h"
#include "service/interpreter/driver.h"

#define STEPS_A_TURN 64 /* of one: then others have theirs */

struct run {
    struct run *next;
    char exec_id[ID_SIZE];
    struct driver *driver;
    int64_t until_ns;   /* of one that has begun: when more is done about it; 0 = it has not */
    bool again, killed; /* it was interrupted a second time; killed */
    bool more;
};

struct cancelled {
    pthread_t thread;
    int wake; /* eventfd */
    int64_t stop_ns;
    pthread_mutex_t lock;
    bool runs, stops; /* under it, as is what follows */
    struct run *come; /* the oldest first */
};

/* ---- one of them ---- */

static void run_free(struct run *r)
{
    driver_close(r->driver);
    free(r);
}

/* Is the driver through with it? */
static bool news_end(const struct driver_news *n)
{
    switch (n->what) {
    case DRIVER_READY:
    case DRIVER_RESULT:
    case DRIVER_EXCEPTION:
        json_decref(n->value);
        return false;
    case DRIVER_DONE:
    case DRIVER_CANCELLED:
    case DRIVER_LEFT:
    case DRIVER_ENDED:
        return true;
    case DRIVER_STARTED:
    case DRIVER_TEXT:
    case DRIVER_NOISE:
        return false;
    }
    abort();
}

/* Reads what has come. False when nothing is left to wait for. */
static bool run_read(struct run *r)
{
    struct driver_news news;
    struct err err = {0};

    r->more = false;
    for (int i = 0; i < STEPS_A_TURN; i++) {
        int n = driver_next(r->driver, &news, &err);

        if (n == 0)
            return true;
        if (n < 0) {
            /* Only its code can have done that, and runs of others would not be told apart. */
            if (err.code && strcmp(err.code, "context_broken") == 0)
                driver_kill(r->driver);
            return false;
        }
        if (news_end(&news))
            return false;
    }
    r->more = true;
    return true;
}

static bool run_goes_on(const struct cancelled *c, struct run *r)
{
    if (!run_read(r))
        return false;
    if (!driver_has_begun(r->driver))
        return true;
    if (r->until_ns && mono_ns() < r->until_ns)
        return true;
    if (r->killed) /* and whoever could tell its end does not */
        return false;
    if (r->again)
        driver_kill(r->driver);
    else if (r->until_ns)
        driver_interrupt(r->driver);
    r->killed = r->again;
    r->again = r->until_ns != 0;
    r->until_ns = mono_ns() + c->stop_ns / 2;
    return true;
}

/* ---- all of them ---- */

static void list_free(struct run *list)
{
    while (list) {
        struct run *next = list->next;

        run_free(list);
        list = next;
    }
}

/* Of the oldest ones it is long known that the driver had not begun them. */
static void drop_oldest(struct run **list, const char *exec_id)
{
    struct run **last = NULL, *old;
    size_t n = 0;

    for (struct run **at = list; *at; at = &(*at)->next) {
        if (strcmp((*at)->exec_id, exec_id) != 0 || (*at)->until_ns)
            continue;
        last = at;
        n++;
    }
    if (n <= CANCELLED_MAX)
        return;
    old = *last;
    *last = old->next;
    run_free(old);
}

/* Those that have come go to the front of the list: its end is the oldest. */
static bool take_come(struct cancelled *c, struct run **list)
{
    struct run *come, *next;
    uint64_t n;
    bool stops;

    (void)read(c->wake, &n, sizeof(n));
    pthread_mutex_lock(&c->lock);
    come = c->come;
    c->come = NULL;
    stops = c->stops;
    pthread_mutex_unlock(&c->lock);
    for (; come; come = next) {
        next = come->next;
        come->next = *list;
        *list = come;
        drop_oldest(list, come->exec_id);
    }
    return !stops;
}

static void step_all(const struct cancelled *c, struct run **list)
{
    for (struct run **at = list; *at;) {
        struct run *r = *at;

        if (run_goes_on(c, r)) {
            at = &r->next;
        } else {
            *at = r->next;
            run_free(r);
        }
    }
}

static int64_t sooner(int64_t a, int64_t b)
{
    return !a || (b && b < a) ? b : a;
}

static void wait_all(const struct cancelled *c, const struct run *list)
{
    struct pollfd *fds;
    int64_t until = 0, left = -1;
    bool more = false;
    size_t n = 1;

    for (const struct run *r = list; r; r = r->next)
        n++;
    fds = xcalloc(n, sizeof(*fds));
    fds[0] = (struct pollfd){.fd = c->wake, .events = POLLIN};
    n = 1;
    for (const struct run *r = list; r; r = r->next) {
        struct exec_wait w;

        driver_wait(r->driver, &w);
        fds[n].fd = w.events ? w.fd : -1;
        fds[n++].events =
            (short)((w.events & EPOLLIN ? POLLIN : 0) | (w.events & EPOLLOUT ? POLLOUT : 0));
        until = sooner(sooner(until, w.until_ns), r->until_ns);
        more |= r->more;
    }
    if (until)
        left = until > mono_ns() ? (until - mono_ns()) / 1000000 + 1 : 0;
    (void)poll(fds, n, more ? 0 : left > INT32_MAX ? INT32_MAX : (int)left);
    free(fds);
}

static void *serve(void *arg)
{
    struct cancelled *c = arg;
    struct run *list = NULL;

    while (take_come(c, &list)) {
        step_all(c, &list);
        wait_all(c, list);
    }
    step_all(c, &list); /* what has begun by now is interrupted, and on its own then */
    list_free(list);
    return NULL;
}

/* ---- for others ---- */

struct cancelled *cancelled_new(int64_t stop_ns)
{
    struct cancelled *c = xcalloc(1, sizeof(*c));

    c->wake = -1;
    c->stop_ns = stop_ns;
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

int cancelled_start(struct cancelled *c, struct err *err)
{
    int r;

    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->wake < 0)
        return err_sys(err, errno, "eventfd");
    r = pthread_create(&c->thread, NULL, serve, c);
    if (r != 0)
        return err_sys(err, r, "start the thread that waits for cancelled runs");
    pthread_mutex_lock(&c->lock);
    c->runs = true;
    pthread_mutex_unlock(&c->lock);
    return 0;
}

static void wake(struct cancelled *c)
{
    uint64_t one = 1;

    (void)write(c->wake, &one, sizeof(one));
}

void cancelled_stop(struct cancelled *c)
{
    bool runs;

    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    runs = c->runs;
    c->runs = false;
    c->stops = true;
    pthread_mutex_unlock(&c->lock);
    if (!runs)
        return;
    wake(c);
    (void)pthread_join(c->thread, NULL);
}

void cancelled_free(struct cancelled *c)
{
    if (!c)
        return;
    cancelled_stop(c);
    close_fd(&c->wake);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

void cancelled_take(struct cancelled *c, const char *exec_id, struct driver *d)
{
    struct run *r, **end;
    bool taken = false;

    driver_cancel(d);
    if (driver_is_over(d)) {
        driver_close(d);
        return;
    }
    r = xcalloc(1, sizeof(*r));
    (void)snprintf(r->exec_id, sizeof(r->exec_id), "%s", exec_id);
    r->driver = d;
    if (c) {
        pthread_mutex_lock(&c->lock);
        taken = c->runs;
        for (end = &c->come; taken && *end; end = &(*end)->next)
            ;
        if (taken)
            *end = r;
        pthread_mutex_unlock(&c->lock);
    }
    if (taken) {
        wake(c);
        return;
    }
    (void)run_read(r);
    run_free(r);
}
