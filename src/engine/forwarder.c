#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/dial_internal.h"
#include "engine/engine_internal.h"
#include "engine/forwarder_internal.h"
#include "engine/idle_internal.h"
#include "engine/ports_internal.h"
#include "engine/sandbox_internal.h"
#include "policy/policy.h"

/* The thread that carries connections between the host and sandboxes; forwarder_internal.h has the
 * rules.
 *
 * Both sockets of a connection are in the epoll set once, edge-triggered: who becomes ready is
 * carried until it would have to wait. What the other side does not take is kept, and until it is
 * gone nothing more is read: so a slow reader slows its writer and nobody else. */

#define EVENTS       128
#define ACCEPTS      32           /* of one door in a round */
#define ROUNDS       8            /* pieces of one connection, before others have their turn */
#define PIECE        (256u << 10) /* of a connection that flows */
#define PIECE_SLOW   (16u << 10)  /* of one that was held up, and of all when much is held */
#define HELD_MAX     (64u << 20)  /* bytes that all together hold, more or less */
#define AGAIN_NS     (200 * 1000000ll)
#define MISSING_NS   (2 * 1000000000ll)
#define UDP_SWEEP_NS (5 * 1000000000ll)

/* One direction. */
struct lane {
    char *left; /* what was read and not taken yet */
    size_t at, len;
    size_t piece;
    bool ended; /* nothing more will come */
    bool done;  /* and that was passed on */
};

struct conn {
    struct source client_source, box_source;
    struct conn *prev, *next;           /* of all */
    struct conn *dial_prev, *dial_next; /* of those whose dial is under way */
    struct conn *busy_next, *dead_next;
    struct exposed *owner;
    struct door *door;
    unsigned epoch;
    struct sockaddr_storage from;
    int client, box; /* box: -1 while it is dialled */
    struct dial *dial;
    int64_t until_ns; /* of the dial */
    struct lane up, down;
    bool is_busy, is_dead;
};

/* ---- beginnings and ends ---- */

void forwarder_forget(struct forwarder *f, int fd)
{
    (void)epoll_ctl(f->epoll, EPOLL_CTL_DEL, fd, NULL);
}

static void dials_remove(struct forwarder *f, struct conn *c)
{
    *(c->dial_prev ? &c->dial_prev->dial_next : &f->dial_first) = c->dial_next;
    *(c->dial_next ? &c->dial_next->dial_prev : &f->dial_last) = c->dial_prev;
    c->owner->n_dials--;
    forwarder_forget(f, c->dial->fd);
    dial_done(c->dial);
    free(c->dial);
    c->dial = NULL;
}

static void lane_drop(struct forwarder *f, struct lane *l)
{
    f->held -= l->len;
    free(l->left);
    l->left = NULL;
    l->len = l->at = 0;
}

