#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/setting.h"
#include "base/str.h"
#include "engine/engine_internal.h"
#include "engine/namesakes_internal.h"
#include "engine/reaper_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"

#define ROSTER_BUCKETS 1024

struct roster {
    pthread_mutex_t lock;
    struct sandbox *buckets[ROSTER_BUCKETS], *first, *last;
    struct namesakes names;
    unsigned count;    /* in the roster */
    unsigned placed;   /* those of them that count towards the limit */
    unsigned reserved; /* being made, not yet in the roster */
    uint64_t serial;   /* of the last one that was added */
    bool stopping;     /* none is made any more */
};

struct roster *roster_new(void)
{
    struct roster *all = xcalloc(1, sizeof(*all));

    pthread_mutex_init(&all->lock, NULL);
    return all;
}

void roster_free(struct engine *e)
{
    while (e->roster->first)
        roster_remove(e, e->roster->first);
    pthread_mutex_destroy(&e->roster->lock);
    free(e->roster);
}

void roster_close(struct engine *e)
{
    pthread_mutex_lock(&e->roster->lock);
    e->roster->stopping = true;
    pthread_mutex_unlock(&e->roster->lock);
}

static struct sandbox **bucket_of(struct engine *e, const char *id)
{
    /* Ids are random, so nobody chooses collisions. */
    return &e->roster->buckets[str_hash(id) % ROSTER_BUCKETS];
}

/* With the lock held. */
static int check_room(const struct engine *e, struct err *err)
{
    const struct roster *all = e->roster;

    if (all->stopping)
        return err_set(err, ERR_UNAVAILABLE, "cay is stopping; try again when it runs");
    if (all->placed + all->reserved < e->config.max_sandboxes)
        return 0;
    return err_code(err, ERR_LIMIT, "sandbox_limit",
                    "Maximum sandbox limit reached: %u (%s); stop or remove one",
                    e->config.max_sandboxes,
                    setting_name("CAY_MAX_SANDBOXES", "III_MAX_SANDBOXES"));
}

static bool yields_name(struct sandbox *sb, const void *arg)
{
    return sandbox_yields_name(sb, arg);
}

int roster_reserve(struct engine *e, const char *name, bool unique,
                   const struct sandbox_maker *maker, struct err *err)
{
    struct roster *all = e->roster;
    int r;

    pthread_mutex_lock(&all->lock);
    r = check_room(e, err);
    if (r == 0)
        r = namesakes_reserve(&all->names, name, unique, yields_name, maker, err);
    if (r == 0)
        all->reserved++;
    pthread_mutex_unlock(&all->lock);
    return r;
}

unsigned roster_room(struct engine *e)
{
    unsigned n;

    pthread_mutex_lock(&e->roster->lock);
    n = e->roster->placed + e->roster->reserved;
    pthread_mutex_unlock(&e->roster->lock);
    return n < e->config.max_sandboxes ? e->config.max_sandboxes - n : 0;
}

int roster_place(struct engine *e, struct sandbox *sb, struct err *err)
{
    int r = 0;

    pthread_mutex_lock(&e->roster->lock);
    if (!sb->placed)
        r = check_room(e, err);
    if (r == 0 && !sb->placed) {
        sb->placed = true;
        e->roster->placed++;
    }
    pthread_mutex_unlock(&e->roster->lock);
    return r;
}

void roster_settle(struct engine *e, struct sandbox *sb)
{
    bool left;

    pthread_mutex_lock(&e->roster->lock);
    left = sb->placed && sandbox_is_stopped(sb);
    if (left) {
        sb->placed = false;
        e->roster->placed--;
    }
    pthread_mutex_unlock(&e->roster->lock);
    if (left)
        reaper_look_at(e, mono_ns());
}

unsigned roster_stopped(struct engine *e)
{
    unsigned n;

    pthread_mutex_lock(&e->roster->lock);
    n = e->roster->count - e->roster->placed;
    pthread_mutex_unlock(&e->roster->lock);
    return n;
}

void roster_unreserve(struct engine *e, const char *name)
{
    pthread_mutex_lock(&e->roster->lock);
    e->roster->reserved--;
    namesakes_unreserve(&e->roster->names, name);
    pthread_mutex_unlock(&e->roster->lock);
}

/* Grows with each, whatever the clock does, and is nearly the same after another start, which adds
 * them in the order of their making: so it is what pages of a list go on from. */
