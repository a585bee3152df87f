#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/gone_internal.h"
#include "engine/idle_internal.h"
#include "engine/json_text_internal.h"
#include "engine/ports_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"
#include "engine/space_internal.h"
#include "model/sandbox.h"
#include "runtime/runtime.h"

/* ---- the object ---- */

struct sandbox *sandbox_alloc(struct engine *e, const struct box *box)
{
    struct sandbox *sb = xcalloc(1, sizeof(*sb));

    atomic_init(&sb->refs, 1);
    turn_init(&sb->env_turn);
    turn_init(&sb->turn);
    turn_init(&sb->commit_turn);
    pthread_mutex_init(&sb->lock, NULL);
    sb->engine = e;
    agent_waits_init(&sb->waits);
    sandbox_net_init(&sb->net);
    sb->box = *box;
    sb->boot_id = xstrdup(e->boot_id);
    sb->watched_fd = sb->interrupt_fd = -1;
    idle_note(sb);
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
    space_give(sb->engine, sb->promised_mb);
    turn_done(&sb->env_turn);
    turn_done(&sb->turn);
    turn_done(&sb->commit_turn);
    pthread_mutex_destroy(&sb->lock);
    agent_waits_done(&sb->waits);
    sandbox_net_done(&sb->net);
    sandbox_spec_done(&sb->spec);
    free(sb->reason);
    free(sb->tenant);
    free(sb->boot_id);
    free(sb->image_id);
    for (size_t i = 0; i < sb->n_images_before; i++)
        free(sb->images_before[i]);
    free(sb->images_before);
    strv_free(sb->image_env);
    free(sb->image_user);
    free(sb->main.output);
    close_fd(&sb->interrupt_fd);
    free(sb);
}

/* ---- looking it up, and moving it ---- */

int sandbox_get(struct engine *e, const char *id, struct sandbox **ret, struct err *err)
{
    struct sandbox *sb = roster_find(e, id);

    if (!sb)
        return gone_explain(e, id, err);
    *ret = sb;
    return 0;
}

char *sandbox_status(struct sandbox *sb)
{
    char *text;

    pthread_mutex_lock(&sb->lock);
    if (sb->reason)
        text = xasprintf("%s (%s)", sandbox_state_name(sb->state), sb->reason);
    else
        text = xstrdup(sandbox_state_name(sb->state));
    pthread_mutex_unlock(&sb->lock);
    return text;
}

static const char *what_to_do(enum sandbox_state state)
{
    if (state == SANDBOX_PAUSED)
        return "; resume it first: POST .../resume, `cay resume ID`";
    if (state == SANDBOX_STOPPED)
        return "; start it first: POST .../start, `cay start ID`";
    return "";
}

int sandbox_check_running(struct sandbox *sb, struct err *err)
{
    auto_free char *status = NULL;
    enum sandbox_state state;

    pthread_mutex_lock(&sb->lock);
    state = sb->state;
    pthread_mutex_unlock(&sb->lock);
    if (state == SANDBOX_RUNNING)
        return 0;
    if (state == SANDBOX_REMOVING)
        return gone_explain(sb->engine, sb->box.id, err);
    status = sandbox_status(sb);
    return err_code(err, ERR_CONFLICT, "sandbox_not_running", "Sandbox is not running: %s%s",
                    status, what_to_do(state));
}

int sandbox_check_box(struct sandbox *sb, struct err *err)
{
    bool quiet;

    pthread_mutex_lock(&sb->lock);
    quiet = sb->state == SANDBOX_STOPPED && sb->quiet == QUIET_BOX;
    pthread_mutex_unlock(&sb->lock);
    return quiet ? 0 : sandbox_check_running(sb, err);
}

bool sandbox_is_committing(struct sandbox *sb)
{
    bool yes;

    pthread_mutex_lock(&sb->lock);
    yes = sb->committing;
    pthread_mutex_unlock(&sb->lock);
    return yes;
}

bool sandbox_is_paused(struct sandbox *sb)
{
    bool yes;

    pthread_mutex_lock(&sb->lock);
    yes = sb->state == SANDBOX_PAUSED;
    pthread_mutex_unlock(&sb->lock);
    return yes;
}

bool sandbox_is_stopped(struct sandbox *sb)
{
    bool yes;

    pthread_mutex_lock(&sb->lock);
    yes = sb->state == SANDBOX_STOPPED;
    pthread_mutex_unlock(&sb->lock);
    return yes;
}

bool sandbox_is_expired(struct sandbox *sb)
{
    bool yes;

    pthread_mutex_lock(&sb->lock);
    yes = sb->state == SANDBOX_STOPPED && sb->reason && strcmp(sb->reason, REASON_EXPIRED) == 0;
    pthread_mutex_unlock(&sb->lock);
    return yes;
}

bool sandbox_is_picked(struct sandbox *sb, const struct sandbox_pick *pick)
{
    const char *value;
    bool yes = true;

    if (pick && pick->id && strcmp(pick->id, sb->box.id) != 0)
        return false;
    if (pick && pick->key) {
        pthread_mutex_lock(&sb->lock);
        value = json_string_value(json_object_get(sb->spec.metadata, pick->key));
        yes = value && strcmp(value, pick->value) == 0;
        pthread_mutex_unlock(&sb->lock);
    }
    return yes;
}

bool sandbox_yields_name(struct sandbox *sb, const struct sandbox_maker *maker)
{
    return maker->replaces && sandbox_is_expired(sb) && sandbox_is_picked(sb, maker->pick);
}

struct sandbox_limits sandbox_limits(struct sandbox *sb)
{
    struct sandbox_limits limits;

