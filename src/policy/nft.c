#include "policy/policy_internal.h"

#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

/* What policy_judge() says, in the kernel's terms: change both or neither. The shapes of the table
 * around it are in policy.h. */

struct writer {
    const struct policy *p;
    const char *chain;
    struct buf *out;
    int family;
    uint32_t let_out; /* ct mark of a flow that this policy let out by its address */
    int r;            /* the first failure */
    /* Rules that deny a name on ports which others may let out: they are watched. Of several with
     * the same ports the first. */
    unsigned *watch, n_watch;
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *w, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (w->r == 0)
        w->r = buf_add_str(w->out, text);
}

static void put_ports(struct writer *w, const char *protocol, const struct port_range *v,
                      unsigned n)
{
    put(w, "%s dport {", protocol);
    for (unsigned i = 0; i < n; i++) {
        put(w, "%s %u", i ? "," : "", v[i].lo);
        if (v[i].hi != v[i].lo)
            put(w, "-%u", v[i].hi);
    }
    put(w, " } ");
}

/* Protocol and ports of a rule: protocol is one of PROTO_…. */
static void put_scope(struct writer *w, const struct rule *r, unsigned protocol)
{
    const char *word = protocol == PROTO_TCP ? "tcp" : "udp";

    if (protocol == PROTO_ICMP || protocol == PROTO_ICMPV6) {
        word = protocol == PROTO_ICMP ? "icmp" : "icmpv6";
        put(w, r->allow ? "%s type echo-request " : "meta l4proto %s ", word);
    } else if (r->n_ports > 0) {
        put_ports(w, word, r->ports, r->n_ports);
    } else {
        put(w, "meta l4proto %s ", word);
    }
}

/* "ip daddr != @special4 " */
static void put_in(struct writer *w, bool in, const char *set)
{
    put(w, "ip%s daddr %s@%s%c ", w->family == AF_INET ? "" : "6", in ? "" : "!= ", set,
        w->family == AF_INET ? '4' : '6');
}

static void put_range(struct writer *w, const struct net_address *a, unsigned bits)
{
    char text[NET_ADDRESS_TEXT];

    if (bits == 0) /* all of the family, which the chain is for */
        return;
    net_address_text(a, text);
    put(w, "ip%s daddr %s/%u ", w->family == AF_INET ? "" : "6", text, bits);
}

static void put_public(struct writer *w)
{
    put_in(w, false, "special");
    put_in(w, false, "host");
}

static void put_group(struct writer *w, enum net_class group)
{
    static const char *const sets[] = {[CLASS_PRIVATE] = "private",
                                       [CLASS_LINK_LOCAL] = "linklocal",
                                       [CLASS_METADATA] = "metadata",
                                       [CLASS_HOST] = "host"};

    if (group == CLASS_PUBLIC) {
        put_public(w);
        return;
    }
    if (group == CLASS_MULTICAST)
        put(w, "%s",
            w->family == AF_INET ? "ip daddr { 224.0.0.0/4, 255.255.255.255 } "
                                 : "ip6 daddr ff00::/8 ");
    else if (group == CLASS_LOOPBACK)
        put(w, "%s", w->family == AF_INET ? "ip daddr 127.0.0.0/8 " : "ip6 daddr ::1 ");
    else
        put_in(w, true, sets[group]);
    if (group != CLASS_METADATA)
        put_in(w, false, "metadata");
    if (group != CLASS_METADATA && group != CLASS_HOST)
        put_in(w, false, "host");
}

/* The addresses of a rule that has any; see matches_address(). */
static void put_address(struct writer *w, const struct rule *r)
{
    if (r->kind == DEST_GROUP) {
        put_group(w, r->group);
    } else if (r->kind == DEST_RANGE) {
        put_range(w, &r->range, r->bits);
        if (!r->allow)
            return;
        if (rule_is_exact(r)) {
            put_in(w, false, "host");
        } else if (net_range_is_special(&r->range, r->bits)) {
            put_in(w, false, "metadata");
            put_in(w, false, "host");
        } else {
            put_public(w);
        }
    } else if (r->allow) {
        put_public(w);
    }
}

static void put_refusal(struct writer *w, int rule)
{
    if (rule >= 0)
        put(w, "goto %s_no_%d\n", w->chain, rule);
    else
        put(w, "goto %s_no_%s\n", w->chain, rule == POLICY_BY_DEFAULT ? "default" : "builtin");
}

static void put_watched(struct writer *w, const struct rule *by, const char *protocol)
{
    struct port_range usual[2] = {{watched_ports[0], watched_ports[0]},
                                  {watched_ports[1], watched_ports[1]}};

    if (by->n_ports > 0)
        put_ports(w, protocol, by->ports, by->n_ports);
    else
        put_ports(w, protocol, usual, 2);
}

