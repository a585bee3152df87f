#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/http_internal.h"

/* Requests that wait without a thread. Each has an epoll set with its client's socket, the one
 * descriptor it waits for, and a timer. Whoever wakes asks the set what has happened, calls the
 * step, brings the set in line with the new wait and arms it again.
 *
 * The sets are watched in an epoll of their own (turns), and that one in the server's, where it is
 * one of many: a worker takes one of the parked, and then whatever came meanwhile. So a new request
 * waits for one turn, and not for those of all who are parked and have news.
 *
 * No descriptor may be in many sets: the kernel lets one be watched by at most 500 sets that are
 * watched themselves, and refuses (EINVAL) the next. So what concerns all of them, the end of the
 * daemon, rings each one's timer. */

enum slot { SLOT_CLIENT, SLOT_SOURCE, SLOT_TIMER, SLOTS };

struct parked {
    int set_fd;
    struct http_req *req;
    http_step step;
    void *arg;
    struct http_wait wait;
    bool ended;                 /* the step has answered; only what is unsent is waited for */
    bool told;                  /* that the daemon is about to end */
    struct parked *prev, *next; /* of the server, under its lock */

    /* what the set has now */
    int source_fd, timer_fd;
    uint32_t source_events, client_events;
    int64_t timer_ns;
};

/* ---- seats ---- */

int http_seat_take(struct http_req *req, struct err *err)
{
    struct http_server *s = req->worker->server;

    if (req->seated)
        return 0;
    if (atomic_fetch_add(&s->seats, 1) >= s->limits.seats_max) {
        atomic_fetch_sub(&s->seats, 1);
        return err_code(err, ERR_UNAVAILABLE, "busy",
                        "as many long calls and streams as this daemon may have are open; try "
                        "again when some have ended");
    }
    req->seated = true;
    return 0;
}

/* ---- the set ---- */

static int set_watch(struct parked *p, int op, int fd, uint32_t events, enum slot slot)
{
    return server_watch(p->set_fd, op, fd, events, slot);
}

static int set_client(struct parked *p)
{
    bool input = p->wait.input && !p->ended;
    uint32_t events = EPOLLRDHUP | (input ? EPOLLIN : 0) | (p->req->unsent.len ? EPOLLOUT : 0);

    if (events == p->client_events)
        return 0;
    p->client_events = events;
    return set_watch(p, EPOLL_CTL_MOD, p->req->conn->watched.fd, events, SLOT_CLIENT);
}

/* A descriptor without events is taken out: epoll would tell of its hang-up unasked. */
static int set_source(struct parked *p)
{
    int fd = p->ended || !p->wait.events ? -1 : p->wait.fd;
    int op = EPOLL_CTL_MOD;

    if (fd == p->source_fd && (fd < 0 || p->source_events == p->wait.events))
        return 0;
    if (p->source_fd >= 0 && fd != p->source_fd)
        (void)set_watch(p, EPOLL_CTL_DEL, p->source_fd, 0, SLOT_SOURCE);
    if (fd != p->source_fd)
        op = EPOLL_CTL_ADD;
    p->source_fd = fd;
    p->source_events = p->wait.events;
    return fd < 0 ? 0 : set_watch(p, op, fd, p->wait.events, SLOT_SOURCE);
}

/* The time that was asked for, or when a client that takes nothing is given up. */
static int64_t next_time(const struct parked *p)
{
    int64_t until = p->ended ? 0 : p->wait.until_ns;
    int64_t slow;

    if (p->req->unsent.len == 0)
        return until;
    slow = p->req->sent_ns + (int64_t)p->req->worker->server->limits.body_timeout_ms * 1000000;
    return until && until < slow ? until : slow;
}

