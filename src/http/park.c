#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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

#define SPARE_SETS_MAX 256
#define QUIET_S        60 /* a connection on which nothing moved for so long is probed, */
#define PROBE_S        15 /* so often, */
#define PROBES         4  /* and given up after so many without an answer */
#define KERNEL_UNSENT  (64 << 10)

enum slot { SLOT_CLIENT, SLOT_SOURCE, SLOT_TIMER, SLOTS };

struct parked {
    int set_fd;
    struct http_req *req;
    http_step step;
    void *arg;
    struct http_wait wait;
    bool ended;                 /* the step has answered; only what is unsent is waited for */
    bool told;                  /* that the daemon is about to end */
    bool lost;                  /* a descriptor was closed that may still be in the set */
    bool in_turns;              /* its set is an entry there already */
    struct parked *prev, *next; /* of the server, under its lock */

    /* what the set has now */
    int source_fd, timer_fd;
    uint32_t source_events, client_events;
    int64_t timer_ns, rings_ns; /* what is waited for; when the timer rings, or 0 */
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
    bool half = (p->wait.half && !p->ended) || p->req->half;
    uint32_t events =
        (half ? 0 : EPOLLRDHUP) | (input ? EPOLLIN : 0) | (p->req->unsent.len ? EPOLLOUT : 0);

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
    if (p->source_fd >= 0 && fd != p->source_fd &&
        set_watch(p, EPOLL_CTL_DEL, p->source_fd, 0, SLOT_SOURCE) < 0)
        p->lost = true;
    if (fd != p->source_fd)
        op = EPOLL_CTL_ADD;
    p->source_fd = fd;
    p->source_events = p->wait.events;
    return fd < 0 ? 0 : set_watch(p, op, fd, p->wait.events, SLOT_SOURCE);
}

static int64_t patience_ns(const struct parked *p)
{
    int ms = p->wait.patience_ms;

    return (ms ? ms : p->req->worker->server->limits.body_timeout_ms) * 1000000ll;
}

/* The time that was asked for, or when a client that takes nothing is given up. A step that can do
 * nothing until its client has taken something leaves a time that is over: it is not told of it
 * again and again. */
