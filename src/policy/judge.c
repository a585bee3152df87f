#include "policy/policy_internal.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* What policy_nft() tells the kernel, once more in C: change both or neither. The integration test
 * of policies holds one against the other. */

struct judging {
    const struct policy *p;
    const struct policy_flow *flow;
    policy_pinned pinned;
    policy_is_host is_host;
    void *arg;
    enum net_class class;
    bool named;       /* the connection has been looked into */
    const char *name; /* what it said, canonical; NULL = nothing */
    int watched_by;   /* the first rule that denies a name on this port, or -1 */
};

bool net_port_is_other_dns(uint8_t protocol, uint16_t port)
{
    if (protocol == IPPROTO_TCP)
        return port == 853;
    return protocol == IPPROTO_UDP &&
           (port == 853 || port == 5353 || port == 5355 || port == 137 || port == 138);
}

static void say_rule(const struct policy *p, int rule, bool allowed, struct policy_verdict *ret)
{
    const struct rule *r = &p->rules[rule];
    char text[120];

    rule_text(r, text, sizeof(text));
    *ret = (struct policy_verdict){.allowed = allowed, .rule = rule};
    if (r->profile)
        snprintf(ret->why, sizeof(ret->why), "profile %s: %s", r->profile, text);
    else
        snprintf(ret->why, sizeof(ret->why), "rules[%d]: %s", rule, text);
}

static void say_built_in(bool allowed, const char *why, struct policy_verdict *ret)
{
    *ret = (struct policy_verdict){.allowed = allowed, .rule = POLICY_BUILT_IN};
    snprintf(ret->why, sizeof(ret->why), "%s", why);
}

static void say_default(bool allowed, const char *why, struct policy_verdict *ret)
{
    *ret = (struct policy_verdict){.allowed = allowed, .rule = POLICY_BY_DEFAULT};
    snprintf(ret->why, sizeof(ret->why), "%s", why);
}

/* By the address alone. What is general (any, a wide range) lets out to public addresses only: the
 * rest has to be named. */
static bool matches_address(const struct rule *r, const struct net_address *a, enum net_class c)
{
    switch (r->kind) {
    case DEST_ANY:
        return !r->allow || c == CLASS_PUBLIC;
    case DEST_GROUP:
        return c == r->group;
    case DEST_RANGE:
        if (!net_address_in(a, &r->range, r->bits))
            return false;
        if (!r->allow || rule_is_exact(r))
            return true;
        if (net_range_is_special(&r->range, r->bits))
            return c != CLASS_METADATA && c != CLASS_HOST;
        return c == CLASS_PUBLIC;
    case DEST_NAME:
    case DEST_SUFFIX:
        return r->allow && c == CLASS_HOST && rule_has_name(r, POLICY_HOST_NAME);
    case DEST_DNS:
        break;
    }
    return false;
}

static bool matches_name(const struct judging *j, const struct rule *r)
{
    bool pinned = j->pinned && j->class != CLASS_HOST && j->pinned(r->pin, &j->flow->to, j->arg);

    if (!j->named) /* a denied name on TCP is known when the connection is looked into */
        return pinned && (r->allow || j->flow->protocol != IPPROTO_TCP);
    if (!r->allow)
        return j->name && rule_has_name(r, j->name);
    return pinned && (!j->name || rule_has_name(r, j->name));
}

static bool is_explicit(const struct rule *r)
{
    return r->kind == DEST_RANGE && r->n_ports > 0;
}

/* Does the rule decide, and how? */
static bool try_rule(struct judging *j, int i, struct policy_verdict *ret)
{
    const struct rule *r = &j->p->rules[i];
    const struct policy_flow *f = j->flow;
    bool tcp = f->protocol == IPPROTO_TCP, by_address;

    if (!(r->directions & DIRECTION_EGRESS) || !rule_covers(r, f->protocol, f->port))
        return false;
    by_address = matches_address(r, &f->to, j->class);
    if (!by_address && !(rule_is_name(r) && matches_name(j, r)))
        return false;
    if (!r->allow) {
        say_rule(j->p, i, false, ret);
        return true;
    }
    if (net_port_is_other_dns(f->protocol, f->port) && !is_explicit(r))
        return false;
    if (j->class == CLASS_HOST && !tcp)
        return false;
    if (by_address && !tcp && j->watched_by >= 0 && f->protocol == IPPROTO_UDP &&
        (r->kind == DEST_ANY || r->kind == DEST_GROUP)) {
        say_rule(j->p, j->watched_by, false, ret);
        return true;
    }
    say_rule(j->p, i, true, ret);
    ret->inspect =
        !j->named && tcp && (!by_address || j->class == CLASS_HOST || j->watched_by >= 0);
    return true;
}

