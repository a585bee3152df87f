#include "gateway/dns_message.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"

#define HEADER_BYTES 12
#define TEXT_BYTES   "abcdefghijklmnopqrstuvwxyz0123456789-_"

static void free_pkt(ldns_pkt **p)
{
    if (*p)
        ldns_pkt_free(*p);
}
#define auto_pkt __attribute__((cleanup(free_pkt)))

/* A name without compression, as ldns keeps it, as text. Bytes that no host name has make it -1:
 * "a\.b" must not become "a.b", whose rules are another's. */
static int name_text(const uint8_t *wire, size_t len, char ret[DNS_NAME_MAX + 1])
{
    size_t at = 0, out = 0;

    while (at < len && wire[at] != 0) {
        size_t label = wire[at++];

        if (label > 63 || at + label > len || out + label + 1 > DNS_NAME_MAX)
            return -1;
        if (out > 0)
            ret[out++] = '.';
        for (size_t i = 0; i < label; i++, at++) {
            char c = (char)tolower(wire[at]);

            if (c == '\0' || !strchr(TEXT_BYTES, c))
                return -1;
            ret[out++] = c;
        }
    }
    ret[out] = '\0';
    return 0;
}

/* The question of a message that has exactly one. */
static ldns_rr *only_question(const ldns_pkt *pkt)
{
    return ldns_pkt_qdcount(pkt) == 1 ? ldns_rr_list_rr(ldns_pkt_question(pkt), 0) : NULL;
}

static void read_edns(const ldns_pkt *pkt, struct dns_question *ret)
{
    uint16_t room;

    ret->room = LDNS_MIN_BUFLEN;
    ret->edns = ldns_pkt_edns(pkt);
    if (!ret->edns)
        return;
    room = ldns_pkt_edns_udp_size(pkt);
    ret->room = room < LDNS_MIN_BUFLEN ? LDNS_MIN_BUFLEN
                : room > DNS_UDP_ROOM  ? DNS_UDP_ROOM
                                       : room;
}

static int read_question(const ldns_rr *rr, struct dns_question *ret)
{
    const ldns_rdf *owner = ldns_rr_owner(rr);

    if (!owner || ldns_rdf_size(owner) > sizeof(ret->wire))
        return LDNS_RCODE_FORMERR;
    ret->wire_len = ldns_rdf_size(owner);
    memcpy(ret->wire, ldns_rdf_data(owner), ret->wire_len);
    ret->type = (uint16_t)ldns_rr_get_type(rr);
    if (ret->type == 0)
        return LDNS_RCODE_FORMERR;
    if (ldns_rr_get_class(rr) != LDNS_RR_CLASS_IN)
        return LDNS_RCODE_REFUSED;
    return name_text(ret->wire, ret->wire_len, ret->name) < 0 ? LDNS_RCODE_NXDOMAIN : 0;
}

int dns_question_parse(const uint8_t *wire, size_t len, struct dns_question *ret)
{
    auto_pkt ldns_pkt *pkt = NULL;
    const ldns_rr *rr;

    *ret = (struct dns_question){.room = LDNS_MIN_BUFLEN};
    if (len < HEADER_BYTES || (wire[2] & 0x80)) /* an answer: who answered it would start a loop */
        return -1;
    ret->id = (uint16_t)(wire[0] << 8 | wire[1]);
    ret->recursion = wire[2] & 1;
    if (ldns_wire2pkt(&pkt, wire, len) != LDNS_STATUS_OK) {
        pkt = NULL;
        return LDNS_RCODE_FORMERR;
    }
    if (ldns_pkt_get_opcode(pkt) != LDNS_PACKET_QUERY)
        return LDNS_RCODE_NOTIMPL;
    rr = only_question(pkt);
    if (!rr || ldns_pkt_ancount(pkt) > 0 || ldns_pkt_nscount(pkt) > 0)
        return LDNS_RCODE_FORMERR;
    read_edns(pkt, ret);
    return read_question(rr, ret);
}

static ldns_rdf *name_rdf(const struct dns_question *q)
{
    return ldns_rdf_new_frm_data(LDNS_RDF_TYPE_DNAME, q->wire_len, q->wire);
}

/* Takes pkt. */
static ssize_t pkt_bytes(ldns_pkt *pkt, uint8_t *ret, size_t size)
{
    auto_pkt ldns_pkt *own = pkt;
    auto_free uint8_t *wire = NULL;
    size_t len = 0;

    if (ldns_pkt2wire(&wire, own, &len) != LDNS_STATUS_OK || len > size)
        return -1;
    memcpy(ret, wire, len);
    return (ssize_t)len;
}

/* The letters' case is the client's own; it is not mixed further (0x20): a fresh random port and a
 * random id are what a guess has to meet, and some servers answer mixed case wrongly. */
