#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/ended.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/images_used_internal.h"
#include "engine/long_work_internal.h"
#include "engine/news_internal.h"
#include "engine/pulls_internal.h"
#include "engine/space_internal.h"
#include "engine/threads_internal.h"
#include "engine/watch.h"
#include "image/image.h"
#include "oci/reference.h"

struct pulls {
    pthread_mutex_t lock;
    pthread_cond_t idle;
    struct shared_pull *first; /* those that can be joined */
    unsigned running;          /* threads */
    struct ended ended;        /* of them */
    bool stop;
};

/* A pull runs in a thread of its own; requests only wait for it, so that any number of them can
 * share one and leave it at any time. What has happened is kept as the latest event of each kind
 * and layer: whoever comes late, or reads slowly, is told the state of things and then what
 * changes. */

#define TICK_MS    5000 /* between two looks whether a silent waiter is still there */
#define EVENTS_MAX 1024 /* kept of one pull */
#define PULLS_MAX  16   /* at a time: each is a process with buffers and connections */

struct pull_event {
    json_t *event;
    uint64_t serial;
};

struct shared_pull {
    struct engine *engine;
    struct shared_pull *next;
    unsigned refs; /* its waiters and its thread; all of this: pulls.lock */
    struct waiter *waiters;
    char *key; /* what it is shared by; NULL = it is not */
    struct image_pull what;
    char *reference, *name, *username, *password, *platform; /* what it points to */
    struct pull_event events[EVENTS_MAX];
    size_t n_events;
    uint64_t serial;
    bool done;
    int result;
    struct err err;
};

struct waiter {
    struct waiter *next;
    int wake_fd;
    uint64_t seen; /* serial of the last event that was passed on */
};

static char *copy_of(const char *s)
{
    return s ? xstrdup(s) : NULL;
}

static struct shared_pull *pull_new(struct engine *e, const struct image_pull *what, char *key)
{
    struct shared_pull *p = xcalloc(1, sizeof(*p));

    p->engine = e;
    p->key = key;
    p->reference = copy_of(what->reference);
    p->name = copy_of(what->name);
    p->username = copy_of(what->username);
    p->password = copy_of(what->password);
    p->platform = copy_of(what->platform);
    p->what = (struct image_pull){
        .reference = p->reference,
        .name = p->name,
        .username = p->username,
        .password = p->password,
        .insecure = what->insecure,
        .platform = p->platform,
    };
    return p;
}

/* Gives a reference back, under the lock. */
static void release(struct shared_pull *p)
{
    if (--p->refs > 0)
        return;
    for (size_t i = 0; i < p->n_events; i++)
        json_decref(p->events[i].event);
    if (p->password)
        explicit_bzero(p->password, strlen(p->password));
    free(p->key);
    free(p->reference);
    free(p->name);
    free(p->username);
    free(p->password);
    free(p->platform);
    free(p);
}

static void unlist(struct engine *e, const struct shared_pull *p)
{
    struct shared_pull **at = &e->pulls->first;

    while (*at && *at != p)
        at = &(*at)->next;
    if (*at)
        *at = p->next;
}

static void wake(const struct shared_pull *p)
{
    for (const struct waiter *w = p->waiters; w; w = w->next)
        (void)eventfd_write(w->wake_fd, 1);
}

/* ---- the thread of a pull ---- */

static bool same_subject(const json_t *a, const json_t *b)
{
    return json_equal(json_object_get(a, "event"), json_object_get(b, "event")) &&
           json_equal(json_object_get(a, "index"), json_object_get(b, "index"));
}

static void keep_event(struct shared_pull *p, const json_t *event)
{
    size_t i = 0;

    while (i < p->n_events && !same_subject(p->events[i].event, event))
        i++;
    if (i == EVENTS_MAX)
        return;
    if (i == p->n_events)
        p->n_events++;
    else
        json_decref(p->events[i].event);
    /* Of its own: other threads look at it while the worker's is gone. */
    p->events[i] = (struct pull_event){json_deep_copy(event), ++p->serial};
}

static int on_progress(const json_t *event, void *arg)
{
    struct shared_pull *p = arg;
    struct pulls *all = p->engine->pulls;
    int r;

    pthread_mutex_lock(&all->lock);
    r = p->waiters && !all->stop ? 0 : -1;
    if (r == 0 && event) {
        keep_event(p, event);
        wake(p);
    }
    pthread_mutex_unlock(&all->lock);
    return r;
}