static void reset(int fd)
{
    struct linger now = {.l_onoff = 1};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

void forwarder_made_room(struct forwarder *f)
{
    if (f->starved)
        f->again_ns = mono_ns();
}

/* cut: the other ends hear of it at once, and what is on its way is lost. */
static void conn_end(struct forwarder *f, struct conn *c, bool cut)
{
    if (c->is_dead)
        return;
    c->is_dead = true;
    if (c->dial)
        dials_remove(f, c);
    if (cut)
        reset(c->client);
    forwarder_forget(f, c->client); /* a process that is being started may hold it for a moment */
    close_fd(&c->client);
    if (c->box >= 0) {
        forwarder_forget(f, c->box);
        dial_close(c->box, cut);
    }
    c->box = -1;
    lane_drop(f, &c->up);
    lane_drop(f, &c->down);
    *(c->prev ? &c->prev->next : &f->conns) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    c->owner->n_conns--;
    f->n_all--;
    c->dead_next = f->dead;
    f->dead = c;
    forwarder_made_room(f);
}

/* One that was cut by others had still bytes to move. */
static void forget_busy(struct forwarder *f)
{
    for (struct conn **at = &f->busy; *at;) {
        if ((*at)->is_dead)
            *at = (*at)->busy_next;
        else
            at = &(*at)->busy_next;
    }
}

static void bury(struct forwarder *f)
{
    if (f->dead)
        forget_busy(f);
    while (f->dead) {
        struct conn *c = f->dead;

        f->dead = c->dead_next;
        free(c);
    }
    udp_bury(f);
}

/* ---- carrying ---- */

static size_t piece_of(const struct forwarder *f, const struct lane *l)
{
    return f->held > HELD_MAX ? PIECE_SLOW : l->piece;
}

static bool would_wait(void)
{
    return errno == EAGAIN || errno == EINTR;
}

/* 1 = all was taken, 0 = not now, -1 = the connection is broken. */
static int lane_flush(struct forwarder *f, struct lane *l, int to)
{
    ssize_t n = send(to, l->left + l->at, l->len, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0)
        return would_wait() ? 0 : -1;
    l->at += (size_t)n;
    l->len -= (size_t)n;
    f->held -= (size_t)n;
    if (l->len > 0)
        return 1; /* it took some, and may take more */
    lane_drop(f, l);
    return 1;
}

/* What was just read and not taken. */
static void lane_keep(struct forwarder *f, struct lane *l, const char *data, size_t len)
{
    l->left = xmalloc(len);
    memcpy(l->left, data, len);
    l->at = 0;
    l->len = len;
    l->piece = PIECE_SLOW;
    f->held += len;
}

static int lane_read(struct forwarder *f, struct lane *l, int from, int to)
{
    ssize_t got = recv(from, f->scratch, piece_of(f, l), MSG_DONTWAIT), sent;

    if (got < 0)
        return would_wait() ? 0 : -1;
    if (got == 0) {
        l->ended = true;
        return 1;
    }
    sent = send(to, f->scratch, (size_t)got, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && !would_wait())
        return -1;
    sent = sent < 0 ? 0 : sent;
    if (sent < got)
        lane_keep(f, l, f->scratch + sent, (size_t)(got - sent));
    else if (l->piece < PIECE)
        l->piece *= 2;
    return 1;
}

/* As lane_flush(): 1 = there was something to do. */
static int lane_move(struct forwarder *f, struct lane *l, int from, int to)
{
    if (l->done)
        return 0;
    if (l->len > 0)
        return lane_flush(f, l, to);
    if (!l->ended)
        return lane_read(f, l, from, to);
    l->done = true;
    (void)shutdown(to, SHUT_WR);
    return 0;
}

void forwarder_note(const struct exposed *x)
{
    if (x->sb)
        idle_note(x->sb);
}

static void carry(struct forwarder *f, struct conn *c)
{
    int up = 1, down = 1;

    forwarder_note(c->owner);

    for (int i = 0; i < ROUNDS && (up > 0 || down > 0); i++) {
        up = lane_move(f, &c->up, c->client, c->box);
        down = lane_move(f, &c->down, c->box, c->client);
        if (up < 0 || down < 0) {
            conn_end(f, c, true);
            return;
        }
    }
    if (c->up.done && c->down.done) {
        conn_end(f, c, false);
    } else if ((up > 0 || down > 0) && !c->is_busy) {
        c->is_busy = true;
        c->busy_next = f->busy;
        f->busy = c;
    }
}

static void carry_busy(struct forwarder *f)
{
    struct conn *list = f->busy;

    f->busy = NULL;
    while (list) {
        struct conn *c = list;

        list = c->busy_next;
        c->is_busy = false;
        if (!c->is_dead)
            carry(f, c);
    }
}

/* ---- dialling ---- */

static int listen_for(struct forwarder *f, int fd, uint32_t events, struct source *s)
{
    struct epoll_event e = {.events = events, .data.ptr = s};

    if (epoll_ctl(f->epoll, EPOLL_CTL_ADD, fd, &e) == 0)
        return 0;
    return errno == EEXIST ? epoll_ctl(f->epoll, EPOLL_CTL_MOD, fd, &e) : -1;
}

static void begin_carrying(struct forwarder *f, struct conn *c)
{
    uint32_t events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

    dials_remove(f, c);
    forwarder_made_room(f);
    if (listen_for(f, c->box, events, &c->box_source) < 0 ||
        listen_for(f, c->client, events, &c->client_source) < 0)
        conn_end(f, c, true);
    else
        carry(f, c);
}

static void dial_ready(struct forwarder *f, struct conn *c)
{
    struct err err = {0};
    int r = dial_step(c->dial, &c->box, &err);

    if (r == 1) {
        begin_carrying(f, c);
        return;
    }
    if (r == 0 && listen_for(f, c->dial->fd, c->dial->events == POLLOUT ? EPOLLOUT : EPOLLIN,
                             &c->box_source) == 0)
        return;
    log_debug("a connection to a port could not be passed on", "id", c->owner->id, "error",
              err.text);
    conn_end(f, c, true);
}

static void conn_dial(struct forwarder *f, struct conn *c)
{
    struct err err = {0};

    c->dial = xcalloc(1, sizeof(*c->dial));
    c->until_ns = mono_ns() + FORWARD_DIAL_NS;
    c->dial_prev = f->dial_last;
    *(f->dial_last ? &f->dial_last->dial_next : &f->dial_first) = c;
    f->dial_last = c;
    c->owner->n_dials++;
    if (dial_begin(c->dial, f->engine, c->owner->sb, c->door->spec.port, DIAL_TCP, OPEN_ANY, &err) <
            0 ||
        listen_for(f, c->dial->fd, EPOLLIN, &c->box_source) < 0)
        conn_end(f, c, true);
}

/* One whose peer has gone without a word is found out some time. */
static void keep_alive(int fd)
{
    int on = 1, idle = 60, between = 15, tries = 4;

    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof(between));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof(tries));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void conn_begin(struct forwarder *f, struct door *d, unsigned epoch, int fd,
                       const struct sockaddr_storage *from)
{
    struct conn *c = xcalloc(1, sizeof(*c));

    *c = (struct conn){.client_source = {SOURCE_CLIENT, c},
                       .box_source = {SOURCE_BOX, c},
                       .owner = d->owner,
                       .door = d,
                       .epoch = epoch,
                       .from = *from,
                       .client = fd,
                       .box = -1,
                       .up = {.piece = PIECE / 4},
                       .down = {.piece = PIECE / 4},
                       .next = f->conns};
    if (f->conns)
        f->conns->prev = c;
    f->conns = c;
    d->owner->n_conns++;
    f->n_all++;
    keep_alive(fd);
    if (forwarder_admits(d->owner, d, from))
        conn_dial(f, c);
    else
        conn_end(f, c, true);
}

