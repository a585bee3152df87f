#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "http/websocket_client.h"
#include "iii/link_internal.h"

/* Channels of the engine, each end a socket of its own.
 *
 * 1. Whoever has a pipe reads and writes its socket himself, without waiting, under the pipe's
 *    lock. The thread of the pipes sends on what was left, answers the engine's pings, and tells
 *    who waits.
 * 2. A pipe that is closed is that thread's: it sends the rest, says Close, waits for the engine's
 *    so that nothing is lost on the way, and alone frees.
 * 3. What is held for a pipe is bounded: past LINK_PIPE_UNSENT a writer waits, and nothing is read
 *    before what was read is taken. A message that is longer than a piece is only taken when there
 *    is memory for it. */

#define HELD    (LINK_PIPE_UNSENT + 2 * PIPE_PIECE) /* of the budget, for each */
#define EVENTS  64
#define TICK_MS 1000                /* between looks at all streams, unless stall_ms is short */
#define BYE_NS  (10 * 1000000000ll) /* for the engine's Close */

struct link_pipe {
    struct pipe base;
    struct link_pipes *all;
    struct link_pipe *next;
    bool writes;
    int event_fd; /* what the owner waits for */

    pthread_mutex_t lock; /* of all below */
    struct websocket_client *client;
    struct websocket_message m; /* that is read, from at on; it stays until the next is asked for */
    size_t at;
    size_t room;      /* of the budget, for a message that is long */
    bool waits;       /* the owner has been told: not now */
    bool gone;        /* there is nobody at the other end */
    bool closed;      /* by its owner: rule 2 */
    size_t unsent;    /* when it was last looked at */
    int64_t until_ns; /* that some of it must have left, or of one that is closed the engine's Close
                       * have come */
};

struct link_pipes {
    struct pipes base;
    struct iii_link *l;
    pthread_t thread;
    bool runs;
    int epoll_fd, wake_fd;

    pthread_mutex_t lock; /* of all below */
    bool stops;
    struct link_pipe *list;
    unsigned count;
};

/* ---- under the pipe's lock ---- */

static void tell(struct link_pipe *p)
{
    if (p->waits)
        (void)eventfd_write(p->event_fd, 1);
    p->waits = false;
}

static void ask_to_be_told(struct link_pipe *p)
{
    eventfd_t count;

    (void)eventfd_read(p->event_fd, &count);
    p->waits = true;
}

/* Sets what the thread waits for: messages of the engine for a writer, and for a reader only while
 * its function waits, since the socket keeps what is not read yet. Nothing is read while too much
 * is unsent: epoll would report the same bytes again at once. */
static void watch(struct link_pipe *p)
{
    struct epoll_event e = {.events = EPOLLONESHOT, .data.ptr = p};
    bool unsent = websocket_client_wants_write(p->client);

    if ((p->writes || p->closed || p->waits) &&
        (!unsent || websocket_takes(websocket_client_socket(p->client))))
        e.events |= EPOLLIN;
    if (unsent)
        e.events |= EPOLLOUT;
    if (e.events != EPOLLONESHOT && !p->gone)
        (void)epoll_ctl(p->all->epoll_fd, EPOLL_CTL_MOD, websocket_client_fd(p->client), &e);
}

static struct budget *budget_of(const struct link_pipe *p)
{
    return p->all->l->hub->config.streams;
}

/* Asked as a message begins. It is held twice while its end comes. */
static bool has_memory(void *arg, size_t bytes)
{
    struct link_pipe *p = arg;
    size_t want = bytes > PIPE_PIECE ? 2 * bytes : 0;

    if (want <= p->room)
        return true;
    if (!budget_take(budget_of(p), want - p->room))
        return false;
    p->room = want;
    return true;
}

static void give_memory(struct link_pipe *p)
{
    budget_give(budget_of(p), p->room);
    p->room = 0;
}

static int64_t stall_ns(const struct link_pipe *p)
{
    return p->all->l->config.stall_ms * 1000000ll;
}

static int tick_ms(const struct link_pipes *all)
{
    unsigned ms = all->l->config.stall_ms / 4;

    return ms < TICK_MS ? (int)ms + 1 : TICK_MS;
}

static bool has_room(const struct link_pipe *p)
{
    return websocket_client_unsent(p->client) < LINK_PIPE_UNSENT;
}

