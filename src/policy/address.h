#pragma once

#include <stdbool.h>
#include <stddef.h>

/* An address as policies, DNS answers and packets have it. family is AF_INET or AF_INET6; of an
 * IPv4 address the first four bytes count, the others are zero. */
struct net_address {
    int family;
    unsigned char bytes[16];
};

/* "10.0.0.1" or "fd00::1", nothing else: no zone, no brackets, and IPv4 as four decimal numbers
 * without leading zeros. An IPv4 address in IPv6 clothes (::ffff:10.0.0.1) becomes what it is.
 * Returns 0 or -EINVAL. */
int net_address_parse(const char *text, struct net_address *ret);

/* "10.0.0.0/8", or an address, which is a range of one. -EINVAL: that is no address; -ERANGE: no
 * prefix length of its kind; -EDOM: bits are set below it. ret is written on success only. */
int net_range_parse(const char *text, struct net_address *ret, unsigned *ret_bits);

/* Of AF_INET and AF_INET6; IPv4 in IPv6 clothes becomes what it is. Else -EAFNOSUPPORT. */
struct sockaddr;
int net_address_of(const struct sockaddr *from, struct net_address *ret);

#define NET_ADDRESS_TEXT 46
void net_address_text(const struct net_address *a, char ret[NET_ADDRESS_TEXT]);

bool net_address_equal(const struct net_address *a, const struct net_address *b);

/* Are the first `bits` bits those of range? */
bool net_address_in(const struct net_address *a, const struct net_address *range, unsigned bits);
unsigned net_address_bits(const struct net_address *a); /* 32 or 128 */

/* Does the text read as a number in place of a name: 2130706433, 0x7f.1, 017700000001, 1.2.3? Some
 * programs take that for an IPv4 address, so it is never a name. */
bool net_name_is_number(const char *text);
