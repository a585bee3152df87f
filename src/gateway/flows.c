/* Flows that conntrack knows of, in G. A flow that is taken out of it is judged anew with its next
 * packet, and refused if its policy does not allow it. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <netinet/in.h>
#include <string.h>

#include "base/mem.h"
#include "gateway/warden.h"

#define CUT_MAX    65536 /* at once */
#define ROUNDS_MAX 16

/* One, from its original direction; attr: as the kernel wants it back. */
struct flow {
    struct net_address from, to;
    uint8_t protocol;
    uint16_t port;
    bool worker; /* was brought to it: nothing else has another destination than it asked for */
    char tuple[128];
    size_t tuple_len;
    int family;
};

/* What is looked for, and what was found. */
struct cut {
    struct warden *w;
    bool (*wanted)(struct warden *w, const struct flow *f, void *arg);
    void *arg;
    struct flow *list;
    unsigned n, room;
};

static void read_addresses(const struct nlattr *nest, struct flow *f)
{
    struct nlattr *a;

    mnl_attr_for_each_nested(a, nest)
    {
        unsigned type = mnl_attr_get_type(a);
        bool v6 = type == CTA_IP_V6_SRC || type == CTA_IP_V6_DST;
        struct net_address *to = type == CTA_IP_V4_SRC || type == CTA_IP_V6_SRC ? &f->from : &f->to;

        if (type > CTA_IP_V6_DST || mnl_attr_get_payload_len(a) != (v6 ? 16 : 4))
            continue;
        to->family = v6 ? AF_INET6 : AF_INET;
        memcpy(to->bytes, mnl_attr_get_payload(a), v6 ? 16 : 4);
    }
}

static void read_protocol(const struct nlattr *nest, struct flow *f)
{
    struct nlattr *a;

    mnl_attr_for_each_nested(a, nest)
    {
        if (mnl_attr_get_type(a) == CTA_PROTO_NUM)
            f->protocol = mnl_attr_get_u8(a);
        else if (mnl_attr_get_type(a) == CTA_PROTO_DST_PORT)
            f->port = ntohs(mnl_attr_get_u16(a));
    }
}

static int see_flow(const struct nlmsghdr *msg, void *arg)
{
    const struct nfgenmsg *body = mnl_nlmsg_get_payload(msg);
    struct cut *cut = arg;
    struct flow f = {.family = body->nfgen_family};
    struct nlattr *a, *part;

    mnl_attr_for_each(a, msg, sizeof(*body))
    {
        if (mnl_attr_get_type(a) == CTA_STATUS)
            f.worker = ntohl(mnl_attr_get_u32(a)) & IPS_DST_NAT;
        if (mnl_attr_get_type(a) != CTA_TUPLE_ORIG || mnl_attr_get_len(a) > sizeof(f.tuple))
            continue;
        f.tuple_len = mnl_attr_get_payload_len(a);
        memcpy(f.tuple, mnl_attr_get_payload(a), f.tuple_len);
        mnl_attr_for_each_nested(part, a)
        {
            if (mnl_attr_get_type(part) == CTA_TUPLE_IP)
                read_addresses(part, &f);
            else if (mnl_attr_get_type(part) == CTA_TUPLE_PROTO)
                read_protocol(part, &f);
        }
    }
    if (f.tuple_len == 0 || cut->n >= CUT_MAX || !cut->wanted(cut->w, &f, cut->arg))
        return MNL_CB_OK;
    if (cut->n == cut->room) {
        cut->room = cut->room ? 2 * cut->room : 64;
        cut->list = xrealloc(cut->list, cut->room * sizeof(*cut->list));
    }
    cut->list[cut->n++] = f;
    return MNL_CB_OK;
}

