#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "policy/address.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* What a sandbox may reach, and who may reach it: read once, judged in three places that must
 * agree. The engine checks and explains it, the gateway's warden gives the kernel policy_nft()'s
 * text and judges flows that are open when a policy changes, its worker judges names.
 * docs/network-policy.md has what users are told. */
struct policy;

#define POLICY_RULES_MAX       256  /* that somebody wrote */
#define POLICY_ALL_RULES_MAX   1024 /* with those of profiles */
#define POLICY_NAME_MAX        253  /* bytes of a domain, without the last dot */
#define POLICY_JSON_BYTES_MAX  (64 << 10)
#define POLICY_NAMESERVERS_MAX 4
#define POLICY_PORTS_MAX       32 /* ranges of one rule */
#define POLICY_CONNECTIONS     1024
#define POLICY_CONNECTIONS_MAX 65536
#define POLICY_NFT_BYTES_MAX   (1 << 20)

/* The name by which a sandbox asks for the host, answered with the gateway's address. */
#define POLICY_HOST_NAME "host.cay.internal"

/* true, an object, or a text: "public", "packages", "allow-all", names of profiles and rules as
 * `allow@pypi.org:tcp:443`, with commas between. false, null and "none" are no network: 0 and NULL.
 * Fails with ERR_INVALID "bad_policy"; the
 * text says where (rules[2].port) and what to write. */
int policy_parse(const json_t *in, struct policy **ret, struct err *err);
void policy_free(struct policy *p);

/* The canonical form, which policy_parse() takes again: true, or an object with all that was given,
 * profiles by name. A new reference. */
json_t *policy_json(const struct policy *p);

/* 32 hex digits of a digest of policy_nft()'s text: who has the same can share a chain. Names, name
 * servers and the like are not in it. */
#define POLICY_KEY 33
void policy_key(const struct policy *p, char ret[POLICY_KEY]);

enum policy_direction { POLICY_EGRESS, POLICY_INGRESS };

/* to: whom the sandbox calls, or, of ingress, who calls. protocol is IPPROTO_…; the port of ICMP
 * is not looked at, only its echo requests are ever allowed. */
struct policy_flow {
    enum policy_direction direction;
    struct net_address to;
    uint8_t protocol;
    uint16_t port;
};

/* Has this sandbox been given the address for a name of the rules with that pin number? */
typedef bool (*policy_pinned)(unsigned pin, const struct net_address *a, void *arg);
/* Is it an address of the host's, or the gateway's own? */
typedef bool (*policy_is_host)(const struct net_address *a, void *arg);

enum { POLICY_BY_DEFAULT = -1, POLICY_BUILT_IN = -2 };

/* rule: the number in `rules` (0 is the first); those of profiles come after them. why: for people,
 * "rules[2]: deny evil.test" or "profile pypi: allow pypi.org tcp 443". */
struct policy_verdict {
    bool allowed;
    bool
        inspect; /* allowed so far: TLS's and HTTP's name is to be judged by policy_judge_named() */
    int rule;
    char why[160];
};

/* Callbacks may be NULL: nothing is pinned, nothing is the host's. DNS (port 53) is always allowed,
 * because it never gets further than the gateway. */
void policy_judge(const struct policy *p, const struct policy_flow *flow, policy_pinned pinned,
                  policy_is_host is_host, void *arg, struct policy_verdict *ret);

/* A DNS question: is the name to be asked for? Letters may be of any case, a last dot is fine. */
void policy_judge_name(const struct policy *p, const char *name, struct policy_verdict *ret);

/* A connection that is inspected, with the name that it said (TLS's SNI, HTTP's Host without port;
 * NULL = it said none): both the name and the address must be right. Never says `inspect`. */
void policy_judge_named(const struct policy *p, const char *name, const struct policy_flow *flow,
                        policy_pinned pinned, policy_is_host is_host, void *arg,
                        struct policy_verdict *ret);

/* The pin numbers that the addresses of an answer for this name are entered under, at most max;
 * rules that stand beside each other and differ in the name only share one. Returns how many. A pin
 * number means something to its policy only: when that changes, pins are to be made anew. */
unsigned policy_rules_for_name(const struct policy *p, const char *name, unsigned *ret,
                               unsigned max);

/* May an answer of DNS name this address? If one of an answer's may not, the whole answer is
 * NXDOMAIN: a name that leads to the host's or a private network is how browsers were tricked. */
bool policy_answer_ok(const struct policy *p, const struct net_address *a);

struct policy_nameserver {
    struct net_address address;
    uint16_t port;
};
struct policy_dns {
    struct policy_nameserver nameservers[POLICY_NAMESERVERS_MAX];
    unsigned n; /* 0 = the host's */
    bool rebind_protection;
    unsigned query_timeout_ms;
};
const struct policy_dns *policy_dns(const struct policy *p);
unsigned policy_max_connections(const struct policy *p);

/* -- The kernel's form ------------------------------------------------------------------------
 *
 * Texts that stand inside `table inet … { }`. policy_nft_groups() is the same for all policies: the
 * sets of the groups (special: all that is not public):
 *     special4 private4 metadata4 linklocal4      special6 private6 metadata6 linklocal6
 * policy_nft() is one policy: chains <chain>_4 and <chain>_6, and sets <chain>_conn, <chain>_rate,
 * <chain>_rate_in with what is counted per interface; with an ingress rate also a chain <chain>_in
 * (policy_has_ingress_rate()). They use, and the table has beside them:
 *
 *     set pins4 { type ifname . ipv4_addr . mark; flags timeout; }     likewise pins6 with
 * ipv6_addr (interface, address, POLICY_PIN_MARK + pin number) set host4 { type ipv4_addr; }   set
 * host6 { type ipv6_addr; }    the host's own addresses set logged { type ifname; flags dynamic;
 * size 65536; }           how often a box is logged chain allow { }      lets the packet out chain
 * inspect { }    brings the connection to the worker chain refuse { }     answers with RST or ICMP
 *
 * These three end the walk, and so does every <chain>_4 and <chain>_6: one is entered by goto (or
 * vmap { …: goto }) in prerouting at mangle priority (after conntrack, before dnat) with packets of
 * the original direction only, of a box whose source was checked, that are neither for port 53 nor
 * for a peer of a named network. meta mark is scratch on entry and in them; ct mark is theirs (the
 * pin that let a flow in, so that it outlives the pin; or the policy that let it out by its
 * address, so that its packets are not judged one by one until there is another policy). <chain>_in
 * is jumped to from postrouting with packets for the box (oifname is counted) and drops what is too
 * much.
 *
 * A refusal is logged before `goto refuse`: group POLICY_LOG_GROUP, prefix "<chain> <rule> " with
 * the number of struct policy_verdict (-1, -2 too), at most 20 a second and box. */
#define POLICY_PIN_MARK  0x10000
#define POLICY_LOG_GROUP 12
int policy_nft(const struct policy *p, const char *chain, struct buf *out); /* 0 or -EMSGSIZE */
int policy_nft_groups(struct buf *out);
bool policy_has_ingress_rate(const struct policy *p);
