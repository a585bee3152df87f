#include "service/exposition.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/procstat.h"
#include "engine/metrics.h"
#include "engine/pool.h"
#include "service/events.h"
#include "service/otlp.h"
#include "service/prometheus.h"
#include "service/queue.h"
#include "service/services.h"
#include "service/traces.h"
#include "service/usage.h"

static void tell_build(struct prometheus *p, const char *runtime)
{
    prometheus_family(p, "cay_build_info", "gauge", "Always 1; its labels say what runs.");
    prometheus_sample(p, 1, "version", CAY_VERSION, "runtime", runtime, NULL);
}

/* ---- of the engine ---- */

static void tell_states(struct engine *e, struct prometheus *p)
{
    unsigned counts[SANDBOX_STATES];

    engine_count_states(e, counts);
    prometheus_family(p, "cay_sandboxes", "gauge", "Sandboxes, by their state.");
    for (int i = 0; i < SANDBOX_STATES; i++)
        prometheus_sample(p, counts[i], "state", sandbox_state_name((enum sandbox_state)i), NULL);
}

/* Members of GlobalMetrics. */
static const struct {
    const char *member, *name;
    bool counts; /* it only grows */
    const char *help;
} of_engine[] = {
    {"totalCreated", "cay_sandboxes_created_total", true, "Sandboxes made."},
    {"totalKilled", "cay_sandboxes_killed_total", true, "Sandboxes removed by a call."},
    {"totalExpired", "cay_sandboxes_expired_total", true, "Sandboxes whose time was over."},
    {"snapshots", "cay_snapshots", false, "Snapshots."},
    {"volumes", "cay_volumes", false, "Volumes."},
    {"diskFreeBytes", "cay_disk_free_bytes", false, "Free where the disks of sandboxes are."},
    {"diskReserveBytes", "cay_disk_reserve_bytes", false, "Of these, what they do not get."},
    {"diskPromisedBytes", "cay_disk_promised_bytes", false, "The sum of the sizes of all disks."},
    {"diskLow", "cay_disk_low", false, "1 while sandboxes that write are paused for lack of room."},
};

static double number_of(const json_t *value)
{
    return json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
}

static void tell_engine(struct engine *e, struct prometheus *p)
{
    json_t *o = NULL;

    tell_states(e, p);
    if (engine_metrics(e, &o, NULL) < 0)
        return;
    for (size_t i = 0; i < sizeof(of_engine) / sizeof(of_engine[0]); i++) {
        const json_t *value = json_object_get(o, of_engine[i].member);

        if (!value)
            continue;
        if (of_engine[i].counts)
            prometheus_counter(p, of_engine[i].name, number_of(value), of_engine[i].help);
        else
            prometheus_gauge(p, of_engine[i].name, number_of(value), of_engine[i].help);
    }
    json_decref(o);
}

static void tell_pool(struct engine *e, struct prometheus *p)
{
    json_t *o = NULL;

    engine_pool_status(e, false, &o);
    prometheus_gauge(p, "cay_pool_size", number_of(json_object_get(o, "total")),
                     "Boxes that are to be ready before somebody asks for one.");
    prometheus_gauge(p, "cay_pool_ready", number_of(json_object_get(o, "ready")),
                     "Boxes that are.");
    json_decref(o);
}

static void tell_events(struct events *ev, struct prometheus *p)
{
    struct events_figures f;

    events_figures(ev, &f);
    prometheus_counter(p, "cay_events_published_total", (double)f.published,
                       "Events since the daemon started.");
    prometheus_counter(p, "cay_events_lost_total", (double)f.lost,
                       "Events that came faster than they could be written.");
    prometheus_gauge(p, "cay_events_kept", (double)f.kept, "Events in the history.");
    prometheus_gauge(p, "cay_events_readers", f.readers, "Who reads events as they come.");
}

static void tell_queue(struct queue *q, struct prometheus *p)
{
    struct queue_numbers n;

    queue_numbers(q, &n);
    prometheus_family(p, "cay_queue_jobs", "gauge", "Jobs that are not over.");
    prometheus_sample(p, (double)(n.open - n.running), "status", "pending", NULL);
    prometheus_sample(p, (double)n.running, "status", "running", NULL);
    prometheus_family(p, "cay_queue_jobs_finished_total", "counter",
                      "Jobs that are over, since the daemon started.");
    prometheus_sample(p, (double)n.completed, "status", "completed", NULL);
    prometheus_sample(p, (double)n.failed, "status", "failed", NULL);
    prometheus_sample(p, (double)n.cancelled, "status", "cancelled", NULL);
    prometheus_counter(p, "cay_queue_retries_total", (double)n.retried,
                       "Jobs that were tried again, since the daemon started.");
}

/* ---- of the process: what every client library tells, by the same names ---- */

static double open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    double n = -1; /* the folder's own */

    while (dir && readdir(dir))
        n++;
    if (dir)
        (void)closedir(dir);
    return n > 2 ? n - 2 : 0; /* "." and ".." */
}

static double start_seconds(const struct proc_stat *stat, double per_second)
{
    struct timespec boot;

    (void)clock_gettime(CLOCK_BOOTTIME, &boot);
    return (double)now_ms() / 1000 - (double)boot.tv_sec - (double)boot.tv_nsec / 1e9 +
           (double)stat->start_ticks / per_second;
}

static void tell_process(struct prometheus *p)
{
    double per_second = (double)sysconf(_SC_CLK_TCK), page = (double)sysconf(_SC_PAGESIZE);
    struct proc_stat stat;
    struct rlimit fds;

    if (proc_stat_read(getpid(), &stat) < 0)
        return;
    prometheus_counter(p, "process_cpu_seconds_total", (double)stat.cpu_ticks / per_second,
                       "Processor time of the daemon.");
    prometheus_gauge(p, "process_resident_memory_bytes", (double)stat.rss_pages * page,
                     "Memory of the daemon.");
    prometheus_gauge(p, "process_virtual_memory_bytes", (double)stat.vsz,
                     "Addresses of the daemon.");
    prometheus_gauge(p, "process_threads", stat.threads, "Threads of the daemon.");
    prometheus_gauge(p, "process_start_time_seconds", start_seconds(&stat, per_second),
                     "When the daemon started, in seconds since 1970.");
    prometheus_gauge(p, "process_open_fds", open_fds(), "Descriptors that the daemon has open.");
    if (getrlimit(RLIMIT_NOFILE, &fds) == 0)
        prometheus_gauge(p, "process_max_fds", (double)fds.rlim_cur, "As many as it may have.");
}

void exposition_write(const struct services *s, const char *runtime, struct prometheus *p)
{
    tell_build(p, runtime);
    tell_engine(s->engine, p);
    tell_pool(s->engine, p);
    if (s->events)
        tell_events(s->events, p);
    if (s->queue)
        tell_queue(s->queue, p);
    if (s->usage)
        usage_prometheus(s->usage, p);
    if (s->traces)
        traces_prometheus(s->traces, p);
    if (s->otlp)
        otlp_prometheus(s->otlp, p);
    tell_process(p);
}
