#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/forwarder_internal.h"
#include "engine/ports_internal.h"
#include "engine/sandbox_internal.h"

/* The sockets that listen on the host.
 *
 * A TCP port stays its sandbox's while the sandbox is stopped: the socket stays bound and does not
 * listen, so that connections are refused and no other process can have the port. connect() to no
 * family does that (shutdown() does too, but a second one makes every later connection begin at its
 * end), and listen() opens it again. For this the socket must have been bound to a port by its
 * number. Of UDP the socket just stays, and what comes is thrown away.
 *
 * SO_REUSEADDR is set while a socket listens, and only then:
 *  - bind() and listen() fail with EADDRINUSE for as long as a connection of the port is in
 *    TIME_WAIT (60 s), unless the connection and the socket both have the option. Connections
 *    inherit it from the socket that accepted them.
 *  - a socket that is bound, does not listen and has the option lets other processes with the
 *    option bind the port, and listen there. */

#define BACKLOG   512
#define ANY_TRIES 16

/* ---- sockets ---- */

/* The caller has checked the address. */
static socklen_t address_of(const struct port_spec *p, struct sockaddr_storage *ret)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

    memset(ret, 0, sizeof(*ret));
    if (inet_pton(AF_INET, p->address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(p->host_port);
        return sizeof(*v4);
    }
    (void)inet_pton(AF_INET6, p->address, &v6->sin6_addr);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(p->host_port);
    return sizeof(*v6);
}

static void set_reuse(int fd, int on)
{
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
}

/* Refuses from now on, and who waits to be accepted is refused too. */
static void stop_listening(int fd)
{
    struct sockaddr none = {.sa_family = AF_UNSPEC};

    set_reuse(fd, 0); /* first: a connection that is accepted after it is reset by the next call */
    (void)connect(fd, &none, sizeof(none));
}

/* 0 or the error number; then the socket is bound and does not listen. */
static int start_listening(int fd)
{
    int error;

    set_reuse(fd, 1);
    if (listen(fd, BACKLOG) == 0)
        return 0;
    error = errno;
    stop_listening(fd);
    return error;
}

