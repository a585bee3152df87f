#pragma once

/* What the files of the worker's DNS share. */

#include <sys/socket.h>

#include "gateway/dns_message.h"
#include "gateway/worker_internal.h"

#define QUERIES_BOX_MAX 128 /* that wait for a name server; past it the answer is SERVFAIL */
#define QUERIES_MAX     2048
#define CLIENTS_BOX_MAX 16 /* TCP connections; past it they are closed */
#define CLIENTS_MAX     512
#define CLIENT_IDLE_MS  10000

/* How long a pin holds beyond the time to live that a program was told, and at least: programs
 * resolve first and connect when they come to it, many keep an answer for a while whatever its time
 * to live says, and a TTL of 0 is common. That a name is pinned for longer costs nothing: what it
 * led to was allowed when it was asked for. */
#define PIN_SECONDS_MIN   60
#define PIN_SECONDS_GRACE 30

/* A question that could not be answered at once. */
struct query {
    struct grave grave;
    struct guest *guest;
    struct query *next, **at; /* of the box */
    struct dns_question question;
    struct sockaddr_storage from; /* of UDP: whom and through which socket to answer */
    socklen_t from_len;
    int family;
    struct dns_client *client; /* of TCP; else NULL */

    struct source up; /* the name server */
    uint32_t ask;
    struct timer timer;
    int64_t deadline;
    unsigned tries, tried; /* how many servers to ask in all, how many were */
    bool tcp;
    uint16_t id;
    uint8_t *stream; /* TCP: what is sent, then what is read, each with its length before it */
    size_t stream_len, stream_done;
    struct dns_answer answer; /* that waits for its pin */
};

/* ---- dns_decide.c: without I/O ---- */

enum decision { DECIDED_HERE, DECIDED_FORWARD, DECIDED_DENIED };

/* What becomes of a question. Of DECIDED_HERE *ret_answer is the answer; of DECIDED_DENIED *ret_why
 * says why. */
enum decision dns_decide(struct guest *b, const struct dns_question *q,
                         struct dns_answer *ret_answer, struct policy_verdict *ret_why);

/* May the box be told this? False: it holds an address that a name must not lead to. */
bool dns_answer_allowed(struct guest *b, const struct dns_question *q, const struct dns_answer *a,
                        struct policy_verdict *ret_why);

unsigned dns_pin_seconds(uint32_t ttl);

/* ---- dns.c ---- */

/* A question has come, from a client or with sender and family of a datagram. */
void dns_asked(struct guest *b, struct dns_client *client, const struct sockaddr_storage *from,
               socklen_t from_len, int family, const uint8_t *wire, size_t len);
/* The name server's part is over: answers, and takes what *a has. */
void query_answered(struct query *q, struct dns_answer *a);
void query_failed(struct query *q); /* SERVFAIL */
void query_free(struct query *q);

/* ---- dns_upstream.c ---- */

void upstream_start(struct query *q);
void upstream_stop(struct query *q);

/* ---- dns_client.c ---- */

void dns_client_accept(struct source *listener, uint32_t events);
void dns_client_reply(struct dns_client *c, const uint8_t *wire, size_t len);
void dns_client_close(struct dns_client *c);
/* At most one question of a connection is answered at a time. */
void dns_client_waits(struct dns_client *c, struct query *q);
