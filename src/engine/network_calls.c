#include "engine/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/gateway_internal.h"
#include "engine/network_internal.h"
#include "engine/networks_internal.h"
#include "engine/ports_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"
#include "engine/turn_internal.h"
#include "engine/writer_internal.h"
#include "policy/policy.h"
#include "runtime/runtime.h"

/* ---- looking ---- */

static json_t *text_or_null(const char *text)
{
    return *text ? json_string(text) : json_null();
}

static json_t *network_json(struct engine *e, struct sandbox *sb)
{
    struct box_traffic traffic = {0};
    json_t *o = json_object();

    (void)runtime_traffic(e->runtime, &sb->box, &traffic, NULL);
    (void)json_object_set_new(o, "sandboxId", json_string(sb->box.id));
    pthread_mutex_lock(&sb->lock);
    (void)json_object_set_new(o, "network",
                              sb->spec.network ? json_deep_copy(sb->spec.network) : json_false());
    (void)json_object_set_new(o, "address", text_or_null(sb->net.address));
    (void)json_object_set_new(o, "address6", text_or_null(sb->net.address6));
    pthread_mutex_unlock(&sb->lock);
    (void)json_object_set_new(o, "rxBytes", json_integer((json_int_t)traffic.rx_bytes));
    (void)json_object_set_new(o, "txBytes", json_integer((json_int_t)traffic.tx_bytes));
    (void)json_object_set_new(o, "denied", json_integer((json_int_t)network_denied(e, sb)));
    return o;
}

int engine_network_get(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    *ret = network_json(e, sb);
    return 0;
}

int engine_network_log(struct engine *e, const char *id, uint64_t after, uint32_t limit,
                       json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    json_t *denied, *last;

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    denied = network_log_read(e, sb, after, limit);
    last = json_array_get(denied, json_array_size(denied) - 1);
    last = json_object_get(last, "seq");
    *ret = json_pack("{s:o, s:I}", "denied", denied, "next",
                     last ? json_integer_value(last) : (json_int_t)after);
    return 0;
}

int engine_network_check(const json_t *network, struct err *err)
{
    json_t *policy = NULL;
    int r = network_read(network, &policy, err);

    json_decref(policy);
    return r;
}

/* ---- changing ---- */

/* Takes network, and gives the one before. */
static json_t *swap_network(struct sandbox *sb, json_t *network)
{
    json_t *before;

    pthread_mutex_lock(&sb->lock);
    before = sb->spec.network;
    sb->spec.network = network;
    pthread_mutex_unlock(&sb->lock);
    exposed_judge(sb->engine, sb);
    return before;
}

static bool has_box(struct sandbox *sb)
{
    bool has;

    pthread_mutex_lock(&sb->lock);
    has = sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_PAUSED;
    pthread_mutex_unlock(&sb->lock);
    return has;
}

/* A gateway that does not answer is told by its successor's start what the row says. */
static bool comes_later(const struct err *err)
{
    return err->kind == ERR_UNAVAILABLE && !network_is_refused(err);
}

/* The row first: whoever starts next has the gateway do what it says. */
static int set_in_turn(struct engine *e, struct sandbox *sb, json_t *network, struct err *err)
{
    struct err why = {0};
    json_t *before;
    bool stored;
    int r;

    if (sandbox_check_there(sb, err) < 0) {
        json_decref(network);
        return -1;
    }
    before = swap_network(sb, network);
    r = writer_wait(e, writer_put(e, sb), &why);
    stored = r == 0;
    if (stored && has_box(sb))
        r = network_change(e, sb, network, networks_has(sb), &why);
    if (r < 0 && !(stored && comes_later(&why))) {
        before = swap_network(sb, before);
        writer_leave(e, writer_put(e, sb));
    }
    json_decref(before);
    if (r < 0 && err)
        *err = why;
    return r;
}

int engine_network_set(struct engine *e, const char *id, const json_t *network, json_t **ret,
                       struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    json_t *policy = NULL;
    int r;

    if (sandbox_get(e, id, &sb, err) < 0 || network_read(network, &policy, err) < 0)
        return -1;
    if ((policy && engine_check_network(e, err) < 0) || turn_take(e, &sb->turn, err) < 0) {
        json_decref(policy);
        return -1;
    }
    r = set_in_turn(e, sb, policy, err);
    turn_give(&sb->turn);
    if (r == 0)
        *ret = network_json(e, sb);
    return r;
}

/* ---- explaining ---- */

static json_t *verdict_json(const struct policy_verdict *v)
{
    return json_pack("{s:b, s:b, s:i, s:s}", "allowed", v->allowed, "inspect", v->inspect, "rule",
                     v->rule, "why", v->why);
}

static bool is_address(const char *host, struct net_address *ret)
{
    *ret = (struct net_address){.family = AF_INET};
    if (inet_pton(AF_INET, host, ret->bytes) == 1)
        return true;
    ret->family = AF_INET6;
    return inet_pton(AF_INET6, host, ret->bytes) == 1;
}

static uint8_t protocol_number(const char *protocol)
{
    return strcmp(protocol, "udp") == 0    ? IPPROTO_UDP
           : strcmp(protocol, "icmp") == 0 ? IPPROTO_ICMP
                                           : IPPROTO_TCP;
}

/* By the policy alone: nothing runs that names would be pinned for. */
static int explain_by_policy(const json_t *network, const struct network_question *q, json_t **ret,
                             struct err *err)
{
    struct policy_flow flow = {
        .direction = POLICY_EGRESS, .protocol = protocol_number(q->protocol), .port = q->port};
    struct policy_verdict v = {.rule = POLICY_BY_DEFAULT};
    struct policy *policy = NULL;

    if (!network) {
        (void)snprintf(v.why, sizeof(v.why), "the sandbox has no network");
    } else {
        if (policy_parse(network, &policy, err) < 0)
            return -1;
        if (is_address(q->host, &flow.to))
            policy_judge(policy, &flow, NULL, NULL, NULL, &v);
        else
            policy_judge_name(policy, q->host, &v);
        policy_free(policy);
    }
    *ret = verdict_json(&v);
    return 0;
}

static bool is_attached(struct sandbox *sb)
{
    bool is;

    pthread_mutex_lock(&sb->lock);
    is = *sb->net.address || *sb->net.address6;
    pthread_mutex_unlock(&sb->lock);
    return is;
}

int engine_network_explain(struct engine *e, const char *id, const struct network_question *q,
                           json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    json_t *network;
    int r;

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    network = network_policy_of(sb);
    if ((network || networks_has(sb)) && is_attached(sb))
        r = gateway_call(e,
                         json_pack("{s:s, s:s, s:s, s:i, s:s}", "op", "explain", "id", sb->box.id,
                                   "host", q->host, "port", (int)q->port, "protocol", q->protocol),
                         -1, ret, err);
    else
        r = explain_by_policy(network, q, ret, err);
    json_decref(network);
    if (r == 0) {
        if (json_is_null(json_object_get(*ret, "name"))) /* it is an address */
            (void)json_object_del(*ret, "name");
        (void)json_object_set_new(*ret, "host", json_string(q->host));
        (void)json_object_set_new(*ret, "port", json_integer(q->port));
        (void)json_object_set_new(*ret, "protocol", json_string(q->protocol));
    }
    return r;
}
