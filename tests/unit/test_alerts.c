#include "engine/metrics.h"
#include "service/alerts.h"
#include "service/alerts_internal.h"
#include "tap.h"

/* What is a crossing. Real sandboxes under real load are in tests/integration/test_alerts.py. */

static json_t *alert_of(const char *metric, double threshold)
{
    return json_pack("{s:s, s:f, s:b}", "metric", metric, "threshold", threshold, "triggered", 0);
}

static void check(json_t *alert, double pids, enum alert_verdict want)
{
    struct alert_values v = {.cpu = -1, .memory = -1, .pids = pids, .disk = -1};
    double value;

    CHECK_INT(alert_judge(alert, &v, 1000 + (int64_t)pids, &value), want);
    CHECK(value == pids);
}

TEST(it_fires_once_per_crossing_and_lets_go_a_little_below)
{
    json_t *alert = alert_of("pids", 100);

    check(alert, 99.9, ALERT_SAME);
    check(alert, 100, ALERT_FIRES);
    CHECK_INT(json_integer_value(json_object_get(alert, "lastTriggered")), 1100);
    check(alert, 200, ALERT_SAME);
    check(alert, 99, ALERT_SAME); /* not far enough: it would come and go */
    check(alert, 101, ALERT_SAME);
    check(alert, 94.9, ALERT_RESOLVES);
    CHECK(json_is_false(json_object_get(alert, "triggered")));
    check(alert, 90, ALERT_SAME);
    check(alert, 100, ALERT_FIRES);
    CHECK_INT(json_integer_value(json_object_get(alert, "lastChecked")), 1100);
    json_decref(alert);
}

TEST(what_is_not_known_changes_nothing)
{
    json_t *alert = alert_of("cpu", 0), *none = alert_of("pids", 0);

    check(none, 0, ALERT_FIRES);
    {
        struct alert_values v = {.cpu = -1, .memory = 50, .pids = 5, .disk = 50};
        double value;

        CHECK_INT(alert_judge(alert, &v, 1, &value), ALERT_SAME);
        CHECK(!json_object_get(alert, "lastChecked"));
        v.cpu = 0;
        CHECK_INT(alert_judge(alert, &v, 1, &value), ALERT_FIRES);
    }
    json_decref(alert);
    json_decref(none);
}

TEST(values_are_shares_of_what_the_sandbox_may_use)
{
    struct engine_load load = {.cpu_ns = 1500000000,
                               .memory_bytes = 64 << 20,
                               .pids = 7,
                               .disk_bytes = 1 << 20,
                               .knows_disk = true,
                               .limits = {256, 500, 100, 4}};
    struct alert_values v;

    alert_values(&load, 1000000000, 1000000000, &v); /* half a second in one, of half a core */
    CHECK(v.cpu == 100 && v.memory == 25 && v.pids == 7 && v.disk == 25);
    alert_values(&load, 9000000000, 6000000000, &v); /* it came up again */
    CHECK(v.cpu == 50);
    load.knows_disk = false;
    alert_values(&load, 0, 0, &v);
    CHECK(v.cpu < 0 && v.disk < 0);
}

TAP_MAIN