static int ring_at(struct parked *p, int64_t ns)
{
    struct itimerspec t = {.it_value = {ns / 1000000000, ns % 1000000000}};

    return timerfd_settime(p->timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
}

static bool must_be_told(const struct parked *p)
{
    return !p->told && atomic_load(&p->req->worker->server->draining);
}

/* Bytes of an upgraded connection that came with its request: they are not in the socket, so epoll
 * does not tell of them. */
static bool has_early_input(const struct parked *p)
{
    return p->wait.input && !p->ended && p->req->conn->kept;
}

static int set_timer(struct parked *p)
{
    int64_t at = next_time(p);

    if (at != p->timer_ns && ring_at(p, at) < 0)
        return -1;
    p->timer_ns = at;
    /* Looked at after the timer is set, which may have undone what http_server_drain() did. */
    return must_be_told(p) || has_early_input(p) ? ring_at(p, 1) : 0;
}

static int set_all(struct parked *p)
{
    return set_client(p) < 0 || set_source(p) < 0 || set_timer(p) < 0 ? -1 : 0;
}

static unsigned read_news(struct parked *p)
{
    static const unsigned news_of[SLOTS] = {[SLOT_SOURCE] = HTTP_READY, [SLOT_TIMER] = HTTP_TIME};
    struct epoll_event e[SLOTS];
    int n = epoll_wait(p->set_fd, e, SLOTS, 0);
    unsigned news = 0;

    for (int i = 0; i < n; i++) {
        enum slot slot = (enum slot)e[i].data.u64;

        news |= news_of[slot];
        if (slot == SLOT_CLIENT && (e[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
            news |= HTTP_GONE;
        else if (slot == SLOT_CLIENT && (e[i].events & EPOLLIN))
            news |= HTTP_INPUT;
    }
    if (news & HTTP_TIME) {
        uint64_t count;

        (void)!read(p->timer_fd, &count, sizeof(count));
        if (p->timer_ns == 0 || mono_ns() < p->timer_ns)
            news &= ~(unsigned)HTTP_TIME; /* it was rung */
        p->timer_ns = 0;
    }
    if (has_early_input(p))
        news |= HTTP_INPUT;
    if (must_be_told(p)) {
        p->told = true;
        news |= HTTP_DRAIN;
    }
    return news;
}

/* ---- life ---- */

static void enlist(struct http_server *s, struct parked *p)
{
    (void)pthread_mutex_lock(&s->lock);
    p->next = s->parked;
    if (p->next)
        p->next->prev = p;
    s->parked = p;
    (void)pthread_mutex_unlock(&s->lock);
}

static void delist(struct http_server *s, struct parked *p)
{
    (void)pthread_mutex_lock(&s->lock);
    if (p->prev)
        p->prev->next = p->next;
    else
        s->parked = p->next;
    if (p->next)
        p->next->prev = p->prev;
    (void)pthread_mutex_unlock(&s->lock);
}

static void parked_free(struct parked *p)
{
    close_fd(&p->timer_fd);
    close_fd(&p->set_fd);
    free(p);
}

static struct parked *parked_new(struct http_req *req)
{
    struct parked *p = xcalloc(1, sizeof(*p));

    p->req = req;
    p->source_fd = -1;
    p->client_events = EPOLLRDHUP;
    p->set_fd = epoll_create1(EPOLL_CLOEXEC);
    p->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (p->set_fd < 0 || p->timer_fd < 0 ||
        set_watch(p, EPOLL_CTL_ADD, req->conn->watched.fd, p->client_events, SLOT_CLIENT) < 0 ||
        set_watch(p, EPOLL_CTL_ADD, p->timer_fd, EPOLLIN, SLOT_TIMER) < 0) {
        int error = errno;

        parked_free(p);
        errno = error;
        return NULL;
    }
    enlist(req->worker->server, p);
    return p;
}

int http_park(struct http_req *req, const struct http_wait *wait, http_step step, void *arg,
              struct err *err)
{
    struct parked *p = parked_new(req);

    if (!p)
        return err_code(err, ERR_UNAVAILABLE, "busy",
                        "the daemon has no descriptor left to wait with (%s); try again later",
                        strerror(errno));
    p->step = step;
    p->arg = arg;
    p->wait = *wait;
    req->parked = p;
    req->sent_ns = mono_ns();
    return 0;
}

size_t http_unsent(const struct http_req *req)
{
    return req->unsent.len;
}

void http_unpark(struct http_req *req)
{
    if (!req->parked)
        return;
    req->parked = NULL; /* the step still has it, and says that it was the last */
    server_want_worker(req->worker->server);
    reply_send_rest(req);
}

void http_server_drain(struct http_server *s)
{
    atomic_store(&s->draining, true);
    (void)pthread_mutex_lock(&s->lock);
    for (struct parked *p = s->parked; p; p = p->next)
        (void)ring_at(p, 1);
    (void)pthread_mutex_unlock(&s->lock);
}

static void finish(struct worker *w, struct parked *p)
{
    struct http_req *req = p->req;

    delist(w->server, p);
    parked_free(p);
    req->parked = NULL;
    conn_request_ended(w, req);
}

static void take_step(struct parked *p, unsigned news)
{
    if (!p->ended && !p->step(p->req, news, &p->wait, p->arg))
        p->ended = true;
}

/* Puts it back to wait. From the last call on another worker may own it. */
static bool arm(struct http_server *s, struct parked *p, int op)
{
    int fd = p->set_fd;

    if (set_all(p) < 0)
        return false;
    server_hand_on(p);
    return server_watch(s->turns.fd, op, fd, EPOLLIN | EPOLLONESHOT, (uint64_t)(uintptr_t)p) == 0;
}

static void go_on(struct worker *w, struct parked *p, unsigned news, int op)
{
    struct http_req *req = p->req;

    if (news)
        take_step(p, news);
    if (!req->peer_gone && (!p->ended || req->unsent.len > 0)) {
        if (arm(w->server, p, op))
            return;
        log_error("a request cannot wait, ending it", "error", strerror(errno));
        req->peer_gone = true;
    }
    if (req->peer_gone && !(news & HTTP_GONE))
        take_step(p, HTTP_GONE);
    finish(w, p);
}

void park_begin(struct worker *w, struct http_req *req)
{
    struct parked *p = req->parked;
    struct conn *c = req->conn;

    w->req = NULL;
    if (!req->body_done && (request_body_is_in_the_way(req) || request_drain(req) < 0))
        req->keep_alive = false;
    request_forget_head(req);
    /* What came behind the request: the start of the next one, or of an upgraded stream. */
    if (w->len > w->off)
        conn_keep(w->server, c, w->data + w->off, w->len - w->off);
    w->len = w->off = 0;
    go_on(w, p, 0, EPOLL_CTL_ADD);
}

static void wake(struct worker *w, struct parked *p)
{
    struct http_req *req = p->req;
    int64_t patience = (int64_t)w->server->limits.body_timeout_ms * 1000000;
    unsigned news;

    req->worker = w;
    w->len = w->off = 0;
    news = read_news(p);
    if (req->unsent.len > 0) {
        (void)reply_send_unsent(req);
        if (req->unsent.len == 0)
            news |= HTTP_SENT;
        else if (mono_ns() - req->sent_ns >= patience)
            req->peer_gone = true;
    }
    if (news & HTTP_GONE)
        req->peer_gone = true;
    if (req->peer_gone)
        news |= HTTP_GONE;
    go_on(w, p, news, EPOLL_CTL_MOD);
}

void park_turn(struct worker *w)
{
    struct epoll_event e;

    /* None when another worker was quicker. */
    if (epoll_wait(w->server->turns.fd, &e, 1, 0) != 1)
        return;
    server_take_over(e.data.ptr);
    wake(w, e.data.ptr);
}
