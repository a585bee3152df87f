/* Packets that were refused: the kernel sends the first bytes of each, at most 20 a second and box,
 * with the policy's chain and the rule in front. What repeats is told once with a count. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "gateway/warden.h"

#define COPY_BYTES  96
#define QUEUE_BYTES (1 << 20)
#define SAME_NS     1000000000ll /* so long the same refusal is counted and not told */
#define SEEN        256

/* The last of those that were told, by a hash of what they say. */
static struct seen {
    char id[ID_BYTES_MAX + 1];
    struct net_address to;
    uint16_t port;
    int rule;
    int64_t told_ns;
    unsigned count; /* since */
} seen[SEEN];

/* ---- telling ---- */

void denied_tell(struct warden *w, const struct box *b, const char *protocol,
                 const struct net_address *to, uint16_t port, const char *name, int rule,
                 const char *why, unsigned count)
{
    char address[NET_ADDRESS_TEXT] = "";
    json_t *event;

    if (to && to->family)
        net_address_text(to, address);
    event =
        json_pack("{s:s, s:s, s:I, s:s, s:s, s:s*, s:i, s:s*, s:i, s:s, s:i}", "event", "denied",
                  "id", b->id, "time", (json_int_t)now_ms(), "direction", "egress", "protocol",
                  protocol, "address", address[0] ? address : NULL, "port", (int)port, "name",
                  name && name[0] ? name : NULL, "rule", rule, "why", why, "count", (int)count);
    if (event)
        control_tell(w, event);
}

/* True when it is to be told now, for *ret_count of them. */
static bool is_news(const struct box *b, const struct net_address *to, uint16_t port, int rule,
                    unsigned *ret_count)
{
    uint32_t at = (uint32_t)b->offset * 31 + to->bytes[3] * 7 + to->bytes[2] + to->bytes[15] + port;
    struct seen *s = &seen[at % SEEN];
    int64_t now = mono_ns();

    if (s->told_ns + SAME_NS > now && strcmp(s->id, b->id) == 0 && s->port == port &&
        s->rule == rule && net_address_equal(&s->to, to)) {
        s->count++;
        return false;
    }
    *ret_count = 1;
    if (strcmp(s->id, b->id) == 0 && s->port == port && net_address_equal(&s->to, to))
        *ret_count += s->count;
    *s = (struct seen){.to = *to, .port = port, .rule = rule, .told_ns = now};
    memcpy(s->id, b->id, sizeof(s->id));
    return true;
}

/* ---- packets: of a box, so nothing in them is believed but their form ---- */

static bool read_packet(const unsigned char *p, size_t len, struct policy_flow *ret)
{
    size_t head;

    *ret = (struct policy_flow){.direction = POLICY_EGRESS};
    if (len >= 20 && p[0] >> 4 == 4) {
        head = (p[0] & 15u) * 4;
        ret->to.family = AF_INET;
        memcpy(ret->to.bytes, p + 16, 4);
        ret->protocol = p[9];
    } else if (len >= 40 && p[0] >> 4 == 6) {
        head = 40;
        ret->to.family = AF_INET6;
        memcpy(ret->to.bytes, p + 24, 16);
        ret->protocol = p[6];
    } else {
        return false;
    }
    if ((ret->protocol == IPPROTO_TCP || ret->protocol == IPPROTO_UDP) && len >= head + 4)
        ret->port = (uint16_t)(p[head + 2] << 8 | p[head + 3]);
    return true;
}

static const char *protocol_name(uint8_t protocol, char room[12])
{
    switch (protocol) {
    case IPPROTO_TCP:
        return "tcp";
    case IPPROTO_UDP:
        return "udp";
    case IPPROTO_ICMP:
    case IPPROTO_ICMPV6:
        return "icmp";
    default:
        (void)snprintf(room, 12, "%u", protocol);
        return room;
    }
}

