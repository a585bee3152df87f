/* What others do to H and G: the kernel tells, and whatever of ours is missing is made again. Until
 * then nothing passes that a policy does not allow: without rules nothing is routed. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/netconf.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "gateway/warden.h"

#define GROUP(n) (1u << ((n)-1))
#define ROUTE_EVENTS                                                                               \
    (GROUP(RTNLGRP_LINK) | GROUP(RTNLGRP_IPV4_IFADDR) | GROUP(RTNLGRP_IPV6_IFADDR) |               \
     GROUP(RTNLGRP_IPV4_NETCONF) | GROUP(RTNLGRP_IPV6_NETCONF))
#define QUEUE_BYTES (1 << 20)

/* ---- mending ---- */

static int repair_crossroads(struct warden *w, struct err *err)
{
    if (in_namespace(w->cross_ns, err) < 0)
        return -1;
    (void)sysctl_set("ipv4/ip_forward", "1");
    if (w->ipv6)
        (void)sysctl_set("ipv6/conf/all/forwarding", "1");
    if (in_namespace(w->host_ns, err) < 0)
        return -1;
    return crossroads_assert(w, err) < 0 ? -1 : rules_assert(w, err);
}

void repair(struct warden *w)
{
    struct err err = {0};

    if (w->repair_cross) {
        w->repair_cross = repair_crossroads(w, &err) < 0;
        w->refusal = err;
        control_log(w, "the rules of the crossroads were %s%s",
                    w->repair_cross ? "taken away and cannot be set: " : "set again", err.text);
    }
    if (w->repair_host) {
        w->repair_host = uplink_assert(w, &err) < 0;
        control_log(w, "the way out was %s%s",
                    w->repair_host ? "taken away and cannot be made: " : "made again", err.text);
    }
    if (w->repair_host || w->repair_cross)
        tasks_soon(w);
}

int rules_commit(struct warden *w, struct elements *e, struct err *err)
{
    if (elements_commit(e) < 0)
        w->repair_cross = true;
    if (w->repair_cross)
        repair(w);
    if (!w->repair_cross)
        return 0;
    return err_code(err, ERR_UNAVAILABLE, "gateway_failed", "the kernel refuses rules: %s",
                    w->refusal.text);
}

/* ---- rules ---- */

/* Is this about a table of that name, and something that went? */
static bool is_loss(const struct nlmsghdr *msg, const char *table)
{
    struct nlattr *a;

    if (msg->nlmsg_type >> 8 != NFNL_SUBSYS_NFTABLES)
        return false;
    switch (msg->nlmsg_type & 0xff) {
    case NFT_MSG_DELTABLE:
    case NFT_MSG_DELCHAIN:
    case NFT_MSG_DELRULE:
    case NFT_MSG_DELSET:
    case NFT_MSG_DELSETELEM:
        break;
    default:
        return false;
    }
    /* The first attribute of all of these is the table's name. */
    mnl_attr_for_each(
        a, msg, sizeof(struct nfgenmsg)) if (mnl_attr_get_type(a) == NFTA_TABLE_NAME &&
                                             mnl_attr_get_payload_len(a) >
                                                 0) return strncmp(mnl_attr_get_str(a), table,
                                                                   mnl_attr_get_payload_len(a)) ==
        0;
    return false;
}

static bool is_ours(const struct warden *w, uint32_t portid)
{
    return portid == 0 || portid == w->cross_nf.portid || portid == w->cross_nft_portid ||
           portid == w->host_nft_portid;
}

/* Reads all that is there. True when something of the table went that we did not take away. */
static bool lost_rules(struct warden *w, int fd, const char *table)
{
    static char room[65536];
    bool lost = false;

    for (;;) {
        ssize_t n = recv(fd, room, sizeof(room), MSG_DONTWAIT);
        int left = (int)n;

        if (n < 0 && errno == ENOBUFS) {
            lost = true; /* more was told than there was room for */
            continue;
        }
        if (n <= 0)
            return lost;
        for (const struct nlmsghdr *msg = (void *)room; mnl_nlmsg_ok(msg, left);
             msg = mnl_nlmsg_next(msg, &left))
            if (!is_ours(w, msg->nlmsg_pid) && is_loss(msg, table))
                lost = true;
    }
}

static void cross_rules(struct warden *w, struct source *s)
{
    if (!lost_rules(w, s->fd, "cay"))
        return;
    w->repair_cross = true;
    repair(w);
}

static void host_rules(struct warden *w, struct source *s)
{
    if (!lost_rules(w, s->fd, w->table))
        return;
    w->repair_host = true;
    repair(w);
}

/* ---- links, addresses, forwarding ---- */