/* Lines that let out by address, for one protocol. r is NULL for the default. */
static void allow_address(struct writer *w, const struct rule *r, unsigned protocol)
{
    static const struct rule by_default = {.allow = true, .kind = DEST_ANY};
    const struct rule *rule = r ? r : &by_default;
    bool general = rule->kind == DEST_ANY || rule->kind == DEST_GROUP;

    for (unsigned i = 0; i < w->n_watch; i++) {
        const struct rule *by = &w->p->rules[w->watch[i]];

        if (protocol != PROTO_TCP && !(protocol == PROTO_UDP && general))
            continue;
        put_scope(w, rule, protocol);
        put_watched(w, by, protocol == PROTO_TCP ? "tcp" : "udp");
        put_address(w, rule);
        if (protocol == PROTO_TCP)
            put(w, "goto inspect\n");
        else
            put_refusal(w, (int)w->watch[i]);
    }
    put_scope(w, rule, protocol);
    put_address(w, rule);
    put(w, "ct mark set 0x%x goto allow\n", w->let_out);
}

/* The host is reached by way of the worker, and by TCP only. */
static void allow_host(struct writer *w, const struct rule *r)
{
    put_scope(w, r, PROTO_TCP);
    if (r->kind == DEST_RANGE)
        put_range(w, &r->range, r->bits);
    put_in(w, true, "host");
    put_in(w, false, "metadata");
    put(w, "goto inspect\n");
}

/* The pins of a rule with a name. ct mark keeps a flow that a pin let in when the pin is over. */
static void put_pinned(struct writer *w, const struct rule *r, unsigned protocol)
{
    unsigned mark = POLICY_PIN_MARK + r->pin;

    put_scope(w, r, protocol);
    put(w, "meta mark set 0x%x\n", mark);
    if (r->allow) {
        put_scope(w, r, protocol);
        put(w, "ct state established ct mark 0x%x ", mark);
        put_in(w, false, "host");
        put(w, "goto %s\n", protocol == PROTO_TCP ? "inspect" : "allow");
    }
    put_scope(w, r, protocol);
    put(w, "iifname . ip%s daddr . meta mark @pins%c ", w->family == AF_INET ? "" : "6",
        w->family == AF_INET ? '4' : '6');
    put_in(w, false, "host");
    if (r->allow)
        put(w, "ct mark set 0x%x goto %s\n", mark, protocol == PROTO_TCP ? "inspect" : "allow");
    else
        put_refusal(w, (int)(r - w->p->rules));
}

static unsigned icmp_of(const struct writer *w)
{
    return w->family == AF_INET ? PROTO_ICMP : PROTO_ICMPV6;
}

static void name_rule(struct writer *w, unsigned i)
{
    const struct rule *r = &w->p->rules[i];
    unsigned about = rule_protocols(r), icmp = icmp_of(w);

    if (r->allow && (about & PROTO_TCP) && rule_has_name(r, POLICY_HOST_NAME))
        allow_host(w, r);
    if (r->pin != i) /* said by the first of its kind */
        return;
    if (r->allow && (about & PROTO_TCP))
        put_pinned(w, r, PROTO_TCP);
    if (about & PROTO_UDP)
        put_pinned(w, r, PROTO_UDP);
    if (about & icmp)
        put_pinned(w, r, icmp);
}

static void address_rule(struct writer *w, unsigned i)
{
    const struct rule *r = &w->p->rules[i];
    const unsigned kinds[] = {PROTO_TCP, PROTO_UDP, icmp_of(w)};
    bool host = (r->kind == DEST_GROUP && r->group == CLASS_HOST) || rule_is_exact(r);

    if (r->kind == DEST_DNS || (r->kind == DEST_RANGE && r->range.family != w->family))
        return;
    if (r->allow && host && (rule_protocols(r) & PROTO_TCP))
        allow_host(w, r);
    if (r->allow && r->kind == DEST_GROUP && r->group == CLASS_HOST)
        return;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        if (!(rule_protocols(r) & kinds[k]))
            continue;
        if (r->allow) {
            allow_address(w, r, kinds[k]);
            continue;
        }
        put_scope(w, r, kinds[k]);
        put_address(w, r);
        put_refusal(w, (int)i);
    }
}

static void note_watch(struct writer *w, unsigned i)
{
    const struct rule *r = &w->p->rules[i];

    if (r->allow || !(rule_protocols(r) & PROTO_TCP))
        return;
    for (unsigned k = 0; k < w->n_watch; k++) {
        const struct rule *old = &w->p->rules[w->watch[k]];

        if (old->n_ports == r->n_ports &&
            memcmp(old->ports, r->ports, r->n_ports * sizeof(r->ports[0])) == 0)
            return;
    }
    w->watch[w->n_watch++] = i;
}

/* The ports of other ways to ask for names: denials as ever, and what names address and port. */
static void other_dns_chain(struct writer *w)
{
    put(w, "chain %s_dns_%c {\n", w->chain, w->family == AF_INET ? '4' : '6');
    for (unsigned i = 0; i < w->p->n_rules; i++) {
        const struct rule *r = &w->p->rules[i];

        if (!(r->directions & DIRECTION_EGRESS))
            continue;
        if (rule_is_name(r) && !r->allow) {
            note_watch(w, i);
            name_rule(w, i);
        } else if (!rule_is_name(r) && (!r->allow || (r->kind == DEST_RANGE && r->n_ports > 0))) {
            address_rule(w, i);
        }
    }
    put_refusal(w, POLICY_BUILT_IN);
    put(w, "}\n");
    w->n_watch = 0;
}

