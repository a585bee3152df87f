/* A question as a sandbox sends it, and the answer that it gets. */
#include <stdlib.h>
#include <string.h>

#include "gateway/dns_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t wire[DNS_WIRE_MAX];
    struct dns_question q, again;
    struct dns_answer a;
    int rcode = dns_question_parse(data, size, &q);
    ssize_t n;

    if (rcode < 0)
        return 0;
    dns_answer_init(&a, rcode);
    if (rcode == 0) {
        struct net_address four = {AF_INET, {11, 1, 1, 1}};

        require(strspn(q.name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(q.name));
        require(q.room >= 512 && q.room <= DNS_UDP_ROOM);
        dns_answer_add(&a, &q, &four, 60);
        n = dns_question_build(&q, 1, wire, sizeof(wire));
        require(n > 0 && dns_question_parse(wire, (size_t)n, &again) == 0);
        require(strcmp(q.name, again.name) == 0 && q.type == again.type);
    }
    n = dns_answer_build(&q, &a, q.room, wire, sizeof(wire));
    require(n > 0 && (size_t)n <= q.room);
    require(wire[0] == data[0] && wire[1] == data[1] && (wire[2] & 0x80));
    dns_answer_done(&a);
    return 0;
}
