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

#define CONNECT_MS 5000

/* 0 or -errno; the socket blocks afterwards. */
static int connect_in_time(int fd, const struct addrinfo *a)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    socklen_t len = sizeof(int);
    int e = 0, n;

    if (connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
        if (errno != EINPROGRESS)
            return -errno;
        do
            n = poll(&p, 1, CONNECT_MS);
        while (n < 0 && errno == EINTR);
        if (n <= 0)
            return n < 0 ? -errno : -ETIMEDOUT;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len) < 0)
            return -errno;
        if (e)
            return -e;
    }
    return fd_set_nonblock(fd, false);
}

static int tcp_connect(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int r = -EHOSTUNREACH, on = 1;

    if (getaddrinfo(host, port, &hints, &list) != 0)
        return r;
    for (struct addrinfo *a = list; a; a = a->ai_next) {
        auto_close int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        r = fd < 0 ? -errno : connect_in_time(fd, a);
        if (r == 0) {
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
            r = steal_fd(fd);
            break;
        }
    }
    freeaddrinfo(list);
    return r;
}

int client_dial(const char *text)
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
    return tcp_connect(name, port && *port ? port : "80");
}
