/* A box's link: a veth pair, one end in G and the other, eth0, in the box's network namespace. The
 * box's end is configured from here, because commands in it have no power over networks. */
#include <errno.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "gateway/warden.h"

#define BOX_LINK "eth0"
/* We say which numbers links get, and need not ask for them: in a box the first after lo's, in G
 * those after the number in the link's name. */
#define BOX_INDEX   2
#define INDEX_FIRST 0x100000
#define LOOKS_MAX   5
#define INDEX_COUNT 0x70000000 /* so many links are not made while one of them lives */

/* Locally administered. Neighbours are entered on both sides, so nobody ever asks for one. */
static const unsigned char gateway_mac[6] = {0x02, 0xca, 0x79, 0, 0, 1};

static void box_mac(const struct box *b, unsigned char ret[6])
{
    memcpy(ret, gateway_mac, 2);
    memcpy(ret + 2, b->address.bytes, 4);
}

/* One of each: more would be of use to XDP only, and each takes time to make. */
static void put_queues(struct nlmsghdr *msg)
{
    mnl_attr_put_u32(msg, IFLA_NUM_TX_QUEUES, 1);
    mnl_attr_put_u32(msg, IFLA_NUM_RX_QUEUES, 1);
}

static int link_number(const struct box *b)
{
    return INDEX_FIRST + (int)(strtoull(b->link + 1, NULL, 10) % INDEX_COUNT);
}

static int make_pair(struct warden *w, const struct box *b, int netns)
{
    const struct ifinfomsg info = {.ifi_family = AF_UNSPEC, .ifi_index = link_number(b)};
    const struct ifinfomsg theirs = {.ifi_family = AF_UNSPEC, .ifi_index = BOX_INDEX};
    char room[NL_ROOM];
    struct nlmsghdr *msg =
        netlink_begin(room, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &info, sizeof(info));
    struct nlattr *kind, *data, *peer;
    unsigned char mac[6];

    box_mac(b, mac);
    mnl_attr_put_strz(msg, IFLA_IFNAME, b->link);
    mnl_attr_put(msg, IFLA_ADDRESS, 6, gateway_mac);
    put_queues(msg);
    kind = mnl_attr_nest_start(msg, IFLA_LINKINFO);
    mnl_attr_put_strz(msg, IFLA_INFO_KIND, "veth");
    data = mnl_attr_nest_start(msg, IFLA_INFO_DATA);
    peer = mnl_attr_nest_start(msg, VETH_INFO_PEER);
    memcpy(mnl_nlmsg_put_extra_header(msg, sizeof(theirs)), &theirs, sizeof(theirs));
    mnl_attr_put_strz(msg, IFLA_IFNAME, BOX_LINK);
    mnl_attr_put(msg, IFLA_ADDRESS, 6, mac);
    put_queues(msg);
    mnl_attr_put_u32(msg, IFLA_NET_NS_FD, (uint32_t)netns);
    mnl_attr_nest_end(msg, peer);
    mnl_attr_nest_end(msg, data);
    mnl_attr_nest_end(msg, kind);
    return netlink_do(&w->cross_rt, msg);
}

/* ---- the box's end ---- */

/* No address of its own making: it has those that we give it, of IPv6 none if we have none. Through
 * netlink, because a look at a file of /proc/sys takes longer the more namespaces there are. */
