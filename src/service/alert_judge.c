#include <string.h>

#include "engine/metrics.h"
#include "service/alerts.h"
#include "service/alerts_internal.h"

const char *const alert_metrics[] = {"cpu", "memory", "pids", "disk", NULL};
const char *const alert_actions[] = {"notify", "pause", "kill", NULL};

#define LET_GO 0.95 /* of the threshold: below that it is over */

static double percent(uint64_t used, uint64_t most)
{
    return most > 0 ? 100.0 * (double)used / (double)most : -1;
}

void alert_values(const struct engine_load *now, uint64_t cpu_before, int64_t elapsed_ns,
                  struct alert_values *ret)
{
    /* A box that came up again begins at 0. */
    uint64_t used = now->cpu_ns >= cpu_before ? now->cpu_ns - cpu_before : now->cpu_ns;
    double may = (double)elapsed_ns * now->limits.cpu_millis / 1000;

    *ret = (struct alert_values){
        .cpu = may > 0 ? 100.0 * (double)used / may : -1,
        .memory = percent(now->memory_bytes, (uint64_t)now->limits.memory_mb << 20),
        .pids = (double)now->pids,
        .disk =
            now->knows_disk ? percent(now->disk_bytes, (uint64_t)now->limits.disk_mb << 20) : -1,
    };
}

static double value_of(const char *metric, const struct alert_values *v)
{
    if (strcmp(metric, "cpu") == 0)
        return v->cpu;
    if (strcmp(metric, "memory") == 0)
        return v->memory;
    return strcmp(metric, "disk") == 0 ? v->disk : v->pids;
}

enum alert_verdict alert_judge(json_t *alert, const struct alert_values *v, int64_t time_ms,
                               double *ret_value)
{
    double threshold = json_number_value(json_object_get(alert, "threshold"));
    bool was = json_is_true(json_object_get(alert, "triggered"));
    double value = value_of(json_string_value(json_object_get(alert, "metric")), v);

    *ret_value = value;
    if (value < 0)
        return ALERT_SAME;
    (void)json_object_set_new(alert, "lastChecked", json_integer((json_int_t)time_ms));
    if (!was && value >= threshold) {
        (void)json_object_set_new(alert, "triggered", json_true());
        (void)json_object_set_new(alert, "lastTriggered", json_integer((json_int_t)time_ms));
        return ALERT_FIRES;
    }
    if (was && value < LET_GO * threshold) {
        (void)json_object_set_new(alert, "triggered", json_false());
        return ALERT_RESOLVES;
    }
    return ALERT_SAME;
}