static bool has_room(const struct forwarder *f, const struct exposed *x)
{
    return x->n_conns < FORWARD_CONNS_MAX && x->n_dials < FORWARD_DIALS_MAX &&
           f->n_all < FORWARD_ALL_MAX;
}

/* With the lock held. Who comes waits in the socket until there is room. */
static void door_is_full(struct forwarder *f, struct door *d)
{
    d->full = true;
    f->starved = true;
    if (!f->again_ns)
        f->again_ns = mono_ns() + AGAIN_NS;
    door_arm(f, d);
}

/* With the lock held. Every error ends in a wait, for an event or for a time: the socket may stay
 * ready. */
static void accept_failed(struct forwarder *f, struct door *d, int error)
{
    if (error == EINVAL)
        door_says(f, d, ENOTCONN); /* it does not listen */
    else if (error != EAGAIN && error != EINTR && error != ECONNABORTED)
        door_is_full(f, d);
}

static void tcp_door_ready(struct forwarder *f, struct door *d)
{
    for (int i = 0; i < ACCEPTS; i++) {
        struct sockaddr_storage from;
        socklen_t len = sizeof(from);
        unsigned epoch;
        int fd = -1;

        pthread_mutex_lock(&f->lock);
        epoch = d->owner->epoch;
        if (!d->gone && d->owner->mode == DOORS_OPEN && d->owner->sb) {
            if (!has_room(f, d->owner)) {
                door_is_full(f, d);
            } else {
                fd = accept4(d->fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd < 0)
                    accept_failed(f, d, errno);
            }
        }
        pthread_mutex_unlock(&f->lock);
        if (fd < 0)
            return;
        conn_begin(f, d, epoch, fd, &from);
    }
}

/* ---- what others have changed ---- */

/* With the lock held: no connection of it is left. */
static bool can_be_freed(const struct exposed *x)
{
    return x->ended && x->n_conns == 0;
}

static void free_exposed(struct exposed *x)
{
    while (x->doors) {
        struct door *d = x->doors;

        x->doors = d->next;
        door_free(d);
    }
    json_decref(x->judged);
    policy_free(x->policy);
    free(x);
}

/* What is to be freed is taken out under the lock; a sandbox's last reference is not given back
 * there. */
static void take_graves(struct forwarder *f, struct exposed **ret, struct door **ret_doors)
{
    *ret = NULL;
    for (struct exposed **at = &f->all; *at;) {
        struct exposed *x = *at;

        if (can_be_freed(x)) {
            *at = x->next;
            x->next = *ret;
            *ret = x;
        } else {
            at = &x->next;
        }
    }
    *ret_doors = f->graves;
    f->graves = NULL;
}

