/* Single requests of rtnetlink: links, addresses, routes, neighbours. */
#include <errno.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>

#include "gateway/warden.h"

struct found {
    int index;
    unsigned char mac[6];
};

static int take_link(const struct nlmsghdr *msg, void *arg)
{
    const struct ifinfomsg *info = mnl_nlmsg_get_payload(msg);
    struct found *found = arg;
    struct nlattr *a;

    found->index = info->ifi_index;
    mnl_attr_for_each(a, msg, sizeof(*info)) if (mnl_attr_get_type(a) == IFLA_ADDRESS &&
                                                 mnl_attr_get_payload_len(a) == 6)
        memcpy(found->mac, mnl_attr_get_payload(a), 6);
    return MNL_CB_OK;
}

int link_index(struct netlink *nl, const char *name)
{
    const struct ifinfomsg info = {.ifi_family = AF_UNSPEC};
    char room[NL_ROOM];
    struct nlmsghdr *msg = netlink_begin(room, RTM_GETLINK, NLM_F_ACK, &info, sizeof(info));
    struct found found = {0};
    int r;

    mnl_attr_put_strz(msg, IFLA_IFNAME, name);
    r = netlink_dump(nl, msg, take_link, &found);
    return r < 0 ? r : found.index;
}

int link_mac(struct netlink *nl, int index, unsigned char ret[6])
{
    const struct ifinfomsg info = {.ifi_family = AF_UNSPEC, .ifi_index = index};
    char room[NL_ROOM];
    struct nlmsghdr *msg = netlink_begin(room, RTM_GETLINK, NLM_F_ACK, &info, sizeof(info));
    struct found found = {0};
    int r = netlink_dump(nl, msg, take_link, &found);

    if (r == 0)
        memcpy(ret, found.mac, 6);
    return r;
}

int link_up(struct netlink *nl, int index, const char *alias)
{
    const struct ifinfomsg info = {
        .ifi_family = AF_UNSPEC, .ifi_index = index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    char room[NL_ROOM];
    struct nlmsghdr *msg = netlink_begin(room, RTM_SETLINK, 0, &info, sizeof(info));

    if (alias)
        mnl_attr_put_strz(msg, IFLA_IFALIAS, alias);
    return netlink_do(nl, msg);
}

int link_delete(struct netlink *nl, int index)
{
    const struct ifinfomsg info = {.ifi_family = AF_UNSPEC, .ifi_index = index};
    char room[NL_ROOM];

    return netlink_do(nl, netlink_begin(room, RTM_DELLINK, 0, &info, sizeof(info)));
}

int address_add(struct netlink *nl, int index, const struct net_address *a, unsigned bits)
{
    const struct ifaddrmsg body = {.ifa_family = (uint8_t)a->family,
                                   .ifa_prefixlen = (uint8_t)bits,
                                   .ifa_flags = IFA_F_PERMANENT | IFA_F_NODAD,
                                   .ifa_scope = RT_SCOPE_UNIVERSE,
                                   .ifa_index = (uint32_t)index};
    char room[NL_ROOM];
    struct nlmsghdr *msg =
        netlink_begin(room, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &body, sizeof(body));

    netlink_put_address(msg, IFA_LOCAL, a);
    netlink_put_address(msg, IFA_ADDRESS, a);
    return netlink_do(nl, msg);
}

int route_add(struct netlink *nl, int family, unsigned table, const struct net_address *to,
              const struct net_address *gateway, const struct net_address *prefer, int index)
{
    const struct rtmsg body = {.rtm_family = (uint8_t)family,
                               .rtm_dst_len = (uint8_t)(to ? net_address_bits(to) : 0),
                               .rtm_table = (uint8_t)table,
                               .rtm_protocol = RTPROT_STATIC,
                               .rtm_scope = gateway || family == AF_INET6 ? RT_SCOPE_UNIVERSE
                                                                          : RT_SCOPE_LINK,
                               .rtm_type = RTN_UNICAST,
                               .rtm_flags = gateway ? RTNH_F_ONLINK : 0};
    char room[NL_ROOM];
    struct nlmsghdr *msg =
        netlink_begin(room, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &body, sizeof(body));

    if (to)
        netlink_put_address(msg, RTA_DST, to);
    if (gateway)
        netlink_put_address(msg, RTA_GATEWAY, gateway);
    if (prefer)
        netlink_put_address(msg, RTA_PREFSRC, prefer);
    mnl_attr_put_u32(msg, RTA_OIF, (uint32_t)index);
    return netlink_do(nl, msg);
}

int neighbour_add(struct netlink *nl, int index, const struct net_address *a,
                  const unsigned char mac[6])
{
    const struct ndmsg body = {
        .ndm_family = (uint8_t)a->family, .ndm_ifindex = index, .ndm_state = NUD_PERMANENT};
    char room[NL_ROOM];
    struct nlmsghdr *msg =
        netlink_begin(room, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &body, sizeof(body));

    netlink_put_address(msg, NDA_DST, a);
    mnl_attr_put(msg, NDA_LLADDR, 6, mac);
    return netlink_do(nl, msg);
}
