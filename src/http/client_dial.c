#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/mem.h"
#include "http/http_internal.h"

/* 0 or -errno; the socket blocks afterwards. */
static int connect_in_time(int fd, const struct addrinfo *a, int timeout_ms, int stop_fd)
{
    struct pollfd p[2] = {{.fd = fd, .events = POLLOUT}, {.fd = stop_fd, .events = POLLIN}};
    socklen_t len = sizeof(int);
    int e = 0, n;

    if (connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
        if (errno != EINPROGRESS)
            return -errno;
        do
            n = poll(p, 2, timeout_ms);
        while (n < 0 && errno == EINTR);
        if (n <= 0)
            return n < 0 ? -errno : -ETIMEDOUT;
        if (p[1].revents)
            return -ECANCELED;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len) < 0)
            return -errno;
        if (e)
            return -e;
    }
    return fd_set_nonblock(fd, false);
}

static int tcp_connect(const char *host, const char *port, int timeout_ms, int stop_fd)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int r = -EHOSTUNREACH, on = 1;

    if (getaddrinfo(host, port, &hints, &list) != 0)
        return r;
    for (struct addrinfo *a = list; a && r != -ECANCELED; a = a->ai_next) {
        auto_close int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        r = fd < 0 ? -errno : connect_in_time(fd, a, timeout_ms, stop_fd);
        if (r == 0) {
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
            r = steal_fd(fd);
            break;
        }
    }
    freeaddrinfo(list);
    return r;
}

int client_dial(const char *text, int timeout_ms, int stop_fd)
{
    auto_free char *host = xstrdup(text);
    char *name = host, *port;

    if (*name == '[') {
        port = strchr(++name, ']');
        if (!port)
            return -EINVAL;
        *port++ = '\0';
        if (*port && *port != ':')
            return -EINVAL;
    } else {
        port = strchr(name, ':');
    }
    if (port && *port)
        *port++ = '\0';
    return tcp_connect(name, port && *port ? port : "80", timeout_ms, stop_fd);
}
