#include "mcp/watching.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "functions/callers.h"
#include "functions/input.h"
#include "mcp/face_internal.h"
#include "mcp/uri.h"

/* The thread waits for all tasks at once, without the lock, and steps those that can go on with it.
 * Who ends a subscription takes its task out under the lock and wakes the thread; a descriptor that
 * was closed while it was waited for costs a look. Lock before the server's, which mcp_updated()
 * takes. */

#define WATCHES_MAX 1024 /* in all, and half for one token; a sandbox has a bound for its files */

struct watch {
    struct sink sink; /* first: the sink's functions get it */
    struct call call;
    struct caller caller;
    struct mcp_server *server;
    struct mcp_subscription *sub;
    struct err err;
    bool changed, ended;
    struct watch *prev, *next;
};

struct mcp_watcher {
    pthread_mutex_t lock;
    pthread_t thread;
    bool started, stops;
    int wake;
    struct watch *all;
    unsigned n;
};

/* ---- one of them ---- */

static int on_event(struct sink *sink, json_t *event)
{
    struct watch *w = (struct watch *)sink;

    /* Also "ready", which says that it watches: what changed between the answer to the subscriber
     * and that is not told otherwise. */
    if (event)
        w->changed = true;
    json_decref(event);
    return 0;
}

static int on_bytes(struct sink *sink, enum channel channel, const void *data, size_t len)
{
    (void)sink;
    (void)channel;
    (void)data;
    (void)len;
    return 0;
}

static const struct sink_ops sink_ops = {.event = on_event, .bytes = on_bytes};

/* With w->err: why it ended. */
static void watch_free(struct watch *w)
{
    function_end(&w->call, -1, &w->err);
    call_done(&w->call);
    free(w);
}

static struct watch *watch_new(const struct mcp_face *face, const struct mcp_op *op,
                               const struct function *f, struct mcp_subscription *sub)
{
    struct watch *w = xcalloc(1, sizeof(*w));

    w->sink.ops = &sink_ops;
    w->server = op->server;
    w->sub = sub;
    w->caller = op->client->caller;
    w->caller.face = "mcp";
    w->call = (struct call){
        .engine = face->config.engine,
        .services = face->config.services,
        .about = face->config.about,
        .caller = &w->caller,
        .in = json_object(),
        .sink = &w->sink,
        .events = true,
        .rates = op->client->rates,
        .rate = op->client->rate,
        .gone_fd = -1,
    };
    function_begin(f, &w->call);
    return w;
}

static int watch_start(struct watch *w, const struct function *f, json_t *in, json_t *params)
{
    int r;

    (void)json_object_update(w->call.in, in);
    r = input_check(w->call.in, f->fields, params, &w->err);
    if (r == 0)
        r = function_run(f, &w->call, &w->err);
    if (r == 0 && !w->call.task)
        r = err_set(&w->err, ERR_INTERNAL, "%s does not wait", f->id);
    json_decref(w->call.in);
    w->call.in = NULL;
    return r;
}

/* ---- the thread ---- */

static bool lives(const struct watch *w)
{
    return caller_token_live(w->call.services, w->caller.token_id);
}

/* As far as it goes. One that ends tells of that too: what it watched is gone. */
static void step(struct watch *w)
{
    int r;

    do
        r = w->call.task->ops->step(w->call.task, &w->call, &w->err);
    while (r == TASK_AGAIN);
    w->ended = r <= 0 || !lives(w);
    w->changed |= r <= 0;
    if (w->changed && lives(w))
        mcp_updated(w->server, w->sub);
    w->changed = false;
}

/* What all of them wait for; how many there are. Under the lock. */
static size_t collect(const struct mcp_watcher *all, struct pollfd *p, int64_t *until)
{
    size_t n = 0;

    p[n++] = (struct pollfd){.fd = all->wake, .events = POLLIN};
    *until = mono_ns() + CALLER_LIVE_NS;
    for (const struct watch *w = all->all; w; w = w->next) {
        const struct task *t = w->call.task;

        if (w->ended)
            continue;
        if (t->until_ns && t->until_ns < *until)
            *until = t->until_ns;
        p[n++] = (struct pollfd){.fd = t->events ? t->fd : -1, .events = (short)t->events};
    }
    return n;
}

