/* The way out: a veth pair between H and G, and what H must do for it. All of H that is ours is
 * this link, one table of nftables and, if it was off, forwarding. */
#include <errno.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "gateway/warden.h"

#define LOOKS_MAX 5 /* at addresses that change meanwhile */

/* ---- names and addresses ---- */

/* Daemons on one machine have different run folders. */
static void choose_names(struct warden *w)
{
    uint32_t hash = str_hash(w->setup.run);

    (void)snprintf(w->uplink, sizeof(w->uplink), "cay-%08x", hash);
    (void)snprintf(w->table, sizeof(w->table), "cay_%08x", hash);
}

struct in_use {
    const struct pool *range;
    int index; /* whose addresses do not count */
    bool yes;
};

static int see_address(const struct nlmsghdr *msg, void *arg)
{
    const struct ifaddrmsg *body = mnl_nlmsg_get_payload(msg);
    struct in_use *use = arg;
    struct nlattr *a;

    if ((int)body->ifa_index == use->index)
        return MNL_CB_OK;
    mnl_attr_for_each(a, msg, sizeof(*body))
    {
        struct net_address address = {.family = AF_INET};

        if (mnl_attr_get_type(a) != IFA_LOCAL || mnl_attr_get_payload_len(a) != 4)
            continue;
        memcpy(address.bytes, mnl_attr_get_payload(a), 4);
        if (net_address_in(&address, &use->range->base, use->range->bits))
            use->yes = true;
    }
    return MNL_CB_OK;
}

static bool is_in_use(struct warden *w, const struct pool *range, int index)
{
    const struct ifaddrmsg body = {.ifa_family = AF_INET};
    struct in_use use = {.range = range, .index = index};
    char room[NL_ROOM];

    (void)netlink_dump(&w->host_rt,
                       netlink_begin(room, RTM_GETADDR, NLM_F_DUMP, &body, sizeof(body)),
                       see_address, &use);
    return use.yes;
}

/* The first /30 from where the name points that nobody has. Never that of the metadata services. */
static int choose_range(struct warden *w, struct pool *ret, struct err *err)
{
    int index = link_index(&w->host_rt, w->uplink);
    uint32_t hash = str_hash(w->uplink);

    if (w->setup.uplink) {
        if (pool_parse(w->setup.uplink, AF_INET, ret) < 0 || ret->bits != 30)
            return err_code(err, ERR_UNSUPPORTED, "network_unsupported",
                            "CAY_NET_UPLINK must be a range as 169.254.7.4/30, not %s",
                            w->setup.uplink);
        return 0;
    }
    for (uint32_t i = 0; i < 8192; i++) {
        uint32_t n = (hash + i) % 8192; /* of 169.254.128.0/17 */
        char text[32];

        (void)snprintf(text, sizeof(text), "169.254.%u.%u/30", 128 + n / 64, n % 64 * 4);
        if (n / 64 + 128 == 169 || n / 64 + 128 == 170 || pool_parse(text, AF_INET, ret) < 0)
            continue; /* 169.254.169.254 and .170.2 are others' */
        if (!is_in_use(w, ret, index > 0 ? index : -1))
            return 0;
    }
    return err_code(err, ERR_UNSUPPORTED, "network_unsupported",
                    "no range of 169.254.128.0/17 is free for the way out; set CAY_NET_UPLINK");
}

static int choose_addresses(struct warden *w, struct err *err)
{
    struct pool range, range6;
    char text[64];

    if (choose_range(w, &range, err) < 0)
        return -1;
    w->up_host = pool_address(&range, 1);
    w->up_cross = pool_address(&range, 2);
    (void)snprintf(text, sizeof(text), "fd63:6179:7570:%x:%x::/80", str_hash(w->uplink) >> 16,
                   str_hash(w->uplink) & 0xffff);
    if (pool_parse(text, AF_INET6, &range6) < 0)
        return err_set(err, ERR_INTERNAL, "choose addresses of the way out");
    w->up_host6 = pool_address(&range6, 1);
    w->up_cross6 = pool_address(&range6, 2);
    return 0;
}

/* ---- the link ---- */

