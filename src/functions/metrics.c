#include "engine/metrics.h"
#include "engine/health.h"
#include "functions/functions_internal.h"

static int of_sandbox(struct call *call, struct err *err)
{
    return engine_sandbox_metrics(call->engine, in_id(call), &call->out, err);
}

static int global(struct call *call, struct err *err)
{
    return engine_metrics(call->engine, &call->out, err);
}

static int health(struct call *call, struct err *err)
{
    json_t *problems = engine_problems(call->engine, caller_sees_daemon(call->caller));

    (void)err;
    call->out = json_pack("{s:s, s:s}", "status", "healthy", "version", CAY_VERSION);
    if (problems)
        (void)json_object_set_new(call->out, "problems", problems);
    return 0;
}

const struct function metrics_functions[] = {
    {"metrics::sandbox", "GET", "/sandboxes/:sandboxId/metrics", NULL, of_sandbox,
     "sandbox_metrics", SCOPE_READ, .reach = REACH_SANDBOX, .help = "Shows what a sandbox uses",
     .gives = &metrics_shape, .errors = ERRORS_GONE},
    {"metrics::global", "GET", "/metrics", NULL, global, NULL, SCOPE_READ, .reach = REACH_NEVER,
     .help = "Shows counters of the daemon", .gives = &global_metrics_shape},
    {"metrics::health", "GET", "/health", NULL, health, NULL, SCOPE_NONE, .reach = REACH_ALL,
     .flags = FUNCTION_OPEN, .help = "Says that the daemon answers", .gives = &health_shape},
    {0},
};
