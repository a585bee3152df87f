/* G: a network namespace that a bind mount holds, so that it is there whoever ends. Its main table
 * has no way out and no way to a box; both are in tables of their own that only marked packets are
 * routed by, and only our rules mark. Whoever takes the rules away stops everything. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/regular.h"
#include "base/str.h"
#include "gateway/warden.h"

/* ---- small things ---- */

int in_namespace(int ns, struct err *err)
{
    return setns(ns, CLONE_NEWNET) < 0 ? err_sys(err, errno, "enter a network namespace") : 0;
}

int sysctl_set(const char *name, const char *value)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "/proc/sys/net/%s", name);
    return write_file_at(AT_FDCWD, path, value);
}

int sysctl_get(const char *name)
{
    char path[160], text[32];
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/sys/net/%s", name);
    n = read_file_at(AT_FDCWD, path, text, sizeof(text));
    return n < 0 ? (int)n : (int)strtol(text, NULL, 10);
}

/* Else addresses that follow it would leave the range. */
static bool is_first_of(const struct net_address *a, unsigned bits)
{
    for (unsigned i = bits; i < net_address_bits(a); i++)
        if (a->bytes[i / 8] & 0x80u >> i % 8)
            return false;
    return true;
}

int pool_parse(const char *text, int family, struct pool *ret)
{
    auto_free char *copy = xstrdup(text);
    char *slash = strchr(copy, '/');
    uint64_t bits;

    if (!slash)
        return -EINVAL;
    *slash = '\0';
    if (str_u64(slash + 1, &bits) < 0 || net_address_parse(copy, &ret->base) < 0 ||
        ret->base.family != family || bits < 8 || bits > net_address_bits(&ret->base) - 2 ||
        !is_first_of(&ret->base, (unsigned)bits))
        return -EINVAL;
    ret->bits = (unsigned)bits;
    bits = net_address_bits(&ret->base) - bits;
    ret->size = bits > 16 ? 65533 : (1u << bits) - 3;
    return 0;
}

/* The host part is far shorter than 32 bits. */
struct net_address pool_address(const struct pool *p, uint32_t offset)
{
    struct net_address a = p->base;
    unsigned last = net_address_bits(&a) / 8 - 1;
    uint32_t n;

    memcpy(&n, a.bytes + last - 3, 4);
    n = htonl(ntohl(n) + offset);
    memcpy(a.bytes + last - 3, &n, 4);
    return a;
}

uint32_t pool_offset(const struct pool *p, const struct net_address *a)
{
    unsigned last = net_address_bits(a) / 8 - 1;
    uint32_t n, base;

    if (!net_address_in(a, &p->base, p->bits))
        return 0;
    memcpy(&n, a->bytes + last - 3, 4);
    memcpy(&base, p->base.bytes + last - 3, 4);
    n = ntohl(n) - ntohl(base);
    return n >= 2 && n < 2 + p->size ? n : 0;
}

bool pools_have(const struct warden *w, const struct net_address *a)
{
    const struct pool *p = a->family == AF_INET ? &w->pool : &w->pool6;

    return net_address_in(a, &p->base, p->bits);
}

/* ---- making it, or finding it ---- */

static int read_pools(struct warden *w, struct err *err)
{
    if (pool_parse(w->setup.pool, AF_INET, &w->pool) < 0)
        return err_code(err, ERR_INVALID, "network_unsupported",
                        "CAY_NET_POOL must be a range as 10.241.0.0/16, not %s", w->setup.pool);
    if (pool_parse(w->setup.pool6, AF_INET6, &w->pool6) < 0)
        return err_code(err, ERR_INVALID, "network_unsupported",
                        "CAY_NET_POOL6 must be a range as fd63:6179::/64, not %s", w->setup.pool6);
    if (w->pool6.size < w->pool.size)
        w->pool.size = w->pool6.size;
    w->gateway = pool_address(&w->pool, 1);
    w->gateway6 = pool_address(&w->pool6, 1);
    return 0;
}

