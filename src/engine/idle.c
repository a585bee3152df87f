#include "engine/idle_internal.h"

#include "base/err.h"
#include "base/mem.h"
#include "engine/drain_internal.h"
#include "engine/engine_internal.h"
#include "engine/reaper_internal.h"
#include "engine/roster_internal.h"

/* When it has been idle for long enough, if nothing is done until then; INT64_MAX = never. Whoever
 * is at it now is as if he had come now. */
static int64_t due_ns(struct sandbox *sb)
{
    bool in_use = atomic_load(&sb->waits.tasks) > 0;
    int64_t idle_ns;

    pthread_mutex_lock(&sb->lock);
    in_use |= sb->visits > 0 || sb->committing;
    idle_ns = sb->state == SANDBOX_RUNNING ? sb->spec.idle_s * 1000000000ll : 0;
    pthread_mutex_unlock(&sb->lock);
    if (idle_ns == 0)
        return INT64_MAX;
    if (in_use)
        idle_note(sb);
    return atomic_load_explicit(&sb->active_ns, memory_order_relaxed) + idle_ns;
}

bool idle_is_due(struct sandbox *sb)
{
    return due_ns(sb) <= mono_ns();
}

void idle_begin(struct engine *e, struct sandbox *sb)
{
    int64_t due;

    idle_note(sb);
    due = due_ns(sb);
    if (due < INT64_MAX)
        reaper_look_at(e, due);
}

struct look {
    int64_t now, *next;
};

static bool may_be_idle(struct sandbox *sb, const void *arg)
{
    const struct look *look = arg;
    int64_t due = due_ns(sb);

    if (due <= look->now)
        return true;
    if (due < *look->next)
        *look->next = due;
    return false;
}

int64_t idle_sweep(struct engine *e)
{
    int64_t next = INT64_MAX;
    struct look look = {mono_ns(), &next};
    size_t n;
    auto_free struct sandbox **found = roster_select(e, may_be_idle, &look, 0, SIZE_MAX, &n, NULL);

    for (size_t i = 0; i < n; i++) {
        drain_idle(e, found[i]);
        sandbox_unref(found[i]);
    }
    return next;
}

void engine_active(struct engine *e, const char *id)
{
    auto_sandbox struct sandbox *sb = roster_find(e, id);

    if (sb)
        idle_note(sb);
}

int64_t engine_last_active(struct engine *e, const char *id)
{
    auto_sandbox struct sandbox *sb = roster_find(e, id);

    if (!sb)
        return 0;
    return now_ms() -
           (mono_ns() - atomic_load_explicit(&sb->active_ns, memory_order_relaxed)) / 1000000;
}

int engine_touch(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;

    if (sandbox_get(e, id, &sb, err) < 0 ||
        (!sandbox_is_paused(sb) && sandbox_check_running(sb, err) < 0))
        return -1;
    idle_note(sb);
    *ret = sandbox_json(e, sb);
    return 0;
}
