#include "cli/tunnel.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/client.h"

#define PIECE (64u << 10)

/* ---- the connection ---- */

int tunnel_dial(const char *target, const char *id, uint16_t port, int *ret,
                char ret_code[TUNNEL_CODE_SIZE], struct err *err)
{
    struct api_failure failure = {0};
    struct api api = {0};
    int r;

    api_init(&api, target, api_token(), CLIENT_NAME,
             &failure); /* not the process's: here are many at once */
    r = api_dial(&api, id, port, ret, err);
    (void)snprintf(ret_code, TUNNEL_CODE_SIZE, "%s", failure.code);
    api_close(&api);
    api_failure_clear(&failure);
    return r;
}

/* ---- its bytes ---- */

/* One direction. */
struct half {
    int from, to;
    char *data;
    size_t off, len; /* what was read and not yet sent is [off, len) */
    bool ended;      /* there is nothing more to read, */
    bool done;       /* and that was told */
    bool hung;       /* from is closed both ways, of which poll() tells unasked, again and again */
};

/* -1 when a side has broken. */
static int move(struct half *h)
{
    ssize_t n;

    if (h->off == h->len && !h->ended) {
        n = recv(h->from, h->data, PIECE, MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        h->off = 0;
        h->len = (size_t)n;
        h->ended = n == 0;
    }
    while (h->off < h->len) {
        n = send(h->to, h->data + h->off, h->len - h->off, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        h->off += (size_t)n;
    }
    if (h->ended && !h->done) {
        (void)shutdown(h->to, SHUT_WR);
        h->done = true;
    }
    return 0;
}

/* Until one of them can go on. */
static int await(struct half *up, struct half *down)
{
    struct pollfd p[2] = {{.fd = up->from}, {.fd = down->from}};
    struct half *halves[2] = {up, down};

    for (int i = 0; i < 2; i++) {
        if (halves[i]->off < halves[i]->len)
            p[1 - i].events |= POLLOUT;
        else if (!halves[i]->ended)
            p[i].events |= POLLIN;
    }
    for (int i = 0; i < 2; i++)
        if (!p[i].events && halves[i]->hung)
            p[i].fd = -1;
    if (poll(p, 2, -1) < 0)
        return errno == EINTR ? 0 : -1;
    for (int i = 0; i < 2; i++)
        halves[i]->hung |= (p[i].revents & POLLHUP) != 0;
    return ((p[0].revents | p[1].revents) & (POLLERR | POLLNVAL)) ? -1 : 0;
}

static void keep_alive(int fd)
{
    int on = 1;

    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void tunnel_carry(int local, int stream)
{
    struct half up = {.from = local, .to = stream, .data = xmalloc(PIECE)};
    struct half down = {.from = stream, .to = local, .data = xmalloc(PIECE)};
    int r = 0;

    keep_alive(local);
    keep_alive(stream);
    while (r == 0 && !(up.done && down.done)) {
        r = await(&up, &down);
        if (r == 0 && (move(&up) < 0 || move(&down) < 0))
            r = -1;
    }
    (void)close(stream);
    if (r < 0)
        tunnel_refuse(local);
    else
        (void)close(local);
    free(up.data);
    free(down.data);
}

void tunnel_refuse(int local)
{
    struct linger reset = {.l_onoff = 1};

    (void)setsockopt(local, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    (void)close(local);
}