static void drain(int fd, bool *ret_addresses)
{
    static char room[65536];

    for (;;) {
        ssize_t n = recv(fd, room, sizeof(room), MSG_DONTWAIT);
        int left = (int)n;

        if (n < 0 && errno == ENOBUFS) {
            *ret_addresses = true;
            continue;
        }
        if (n <= 0)
            return;
        for (const struct nlmsghdr *msg = (void *)room; mnl_nlmsg_ok(msg, left);
             msg = mnl_nlmsg_next(msg, &left))
            if (msg->nlmsg_type == RTM_NEWADDR || msg->nlmsg_type == RTM_DELADDR)
                *ret_addresses = true;
    }
}

static void host_links(struct warden *w, struct source *s)
{
    bool addresses = false;

    drain(s->fd, &addresses);
    if (addresses)
        uplink_host_addresses(w);
    if (link_index(&w->host_rt, w->uplink) != w->uplink_index ||
        sysctl_get("ipv4/ip_forward") != 1 ||
        (w->ipv6 && sysctl_get("ipv6/conf/all/forwarding") != 1)) {
        w->repair_host = true;
        repair(w);
    }
}

/* Forwarding of all links was switched off. The message says so; to look at /proc for every link
 * that comes would take longer the more there are. */
static bool is_switched_off(const struct nlmsghdr *msg)
{
    int32_t index = 0, forwarding = 1;
    struct nlattr *a;

    if (msg->nlmsg_type != RTM_NEWNETCONF)
        return false;
    mnl_attr_for_each(a, msg, sizeof(struct netconfmsg))
    {
        if (mnl_attr_get_type(a) == NETCONFA_IFINDEX)
            index = (int32_t)mnl_attr_get_u32(a);
        else if (mnl_attr_get_type(a) == NETCONFA_FORWARDING)
            forwarding = (int32_t)mnl_attr_get_u32(a);
    }
    return index == NETCONFA_IFINDEX_ALL && forwarding == 0;
}

/* A link that went, of whatever end: the index, or 0. */
static int gone_link(const struct nlmsghdr *msg)
{
    struct nlattr *a;

    if (msg->nlmsg_type != RTM_DELNETCONF)
        return 0;
    mnl_attr_for_each(
        a, msg, sizeof(struct netconfmsg)) if (mnl_attr_get_type(a) ==
                                               NETCONFA_IFINDEX) return (int)mnl_attr_get_u32(a);
    return 0;
}

static void cross_links(struct warden *w, struct source *s)
{
    static char room[65536];
    bool off = false, missed = false;

    for (;;) {
        ssize_t n = recv(s->fd, room, sizeof(room), MSG_DONTWAIT);
        int left = (int)n;

        missed = missed || (n < 0 && errno == ENOBUFS);
        if (n <= 0)
            break;
        for (const struct nlmsghdr *msg = (void *)room; mnl_nlmsg_ok(msg, left);
             msg = mnl_nlmsg_next(msg, &left)) {
            off = off || is_switched_off(msg);
            if (gone_link(msg) > 0)
                box_link_gone(w, gone_link(msg));
        }
    }
    if (missed)
        boxes_look(w);
    if (!off && !missed)
        return;
    w->repair_cross = true;
    repair(w);
}

/* ---- opening ---- */

/* What we do ourselves is not told: much of it at once would be more than there is room for, and
 * who has missed something must take it for a loss. A transaction's messages have datagrams of
 * their own, so the first of one says whose all are. */
static void ignore_own(const struct warden *w, int fd)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct nlmsghdr, nlmsg_pid)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(w->cross_nf.portid), 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(w->cross_nft_portid), 1, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = {.len = ARRAY_LEN(code), .filter = code};

    (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

static int open_one(struct warden *w, struct source *s, int bus, unsigned groups,
                    void (*ready)(struct warden *, struct source *), struct err *err)
{
    int size = QUEUE_BYTES, fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, bus);
    struct sockaddr_nl sa = {.nl_family = AF_NETLINK, .nl_groups = groups};

    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
        (void)err_sys(err, errno, "watch the kernel's networks");
        close_fd(&fd);
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
    source_add(w, s, fd, ready);
    return 0;
}

int watch_open_host(struct warden *w, struct err *err)
{
    if (open_one(w, &w->watch_host_nf, NETLINK_NETFILTER, GROUP(NFNLGRP_NFTABLES), host_rules,
                 err) < 0)
        return -1;
    return open_one(w, &w->watch_host_rt, NETLINK_ROUTE, ROUTE_EVENTS, host_links, err);
}

int watch_open_cross(struct warden *w, struct err *err)
{
    if (open_one(w, &w->watch_cross_nf, NETLINK_NETFILTER, GROUP(NFNLGRP_NFTABLES), cross_rules,
                 err) < 0)
        return -1;
    ignore_own(w, w->watch_cross_nf.fd);
    return open_one(w, &w->watch_cross_rt, NETLINK_ROUTE, GROUP(RTNLGRP_IPV4_NETCONF), cross_links,
                    err);
}