/* Returns with the process in G. */
static int enter(struct warden *w, struct err *err)
{
    auto_close int file = -1;

    w->cross_ns = regular_open(AT_FDCWD, w->pin, O_RDONLY, 0, NULL);
    if (w->cross_ns >= 0 && setns(w->cross_ns, CLONE_NEWNET) == 0) {
        w->inherited = true;
        return 0;
    }
    close_fd(&w->cross_ns);
    (void)umount2(w->pin, MNT_DETACH);
    file = regular_open(AT_FDCWD, w->pin, O_RDONLY | O_CREAT, 0444, err);
    if (file < 0)
        return -1;
    if (unshare(CLONE_NEWNET) < 0)
        return err_code(err, ERR_UNSUPPORTED, "network_unsupported",
                        "cannot make a network namespace: %s", strerror(errno));
    if (mount("/proc/self/ns/net", w->pin, NULL, MS_BIND, NULL) < 0)
        return err_sys(err, errno, "mount %s", w->pin);
    w->cross_ns = open(w->pin, O_RDONLY | O_CLOEXEC);
    return w->cross_ns < 0 ? err_sys(err, errno, "open %s", w->pin) : 0;
}

static int set_kernel(const struct warden *w, struct err *err)
{
    static const struct {
        const char *name, *value;
        bool must, ipv6;
    } settings[] = {
        {"ipv4/ip_forward", "1", true, false},
        {"ipv4/conf/all/rp_filter", "0", true, false},
        {"ipv4/conf/default/rp_filter", "0", true, false},
        {"ipv4/conf/all/accept_source_route", "0", true, false},
        {"ipv4/conf/all/accept_redirects", "0", false, false},
        {"ipv4/conf/all/send_redirects", "0", false, false},
        {"ipv4/conf/default/send_redirects", "0", false, false},
        {"ipv4/conf/default/arp_ignore", "8", false, false},   /* neighbours are entered by us */
        {"ipv4/icmp_ratelimit", "0", false, false},            /* a refusal is told every time */
        {"ipv4/tcp_rmem", "4096 131072 524288", false, false}, /* a box is near: more is waste */
        {"ipv4/tcp_wmem", "4096 16384 524288", false, false},
        {"ipv6/conf/all/forwarding", "1", true, true},
        {"ipv6/conf/all/accept_ra", "0", false, true},
        {"ipv6/conf/default/accept_ra", "0", false, true},
        {"ipv6/conf/default/accept_dad", "0", false, true},
        {"ipv6/icmp/ratelimit", "0", false, true},
    };

    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        int r;

        if (settings[i].ipv6 && !w->ipv6)
            continue;
        r = sysctl_set(settings[i].name, settings[i].value);
        if (r < 0 && settings[i].must)
            return err_sys(err, -r, "set net/%s of the crossroads", settings[i].name);
    }
    if (!w->ipv6)
        (void)sysctl_set("ipv6/conf/default/disable_ipv6", "1");
    return 0;
}

/* ---- what must be in it ---- */

static int rule_add(struct netlink *nl, int family, unsigned priority, unsigned mark,
                    unsigned table)
{
    const struct fib_rule_hdr body = {
        .family = (uint8_t)family, .table = (uint8_t)table, .action = FR_ACT_TO_TBL};
    char room[NL_ROOM];
    struct nlmsghdr *msg =
        netlink_begin(room, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &body, sizeof(body));
    int r;

    mnl_attr_put_u32(msg, FRA_PRIORITY, priority);
    if (mark > 0)
        mnl_attr_put_u32(msg, FRA_FWMARK, mark);
    else
        mnl_attr_put_strz(msg, FRA_IIFNAME, "lo"); /* what G itself sends */
    r = netlink_do(nl, msg);
    return r == -EEXIST ? 0 : r;
}

static int add_rules(struct warden *w, int family)
{
    int r = rule_add(&w->cross_rt, family, 100, MARK_OUT, TABLE_OUT);

    if (r == 0)
        r = rule_add(&w->cross_rt, family, 101, MARK_BOX, TABLE_BOX);
    if (r == 0)
        r = rule_add(&w->cross_rt, family, 102, 0, TABLE_BOX);
    return r;
}