/* Bound to that port by its number: the socket or -errno. */
static int bind_port(const struct port_spec *p)
{
    int type = p->protocol == PORT_UDP ? SOCK_DGRAM : SOCK_STREAM, on = 1, error = 0;
    struct sockaddr_storage sa;
    socklen_t len = address_of(p, &sa);
    auto_close int fd = socket(sa.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    /* Without this :: would take the IPv4 port too. */
    if (sa.ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (type == SOCK_STREAM)
        set_reuse(fd, 1);
    if (bind(fd, (struct sockaddr *)&sa, len) < 0)
        return -errno;
    if (type == SOCK_STREAM) {
        error = start_listening(fd); /* which shows that no other socket listens there */
        stop_listening(fd);
    }
    return error ? -error : steal_fd(fd);
}

/* One that is free, as the kernel chooses: 0 or -errno. Another may take it meanwhile. */
static int find_free(const struct port_spec *p, uint16_t *ret)
{
    int type = p->protocol == PORT_UDP ? SOCK_DGRAM : SOCK_STREAM;
    struct sockaddr_storage sa;
    socklen_t len = address_of(p, &sa);
    auto_close int fd = socket(sa.ss_family, type | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, len) < 0 ||
        getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
        return -errno;
    *ret = ntohs(sa.ss_family == AF_INET ? ((struct sockaddr_in *)&sa)->sin_port
                                         : ((struct sockaddr_in6 *)&sa)->sin6_port);
    return 0;
}

static int take_port(struct port_spec *p)
{
    struct port_spec want = *p;
    int fd = -EADDRINUSE;

    if (p->host_port != 0)
        return bind_port(p);
    for (int i = 0; i < ANY_TRIES && fd == -EADDRINUSE; i++) {
        int r = find_free(p, &want.host_port);

        if (r < 0)
            return r;
        fd = bind_port(&want);
    }
    if (fd >= 0)
        p->host_port = want.host_port;
    return fd;
}

/* ---- who has a port ---- */

static bool same(const struct port_spec *a, const struct port_spec *b)
{
    return a->port == b->port && a->protocol == b->protocol;
}

static bool is_wildcard(const char *address)
{
    return strcmp(address, "0.0.0.0") == 0 || strcmp(address, "::") == 0;
}

static bool collide(const struct port_spec *a, const struct port_spec *b)
{
    return a->host_port == b->host_port && a->protocol == b->protocol &&
           (strcmp(a->address, b->address) == 0 ||
            ((is_wildcard(a->address) || is_wildcard(b->address)) &&
             !strchr(a->address, ':') == !strchr(b->address, ':')));
}

/* With the lock held: a door other than that one that has the port, or NULL. A door that waits for
 * its port has it too. */
static struct door *find_taker(struct forwarder *f, const struct port_spec *p,
                               const struct door *but)
{
    for (struct exposed *x = f->all; x; x = x->next)
        for (struct door *d = x->doors; d && !x->ended; d = d->next)
            if (d != but && collide(&d->spec, p))
                return d;
    return NULL;
}

static int taken_by_us(const struct door *d, const struct port_spec *p, struct err *err)
{
    return err_code(err, ERR_CONFLICT, "port_in_use",
                    "%s port %u of %s leads to port %u of %s%s; take another hostPort, or 0 for "
                    "any that is free",
                    port_protocol_words[p->protocol], p->host_port, p->address, d->spec.port,
                    *d->owner->id ? "sandbox " : "a sandbox that is being made", d->owner->id);
}

static int cannot_take(const struct port_spec *p, int error, struct err *err)
{
    char owner[PORT_OWNER_MAX];

    if (error == EADDRINUSE && p->host_port == 0)
        return err_code(err, ERR_CONFLICT, "port_in_use", "no %s port of %s is free",
                        port_protocol_words[p->protocol], p->address);
    if (error == EADDRINUSE) {
        port_owner(p->protocol, p->host_port, owner);
        return err_code(err, ERR_CONFLICT, "port_in_use",
                        "%s port %u of %s is in use%s%s; take another hostPort, or 0 for any that "
                        "is free",
                        port_protocol_words[p->protocol], p->host_port, p->address,
                        *owner ? " by " : "", owner);
    }
    if (error == EADDRNOTAVAIL || error == EAFNOSUPPORT || error == EINVAL)
        return err_set(err, ERR_INVALID, "hostAddress: this machine has no address %s to listen on",
                       p->address);
    if (error == EACCES || error == EPERM)
        return err_code(err, ERR_FORBIDDEN, "port_not_allowed",
                        "the daemon may not listen on port %u; take one from 1024 on",
                        p->host_port);
    return err_sys(err, error, "listen on %s port %u", p->address, p->host_port);
}

/* ---- doors ---- */

void forwarder_poke(struct forwarder *f)
{
    f->changed = true;
    (void)eventfd_write(f->wake, 1);
}

static bool door_is_open(const struct door *d)
{
    return d->owner->mode != DOORS_SHUT && !d->error;
}

/* Listens, or refuses, as its sandbox is; who is held waits in the socket. */
void door_arm(struct forwarder *f, struct door *d)
{
    bool open = door_is_open(d);
    uint32_t wants = d->owner->mode == DOORS_OPEN && !d->full ? EPOLLIN : 0;
    struct epoll_event e = {.events = wants, .data.ptr = &d->source};

    /* Of UDP what comes for one that is shut is read, and thrown away; a TCP socket that does not
     * listen has always something to tell. */
    if (d->spec.protocol == PORT_UDP && !open) {
        e.events = wants = EPOLLIN;
    } else if (!open) {
        if (d->listed)
            (void)epoll_ctl(f->epoll, EPOLL_CTL_DEL, d->fd, NULL);
        d->listed = false;
        return;
    }
    if (d->fd < 0 || (d->listed && d->wants == wants))
        return;
    if (epoll_ctl(f->epoll, d->listed ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, d->fd, &e) == 0) {
        d->listed = true;
        d->wants = wants;
    }
}

void door_says(struct forwarder *f, struct door *d, int error)
{
    if (error && error != d->error && d->owner->sb) {
        char port[8];

        (void)snprintf(port, sizeof(port), "%u", d->spec.host_port);
        log_warn("a port of a sandbox cannot listen on the host; trying again", "id", d->owner->id,
                 "port", port, "error", strerror(error));
    }
    d->error = error;
    if (error) {
        f->missing = true;
        forwarder_poke(f);
    }
    door_arm(f, d);
}

static void door_set(struct forwarder *f, struct door *d)
{
    int error = 0;

    if (d->fd < 0)
        error = d->error;
    else if (d->spec.protocol == PORT_TCP && d->owner->mode != DOORS_SHUT)
        error = start_listening(d->fd);
    else if (d->spec.protocol == PORT_TCP)
        stop_listening(d->fd);
    door_says(f, d, error);
}

/* The port is free when it returns; the rest is the thread's to free. */
static void door_close(struct forwarder *f, struct door *d)
{
    d->gone = true;
    if (d->listed)
        (void)epoll_ctl(f->epoll, EPOLL_CTL_DEL, d->fd, NULL);
    d->listed = false;
    close_fd(&d->fd);
    f->n_doors--;
}

void door_free(struct door *d)
{
    close_fd(&d->fd);
    free(d);
}

/* fd: a socket or -errno. */
static void door_add(struct forwarder *f, struct exposed *x, const struct port_spec *p, int fd)
{
    struct door **at = &x->doors, *d = xcalloc(1, sizeof(*d));

    *d = (struct door){.source = {SOURCE_DOOR, d},
                       .owner = x,
                       .spec = *p,
                       .fd = fd < 0 ? -1 : fd,
                       .error = fd < 0 ? -fd : 0};
    while (*at)
        at = &(*at)->next;
    *at = d;
    f->n_doors++;
    door_set(f, d);
}

/* *ret_error: the kernel says no, and why is still to be told. */
static int add_locked(struct forwarder *f, struct exposed *x, struct port_spec *p, int *ret_error,
                      struct err *err)
{
    struct door *taker = p->host_port ? find_taker(f, p, NULL) : NULL;
    int fd;

    if (f->n_doors >= PORTS_TOTAL_MAX)
        return err_code(err, ERR_LIMIT, "port_limit",
                        "all sandboxes together have %d ports on the host already; remove some",
                        PORTS_TOTAL_MAX);
    if (taker)
        return taken_by_us(taker, p, err);
    fd = take_port(p);
    if (fd < 0) {
        *ret_error = -fd;
        return -1;
    }
    door_add(f, x, p, fd);
    return 0;
}

int exposed_add(struct engine *e, struct exposed *x, struct port_spec *p, struct err *err)
{
    struct forwarder *f = e->forwarder;
    int r, error = 0;

    pthread_mutex_lock(&f->lock);
    r = add_locked(f, x, p, &error, err);
    pthread_mutex_unlock(&f->lock);
    /* Who has it is looked for among all processes, while others are carried. */
    return error ? cannot_take(p, error, err) : r;
}

void exposed_add_missing(struct engine *e, struct exposed *x, const struct port_spec *p)
{
    struct forwarder *f = e->forwarder;

    pthread_mutex_lock(&f->lock);
    door_add(f, x, p, bind_port(p));
    pthread_mutex_unlock(&f->lock);
}

static void door_try(struct forwarder *f, struct door *d)
{
    int fd = d->fd < 0 ? bind_port(&d->spec) : d->fd;

    if (fd < 0) {
        door_says(f, d, -fd);
    } else {
        d->fd = fd;
        door_set(f, d);
    }
}

void doors_again(struct forwarder *f)
{
    for (struct exposed *x = f->all; x; x = x->next)
        for (struct door *d = x->doors; d && !x->ended; d = d->next)
            if (d->error)
                door_try(f, d);
}

void exposed_remove(struct engine *e, struct exposed *x, const struct port_spec *p)
{
    struct forwarder *f = e->forwarder;

    pthread_mutex_lock(&f->lock);
    for (struct door **at = &x->doors; *at; at = &(*at)->next) {
        struct door *d = *at;

        if (!same(&d->spec, p))
            continue;
        *at = d->next;
        door_close(f, d);
        d->next = f->graves;
        f->graves = d;
        forwarder_poke(f);
        break;
    }
    pthread_mutex_unlock(&f->lock);
}

bool exposed_is_open(struct engine *e, struct exposed *x, const struct port_spec *p,
                     struct err *why)
{
    struct forwarder *f = e->forwarder;
    struct door *d, *taker;
    int error = 0;
    bool open;

    pthread_mutex_lock(&f->lock);
    d = x->ended ? NULL : x->doors;
    while (d && !same(&d->spec, p))
        d = d->next;
    open = d && door_is_open(d);
    if (d)
        error = d->error;
    taker = error == EADDRINUSE ? find_taker(f, p, d) : NULL;
    if (taker)
        (void)taken_by_us(taker, p, why);
    pthread_mutex_unlock(&f->lock);
    if (error && !taker)
        (void)cannot_take(p, error, why);
    return open;
}

/* ---- those of a sandbox ---- */

struct exposed *exposed_new(struct engine *e)
{
    struct exposed *x = xcalloc(1, sizeof(*x));

    pthread_mutex_lock(&e->forwarder->lock);
    x->next = e->forwarder->all;
    e->forwarder->all = x;
    pthread_mutex_unlock(&e->forwarder->lock);
    return x;
}

void exposed_give(struct engine *e, struct exposed *x, struct sandbox *sb)
{
    pthread_mutex_lock(&e->forwarder->lock);
    memcpy(x->id, sb->box.id, sizeof(x->id));
    x->sb = sandbox_ref(sb);
    sb->exposed = x;
    pthread_mutex_unlock(&e->forwarder->lock);
}

/* With the lock held. */
static void end(struct forwarder *f, struct exposed *x)
{
    x->ended = true;
    x->mode = DOORS_SHUT;
    x->epoch++;
    for (struct door *d = x->doors; d; d = d->next)
        door_close(f, d);
    if (x->sb)
        x->sb->exposed = NULL;
    forwarder_poke(f);
}

void exposed_drop(struct engine *e, struct exposed *x)
{
    if (!x)
        return;
    pthread_mutex_lock(&e->forwarder->lock);
    end(e->forwarder, x);
    pthread_mutex_unlock(&e->forwarder->lock);
}

void exposed_follow(struct engine *e, struct sandbox *sb, enum sandbox_state state)
{
    struct forwarder *f = e->forwarder;
    struct exposed *x;

    pthread_mutex_lock(&f->lock);
    x = sb->exposed;
    if (x && state == SANDBOX_REMOVING) {
        end(f, x);
    } else if (x) {
        int was = x->mode;

        x->mode = state == SANDBOX_RUNNING  ? DOORS_OPEN
                  : state == SANDBOX_PAUSED ? DOORS_HELD
                                            : DOORS_SHUT;
        for (struct door *d = x->doors; d; d = d->next)
            if ((was == DOORS_SHUT) != (x->mode == DOORS_SHUT))
                door_set(f, d);
            else
                door_arm(f, d);
        if (x->mode == DOORS_SHUT && was != DOORS_SHUT) {
            x->epoch++;
            forwarder_poke(f);
        }
    }
    pthread_mutex_unlock(&f->lock);
}

void exposed_judge(struct engine *e, struct sandbox *sb)
{
    struct forwarder *f = e->forwarder;

    pthread_mutex_lock(&f->lock);
    if (sb->exposed) {
        sb->exposed->judge = true;
        forwarder_poke(f);
    }
    pthread_mutex_unlock(&f->lock);
}