static int set_no_autoconf(struct netlink *nl, int index)
{
    const struct ifinfomsg info = {.ifi_family = AF_UNSPEC, .ifi_index = index};
    char room[NL_ROOM];
    struct nlmsghdr *msg = netlink_begin(room, RTM_SETLINK, 0, &info, sizeof(info));
    struct nlattr *families = mnl_attr_nest_start(msg, IFLA_AF_SPEC);
    struct nlattr *inet6 = mnl_attr_nest_start(msg, AF_INET6);

    mnl_attr_put_u8(msg, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
    mnl_attr_nest_end(msg, inet6);
    mnl_attr_nest_end(msg, families);
    return netlink_do(nl, msg);
}

static int configure_family(struct netlink *nl, int index, const struct net_address *own,
                            const struct net_address *gateway)
{
    int r = address_add(nl, index, own, net_address_bits(own));

    if (r == 0)
        r = neighbour_add(nl, index, gateway, gateway_mac);
    if (r == 0)
        r = route_add(nl, own->family, RT_TABLE_MAIN, NULL, gateway, NULL, index);
    return r;
}

static int configure_box(const struct warden *w, const struct box *b, struct netlink *nl)
{
    int r, sent;

    netlink_hold(nl);
    r = w->kernel_has_ipv6 ? set_no_autoconf(nl, BOX_INDEX) : 0;
    if (r == 0)
        r = link_up(nl, BOX_INDEX, NULL);
    if (r == 0)
        r = configure_family(nl, BOX_INDEX, &b->address, &w->gateway);
    if (r == 0 && w->ipv6)
        r = configure_family(nl, BOX_INDEX, &b->address6, &w->gateway6);
    sent = netlink_release(nl);
    return r < 0 ? r : sent;
}

/* A namespace that another box had may have its link still. */
static void clear_box(struct netlink *nl)
{
    int index = link_index(nl, BOX_LINK);

    if (index > 0)
        (void)link_delete(nl, index);
}

/* ---- our end ---- */

static int route_to_box(struct warden *w, const struct box *b, const struct net_address *to,
                        const struct net_address *from)
{
    unsigned char mac[6];
    int r = route_add(&w->cross_rt, to->family, TABLE_BOX, to, NULL, from, b->index);

    box_mac(b, mac);
    return r < 0 ? r : neighbour_add(&w->cross_rt, b->index, to, mac);
}

/* The pair and our end of it, in one go. */
static int make_link(struct warden *w, struct box *b, int netns)
{
    int r;

    b->index = link_number(b);
    netlink_hold(&w->cross_rt);
    r = make_pair(w, b, netns);
    if (r == 0)
        r = link_up(&w->cross_rt, b->index, b->id);
    if (r == 0)
        r = route_to_box(w, b, &b->address, &w->gateway);
    if (r == 0 && w->ipv6)
        r = route_to_box(w, b, &b->address6, &w->gateway6);
    if (r < 0) {
        (void)netlink_release(&w->cross_rt);
        return r;
    }
    return netlink_release(&w->cross_rt);
}

/* A socket in the box's namespace, in which we are for as short as can be. */
static int enter_box(const struct warden *w, int netns, struct netlink *nl, struct err *err)
{
    int r;

    if (in_namespace(netns, err) < 0)
        return -1;
    r = netlink_open(nl, NETLINK_ROUTE, 0);
    if (in_namespace(w->host_ns, err) < 0)
        _exit(1); /* where we are decides what is dialled */
    return r < 0 ? err_sys(err, -r, "open rtnetlink in a sandbox") : 0;
}

int link_make(struct warden *w, struct box *b, int netns, struct err *err)
{
    struct netlink nl = {0};
    int r;

    if (enter_box(w, netns, &nl, err) < 0)
        return -1;
    r = make_link(w, b, netns);
    if (r == -EEXIST || r == -EBUSY) {
        clear_box(&nl);
        r = make_link(w, b, netns);
    }
    if (r == 0)
        r = configure_box(w, b, &nl);
    netlink_close(&nl);
    if (r == 0)
        return 0;
    link_bury(w, b);
    return err_sys(err, -r, "make the link of %s", b->id);
}

bool link_is_in(struct warden *w, const struct box *b, int netns)
{
    unsigned char mac[6], own[6];
    struct netlink nl = {0};
    struct err err = {0};
    int index = -1;

    if (enter_box(w, netns, &nl, &err) < 0)
        return false;
    index = link_index(&nl, BOX_LINK);
    box_mac(b, own);
    if (index <= 0 || link_mac(&nl, index, mac) < 0)
        index = -1;
    netlink_close(&nl);
    return index > 0 && memcmp(mac, own, 6) == 0;
}

/* ---- the end of links ---- */

/* Deleting one takes many milliseconds, however many are deleted together. It goes with its box's
 * namespace, or when nothing else is to be done. */
void link_bury(struct warden *w, struct box *b)
{
    const struct ifinfomsg info = {.ifi_family = AF_UNSPEC};
    char room[NL_ROOM];
    struct nlmsghdr *msg = netlink_begin(room, RTM_SETLINK, 0, &info, sizeof(info));

    mnl_attr_put_strz(msg, IFLA_IFNAME, b->link);
    mnl_attr_put_u32(msg, IFLA_GROUP, DEAD_GROUP);
    (void)netlink_do(&w->cross_rt, msg);
    b->index = 0;
}

void links_sweep(struct warden *w)
{
    const struct ifinfomsg info = {.ifi_family = AF_UNSPEC};
    char room[NL_ROOM];
    struct nlmsghdr *msg = netlink_begin(room, RTM_DELLINK, 0, &info, sizeof(info));

    mnl_attr_put_u32(msg, IFLA_GROUP, DEAD_GROUP);
    (void)netlink_do(&w->cross_rt, msg);
}

/* ---- those that are there ---- */

struct each {
    struct warden *w;
    struct found {
        char name[IFNAME], alias[ID_BYTES_MAX + 1];
        int index;
        bool dead;
    } * list;
    unsigned n;
};

static int see_link(const struct nlmsghdr *msg, void *arg)
{
    const struct ifinfomsg *info = mnl_nlmsg_get_payload(msg);
    struct each *each = arg;
    struct found found = {.index = info->ifi_index};
    struct nlattr *a;

    mnl_attr_for_each(a, msg, sizeof(*info))
    {
        unsigned type = mnl_attr_get_type(a);

        if (type == IFLA_IFNAME)
            (void)snprintf(found.name, sizeof(found.name), "%s", mnl_attr_get_str(a));
        else if (type == IFLA_IFALIAS)
            (void)snprintf(found.alias, sizeof(found.alias), "%s", mnl_attr_get_str(a));
        else if (type == IFLA_GROUP)
            found.dead = mnl_attr_get_u32(a) == DEAD_GROUP;
    }
    if (found.name[0] != LINK_PREFIX[0] || each->n >= BOXES_MAX)
        return MNL_CB_OK;
    each->list = xrealloc(each->list, (each->n + 1) * sizeof(*each->list));
    each->list[each->n++] = found;
    return MNL_CB_OK;
}

int links_each(struct warden *w,
               void (*found)(struct warden *w, const char *name, int index, const char *alias,
                             bool dead, void *arg),
               void *arg)
{
    const struct ifinfomsg info = {.ifi_family = AF_UNSPEC};
    struct each each = {.w = w};
    char room[NL_ROOM];
    int r = -EINTR;

    for (int i = 0; i < LOOKS_MAX && r == -EINTR; i++) { /* boxes end meanwhile */
        each.n = 0;
        r = netlink_dump(&w->cross_rt,
                         netlink_begin(room, RTM_GETLINK, NLM_F_DUMP, &info, sizeof(info)),
                         see_link, &each);
    }
    for (unsigned i = 0; r == 0 && i < each.n; i++)
        found(w, each.list[i].name, each.list[i].index, each.list[i].alias, each.list[i].dead, arg);
    free(each.list);
    return r;
}