static int64_t next_time(const struct parked *p)
{
    int64_t until = p->ended ? 0 : p->wait.until_ns;
    int64_t slow;

    if (p->req->unsent.len == 0)
        return until;
    slow = p->req->sent_ns + patience_ns(p);
    if (until <= mono_ns())
        return slow;
    return until < slow ? until : slow;
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

/* One that rings too early is no harm: it is looked at and set again. So a time that is moved ahead
 * with every request costs nothing. */
static int set_timer(struct parked *p)
{
    int64_t at = next_time(p);
    bool early = p->rings_ns != 0 && p->rings_ns <= at;

    if (at != 0 && !early && ring_at(p, at) < 0)
        return -1;
    if (at != 0 && !early)
        p->rings_ns = at;
    p->timer_ns = at;
    /* Looked at after the timer is set, which may have undone what http_server_drain() or
     * http_wake() did. */
    return must_be_told(p) || has_early_input(p) || atomic_load(&p->req->woken) ? ring_at(p, 1) : 0;
}

static int set_all(struct parked *p)
{
    return set_client(p) < 0 || set_source(p) < 0 || set_timer(p) < 0 ? -1 : 0;
}

/* A client that is half closed is watched for the rest of it, see set_client(). */
static bool is_gone(struct parked *p, uint32_t events)
{
    if (events & (EPOLLHUP | EPOLLERR))
        return true;
    return (events & EPOLLRDHUP) && !p->wait.half && (p->ended || request_client_closed(p->req));
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
        if (slot == SLOT_CLIENT && is_gone(p, e[i].events))
            news |= HTTP_GONE;
        else if (slot == SLOT_CLIENT && (e[i].events & EPOLLIN))
            news |= HTTP_INPUT;
    }
    if (news & HTTP_TIME) {
        uint64_t count;

        (void)!read(p->timer_fd, &count, sizeof(count));
        if (p->timer_ns == 0 || mono_ns() < p->timer_ns)
            news &= ~(unsigned)HTTP_TIME; /* it was rung, or is an older one */
        p->timer_ns = p->rings_ns = 0;
    }
    if (has_early_input(p))
        news |= HTTP_INPUT;
    if (must_be_told(p)) {
        p->told = true;
        news |= HTTP_DRAIN;
    }
    if (atomic_exchange(&p->req->woken, false))
        news |= HTTP_WOKEN;
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

/* ---- sets that are used again ----
 *
 * A request that is passed on waits for a moment and is done; making a set and a timer for each
 * would cost more than the rest of it. One whose descriptor was taken out of it (http_wait_leave())
 * has only its timer in it when its client is taken out too, and can be another's. */

static struct parked *spare_take(struct http_server *s)
{
    struct parked *p;

    (void)pthread_mutex_lock(&s->lock);
    p = s->spares;
    if (p) {
        s->spares = p->next;
        s->n_spares--;
        s->spares_used++;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (p)
        *p = (struct parked){.set_fd = p->set_fd,
                             .timer_fd = p->timer_fd,
                             .rings_ns = p->rings_ns,
                             .in_turns = true};
    return p;
}

static void spare_put(struct http_server *s, struct parked *p, int client_fd)
{
    bool kept = false;

    if (p->in_turns && !p->lost && p->source_fd < 0 &&
        set_watch(p, EPOLL_CTL_DEL, client_fd, 0, SLOT_CLIENT) == 0) {
        (void)pthread_mutex_lock(&s->lock);
        kept = s->n_spares < SPARE_SETS_MAX;
        if (kept) {
            p->next = s->spares;
            s->spares = p;
            s->n_spares++;
        }
        (void)pthread_mutex_unlock(&s->lock);
    }
    if (!kept)
        parked_free(p);
}

void park_trim(struct http_server *s, bool all)
{
    struct parked *p = NULL;

    (void)pthread_mutex_lock(&s->lock);
    if (all || s->spares_used == 0) {
        p = s->spares;
        s->spares = NULL;
        s->n_spares = 0;
    }
    s->spares_used = 0;
    (void)pthread_mutex_unlock(&s->lock);
    for (struct parked *next; p; p = next) {
        next = p->next;
        parked_free(p);
    }
}

static int set_make(struct parked *p)
{
    p->set_fd = epoll_create1(EPOLL_CLOEXEC);
    p->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (p->set_fd < 0 || p->timer_fd < 0)
        return -1;
    return set_watch(p, EPOLL_CTL_ADD, p->timer_fd, EPOLLIN, SLOT_TIMER);
}

static struct parked *parked_new(struct http_req *req)
{
    struct parked *p = spare_take(req->worker->server);
    bool made = p;

    if (!p) {
        p = xcalloc(1, sizeof(*p));
        made = set_make(p) == 0;
    }
    p->req = req;
    p->source_fd = -1;
    p->client_events = EPOLLRDHUP;
    if (!made ||
        set_watch(p, EPOLL_CTL_ADD, req->conn->watched.fd, p->client_events, SLOT_CLIENT) < 0) {
        int error = errno;

        parked_free(p);
        errno = error;
        return NULL;
    }
    enlist(req->worker->server, p);
    return p;
}

/* Nothing may ever be sent to one that waits: a client that went without a word would keep its
 * seat. Of what is sent the kernel would take megabytes for each that does not read, and when it
 * has too much of all, nobody on this machine is sent anything. */
static void prepare(struct conn *c)
{
    int on = 1, quiet = QUIET_S, between = PROBE_S, probes = PROBES, fd = c->watched.fd;
    unsigned unsent = KERNEL_UNSENT;

    if (!c->is_tcp || c->prepared)
        return;
    c->prepared = true;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &quiet, sizeof(quiet));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof(between));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
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
    req->sent_ns = mono_ns();
    (void)pthread_mutex_lock(&req->still_lock);
    req->parked = p;
    (void)pthread_mutex_unlock(&req->still_lock);
    prepare(req->conn);
    return 0;
}

