#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include "base/budget.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/http_internal.h"

/* Threads that wait beside those that work: no request should wait for one. Between the two is a
 * gap, so that threads do not come and go with every small change of load. */
#define SPARES_MIN     2
#define SPARES_MAX     4
#define WORKERS_MIN    (1 + SPARES_MIN)
#define WORKER_STACK   (256u << 10)
#define WORKER_IDLE_MS 10000
#define ACCEPT_BATCH   64
#define FILES_A_SEAT   4
#define SEATS_MIN      16
#define FILES_KEPT     512 /* for all else */
#define IDLE_KEPT      64  /* when it is full: so much less patience with idle connections */
#define TICKS_A_TRIM   8
#define ROOM_AGAIN_NS  (100 * 1000000ll)
#define HEAD_MAX_LIMIT (64u << 10) /* of the buffer that each worker has */

static const struct refusal full = {
    503, "unavailable", "the server has as many connections as it may; try again later"};

static int watch(struct http_server *s, int op, struct watched *what, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = what};

    return epoll_ctl(s->epoll_fd, op, what->fd, &e);
}

/* The bare system call is for ThreadSanitizer, which knows that ADD hands a descriptor on, but
 * takes the next owner's close() for a race with the MOD that armed it. */
int server_watch(int epoll_fd, int op, int fd, uint32_t events, uint64_t data)
{
    struct epoll_event e = {.events = events, .data.u64 = data};

    return (int)syscall(SYS_epoll_ctl, epoll_fd, op, fd, &e);
}

#ifdef __SANITIZE_THREAD__
void server_hand_on(void *what)
{
    __tsan_release(what);
}

void server_take_over(void *what)
{
    __tsan_acquire(what);
}
#else
void server_hand_on(void *what)
{
    (void)what;
}

void server_take_over(void *what)
{
    (void)what;
}
#endif

/* Each parked request needs its client's socket, its set, a timer and mostly a source; one that
 * could not get them would fail half-way. */
static unsigned seats_for(unsigned wanted)
{
    struct rlimit files;
    rlim_t room;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur == RLIM_INFINITY)
        return wanted;
    room = files.rlim_cur > FILES_KEPT ? (files.rlim_cur - FILES_KEPT) / FILES_A_SEAT : 0;
    if (room < SEATS_MIN)
        room = SEATS_MIN;
    return room < wanted ? (unsigned)room : wanted;
}

/* The engine needs descriptors too: clients that only connect must not take the last one. */
static unsigned connections_for(unsigned wanted)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur / 2 >= wanted)
        return wanted;
    return (unsigned)(files.rlim_cur / 2);
}