static void forget(struct warden *w, const struct flow *f)
{
    const struct nfgenmsg body = {.nfgen_family = (uint8_t)f->family, .version = NFNETLINK_V0};
    char room[NL_ROOM];
    struct nlmsghdr *msg = netlink_begin(room, NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE, 0,
                                         &body, sizeof(body));

    mnl_attr_put(msg, CTA_TUPLE_ORIG | NLA_F_NESTED, f->tuple_len, f->tuple);
    (void)netlink_do(&w->cross_nf, msg);
}

static unsigned cut_some(struct warden *w,
                         bool (*wanted)(struct warden *w, const struct flow *f, void *arg),
                         void *arg)
{
    const struct nfgenmsg body = {.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0};
    struct cut cut = {.w = w, .wanted = wanted, .arg = arg};
    char room[NL_ROOM];

    (void)netlink_dump(&w->cross_nf,
                       netlink_begin(room, NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET,
                                     NLM_F_DUMP, &body, sizeof(body)),
                       see_flow, &cut);
    for (unsigned i = 0; i < cut.n; i++)
        forget(w, &cut.list[i]);
    free(cut.list);
    return cut.n;
}

/* A box that has more than one round takes is not spared the rest; it can make more meanwhile, so
 * that there is an end to it. */
static unsigned cut_all(struct warden *w,
                        bool (*wanted)(struct warden *w, const struct flow *f, void *arg),
                        void *arg)
{
    unsigned all = 0, n = CUT_MAX;

    for (int i = 0; i < ROUNDS_MAX && n == CUT_MAX; i++)
        all += n = cut_some(w, wanted, arg);
    return all;
}

/* ---- which ---- */

static bool is_of(const struct flow *f, const struct box *b)
{
    return net_address_equal(&f->from, &b->address) || net_address_equal(&f->from, &b->address6);
}

/* The same judge as for new ones. Inspected flows are the worker's to end, which knows the names
 * that let them in, also when those are pinned no more. One that went out unseen and would be
 * inspected now has said its name already. */
static bool not_allowed(struct warden *w, const struct flow *f, void *arg)
{
    const struct box *b = arg;
    struct policy_flow flow = {
        .direction = POLICY_EGRESS, .to = f->to, .protocol = f->protocol, .port = f->port};
    struct policy_verdict verdict;

    if (!is_of(f, b) || f->worker)
        return false;
    box_judge(w, b, &flow, &verdict);
    return !verdict.allowed || verdict.inspect;
}

unsigned flows_cut(struct warden *w, const struct box *b)
{
    return cut_all(w, not_allowed, (void *)b);
}

struct parted {
    const struct box *box;
    const struct network *network;
};

static bool is_parted(struct warden *w, const struct flow *f, void *arg)
{
    const struct parted *parted = arg;
    bool from = is_of(f, parted->box);
    const struct box *other;

    if (!from && !net_address_equal(&f->to, &parted->box->address) &&
        !net_address_equal(&f->to, &parted->box->address6))
        return false;
    other = box_by_address(w, from ? &f->to : &f->from);
    return other && network_has(parted->network, other) && !peers_share(w, parted->box, other);
}

unsigned flows_cut_parted(struct warden *w, const struct box *b, const struct network *n)
{
    struct parted parted = {b, n};

    return cut_all(w, is_parted, &parted);
}

static bool is_dead(struct warden *w, const struct flow *f, void *arg)
{
    const uint8_t *dead = arg;
    const struct net_address *ends[] = {&f->from, &f->to};

    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        uint32_t n = pool_offset(ends[i]->family == AF_INET ? &w->pool : &w->pool6, ends[i]);

        if (n > 0 && dead[n / 8] & 1u << n % 8)
            return true;
    }
    return false;
}

void flows_sweep(struct warden *w, const uint32_t *offsets, unsigned n)
{
    uint8_t dead[OFFSETS_MAX / 8] = {0};

    for (unsigned i = 0; i < n; i++)
        dead[offsets[i] / 8] |= (uint8_t)(1u << offsets[i] % 8);
    (void)cut_all(w, is_dead, dead);
}
