#include "policy/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* ::ffff:a.b.c.d is the IPv4 address for everybody who can connect to it. */
static void undress(struct net_address *a)
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (a->family != AF_INET6 || memcmp(a->bytes, mapped, sizeof(mapped)) != 0)
        return;
    a->family = AF_INET;
    memmove(a->bytes, a->bytes + 12, 4);
    memset(a->bytes + 4, 0, 12);
}

int net_address_parse(const char *text, struct net_address *ret)
{
    struct net_address a = {.family = strchr(text, ':') ? AF_INET6 : AF_INET};

    /* inet_pton() takes four decimal numbers only, none with a leading zero. */
    if (inet_pton(a.family, text, a.bytes) != 1)
        return -EINVAL;
    undress(&a);
    *ret = a;
    return 0;
}

void net_address_text(const struct net_address *a, char ret[NET_ADDRESS_TEXT])
{
    if (!inet_ntop(a->family, a->bytes, ret, NET_ADDRESS_TEXT))
        ret[0] = '\0';
}

bool net_address_equal(const struct net_address *a, const struct net_address *b)
{
    return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

unsigned net_address_bits(const struct net_address *a)
{
    return a->family == AF_INET ? 32 : 128;
}

bool net_address_in(const struct net_address *a, const struct net_address *range, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;
    unsigned char mask = (unsigned char)(0xff << (8 - rest));

    if (a->family != range->family || memcmp(a->bytes, range->bytes, whole) != 0)
        return false;
    return rest == 0 || ((a->bytes[whole] ^ range->bytes[whole]) & mask) == 0;
}

/* As URLs have it: what ends in a number is an address or nothing. */
bool net_name_is_number(const char *text)
{
    size_t len = strlen(text);
    const char *last;

    if (len > 0 && text[len - 1] == '.')
        len--;
    last = text + len;
    while (last > text && last[-1] != '.')
        last--;
    if (last == text + len)
        return false;
    if (last[0] == '0' && (last[1] == 'x' || last[1] == 'X')) {
        for (const char *c = last + 2; c < text + len; c++)
            if (!isxdigit((unsigned char)*c))
                return false;
        return true;
    }
    for (const char *c = last; c < text + len; c++)
        if (!isdigit((unsigned char)*c))
            return false;
    return true;
}

int net_range_parse(const char *text, struct net_address *ret, unsigned *ret_bits)
{
    const char *slash = strchr(text, '/');
    struct net_address a;
    char address[64];
    uint64_t bits;

    (void)snprintf(address, sizeof(address), "%.*s", slash ? (int)(slash - text) : 63, text);
    if (strlen(text) > 62 || net_address_parse(address, &a) < 0)
        return -EINVAL;
    bits = net_address_bits(&a);
    if (slash && (str_u64(slash + 1, &bits) < 0 || bits > net_address_bits(&a)))
        return -ERANGE;
    for (unsigned i = 0; i < 128; i++)
        if (i >= bits && (a.bytes[i / 8] & (0x80 >> i % 8)))
            return -EDOM;
    *ret = a;
    *ret_bits = (unsigned)bits;
    return 0;
}

int net_address_of(const struct sockaddr *from, struct net_address *ret)
{
    *ret = (struct net_address){.family = from->sa_family};
    if (from->sa_family == AF_INET)
        memcpy(ret->bytes, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
    else if (from->sa_family == AF_INET6)
        memcpy(ret->bytes, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr, 16);
    else
        return -EAFNOSUPPORT;
    undress(ret);
    return 0;
}