/* A UDP flow is watched by rules that are about TCP, too: QUIC says its name where nobody can see
 * it. */
static void look_for_watch(struct judging *j, int i)
{
    const struct rule *r = &j->p->rules[i];

    if (j->watched_by < 0 && (r->directions & DIRECTION_EGRESS) && rule_watches(r, j->flow->port))
        j->watched_by = i;
}

static void judge_default(const struct judging *j, struct policy_verdict *ret)
{
    const struct policy_flow *f = j->flow;
    const char *group = net_class_word(j->class);
    char why[120];

    if (net_port_is_other_dns(f->protocol, f->port)) {
        say_built_in(false, "names are asked for through the gateway only (port 53)", ret);
    } else if (!j->p->allow) {
        say_default(false, "default: deny, no rule allows it", ret);
    } else if (f->protocol != IPPROTO_TCP && f->protocol != IPPROTO_UDP) {
        say_default(false, "the default allows TCP and UDP only; ICMP takes a rule", ret);
    } else if (j->class != CLASS_PUBLIC) {
        snprintf(why, sizeof(why), "the default allows public addresses only; this one is %s",
                 group ? group : "reserved");
        say_default(false, why, ret);
    } else if (f->protocol == IPPROTO_UDP && j->watched_by >= 0) {
        say_rule(j->p, j->watched_by, false, ret);
    } else {
        say_default(true, "default: allow", ret);
        ret->inspect = !j->named && f->protocol == IPPROTO_TCP && j->watched_by >= 0;
    }
}

static void judge_egress(struct judging *j, struct policy_verdict *ret)
{
    const struct policy_flow *f = j->flow;

    j->watched_by = -1;
    j->class = net_classify(&f->to);
    if (j->class != CLASS_METADATA && j->is_host && j->is_host(&f->to, j->arg))
        j->class = CLASS_HOST;
    if (f->port == 53 && (f->protocol == IPPROTO_TCP || f->protocol == IPPROTO_UDP)) {
        say_built_in(true, "DNS is answered by the gateway, whoever is asked", ret);
        return;
    }
    for (unsigned i = 0; i < j->p->n_rules; i++) {
        look_for_watch(j, (int)i);
        if (try_rule(j, (int)i, ret))
            return;
    }
    judge_default(j, ret);
}

static bool matches_caller(const struct rule *r, const struct policy_flow *f)
{
    if (!(r->directions & DIRECTION_INGRESS) || !rule_covers(r, f->protocol, f->port))
        return false;
    if (r->kind == DEST_ANY)
        return true;
    if (r->kind == DEST_RANGE)
        return net_address_in(&f->to, &r->range, r->bits);
    return r->kind == DEST_GROUP && net_classify(&f->to) == r->group;
}

static void judge_ingress(const struct policy *p, const struct policy_flow *f,
                          struct policy_verdict *ret)
{
    for (unsigned i = 0; i < p->n_rules; i++)
        if (matches_caller(&p->rules[i], f)) {
            say_rule(p, (int)i, p->rules[i].allow, ret);
            return;
        }
    say_default(p->allow_ingress,
                p->allow_ingress ? "defaultIngress: allow" : "defaultIngress: deny", ret);
}

void policy_judge(const struct policy *p, const struct policy_flow *flow, policy_pinned pinned,
                  policy_is_host is_host, void *arg, struct policy_verdict *ret)
{
    struct judging j = {.p = p, .flow = flow, .pinned = pinned, .is_host = is_host, .arg = arg};

    if (flow->direction == POLICY_INGRESS)
        judge_ingress(p, flow, ret);
    else
        judge_egress(&j, ret);
}

