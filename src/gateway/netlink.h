#pragma once

#include <libmnl/libmnl.h>
#include <stdint.h>

#include "policy/address.h"

/* Netlink as the warden uses it: one request, one answer, nobody waits for long because the kernel
 * answers before send() returns. All return 0 or -errno. */

#define NL_ROOM 8192 /* bytes of a request */

struct netlink {
    struct mnl_socket *sock; /* NULL = closed */
    uint32_t portid, seq;
    /* Requests that wait to be sent together; NULL = each is sent at once. */
    char *held;
    size_t held_len;
    unsigned n_held;
};

/* In the namespace that the process is in now; bus is NETLINK_…; groups of old style, or 0. */
int netlink_open(struct netlink *nl, int bus, unsigned groups);
void netlink_close(struct netlink *nl);
int netlink_fd(const struct netlink *nl);

/* Begins a message in room (NL_ROOM bytes); body is the fixed part after the header. */
struct nlmsghdr *netlink_begin(char *room, uint16_t type, uint16_t flags, const void *body,
                               size_t body_len);
/* Sends it, and waits for its ACK; or keeps it, between hold and release. */
int netlink_do(struct netlink *nl, struct nlmsghdr *msg);
/* Sends it, and calls each with all messages of the answer until its end. -EINTR: what it is about
 * changed meanwhile, and some of it may not have been told. */
int netlink_dump(struct netlink *nl, struct nlmsghdr *msg, mnl_cb_t each, void *arg);

/* Requests from here on are sent together by release, which says how the first that failed did:
 * many that depend on each other cost one call and one turn of the scheduler. */
void netlink_hold(struct netlink *nl);
int netlink_release(struct netlink *nl);

void netlink_put_address(struct nlmsghdr *msg, uint16_t type, const struct net_address *a);
unsigned netlink_address_len(const struct net_address *a);