static void tell(struct warden *w, const struct box *b, int rule, const struct policy_flow *flow)
{
    struct policy_verdict verdict = {.rule = rule};
    unsigned count = 1;
    char room[12];

    if (!is_news(b, &flow->to, flow->port, rule, &count))
        return;
    box_judge(w, b, flow, &verdict);
    if (verdict.allowed || verdict.rule != rule) /* too many, or too odd */
        (void)snprintf(verdict.why, sizeof(verdict.why), "%s",
                       rule == POLICY_BUILT_IN ? "built in: too many connections, a fragment or "
                                                 "another way to ask for names"
                                               : "the policy of that moment");
    denied_tell(w, b, protocol_name(flow->protocol, room), &flow->to, flow->port, NULL, rule,
                verdict.why, count);
}

static int take_packet(const struct nlmsghdr *msg, void *arg)
{
    struct warden *w = arg;
    const char *prefix = NULL;
    const unsigned char *packet = NULL;
    struct policy_flow flow;
    size_t len = 0;
    uint32_t index = 0;
    struct nlattr *a;
    int rule;

    mnl_attr_for_each(a, msg, sizeof(struct nfgenmsg))
    {
        switch (mnl_attr_get_type(a)) {
        case NFULA_PREFIX:
            prefix = mnl_attr_get_str(a);
            break;
        case NFULA_PAYLOAD:
            packet = mnl_attr_get_payload(a);
            len = mnl_attr_get_payload_len(a);
            break;
        case NFULA_IFINDEX_INDEV:
            index = ntohl(mnl_attr_get_u32(a));
            break;
        default:
            break;
        }
    }
    if (!prefix || !packet || sscanf(prefix, "%*s %d", &rule) != 1 ||
        !read_packet(packet, len, &flow))
        return MNL_CB_OK;
    for (const struct box *b = w->boxes; b; b = b->next)
        if (b->index == (int)index) {
            tell(w, b, rule, &flow);
            break;
        }
    return MNL_CB_OK;
}

static void ready(struct warden *w, struct source *s)
{
    static char room[65536];
    ssize_t n = recv(s->fd, room, sizeof(room), MSG_DONTWAIT);

    if (n > 0)
        (void)mnl_cb_run(room, (size_t)n, 0, 0, take_packet, w);
}

/* ---- opening ---- */

/* mode NULL: binds to the group. Else how much of a packet is told, and that each is told at once.
 */
static int configure(struct netlink *nl, const struct nfulnl_msg_config_mode *mode)
{
    const struct nfgenmsg body = {
        .nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(POLICY_LOG_GROUP)};
    const struct nfulnl_msg_config_cmd cmd = {.command = NFULNL_CFG_CMD_BIND};
    char room[NL_ROOM];
    struct nlmsghdr *msg =
        netlink_begin(room, NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG, 0, &body, sizeof(body));

    if (mode) {
        mnl_attr_put(msg, NFULA_CFG_MODE, sizeof(*mode), mode);
        mnl_attr_put_u32(msg, NFULA_CFG_QTHRESH, htonl(1));
    } else {
        mnl_attr_put(msg, NFULA_CFG_CMD, sizeof(cmd), &cmd);
    }
    return netlink_do(nl, msg);
}

int nflog_open(struct warden *w, struct err *err)
{
    const struct nfulnl_msg_config_mode mode = {.copy_range = htonl(COPY_BYTES),
                                                .copy_mode = NFULNL_COPY_PACKET};
    struct netlink nl = {0};
    int size = QUEUE_BYTES, r = netlink_open(&nl, NETLINK_NETFILTER, 0), fd;

    if (r == 0)
        r = configure(&nl, NULL);
    if (r == 0)
        r = configure(&nl, &mode);
    if (r < 0) {
        netlink_close(&nl);
        return err_sys(err, -r, "hear of refused packets (nfnetlink_log)");
    }
    fd = netlink_fd(&nl);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
    source_add(w, &w->nflog, fd, ready); /* the handle stays as long as we do */
    return 0;
}
