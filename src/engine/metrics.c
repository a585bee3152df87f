#include "engine/metrics.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/snapshots_internal.h"
#include "engine/space_internal.h"
#include "engine/volumes_internal.h"
#include "model/sandbox.h"
#include "runtime/runtime.h"

#define SAMPLE_MIN_NS 50000000 /* closer samples say more about the clock than about the box */

/* Between the last two samples; the first time, since the box started. */
static double cpu_percent(struct sandbox *sb, uint64_t cpu_ns)
{
    int64_t now = mono_ns(), since;
    double percent;

    pthread_mutex_lock(&sb->lock);
    since = now - (sb->sample_ns ? sb->sample_ns : sb->started_ns);
    if (!sb->sample_ns || since >= SAMPLE_MIN_NS) {
        uint64_t used = cpu_ns > sb->sample_cpu_ns ? cpu_ns - sb->sample_cpu_ns : 0;

        sb->cpu_percent = since > 0 ? 100.0 * (double)used / (double)since : 0;
        sb->sample_cpu_ns = cpu_ns;
        sb->sample_ns = now;
    }
    percent = sb->cpu_percent;
    pthread_mutex_unlock(&sb->lock);
    return percent;
}

static bool has_box(struct sandbox *sb, const void *arg)
{
    bool has;

    (void)arg;
    pthread_mutex_lock(&sb->lock);
    has = sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_PAUSED;
    pthread_mutex_unlock(&sb->lock);
    return has;
}

static bool is_stopped(struct sandbox *sb, const void *arg)
{
    bool is;

    (void)arg;
    pthread_mutex_lock(&sb->lock);
    is = sb->state == SANDBOX_STOPPED;
    pthread_mutex_unlock(&sb->lock);
    return is;
}

int engine_sandbox_metrics(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    struct box_stats stats = {0};
    double cpu = 0;
    json_t *o;

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    if (has_box(sb, NULL)) {
        if (runtime_stats(e->runtime, &sb->box, &stats, err) < 0)
            return -1;
        cpu = cpu_percent(sb, stats.cpu_ns);
    }
    o = json_object();
    (void)json_object_set_new(o, "sandboxId", json_string(sb->box.id));
    (void)json_object_set_new(o, "cpuPercent", json_real(cpu));
    (void)json_object_set_new(o, "memoryUsageMb",
                              json_real((double)stats.memory_bytes / (1 << 20)));
    (void)json_object_set_new(o, "memoryLimitMb", json_real(sb->spec.limits.memory_mb));
    (void)json_object_set_new(o, "networkRxBytes", json_integer(0));
    (void)json_object_set_new(o, "networkTxBytes", json_integer(0));
    (void)json_object_set_new(o, "pids", json_integer((json_int_t)stats.pids));
    *ret = o;
    return 0;
}

static void add_space(struct engine *e, json_t *o)
{
    struct space_state s;

    space_look(e, &s);
    (void)json_object_set_new(o, "diskFreeBytes", json_integer((json_int_t)s.free));
    (void)json_object_set_new(o, "diskReserveBytes", json_integer((json_int_t)s.reserve));
    (void)json_object_set_new(o, "diskPromisedBytes", json_integer((json_int_t)s.promised));
    (void)json_object_set_new(o, "diskLow", json_boolean(s.low));
}

int engine_metrics(struct engine *e, json_t **ret, struct err *err)
{
    json_int_t uptime = (mono_ns() - e->start_ns) / 1000000000;
    json_t *o = json_object();
    size_t n, active, stopped;

    (void)err;
    free(roster_select(e, has_box, NULL, 0, 0, &n, &active));
    free(roster_select(e, is_stopped, NULL, 0, 0, &n, &stopped));
    (void)json_object_set_new(o, "activeSandboxes", json_integer((json_int_t)active));
    (void)json_object_set_new(o, "stoppedSandboxes", json_integer((json_int_t)stopped));
    (void)json_object_set_new(o, "snapshots", json_integer((json_int_t)snapshots_count(e)));
    (void)json_object_set_new(o, "volumes", json_integer((json_int_t)volumes_count(e)));
    (void)json_object_set_new(o, "totalCreated", json_integer(atomic_load(&e->created)));
    (void)json_object_set_new(o, "totalKilled", json_integer(atomic_load(&e->killed)));
    (void)json_object_set_new(o, "totalExpired", json_integer(atomic_load(&e->expired)));
    (void)json_object_set_new(o, "uptimeSeconds", json_integer(uptime));
    add_space(e, o);
    *ret = o;
    return 0;
}
