#include "model/shapes.h"

static const char *const outcomes[] = {"ok", "error", NULL};

static const struct field trace_fields[] = {
    {"id", FIELD_STRING, .example = "\"trc_b7ad6b71692033310af76519\"", .help = "of the trace"},
    {"functionId", FIELD_STRING, .example = "\"cmd::run\"", .help = "what was called"},
    {"sandboxId", FIELD_STRING, .optional = true, .example = EXAMPLE_SANDBOX_ID,
     .help = "that it was about"},
    {"duration", FIELD_NUMBER, .example = "2.314", .help = "ms, from the request to its end"},
    {"status", FIELD_STRING, .choices = outcomes, .help = "how it ended"},
    {"error", FIELD_STRING, .optional = true, .example = "\"Sandbox not found: sbx_1\"",
     .help = "why it failed"},
    {"code", FIELD_STRING, .optional = true, .example = "\"sandbox_not_found\"",
     .help = "the same as a word"},
    {"timestamp", FIELD_INT, .example = "1767225600000", .help = "when it ended"},
    {"caller", FIELD_STRING, .example = "\"root\"", .help = "who called"},
    {"face", FIELD_STRING, .example = "\"rest\"", .help = "by which way"},
    {"traceId", FIELD_STRING, .example = "\"0af7651916cd43dd8448eb211c80319c\"",
     .help = "the caller's, if it sent a traceparent header"},
    {"spanId", FIELD_STRING, .example = "\"b7ad6b7169203331\"", .help = "of this call"},
    {"parentSpanId", FIELD_STRING, .optional = true, .example = "\"00f067aa0ba902b7\"",
     .help = "of the caller's, if it sent one"},
    {0},
};
const struct shape trace_shape = {"Trace", trace_fields, .help = "a call that has ended"};

static const struct field traces_fields[] = {
    {"traces", FIELD_ARRAY, .of = &trace_shape, .help = "newest first"},
    {"total", FIELD_INT, .example = "1", .help = "how many match"},
    {0},
};
const struct shape traces_shape = {"Traces", traces_fields, .help = "calls that have ended"};

#define DURATION_FIELDS                                                                            \
    {"avgDuration", FIELD_NUMBER, .example = "3.2", .help = "ms; streams count for none"},         \
        {"p50Duration", FIELD_NUMBER, .example = "2.1", .help = "ms: half of them took less"},     \
        {"p95Duration", FIELD_NUMBER, .example = "8.9", .help = "ms: 95 of 100 took less"},        \
    {                                                                                              \
        "p99Duration", FIELD_NUMBER, .example = "21.5", .help = "ms: 99 of 100 took less"          \
    }

static const struct field function_fields[] = {
    {"functionId", FIELD_STRING, .example = "\"cmd::run\"", .help = "what was called"},
    {"count", FIELD_INT, .example = "40", .help = "how often"},
    {"errors", FIELD_INT, .example = "1", .help = "of these, how many failed"},
    DURATION_FIELDS,
    {0},
};
static const struct shape function_metrics_shape = {"FunctionMetrics", function_fields,
                                                    .help = "calls of one function"};

static const struct field summary_fields[] = {
    {"totalRequests", FIELD_INT, .example = "42",
     .help = "since the data folder is there, or since the last clear"},
    {"totalErrors", FIELD_INT, .example = "1", .help = "of these, how many failed"},
    DURATION_FIELDS,
    {"activeSandboxes", FIELD_INT, .example = "1", .help = "that run or are paused"},
    {"functionCounts", FIELD_OBJECT, .example = "{\"cmd::run\": 40, \"sandbox::create\": 2}",
     .help = "how often each function was called"},
    {"functions", FIELD_ARRAY, .of = &function_metrics_shape, .help = "each, most called first"},
    {0},
};
const struct shape trace_summary_shape = {"ObservabilityMetrics", summary_fields,
                                          .help = "what all calls add up to"};

static const struct field cleared_fields[] = {
    {"cleared", FIELD_INT, .example = "42", .help = "how many were removed"},
    {0},
};
const struct shape traces_cleared_shape = {"TracesCleared", cleared_fields,
                                           .help = "how many traces were removed"};

static const struct field sample_fields[] = {
    {"timestamp", FIELD_INT, .example = "1767225600000", .help = "when it was looked at"},
    {"cpuPercent", FIELD_NUMBER, .example = "12.5", .help = "of a core, since the one before"},
    {"memoryUsageMb", FIELD_NUMBER, .example = "18.25", .help = "MB in use"},
    {"pids", FIELD_INT, .example = "3", .help = "processes and threads"},
    {"networkRxBytes", FIELD_INT, .example = "0", .help = "received until then"},
    {"networkTxBytes", FIELD_INT, .example = "0", .help = "sent until then"},
    {0},
};
static const struct shape metrics_sample_shape = {"MetricsSample", sample_fields,
                                                  .help = "what a sandbox used at one time"};

static const struct field history_fields[] = {
    {"sandboxId", FIELD_STRING, .example = EXAMPLE_SANDBOX_ID, .help = "whose"},
    {"interval", FIELD_NUMBER, .example = "5.0", .help = "seconds between two"},
    {"memoryLimitMb", FIELD_NUMBER, .example = "512.0", .help = "MB that it may use"},
    {"samples", FIELD_ARRAY, .of = &metrics_sample_shape, .help = "oldest first"},
    {0},
};
const struct shape metrics_history_shape = {"MetricsHistory", history_fields,
                                            .help = "what a sandbox used lately"};