static void finish(struct shared_pull *p, int result, const struct err *err)
{
    struct pulls *all = p->engine->pulls;

    pthread_mutex_lock(&all->lock);
    unlist(p->engine, p);
    p->done = true;
    p->result = result;
    p->err = *err;
    if (result < 0 && all->stop)
        (void)err_set(&p->err, ERR_UNAVAILABLE, "cay is stopping; try again when it runs");
    wake(p);
    release(p);
    pthread_mutex_unlock(&all->lock);
}

static void tell_pulled(struct engine *e, const struct image *image)
{
    log_info("image pulled", "name", image->name, "id", image->id);
    engine_tell(e, "image.pulled", "",
                json_pack("{s:s, s:s, s:I}", "name", image->name, "imageId", image->id, "size",
                          (json_int_t)image->size));
}

static void *pull_main(void *arg)
{
    struct shared_pull *p = arg;
    struct engine *e = p->engine;
    struct image *image = NULL;
    struct ended before;
    struct err err = {0};
    int r = image_pull(e->images, &p->what, on_progress, p, &image, &err);

    if (r == 0)
        tell_pulled(e, image);
    finish(p, r, &err);
    thread_is_background();
    images_collect(e); /* it may have replaced one */
    if (r == 0)
        images_keep_budget(e, image->id);
    image_free(image);
    pthread_mutex_lock(&e->pulls->lock);
    if (--e->pulls->running == 0)
        pthread_cond_broadcast(&e->pulls->idle);
    before = ended_swap(&e->pulls->ended);
    pthread_mutex_unlock(&e->pulls->lock);
    ended_join(before);
    return NULL;
}

static int start_thread(struct shared_pull *p, struct err *err)
{
    struct engine *e = p->engine;
    pthread_t thread;
    int r = pthread_create(&thread, NULL, pull_main, p);

    if (r != 0)
        return err_sys(err, r, "start the thread of a pull");
    p->refs++;
    e->pulls->running++;
    return 0;
}

/* ---- waiting ---- */

/* What makes two requests the same one. With credentials none is: what one may see another may not.
 */
static char *key_of(const struct image_pull *what)
{
    if (what->username || what->password)
        return NULL;
    return xasprintf("%s %s %s %d", what->reference, what->name ? what->name : "",
                     what->platform ? what->platform : "", what->insecure);
}

static struct shared_pull *find(struct engine *e, const char *key)
{
    struct shared_pull *p = key ? e->pulls->first : NULL;

    while (p && (!p->key || strcmp(p->key, key) != 0))
        p = p->next;
    return p;
}

static void attach(struct shared_pull *p, struct waiter *w)
{
    w->next = p->waiters;
    p->waiters = w;
    p->refs++;
}

static int join(struct engine *e, const struct image_pull *what, struct waiter *w,
                struct shared_pull **ret, struct err *err)
{
    char *key = key_of(what);
    struct shared_pull *p = find(e, key);

    if (e->pulls->stop) {
        free(key);
        return err_set(err, ERR_UNAVAILABLE, "cay is stopping; try again when it runs");
    }
    if (p) {
        free(key);
        attach(p, w);
        *ret = p;
        return 0;
    }
    if (e->pulls->running >= PULLS_MAX) {
        free(key);
        return err_code(err, ERR_LIMIT, "pull_limit",
                        "%d images are being pulled already; try again when one is here",
                        PULLS_MAX);
    }
    p = pull_new(e, what, key);
    attach(p, w); /* first: a pull without waiters ends */
    if (start_thread(p, err) < 0) {
        release(p);
        return -1;
    }
    p->next = e->pulls->first;
    e->pulls->first = p;
    *ret = p;
    return 0;
}

static void leave(struct engine *e, struct shared_pull *p, struct waiter *w)
{
    struct waiter **at;

    pthread_mutex_lock(&e->pulls->lock);
    for (at = &p->waiters; *at != w; at = &(*at)->next)
        ;
    *at = w->next;
    /* It ends at its next event; who comes now starts another. */
    if (!p->waiters)
        unlist(e, p);
    release(p);
    pthread_mutex_unlock(&e->pulls->lock);
}

