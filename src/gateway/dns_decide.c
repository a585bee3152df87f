#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "gateway/dns_internal.h"

#define OWN_SUFFIX   ".cay.internal"
#define GATEWAY_NAME "gateway" OWN_SUFFIX
#define PEER_TTL     5 /* members of a network come and go */
#define OWN_TTL      60

static bool wants(const struct dns_question *q, const struct net_address *a)
{
    return (q->type == LDNS_RR_TYPE_A && a->family == AF_INET) ||
           (q->type == LDNS_RR_TYPE_AAAA && a->family == AF_INET6);
}

static void add_wanted(struct dns_answer *a, const struct dns_question *q,
                       const struct net_address *address, uint32_t ttl)
{
    if (wants(q, address))
        dns_answer_add(a, q, address, ttl);
}

/* A member of a network that the box is in too, by one of its names. */
static bool answer_peer(struct guest *b, const struct dns_question *q, struct dns_answer *ret)
{
    const json_t *list = json_object_get(b->peers, q->name), *one;
    size_t i;

    if (!list)
        return false;
    dns_answer_init(ret, LDNS_RCODE_NOERROR);
    json_array_foreach(list, i, one)
    {
        struct net_address a;

        if (net_address_parse(json_string_value(one), &a) == 0)
            add_wanted(ret, q, &a, PEER_TTL);
    }
    ret->address_count = 0; /* the network lets it through, no pin has to */
    return true;
}

static void answer_gateway(struct guest *b, const struct dns_question *q, struct dns_answer *ret)
{
    dns_answer_init(ret, LDNS_RCODE_NOERROR);
    add_wanted(ret, q, &b->worker->world.gateway, OWN_TTL);
    if (b->address[WORKER_V6].family != 0)
        add_wanted(ret, q, &b->worker->world.gateway6, OWN_TTL);
}

/* What every program expects of it, whoever is asked (RFC 6761). */
static void answer_localhost(const struct dns_question *q, struct dns_answer *ret)
{
    static const struct net_address four = {AF_INET, {127, 0, 0, 1}};
    static const struct net_address six = {AF_INET6, {[15] = 1}};

    dns_answer_init(ret, LDNS_RCODE_NOERROR);
    add_wanted(ret, q, &four, OWN_TTL);
    add_wanted(ret, q, &six, OWN_TTL);
    ret->address_count = 0;
}

/* Names that are answered whatever the policy says; false: it decides. */
static bool answer_own(struct guest *b, const struct dns_question *q, struct dns_answer *ret)
{
    if (answer_peer(b, q, ret))
        return true;
    if (strcmp(q->name, "localhost") == 0 || str_ends(q->name, ".localhost")) {
        answer_localhost(q, ret);
        return true;
    }
    if (strcmp(q->name, GATEWAY_NAME) == 0) {
        answer_gateway(b, q, ret);
        ret->address_count = 0;
        return true;
    }
    if (str_ends(q->name, OWN_SUFFIX) && strcmp(q->name, POLICY_HOST_NAME) != 0) {
        dns_answer_init(ret, LDNS_RCODE_NXDOMAIN); /* nobody outside knows it either */
        return true;
    }
    if (q->name[0] == '\0') {
        dns_answer_init(ret, LDNS_RCODE_REFUSED);
        return true;
    }
    return false;
}

enum decision dns_decide(struct guest *b, const struct dns_question *q,
                         struct dns_answer *ret_answer, struct policy_verdict *ret_why)
{
    if (answer_own(b, q, ret_answer))
        return DECIDED_HERE;
    if (!b->policy) {
        *ret_why = (struct policy_verdict){.rule = POLICY_BY_DEFAULT};
        (void)snprintf(ret_why->why, sizeof(ret_why->why), "this sandbox has no network policy");
        return DECIDED_DENIED;
    }
    policy_judge_name(b->policy, q->name, ret_why);
    if (!ret_why->allowed)
        return DECIDED_DENIED;
    if (strcmp(q->name, POLICY_HOST_NAME) == 0) {
        answer_gateway(b, q, ret_answer);
        return DECIDED_HERE;
    }
    if (!dns_type_forwarded(q->type) ||
        (q->type == LDNS_RR_TYPE_AAAA && b->address[WORKER_V6].family == 0)) {
        dns_answer_init(ret_answer, LDNS_RCODE_NOERROR); /* the name is there, such a record not */
        return DECIDED_HERE;
    }
    return DECIDED_FORWARD;
}

bool dns_answer_allowed(struct guest *b, const struct dns_question *q, const struct dns_answer *a,
                        struct policy_verdict *ret_why)
{
    *ret_why = (struct policy_verdict){.rule = POLICY_BY_DEFAULT};
    if (!b->policy)
        return false;
    policy_judge_name(b->policy, q->name, ret_why); /* it may have changed since the question */
    if (!ret_why->allowed)
        return false;
    for (unsigned i = 0; i < a->address_count; i++) {
        char text[NET_ADDRESS_TEXT];

        if (policy_answer_ok(b->policy, &a->addresses[i]))
            continue;
        net_address_text(&a->addresses[i], text);
        *ret_why = (struct policy_verdict){.rule = POLICY_BUILT_IN};
        (void)snprintf(ret_why->why, sizeof(ret_why->why),
                       "rebinding: the answer has %s, which no rule names", text);
        return false;
    }
    return true;
}

unsigned dns_pin_seconds(uint32_t ttl)
{
    return (ttl < PIN_SECONDS_MIN ? PIN_SECONDS_MIN : ttl) + PIN_SECONDS_GRACE;
}
