/* Clients that ask over TCP: one question at a time, with a deadline for each. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/mem.h"
#include "gateway/dns_internal.h"

#define LENGTH 2

struct dns_client {
    struct grave grave;
    struct guest *guest;
    struct dns_client *next, **at; /* of the box */
    struct source source;
    struct timer timer;
    struct query *query; /* that waits for a name server */
    uint8_t in[LENGTH + DNS_QUERY_MAX];
    size_t in_len;
    uint8_t *out;
    size_t out_len, out_sent;
};

void dns_client_close(struct dns_client *c)
{
    struct worker *w = c->guest->worker;

    if (c->query)
        query_free(c->query);
    source_close(w, &c->source);
    timer_stop(w, &c->timer);
    free(c->out);
    c->out = NULL;
    if (c->next)
        c->next->at = c->at;
    *c->at = c->next;
    c->guest->client_count--;
    w->client_count--;
    bury(w, &c->grave);
}

void dns_client_waits(struct dns_client *c, struct query *q)
{
    c->query = q;
    (void)source_set(c->guest->worker, &c->source, 0);
    timer_stop(c->guest->worker, &c->timer); /* the query has a time of its own */
}

/* -1: the client is gone. */
static int write_out(struct dns_client *c)
{
    ssize_t n = send(c->source.fd, c->out + c->out_sent, c->out_len - c->out_sent,
                     MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0 && errno != EAGAIN)
        return -1;
    if (n > 0)
        c->out_sent += (size_t)n;
    if (c->out_sent < c->out_len)
        return source_set(c->guest->worker, &c->source, EPOLLOUT) < 0 ? -1 : 0;
    free(c->out);
    c->out = NULL;
    return source_set(c->guest->worker, &c->source, EPOLLIN) < 0 ? -1 : 0;
}

/* Called by whoever answers, also from within dns_asked(): the connection goes on with its next
 * event, so nobody up the stack holds one that is closed. */
void dns_client_reply(struct dns_client *c, const uint8_t *wire, size_t len)
{
    c->query = NULL;
    free(c->out);
    c->out = NULL;
    c->out_sent = 0;
    timer_set(c->guest->worker, &c->timer, len > 0 ? CLIENT_IDLE_MS : 0);
    if (len == 0)
        return; /* the timer closes it */
    c->out = xmalloc(LENGTH + len);
    c->out[0] = (uint8_t)(len >> 8);
    c->out[1] = (uint8_t)len;
    memcpy(c->out + LENGTH, wire, len);
    c->out_len = LENGTH + len;
    (void)source_set(c->guest->worker, &c->source, EPOLLOUT);
}

/* The next question, when all of it is there. -1: one that is too long. */
static int next_question(struct dns_client *c)
{
    uint8_t wire[DNS_QUERY_MAX];
    size_t len;

    if (c->in_len < LENGTH)
        return 0;
    len = (size_t)(c->in[0] << 8 | c->in[1]);
    if (len > DNS_QUERY_MAX)
        return -1;
    if (c->in_len < LENGTH + len)
        return 0;
    memcpy(wire, c->in + LENGTH, len);
    c->in_len -= LENGTH + len;
    memmove(c->in, c->in + LENGTH + len, c->in_len);
    dns_asked(c->guest, c, NULL, 0, WORKER_V4, wire, len);
    return 0;
}

static int read_in(struct dns_client *c)
{
    ssize_t n = recv(c->source.fd, c->in + c->in_len, sizeof(c->in) - c->in_len, MSG_DONTWAIT);

    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0)
        return -1;
    c->in_len += (size_t)n;
    return next_question(c);
}

static void client_ready(struct source *s, uint32_t events)
{
    struct dns_client *c = MEMBER_OF(s, struct dns_client, source);
    int r = 0;

    if (c->out)
        r = write_out(c);
    else if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        r = read_in(c);
    if (r == 0 && c->source.interest == EPOLLIN && c->in_len > 0)
        r = next_question(c); /* it had sent several at once */
    if (r < 0)
        dns_client_close(c);
}

static void idle(struct timer *t)
{
    dns_client_close(MEMBER_OF(t, struct dns_client, timer));
}

static void client_new(struct worker *w, struct guest *b, int fd)
{
    struct dns_client *c = xcalloc(1, sizeof(*c));

    c->guest = b;
    c->source = (struct source){.fd = fd, .ready = client_ready};
    c->timer.fire = idle;
    c->next = b->clients;
    c->at = &b->clients;
    if (c->next)
        c->next->at = &c->next;
    b->clients = c;
    b->client_count++;
    w->client_count++;
    timer_set(w, &c->timer, CLIENT_IDLE_MS);
    if (source_set(w, &c->source, EPOLLIN) < 0)
        dns_client_close(c);
}

void dns_client_accept(struct source *s, uint32_t events)
{
    struct worker *w = MEMBER_OF(s, struct listener, source)->worker;
    struct sockaddr_storage peer;
    socklen_t len = sizeof(peer);
    int fd = accept4(s->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct guest *b;

    (void)events;
    if (fd < 0)
        return;
    worker_catch_up(w);
    b = guest_of_peer(w, &peer);
    if (!b || b->client_count >= CLIENTS_BOX_MAX ||
        worker_is_short(CLIENTS_MAX, w->client_count, b->client_count))
        (void)close(fd);
    else
        client_new(w, b, fd);
}
