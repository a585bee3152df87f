/* Asking name servers: the policy's, else the host's, in order. Each question has a socket of its
 * own, from the warden, with a port that the kernel drew, and an id that we did. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/mem.h"
#include "gateway/dns_internal.h"

#define TRIES_MIN  2 /* of one server: a datagram gets lost */
#define DATAGRAM   4096
#define LENGTH     2 /* before a message on TCP */
#define NS_A_MS    1000000
#define MISSES_MAX 64 /* datagrams that are no answer, of one round */

static void try_next(struct query *q);
static void ask_server(struct query *q);

void upstream_stop(struct query *q)
{
    struct worker *w = q->guest->worker;

    timer_stop(w, &q->timer);
    source_close(w, &q->up);
    free(q->stream);
    q->stream = NULL;
}

/* The servers of the box: how many, and the one whose turn it is. */
static unsigned server_for(const struct query *q, struct wire_server *ret)
{
    const struct wire_world *world = &q->guest->worker->world;
    const struct policy_dns *dns = policy_dns(q->guest->policy);

    if (dns->n > 0) {
        ret->address = dns->nameservers[q->tried % dns->n].address;
        ret->port = dns->nameservers[q->tried % dns->n].port;
        return dns->n;
    }
    if (world->server_count > 0)
        *ret = world->servers[q->tried % world->server_count];
    return world->server_count;
}

static void finished(struct query *q, struct dns_answer *a)
{
    upstream_stop(q);
    if (a->truncated && !q->tcp) {
        dns_answer_done(a);
        q->tcp = true;
        ask_server(q);
    } else if (a->truncated ||
               (a->rcode != LDNS_RCODE_NOERROR && a->rcode != LDNS_RCODE_NXDOMAIN)) {
        dns_answer_done(a);
        try_next(q); /* it cannot; perhaps another can */
    } else {
        query_answered(q, a);
    }
}

/* ---- UDP ---- */

static void datagram_ready(struct source *s, uint32_t events)
{
    struct query *q = MEMBER_OF(s, struct query, up);
    static uint8_t wire[DATAGRAM];

    (void)events;
    for (int i = 0; i < MISSES_MAX; i++) {
        ssize_t n = recv(s->fd, wire, sizeof(wire), MSG_DONTWAIT | MSG_TRUNC);
        struct dns_answer a;

        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) { /* nobody listens there */
            upstream_stop(q);
            try_next(q);
            return;
        }
        if ((size_t)n <= sizeof(wire) &&
            dns_answer_parse(wire, (size_t)n, &q->question, q->id, &a) == 0) {
            finished(q, &a);
            return;
        }
    }
}

static void send_datagram(struct query *q)
{
    uint8_t wire[DATAGRAM];
    ssize_t n = dns_question_build(&q->question, q->id, wire, sizeof(wire));

    q->up.ready = datagram_ready;
    if (n < 0 || send(q->up.fd, wire, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) != n ||
        source_set(q->guest->worker, &q->up, EPOLLIN) < 0) {
        upstream_stop(q);
        try_next(q);
    }
}

/* ---- TCP ---- */

/* 1 when all of the message is there, 0 when not yet, -1 when it will never be. */
static int read_stream(struct query *q)
{
    for (;;) {
        size_t want = LENGTH;
        ssize_t n;

        if (q->stream_done >= LENGTH)
            want += (size_t)(q->stream[0] << 8 | q->stream[1]);
        if (q->stream_done >= LENGTH && q->stream_done == want)
            return 1;
        n = recv(q->up.fd, q->stream + q->stream_done, want - q->stream_done, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0)
            return -1;
        q->stream_done += (size_t)n;
    }
}

static void answer_ready(struct source *s, uint32_t events)
{
    struct query *q = MEMBER_OF(s, struct query, up);
    struct dns_answer a;
    int r = read_stream(q);

    (void)events;
    if (r == 0)
        return;
    if (r < 0 || dns_answer_parse(q->stream + LENGTH, q->stream_done - LENGTH, &q->question, q->id,
                                  &a) < 0) {
        upstream_stop(q);
        try_next(q);
        return;
    }
    finished(q, &a);
}

static void stream_ready(struct source *s, uint32_t events)
{
    struct query *q = MEMBER_OF(s, struct query, up);
    ssize_t n = send(s->fd, q->stream + q->stream_done, q->stream_len - q->stream_done,
                     MSG_DONTWAIT | MSG_NOSIGNAL);

    (void)events;
    if (n < 0 && errno == EAGAIN)
        return;
    if (n < 0) {
        upstream_stop(q);
        try_next(q);
        return;
    }
    q->stream_done += (size_t)n;
    if (q->stream_done < q->stream_len)
        return;
    q->stream_done = 0;
    s->ready = answer_ready;
    (void)source_set(q->guest->worker, s, EPOLLIN);
}

static void send_stream(struct query *q)
{
    ssize_t n;

    q->stream = xmalloc(LENGTH + DNS_WIRE_MAX);
    n = dns_question_build(&q->question, q->id, q->stream + LENGTH, DNS_WIRE_MAX);
    q->up.ready = stream_ready;
    if (n < 0 || source_set(q->guest->worker, &q->up, EPOLLOUT) < 0) {
        upstream_stop(q);
        try_next(q);
        return;
    }
    q->stream[0] = (uint8_t)(n >> 8);
    q->stream[1] = (uint8_t)n;
    q->stream_len = LENGTH + (size_t)n;
    q->stream_done = 0;
}

/* ---- one try after the other ---- */

static void got_socket(void *owner, int error, int fd)
{
    struct query *q = owner;

    q->ask = 0;
    if (error != 0 || fd < 0) {
        if (fd >= 0)
            (void)close(fd);
        upstream_stop(q);
        try_next(q);
        return;
    }
    q->up.fd = fd;
    if (getrandom(&q->id, sizeof(q->id), 0) != (ssize_t)sizeof(q->id))
        query_failed(q);
    else if (q->tcp)
        send_stream(q);
    else
        send_datagram(q);
}

static void too_late(struct timer *t)
{
    struct query *q = MEMBER_OF(t, struct query, timer);

    ask_forget(q->guest->worker, &q->ask);
    upstream_stop(q);
    try_next(q);
}

static void ask_server(struct query *q)
{
    struct worker *w = q->guest->worker;
    struct wire_ask ask = {.kind = WIRE_DNS, .tcp = q->tcp};
    struct wire_server server;
    int64_t left = (q->deadline - mono_ns()) / NS_A_MS, turn;

    /* The policy may have gone, or changed, while another server was waited for. */
    if (!q->guest->policy || left <= 0 || server_for(q, &server) == 0) {
        query_failed(q);
        return;
    }
    turn = policy_dns(q->guest->policy)->query_timeout_ms / q->tries;
    ask.address = server.address;
    ask.port = server.port;
    (void)snprintf(ask.box, sizeof(ask.box), "%s", q->guest->id);
    q->timer.fire = too_late;
    timer_set(w, &q->timer, left < turn ? left : turn);
    q->ask = ask_send(w, &ask, got_socket, q);
    if (q->ask == 0)
        query_failed(q);
}

static void try_next(struct query *q)
{
    q->tcp = false;
    if (++q->tried >= q->tries)
        query_failed(q);
    else
        ask_server(q);
}

void upstream_start(struct query *q)
{
    struct wire_server server;

    q->tries = server_for(q, &server);
    if (q->tries < TRIES_MIN)
        q->tries = TRIES_MIN;
    q->deadline = mono_ns() + (int64_t)policy_dns(q->guest->policy)->query_timeout_ms * NS_A_MS;
    ask_server(q);
}