int crossroads_assert(struct warden *w, struct err *err)
{
    int lo = link_index(&w->cross_rt, "lo");
    int r = lo < 0 ? lo : link_up(&w->cross_rt, lo, NULL);

    if (r == 0)
        r = address_add(&w->cross_rt, lo, &w->gateway, 32);
    if (r == 0)
        r = add_rules(w, AF_INET);
    if (r == 0 && w->ipv6)
        r = address_add(&w->cross_rt, lo, &w->gateway6, 128);
    if (r == 0 && w->ipv6)
        r = add_rules(w, AF_INET6);
    return r < 0 ? err_sys(err, -r, "set up the crossroads") : 0;
}

/* ---- both namespaces ---- */

static int see_default(const struct nlmsghdr *msg, void *arg)
{
    const struct rtmsg *route = mnl_nlmsg_get_payload(msg);
    bool *found = arg;

    if (route->rtm_dst_len == 0 && route->rtm_type == RTN_UNICAST &&
        route->rtm_table == RT_TABLE_MAIN && route->rtm_protocol != RTPROT_RA &&
        route->rtm_protocol != RTPROT_KERNEL)
        *found = true;
    return MNL_CB_OK;
}

/* auto: the host has a way out by IPv6. To switch forwarding on makes a host deaf to routers that
 * announce themselves, so where it lives by them and does not forward yet, that must be asked for.
 */
static bool wants_ipv6(struct warden *w)
{
    const struct rtmsg body = {.rtm_family = AF_INET6};
    bool found = false;
    char room[NL_ROOM];

    if (strcmp(w->setup.ipv6, "on") == 0)
        return true;
    if (strcmp(w->setup.ipv6, "auto") != 0)
        return false;
    if (sysctl_get("ipv6/conf/all/forwarding") == 1)
        return true;
    (void)netlink_dump(&w->host_rt,
                       netlink_begin(room, RTM_GETROUTE, NLM_F_DUMP, &body, sizeof(body)),
                       see_default, &found);
    return found;
}

static int open_host(struct warden *w, struct err *err)
{
    int r;

    w->host_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (w->host_ns < 0)
        return err_sys(err, errno, "open the host's network namespace");
    r = netlink_open(&w->host_rt, NETLINK_ROUTE, 0);
    if (r < 0)
        return err_sys(err, -r, "open rtnetlink");
    w->kernel_has_ipv6 = sysctl_get("ipv6/conf/all/forwarding") >= 0;
    w->ipv6 = w->kernel_has_ipv6 && wants_ipv6(w);
    return rules_open_host(w, err) < 0 ? -1 : watch_open_host(w, err);
}

static int open_cross(struct warden *w, struct err *err)
{
    int r = netlink_open(&w->cross_rt, NETLINK_ROUTE, 0);

    if (r == 0)
        r = netlink_open(&w->cross_nf, NETLINK_NETFILTER, 0);
    if (r < 0)
        return err_sys(err, -r, "open netlink");
    if (set_kernel(w, err) < 0 || rules_open_cross(w, err) < 0 || crossroads_assert(w, err) < 0 ||
        watch_open_cross(w, err) < 0 || nflog_open(w, err) < 0 || helper_listen(w, err) < 0)
        return -1;
    return 0;
}

int crossroads_open(struct warden *w, struct err *err)
{
    int r;

    w->pin = xasprintf("%s/netns", w->setup.run);
    if (read_pools(w, err) < 0 || open_host(w, err) < 0 || enter(w, err) < 0)
        return -1;
    r = open_cross(w, err);
    return in_namespace(w->host_ns, r < 0 ? NULL : err) < 0 ? -1 : r;
}

void crossroads_unpin(struct warden *w)
{
    (void)umount2(w->pin, MNT_DETACH);
    (void)unlink(w->pin);
}
