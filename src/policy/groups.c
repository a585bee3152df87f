#include "policy/policy_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

/* Every range that is not plain public internet (RFC 6890 and what came after it, and clouds' own).
 * The first that has an address decides, so single addresses stand before the ranges around them.
 * IPv6 addresses that carry an IPv4 address (NAT64, 6to4, Teredo, IPv4-compatible) are reserved:
 * they would lead around every rule for the address inside. */
static const struct range {
    const char *address;
    unsigned bits;
    enum net_class class;
} ranges[] = {
    /* Where clouds hand out credentials. */
    {"169.254.169.254", 32, CLASS_METADATA}, /* AWS, Google, Azure, OpenStack, … */
    {"169.254.169.253", 32, CLASS_METADATA}, /* AWS: DNS */
    {"169.254.169.123", 32, CLASS_METADATA}, /* AWS: time */
    {"169.254.170.2", 32, CLASS_METADATA},   /* AWS: tasks' credentials */
    {"169.254.170.23", 32, CLASS_METADATA},  /* AWS: pods' credentials */
    {"169.254.0.23", 32, CLASS_METADATA},    /* Tencent */
    {"169.254.10.10", 32, CLASS_METADATA},   /* Scaleway's older one */
    {"169.254.42.42", 32, CLASS_METADATA},   /* Scaleway */
    {"100.100.100.200", 32, CLASS_METADATA}, /* Alibaba */
    {"168.63.129.16", 32, CLASS_METADATA},   /* Azure */
    {"192.0.0.192", 32, CLASS_METADATA},     /* Oracle's older one */
    {"fd00:ec2::254", 128, CLASS_METADATA},  /* AWS */
    {"fd00:ec2::253", 128, CLASS_METADATA},
    {"fd00:ec2::123", 128, CLASS_METADATA},
    {"fd00:ec2::23", 128, CLASS_METADATA},
    {"fd20:ce::254", 128, CLASS_METADATA},       /* Google */
    {"fd00:42::42", 128, CLASS_METADATA},        /* Scaleway */
    {"fd00:c1::a9fe:a9fe", 128, CLASS_METADATA}, /* Oracle */

    {"0.0.0.0", 8, CLASS_RESERVED},
    {"10.0.0.0", 8, CLASS_PRIVATE},
    {"100.64.0.0", 10, CLASS_PRIVATE}, /* carriers' NAT */
    {"127.0.0.0", 8, CLASS_LOOPBACK},
    {"169.254.0.0", 16, CLASS_LINK_LOCAL},
    {"172.16.0.0", 12, CLASS_PRIVATE},
    {"192.0.0.0", 24, CLASS_RESERVED},
    {"192.0.2.0", 24, CLASS_RESERVED},
    {"192.31.196.0", 24, CLASS_RESERVED},
    {"192.52.193.0", 24, CLASS_RESERVED},
    {"192.88.99.0", 24, CLASS_RESERVED}, /* 6to4 relays */
    {"192.168.0.0", 16, CLASS_PRIVATE},
    {"192.175.48.0", 24, CLASS_RESERVED},
    {"198.18.0.0", 15, CLASS_RESERVED},
    {"198.51.100.0", 24, CLASS_RESERVED},
    {"203.0.113.0", 24, CLASS_RESERVED},
    {"224.0.0.0", 4, CLASS_MULTICAST},
    {"255.255.255.255", 32, CLASS_MULTICAST},
    {"240.0.0.0", 4, CLASS_RESERVED},

    {"::1", 128, CLASS_LOOPBACK},
    {"fc00::", 7, CLASS_PRIVATE},
    {"fe80::", 10, CLASS_LINK_LOCAL},
    {"fec0::", 10, CLASS_PRIVATE}, /* site-local of old */
    {"ff00::", 8, CLASS_MULTICAST},
    {"2001::", 23, CLASS_RESERVED}, /* Teredo, benchmarks, ORCHID */
    {"2001:db8::", 32, CLASS_RESERVED},
    {"2002::", 16, CLASS_RESERVED}, /* 6to4 */
    {"2620:4f:8000::", 48, CLASS_RESERVED},
    {"3fff::", 20, CLASS_RESERVED},
};
#define N_RANGES (sizeof(ranges) / sizeof(ranges[0]))

