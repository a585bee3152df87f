#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "service/queue/queue_internal.h"

static struct lane **bucket_of(struct lanes *l, const char *sandbox)
{
    return &l->buckets[str_hash(sandbox) % LANE_BUCKETS];
}

struct lane *lanes_find(struct lanes *l, const char *sandbox)
{
    for (struct lane *lane = *bucket_of(l, sandbox); lane; lane = lane->next)
        if (strcmp(lane->sandbox, sandbox) == 0)
            return lane;
    return NULL;
}

struct lane *lanes_get(struct lanes *l, const char *sandbox)
{
    struct lane *lane = lanes_find(l, sandbox);
    struct lane **bucket = bucket_of(l, sandbox);

    if (lane)
        return lane;
    lane = xcalloc(1, sizeof(*lane));
    (void)snprintf(lane->sandbox, sizeof(lane->sandbox), "%s", sandbox);
    lane->next = *bucket;
    *bucket = lane;
    lane->all_next = l->all;
    l->all = lane;
    return lane;
}

static void unlink_lane(struct lanes *l, struct lane *lane)
{
    struct lane **at = bucket_of(l, lane->sandbox);

    while (*at != lane)
        at = &(*at)->next;
    *at = lane->next;
}

void lanes_sweep(struct lanes *l)
{
    for (struct lane **at = &l->all; *at;) {
        struct lane *lane = *at;

        if (lane->open > 0 || lane->running > 0) {
            at = &lane->all_next;
            continue;
        }
        *at = lane->all_next;
        unlink_lane(l, lane);
        free(lane);
    }
}

void lanes_done(struct lanes *l)
{
    while (l->all) {
        struct lane *lane = l->all;

        l->all = lane->all_next;
        free(lane);
    }
    *l = (struct lanes){0};
}
