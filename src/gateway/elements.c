/* Elements of sets and maps in G's table, as one transaction of nfnetlink. libnftables can do the
 * same, but reads and writes a language for it, which a create would have to wait for. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/mem.h"
#include "gateway/warden.h"

#define BATCH_BYTES   (56u << 10)
#define ELEMENT_BYTES 512u /* more than one can have */
#define KEY_BYTES     64u
#define TRIES         20
#define AGAIN_NS      2000000

struct elements {
    struct warden *w;
    char *room;
    size_t used;
    unsigned n; /* in this transaction */
    int r;      /* the first failure */

    struct nlmsghdr *msg; /* of the one that is being made */
    char key[KEY_BYTES];
    size_t key_len;
    const char *chain;
    bool go;
    uint64_t timeout_ms;
};

static void put_edge(struct elements *e, uint16_t type)
{
    const struct nfgenmsg body = {
        .nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};
    struct nlmsghdr *msg = netlink_begin(e->room + e->used, type, 0, &body, sizeof(body));

    msg->nlmsg_seq = ++e->w->cross_nf.seq;
    e->used += msg->nlmsg_len;
}

struct elements *elements_new(struct warden *w)
{
    struct elements *e = xcalloc(1, sizeof(*e));

    e->w = w;
    e->room = xmalloc(BATCH_BYTES + 2 * ELEMENT_BYTES);
    return e;
}

/* The kernel has worked through all of it when send() returns; it answers failures only. */
static int deliver(struct elements *e)
{
    int fd = netlink_fd(&e->w->cross_nf), r = 0;
    char answer[4096];
    ssize_t n;

    if (mnl_socket_sendto(e->w->cross_nf.sock, e->room, e->used) < 0)
        return -errno;
    while ((n = recv(fd, answer, sizeof(answer), MSG_DONTWAIT)) > 0 ||
           (n < 0 && errno == ENOBUFS)) {
        int left = (int)n;

        if (n < 0 && r == 0)
            r = -ENOBUFS; /* more failures than there was room for */
        for (const struct nlmsghdr *msg = (void *)answer; mnl_nlmsg_ok(msg, left);
             msg = mnl_nlmsg_next(msg, &left)) {
            const struct nlmsgerr *failure = mnl_nlmsg_get_payload(msg);

            if (msg->nlmsg_type == NLMSG_ERROR && failure->error != 0 && r == 0)
                r = failure->error;
        }
    }
    return r;
}

/* A set that has to grow at this moment takes nothing in; all of the transaction is undone then. */
static int deliver_soon(struct elements *e)
{
    const struct timespec wait = {.tv_nsec = AGAIN_NS};
    int r = -EBUSY;

    put_edge(e, NFNL_MSG_BATCH_END);
    for (int i = 0; i < TRIES && r == -EBUSY; i++) {
        if (i > 0)
            (void)nanosleep(&wait, NULL);
        r = deliver(e);
    }
    return r;
}

static void flush(struct elements *e)
{
    int r = e->n == 0 ? 0 : deliver_soon(e);

    if (r < 0 && e->r == 0)
        e->r = r;
    e->used = e->n = 0;
}

void element_begin(struct elements *e, bool add, const char *set)
{
    const struct nfgenmsg body = {.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0};
    uint16_t type =
        (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | (add ? NFT_MSG_NEWSETELEM : NFT_MSG_DELSETELEM));

    if (e->used > BATCH_BYTES)
        flush(e);
    if (e->n == 0)
        put_edge(e, NFNL_MSG_BATCH_BEGIN);
    e->msg = netlink_begin(e->room + e->used, type, add ? NLM_F_CREATE : 0, &body, sizeof(body));
    e->msg->nlmsg_seq = ++e->w->cross_nf.seq;
    mnl_attr_put_strz(e->msg, NFTA_SET_ELEM_LIST_TABLE, "cay");
    mnl_attr_put_strz(e->msg, NFTA_SET_ELEM_LIST_SET, set);
    e->key_len = 0;
    e->chain = NULL;
    e->timeout_ms = 0;
}

void element_key(struct elements *e, const void *data, size_t len)
{
    size_t padded = (len + 3) & ~(size_t)3;

    if (e->key_len + padded > sizeof(e->key))
        return;
    memset(e->key + e->key_len, 0, padded);
    memcpy(e->key + e->key_len, data, len);
    e->key_len += padded;
}

void element_key_link(struct elements *e, const char *link)
{
    char name[IFNAME] = {0};

    memcpy(name, link, strnlen(link, IFNAME - 1));
    element_key(e, name, sizeof(name));
}

void element_key_address(struct elements *e, const struct net_address *a)
{
    element_key(e, a->bytes, netlink_address_len(a));
}

void element_key_u32(struct elements *e, uint32_t n)
{
    element_key(e, &n, sizeof(n));
}

void element_timeout(struct elements *e, uint64_t ms)
{
    e->timeout_ms = ms;
}

void element_jump(struct elements *e, bool go, const char *chain)
{
    e->go = go;
    e->chain = chain;
}

static void put_verdict(struct elements *e)
{
    struct nlattr *data = mnl_attr_nest_start(e->msg, NFTA_SET_ELEM_DATA);
    struct nlattr *verdict = mnl_attr_nest_start(e->msg, NFTA_DATA_VERDICT);

    mnl_attr_put_u32(e->msg, NFTA_VERDICT_CODE, htonl((uint32_t)(e->go ? NFT_GOTO : NFT_JUMP)));
    mnl_attr_put_strz(e->msg, NFTA_VERDICT_CHAIN, e->chain);
    mnl_attr_nest_end(e->msg, verdict);
    mnl_attr_nest_end(e->msg, data);
}

void element_end(struct elements *e)
{
    struct nlattr *list = mnl_attr_nest_start(e->msg, NFTA_SET_ELEM_LIST_ELEMENTS);
    struct nlattr *element = mnl_attr_nest_start(e->msg, NFTA_LIST_ELEM);
    struct nlattr *key = mnl_attr_nest_start(e->msg, NFTA_SET_ELEM_KEY);

    mnl_attr_put(e->msg, NFTA_DATA_VALUE, e->key_len, e->key);
    mnl_attr_nest_end(e->msg, key);
    if (e->chain)
        put_verdict(e);
    if (e->timeout_ms > 0)
        mnl_attr_put_u64(e->msg, NFTA_SET_ELEM_TIMEOUT, htobe64(e->timeout_ms));
    mnl_attr_nest_end(e->msg, element);
    mnl_attr_nest_end(e->msg, list);
    e->used += e->msg->nlmsg_len;
    e->n++;
}

int elements_commit(struct elements *e)
{
    int r;

    flush(e);
    r = e->r;
    free(e->room);
    free(e);
    return r;
}
