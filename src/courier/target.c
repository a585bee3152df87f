/* Is this an address that may be connected to? Asked for each, when libcurl is about to make the
 * socket for it, so that it does not matter what a name led to before. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "courier/courier_internal.h"
#include "policy/targets.h"

static socklen_t fill(const struct net_address *a, struct sockaddr_storage *ret)
{
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret;
    struct sockaddr_in *four = (struct sockaddr_in *)ret;

    memset(ret, 0, sizeof(*ret));
    ret->ss_family = (sa_family_t)a->family;
    if (a->family == AF_INET) {
        memcpy(&four->sin_addr, a->bytes, sizeof(four->sin_addr));
        return sizeof(*four);
    }
    memcpy(&six->sin6_addr, a->bytes, sizeof(six->sin6_addr));
    return sizeof(*six);
}

static bool can_bind(const struct net_address *a)
{
    auto_close int fd = socket(a->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage at;
    socklen_t len = fill(a, &at);

    return fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0;
}

/* On machines that let everybody bind any address: packets for its own come from that very one. */
static bool comes_from_itself(const struct net_address *a)
{
    auto_close int fd = socket(a->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage to, from = {0};
    socklen_t len = fill(a, &to), from_len = sizeof(from);
    struct net_address source;

    ((struct sockaddr_in *)&to)->sin_port = htons(9); /* no packet is sent */
    return fd >= 0 && connect(fd, (struct sockaddr *)&to, len) == 0 &&
           getsockname(fd, (struct sockaddr *)&from, &from_len) == 0 &&
           net_address_of((struct sockaddr *)&from, &source) == 0 && net_address_equal(&source, a);
}

/* One of this machine's own? Only such an address can be bound: nothing has to be listed. */
static bool is_host(const struct net_address *a, void *arg)
{
    struct net_address nobodys;

    (void)arg;
    if (!can_bind(a))
        return false;
    (void)net_address_parse(a->family == AF_INET ? "192.0.2.1" : "2001:db8::1", &nobodys);
    return !can_bind(&nobodys) || comes_from_itself(a);
}

const char *target_refuse(const struct targets *targets, const char *host,
                          const struct sockaddr *address, char ret[COURIER_ADDRESS])
{
    struct net_address a;
    char text[NET_ADDRESS_TEXT];

    if (net_address_of(address, &a) < 0)
        return "of another kind";
    net_address_text(&a, text);
    (void)snprintf(ret, COURIER_ADDRESS, "%s", text);
    return targets_refuse(targets, host, &a, is_host, NULL);
}
