#include "gateway/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/worker_internal.h"

#define ORDERS_A_TURN 4096 /* more than its socket holds */

/* A connection has two sockets and, while bytes wait in both directions, two pipes. */
#define FDS_A_CONN 6
#define FDS_OTHER                                                                                  \
    4096 /* queries, clients of DNS, pipes that are kept, what is open at the start                \
          */
#define CONNS_MAX 16384
#define CONNS_MIN 64

static void do_order(struct worker *w, struct wire_order *order, int fd)
{
    if (order->kind == WIRE_ANSWER) {
        ask_answered(w, order->number, order->error, fd);
        return;
    }
    if (fd >= 0)
        (void)close(fd);
    switch (order->kind) {
    case WIRE_WORLD:
        w->world = *order->world;
        break;
    case WIRE_BOX:
        guest_order(w, order);
        break;
    case WIRE_PINNED:
        guest_pinned(w, order);
        break;
    case WIRE_GONE:
        guest_gone(w, order->id);
        break;
    case WIRE_ANSWER:
    default:
        break;
    }
}

void worker_catch_up(struct worker *w)
{
    for (int i = 0; i < ORDERS_A_TURN; i++) {
        struct wire_order order;
        int fd = -1, error;
        json_t *message = wire_recv(w->warden.fd, &fd, &error);

        if (!message && error == -EAGAIN)
            return;
        if (!message && error != -EBADMSG) { /* the warden has gone, and so does its worker */
            w->stopping = true;
            return;
        }
        if (!message || wire_order_parse(message, &order) < 0) {
            log_error("the warden sent what cannot be read");
            if (fd >= 0)
                (void)close(fd);
            json_decref(message);
            continue;
        }
        do_order(w, &order, fd);
        wire_order_done(&order);
        json_decref(message);
    }
}

static void orders_ready(struct source *s, uint32_t events)
{
    (void)events;
    worker_catch_up(MEMBER_OF(s, struct worker, warden));
}

static unsigned conns_max(void)
{
    struct rlimit l;

    if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur < FDS_OTHER + FDS_A_CONN * CONNS_MIN)
        return CONNS_MIN;
    if (l.rlim_cur > FDS_OTHER + (rlim_t)FDS_A_CONN * CONNS_MAX)
        return CONNS_MAX;
    return (unsigned)((l.rlim_cur - FDS_OTHER) / FDS_A_CONN);
}

static void listener_init(struct worker *w, struct listener *l, int fd, int family)
{
    *l = (struct listener){.source.fd = fd, .worker = w, .family = family};
    if (fd >= 0)
        (void)fd_set_nonblock(fd, true);
}

static struct worker *worker_new(const struct worker_start *start)
{
    struct worker *w = xcalloc(1, sizeof(*w));

    w->warden = (struct source){.fd = start->warden, .ready = orders_ready};
    for (int f = 0; f < WORKER_FAMILIES; f++) {
        listener_init(w, &w->dns_udp[f], start->dns_udp[f], f);
        listener_init(w, &w->dns_tcp[f], start->dns_tcp[f], f);
        listener_init(w, &w->inspect[f], start->inspect[f], f);
    }
    w->conns_max = conns_max();
    return w;
}

_Noreturn void worker_run(const struct worker_start *start)
{
    struct worker *w = worker_new(start);
    int r;

    (void)signal(SIGPIPE, SIG_IGN); /* splice() has no flag for it */
    r = worker_filter();

    if (r == 0)
        r = loop_init(w);
    if (r == 0)
        r = source_set(w, &w->warden, EPOLLIN);
    if (r == 0) {
        dns_listen(w);
        inspect_listen(w);
    }
    while (r == 0 && !w->stopping)
        r = loop_round(w);
    if (r < 0)
        log_error("the gateway's worker ends", "error", strerror(-r));
    _exit(r < 0 ? 1 : 0);
}
