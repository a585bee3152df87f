#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "agent/agent.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "proto/frame.h"

#define DIAL_SECONDS 5
#define CHUNK        (64u << 10)

static int dial(const struct sockaddr *sa, socklen_t len)
{
    struct timeval limit = {.tv_sec = DIAL_SECONDS}, none = {0};
    auto_close int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd, sa, len) < 0)
        return errno == EINPROGRESS ? -ETIMEDOUT : -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
    (void)setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof(on));
    return steal_fd(fd);
}

static int dial_loopback(uint16_t port)
{
    struct sockaddr_in v4 = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int first = dial((struct sockaddr *)&v4, sizeof(v4));
    int fd = first < 0 ? dial((struct sockaddr *)&v6, sizeof(v6)) : first;

    return fd < 0 ? first : fd;
}

/* One direction. It waits for input only while it holds nothing, so neither side can make us grow.
 */
struct lane {
    int from, to;
    char *data;
    size_t at, len;
    bool done; /* the end was passed on */
};

static short lane_wants(const struct lane *l, int fd)
{
    if (l->done)
        return 0;
    if (l->len > 0)
        return fd == l->to ? POLLOUT : 0;
    return fd == l->from ? POLLIN : 0;
}

/* 0, or -errno when the stream is broken. */
static int lane_move(struct lane *l)
{
    ssize_t n;

    if (l->done)
        return 0;
    if (l->len == 0) {
        n = recv(l->from, l->data, CHUNK, MSG_DONTWAIT);
        if (n == 0) {
            l->done = true;
            (void)shutdown(l->to, SHUT_WR);
        }
        if (n <= 0)
            return n < 0 && errno != EAGAIN && errno != EINTR ? -errno : 0;
        l->at = 0;
        l->len = (size_t)n;
    }
    n = send(l->to, l->data + l->at, l->len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0)
        return errno != EAGAIN && errno != EINTR ? -errno : 0;
    l->at += (size_t)n;
    l->len -= (size_t)n;
    return 0;
}

static void carry(struct lane lanes[2])
{
    int a = lanes[0].from, b = lanes[0].to;

    while (!lanes[0].done || !lanes[1].done) {
        struct pollfd p[2] = {
            {.fd = a, .events = lane_wants(&lanes[0], a) | lane_wants(&lanes[1], a)},
            {.fd = b, .events = lane_wants(&lanes[0], b) | lane_wants(&lanes[1], b)}};

        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return;
        /* Closed both ways: nobody is left to take what the other lane brings. */
        if ((p[0].revents & (POLLHUP | POLLERR) && !(p[0].revents & POLLIN)) ||
            (p[1].revents & POLLERR))
            return;
        if (lane_move(&lanes[0]) < 0 || lane_move(&lanes[1]) < 0)
            return;
    }
}

int dial_call(struct agent_call *c, struct err *err)
{
    static char up[CHUNK], down[CHUNK];
    uint32_t port = wire_get_u32(&c->args);
    auto_close int fd = -1;

    if (call_args_ok(c, err) < 0)
        return -1;
    if (port < 1 || port > 65535)
        return err_set(err, ERR_INVALID, "%u is not a TCP port; they go from 1 to 65535", port);
    if (agent_become_stream(err) < 0)
        return -1;
    fd = dial_loopback((uint16_t)port);
    if (fd < 0) {
        (void)err_set(err, ERR_UNAVAILABLE,
                      "nothing answers on port %u inside the sandbox: %s; start a server there",
                      port, strerror(-fd));
        err->sys = -fd;
        return -1;
    }
    call_reply(c, FRAME_OK, NULL, 0);
    call_flush(c);

    /* What the caller sent right behind the call belongs to the stream already. */
    buf_shift(&c->in, c->at);
    if (c->in.len > 0 && write_all(fd, c->in.data, c->in.len) < 0)
        return 0;
    carry((struct lane[2]){{.from = c->fd, .to = fd, .data = up},
                           {.from = fd, .to = c->fd, .data = down}});
    return 0;
}
