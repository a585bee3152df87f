/* A question of a sandbox: judged, answered here or asked for, pinned, answered. */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/mem.h"
#include "gateway/dns_internal.h"

#define DATAGRAMS_A_TURN 64

static void answer_client(struct guest *b, const struct query *q, const struct dns_answer *a)
{
    static uint8_t wire[DNS_WIRE_MAX];
    size_t room = q->client ? sizeof(wire) : q->question.room;
    ssize_t n = dns_answer_build(&q->question, a, room, wire, sizeof(wire));

    if (q->client)
        dns_client_reply(q->client, wire, n < 0 ? 0 : (size_t)n);
    else if (n > 0) /* what does not go now is lost, as datagrams are: the client asks again */
        (void)sendto(b->worker->dns_udp[q->family].source.fd, wire, (size_t)n, MSG_DONTWAIT,
                     (const struct sockaddr *)&q->from, q->from_len);
}

static void answer_rcode(struct query *q, int rcode)
{
    struct dns_answer a;

    dns_answer_init(&a, rcode);
    answer_client(q->guest, q, &a);
    dns_answer_done(&a);
}

void query_free(struct query *q)
{
    struct worker *w = q->guest->worker;

    upstream_stop(q);
    ask_forget(w, &q->ask);
    dns_answer_done(&q->answer);
    if (q->next)
        q->next->at = q->at;
    *q->at = q->next;
    q->guest->query_count--;
    w->query_count--;
    bury(w, &q->grave);
}

void query_failed(struct query *q)
{
    answer_rcode(q, LDNS_RCODE_SERVFAIL);
    query_free(q);
}

static void pinned(void *owner, int error, int fd)
{
    struct query *q = owner;

    q->ask = 0;
    if (fd >= 0)
        (void)close(fd);
    if (error != 0) {
        query_failed(q);
        return;
    }
    guest_pin(q->guest, q->question.name, q->answer.addresses, q->answer.address_count,
              dns_pin_seconds(q->answer.ttl));
    answer_client(q->guest, q, &q->answer);
    query_free(q);
}

/* An answer with addresses goes out when the kernel knows them: the client connects at once. */
static void pin_and_answer(struct query *q)
{
    const struct dns_answer *a = &q->answer;
    struct wire_ask ask = {.kind = WIRE_PIN, .ttl = dns_pin_seconds(a->ttl)};

    if (a->address_count > 0 && q->guest->policy)
        ask.rule_count =
            policy_rules_for_name(q->guest->policy, q->question.name, ask.rules, WIRE_RULES_MAX);
    if (ask.rule_count == 0) {
        answer_client(q->guest, q, a);
        query_free(q);
        return;
    }
    (void)snprintf(ask.box, sizeof(ask.box), "%s", q->guest->id);
    (void)snprintf(ask.name, sizeof(ask.name), "%s", q->question.name);
    memcpy(ask.addresses, a->addresses, a->address_count * sizeof(ask.addresses[0]));
    ask.address_count = a->address_count;
    q->ask = ask_send(q->guest->worker, &ask, pinned, q);
    if (q->ask == 0)
        query_failed(q);
}

void query_answered(struct query *q, struct dns_answer *a)
{
    struct policy_verdict why;

    dns_answer_done(&q->answer);
    q->answer = *a;
    *a = (struct dns_answer){0};
    if (!dns_answer_allowed(q->guest, &q->question, &q->answer, &why)) {
        guest_denied(q->guest, "dns", q->answer.address_count > 0 ? &q->answer.addresses[0] : NULL,
                     0, q->question.name, &why);
        answer_rcode(q, LDNS_RCODE_NXDOMAIN);
        query_free(q);
        return;
    }
    pin_and_answer(q);
}

static struct query *query_new(const struct query *asked)
{
    struct guest *b = asked->guest;
    struct query *q = xmalloc(sizeof(*q));

    *q = *asked;
    q->next = b->queries;
    q->at = &b->queries;
    if (q->next)
        q->next->at = &q->next;
    b->queries = q;
    b->query_count++;
    b->worker->query_count++;
    if (q->client)
        dns_client_waits(q->client, q);
    return q;
}

/* What can be told at once needs no query that lives on; one that needs a pin or a name server
 * does. */
static void decided(struct query *asked, enum decision what, struct policy_verdict *why)
{
    struct guest *b = asked->guest;
    bool full = b->query_count >= QUERIES_BOX_MAX ||
                worker_is_short(QUERIES_MAX, b->worker->query_count, b->query_count);

    if (what == DECIDED_DENIED) {
        guest_denied(b, "dns", NULL, 0, asked->question.name, why);
        answer_rcode(asked, LDNS_RCODE_NXDOMAIN);
    } else if (what == DECIDED_HERE && asked->answer.address_count == 0) {
        answer_client(b, asked, &asked->answer);
    } else if (full) {
        answer_rcode(asked, LDNS_RCODE_SERVFAIL);
    } else if (what == DECIDED_HERE) {
        struct query *q = query_new(asked);

        asked->answer = (struct dns_answer){0};
        pin_and_answer(q);
    } else {
        upstream_start(query_new(asked));
    }
    dns_answer_done(&asked->answer);
}

void dns_asked(struct guest *b, struct dns_client *client, const struct sockaddr_storage *from,
               socklen_t from_len, int family, const uint8_t *wire, size_t len)
{
    struct query asked = {.guest = b, .client = client, .from_len = from_len, .family = family};
    struct policy_verdict why = {0};
    int rcode = dns_question_parse(wire, len, &asked.question);

    asked.up.fd = -1;
    if (from)
        asked.from = *from;
    if (rcode < 0) {
        if (client)
            dns_client_reply(client, NULL, 0);
        return;
    }
    if (rcode > 0) {
        answer_rcode(&asked, rcode);
        return;
    }
    decided(&asked, dns_decide(b, &asked.question, &asked.answer, &why), &why);
}

static void datagrams_ready(struct source *s, uint32_t events)
{
    struct listener *l = MEMBER_OF(s, struct listener, source);
    static uint8_t wire[DNS_QUERY_MAX];

    (void)events;
    for (int i = 0; i < DATAGRAMS_A_TURN; i++) {
        struct sockaddr_storage from;
        socklen_t from_len = sizeof(from);
        ssize_t n = recvfrom(s->fd, wire, sizeof(wire), MSG_DONTWAIT | MSG_TRUNC,
                             (struct sockaddr *)&from, &from_len);
        struct guest *b;

        if (n < 0)
            return;
        worker_catch_up(l->worker);
        b = guest_of_peer(l->worker, &from);
        if (b && (size_t)n <= sizeof(wire))
            dns_asked(b, NULL, &from, from_len, l->family, wire, (size_t)n);
    }
}

void dns_listen(struct worker *w)
{
    for (int f = 0; f < WORKER_FAMILIES; f++) {
        w->dns_udp[f].source.ready = datagrams_ready;
        w->dns_tcp[f].source.ready = dns_client_accept;
        (void)source_set(w, &w->dns_udp[f].source, EPOLLIN);
        (void)source_set(w, &w->dns_tcp[f].source, EPOLLIN);
    }
}

void dns_drop_guest(struct guest *b)
{
    while (b->clients)
        dns_client_close(b->clients);
    while (b->queries)
        query_free(b->queries);
}
