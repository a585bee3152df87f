#include "gateway/netlink.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"

#define ANSWER_ROOM 32768
#define HELD_MAX    8192 /* bytes of requests that are sent together */

int netlink_open(struct netlink *nl, int bus, unsigned groups)
{
    int one = 1;

    nl->sock = mnl_socket_open2(bus, SOCK_CLOEXEC);
    if (!nl->sock)
        return -errno;
    if (mnl_socket_bind(nl->sock, groups, MNL_SOCKET_AUTOPID) < 0) {
        int r = -errno;

        netlink_close(nl);
        return r;
    }
    /* The kernel says what was wrong without sending all of the request back. */
    (void)mnl_socket_setsockopt(nl->sock, NETLINK_CAP_ACK, &one, sizeof(one));
    nl->portid = mnl_socket_get_portid(nl->sock);
    return 0;
}

void netlink_close(struct netlink *nl)
{
    if (nl->sock)
        (void)mnl_socket_close(nl->sock);
    nl->sock = NULL;
}

int netlink_fd(const struct netlink *nl)
{
    return nl->sock ? mnl_socket_get_fd(nl->sock) : -1;
}

struct nlmsghdr *netlink_begin(char *room, uint16_t type, uint16_t flags, const void *body,
                               size_t body_len)
{
    struct nlmsghdr *msg = mnl_nlmsg_put_header(room);

    msg->nlmsg_type = type;
    msg->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
    memcpy(mnl_nlmsg_put_extra_header(msg, body_len), body, body_len);
    return msg;
}

static bool has_end(const char *answer, ssize_t n, uint32_t seq)
{
    int left = (int)n;

    for (const struct nlmsghdr *msg = (const void *)answer; mnl_nlmsg_ok(msg, left);
         msg = mnl_nlmsg_next(msg, &left))
        if (msg->nlmsg_seq == seq && msg->nlmsg_type == NLMSG_DONE)
            return true;
    return false;
}

int netlink_dump(struct netlink *nl, struct nlmsghdr *msg, mnl_cb_t each, void *arg)
{
    static char answer[ANSWER_ROOM];
    uint32_t seq = ++nl->seq;
    bool changed = false;
    int r = 1;

    msg->nlmsg_seq = seq;
    if (mnl_socket_sendto(nl->sock, msg, msg->nlmsg_len) < 0)
        return -errno;
    while (r > 0) {
        ssize_t n = mnl_socket_recvfrom(nl->sock, answer, sizeof(answer));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        r = mnl_cb_run(answer, (size_t)n, seq, nl->portid, each, arg);
        if (r < 0 && errno == EPROTO)
            r = 1;                     /* of a request that was given up */
        if (r < 0 && errno == EINTR) { /* the rest comes all the same, and is not the next one's */
            changed = true;
            r = has_end(answer, n, seq) ? 0 : 1;
        }
    }
    return r < 0 ? -errno : changed ? -EINTR : 0;
}

void netlink_hold(struct netlink *nl)
{
    nl->held = xmalloc(HELD_MAX);
    nl->held_len = nl->n_held = 0;
}

static int keep(struct netlink *nl, struct nlmsghdr *msg)
{
    if (nl->held_len + MNL_ALIGN(msg->nlmsg_len) > HELD_MAX)
        return -EMSGSIZE;
    msg->nlmsg_seq = ++nl->seq;
    memset(nl->held + nl->held_len, 0, MNL_ALIGN(msg->nlmsg_len));
    memcpy(nl->held + nl->held_len, msg, msg->nlmsg_len);
    nl->held_len += MNL_ALIGN(msg->nlmsg_len);
    nl->n_held++;
    return 0;
}

/* Each of them is answered, whether it failed or not. */
static int take_answers(struct netlink *nl, unsigned n)
{
    static char answer[ANSWER_ROOM];
    uint32_t last = nl->seq, first = last - n + 1;
    int r = 0;

    while (n > 0) {
        ssize_t len = mnl_socket_recvfrom(nl->sock, answer, sizeof(answer));
        int left = (int)len;

        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return -errno;
        for (const struct nlmsghdr *msg = (void *)answer; mnl_nlmsg_ok(msg, left);
             msg = mnl_nlmsg_next(msg, &left)) {
            const struct nlmsgerr *said = mnl_nlmsg_get_payload(msg);

            if (msg->nlmsg_type != NLMSG_ERROR || msg->nlmsg_seq < first || n == 0)
                continue;
            n--;
            if (r == 0)
                r = said->error;
        }
    }
    return r;
}

int netlink_release(struct netlink *nl)
{
    auto_free char *held = steal_ptr(nl->held);

    if (nl->n_held == 0)
        return 0;
    if (mnl_socket_sendto(nl->sock, held, nl->held_len) < 0)
        return -errno;
    return take_answers(nl, nl->n_held);
}

int netlink_do(struct netlink *nl, struct nlmsghdr *msg)
{
    msg->nlmsg_flags |= NLM_F_ACK;
    if (nl->held)
        return keep(nl, msg);
    return netlink_dump(nl, msg, NULL, NULL);
}

unsigned netlink_address_len(const struct net_address *a)
{
    return a->family == AF_INET ? 4 : 16;
}

void netlink_put_address(struct nlmsghdr *msg, uint16_t type, const struct net_address *a)
{
    mnl_attr_put(msg, type, netlink_address_len(a), a->bytes);
}
