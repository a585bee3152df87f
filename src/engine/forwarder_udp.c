#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/dial_internal.h"
#include "engine/forwarder_internal.h"

/* Datagrams. Who sends to a door becomes a peer, with a socket of its own in the sandbox, so that
 * answers find back; a peer that nothing came from or went to for a while goes, and so does the one
 * that was used longest ago when there are too many. */

#define DATAGRAMS  64          /* of one socket in a round */
#define QUEUE_MAX  (64u << 10) /* bytes that wait for a dial */
#define PACKET_MAX (64u << 10)

struct peer {
    struct source source;
    struct peer *prev, *next; /* of its door */
    struct peer *dead_next;
    struct door *door;
    struct sockaddr_storage at;
    socklen_t at_len;
    int fd; /* -1 = not yet */
    struct dial *dial;
    int64_t used_ns;
    bool heard, is_dead;
    char *queue; /* u16 length and bytes, each; while it is dialled */
    size_t queue_len;
};

static void unlink_peer(struct peer *p)
{
    *(p->prev ? &p->prev->next : &p->door->peers) = p->next;
    if (p->next)
        p->next->prev = p->prev;
    p->prev = p->next = NULL;
}

static void link_first(struct peer *p)
{
    p->next = p->door->peers;
    if (p->next)
        p->next->prev = p;
    p->door->peers = p;
}

static void peer_used(struct peer *p)
{
    p->used_ns = mono_ns();
    if (p->door->peers != p) {
        unlink_peer(p);
        link_first(p);
    }
}

static void end_dial(struct forwarder *f, struct peer *p)
{
    if (!p->dial)
        return;
    p->door->owner->n_dials--;
    forwarder_forget(f, p->dial->fd);
    forwarder_made_room(f);
    dial_done(p->dial);
    free(p->dial);
    p->dial = NULL;
}

static void peer_end(struct forwarder *f, struct peer *p)
{
    if (p->is_dead)
        return;
    p->is_dead = true;
    end_dial(f, p);
    if (p->fd >= 0) {
        forwarder_forget(f, p->fd);
        dial_close(p->fd, false);
    }
    free(p->queue);
    unlink_peer(p);
    p->door->n_peers--;
    p->door->owner->n_conns--;
    f->n_peers--;
    f->n_all--;
    p->dead_next = f->dead_peers;
    f->dead_peers = p;
    forwarder_made_room(f);
}

void udp_bury(struct forwarder *f)
{
    while (f->dead_peers) {
        struct peer *p = f->dead_peers;

        f->dead_peers = p->dead_next;
        free(p);
    }
}

/* ---- from the host ---- */

static void keep(struct peer *p, const char *data, size_t len)
{
    uint16_t n = (uint16_t)len;

    if (p->queue_len + sizeof(n) + len > QUEUE_MAX)
        return; /* as the network does */
    p->queue = xrealloc(p->queue, p->queue_len + sizeof(n) + len);
    memcpy(p->queue + p->queue_len, &n, sizeof(n));
    memcpy(p->queue + p->queue_len + sizeof(n), data, len);
    p->queue_len += sizeof(n) + len;
}

static void send_kept(struct peer *p)
{
    for (size_t at = 0; at < p->queue_len;) {
        uint16_t n;

        memcpy(&n, p->queue + at, sizeof(n));
        (void)send(p->fd, p->queue + at + sizeof(n), n, MSG_DONTWAIT | MSG_NOSIGNAL);
        at += sizeof(n) + n;
    }
    free(p->queue);
    p->queue = NULL;
    p->queue_len = 0;
}

static bool wait_for(struct forwarder *f, int fd, uint32_t events, struct source *s)
{
    struct epoll_event e = {.events = events, .data.ptr = s};

    return epoll_ctl(f->epoll, EPOLL_CTL_ADD, fd, &e) == 0 ||
           (errno == EEXIST && epoll_ctl(f->epoll, EPOLL_CTL_MOD, fd, &e) == 0);
}

static void begin_dial(struct forwarder *f, struct peer *p)
{
    struct door *d = p->door;

    p->dial = xcalloc(1, sizeof(*p->dial));
    d->owner->n_dials++;
    if (dial_begin(p->dial, f->engine, d->owner->sb, d->spec.port, DIAL_UDP,
                   d->v6 ? OPEN_V6 : OPEN_V4, NULL) < 0 ||
        !wait_for(f, p->dial->fd, EPOLLIN, &p->source))
        peer_end(f, p);
}

static struct peer *oldest(struct door *d)
{
    struct peer *p = d->peers;

    while (p && p->next)
        p = p->next;
    return p;
}