/* Of one whose messages nobody wants. */
static void skim(struct link_pipe *p)
{
    struct websocket_message m;
    int r;

    for (int i = 0; i < EVENTS; i++) {
        r = websocket_next(websocket_client_socket(p->client), &m);
        if (r > 0)
            continue;
        p->gone |= r < 0;
        return;
    }
}

/* ---- for the owner ---- */

static struct link_pipe *of(struct pipe *base)
{
    return (struct link_pipe *)base; /* its first member */
}

static int pipe_fd(struct pipe *base)
{
    return of(base)->event_fd;
}

/* The next bytes; texts are words beside them, which nobody here asked for. */
static int next_bytes(struct link_pipe *p)
{
    struct websocket *ws = websocket_client_socket(p->client);
    int r = 1;

    while (p->at == p->m.len && r > 0 && !p->gone) {
        if (!websocket_has_part(ws) && !websocket_has_message(ws))
            give_memory(p);
        r = websocket_next(ws, &p->m);
        p->at = r > 0 && !p->m.is_text ? 0 : p->m.len;
        if (r <= 0)
            p->m.len = p->at = 0;
    }
    if (r < 0)
        p->gone = true;
    return p->at < p->m.len ? 1 : p->gone ? -1 : 0;
}

/* It is the engine that says Close, also in the name of a writer that it has lost. */
static bool was_closed(const struct link_pipe *p)
{
    return websocket_peer_code(websocket_client_socket(p->client)) != 0;
}

static ssize_t pipe_read(struct pipe *base, void *data, size_t len)
{
    struct link_pipe *p = of(base);
    ssize_t n;

    (void)pthread_mutex_lock(&p->lock);
    n = next_bytes(p);
    if (n > 0) {
        n = (ssize_t)(p->m.len - p->at < len ? p->m.len - p->at : len);
        memcpy(data, p->m.data + p->at, (size_t)n);
        p->at += (size_t)n;
    } else if (n == 0) {
        ask_to_be_told(p);
        watch(p);
    } else if (!was_closed(p)) {
        n = PIPE_LOST;
    }
    (void)pthread_mutex_unlock(&p->lock);
    return n;
}

static int send_message(struct link_pipe *p, bool is_text, const void *data, size_t len)
{
    int r = 1;

    (void)pthread_mutex_lock(&p->lock);
    if (p->gone) {
        r = -1;
    } else if (!has_room(p)) {
        ask_to_be_told(p);
        r = 0;
    } else if (websocket_send(websocket_client_socket(p->client), is_text, data, len) < 0) {
        p->gone = true;
        r = -1;
    }
    watch(p);
    (void)pthread_mutex_unlock(&p->lock);
    return r;
}

static int pipe_write(struct pipe *base, const void *data, size_t len)
{
    return len > 0 ? send_message(of(base), false, data, len) : 1;
}

static int pipe_say(struct pipe *base, const char *text)
{
    return send_message(of(base), true, text, strlen(text));
}

static void wake(struct link_pipes *all)
{
    (void)eventfd_write(all->wake_fd, 1);
}

static void pipe_close(struct pipe *base)
{
    struct link_pipe *p = of(base);
    struct link_pipes *all = p->all;

    (void)pthread_mutex_lock(&p->lock);
    p->closed = true;
    p->unsent = websocket_client_unsent(p->client);
    p->until_ns = mono_ns() + stall_ns(p);
    (void)pthread_mutex_unlock(&p->lock); /* from here on it may go at any time */
    wake(all);
}

static const struct pipe_ops pipe_ops = {
    .fd = pipe_fd, .read = pipe_read, .write = pipe_write, .say = pipe_say, .close = pipe_close};

/* ---- the thread ---- */

/* Sends what is left of one that is closed, and then Close. True when it can go. */
static bool finish(struct link_pipe *p, int64_t now)
{
    struct websocket *ws = websocket_client_socket(p->client);
    size_t unsent = websocket_client_unsent(p->client);

    if (!p->writes && !websocket_is_closed(ws)) /* what still comes is of no use to anybody */
        websocket_close(ws, WEBSOCKET_NORMAL, "channel_close");
    if (unsent < p->unsent)
        p->until_ns = now + stall_ns(p);
    p->unsent = unsent;
    if (unsent == 0 && !websocket_is_closed(ws)) {
        websocket_close(ws, WEBSOCKET_NORMAL, "stream_complete");
        p->until_ns = now + BYE_NS;
    }
    return p->gone || now >= p->until_ns || (!p->writes && unsent == 0);
}

