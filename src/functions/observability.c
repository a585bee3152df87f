#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "engine/metrics.h"
#include "functions/functions_internal.h"
#include "service/exposition.h"
#include "service/prometheus.h"
#include "service/services.h"
#include "service/traces.h"
#include "service/usage.h"

#define LIMIT_MAX 1000

static struct traces *traces_of(const struct call *call)
{
    return call->services ? call->services->traces : NULL;
}

/* ---- traces ---- */

static int list(struct call *call, struct err *err)
{
    const char *status = in_str(call, "status"), *trace = in_str(call, "traceId");
    uint8_t trace_id[16];
    struct trace_query q = {
        .sandbox_id = in_id(call),
        .function = in_str(call, "functionId"),
        .trace_id = trace ? trace_id : NULL,
        .outcome = !status            ? TRACE_ANY
                   : status[0] == 'o' ? TRACE_OK
                                      : TRACE_FAILED,
        .since_ms = in_int(call, "since"),
        .limit = (uint32_t)in_int(call, "limit"),
        .offset = (uint32_t)in_int(call, "offset"),
    };

    if (trace && (strlen(trace) != 32 || !hex_bytes(trace, 16, trace_id)))
        return err_set(err, ERR_INVALID, "traceId must be 32 lower-case hex digits");
    if (traces_of(call))
        return traces_list(traces_of(call), &q, &call->out, err);
    call->out = json_pack("{s:[], s:i}", "traces", "total", 0);
    return 0;
}

static int clear(struct call *call, struct err *err)
{
    const json_t *before = json_object_get(call->in, "before");
    uint64_t cleared = 0;

    if (traces_of(call) &&
        traces_clear(traces_of(call), before ? json_integer_value(before) : now_ms(), &cleared,
                     err) < 0)
        return -1;
    call->out = json_pack("{s:I}", "cleared", (json_int_t)cleared);
    return 0;
}

/* ---- metrics ---- */

static int summary(struct call *call, struct err *err)
{
    struct traces *traces = traces_of(call);
    unsigned states[SANDBOX_STATES];

    (void)err;
    engine_count_states(call->engine, states);
    call->out = traces ? traces_summary(traces) : traces_no_summary();
    (void)json_object_set_new(
        call->out, "activeSandboxes",
        json_integer((json_int_t)states[SANDBOX_RUNNING] + states[SANDBOX_PAUSED]));
    return 0;
}

static int prometheus(struct call *call, struct err *err)
{
    const struct services alone = {.engine = call->engine};
    struct prometheus p;
    int r;

    prometheus_init(&p);
    exposition_write(call->services ? call->services : &alone, call->about->runtime, &p);
    r = sink_size(call, p.text.len, err);
    if (r == 0)
        r = sink_bytes(call, CHANNEL_ANSWER, p.text.data, p.text.len, err);
    prometheus_done(&p);
    return r;
}

static int history(struct call *call, struct err *err)
{
    if (!call->services || !call->services->usage)
        return err_code(err, ERR_UNSUPPORTED, "unsupported",
                        "what sandboxes use is not kept: CAY_METRICS_INTERVAL is 0");
    return usage_history(call->services->usage, in_id(call), in_int(call, "since"), &call->out,
                         err);
}

static const char *const outcomes[] = {"ok", "error", NULL};

static const struct field list_fields[] = {
    {"sandboxId", FIELD_STRING, .optional = true, .max = 1024, .example = EXAMPLE_SANDBOX_ID,
     .help = "only calls about this sandbox: its id, or its name while it is there"},
    {"functionId", FIELD_STRING, .optional = true, .max = 64, .example = "\"cmd::run\"",
     .help = "only calls of this function"},
    {"status", FIELD_STRING, .optional = true, .choices = outcomes,
     .help = "only calls that ended so"},
    {"traceId", FIELD_STRING, .optional = true, .pattern = "^[0-9a-f]{32}$",
     .example = "\"0af7651916cd43dd8448eb211c80319c\"", .help = "only calls of this trace"},
    {"since", FIELD_INT, .optional = true, .min = 0, .max = 1e15, .example = "1767225600000",
     .help = "only calls that ended then or later: ms since 1970"},
    {"limit", FIELD_INT, .clamp = true, .min = 1, .max = LIMIT_MAX, .preset = "100",
     .help = "how many at most"},
    {"offset", FIELD_INT, .clamp = true, .min = 0, .max = 1e9, .preset = "0",
     .help = "how many to leave out first"},
    {0},
};

static const struct field clear_fields[] = {
    {"before", FIELD_INT, .optional = true, .min = 0, .max = 1e15, .example = "1767225600000",
     .help = "those that ended before: ms since 1970; now when absent"},
    {0},
};

static const struct field history_fields[] = {
    {"since", FIELD_INT, .clamp = true, .min = 0, .max = 1e15, .preset = "0",
     .help = "only what was seen then or later: ms since 1970"},
    {0},
};

const struct function observability_functions[] = {
    {"observability::traces", "GET", "/observability/traces", list_fields, list, "sandbox_traces",
     SCOPE_READ, .reach = REACH_FILTER, .help = "Lists calls that have ended, newest first",
     .gives = &traces_shape},
    {"observability::metrics", "GET", "/observability/metrics", NULL, summary,
     "sandbox_metrics_dashboard", SCOPE_READ, .reach = REACH_NEVER,
     .help = "Shows what all calls add up to: counts, failures, percentiles",
     .gives = &trace_summary_shape},
    {"observability::clear", "POST", "/observability/clear", clear_fields, clear, NULL, SCOPE_ADMIN,
     .reach = REACH_NEVER, .help = "Removes traces; counters of /metrics stay",
     .gives = &traces_cleared_shape},
    {"metrics::prometheus", "GET", "/metrics/prometheus", NULL, prometheus, NULL, SCOPE_READ,
     .reach = REACH_NEVER, .answer = ANSWER_PROMETHEUS,
     .help = "Tells all metrics as text for Prometheus; also at /metrics without the prefix"},
    {"metrics::history", "GET", "/sandboxes/:sandboxId/metrics/history", history_fields, history,
     NULL, SCOPE_READ, .reach = REACH_SANDBOX,
     .help = "Shows what a sandbox used within the last hour", .gives = &metrics_history_shape,
     .errors = ERRORS_GONE},
    {0},
};