static bool is_unwanted(const struct conn *c)
{
    return c->epoch != c->owner->epoch || c->door->gone ||
           (c->owner->judge && !forwarder_admits(c->owner, c->door, &c->from));
}

/* With the lock held. */
static void cut_peers(struct forwarder *f)
{
    for (struct exposed *x = f->all; x; x = x->next)
        for (struct door *d = x->doors; d; d = d->next)
            if (d->peers)
                udp_cut(f, d, x->mode == DOORS_SHUT || x->ended || d->gone);
    for (struct door *d = f->graves; d; d = d->next)
        udp_cut(f, d, true);
    for (struct exposed *x = f->all; x; x = x->next)
        x->judge = false;
}

/* With the lock held. Nothing is freed. */
static void cut_unwanted(struct forwarder *f)
{
    for (struct conn *c = f->conns, *next; c; c = next) {
        next = c->next;
        if (is_unwanted(c))
            conn_end(f, c, true);
    }
    cut_peers(f);
}

/* Before what has come is passed on: the end of a server that is killed with its sandbox must not
 * look like the end of what it had to say. */
static void cut_first(struct forwarder *f)
{
    pthread_mutex_lock(&f->lock);
    if (f->changed)
        cut_unwanted(f);
    pthread_mutex_unlock(&f->lock);
}

static void look_at_changes(struct forwarder *f)
{
    struct exposed *ended;
    struct door *doors;

    pthread_mutex_lock(&f->lock);
    f->changed = false;
    cut_unwanted(f);
    take_graves(f, &ended, &doors);
    if (f->missing && !f->again_ns)
        f->again_ns = mono_ns() + MISSING_NS;
    pthread_mutex_unlock(&f->lock);
    bury(f);
    while (ended) {
        struct exposed *x = ended;

        ended = x->next;
        sandbox_unref(x->sb);
        free_exposed(x);
    }
    while (doors) {
        struct door *d = doors;

        doors = d->next;
        door_free(d);
    }
}

/* ---- what comes with time ---- */

static void try_again(struct forwarder *f, int64_t now)
{
    if (!f->again_ns || now < f->again_ns)
        return;
    pthread_mutex_lock(&f->lock);
    f->again_ns = 0;
    f->starved = false;
    for (struct exposed *x = f->all; x; x = x->next)
        for (struct door *d = x->doors; d && !x->ended; d = d->next) {
            if (!d->full)
                continue;
            if (has_room(f, x)) {
                d->full = false;
                door_arm(f, d);
            } else {
                f->starved = true;
            }
        }
    if (f->missing) {
        f->missing = false;
        doors_again(f);
    }
    if (f->missing)
        f->again_ns = now + MISSING_NS;
    pthread_mutex_unlock(&f->lock);
}

static void give_up_dials(struct forwarder *f, int64_t now)
{
    while (f->dial_first && f->dial_first->until_ns <= now)
        conn_end(f, f->dial_first, true);
    if (f->n_peers > 0 && now - f->swept_ns >= UDP_SWEEP_NS) {
        f->swept_ns = now;
        udp_expire(f, now);
    }
}

static int next_wait(const struct forwarder *f)
{
    int64_t until = INT64_MAX, now = mono_ns();

    if (f->busy)
        return 0;
    if (f->dial_first)
        until = f->dial_first->until_ns;
    if (f->again_ns && f->again_ns < until)
        until = f->again_ns;
    if (f->n_peers > 0 && f->swept_ns + UDP_SWEEP_NS < until)
        until = f->swept_ns + UDP_SWEEP_NS;
    if (until == INT64_MAX)
        return -1;
    return until <= now ? 0 : (int)((until - now + 999999) / 1000000);
}

/* ---- the thread ---- */

static void dispatch(struct forwarder *f, const struct source *s, uint32_t events)
{
    struct conn *c = s->of;
    struct door *d = s->of;
    eventfd_t n;

    switch (s->kind) {
    case SOURCE_WAKE:
        (void)eventfd_read(f->wake, &n);
        break;
    case SOURCE_DOOR:
        (d->spec.protocol == PORT_UDP ? udp_door_ready : tcp_door_ready)(f, d);
        break;
    case SOURCE_CLIENT:
    case SOURCE_BOX:
        if (c->is_dead)
            break;
        /* Who has ended is not read from, so that it broke would not be noticed. */
        if ((events & EPOLLERR) && (s->kind == SOURCE_CLIENT ? c->up.ended : c->down.ended))
            conn_end(f, c, true);
        else
            (c->dial ? dial_ready : carry)(f, c);
        break;
    case SOURCE_PEER:
    default:
        udp_peer_ready(f, s->of);
        break;
    }
}