void policy_judge_named(const struct policy *p, const char *name, const struct policy_flow *flow,
                        policy_pinned pinned, policy_is_host is_host, void *arg,
                        struct policy_verdict *ret)
{
    struct judging j = {
        .p = p, .flow = flow, .pinned = pinned, .is_host = is_host, .arg = arg, .named = true};
    char canonical[POLICY_NAME_MAX + 1];
    struct net_address literal;

    if (name && net_address_parse(name, &literal) == 0) {
        if (!net_address_equal(&literal, &flow->to)) {
            say_built_in(false, "it asks for another address than it is connected to", ret);
            return;
        }
        j.name = ""; /* no rule with a name is about an address */
    } else if (name) {
        if (net_name_canonical(name, canonical) < 0 || net_name_is_number(canonical)) {
            say_built_in(false, "the name that it asks for is none", ret);
            return;
        }
        j.name = canonical;
    }
    judge_egress(&j, ret);
}

/* -- Names -- */

/* Does the rule say something of the name: 1 yes, 0 no? What is for one port only does not keep the
 * name from being asked for. */
static bool decides_name(const struct rule *r, const char *name)
{
    bool metadata = net_name_is_metadata(name), host = strcmp(name, POLICY_HOST_NAME) == 0;

    if (!(r->directions & DIRECTION_EGRESS) || (!r->allow && !rule_is_whole(r)))
        return false;
    switch (r->kind) {
    case DEST_NAME:
        return rule_has_name(r, name);
    case DEST_SUFFIX:
        return rule_has_name(r, name) && !(r->allow && metadata);
    case DEST_ANY:
    case DEST_DNS:
        return !r->allow || !(metadata || host);
    case DEST_GROUP:
        if (metadata || host)
            return r->group == (metadata ? CLASS_METADATA : CLASS_HOST);
        return r->group == CLASS_PUBLIC;
    case DEST_RANGE:
        break;
    }
    return false;
}

void policy_judge_name(const struct policy *p, const char *name, struct policy_verdict *ret)
{
    char canonical[POLICY_NAME_MAX + 1];

    if (net_name_canonical(name, canonical) < 0 || net_name_is_number(canonical)) {
        say_built_in(false, "it is no name", ret);
        return;
    }
    if (net_name_is_own(canonical)) {
        say_built_in(false, "such names are the sandbox's own and never asked for", ret);
        return;
    }
    for (unsigned i = 0; i < p->n_rules; i++)
        if (decides_name(&p->rules[i], canonical)) {
            say_rule(p, (int)i, p->rules[i].allow, ret);
            return;
        }
    if (!p->allow)
        say_default(false, "default: deny, no rule allows the name", ret);
    else if (net_name_is_metadata(canonical))
        say_built_in(false, "metadata services take a rule with their name or group", ret);
    else if (strcmp(canonical, POLICY_HOST_NAME) == 0)
        say_built_in(false, "the host takes a rule with the group host", ret);
    else
        say_default(true, "default: allow", ret);
}

unsigned policy_rules_for_name(const struct policy *p, const char *name, unsigned *ret,
                               unsigned max)
{
    char canonical[POLICY_NAME_MAX + 1];
    unsigned n = 0;

    if (net_name_canonical(name, canonical) < 0)
        return 0;
    for (unsigned i = 0; i < p->n_rules && n < max; i++) {
        const struct rule *r = &p->rules[i];

        if ((r->directions & DIRECTION_EGRESS) && rule_has_name(r, canonical) &&
            (n == 0 || ret[n - 1] != r->pin))
            ret[n++] = r->pin;
    }
    return n;
}

bool policy_answer_ok(const struct policy *p, const struct net_address *a)
{
    enum net_class c = net_classify(a);

    if (c == CLASS_PUBLIC)
        return true;
    for (unsigned i = 0; i < p->n_rules; i++) {
        const struct rule *r = &p->rules[i];

        if ((r->directions & DIRECTION_EGRESS) && r->n_ports == 0 &&
            (r->kind == DEST_RANGE || r->kind == DEST_GROUP) && matches_address(r, a, c))
            return r->allow;
    }
    return !p->dns.rebind_protection && (c == CLASS_PRIVATE || c == CLASS_RESERVED);
}
