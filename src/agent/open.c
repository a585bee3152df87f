#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/agent.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"

/* A server that takes nobody in does not refuse either. So long it is waited for here; then the
 * socket goes out as it is, so that no handler is held up by it. */
#define CONNECT_MS 100

/* What waits in the socket, each way; the kernel takes it twice. Without it a reader that has gone
 * to sleep could fill megabytes of the box's memory with each connection. */
#define BUFFER (512 << 10)

/* What became of a connect() that does not wait: 1, 0 = not known yet, or -errno. */
static int connected(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    socklen_t len = sizeof(int);
    int error = 0;

    if (poll(&p, 1, CONNECT_MS) <= 0)
        return 0;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        return -errno;
    return error ? -error : 1;
}

/* 1 or 0 as above with the socket, or -errno. */
static int open_one(const struct sockaddr *sa, socklen_t len, int type, int *ret)
{
    auto_close int fd = socket(sa->sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r = 1, on = 1, room = BUFFER;

    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    if (connect(fd, sa, len) < 0)
        r = errno == EINPROGRESS ? connected(fd) : -errno;
    if (r < 0)
        return r;
    if (type == SOCK_STREAM)
        (void)setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof(on));
    *ret = steal_fd(fd);
    return r;
}

static int open_loopback(uint16_t port, int type, enum call_open_family family, int *ret)
{
    struct sockaddr_in v4 = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int first = -ECONNREFUSED, second;

    if (family != OPEN_V6)
        first = open_one((struct sockaddr *)&v4, sizeof(v4), type, ret);
    if (first >= 0 || family == OPEN_V4)
        return first;
    second = open_one((struct sockaddr *)&v6, sizeof(v6), type, ret);
    return second < 0 ? first : second;
}

/* OK leaves together with the socket, so it is sent here and not queued. */
static int send_socket(struct agent_call *c, int fd, bool is_connected)
{
    auto_buf struct buf payload = {0}, frame = {0};

    buf_init(&payload, 16);
    wire_put_u32(&payload, is_connected);
    buf_init(&frame, 64);
    (void)frame_put(&frame, FRAME_OK, payload.data, payload.len);
    return send_fds(c->fd, frame.data, frame.len, &fd, 1);
}

int open_call(struct agent_call *c, struct err *err)
{
    uint32_t port = wire_get_u32(&c->args), kind = wire_get_u32(&c->args);
    uint32_t family = wire_get_u32(&c->args);
    auto_close int fd = -1;
    int r;

    if (call_args_ok(c, err) < 0)
        return -1;
    if (port < 1 || port > 65535 || kind > OPEN_UDP || family > OPEN_V6)
        return err_set(err, ERR_INVALID, "%u is not a port; they go from 1 to 65535", port);
    r = open_loopback((uint16_t)port, kind == OPEN_UDP ? SOCK_DGRAM : SOCK_STREAM, family, &fd);
    if (r < 0) {
        (void)err_code(err, ERR_UNAVAILABLE, "port_closed",
                       "nothing answers on port %u inside the sandbox: %s; start a server there",
                       port, strerror(-r));
        if (err)
            err->sys = -r;
        return -1;
    }
    (void)send_socket(c, fd, r == 1);
    return 0;
}
