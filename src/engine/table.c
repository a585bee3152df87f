#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/engine_internal.h"

struct sandbox *sandbox_alloc(const struct engine *e, const struct box *box)
{
    struct sandbox *sb = xcalloc(1, sizeof(*sb));

    atomic_init(&sb->refs, 1);
    pthread_mutex_init(&sb->env_turn, NULL);
    pthread_mutex_init(&sb->turn, NULL);
    pthread_mutex_init(&sb->lock, NULL);
    sb->box = *box;
    sb->boot_id = xstrdup(e->boot_id);
    sb->watched_fd = -1;
    return sb;
}

struct sandbox *sandbox_ref(struct sandbox *sb)
{
    atomic_fetch_add(&sb->refs, 1);
    return sb;
}

void sandbox_unref(struct sandbox *sb)
{
    if (!sb || atomic_fetch_sub(&sb->refs, 1) != 1)
        return;
    pthread_mutex_destroy(&sb->env_turn);
    pthread_mutex_destroy(&sb->turn);
    pthread_mutex_destroy(&sb->lock);
    sandbox_spec_done(&sb->spec);
    free(sb->reason);
    free(sb->boot_id);
    free(sb->image_id);
    strv_free(sb->image_env);
    free(sb->image_user);
    free(sb);
}

static struct sandbox **bucket_of(struct engine *e, const char *id)
{
    uint32_t hash = 2166136261u; /* FNV-1a; ids are random, so nobody chooses collisions */

    for (; *id; id++)
        hash = (hash ^ (unsigned char)*id) * 16777619u;
    return &e->buckets[hash % TABLE_BUCKETS];
}

int table_reserve(struct engine *e, struct err *err)
{
    int r = 0;

    pthread_mutex_lock(&e->table_lock);
    if (e->stopping)
        r = err_set(err, ERR_UNAVAILABLE, "cay is stopping; try again when it runs");
    else if (e->count + e->reserved >= e->config.max_sandboxes)
        r = err_code(err, ERR_LIMIT, "sandbox_limit", "Maximum sandbox limit reached: %u",
                     e->config.max_sandboxes);
    else
        e->reserved++;
    pthread_mutex_unlock(&e->table_lock);
    return r;
}

void table_unreserve(struct engine *e)
{
    pthread_mutex_lock(&e->table_lock);
    e->reserved--;
    pthread_mutex_unlock(&e->table_lock);
}

void table_add(struct engine *e, struct sandbox *sb, bool reserved)
{
    struct sandbox **bucket = bucket_of(e, sb->box.id);

    pthread_mutex_lock(&e->table_lock);
    sb->serial = ++e->serial;
    sb->bucket_next = *bucket;
    *bucket = sandbox_ref(sb);
    sb->prev = e->last;
    if (e->last)
        e->last->next = sb;
    else
        e->first = sb;
    e->last = sb;
    e->count++;
    if (reserved)
        e->reserved--;
    pthread_mutex_unlock(&e->table_lock);
}

void table_remove(struct engine *e, struct sandbox *sb)
{
    struct sandbox **at;

    pthread_mutex_lock(&e->table_lock);
    at = bucket_of(e, sb->box.id);
    while (*at != sb)
        at = &(*at)->bucket_next;
    *at = sb->bucket_next;
    if (sb->prev)
        sb->prev->next = sb->next;
    else
        e->first = sb->next;
    if (sb->next)
        sb->next->prev = sb->prev;
    else
        e->last = sb->prev;
    sb->prev = sb->next = sb->bucket_next = NULL;
    e->count--;
    pthread_mutex_unlock(&e->table_lock);
    sandbox_unref(sb);
}

struct sandbox *table_find(struct engine *e, const char *id)
{
    struct sandbox *sb;

    pthread_mutex_lock(&e->table_lock);
    sb = *bucket_of(e, id);
    while (sb && strcmp(sb->box.id, id) != 0)
        sb = sb->bucket_next;
    if (sb)
        sandbox_ref(sb);
    pthread_mutex_unlock(&e->table_lock);
    return sb;
}

struct sandbox *table_find_serial(struct engine *e, uint64_t serial)
{
    struct sandbox *sb;

    pthread_mutex_lock(&e->table_lock);
    sb = e->first;
    while (sb && sb->serial != serial)
        sb = sb->next;
    if (sb)
        sandbox_ref(sb);
    pthread_mutex_unlock(&e->table_lock);
    return sb;
}

struct sandbox **table_select(struct engine *e, bool (*match)(struct sandbox *sb, const void *arg),
                              const void *arg, size_t skip, size_t max, size_t *ret_n,
                              size_t *ret_total)
{
    struct sandbox **found;
    size_t n = 0, total = 0;

    pthread_mutex_lock(&e->table_lock);
    if (max > e->count)
        max = e->count;
    found = xcalloc(max + 1, sizeof(struct sandbox *));
    for (struct sandbox *sb = e->first; sb; sb = sb->next) {
        if (!match(sb, arg))
            continue;
        if (total++ >= skip && n < max)
            found[n++] = sandbox_ref(sb);
    }
    pthread_mutex_unlock(&e->table_lock);
    *ret_n = n;
    if (ret_total)
        *ret_total = total;
    return found;
}
