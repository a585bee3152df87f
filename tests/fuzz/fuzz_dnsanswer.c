/* What a name server sends: what is told of it must be what was noted, and fit. */
#include <stdlib.h>
#include <string.h>

#include "gateway/dns_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void make_question(unsigned type, struct dns_question *ret)
{
    uint8_t wire[] = "\0\7\1\0\0\1\0\0\0\0\0\0\4good\4test\0\0\1\0\1";

    wire[sizeof(wire) - 4] = (uint8_t)type;
    require(dns_question_parse(wire, sizeof(wire) - 1, ret) == 0);
}

static void check(const struct dns_question *q, const struct dns_answer *a)
{
    static uint8_t wire[DNS_WIRE_MAX];
    unsigned addresses = 0;
    ssize_t n;

    for (size_t i = 0; i < ldns_rr_list_rr_count(a->records); i++) {
        const ldns_rr *rr = ldns_rr_list_rr(a->records, i);
        ldns_rr_type type = ldns_rr_get_type(rr);

        require(type == LDNS_RR_TYPE_CNAME || (uint16_t)type == q->type);
        require(ldns_rr_ttl(rr) <= DNS_TTL_MAX);
        addresses += type == LDNS_RR_TYPE_A || type == LDNS_RR_TYPE_AAAA;
    }
    require(addresses == a->address_count);
    n = dns_answer_build(q, a, 512, wire, sizeof(wire));
    require(n > 0 && n <= 512);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned types[] = {1, 28, 5, 16, 15, 33};
    struct dns_question q;
    struct dns_answer a;

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) && size >= 2; i++) {
        make_question(types[i], &q);
        if (dns_answer_parse(data, size, &q, (uint16_t)(data[0] << 8 | data[1]), &a) < 0)
            continue;
        check(&q, &a);
        dns_answer_done(&a);
    }
    return 0;
}