static const struct {
    const char *word;
    enum net_class class;
} words[] = {
    {"public", CLASS_PUBLIC},
    {"private", CLASS_PRIVATE},
    {"loopback", CLASS_LOOPBACK},
    {"link-local", CLASS_LINK_LOCAL},
    {"metadata", CLASS_METADATA},
    {"multicast", CLASS_MULTICAST},
    {"host", CLASS_HOST},
    {"linklocal", CLASS_LINK_LOCAL},
    {"link_local", CLASS_LINK_LOCAL},
    {"meta", CLASS_METADATA},
};

const char *net_class_word(enum net_class c)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (words[i].class == c)
            return words[i].word;
    return NULL;
}

int net_class_of_word(const char *word, enum net_class *ret)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i].word, word) == 0) {
            *ret = words[i].class;
            return 0;
        }
    return -EINVAL;
}

static int range_family(const struct range *r)
{
    return strchr(r->address, ':') ? AF_INET6 : AF_INET;
}

/* The table's texts, read once a thread. */
static const struct net_address *range_address(size_t i)
{
    static _Thread_local struct net_address parsed[N_RANGES];

    if (parsed[i].family == 0) {
        parsed[i].family = range_family(&ranges[i]);
        inet_pton(parsed[i].family, ranges[i].address, parsed[i].bytes);
    }
    return &parsed[i];
}

enum net_class net_classify(const struct net_address *a)
{
    for (size_t i = 0; i < N_RANGES; i++)
        if (net_address_in(a, range_address(i), ranges[i].bits))
            return ranges[i].class;
    /* Of IPv6 only 2000::/3 is given out. */
    if (a->family == AF_INET6 && (a->bytes[0] & 0xe0) != 0x20)
        return CLASS_RESERVED;
    return CLASS_PUBLIC;
}

bool net_range_is_special(const struct net_address *range, unsigned bits)
{
    for (size_t i = 0; i < N_RANGES; i++)
        if (bits >= ranges[i].bits && net_address_in(range, range_address(i), ranges[i].bits))
            return true;
    return range->family == AF_INET6 && bits >= 3 && (range->bytes[0] & 0xe0) != 0x20;
}

bool net_range_never_applies(const struct net_address *range, unsigned bits)
{
    enum net_class c;

    if (!net_range_is_special(range, bits))
        return false;
    c = net_classify(range);
    if (c == CLASS_LOOPBACK || c == CLASS_MULTICAST)
        return true;
    if (range->family == AF_INET)
        return range->bytes[0] == 0 && bits >= 8;
    return c == CLASS_LINK_LOCAL || (bits == 128 && range->bytes[0] == 0 && range->bytes[15] == 0 &&
                                     memcmp(range->bytes, range->bytes + 1, 15) == 0);
}

/* The elements of one class, or of all (special). Where one range has another in it, only the outer
 * one is written: sets of intervals do not overlap. */
static int add_set(struct buf *out, const char *name, int family, int class)
{
    int r = buf_addf(out, "set %s%c { type ipv%c_addr; flags interval; elements = {", name,
                     family == AF_INET ? '4' : '6', family == AF_INET ? '4' : '6');
    bool first = true;

    for (size_t i = 0; i < N_RANGES && r == 0; i++) {
        bool inner = false;

        if (range_family(&ranges[i]) != family || (class >= 0 && (int)ranges[i].class != class))
            continue;
        for (size_t k = 0; k < N_RANGES && !inner; k++)
            inner = k != i && (class < 0 || (int)ranges[k].class == class) &&
                    ranges[k].bits < ranges[i].bits &&
                    net_address_in(range_address(i), range_address(k), ranges[k].bits);
        if (inner ||
            (class < 0 && family == AF_INET6 && (range_address(i)->bytes[0] & 0xe0) != 0x20))
            continue;
        r = buf_addf(out, "%s %s/%u", first ? "" : ",", ranges[i].address, ranges[i].bits);
        first = false;
    }
    /* All that is not 2000::/3. */
    if (r == 0 && class < 0 && family == AF_INET6)
        r = buf_add_str(out, ", ::/3, 4000::/2, 8000::/1");
    return r == 0 ? buf_add_str(out, " }; }\n") : r;
}

int policy_nft_groups(struct buf *out)
{
    static const struct {
        const char *name;
        int class;
    } sets[] = {{"special", -1},
                {"private", CLASS_PRIVATE},
                {"metadata", CLASS_METADATA},
                {"linklocal", CLASS_LINK_LOCAL}};

    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        int r = add_set(out, sets[i].name, AF_INET, sets[i].class);

        if (r == 0)
            r = add_set(out, sets[i].name, AF_INET6, sets[i].class);
        if (r < 0)
            return r;
    }
    return 0;
}