/* NULL when there may be no more. */
static struct peer *peer_new(struct forwarder *f, struct door *d, const struct sockaddr_storage *at,
                             socklen_t len)
{
    struct peer *p;

    if (d->owner->n_dials >= FORWARD_DIALS_MAX || !forwarder_admits(d->owner, d, at))
        return NULL;
    if (d->n_peers >= FORWARD_PEERS_MAX)
        peer_end(f, oldest(d));
    if (f->n_all >= FORWARD_ALL_MAX || d->owner->n_conns >= FORWARD_CONNS_MAX)
        return NULL;
    p = xcalloc(1, sizeof(*p));
    *p = (struct peer){.source = {SOURCE_PEER, p},
                       .door = d,
                       .at = *at,
                       .at_len = len,
                       .fd = -1,
                       .used_ns = mono_ns()};
    link_first(p);
    d->n_peers++;
    d->owner->n_conns++;
    f->n_peers++;
    f->n_all++;
    begin_dial(f, p);
    return p->is_dead ? NULL : p;
}

static struct peer *find(struct door *d, const struct sockaddr_storage *at, socklen_t len)
{
    for (struct peer *p = d->peers; p; p = p->next)
        if (p->at_len == len && memcmp(&p->at, at, len) == 0)
            return p;
    return NULL;
}

/* One datagram, and whether it is to be passed on: -1 = there is none. */
static ssize_t receive(struct forwarder *f, struct door *d, struct sockaddr_storage *from,
                       socklen_t *len, bool *ret_open)
{
    ssize_t n = -1;

    *len = sizeof(*from);
    memset(from, 0, sizeof(*from));
    pthread_mutex_lock(&f->lock);
    *ret_open = d->owner->mode == DOORS_OPEN && d->owner->sb;
    if (!d->gone && d->fd >= 0 && d->owner->mode != DOORS_HELD)
        n = recvfrom(d->fd, f->scratch, PACKET_MAX, MSG_DONTWAIT, (struct sockaddr *)from, len);
    pthread_mutex_unlock(&f->lock);
    return n;
}

void udp_door_ready(struct forwarder *f, struct door *d)
{
    for (int i = 0; i < DATAGRAMS; i++) {
        struct sockaddr_storage from;
        socklen_t len;
        struct peer *p;
        bool open;
        ssize_t n = receive(f, d, &from, &len, &open);

        if (n < 0)
            return;
        if (!open)
            continue;
        p = find(d, &from, len);
        if (!p)
            p = peer_new(f, d, &from, len);
        if (!p)
            continue;
        peer_used(p);
        forwarder_note(d->owner);
        if (p->fd < 0)
            keep(p, f->scratch, (size_t)n);
        else
            (void)send(p->fd, f->scratch, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

/* ---- from the sandbox ---- */

static void send_back(struct forwarder *f, struct peer *p, size_t len)
{
    struct door *d = p->door;

    pthread_mutex_lock(&f->lock);
    if (!d->gone && d->fd >= 0)
        (void)sendto(d->fd, f->scratch, len, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&p->at,
                     p->at_len);
    pthread_mutex_unlock(&f->lock);
}

static void dialled(struct forwarder *f, struct peer *p)
{
    int r = dial_step(p->dial, &p->fd, NULL);

    if (r == 0 &&
        wait_for(f, p->dial->fd, p->dial->events == POLLOUT ? EPOLLOUT : EPOLLIN, &p->source))
        return;
    if (r == 1) {
        end_dial(f, p);
        if (wait_for(f, p->fd, EPOLLIN, &p->source)) {
            send_kept(p);
            return;
        }
    }
    peer_end(f, p);
}

void udp_peer_ready(struct forwarder *f, struct peer *p)
{
    if (p->is_dead)
        return;
    if (p->dial) {
        dialled(f, p);
        return;
    }
    for (int i = 0; i < DATAGRAMS; i++) {
        ssize_t n = recv(p->fd, f->scratch, PACKET_MAX, MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) {
            /* Nothing listens there. A server that speaks the other family is found by the next
             * datagram. */
            if (!p->heard)
                p->door->v6 = !p->door->v6;
            peer_end(f, p);
            return;
        }
        p->heard = true;
        peer_used(p);
        forwarder_note(p->door->owner);
        send_back(f, p, (size_t)n);
    }
}

/* ---- ends ---- */

void udp_cut(struct forwarder *f, struct door *d, bool all)
{
    for (struct peer *p = d->peers, *next; p; p = next) {
        next = p->next;
        if (all || (d->owner->judge && !forwarder_admits(d->owner, d, &p->at)))
            peer_end(f, p);
    }
}

void udp_expire(struct forwarder *f, int64_t now)
{
    pthread_mutex_lock(&f->lock);
    for (struct exposed *x = f->all; x; x = x->next)
        for (struct door *d = x->doors; d; d = d->next) {
            struct peer *p = oldest(d);

            while (p && now - p->used_ns >= FORWARD_IDLE_NS) {
                struct peer *newer = p->prev;

                peer_end(f, p);
                p = newer;
            }
        }
    pthread_mutex_unlock(&f->lock);
}