static bool must_stop(struct forwarder *f, bool *ret_changed)
{
    bool stop;

    pthread_mutex_lock(&f->lock);
    stop = f->stop;
    *ret_changed = f->changed;
    pthread_mutex_unlock(&f->lock);
    return stop;
}

static void *run(void *arg)
{
    struct forwarder *f = arg;
    struct epoll_event events[EVENTS];
    bool changed;

    while (!must_stop(f, &changed)) {
        int64_t now;
        int n;

        if (changed)
            look_at_changes(f);
        n = epoll_wait(f->epoll, events, EVENTS, next_wait(f));
        cut_first(f);
        for (int i = 0; i < n; i++)
            dispatch(f, events[i].data.ptr, events[i].events);
        carry_busy(f);
        now = mono_ns();
        give_up_dials(f, now);
        try_again(f, now);
        bury(f);
    }
    return NULL;
}

struct forwarder *forwarder_new(struct engine *e)
{
    struct forwarder *f = xcalloc(1, sizeof(*f));

    f->engine = e;
    f->epoll = f->wake = -1;
    (void)pthread_mutex_init(&f->lock, NULL);
    return f;
}

int forwarder_start(struct engine *e, struct err *err)
{
    struct forwarder *f = e->forwarder;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &f->wake_source};
    int r;

    f->wake_source.kind = SOURCE_WAKE;
    f->epoll = epoll_create1(EPOLL_CLOEXEC);
    f->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->epoll < 0 || f->wake < 0 || epoll_ctl(f->epoll, EPOLL_CTL_ADD, f->wake, &event) < 0)
        return err_sys(err, errno, "make the queue of ports");
    f->scratch = xmalloc(PIECE);
    r = pthread_create(&f->thread, NULL, run, f);
    if (r != 0)
        return err_sys(err, r, "start the thread of ports");
    f->running = true;
    return 0;
}

void forwarder_stop(struct engine *e)
{
    struct forwarder *f = e->forwarder;

    pthread_mutex_lock(&f->lock);
    f->stop = true;
    (void)eventfd_write(f->wake, 1);
    pthread_mutex_unlock(&f->lock);
    if (f->running)
        (void)pthread_join(f->thread, NULL);
    f->running = false;
    for (struct exposed *x = f->all, *next; x; x = next) {
        next = x->next;
        if (!x->ended)
            exposed_drop(e, x);
    }
    look_at_changes(f);
}

void forwarder_free(struct forwarder *f)
{
    if (!f)
        return;
    close_fd(&f->epoll);
    close_fd(&f->wake);
    free(f->scratch);
    (void)pthread_mutex_destroy(&f->lock);
    free(f);
}

/* ---- who may come in ---- */

/* What is said of its network now. */
static void read_policy(struct exposed *x)
{
    json_t *network;

    pthread_mutex_lock(&x->sb->lock);
    network = json_incref(x->sb->spec.network);
    pthread_mutex_unlock(&x->sb->lock);
    if (network == x->judged) {
        json_decref(network);
        return;
    }
    json_decref(x->judged);
    policy_free(x->policy);
    x->policy = NULL;
    x->judged = network;
    if (network && policy_parse(network, &x->policy, NULL) < 0)
        x->policy = NULL; /* then nobody may */
}

static void address_of(const struct sockaddr_storage *from, struct net_address *ret)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;

    *ret = (struct net_address){.family = from->ss_family};
    if (from->ss_family == AF_INET)
        memcpy(ret->bytes, &v4->sin_addr, sizeof(v4->sin_addr));
    else
        memcpy(ret->bytes, &v6->sin6_addr, sizeof(v6->sin6_addr));
}

/* A sandbox without a network has no policy: its ports are for all who reach the address. */
bool forwarder_admits(struct exposed *x, const struct door *d, const struct sockaddr_storage *from)
{
    struct policy_flow flow = {.direction = POLICY_INGRESS,
                               .protocol = d->spec.protocol == PORT_UDP ? IPPROTO_UDP : IPPROTO_TCP,
                               .port = d->spec.port};
    struct policy_verdict verdict = {0};

    read_policy(x);
    if (!x->judged)
        return true;
    if (!x->policy)
        return false;
    address_of(from, &flow.to);
    policy_judge(x->policy, &flow, NULL, NULL, NULL, &verdict);
    return verdict.allowed;
}
