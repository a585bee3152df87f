#pragma once

/* DNS messages, read and built with ldns. No I/O: tests and fuzzers call these. */

#include <ldns/ldns.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/address.h"

#define DNS_NAME_MAX  253
#define DNS_WIRE_MAX  65535
#define DNS_QUERY_MAX 4096 /* bytes of a question that is read at all */
#define DNS_ADDRESSES_MAX                                                                          \
    64                       /* of an answer; more are left out, since all that is told is pinned  \
                              */
#define DNS_CHAIN_MAX   16   /* CNAMEs in a row */
#define DNS_RECORDS_MAX 256  /* of other types */
#define DNS_TTL_MAX     3600 /* seconds, of what we tell */
#define DNS_UDP_ROOM    1232 /* the most that we send or ask for in a datagram */

struct dns_question {
    uint16_t id, type;
    bool recursion;              /* wanted: told back */
    bool edns;                   /* the answer has an OPT record then */
    uint16_t room;               /* bytes that a datagram to the client may have */
    uint8_t wire[255];           /* the name as it was asked, with its letters' case */
    size_t wire_len;             /* 0: there was none that can be told back */
    char name[DNS_NAME_MAX + 1]; /* lower case, no dot at the end; "" = the root */
};

/* Reads a question: 0 when it is to be judged, an rcode (FORMERR, NOTIMP, REFUSED, NXDOMAIN) to
 * answer with, or -1: nothing that deserves an answer. *ret is filled as far as an answer needs. */
int dns_question_parse(const uint8_t *wire, size_t len, struct dns_question *ret);

/* Our own question to a name server, with another id: bytes, or -1. */
ssize_t dns_question_build(const struct dns_question *q, uint16_t id, uint8_t *ret, size_t size);

struct dns_answer {
    int rcode;
    bool truncated;        /* ask again over TCP */
    ldns_rr_list *records; /* the chain of CNAMEs from the name that was asked, and what is at its
                              end; nothing else that the message had */
    struct net_address addresses[DNS_ADDRESSES_MAX];
    unsigned address_count;
    uint32_t ttl; /* the least of all records */
};

/* Reads what a name server sent: 0, or -EBADMSG when it is no answer to that question with that id
 * (which may be somebody's guess: wait on). */
int dns_answer_parse(const uint8_t *wire, size_t len, const struct dns_question *q, uint16_t id,
                     struct dns_answer *ret);
void dns_answer_init(struct dns_answer *a, int rcode);
/* An answer of our own: one A or AAAA record more. */
void dns_answer_add(struct dns_answer *a, const struct dns_question *q,
                    const struct net_address *address, uint32_t ttl);
void dns_answer_done(struct dns_answer *a);

/* The message for the client, of at most room bytes: else one that says that it is truncated.
 * Bytes, or -1. */
ssize_t dns_answer_build(const struct dns_question *q, const struct dns_answer *a, size_t room,
                         uint8_t *ret, size_t size);

/* May records of this type be asked for outside? Those of HTTPS and SVCB may not: their hints are
 * addresses that nobody would pin, and their keys hide names (ECH). */
bool dns_type_forwarded(uint16_t type);
