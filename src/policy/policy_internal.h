#pragma once

#include "policy/policy.h"

/* -- Groups (groups.c) -- */

/* What an address is. Every address is one of these; RESERVED has no group of its own, so that only
 * a rule with the address itself reaches it. */
enum net_class {
    CLASS_PUBLIC,
    CLASS_PRIVATE,
    CLASS_LOOPBACK,
    CLASS_LINK_LOCAL,
    CLASS_METADATA,
    CLASS_MULTICAST,
    CLASS_HOST,
    CLASS_RESERVED,
};
enum net_class net_classify(const struct net_address *a);

/* "public", … ; NULL of RESERVED. */
const char *net_class_word(enum net_class c);
/* 0 or -EINVAL. Also the words that other tools have: meta, linklocal, link_local. */
int net_class_of_word(const char *word, enum net_class *ret);

/* Where packets of a sandbox can never go to: its own loopback, "this network", its own link. */
bool net_range_never_applies(const struct net_address *range, unsigned bits);
/* Is all of it of one special class, so that who writes it means that class? */
bool net_range_is_special(const struct net_address *range, unsigned bits);

/* -- Names (names.c) -- */

/* Lower case, no last dot: 0, or -EINVAL when it is no domain name. */
int net_name_canonical(const char *text, char ret[POLICY_NAME_MAX + 1]);
/* Is name below suffix, or suffix itself? Both canonical. */
bool net_name_below(const char *name, const char *suffix);
bool net_name_is_metadata(const char *name);
/* Names that mean the asking machine itself or its link (localhost, .local): never sent anywhere.
 */
bool net_name_is_own(const char *name);

/* -- Rules (rule.c, grammar.c) -- */

enum destination_kind {
    DEST_ANY,    /* "*" */
    DEST_RANGE,  /* an address or a CIDR */
    DEST_NAME,   /* pypi.org */
    DEST_SUFFIX, /* *.pypi.org, and pypi.org */
    DEST_GROUP,
    DEST_DNS, /* asking for names */
};

enum {
    PROTO_TCP = 1,
    PROTO_UDP = 2,
    PROTO_ICMP = 4,
    PROTO_ICMPV6 = 8,
};

enum {
    DIRECTION_EGRESS = 1,
    DIRECTION_INGRESS = 2,
};

struct port_range {
    uint16_t lo, hi;
};

struct rule {
    bool allow;
    unsigned directions; /* DIRECTION_… */
    enum destination_kind kind;
    struct net_address range; /* DEST_RANGE, its bits below the prefix zero */
    unsigned bits;
    enum net_class group;
    char *name;         /* of DEST_NAME and DEST_SUFFIX, canonical, without "*." */
    unsigned protocols; /* PROTO_…; 0 = none said */
    struct port_range ports[POLICY_PORTS_MAX];
    unsigned n_ports;    /* 0 = all; sorted, none touches another */
    const char *profile; /* whose it is, or NULL */
    unsigned pin;
};

/* place names the rule for errors: "rules[2]". in is an object or a text. */
int rule_parse(const json_t *in, const char *place, struct rule *ret, struct err *err);
void rule_done(struct rule *r);
json_t *rule_json(const struct rule *r);
/* "allow pypi.org tcp 443", cut off at size. */
void rule_text(const struct rule *r, char *ret, size_t size);

/* `action[:direction]@target[:protocol[:ports]]` as an object for rule_parse(). NULL with err set
 * when it does not have that form. */
json_t *rule_of_text(const char *text, const char *place, struct err *err);

/* The protocols that a rule is about, said or not. */
unsigned rule_protocols(const struct rule *r);
bool rule_covers(const struct rule *r, uint8_t protocol, uint16_t port);
bool rule_is_name(const struct rule *r);
/* Has it neither protocol nor port? */
bool rule_is_whole(const struct rule *r);
bool rule_has_name(const struct rule *r, const char *name);
/* Does it name an address outright, so that it stands for more than public ones? */
bool rule_is_exact(const struct rule *r);

/* -- Profiles (profiles.c) -- */

struct profile {
    const char *name, *help;
    const char *const *hosts; /* NULL at the end: "pypi.org", "*.x.y"; " 80" after one that is also
                               * asked without TLS, " 22" where ssh is spoken */
    enum net_class group;     /* of one without hosts */
    bool registry;            /* part of "packages" */
};
extern const struct profile profiles[]; /* the last has no name */
const struct profile *profile_find(const char *name);
/* Calls add for each of its rules, which add takes. */
void profile_rules(const struct profile *p, void (*add)(struct rule *r, void *arg), void *arg);

/* -- A policy -- */

struct rate {
    uint64_t bytes_per_second; /* 0 = none */
    uint64_t burst;
};

struct policy {
    bool plain; /* was `true`, and is written as that */
    bool allow, allow_ingress;
    struct rule *rules;
    unsigned n_rules, n_written; /* with those of profiles; without */
    const struct profile *profiles[64];
    unsigned n_profiles;
    struct policy_dns dns;
    bool dns_given;
    struct rate egress, ingress;
    unsigned max_connections;
    bool max_connections_given;
};

/* The ports whose TCP is looked into, because a rule before denies a name there: TLS's and HTTP's,
 * or those that the rule says. */
bool rule_watches(const struct rule *r, uint16_t port);
extern const uint16_t watched_ports[2];

/* DNS by other ways (DoT, DoQ, mDNS, LLMNR, NetBIOS): only a rule with an address and a port lets
 * it out. */
bool net_port_is_other_dns(uint8_t protocol, uint16_t port);
