#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine_internal.h"
#include "engine/env_internal.h"
#include "engine/idle_internal.h"
#include "engine/images_internal.h"
#include "engine/modify_internal.h"
#include "engine/news_internal.h"
#include "engine/quiet_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"
#include "engine/spec_internal.h"
#include "engine/turn_internal.h"
#include "engine/writer_internal.h"
#include "runtime/runtime.h"

/* Changes of a sandbox that is there. What can be refused is looked at first; then its environment
 * is changed, which its agent takes part in, and then the rest, with one row: that is written
 * before the kernel is told of new limits, and a start tells it again (modify_recover). */

/* What the proxy keeps there is the proxy's: who replaces the rest neither opens a port that wants
 * a token nor brings an address back that was revoked. Locked keys stay, too, and another value for
 * one is refused. */
static int merge_metadata(const json_t *before, const struct sandbox_change *change, json_t **ret,
                          struct err *err)
{
    json_t *metadata = json_deep_copy(change->metadata), *value;
    const char *key;

    json_object_foreach((json_t *)(uintptr_t)before, key, value)
    {
        bool kept = str_starts(key, "proxy_") || json_object_get(change->locked, key);

        if (strcmp(key, "proxy_signed") == 0 || (kept && !json_object_get(metadata, key)))
            (void)json_object_set(metadata, key, value);
    }
    json_object_foreach(metadata, key, value)
    {
        if (!json_object_get(change->locked, key) ||
            json_equal(value, json_object_get(before, key)))
            continue;
        (void)err_code(err, ERR_FORBIDDEN, "token_restricted",
                       "metadata.%.80s is the label of a token: a token that is for some sandboxes "
                       "only cannot change it",
                       key);
        json_decref(metadata);
        return -1;
    }
    *ret = metadata;
    return 0;
}

/* What of a spec can change here; metadata is its own. */
struct parts {
    json_t *metadata;
    struct sandbox_limits limits;
    uint32_t timeout_s, idle_s;
    int64_t expires_ms, deadline_ns;
};

/* Takes them, and gives those that were there. */
static struct parts swap(struct sandbox *sb, struct parts new)
{
    struct parts old;

    pthread_mutex_lock(&sb->lock);
    old = (struct parts){sb->spec.metadata, sb->spec.limits, sb->spec.timeout_s,
                         sb->spec.idle_s,   sb->expires_ms,  sb->deadline_ns};
    sb->spec.metadata = new.metadata;
    /* Who tells of an end of memory reads it with or without the lock; its disk stays. */
    __atomic_store_n(&sb->spec.limits.memory_mb, new.limits.memory_mb, __ATOMIC_RELAXED);
    sb->spec.limits.cpu_millis = new.limits.cpu_millis;
    sb->spec.limits.pids = new.limits.pids;
    sb->spec.timeout_s = new.timeout_s;
    sb->spec.idle_s = new.idle_s;
    sb->expires_ms = new.expires_ms;
    sb->deadline_ns = new.deadline_ns;
    pthread_mutex_unlock(&sb->lock);
    return old;
}

/* As they would be. */
static int plan(struct engine *e, struct sandbox *sb, const struct sandbox_change *change,
                struct parts *ret, struct err *err)
{
    struct sandbox_limits had;
    const struct image_wish wish = {change->cpu_cores.given, change->memory_mb.given, &had};
    struct sandbox_spec wanted = {0};
    auto_free char *image = NULL;
    int64_t now = now_ms();
    int r = 0;

    pthread_mutex_lock(&sb->lock);
    wanted.limits = had = sb->spec.limits;
    wanted.timeout_s = sb->spec.timeout_s;
    wanted.idle_s = sb->spec.idle_s;
    image = xstrdup(sb->spec.image);
    *ret = (struct parts){.expires_ms = sb->expires_ms, .deadline_ns = sb->deadline_ns};
    if (change->metadata)
        r = merge_metadata(sb->spec.metadata, change, &ret->metadata, err);
    else
        ret->metadata = json_deep_copy(sb->spec.metadata);
    pthread_mutex_unlock(&sb->lock);
    if (r < 0)
        return -1;
    spec_change(&e->config, change, &wanted);
    ret->limits = wanted.limits;
    ret->timeout_s = wanted.timeout_s;
    ret->idle_s = wanted.idle_s;
    /* That of one that is stopped is another clock, and begins anew when it is started. */
    if (change->timeout_s.given && !sandbox_is_stopped(sb)) {
        ret->expires_ms = sandbox_expiry(now, wanted.timeout_s);
        ret->deadline_ns = mono_ns() + (ret->expires_ms - now) * 1000000;
    }
    if (image_limit(e, image, &wish, &ret->limits, err) == 0)
        return 0;
    json_decref(ret->metadata);
    return -1;
}