static void limits(struct writer *w)
{
    if (w->p->egress.bytes_per_second)
        put(w,
            "update @%s_rate { iifname timeout 10m limit rate over %" PRIu64
            " bytes/second burst %" PRIu64 " bytes } drop\n",
            w->chain, w->p->egress.bytes_per_second, w->p->egress.burst);
    /* Judged before, by this same policy: another one has another mark, and judges anew. */
    put(w, "ct state established ct mark 0x%x goto allow\n", w->let_out);
    /* What the worker has it ends by itself when the policy is another. */
    put(w, "ct state established ct status dnat goto inspect\n");
    put(w, "ct state new update @%s_conn { iifname ct count over %u } ", w->chain,
        w->p->max_connections);
    put_refusal(w, POLICY_BUILT_IN);
}

static void main_chain(struct writer *w)
{
    char version = w->family == AF_INET ? '4' : '6';

    other_dns_chain(w);
    put(w, "chain %s_%c {\n", w->chain, version);
    limits(w);
    put(w, "tcp dport 853 goto %s_dns_%c\n", w->chain, version);
    put(w, "udp dport { 137-138, 853, 5353, 5355 } goto %s_dns_%c\n", w->chain, version);
    for (unsigned i = 0; i < w->p->n_rules; i++) {
        if (!(w->p->rules[i].directions & DIRECTION_EGRESS))
            continue;
        if (rule_is_name(&w->p->rules[i])) {
            note_watch(w, i);
            name_rule(w, i);
        } else {
            address_rule(w, i);
        }
    }
    if (w->p->allow) {
        allow_address(w, NULL, PROTO_TCP);
        allow_address(w, NULL, PROTO_UDP);
    }
    put_refusal(w, POLICY_BY_DEFAULT);
    put(w, "}\n");
    w->n_watch = 0;
}

static void refusal_chain(struct writer *w, const char *name, int rule)
{
    put(w,
        "chain %s_no_%s {\nupdate @logged { iifname timeout 1m limit rate 20/second burst 40 "
        "packets } log prefix \"%s %d \" group %d\ngoto refuse\n}\n",
        w->chain, name, w->chain, rule, POLICY_LOG_GROUP);
}

static void sets(struct writer *w)
{
    static const char set[] = "{ type ifname; size 65536; flags dynamic, timeout; }";

    /* The kernel drops counts of connections by itself, and wants no timeout beside that. */
    put(w, "set %s_conn { type ifname; size 65536; flags dynamic; }\n", w->chain);
    if (w->p->egress.bytes_per_second)
        put(w, "set %s_rate %s\n", w->chain, set);
    if (w->p->ingress.bytes_per_second)
        put(w,
            "set %s_rate_in %s\nchain %s_in {\nupdate @%s_rate_in { oifname timeout 10m limit "
            "rate over %" PRIu64 " bytes/second burst %" PRIu64 " bytes } drop\n}\n",
            w->chain, set, w->chain, w->chain, w->p->ingress.bytes_per_second, w->p->ingress.burst);
}

static int write_all(const struct policy *p, const char *chain, uint32_t let_out, struct buf *out)
{
    auto_free unsigned *watch = xcalloc(p->n_rules + 1, sizeof(*watch));
    struct writer w = {.p = p, .chain = chain, .out = out, .let_out = let_out, .watch = watch};
    char number[12];

    sets(&w);
    refusal_chain(&w, "default", POLICY_BY_DEFAULT);
    refusal_chain(&w, "builtin", POLICY_BUILT_IN);
    for (unsigned i = 0; i < p->n_rules; i++)
        if (!p->rules[i].allow && (p->rules[i].directions & DIRECTION_EGRESS)) {
            snprintf(number, sizeof(number), "%u", i);
            refusal_chain(&w, number, (int)i);
        }
    w.family = AF_INET;
    main_chain(&w);
    w.family = AF_INET6;
    main_chain(&w);
    return w.r;
}

static void digest_of(const struct policy *p, unsigned char ret[SHA256_DIGEST_LENGTH])
{
    struct buf text;

    buf_init(&text, POLICY_NFT_BYTES_MAX); /* policy_parse() made sure that it fits */
    (void)write_all(p, "p", 0, &text);
    SHA256((const unsigned char *)text.data, text.len, ret);
    buf_done(&text);
}

int policy_nft(const struct policy *p, const char *chain, struct buf *out)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    uint32_t mark;

    digest_of(p, digest);
    memcpy(&mark, digest, sizeof(mark));
    return write_all(p, chain, mark | 0x80000000, out); /* no pin's */
}

void policy_key(const struct policy *p, char ret[POLICY_KEY])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];

    digest_of(p, digest);
    for (int i = 0; i < 16; i++)
        snprintf(ret + 2 * i, 3, "%02x", digest[i]);
}
