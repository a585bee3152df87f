#include <string.h>

#include "service/events_internal.h"

/* Of these a sandbox makes as many as it likes, without a call of anybody. */
static bool is_made_inside(const char *topic)
{
    return strcmp(topic, "network.denied") == 0 || strcmp(topic, "file.changed") == 0 ||
           strcmp(topic, "git.progress") == 0;
}

static struct event_share *share_of(struct event_shares *s, const char *sandbox_id)
{
    uint32_t h = 2166136261u;

    for (; *sandbox_id; sandbox_id++)
        h = (h ^ (unsigned char)*sandbox_id) * 16777619u;
    return &s->all[h % EVENT_SHARES];
}

bool event_share_take(struct event_shares *s, const char *topic, const char *sandbox_id,
                      int64_t now_ns, uint64_t *ret_lost)
{
    struct event_share *share;
    double left;

    *ret_lost = 0;
    if (!is_made_inside(topic))
        return true;
    share = share_of(s, sandbox_id);
    left = EVENT_SHARE - share->used + (double)(now_ns - share->at_ns) / 1e9 * EVENT_SHARE_A_SECOND;
    if (left > EVENT_SHARE || share->at_ns == 0)
        left = EVENT_SHARE;
    share->at_ns = now_ns;
    share->used = EVENT_SHARE - left;
    if (left < 1) {
        share->lost++;
        return false;
    }
    share->used++;
    *ret_lost = share->lost;
    share->lost = 0;
    return true;
}
