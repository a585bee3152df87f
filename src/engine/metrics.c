#include "engine/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/snapshots_internal.h"
#include "engine/space_internal.h"
#include "engine/turn_internal.h"
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

static bool is_running(struct sandbox *sb)
{
    bool is;

    pthread_mutex_lock(&sb->lock);
    is = sb->state == SANDBOX_RUNNING;
    pthread_mutex_unlock(&sb->lock);
    return is;
}

/* In its turn, since who has that may be about to unmount it. */
static bool look_at_disk(struct engine *e, struct sandbox *sb, uint64_t *ret_used)
{
    struct disk_room room;
    bool knows;

    if (!turn_try(&sb->turn))
        return false;
    knows = is_running(sb) && runtime_disk_room(e->runtime, &sb->box, &room, NULL) == 0;
    if (knows)
        *ret_used = room.used;
    turn_give(&sb->turn);
    return knows;
}

static void set_int(json_t *o, const char *name, uint64_t n)
{
    (void)json_object_set_new(o, name, json_integer((json_int_t)n));
}

static void add_box(struct engine *e, struct sandbox *sb, json_t *o)
{
    struct box_io io = {0};
    uint64_t used;
    int64_t up;

    runtime_io(e->runtime, &sb->box, &io);
    set_int(o, "diskReadBytes", io.read_bytes);
    set_int(o, "diskWriteBytes", io.written_bytes);
    if (look_at_disk(e, sb, &used))
        set_int(o, "diskUsedBytes", used);
    pthread_mutex_lock(&sb->lock);
    up = mono_ns() - sb->started_ns;
    pthread_mutex_unlock(&sb->lock);
    set_int(o, "startedAt", (uint64_t)(now_ms() - up / 1000000));
}

int engine_sandbox_metrics(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    struct box_traffic traffic = {0};
    struct box_stats stats = {0};
    double cpu = 0;
    bool has;
    json_t *o;

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    has = has_box(sb, NULL);
    if (has) {
        if (runtime_stats(e->runtime, &sb->box, &stats, err) < 0)
            return -1;
        cpu = cpu_percent(sb, stats.cpu_ns);
        (void)runtime_traffic(e->runtime, &sb->box, &traffic, NULL);
    }
    o = json_object();
    (void)json_object_set_new(o, "sandboxId", json_string(sb->box.id));
    (void)json_object_set_new(o, "cpuPercent", json_real(cpu));
    (void)json_object_set_new(o, "memoryUsageMb",
                              json_real((double)stats.memory_bytes / (1 << 20)));
    (void)json_object_set_new(o, "memoryLimitMb", json_real(sandbox_limits(sb).memory_mb));
    set_int(o, "networkRxBytes", traffic.rx_bytes);
    set_int(o, "networkTxBytes", traffic.tx_bytes);
    set_int(o, "pids", stats.pids);
    set_int(o, "cpuTimeNs", stats.cpu_ns);
    set_int(o, "diskReadBytes", 0);
    set_int(o, "diskWriteBytes", 0);
    set_int(o, "diskLimitBytes", (uint64_t)sb->spec.limits.disk_mb << 20);
    if (has)
        add_box(e, sb, o);
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

struct state_counter {
    unsigned *counts;
};

static bool count_state(struct sandbox *sb, const void *arg)
{
    const struct state_counter *counter = arg;

    pthread_mutex_lock(&sb->lock);
    counter->counts[sb->state]++;
    pthread_mutex_unlock(&sb->lock);
    return false;
}

void engine_count_states(struct engine *e, unsigned ret[SANDBOX_STATES])
{
    struct state_counter counter = {ret};
    size_t n;

    memset(ret, 0, SANDBOX_STATES * sizeof(*ret));
    free(roster_select(e, count_state, &counter, 0, 0, &n, NULL));
}

static void tell_usage(struct engine *e, struct sandbox *sb,
                       void (*each)(const struct engine_usage *u, void *arg), void *arg)
{
    struct box_traffic traffic = {0};
    struct box_stats stats = {0};

    if (runtime_stats(e->runtime, &sb->box, &stats, NULL) < 0)
        return;
    (void)runtime_traffic(e->runtime, &sb->box, &traffic, NULL);
    each(&(struct engine_usage){.id = sb->box.id,
                                .cpu_ns = stats.cpu_ns,
                                .memory_bytes = stats.memory_bytes,
                                .pids = stats.pids,
                                .rx_bytes = traffic.rx_bytes,
                                .tx_bytes = traffic.tx_bytes},
         arg);
}

void engine_each_usage(struct engine *e, void (*each)(const struct engine_usage *u, void *arg),
                       void *arg)
{
    size_t n;
    auto_free struct sandbox **all = roster_select(e, has_box, NULL, 0, SIZE_MAX, &n, NULL);

    for (size_t i = 0; i < n; i++) {
        tell_usage(e, all[i], each, arg);
        sandbox_unref(all[i]);
    }
}

int engine_memory_limit(struct engine *e, const char *id, uint32_t *ret_mb, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    *ret_mb = sandbox_limits(sb).memory_mb;
    return 0;
}

int engine_load(struct engine *e, const char *id, struct engine_load *ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    struct box_stats stats = {0};

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    *ret = (struct engine_load){.limits = sandbox_limits(sb)};
    if (!is_running(sb) || runtime_stats(e->runtime, &sb->box, &stats, NULL) < 0)
        return 0;
    ret->runs = true;
    ret->cpu_ns = stats.cpu_ns;
    ret->memory_bytes = stats.memory_bytes;
    ret->pids = stats.pids;
    ret->knows_disk = look_at_disk(e, sb, &ret->disk_bytes);
    return 0;
}