static int make_pair(struct warden *w)
{
    const struct ifinfomsg info = {.ifi_family = AF_UNSPEC};
    char room[NL_ROOM];
    struct nlmsghdr *msg =
        netlink_begin(room, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &info, sizeof(info));
    struct nlattr *kind, *data, *peer;

    mnl_attr_put_strz(msg, IFLA_IFNAME, w->uplink);
    kind = mnl_attr_nest_start(msg, IFLA_LINKINFO);
    mnl_attr_put_strz(msg, IFLA_INFO_KIND, "veth");
    data = mnl_attr_nest_start(msg, IFLA_INFO_DATA);
    peer = mnl_attr_nest_start(msg, VETH_INFO_PEER);
    memcpy(mnl_nlmsg_put_extra_header(msg, sizeof(info)), &info, sizeof(info));
    mnl_attr_put_strz(msg, IFLA_IFNAME, UPLINK);
    mnl_attr_put_u32(msg, IFLA_NET_NS_FD, (uint32_t)w->cross_ns);
    mnl_attr_nest_end(msg, peer);
    mnl_attr_nest_end(msg, data);
    mnl_attr_nest_end(msg, kind);
    return netlink_do(&w->host_rt, msg);
}

/* Both sides drop what they would have to ask each other with. */
static int assert_neighbours(struct warden *w, int host, int cross)
{
    unsigned char ours[6], theirs[6];
    int r = link_mac(&w->host_rt, host, theirs);

    if (r == 0)
        r = link_mac(&w->cross_rt, cross, ours);
    if (r == 0)
        r = neighbour_add(&w->cross_rt, cross, &w->up_host, theirs);
    if (r == 0)
        r = neighbour_add(&w->host_rt, host, &w->up_cross, ours);
    if (r == 0 && w->ipv6)
        r = neighbour_add(&w->cross_rt, cross, &w->up_host6, theirs);
    if (r == 0 && w->ipv6)
        r = neighbour_add(&w->host_rt, host, &w->up_cross6, ours);
    return r;
}

static int assert_link(struct warden *w)
{
    int host = link_index(&w->host_rt, w->uplink), cross = link_index(&w->cross_rt, UPLINK);
    int r = 0;

    /* One that leads somewhere else, or half a pair, is of no use. */
    if (host > 0 && cross <= 0)
        (void)link_delete(&w->host_rt, host);
    if (cross > 0 && host <= 0)
        (void)link_delete(&w->cross_rt, cross);
    if (host <= 0 || cross <= 0)
        r = make_pair(w);
    if (r < 0)
        return r;
    host = link_index(&w->host_rt, w->uplink);
    cross = link_index(&w->cross_rt, UPLINK);
    if (host < 0 || cross < 0)
        return host < 0 ? host : cross;
    w->uplink_index = host;
    r = address_add(&w->host_rt, host, &w->up_host, 30);
    if (r == 0)
        r = address_add(&w->cross_rt, cross, &w->up_cross, 30);
    if (r == 0 && w->ipv6)
        r = address_add(&w->host_rt, host, &w->up_host6, 64);
    if (r == 0 && w->ipv6)
        r = address_add(&w->cross_rt, cross, &w->up_cross6, 64);
    if (r == 0)
        r = link_up(&w->host_rt, host, w->setup.run);
    if (r == 0)
        r = link_up(&w->cross_rt, cross, NULL);
    if (r == 0)
        r = assert_neighbours(w, host, cross);
    if (r == 0)
        r = route_add(&w->cross_rt, AF_INET, TABLE_OUT, NULL, &w->up_host, NULL, cross);
    if (r == 0 && w->ipv6)
        r = route_add(&w->cross_rt, AF_INET6, TABLE_OUT, NULL, &w->up_host6, NULL, cross);
    return r;
}

/* ---- forwarding ---- */

static int switch_on(const char *name, bool *ours)
{
    int now = sysctl_get(name), r;

    if (now == 1)
        return 0;
    r = sysctl_set(name, "1");
    if (r == 0)
        *ours = true;
    return r;
}

int uplink_assert(struct warden *w, struct err *err)
{
    int r = assert_link(w);

    if (r < 0)
        return err_sys(err, -r, "make the way out (%s)", w->uplink);
    /* The rules that keep others from being forwarded come first. */
    if (sysctl_get("ipv4/ip_forward") != 1)
        w->forwards = true;
    if (w->ipv6 && sysctl_get("ipv6/conf/all/forwarding") != 1)
        w->forwards6 = true;
    if (rules_assert_host(w, err) < 0)
        return -1;
    r = switch_on("ipv4/ip_forward", &w->forwards);
    if (r == 0 && w->ipv6)
        r = switch_on("ipv6/conf/all/forwarding", &w->forwards6);
    return r < 0 ? err_sys(err, -r, "switch on forwarding") : 0;
}