struct http_server *http_server_new(const struct http_limits *limits, http_handler handler,
                                    void *arg)
{
    struct http_server *s = xcalloc(1, sizeof(*s));
    pthread_condattr_t attr;

    s->limits = *limits;
    if (s->limits.head_max > HEAD_MAX_LIMIT)
        s->limits.head_max = HEAD_MAX_LIMIT;
    if (s->limits.workers_max < WORKERS_MIN)
        s->limits.workers_max = WORKERS_MIN;
    s->limits.seats_max = seats_for(limits->seats_max);
    s->limits.connections_max = connections_for(limits->connections_max);
    s->handler = handler;
    s->arg = arg;
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->tick =
        (struct watched){WATCHED_TICK, timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
    s->stop = (struct watched){WATCHED_STOP, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    s->turns = (struct watched){WATCHED_TURNS, epoll_create1(EPOLL_CLOEXEC)};
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&s->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    return s;
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    if (s->started)
        http_server_stop(s, 0);
    for (struct listener *l = s->listeners, *next; l; l = next) {
        next = l->next;
        close_fd(&l->watched.fd);
        free(l);
    }
    for (struct conn *c = s->given, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    park_trim(s, true);
    close_fd(&s->epoll_fd);
    close_fd(&s->tick.fd);
    close_fd(&s->stop.fd);
    close_fd(&s->turns.fd);
    (void)pthread_cond_destroy(&s->changed);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

int http_server_listen(struct http_server *s, int fd, bool is_tcp, struct err *err)
{
    struct listener *l = xcalloc(1, sizeof(*l));
    int r = fd_set_nonblock(fd, true);

    *l = (struct listener){.watched = {WATCHED_LISTENER, fd}, .is_tcp = is_tcp};
    if (r == 0 && watch(s, EPOLL_CTL_ADD, &l->watched, EPOLLIN | EPOLLONESHOT) < 0)
        r = -errno;
    if (r < 0) {
        (void)close(fd);
        free(l);
        return err_sys(err, -r, "watch the listening socket");
    }
    (void)pthread_mutex_lock(&s->lock);
    l->next = s->listeners;
    s->listeners = l;
    (void)pthread_mutex_unlock(&s->lock);
    return 0;
}

unsigned http_server_connections(struct http_server *s)
{
    unsigned n;

    (void)pthread_mutex_lock(&s->lock);
    n = s->conn_count;
    (void)pthread_mutex_unlock(&s->lock);
    return n;
}

/* ---- connections ---- */

/* With the lock held. Nothing to watch, no ticks: an idle daemon sleeps. */
static void set_ticking(struct http_server *s, bool on)
{
    int ms = s->limits.idle_timeout_ms;
    struct itimerspec t = {0};

    if (s->ticking == on)
        return;
    s->ticking = on;
    if (on) {
        if (s->limits.head_timeout_ms < ms)
            ms = s->limits.head_timeout_ms;
        if (s->limits.body_timeout_ms < ms)
            ms = s->limits.body_timeout_ms;
        if (s->limits.linger_ms && s->limits.linger_ms < ms)
            ms = s->limits.linger_ms;
        ms = ms / 4 > 1000 ? 1000 : ms / 4 < 10 ? 10 : ms / 4;
        t.it_value.tv_sec = t.it_interval.tv_sec = ms / 1000;
        t.it_value.tv_nsec = t.it_interval.tv_nsec = ms % 1000 * 1000000l;
    }
    (void)timerfd_settime(s->tick.fd, 0, &t, NULL);
}

/* Whose time is up: NOW of those whose deadline has passed, for ROOM also of those that have been
 * idle or slow for a while, at the END of all that have no request. */
enum due { DUE_NOW, DUE_ROOM, DUE_END };

static bool is_due(const struct http_server *s, const struct conn *c, int64_t due, enum due which)
{
    int64_t now = mono_ns(), idle = (int64_t)s->limits.idle_timeout_ms * 1000000;
    int64_t pace = atomic_load(&c->pace_ns);

    if (due <= 0)
        return false;
    if (due < now)
        return true;
    if (atomic_load(&c->waits) != WAITS_BODY)
        return which == DUE_END || (which == DUE_ROOM && due < now + idle - idle / IDLE_KEPT);
    if (which == DUE_ROOM)
        return pace + idle / IDLE_KEPT < now;
    return which == DUE_NOW && atomic_load(&c->holds) && pace + HOLDER_GRACE_NS < now &&
           budget_is_tight(s->limits.memory);
}

/* With the lock held: wakes an owner for each connection that is due. */
static void wake_due(struct http_server *s, enum due which)
{
    for (struct conn *c = s->conns; c; c = c->next) {
        int64_t due = atomic_load(&c->deadline);

        if (is_due(s, c, due, which) && atomic_compare_exchange_strong(&c->deadline, &due, OVERDUE))
            (void)shutdown(c->watched.fd, SHUT_RD);
    }
}

/* With the lock held: whoever has been idle for a while, or is slow with a head or body, goes, so
 * that those who connect next are served. Otherwise clients that connect and say nothing would keep
 * everyone out until they time out. */
static void make_room(struct http_server *s)
{
    int64_t now = mono_ns();

    if (now - s->room_ns < ROOM_AGAIN_NS)
        return;
    s->room_ns = now;
    wake_due(s, DUE_ROOM);
}

static bool add_conn(struct http_server *s, struct conn *c)
{
    bool room;

    (void)pthread_mutex_lock(&s->lock);
    room = s->conn_count < s->limits.connections_max;
    if (room) {
        s->conn_count++;
        c->next = s->conns;
        if (c->next)
            c->next->prev = c;
        s->conns = c;
        set_ticking(s, true);
    } else {
        make_room(s);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return room;
}

/* With the lock held. */
static void unlist(struct http_server *s, struct conn *c)
{
    if (c->prev)
        c->prev->next = c->next;
    else
        s->conns = c->next;
    if (c->next)
        c->next->prev = c->prev;
    s->conn_count--;
}

void server_close_conn(struct http_server *s, struct conn *c)
{
    (void)pthread_mutex_lock(&s->lock);
    unlist(s, c);
    /* Closed under the lock, so that who counts zero connections finds no descriptor open. */
    (void)close(c->watched.fd);
    if (atomic_load(&s->stopping))
        (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
    conn_forget_kept(s, c);
    free(c);
}

int server_arm(struct http_server *s, struct conn *c, int64_t deadline)
{
    /* One that has requests left is woken at once, behind the others. */
    uint32_t events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT | (c->has_turn ? EPOLLOUT : 0);
    int fd = c->watched.fd;

    bool receives = c->receiving;

    atomic_store(&c->waits, c->lingering  ? WAITS_END
                            : receives    ? WAITS_BODY
                            : c->kept_len ? WAITS_REST
                                          : WAITS_REQUEST);
    /* The last touch: from here on another worker may own it, or it may be given away. */
    atomic_store(&c->deadline, deadline);
    server_hand_on(&c->watched);
    if (server_watch(s->epoll_fd, EPOLL_CTL_MOD, fd, events, (uint64_t)(uintptr_t)&c->watched) ==
            0 ||
        atomic_load(&c->deadline) == GIVEN)
        return 0;
    log_error("a connection cannot be watched, closing it", "error", strerror(errno));
    if (receives) {
        atomic_store(&c->deadline, 0);
        return -1;
    }
    server_close_conn(s, c);
    return 0;
}

/* Who connected: it stays the same however often it asks. */
static uid_t peer_uid(int fd, bool is_tcp)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if (is_tcp || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return (uid_t)-1;
    return cred.uid;
}

void http_server_take(struct http_server *s, int fd, bool is_tcp)
{
    struct conn *c = xcalloc(1, sizeof(*c));
    int on = 1;

    c->watched = (struct watched){WATCHED_CONN, fd};
    c->is_tcp = is_tcp;
    c->peer_uid = peer_uid(fd, is_tcp);
    atomic_store(&c->deadline, mono_ns() + (int64_t)s->limits.idle_timeout_ms * 1000000);
    if (is_tcp)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (!add_conn(s, c)) {
        reply_refusal_raw(fd, &full);
        (void)close(fd);
        free(c);
        return;
    }
    if (watch(s, EPOLL_CTL_ADD, &c->watched, EPOLLIN | EPOLLRDHUP | EPOLLONESHOT) < 0) {
        log_error("a connection cannot be watched, closing it", "error", strerror(errno));
        server_close_conn(s, c);
    }
}

static void accept_some(struct http_server *s, struct listener *l)
{
    for (int i = 0; i < ACCEPT_BATCH && !atomic_load(&s->stopping); i++) {
        int fd = accept4(l->watched.fd, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0) {
            http_server_take(s, fd, l->is_tcp);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            log_warn("cannot accept a connection, pausing", "error", strerror(errno));
            (void)pthread_mutex_lock(&s->lock);
            l->paused = true;
            set_ticking(s, true);
            make_room(s);
            (void)pthread_mutex_unlock(&s->lock);
            return;
        }
        if (errno == EAGAIN || errno == EINVAL) /* EINVAL: shut down by a stop */
            break;
    }
    if (!atomic_load(&s->stopping))
        (void)watch(s, EPOLL_CTL_MOD, &l->watched, EPOLLIN | EPOLLONESHOT);
}

static void tick(struct http_server *s)
{
    uint64_t count;
    bool trim, last;

    (void)!read(s->tick.fd, &count, sizeof(count));
    (void)pthread_mutex_lock(&s->lock);
    wake_due(s, DUE_NOW);
    for (struct listener *l = s->listeners; l; l = l->next) {
        if (l->paused && !atomic_load(&s->stopping))
            (void)watch(s, EPOLL_CTL_MOD, &l->watched, EPOLLIN | EPOLLONESHOT);
        l->paused = false;
    }
    trim = s->conn_count == 0 || ++s->ticks % TICKS_A_TRIM == 0;
    last = s->conn_count == 0;
    if (last)
        set_ticking(s, false);
    (void)pthread_mutex_unlock(&s->lock);
    park_trim(s, last);
    if (trim)
        memory_trim();
    (void)watch(s, EPOLL_CTL_MOD, &s->tick, EPOLLIN | EPOLLONESHOT);
}

/* ---- workers ---- */

static struct worker *worker_new(struct http_server *s)
{
    struct worker *w = xcalloc(1, sizeof(*w));

    w->server = s;
    w->cap = s->limits.head_max + BODY_ROOM;
    w->data = xmalloc(w->cap);
    w->headers = xcalloc(s->limits.headers_max, sizeof(*w->headers));
    return w;
}

static void worker_free(struct worker *w)
{
    free(w->data);
    free(w->headers);
    free(w->req);
    free(w);
}

/* With the lock held. It may be the last touch of the server: after the unlock that may be freed,
 * once the thread has ended. */
static struct ended leave(struct http_server *s)
{
    s->workers--;
    (void)pthread_cond_broadcast(&s->changed);
    return ended_swap(&s->ended);
}

/* May this worker, which had nothing to do, leave? */
static bool leave_if_spare(struct http_server *s, struct ended *ret)
{
    bool spare;

    (void)pthread_mutex_lock(&s->lock);
    spare = s->workers > WORKERS_MIN && atomic_load(&s->waiting) > SPARES_MAX;
    if (spare) {
        *ret = leave(s);
        atomic_fetch_sub(&s->waiting, 1);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return spare;
}

/* epoll wakes the worker that came last, so under light load the same few work and the others
 * reach their time-out. Returns false when the worker has left already, and who did before it. */
static bool work(struct worker *w, struct ended *ret)
{
    struct http_server *s = w->server;

    for (;;) {
        struct epoll_event e;
        struct watched *what;
        int n = epoll_wait(s->epoll_fd, &e, 1, WORKER_IDLE_MS);

        if (n == 0 && leave_if_spare(s, ret))
            return false;
        if (n <= 0)
            continue;
        what = e.data.ptr;
        server_take_over(what);
        if (what->kind == WATCHED_STOP)
            return true;
        atomic_fetch_sub(&s->waiting, 1);
        if (what->kind == WATCHED_CONN)
            conn_wake(w, (struct conn *)what);
        else if (what->kind == WATCHED_TURNS)
            park_turn(w);
        else if (what->kind == WATCHED_LISTENER)
            accept_some(s, (struct listener *)what);
        else
            tick(s);
        atomic_fetch_add(&s->waiting, 1);
    }
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct http_server *s = w->server;
    struct ended before;
    bool stays = work(w, &before);

    worker_free(w);
    if (stays) {
        (void)pthread_mutex_lock(&s->lock);
        before = leave(s);
        (void)pthread_mutex_unlock(&s->lock);
    }
    ended_join(before);
    return NULL;
}

/* With the number of workers raised already. */
static int start_worker(struct http_server *s)
{
    struct worker *w = worker_new(s);
    pthread_attr_t attr;
    sigset_t all;
    pthread_t t;
    int r;

    (void)sigfillset(&all);
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, WORKER_STACK);
    (void)pthread_attr_setsigmask_np(&attr, &all); /* signals are the main thread's */
    /* Counted before it runs: otherwise a burst would start one for each request in it. */
    atomic_fetch_add(&s->waiting, 1);
    r = pthread_create(&t, &attr, worker_main, w);
    (void)pthread_attr_destroy(&attr);
    if (r != 0) {
        atomic_fetch_sub(&s->waiting, 1);
        worker_free(w);
    }
    return -r;
}

/* Called before a handler, which may block for long. */
void server_want_worker(struct http_server *s)
{
    bool more = false;
    int r;

    if (atomic_load(&s->waiting) >= SPARES_MIN)
        return;
    (void)pthread_mutex_lock(&s->lock);
    if (atomic_load(&s->waiting) < SPARES_MIN && s->workers < s->limits.workers_max) {
        s->workers++;
        more = true;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (!more)
        return;
    r = start_worker(s);
    if (r < 0) {
        log_warn("cannot start a worker thread, going on with fewer", "error", strerror(-r));
        (void)pthread_mutex_lock(&s->lock);
        s->workers--;
        (void)pthread_mutex_unlock(&s->lock);
    }
}

int http_server_start(struct http_server *s, struct err *err)
{
    if (s->epoll_fd < 0 || watch(s, EPOLL_CTL_ADD, &s->tick, EPOLLIN | EPOLLONESHOT) < 0 ||
        watch(s, EPOLL_CTL_ADD, &s->stop, EPOLLIN) < 0 ||
        watch(s, EPOLL_CTL_ADD, &s->turns, EPOLLIN) < 0)
        return err_sys(err, errno, "make the event queue of the HTTP server");
    s->started = true;
    for (int i = 0; i < WORKERS_MIN; i++) {
        int r;

        (void)pthread_mutex_lock(&s->lock);
        s->workers++;
        (void)pthread_mutex_unlock(&s->lock);
        r = start_worker(s);
        if (r < 0) {
            (void)pthread_mutex_lock(&s->lock);
            s->workers--;
            (void)pthread_mutex_unlock(&s->lock);
            http_server_stop(s, 0);
            return err_sys(err, -r, "start the threads of the HTTP server");
        }
    }
    return 0;
}

/* With the lock held: waits for a change, at most until then. */
static void wait_change(struct http_server *s, int64_t until)
{
    struct timespec ts = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};

    (void)pthread_cond_timedwait(&s->changed, &s->lock, &ts);
}

/* With the lock held: no more connections come from here. With an heir the sockets stay as they
 * are: who connects meanwhile waits there to be accepted. */
static void stop_listening(struct http_server *s, bool has_heir)
{
    for (struct listener *l = s->listeners; l; l = l->next) {
        if (has_heir)
            (void)epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, l->watched.fd, NULL);
        else
            (void)shutdown(l->watched.fd, SHUT_RDWR);
    }
}

/* With the lock held: out of the list, and out of the reach of workers that are still woken. */
static void give(struct http_server *s, struct conn *c, const struct http_heir *heir)
{
    (void)epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->watched.fd, NULL);
    unlist(s, c);
    c->next = s->given;
    s->given = c;
    heir->take(c->watched.fd, c->is_tcp, heir->arg);
}

/* With the lock held: connections that wait for a request go to the heir with whatever the client
 * sends meanwhile; those that wait for their end have it now. */
static void give_idle(struct http_server *s, const struct http_heir *heir)
{
    for (struct conn *c = s->conns, *next; c; c = next) {
        enum conn_wait waits = atomic_load(&c->waits);
        int64_t due = atomic_load(&c->deadline);

        next = c->next;
        if (due > 0 && waits == WAITS_REQUEST &&
            atomic_compare_exchange_strong(&c->deadline, &due, GIVEN))
            give(s, c, heir);
        else if (due > 0 && waits == WAITS_END &&
                 atomic_compare_exchange_strong(&c->deadline, &due, OVERDUE))
            (void)shutdown(c->watched.fd, SHUT_RD);
    }
}

/* When no worker is left. */
static void drop_or_give(struct http_server *s, struct conn *c, const struct http_heir *heir)
{
    if (heir && atomic_load(&c->waits) == WAITS_REQUEST)
        give(s, c, heir);
    else
        server_close_conn(s, c);
}

static void stop(struct http_server *s, int drain_ms, const struct http_heir *heir)
{
    int64_t end = mono_ns() + (int64_t)drain_ms * 1000000;
    uint64_t one = 1;

    if (!s->started)
        return;
    s->started = false;
    atomic_store(&s->stopping, true);
    (void)pthread_mutex_lock(&s->lock);
    stop_listening(s, heir != NULL);
    /* Again and again: a worker may have armed a connection just after we looked. */
    while (s->conn_count > 0 && mono_ns() < end) {
        int64_t soon = mono_ns() + 20 * 1000000;

        if (heir)
            give_idle(s, heir);
        else
            wake_due(s, DUE_END);
        if (s->conn_count > 0)
            wait_change(s, soon < end ? soon : end);
    }
    while (s->conn_count > 0) {
        /* Before the others are shut down: with a drain_ms of 0 this is the first look. */
        if (heir)
            give_idle(s, heir);
        for (struct conn *c = s->conns; c; c = c->next)
            (void)shutdown(c->watched.fd, SHUT_RDWR);
        if (s->conn_count > 0)
            wait_change(s, mono_ns() + 20 * 1000000);
    }
    (void)write(s->stop.fd, &one, sizeof(one));
    while (s->workers > 0)
        (void)pthread_cond_wait(&s->changed, &s->lock);
    (void)pthread_mutex_unlock(&s->lock);
    ended_join(s->ended);
    s->ended = (struct ended){0};
    /* Accepted by a worker just before the listeners were shut down. */
    while (s->conns)
        drop_or_give(s, s->conns, heir);
}

void http_server_stop(struct http_server *s, int drain_ms)
{
    stop(s, drain_ms, NULL);
}

void http_server_hand_over(struct http_server *s, int drain_ms, const struct http_heir *heir)
{
    stop(s, drain_ms, heir);
}