/* Under its lock: true when it can go. */
static bool attend(struct link_pipe *p, int64_t now)
{
    if (!p->gone && websocket_client_flush(p->client) < 0)
        p->gone = true;
    if (!p->gone && (p->writes || p->closed))
        skim(p);
    if (p->closed && finish(p, now))
        return true;
    if (p->gone || !p->writes || has_room(p))
        tell(p);
    watch(p);
    return false;
}

static void pipe_free(struct link_pipe *p)
{
    websocket_client_free(p->client);
    close_fd(&p->event_fd);
    (void)pthread_mutex_destroy(&p->lock);
    give_memory(p);
    budget_give(budget_of(p), HELD);
    free(p);
}

static void take_out(struct link_pipes *all, struct link_pipe *p)
{
    (void)pthread_mutex_lock(&all->lock);
    for (struct link_pipe **at = &all->list; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            all->count--;
            break;
        }
    (void)pthread_mutex_unlock(&all->lock);
}

static void look_at(struct link_pipes *all, struct link_pipe *p, int64_t now)
{
    bool over;

    (void)pthread_mutex_lock(&p->lock);
    over = attend(p, now);
    (void)pthread_mutex_unlock(&p->lock);
    if (!over)
        return;
    take_out(all, p);
    pipe_free(p);
}

/* Under its lock. Nobody at the other end takes anything any more: others need the place. */
static void look_for_stall(struct link_pipe *p, int64_t now)
{
    size_t unsent = websocket_client_unsent(p->client);

    if (unsent == 0 || unsent != p->unsent) {
        p->unsent = unsent;
        p->until_ns = now + stall_ns(p);
    } else if (now >= p->until_ns) {
        p->gone = true;
        tell(p);
    }
}

/* Those that are closed, or stall, of which no event may come. Only this thread takes any out, so
 * the next of one that stays is still there. */
static void look_at_all(struct link_pipes *all, int64_t now)
{
    struct link_pipe *p, *next;
    bool closed;

    (void)pthread_mutex_lock(&all->lock);
    p = all->list;
    (void)pthread_mutex_unlock(&all->lock);
    for (; p; p = next) {
        (void)pthread_mutex_lock(&p->lock);
        closed = p->closed;
        if (!closed)
            look_for_stall(p, now);
        (void)pthread_mutex_unlock(&p->lock);
        next = p->next;
        if (closed)
            look_at(all, p, now);
    }
}

static bool stops(struct link_pipes *all)
{
    bool now;

    (void)pthread_mutex_lock(&all->lock);
    now = all->stops;
    (void)pthread_mutex_unlock(&all->lock);
    return now;
}

static bool is_empty(struct link_pipes *all)
{
    bool now;

    (void)pthread_mutex_lock(&all->lock);
    now = all->list == NULL;
    (void)pthread_mutex_unlock(&all->lock);
    return now;
}

static void *run(void *arg)
{
    struct link_pipes *all = arg;
    struct epoll_event e[EVENTS];
    int64_t looked = 0;
    eventfd_t count;

    (void)pthread_setname_np(pthread_self(), "iii-pipes");
    while (!stops(all)) {
        int n = epoll_wait(all->epoll_fd, e, EVENTS, is_empty(all) ? -1 : tick_ms(all));
        int64_t now = mono_ns();
        bool woken = n <= 0 || now - looked >= tick_ms(all) * 1000000ll;

        for (int i = 0; i < n; i++) {
            if (e[i].data.ptr)
                look_at(all, e[i].data.ptr, now);
            else
                woken = true;
        }
        if (woken) {
            (void)eventfd_read(all->wake_fd, &count);
            look_at_all(all, now);
            looked = now;
        }
    }
    return NULL;
}

/* ---- making and opening ---- */

/* All but what a path and a query have for themselves. */
static void add_encoded(struct buf *b, const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~";

    for (; *text; text++) {
        if (strchr(plain, *text))
            (void)buf_add(b, text, 1);
        else
            (void)buf_addf(b, "%%%02X", (unsigned char)*text);
    }
}

