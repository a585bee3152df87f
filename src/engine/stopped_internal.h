#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct err;
struct sandbox;
struct sandbox_maker;

/* How many sandboxes may be stopped, and how much of the disk they may take (CAY_MAX_STOPPED,
 * CAY_STOPPED_DISK). Beyond either limit a sandbox that expired is removed; one that was stopped
 * for another reason is not. Tenants (struct sandbox_maker) have equal shares of a limit, and a
 * tenant within its share loses nothing, so that no tenant removes the sandboxes of another by
 * filling the rest. */

struct stopped_item {
    struct sandbox *sb;
    const char *tenant; /* "" = none */
    uint64_t weight;    /* what it counts: 1, or its bytes */
    int64_t since_ms;
    bool expired;
};

/* Sorts the items, and returns the index of the one to remove, or -1: when the weights add up to no
 * more than limit, or no tenant beyond its share has an expired one. Of the tenant with the
 * greatest weight it is the one that expired first. */
long stopped_choose(struct stopped_item *items, size_t n, uint64_t limit);

/* Removes expired sandboxes while there are too many; returns how many. Leaves out those that are
 * busy. */
unsigned stopped_evict(struct engine *e);

/* ERR_LIMIT "stopped_limit" when the tenant has its share of stopped sandboxes that did not expire,
 * which are not removed for new ones. So it is when its expired sandboxes are max_sandboxes beyond
 * its share, since they are in use and cannot be removed. */
int stopped_check_room(struct engine *e, const struct sandbox_maker *maker, struct err *err);