ssize_t dns_question_build(const struct dns_question *q, uint16_t id, uint8_t *ret, size_t size)
{
    ldns_pkt *pkt =
        ldns_pkt_query_new(name_rdf(q), (ldns_rr_type)q->type, LDNS_RR_CLASS_IN, LDNS_RD);

    if (!pkt)
        return -1;
    ldns_pkt_set_id(pkt, id);
    ldns_pkt_set_edns_udp_size(pkt, DNS_UDP_ROOM);
    return pkt_bytes(pkt, ret, size);
}

/* ---- answers ---- */

void dns_answer_init(struct dns_answer *a, int rcode)
{
    *a = (struct dns_answer){.rcode = rcode, .records = ldns_rr_list_new(), .ttl = DNS_TTL_MAX};
}

void dns_answer_done(struct dns_answer *a)
{
    if (a->records)
        ldns_rr_list_deep_free(a->records);
    a->records = NULL;
}

static void add_record(struct dns_answer *a, ldns_rr *rr)
{
    if (ldns_rr_ttl(rr) > DNS_TTL_MAX)
        ldns_rr_set_ttl(rr, DNS_TTL_MAX);
    if (ldns_rr_ttl(rr) < a->ttl)
        a->ttl = ldns_rr_ttl(rr);
    (void)ldns_rr_list_push_rr(a->records, rr);
}

/* ::ffff:10.0.0.1 is 10.0.0.1 to whoever connects to it. */
static void unmap(struct net_address *a)
{
    static const unsigned char prefix[12] = {[10] = 0xff, 0xff};

    if (a->family != AF_INET6 || memcmp(a->bytes, prefix, sizeof(prefix)) != 0)
        return;
    a->family = AF_INET;
    memcpy(a->bytes, a->bytes + sizeof(prefix), 4);
    memset(a->bytes + 4, 0, sizeof(a->bytes) - 4);
}

/* An address that is told is one that is noted, or it is not told. */
static bool note_address(struct dns_answer *a, const ldns_rr *rr)
{
    const ldns_rdf *data = ldns_rr_rdf(rr, 0);
    bool four = ldns_rr_get_type(rr) == LDNS_RR_TYPE_A;
    struct net_address *to = &a->addresses[a->address_count];

    if (a->address_count == DNS_ADDRESSES_MAX || !data || ldns_rdf_size(data) != (four ? 4 : 16))
        return false;
    *to = (struct net_address){.family = four ? AF_INET : AF_INET6};
    memcpy(to->bytes, ldns_rdf_data(data), four ? 4 : 16);
    unmap(to);
    a->address_count++;
    return true;
}

void dns_answer_add(struct dns_answer *a, const struct dns_question *q,
                    const struct net_address *address, uint32_t ttl)
{
    bool four = address->family == AF_INET;
    ldns_rr *rr = ldns_rr_new();

    ldns_rr_set_owner(rr, name_rdf(q));
    ldns_rr_set_ttl(rr, ttl);
    ldns_rr_set_class(rr, LDNS_RR_CLASS_IN);
    ldns_rr_set_type(rr, four ? LDNS_RR_TYPE_A : LDNS_RR_TYPE_AAAA);
    (void)ldns_rr_push_rdf(rr, ldns_rdf_new_frm_data(four ? LDNS_RDF_TYPE_A : LDNS_RDF_TYPE_AAAA,
                                                     four ? 4 : 16, address->bytes));
    if (note_address(a, rr))
        add_record(a, rr);
    else
        ldns_rr_free(rr);
}

static const ldns_rr *find_cname(const ldns_rr_list *section, const ldns_rdf *name)
{
    for (size_t i = 0; i < ldns_rr_list_rr_count(section); i++) {
        const ldns_rr *rr = ldns_rr_list_rr(section, i);

        if (ldns_rr_get_type(rr) == LDNS_RR_TYPE_CNAME && ldns_rr_rdf(rr, 0) &&
            ldns_rr_get_class(rr) == LDNS_RR_CLASS_IN &&
            ldns_dname_compare(ldns_rr_owner(rr), name) == 0)
            return rr;
    }
    return NULL;
}

static void take_records(struct dns_answer *a, const ldns_rr_list *section, const ldns_rdf *name,
                         uint16_t type)
{
    bool addresses = type == LDNS_RR_TYPE_A || type == LDNS_RR_TYPE_AAAA;

    for (size_t i = 0; i < ldns_rr_list_rr_count(section); i++) {
        const ldns_rr *rr = ldns_rr_list_rr(section, i);

        if ((uint16_t)ldns_rr_get_type(rr) != type || ldns_rr_get_class(rr) != LDNS_RR_CLASS_IN ||
            ldns_dname_compare(ldns_rr_owner(rr), name) != 0)
            continue;
        if (addresses ? note_address(a, rr) : ldns_rr_list_rr_count(a->records) < DNS_RECORDS_MAX)
            add_record(a, ldns_rr_clone(rr));
    }
}

/* From the name that was asked along its CNAMEs to what is at their end. What the section has
 * beside that was not asked for. A chain that is too long, or a ring, has no end. */