/* The oldest event that the waiter has not seen, or NULL; *ret_done when there will be none. */
static json_t *next_event(struct engine *e, struct shared_pull *p, struct waiter *w, bool *ret_done)
{
    const struct pull_event *next = NULL;
    json_t *event = NULL;

    pthread_mutex_lock(&e->pulls->lock);
    for (size_t i = 0; i < p->n_events; i++)
        if (p->events[i].serial > w->seen && (!next || p->events[i].serial < next->serial))
            next = &p->events[i];
    if (next) {
        w->seen = next->serial;
        event = json_deep_copy(next->event);
    }
    *ret_done = p->done;
    pthread_mutex_unlock(&e->pulls->lock);
    return event;
}

static int gone(struct err *err)
{
    return err_code(err, ERR_CONFLICT, "cancelled", "the caller went away");
}

static int tell(const struct engine_watch *watch, const json_t *event, struct err *err)
{
    if (watch && watch->progress && watch->progress(event, watch->arg) < 0)
        return gone(err);
    return 0;
}

/* How long to wait for news at once. */
static int patience_ms(const struct engine_watch *watch)
{
    int64_t left;

    if (!watch || !watch->until_ns)
        return TICK_MS;
    left = (watch->until_ns - mono_ns() + 999999) / 1000000;
    return left < 0 ? 0 : left < TICK_MS ? (int)left : TICK_MS;
}

static bool is_late(const struct engine_watch *watch)
{
    return watch && watch->until_ns && mono_ns() >= watch->until_ns;
}

/* Until there is news, looking at the caller's connection meanwhile. */
static int wait_news(struct waiter *w, const struct engine_watch *watch, struct pollfd *caller,
                     struct err *err)
{
    struct pollfd p[2] = {{.fd = w->wake_fd, .events = POLLIN}, *caller};
    eventfd_t count;
    int n = poll(p, 2, patience_ms(watch));

    if (n < 0)
        return errno == EINTR ? 0 : err_sys(err, errno, "wait for a pull");
    if (is_late(watch))
        return gone(err);
    if (n == 0)
        return tell(watch, NULL, err);
    if (p[1].revents) {
        if (!watch->cancelled || watch->cancelled(watch->arg))
            return gone(err);
        caller->fd = -1; /* only half of it is closed: not asked again */
    }
    if (p[0].revents)
        (void)eventfd_read(w->wake_fd, &count);
    return 0;
}

static int wait_for(struct engine *e, struct shared_pull *p, struct waiter *w,
                    const struct engine_watch *watch, struct err *err)
{
    struct pollfd caller = {.fd = watch ? watch->cancel_fd : -1, .events = POLLRDHUP};

    for (;;) {
        bool done;
        json_t *event = next_event(e, p, w, &done);
        int r = event ? tell(watch, event, err) : done ? 0 : wait_news(w, watch, &caller, err);

        json_decref(event);
        if (r < 0)
            return -1;
        if (!event && done)
            break;
    }
    if (p->result < 0 && err)
        *err = p->err;
    return p->result;
}

int pulls_run(struct engine *e, const struct image_pull *what, const struct engine_watch *watch,
              struct err *err)
{
    struct waiter w = {.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    auto_close int wake_fd = w.wake_fd;
    struct shared_pull *p = NULL;
    int r;

    if (wake_fd < 0)
        return err_sys(err, errno, "make a descriptor to wait for a pull");
    if (space_check(e, err) < 0 || long_work_begin(e, err) < 0)
        return -1;
    pthread_mutex_lock(&e->pulls->lock);
    r = join(e, what, &w, &p, err);
    pthread_mutex_unlock(&e->pulls->lock);
    if (r == 0) {
        r = wait_for(e, p, &w, watch, err);
        leave(e, p, &w);
    }
    long_work_end(e);
    return r;
}

/* ---- start and stop ---- */

struct pulls *pulls_new(void)
{
    struct pulls *p = xcalloc(1, sizeof(*p));

    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->idle, NULL);
    return p;
}

void pulls_free(struct pulls *p)
{
    if (!p)
        return;
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->idle);
    free(p);
}

void engine_drain(struct engine *e)
{
    atomic_store(&e->draining, true);
    pthread_mutex_lock(&e->pulls->lock);
    e->pulls->stop = true;
    pthread_mutex_unlock(&e->pulls->lock);
}

void pulls_stop(struct engine *e)
{
    struct ended last;

    engine_drain(e);
    pthread_mutex_lock(&e->pulls->lock);
    while (e->pulls->running > 0)
        pthread_cond_wait(&e->pulls->idle, &e->pulls->lock);
    last = e->pulls->ended;
    e->pulls->ended = (struct ended){0};
    pthread_mutex_unlock(&e->pulls->lock);
    ended_join(last);
}