static void *run(void *arg)
{
    struct mcp_watcher *all = arg;
    struct pollfd *p = xcalloc(WATCHES_MAX + 1, sizeof(*p));
    eventfd_t count;
    int64_t until;

    (void)pthread_mutex_lock(&all->lock);
    while (!all->stops) {
        size_t n = collect(all, p, &until);
        int64_t left = (until - mono_ns()) / 1000000 + 1;
        int ms = !all->all ? -1 : left < 0 ? 0 : (int)left;

        (void)pthread_mutex_unlock(&all->lock);
        (void)poll(p, n, ms);
        if (p[0].revents)
            (void)eventfd_read(all->wake, &count);
        (void)pthread_mutex_lock(&all->lock);
        for (struct watch *w = all->all; w; w = w->next)
            if (!w->ended)
                step(w);
    }
    (void)pthread_mutex_unlock(&all->lock);
    free(p);
    return NULL;
}

struct mcp_watcher *mcp_watcher_new(void)
{
    struct mcp_watcher *all = xcalloc(1, sizeof(*all));

    (void)pthread_mutex_init(&all->lock, NULL);
    all->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return all;
}

/* All subscriptions have ended by then. */
void mcp_watcher_free(struct mcp_watcher *all)
{
    (void)pthread_mutex_lock(&all->lock);
    all->stops = true;
    (void)pthread_mutex_unlock(&all->lock);
    (void)eventfd_write(all->wake, 1);
    if (all->started)
        (void)pthread_join(all->thread, NULL);
    close_fd(&all->wake);
    (void)pthread_mutex_destroy(&all->lock);
    free(all);
}

/* ---- subscriptions ---- */

static bool is_full(const struct mcp_watcher *all, const struct caller *caller)
{
    unsigned own = 0;

    for (const struct watch *w = all->all; w && caller->token_id[0]; w = w->next)
        own += strcmp(w->caller.token_id, caller->token_id) == 0;
    return all->n >= WATCHES_MAX || own >= WATCHES_MAX / 2;
}

static int enlist(struct mcp_watcher *all, struct watch *w, struct err *err)
{
    int r = 0;

    (void)pthread_mutex_lock(&all->lock);
    if (is_full(all, &w->caller))
        r = err_code(err, ERR_LIMIT, "watch_limit",
                     "as many resources are subscribed to as may be (%d, and half of them for one "
                     "token)",
                     WATCHES_MAX);
    if (r == 0 && !all->started && pthread_create(&all->thread, NULL, run, all) != 0)
        r = err_set(err, ERR_UNAVAILABLE, "cannot start a thread");
    if (r == 0) {
        all->started = true;
        w->next = all->all;
        if (w->next)
            w->next->prev = w;
        all->all = w;
        all->n++;
        w->sub->watch = w;
    }
    (void)pthread_mutex_unlock(&all->lock);
    if (r == 0)
        (void)eventfd_write(all->wake, 1);
    return r;
}

int mcp_watch_begin(void *arg, struct mcp_op *op, struct mcp_subscription *sub, struct err *err)
{
    struct mcp_face *face = arg;
    auto_free char *sandbox = NULL, *path = NULL;
    const struct function *f;
    json_t *in, *params;
    struct watch *w;
    int r;

    if (!sandbox_uri_read(sub->uri, &sandbox, &path))
        return err_set(err, ERR_NOT_FOUND, "a URI is sandbox://ID or sandbox://ID/path");
    f = function_find(*path ? "fs::watch" : "stream::events");
    in = *path ? json_pack("{s:s, s:b}", "path", path, "anywhere", 1)
               : json_pack("{s:s}", "sandboxId", sandbox);
    params = *path ? json_pack("{s:s}", "sandboxId", sandbox) : json_object();
    w = watch_new(face, op, f, sub);
    r = watch_start(w, f, in, params);
    if (r == 0)
        r = enlist(face->watcher, w, &w->err);
    json_decref(in);
    json_decref(params);
    if (r < 0) {
        if (err)
            *err = w->err;
        watch_free(w);
    }
    return r;
}

void mcp_watch_end(void *arg, struct mcp_subscription *sub)
{
    struct mcp_watcher *all = ((struct mcp_face *)arg)->watcher;
    struct watch *w = sub->watch;

    (void)pthread_mutex_lock(&all->lock);
    if (w->prev)
        w->prev->next = w->next;
    else
        all->all = w->next;
    if (w->next)
        w->next->prev = w->prev;
    all->n--;
    (void)err_code(&w->err, ERR_CONFLICT, "cancelled", "the subscription has ended");
    watch_free(w);
    (void)pthread_mutex_unlock(&all->lock);
    (void)eventfd_write(all->wake, 1);
}
