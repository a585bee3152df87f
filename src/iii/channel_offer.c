#include <string.h>

#include "base/str.h"
#include "iii/channels_internal.h"

/* Channels that somebody was told of and that nobody may ever want, as every request of HTTP has
 * two: until one is wanted it is an id in a table, and takes neither memory nor one of the places
 * that channels have. */

static struct channel_offer **bucket(struct iii_channels *all, const char *id)
{
    return &all->offers[str_hash(id) % CHANNEL_BUCKETS];
}

void channel_offer_open(struct iii_channels *all, struct channel_offer *o)
{
    struct channel_offer **at;

    iii_uuid_new(o->id);
    at = bucket(all, o->id);
    (void)pthread_mutex_lock(&all->offers_lock);
    o->next = *at;
    *at = o;
    o->listed = true;
    (void)pthread_mutex_unlock(&all->offers_lock);
}

json_t *channel_offer_json(const struct channel_offer *o)
{
    return json_pack("{s:s, s:s, s:s}", "channel_id", o->id, "access_key", o->key, "direction",
                     o->ours == CHANNEL_READER ? "write" : "read");
}

static void delist(struct iii_channels *all, struct channel_offer *o)
{
    struct channel_offer **at = bucket(all, o->id);

    if (!o->listed)
        return;
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    o->listed = false;
}

struct iii_channel *channel_offer_made(struct iii_channels *all, const struct channel_offer *o)
{
    struct iii_channel *c;

    (void)pthread_mutex_lock(&all->offers_lock);
    c = o->channel;
    (void)pthread_mutex_unlock(&all->offers_lock);
    return c;
}

bool channel_offer_refused(struct iii_channels *all, const struct channel_offer *o)
{
    bool refused;

    (void)pthread_mutex_lock(&all->offers_lock);
    refused = o->refused;
    (void)pthread_mutex_unlock(&all->offers_lock);
    return refused;
}

void channel_offer_close(struct iii_channels *all, struct channel_offer *o)
{
    (void)pthread_mutex_lock(&all->offers_lock);
    delist(all, o);
    (void)pthread_mutex_unlock(&all->offers_lock);
}

/* Under its lock. */
static struct channel_offer *find(struct iii_channels *all, const char *id)
{
    struct channel_offer *o = *bucket(all, id);

    while (o && strcmp(o->id, id) != 0)
        o = o->next;
    return o;
}

bool channel_offer_is_there(struct iii_channels *all, const char *id)
{
    bool there;

    (void)pthread_mutex_lock(&all->offers_lock);
    there = find(all, id);
    (void)pthread_mutex_unlock(&all->offers_lock);
    return there;
}

void channel_offer_take(struct iii_channels *all, const char *id, const char *key)
{
    struct channel_offer *o;
    struct iii_channel *c = NULL;

    (void)pthread_mutex_lock(&all->offers_lock);
    o = find(all, id);
    if (o && !str_equal_secret(o->key, key))
        o = NULL;
    if (o)
        c = channel_make_as(all, o->id, o->key, o->maker, o->token_id, NULL);
    if (o && !c)
        o->refused = true;
    if (c && channel_claim(c, o->ours, o->holder)) { /* else it has ended already */
        delist(all, o);
        o->channel = c;
        o->holder->wake(o->holder);
    }
    (void)pthread_mutex_unlock(&all->offers_lock);
    channel_unref(c);
}