static int walk_chain(struct dns_answer *a, const ldns_rr_list *section,
                      const struct dns_question *q)
{
    ldns_rdf *first = name_rdf(q);
    const ldns_rdf *name = first;
    int hops = 0;

    while (q->type != LDNS_RR_TYPE_CNAME && hops <= DNS_CHAIN_MAX) {
        const ldns_rr *rr = find_cname(section, name);

        if (!rr)
            break;
        add_record(a, ldns_rr_clone(rr));
        name = ldns_rr_rdf(rr, 0);
        hops++;
    }
    if (hops <= DNS_CHAIN_MAX)
        take_records(a, section, name, q->type);
    ldns_rdf_deep_free(first);
    return hops <= DNS_CHAIN_MAX ? 0 : -1;
}

static bool same_question(const ldns_pkt *pkt, const struct dns_question *q)
{
    const ldns_rr *rr = only_question(pkt);
    ldns_rdf *name;
    bool same;

    if (!rr || !ldns_rr_owner(rr) || (uint16_t)ldns_rr_get_type(rr) != q->type ||
        ldns_rr_get_class(rr) != LDNS_RR_CLASS_IN)
        return false;
    name = name_rdf(q);
    same = ldns_dname_compare(ldns_rr_owner(rr), name) == 0;
    ldns_rdf_deep_free(name);
    return same;
}

int dns_answer_parse(const uint8_t *wire, size_t len, const struct dns_question *q, uint16_t id,
                     struct dns_answer *ret)
{
    auto_pkt ldns_pkt *pkt = NULL;

    if (len < HEADER_BYTES || (wire[0] << 8 | wire[1]) != id || !(wire[2] & 0x80))
        return -EBADMSG;
    if (ldns_wire2pkt(&pkt, wire, len) != LDNS_STATUS_OK) {
        pkt = NULL;
        return -EBADMSG;
    }
    if (ldns_pkt_get_opcode(pkt) != LDNS_PACKET_QUERY || !same_question(pkt, q))
        return -EBADMSG;
    dns_answer_init(ret, ldns_pkt_get_rcode(pkt));
    ret->truncated = ldns_pkt_tc(pkt);
    if (!ret->truncated && walk_chain(ret, ldns_pkt_answer(pkt), q) < 0) {
        dns_answer_done(ret);
        dns_answer_init(ret, LDNS_RCODE_SERVFAIL);
    }
    return 0;
}

static ldns_pkt *answer_pkt(const struct dns_question *q, int rcode)
{
    ldns_pkt *pkt = ldns_pkt_new();

    if (!pkt)
        return NULL;
    ldns_pkt_set_id(pkt, q->id);
    ldns_pkt_set_qr(pkt, true);
    ldns_pkt_set_rd(pkt, q->recursion);
    ldns_pkt_set_ra(pkt, true);
    ldns_pkt_set_rcode(pkt, (uint8_t)rcode);
    if (q->wire_len > 0) {
        ldns_rr *rr = ldns_rr_new();

        ldns_rr_set_owner(rr, name_rdf(q));
        ldns_rr_set_type(rr, (ldns_rr_type)q->type);
        ldns_rr_set_class(rr, LDNS_RR_CLASS_IN);
        ldns_rr_set_question(rr, true);
        (void)ldns_pkt_push_rr(pkt, LDNS_SECTION_QUESTION, rr);
    }
    if (q->edns)
        ldns_pkt_set_edns_udp_size(pkt, DNS_UDP_ROOM);
    return pkt;
}

ssize_t dns_answer_build(const struct dns_question *q, const struct dns_answer *a, size_t room,
                         uint8_t *ret, size_t size)
{
    ldns_pkt *pkt = answer_pkt(q, a->rcode);
    ssize_t n;

    if (!pkt)
        return -1;
    for (size_t i = 0; a->records && i < ldns_rr_list_rr_count(a->records); i++)
        (void)ldns_pkt_push_rr(pkt, LDNS_SECTION_ANSWER,
                               ldns_rr_clone(ldns_rr_list_rr(a->records, i)));
    n = pkt_bytes(pkt, ret, size);
    if (n >= 0 && (size_t)n <= room)
        return n;
    pkt = answer_pkt(q, a->rcode);
    if (!pkt)
        return -1;
    ldns_pkt_set_tc(pkt, true);
    return pkt_bytes(pkt, ret, size);
}

bool dns_type_forwarded(uint16_t type)
{
    static const uint16_t types[] = {
        LDNS_RR_TYPE_A,   LDNS_RR_TYPE_AAAA, LDNS_RR_TYPE_CNAME, LDNS_RR_TYPE_TXT, LDNS_RR_TYPE_MX,
        LDNS_RR_TYPE_SRV, LDNS_RR_TYPE_PTR,  LDNS_RR_TYPE_CAA,   LDNS_RR_TYPE_NS,  LDNS_RR_TYPE_SOA,
    };

    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (types[i] == type)
            return true;
    }
    return false;
}
