#pragma once

#include <linux/capability.h>
#include <stdint.h>

/* Capabilities of the calling process, as sets of bits. All return 0 or -errno, and make system
 * calls and nothing else. */

#define CAP_BIT(c) (1ull << (c))

/* Takes all others out of the bounding set, which takes nothing away before an exec. */
int caps_bound(uint64_t kept);
int caps_get(uint64_t *ret); /* permitted */
/* Has just these, permitted and effective; nothing is inheritable or ambient then. */
int caps_set(uint64_t caps);