static uint64_t next_serial(const struct roster *all, const struct sandbox *sb)
{
    uint64_t made_us = sb->created_ms > 0 ? (uint64_t)sb->created_ms * 1000 : 0;

    return made_us > all->serial ? made_us : all->serial + 1;
}

void roster_add(struct engine *e, struct sandbox *sb, bool reserved)
{
    struct roster *all = e->roster;
    struct sandbox **bucket = bucket_of(e, sb->box.id);

    pthread_mutex_lock(&all->lock);
    sb->serial = all->serial = next_serial(all, sb);
    sb->bucket_next = *bucket;
    *bucket = sandbox_ref(sb);
    sb->prev = all->last;
    if (all->last)
        all->last->next = sb;
    else
        all->first = sb;
    all->last = sb;
    all->count++;
    sb->placed = !sandbox_is_stopped(sb);
    all->placed += sb->placed;
    namesakes_add(&all->names, sb);
    if (reserved) {
        all->reserved--;
        namesakes_unreserve(&all->names, sb->spec.name);
    }
    pthread_mutex_unlock(&all->lock);
}

void roster_remove(struct engine *e, struct sandbox *sb)
{
    struct roster *all = e->roster;
    struct sandbox **at;

    pthread_mutex_lock(&all->lock);
    at = bucket_of(e, sb->box.id);
    while (*at != sb)
        at = &(*at)->bucket_next;
    *at = sb->bucket_next;
    if (sb->prev)
        sb->prev->next = sb->next;
    else
        all->first = sb->next;
    if (sb->next)
        sb->next->prev = sb->prev;
    else
        all->last = sb->prev;
    sb->prev = sb->next = sb->bucket_next = NULL;
    namesakes_remove(&all->names, sb);
    all->count--;
    all->placed -= sb->placed;
    sb->placed = false;
    pthread_mutex_unlock(&all->lock);
    sandbox_unref(sb);
}

struct sandbox *roster_find(struct engine *e, const char *id)
{
    struct sandbox *sb;

    pthread_mutex_lock(&e->roster->lock);
    sb = *bucket_of(e, id);
    while (sb && strcmp(sb->box.id, id) != 0)
        sb = sb->bucket_next;
    if (sb)
        sandbox_ref(sb);
    pthread_mutex_unlock(&e->roster->lock);
    return sb;
}

int roster_find_named(struct engine *e, const char *name,
                      bool (*match)(struct sandbox *sb, const void *arg), const void *arg,
                      struct sandbox **ret, struct err *err)
{
    struct sandbox *sb = NULL;
    int r;

    pthread_mutex_lock(&e->roster->lock);
    r = namesakes_find(&e->roster->names, name, match, arg, &sb, err);
    if (r == 0)
        *ret = sandbox_ref(sb);
    pthread_mutex_unlock(&e->roster->lock);
    return r;
}

struct sandbox **roster_select_named(struct engine *e, const char *name,
                                     bool (*match)(struct sandbox *sb, const void *arg),
                                     const void *arg, size_t *ret_n)
{
    struct sandbox **found;

    pthread_mutex_lock(&e->roster->lock);
    found = namesakes_select(&e->roster->names, name, match, arg, ret_n);
    for (size_t i = 0; i < *ret_n; i++)
        (void)sandbox_ref(found[i]);
    pthread_mutex_unlock(&e->roster->lock);
    return found;
}

struct sandbox *roster_find_serial(struct engine *e, uint64_t serial)
{
    struct sandbox *sb;

    pthread_mutex_lock(&e->roster->lock);
    sb = e->roster->first;
    while (sb && sb->serial != serial)
        sb = sb->next;
    if (sb)
        sandbox_ref(sb);
    pthread_mutex_unlock(&e->roster->lock);
    return sb;
}

struct sandbox **roster_select(struct engine *e, bool (*match)(struct sandbox *sb, const void *arg),
                               const void *arg, size_t skip, size_t max, size_t *ret_n,
                               size_t *ret_total)
{
    struct roster *all = e->roster;
    struct sandbox **found;
    size_t n = 0, total = 0;

    pthread_mutex_lock(&all->lock);
    if (max > all->count)
        max = all->count;
    found = xcalloc(max + 1, sizeof(struct sandbox *));
    for (struct sandbox *sb = all->last; sb; sb = sb->prev) {
        if (!match(sb, arg))
            continue;
        if (total++ >= skip && n < max)
            found[n++] = sandbox_ref(sb);
    }
    pthread_mutex_unlock(&all->lock);
    *ret_n = n;
    if (ret_total)
        *ret_total = total;
    return found;
}
