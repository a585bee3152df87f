#pragma once

#include "policy/policy.h"

/* Where this machine itself calls for somebody who is not its operator: webhooks. Only the public
 * internet, and what the operator lists: else whoever may make a webhook could call the services of
 * this machine and its network, and a cloud's metadata. Judged is the address that is connected
 * to: what a name leads to is known only then. */
struct targets;

#define TARGETS_MAX 256

/* Each entry is an address, a range (10.1.0.0/16), a name (hooks.example.com: whatever it leads
 * to), a name with all below it (*.example.com), or a group of addresses (private, loopback,
 * link-local, host). NULL = none. Fails with ERR_INVALID "bad_target"; the text names the entry. */
int targets_parse(char *const *entries, struct targets **ret, struct err *err);
void targets_free(struct targets *t);

/* The same as below of what the URL says alone, to refuse early what would never be connected to:
 * NULL = it may be asked for, or is an address that may be connected to. */
const char *targets_refuse_host(const struct targets *t, const char *host);

/* NULL = it may be connected to; else what the address is: "loopback", "private", "host", … host is
 * as the URL has it, without brackets. */
const char *targets_refuse(const struct targets *t, const char *host, const struct net_address *a,
                           policy_is_host is_host, void *arg);