    pthread_mutex_lock(&sb->lock);
    limits = sb->spec.limits;
    pthread_mutex_unlock(&sb->lock);
    return limits;
}

/* With its lock held. */
static bool stands_still(const struct sandbox *sb)
{
    return sb->state == SANDBOX_PAUSED || sb->state == SANDBOX_STOPPED;
}

bool sandbox_is_still(struct sandbox *sb)
{
    return sandbox_pause(sb) != 0;
}

uint32_t sandbox_pause(struct sandbox *sb)
{
    uint32_t n;

    pthread_mutex_lock(&sb->lock);
    n = stands_still(sb) ? sb->pauses + 1 : 0;
    pthread_mutex_unlock(&sb->lock);
    return n;
}

int sandbox_check_there(struct sandbox *sb, struct err *err)
{
    return sandbox_is_still(sb) ? 0 : sandbox_check_running(sb, err);
}

int sandbox_stands_still(struct err *err)
{
    return err_code(err, ERR_UNAVAILABLE, "sandbox_busy",
                    "the sandbox is being committed and stands still meanwhile; try again when "
                    "that is done");
}

static int await_commit(struct engine *e, struct sandbox *sb, struct err *err)
{
    if (turn_take(e, &sb->commit_turn, NULL) < 0)
        return sandbox_stands_still(err);
    turn_give(&sb->commit_turn);
    return 0;
}

int sandbox_get_running(struct engine *e, const char *id, struct sandbox **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;

    if (sandbox_get(e, id, &sb, err) < 0 || sandbox_check_running(sb, err) < 0)
        return -1;
    /* Afterwards it may have been paused or removed. */
    if (sandbox_is_committing(sb) &&
        (await_commit(e, sb, err) < 0 || sandbox_check_running(sb, err) < 0))
        return -1;
    idle_note(sb);
    *ret = steal_ptr(sb);
    return 0;
}

int sandbox_get_running_now(struct engine *e, const char *id, struct sandbox **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;

    if (sandbox_get(e, id, &sb, err) < 0 || sandbox_check_running(sb, err) < 0)
        return -1;
    if (sandbox_is_committing(sb))
        return sandbox_stands_still(err);
    idle_note(sb);
    *ret = steal_ptr(sb);
    return 0;
}

int sandbox_move(struct sandbox *sb, enum sandbox_state to, const char *reason, struct err *err)
{
    int r;

    pthread_mutex_lock(&sb->lock);
    r = sandbox_check_move(sb->state, to, err);
    if (r == 0) {
        sb->state = to;
        sb->pauses += to == SANDBOX_PAUSED || to == SANDBOX_STOPPED;
        free(sb->reason);
        sb->reason = reason ? xstrdup(reason) : NULL;
    }
    pthread_mutex_unlock(&sb->lock);
    if (r == 0 && sb->exposed)
        exposed_follow(sb->engine, sb, to);
    if (r == 0 && to == SANDBOX_RUNNING)
        idle_begin(sb->engine, sb);
    return r;
}

/* When it is stopped if nothing is done with it; with its lock held. */
static int64_t idle_at_ms(struct sandbox *sb)
{
    int64_t quiet_ns = mono_ns() - atomic_load_explicit(&sb->active_ns, memory_order_relaxed);

    return now_ms() + sb->spec.idle_s * 1000ll - quiet_ns / 1000000;
}

/* Clients see wall time; what decides is the monotonic clock, so that a clock that is set ends
 * nothing early. */
void sandbox_set_expiry(struct sandbox *sb, int64_t now, int64_t expires_ms)
{
    pthread_mutex_lock(&sb->lock);
    sb->expires_ms = expires_ms;
    sb->deadline_ns = mono_ns() + (expires_ms - now) * 1000000;
    pthread_mutex_unlock(&sb->lock);
}

static void set_str(json_t *o, const char *key, const char *value)
{
    (void)json_object_set_new(o, key, json_cstr(value));
}

json_t *sandbox_json(const struct engine *e, struct sandbox *sb)
{
    const struct runtime_ops *ops = e->runtime->ops;
    json_t *o = json_object(), *config, *entrypoint;

    pthread_mutex_lock(&sb->lock);
    config = sandbox_spec_json(&sb->spec);
    set_str(o, "id", sb->box.id);
    set_str(o, "name", sb->spec.name ? sb->spec.name : sb->box.id);
    set_str(o, "image", sb->spec.image);
    set_str(o, "status", sandbox_state_name(sb->state));
    if (sb->reason)
        set_str(o, "reason", sb->reason);
    (void)json_object_set_new(o, "createdAt", json_integer(sb->created_ms));
    (void)json_object_set_new(o, "expiresAt",
                              json_integer(sb->expires_ms == EXPIRES_NEVER ? 0 : sb->expires_ms));
    if (sb->spec.idle_s && sb->state == SANDBOX_RUNNING)
        (void)json_object_set_new(o, "idleAt", json_integer(idle_at_ms(sb)));
    if (drain_refuses(sb))
        (void)json_object_set_new(o, "draining", json_true());
    (void)json_object_set_new(o, "metadata", json_deep_copy(sb->spec.metadata));
    pthread_mutex_unlock(&sb->lock);

    entrypoint = json_object_get(config, "entrypoint");
    if (entrypoint) {
        (void)json_object_set(o, "entrypoint", entrypoint);
        (void)json_object_set_new(o, "entrypointState", main_state_json(sb));
    }
    (void)json_object_set_new(o, "config", config);
    set_str(o, "runtime", ops->name);
    set_str(o, "isolation", ops->boundary);
    return o;
}