int uplink_open(struct warden *w, struct err *err)
{
    choose_names(w);
    w->forwards = rules_host_forwards(w, "ipv4");
    w->forwards6 = rules_host_forwards(w, "ipv6");
    return choose_addresses(w, err) < 0 ? -1 : uplink_assert(w, err);
}

void uplink_remove(struct warden *w)
{
    int host = link_index(&w->host_rt, w->uplink);

    if (host > 0)
        (void)link_delete(&w->host_rt, host);
    if (w->forwards)
        (void)sysctl_set("ipv4/ip_forward", "0");
    if (w->forwards6)
        (void)sysctl_set("ipv6/conf/all/forwarding", "0");
    rules_remove_host(w);
}

/* ---- H's own addresses ---- */

static int take_address(const struct nlmsghdr *msg, void *arg)
{
    const struct ifaddrmsg *body = mnl_nlmsg_get_payload(msg);
    struct net_address found = {.family = body->ifa_family};
    struct warden *w = arg;
    struct nlattr *a;

    mnl_attr_for_each(a, msg, sizeof(*body))
    {
        unsigned type = mnl_attr_get_type(a);

        if (mnl_attr_get_payload_len(a) == netlink_address_len(&found) &&
            (type == IFA_LOCAL || (type == IFA_ADDRESS && body->ifa_family == AF_INET6)))
            memcpy(found.bytes, mnl_attr_get_payload(a), netlink_address_len(&found));
    }
    /* Those of one link only are never routed, and a host with many links has many. */
    if (body->ifa_family == AF_INET6 && body->ifa_scope == RT_SCOPE_LINK)
        return MNL_CB_OK;
    if (w->n_host < ARRAY_LEN(w->host) && !uplink_is_host(w, &found))
        w->host[w->n_host++] = found;
    return MNL_CB_OK;
}

bool uplink_is_host(const struct warden *w, const struct net_address *a)
{
    for (unsigned i = 0; i < w->n_host; i++)
        if (net_address_equal(&w->host[i], a))
            return true;
    return false;
}

static bool was_there(const struct net_address *list, unsigned n, const struct net_address *a)
{
    for (unsigned i = 0; i < n; i++)
        if (net_address_equal(&list[i], a))
            return true;
    return false;
}

void uplink_host_addresses(struct warden *w)
{
    static struct net_address old[ARRAY_LEN(w->host)];
    const struct ifaddrmsg body = {.ifa_family = AF_UNSPEC};
    unsigned n_old = w->n_host;
    struct elements *e = elements_new(w);
    char room[NL_ROOM];
    int r = -1;

    memcpy(old, w->host, sizeof(old));
    for (int i = 0; i < LOOKS_MAX && r < 0; i++) {
        w->n_host = 0;
        /* The gateway's own are the host's too, as far as policies go. */
        w->host[w->n_host++] = w->gateway;
        w->host[w->n_host++] = w->gateway6;
        r = netlink_dump(&w->host_rt,
                         netlink_begin(room, RTM_GETADDR, NLM_F_DUMP, &body, sizeof(body)),
                         take_address, w);
    }
    /* What could not be seen whole is not taken for gone. */
    for (unsigned i = 0; r < 0 && i < n_old && w->n_host < ARRAY_LEN(w->host); i++)
        if (!uplink_is_host(w, &old[i]))
            w->host[w->n_host++] = old[i];
    for (unsigned i = 0; i < w->n_host + n_old; i++) {
        const struct net_address *a = i < w->n_host ? &w->host[i] : &old[i - w->n_host];
        bool now = was_there(w->host, w->n_host, a), before = was_there(old, n_old, a);

        if (now == before)
            continue;
        element_begin(e, now, a->family == AF_INET ? "host4" : "host6");
        element_key_address(e, a);
        element_end(e);
    }
    if (elements_commit(e) < 0) {
        w->repair_cross = true;
        tasks_soon(w);
    }
    helper_tell_world(w);
}