/* The kernel would end processes until it is true. */
static int check_memory(struct engine *e, struct sandbox *sb, uint32_t memory_mb, struct err *err)
{
    struct box_stats stats;

    if (sandbox_is_stopped(sb) || runtime_stats(e->runtime, &sb->box, &stats, NULL) < 0 ||
        stats.memory_bytes <= (uint64_t)memory_mb << 20)
        return 0;
    return err_set(err, ERR_CONFLICT,
                   "the sandbox uses %llu MB of memory, which is more than %u: end some of its "
                   "processes, or stop it first",
                   (unsigned long long)(stats.memory_bytes >> 20), memory_mb);
}

static bool same_limits(const struct sandbox_limits *a, const struct sandbox_limits *b)
{
    return a->memory_mb == b->memory_mb && a->cpu_millis == b->cpu_millis && a->pids == b->pids;
}

static int store(struct engine *e, struct sandbox *sb, struct err *err)
{
    return writer_wait(e, writer_put(e, sb), err);
}

/* In its turn. All of it, or all is as it was. */
static int apply(struct engine *e, struct sandbox *sb, struct parts new, struct err *err)
{
    struct parts old = swap(sb, new);
    int r = store(e, sb, err);

    if (r == 0 && !same_limits(&old.limits, &new.limits) && !sandbox_is_stopped(sb))
        r = runtime_limit(e->runtime, &sb->box, &new.limits, err);
    if (r < 0) {
        new = swap(sb, old);
        (void)runtime_limit(e->runtime, &sb->box, &old.limits, NULL);
        writer_leave(e, writer_put(e, sb));
        json_decref(new.metadata);
        return -1;
    }
    json_decref(old.metadata);
    idle_begin(e, sb);
    return 0;
}

/* What is there of a box for one that is stopped was told the old ones. */
static int end_ready(struct engine *e, struct sandbox *sb, const struct sandbox_limits *new,
                     struct err *err)
{
    struct sandbox_limits old = sandbox_limits(sb);

    return sandbox_is_stopped(sb) && !same_limits(&old, new) ? quiet_end(e, sb, err) : 0;
}

static int modify_in_turn(struct engine *e, struct sandbox *sb, const struct sandbox_change *change,
                          struct err *err)
{
    struct parts new;

    if (!sandbox_is_still(sb) && sandbox_check_running(sb, err) < 0)
        return -1;
    if (plan(e, sb, change, &new, err) < 0)
        return -1;
    if ((change->memory_mb.given && check_memory(e, sb, new.limits.memory_mb, err) < 0) ||
        end_ready(e, sb, &new.limits, err) < 0) {
        json_decref(new.metadata);
        return -1;
    }
    return apply(e, sb, new, err);
}

static int change_env(struct engine *e, const char *id, const json_t *env, struct err *err)
{
    auto_files struct sandbox *sb = NULL;

    return files_begin(e, id, &sb, err) < 0 ? -1 : env_replace(e, sb, env, err);
}

static int check(struct engine *e, struct sandbox *sb, const struct sandbox_change *change,
                 struct err *err)
{
    struct parts new;

    if (change->env && env_check(change->env, err) < 0)
        return -1;
    if (change->metadata && spec_check_metadata(change->metadata, err) < 0)
        return -1;
    if (plan(e, sb, change, &new, err) < 0)
        return -1;
    json_decref(new.metadata);
    return change->memory_mb.given ? check_memory(e, sb, new.limits.memory_mb, err) : 0;
}

int engine_modify(struct engine *e, const char *id, const struct sandbox_change *change,
                  json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    int r;

    if (sandbox_get(e, id, &sb, err) < 0 || check(e, sb, change, err) < 0 ||
        (change->env && change_env(e, id, change->env, err) < 0) ||
        turn_take(e, &sb->env_turn, err) < 0)
        return -1;
    r = turn_take(e, &sb->turn, err);
    if (r == 0) {
        r = modify_in_turn(e, sb, change, err);
        if (r == 0) {
            *ret = sandbox_json(e, sb);
            sandbox_tell(e, sb, "sandbox.updated", NULL);
        }
        turn_give(&sb->turn);
    }
    turn_give(&sb->env_turn);
    return r;
}

void modify_recover(struct engine *e, struct sandbox *sb)
{
    struct err err = {0};

    if (runtime_limit(e->runtime, &sb->box, &sb->spec.limits, &err) < 0 &&
        err.kind != ERR_UNSUPPORTED)
        log_warn("the limits of a sandbox could not be set again", "id", sb->box.id, "error",
                 err.text);
}
