#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "rest/proxy_internal.h"

/* Connections to servers in sandboxes that wait for the next request, and how many requests each
 * sandbox has. A thread looks at those that wait once a second while there are any: one whose
 * server has closed it, or that has waited for long, goes. So nothing of a sandbox that ended is
 * held for longer than that. */

#define BUCKETS      256
#define IDLE_MAX     256 /* of all sandboxes */
#define IDLE_A_PLACE 64
#define IDLE_NS      (10 * 1000000000ll)
#define REQUESTS_MAX 512 /* of a sandbox */

struct idle {
    int fd;
    uint16_t port;
    int64_t since_ns;
    struct idle *next;
};

/* A sandbox that has requests or connections. */
struct place {
    char id[ID_SIZE];
    unsigned requests, n_idle;
    struct idle *idle; /* the youngest first */
    struct place *next;
};

struct proxy_pool {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, stopping;
    bool resting; /* the thread has nothing to look at */
    unsigned n_idle;
    struct place *buckets[BUCKETS];
};

/* ---- places, with the lock held ---- */

static struct place **find(struct proxy_pool *p, const char *id)
{
    struct place **at = &p->buckets[str_hash(id) % BUCKETS];

    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

static struct place *find_or_add(struct proxy_pool *p, const char *id)
{
    struct place **at = find(p, id);

    if (!*at) {
        *at = xcalloc(1, sizeof(**at));
        (void)snprintf((*at)->id, ID_SIZE, "%s", id);
    }
    return *at;
}

static void forget_if_empty(struct place **at)
{
    struct place *place = *at;

    if (place && place->requests == 0 && !place->idle) {
        *at = place->next;
        free(place);
    }
}

static int unlink_idle(struct proxy_pool *p, struct place *place, struct idle **at)
{
    struct idle *idle = *at;
    int fd = idle->fd;

    *at = idle->next;
    free(idle);
    place->n_idle--;
    p->n_idle--;
    return fd;
}

/* ---- the thread ---- */

/* Has its server closed it, or said something unasked? */
static bool is_quiet(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void sweep(struct proxy_pool *p, bool all)
{
    int64_t now = mono_ns();

    for (size_t i = 0; i < BUCKETS; i++) {
        struct place **at = &p->buckets[i];

        while (*at) {
            struct place *place = *at;

            for (struct idle **idle = &place->idle; *idle;) {
                if (all || now - (*idle)->since_ns > IDLE_NS || !is_quiet((*idle)->fd))
                    proxied_close(unlink_idle(p, place, idle));
                else
                    idle = &(*idle)->next;
            }
            forget_if_empty(at);
            if (*at == place)
                at = &place->next;
        }
    }
}

static void *pool_main(void *arg)
{
    struct proxy_pool *p = arg;

    (void)pthread_mutex_lock(&p->lock);
    while (!p->stopping) {
        if (p->n_idle == 0) {
            p->resting = true;
            (void)pthread_cond_wait(&p->changed, &p->lock);
            p->resting = false;
        } else {
            int64_t until = mono_ns() + 1000000000;
            struct timespec ts = {until / 1000000000, until % 1000000000};

            (void)pthread_cond_timedwait(&p->changed, &p->lock, &ts);
            sweep(p, false);
        }
    }
    sweep(p, true);
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct proxy_pool *proxy_pool_new(void)
{
    struct proxy_pool *p = xcalloc(1, sizeof(*p));
    pthread_condattr_t attr;

    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&p->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    return p;
}

void proxy_pool_free(struct proxy_pool *p)
{
    bool started;

    if (!p)
        return;
    (void)pthread_mutex_lock(&p->lock);
    p->stopping = true;
    started = p->started;
    (void)pthread_cond_signal(&p->changed);
    (void)pthread_mutex_unlock(&p->lock);
    if (started)
        (void)pthread_join(p->thread, NULL);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct place *place = p->buckets[i], *next; place; place = next) {
            next = place->next;
            free(place);
        }
    }
    (void)pthread_cond_destroy(&p->changed);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

/* With the lock held. A daemon that passes nothing on has no such thread. */
static bool has_thread(struct proxy_pool *p)
{
    pthread_attr_t attr;
    sigset_t all;

    if (p->started)
        return true;
    (void)sigfillset(&all);
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setsigmask_np(&attr, &all); /* signals are the main thread's */
    p->started = pthread_create(&p->thread, &attr, pool_main, p) == 0;
    (void)pthread_attr_destroy(&attr);
    return p->started;
}

/* ---- calls ---- */

int proxy_pool_enter(struct proxy_pool *p, const char *id, struct err *err)
{
    struct place *place;
    int r = 0;

    (void)pthread_mutex_lock(&p->lock);
    place = find_or_add(p, id);
    if (place->requests >= REQUESTS_MAX)
        r = err_code(err, ERR_LIMIT, "too_many_streams",
                     "the sandbox has as many requests and open connections as it may (%d)",
                     REQUESTS_MAX);
    else
        place->requests++;
    (void)pthread_mutex_unlock(&p->lock);
    return r;
}

void proxy_pool_leave(struct proxy_pool *p, const char *id)
{
    struct place **at;

    (void)pthread_mutex_lock(&p->lock);
    at = find(p, id);
    if (*at) {
        (*at)->requests--;
        forget_if_empty(at);
    }
    (void)pthread_mutex_unlock(&p->lock);
}

static int take_any(struct proxy_pool *p, const char *id, uint16_t port)
{
    struct place *place;
    int fd = -1;

    (void)pthread_mutex_lock(&p->lock);
    place = *find(p, id);
    for (struct idle **at = place ? &place->idle : NULL; at && *at; at = &(*at)->next) {
        if ((*at)->port == port) {
            fd = unlink_idle(p, place, at);
            break;
        }
    }
    (void)pthread_mutex_unlock(&p->lock);
    return fd;
}

int proxy_pool_take(struct proxy_pool *p, const char *id, uint16_t port)
{
    int fd;

    while ((fd = take_any(p, id, port)) >= 0 && !is_quiet(fd))
        proxied_close(fd);
    return fd;
}

void proxy_pool_put(struct proxy_pool *p, const char *id, uint16_t port, int fd)
{
    struct place *place;
    bool kept = false;

    (void)pthread_mutex_lock(&p->lock);
    if (!p->stopping && p->n_idle < IDLE_MAX && has_thread(p)) {
        place = find_or_add(p, id);
        if (place->n_idle < IDLE_A_PLACE) {
            struct idle *idle = xmalloc(sizeof(*idle));

            *idle = (struct idle){fd, port, mono_ns(), place->idle};
            place->idle = idle;
            place->n_idle++;
            kept = true;
            p->n_idle++;
            if (p->resting)
                (void)pthread_cond_signal(&p->changed);
        }
    }
    (void)pthread_mutex_unlock(&p->lock);
    if (!kept)
        proxied_close(fd);
}