void http_wait_leave(struct http_req *req)
{
    struct parked *p = req->parked;

    if (!p || p->source_fd < 0)
        return;
    (void)set_watch(p, EPOLL_CTL_DEL, p->source_fd, 0, SLOT_SOURCE);
    p->source_fd = -1;
}

size_t http_unsent(const struct http_req *req)
{
    return req->unsent.len;
}

void http_unpark(struct http_req *req)
{
    if (!req->parked)
        return;
    (void)pthread_mutex_lock(&req->still_lock);
    req->parked = NULL; /* the step still has it, and says that it was the last */
    (void)pthread_mutex_unlock(&req->still_lock);
    if (req->passed && !req->body_done)
        req->keep_alive = false; /* what is left of its body is not told from the next request */
    req->passed = false;
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
    spare_put(w->server, p, req->conn->watched.fd);
    req->parked = NULL;
    conn_request_ended(w, req);
}

static void take_step(struct parked *p, unsigned news)
{
    if (!p->ended && !p->step(p->req, news, &p->wait, p->arg))
        p->ended = true;
}

/* ---- writes of those who do not own it ---- */

static void set_still(struct http_req *req, bool still)
{
    (void)pthread_mutex_lock(&req->still_lock);
    req->still = still;
    (void)pthread_mutex_unlock(&req->still_lock);
}

bool http_tell_begin(struct http_req *req)
{
    if (pthread_mutex_trylock(&req->still_lock) != 0)
        return false;
    if (req->still && !req->peer_gone && req->unsent.len == 0)
        return true;
    (void)pthread_mutex_unlock(&req->still_lock);
    return false;
}

bool http_tell_end(struct http_req *req)
{
    bool done = !req->peer_gone && req->unsent.len == 0;

    (void)pthread_mutex_unlock(&req->still_lock);
    return done;
}

void http_wake(struct http_req *req)
{
    (void)pthread_mutex_lock(&req->still_lock);
    atomic_store(&req->woken, true);
    if (req->parked)
        (void)ring_at(req->parked, 1);
    (void)pthread_mutex_unlock(&req->still_lock);
}

/* Puts it back to wait. From the last call on another worker may own it. */
static bool arm(struct http_server *s, struct parked *p)
{
    int fd = p->set_fd, op = p->in_turns ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    struct http_req *req = p->req;

    if (set_all(p) < 0)
        return false;
    p->in_turns = true;
    set_still(req, !p->ended);
    server_hand_on(p);
    if (server_watch(s->turns.fd, op, fd, EPOLLIN | EPOLLONESHOT, (uint64_t)(uintptr_t)p) == 0)
        return true;
    p->in_turns = false; /* so that it is nobody's next set */
    set_still(req, false);
    return false;
}

static void go_on(struct worker *w, struct parked *p, unsigned news)
{
    struct http_req *req = p->req;

    if (news)
        take_step(p, news);
    if (!req->peer_gone && (!p->ended || req->unsent.len > 0)) {
        if (arm(w->server, p))
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

    if (w->req == req)
        w->req = NULL;
    if (!req->body_done && !req->passed &&
        (request_body_is_in_the_way(req) || request_drain(req) <= 0))
        req->keep_alive = false;
    request_forget_head(req);
    /* What came behind the request: the start of the next one, or of an upgraded stream. */
    if (w->len > w->off)
        conn_keep(w->server, c, w->data + w->off, w->len - w->off);
    w->len = w->off = 0;
    go_on(w, p, 0);
}

static void wake(struct worker *w, struct parked *p)
{
    struct http_req *req = p->req;
    unsigned news;

    set_still(req, false);
    req->worker = w;
    w->len = w->off = 0;
    news = read_news(p);
    if (req->unsent.len > 0) {
        (void)reply_send_unsent(req);
        if (req->unsent.len == 0)
            news |= HTTP_SENT;
        else if (mono_ns() - req->sent_ns >= patience_ns(p))
            req->peer_gone = true;
    }
    if (news & HTTP_GONE)
        req->peer_gone = true;
    if (req->peer_gone)
        news |= HTTP_GONE;
    go_on(w, p, news);
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
