/* What would happen to a connection of a box, and which rule says so. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "gateway/warden.h"

static json_t *verdict_json(const struct policy_verdict *v)
{
    return json_pack("{s:b, s:b, s:i, s:s}", "allowed", v->allowed, "inspect", v->inspect, "rule",
                     v->rule, "why", v->why);
}

static bool always(unsigned pin, const struct net_address *a, void *arg)
{
    (void)pin;
    (void)a;
    (void)arg;
    return true;
}

static bool never(const struct net_address *a, void *arg)
{
    (void)a;
    (void)arg;
    return false;
}

/* One that it was given. */
struct given {
    const struct box *box;
    const char *name;
    const struct policy_flow *flow;
    json_t *list;
    struct policy_verdict last;
    bool any;
};

static void see(const struct box *b, const char *name, const struct net_address *v, unsigned n,
                unsigned ttl_s, void *arg)
{
    struct given *given = arg;
    char text[NET_ADDRESS_TEXT];

    (void)ttl_s;
    if (strcasecmp(name, given->name) != 0)
        return;
    for (unsigned i = 0; i < n; i++) {
        struct policy_flow flow = *given->flow;
        json_t *one;

        flow.to = v[i];
        policy_judge_named(b->policy, name, &flow, pins_has, helper_is_host, (void *)b,
                           &given->last);
        given->any = true;
        net_address_text(&v[i], text);
        one = verdict_json(&given->last);
        (void)json_object_set_new(one, "address", json_string(text));
        (void)json_object_set_new(one, "pinned", json_true());
        (void)json_array_append_new(given->list, one);
    }
}

/* By name: may it be asked for, and what then? Addresses are those that the box was given; without
 * any, what would be said of one that is public. */
static json_t *explain_name(const struct box *b, const char *name, struct policy_flow *flow)
{
    struct given given = {.box = b, .name = name, .flow = flow, .list = json_array()};
    struct policy_verdict asked;
    json_t *out;

    policy_judge_name(b->policy, name, &asked);
    pins_each(b, see, &given);
    if (!given.any) {
        flow->to = (struct net_address){AF_INET, {93, 184, 215, 14}};
        policy_judge_named(b->policy, name, flow, always, never, NULL, &given.last);
    }
    out = verdict_json(asked.allowed ? &given.last : &asked);
    (void)json_object_set_new(out, "name", verdict_json(&asked));
    (void)json_object_set_new(out, "addresses", given.list);
    return out;
}

static json_t *explain_address(const struct warden *w, const struct box *b,
                               const struct policy_flow *flow)
{
    struct policy_verdict v;
    char text[NET_ADDRESS_TEXT];
    json_t *out, *one;

    box_judge(w, b, flow, &v);
    net_address_text(&flow->to, text);
    one = verdict_json(&v);
    (void)json_object_set_new(one, "address", json_string(text));
    (void)json_object_set_new(one, "pinned", json_false());
    out = verdict_json(&v);
    (void)json_object_set_new(out, "name", json_null());
    (void)json_object_set_new(out, "addresses", json_pack("[o]", one));
    return out;
}

/* Is it the name of one that is in a network with it? */
static bool is_peer(const struct warden *w, const struct box *b, const char *host,
                    struct net_address *ret)
{
    json_t *peers = peers_json(w, b), *list;
    const char *name;
    bool found = false;

    json_object_foreach(peers, name, list)
    {
        if (!found && strcasecmp(name, host) == 0)
            found = net_address_parse(json_string_value(json_array_get(list, 0)), ret) == 0;
    }
    json_decref(peers);
    return found;
}

json_t *explain(struct warden *w, struct box *b, const json_t *in, struct err *err)
{
    const char *host = json_string_value(json_object_get(in, "host"));
    const char *protocol = json_string_value(json_object_get(in, "protocol"));
    struct policy_flow flow = {.direction = POLICY_EGRESS,
                               .protocol = IPPROTO_TCP,
                               .port = (uint16_t)json_integer_value(json_object_get(in, "port"))};

    if (!host || strlen(host) > POLICY_NAME_MAX) {
        (void)err_code(err, ERR_INVALID, "gateway_request", "no host");
        return NULL;
    }
    if (protocol && strcmp(protocol, "udp") == 0)
        flow.protocol = IPPROTO_UDP;
    else if (protocol && strcmp(protocol, "icmp") == 0)
        flow.protocol = IPPROTO_ICMP;
    if (net_address_parse(host, &flow.to) < 0 && !is_peer(w, b, host, &flow.to))
        return explain_name(b, host, &flow);
    if (flow.to.family == AF_INET6 && flow.protocol == IPPROTO_ICMP)
        flow.protocol = IPPROTO_ICMPV6;
    return explain_address(w, b, &flow);
}