static struct websocket_client *dial(struct link_pipes *all, const json_t *ref, bool writes,
                                     struct err *err)
{
    auto_buf struct buf url = {0};
    struct websocket_dial how = {.timeout_ms = LINK_DIAL_MS,
                                 .stop_fd = all->l->stop_fd,
                                 .message_max = writes ? PIPE_PIECE : LINK_MESSAGE_MAX,
                                 .unsent_max = 2 * HELD};
    struct websocket_client *client;

    buf_init(&url, 8192);
    (void)buf_addf(&url, "%s/ws/channels/", all->l->base);
    add_encoded(&url, json_text(ref, "channel_id"));
    (void)buf_add_str(&url, "?key=");
    add_encoded(&url, json_text(ref, "access_key"));
    if (buf_addf(&url, "&dir=%s", writes ? "write" : "read") < 0) {
        (void)err_code(err, ERR_INVALID, "bad_channel", "the reference is too long");
        return NULL;
    }
    how.url = url.data;
    client = websocket_dial(&how, err);
    if (!client && err && err->kind == ERR_NOT_FOUND)
        (void)err_code(err, ERR_NOT_FOUND, "channel_not_found",
                       "the engine has no such channel, or its key is another");
    else if (!client)
        (void)err_wrap(err, "the engine's channel");
    return client;
}

/* Enters a new one, if there is room. Takes the client, also when there is none. */
static struct link_pipe *enter(struct link_pipes *all, struct websocket_client *client, bool writes,
                               struct err *err)
{
    struct epoll_event e = {.events = EPOLLONESHOT};
    struct link_pipe *p = xcalloc(1, sizeof(*p));
    bool entered;

    *p = (struct link_pipe){.base = {&pipe_ops}, .all = all, .writes = writes, .client = client};
    (void)pthread_mutex_init(&p->lock, NULL);
    websocket_set_room(websocket_client_socket(client), has_memory, p);
    p->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    e.data.ptr = p;
    e.events |= writes ? EPOLLIN : 0;
    (void)pthread_mutex_lock(&all->lock);
    entered = !all->stops && p->event_fd >= 0 &&
              epoll_ctl(all->epoll_fd, EPOLL_CTL_ADD, websocket_client_fd(client), &e) == 0;
    if (entered) {
        p->next = all->list;
        all->list = p;
        all->count++;
    }
    (void)pthread_mutex_unlock(&all->lock);
    if (entered) {
        wake(all); /* which waited without an end if there was none */
        return p;
    }
    pipe_free(p);
    (void)err_set(err, ERR_UNAVAILABLE, "the daemon is about to end, or has no descriptors left");
    return NULL;
}

static bool reserve(struct link_pipes *all, struct err *err)
{
    if (link_pipes_count(all) < LINK_PIPES_MAX && budget_take(all->l->hub->config.streams, HELD))
        return true;
    (void)err_set(err, ERR_LIMIT, "too many channels are in use");
    return false;
}

static struct pipe *connect_end(struct link_pipes *all, const json_t *ref, bool writes,
                                struct err *err)
{
    struct websocket_client *client;
    struct link_pipe *p;

    if (!reserve(all, err))
        return NULL;
    client = dial(all, ref, writes, err);
    if (!client) {
        budget_give(all->l->hub->config.streams, HELD);
        return NULL;
    }
    p = enter(all, client, writes, err);
    if (!p)
        return NULL;
    if (writes) { /* of a Close that came with the handshake no event tells */
        (void)pthread_mutex_lock(&p->lock);
        skim(p);
        (void)pthread_mutex_unlock(&p->lock);
    }
    return &p->base;
}

static struct pipe *open_pipe(struct pipes *base, const json_t *ref, bool writes, struct err *err)
{
    const char *direction = writes ? "write" : "read";

    if (!pipe_is_ref(ref) || strcmp(json_text(ref, "direction"), direction) != 0) {
        (void)err_code(err, ERR_INVALID, "bad_channel",
                       "it must be the end of a channel that has the direction \"%s\"", direction);
        return NULL;
    }
    return connect_end((struct link_pipes *)base, ref, writes, err);
}

static struct pipe *make_pipe(struct pipes *base, json_t **ret_ref, struct err *err)
{
    struct link_pipes *all = (struct link_pipes *)base;
    json_t *made = link_ask(all->l, "engine::channels::create", json_object(), err);
    json_t *writer = json_object_get(made, "writer"), *reader = json_object_get(made, "reader");
    struct pipe *p = NULL;

    if (made && (!pipe_is_ref(writer) || !pipe_is_ref(reader)))
        (void)err_set(err, ERR_UNAVAILABLE, "the engine has made a channel without two ends");
    else if (made)
        p = connect_end(all, writer, true, err);
    if (p)
        *ret_ref = json_incref(reader);
    json_decref(made);
    return p;
}

/* ---- feeding ---- */

struct feeder {
    struct work work;
    struct runner *runner;
    struct link_pipe *pipe;
    struct pipe_feed *feed;
};

/* Must it wait for room? */
static bool must_wait(struct link_pipe *p)
{
    bool wait;

    (void)pthread_mutex_lock(&p->lock);
    wait = !p->gone && !has_room(p);
    if (wait)
        ask_to_be_told(p);
    watch(p);
    (void)pthread_mutex_unlock(&p->lock);
    return wait;
}

static bool is_gone(struct link_pipe *p)
{
    bool gone;

    (void)pthread_mutex_lock(&p->lock);
    gone = p->gone;
    (void)pthread_mutex_unlock(&p->lock);
    return gone;
}

static void feed_run(struct work *w)
{
    struct feeder *f = (struct feeder *)w;

    if (runner_stops(f->runner) || is_gone(f->pipe) ||
        f->feed->fill(f->feed, &f->pipe->base) == 0) {
        f->feed->free(f->feed);
        pipe_close(&f->pipe->base);
        free(f);
    } else if (must_wait(f->pipe)) {
        runner_wait(f->runner, w, f->pipe->event_fd, EPOLLIN, 0);
    } else {
        runner_add(f->runner, w);
    }
}

static void feed_pipe(struct pipes *base, struct pipe *p, struct pipe_feed *feed)
{
    struct feeder *f = xcalloc(1, sizeof(*f));

    *f = (struct feeder){.work = {.run = feed_run},
                         .runner = ((struct link_pipes *)base)->l->hub->runner,
                         .pipe = of(p),
                         .feed = feed};
    runner_add(f->runner, &f->work);
}

/* ---- life ---- */

static const struct pipes_ops pipes_ops = {.open = open_pipe, .make = make_pipe, .feed = feed_pipe};

struct link_pipes *link_pipes_new(struct iii_link *l)
{
    struct link_pipes *all = xcalloc(1, sizeof(*all));

    all->base.ops = &pipes_ops;
    all->l = l;
    all->epoll_fd = all->wake_fd = -1;
    (void)pthread_mutex_init(&all->lock, NULL);
    return all;
}

int link_pipes_start(struct link_pipes *all, struct err *err)
{
    struct epoll_event e = {.events = EPOLLIN};

    all->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    all->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (all->epoll_fd < 0 || all->wake_fd < 0 ||
        epoll_ctl(all->epoll_fd, EPOLL_CTL_ADD, all->wake_fd, &e) < 0)
        return err_sys(err, errno, "make an epoll set");
    if (pthread_create(&all->thread, NULL, run, all) != 0)
        return err_set(err, ERR_UNAVAILABLE, "cannot start a thread");
    all->runs = true;
    return 0;
}

void link_pipes_stop(struct link_pipes *all)
{
    (void)pthread_mutex_lock(&all->lock);
    all->stops = true;
    (void)pthread_mutex_unlock(&all->lock);
    if (all->runs) {
        wake(all);
        (void)pthread_join(all->thread, NULL);
    }
    all->runs = false;
    for (struct link_pipe *p = all->list; p; p = p->next) {
        (void)pthread_mutex_lock(&p->lock);
        p->gone = true;
        p->waits = true;
        tell(p);
        (void)pthread_mutex_unlock(&p->lock);
    }
}

void link_pipes_free(struct link_pipes *all)
{
    if (!all)
        return;
    while (all->list) {
        struct link_pipe *p = all->list;

        all->list = p->next;
        pipe_free(p);
    }
    close_fd(&all->epoll_fd);
    close_fd(&all->wake_fd);
    (void)pthread_mutex_destroy(&all->lock);
    free(all);
}

struct pipes *link_pipes_ops(struct link_pipes *all)
{
    return &all->base;
}

unsigned link_pipes_count(struct link_pipes *all)
{
    unsigned n;

    (void)pthread_mutex_lock(&all->lock);
    n = all->count;
    (void)pthread_mutex_unlock(&all->lock);
    return n;
}
