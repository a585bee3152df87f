#include "model/shapes.h"

static const struct field metrics_fields[] = {
    {"sandboxId", FIELD_STRING, .example = EXAMPLE_SANDBOX_ID, .help = "whose"},
    {"cpuPercent", FIELD_NUMBER, .example = "12.5", .help = "of a core, since the last look"},
    {"memoryUsageMb", FIELD_NUMBER, .example = "18.25", .help = "MB in use"},
    {"memoryLimitMb", FIELD_NUMBER, .example = "512.0", .help = "MB that it may use"},
    {"networkRxBytes", FIELD_INT, .example = "0", .help = "received"},
    {"networkTxBytes", FIELD_INT, .example = "0", .help = "sent"},
    {"pids", FIELD_INT, .example = "3", .help = "processes and threads"},
    {"cpuTimeNs", FIELD_INT, .optional = true, .example = "73000000",
     .help = "time of processors since it was started"},
    {"diskReadBytes", FIELD_INT, .optional = true, .example = "4096",
     .help = "that came from disks, since it was started"},
    {"diskWriteBytes", FIELD_INT, .optional = true, .example = "8192",
     .help = "and that were written for them"},
    {"diskUsedBytes", FIELD_INT, .optional = true, .example = "1048576",
     .help = "of its own disk; absent when that cannot be looked at just now"},
    {"diskLimitBytes", FIELD_INT, .optional = true, .example = "4294967296",
     .help = "that its disk can hold"},
    {"startedAt", FIELD_INT, .optional = true, .example = "1767225600000",
     .help = "Unix milliseconds; absent when it does not run"},
    {0},
};
const struct shape metrics_shape = {"Metrics", metrics_fields, .help = "what a sandbox uses"};

static const struct field global_fields[] = {
    {"activeSandboxes", FIELD_INT, .example = "1", .help = "that run or are paused"},
    {"stoppedSandboxes", FIELD_INT, .example = "2", .help = "whose disks are kept"},
    {"snapshots", FIELD_INT, .example = "3", .help = "how many there are"},
    {"volumes", FIELD_INT, .example = "1", .help = "how many there are"},
    {"totalCreated", FIELD_INT, .example = "42", .help = "since the data folder is there"},
    {"totalKilled", FIELD_INT, .example = "40", .help = "by a call"},
    {"totalExpired", FIELD_INT, .example = "1", .help = "because their time was over"},
    {"uptimeSeconds", FIELD_INT, .example = "3600", .help = "of the daemon"},
    {"diskFreeBytes", FIELD_INT, .example = "80530636800", .help = "where the disks are"},
    {"diskReserveBytes", FIELD_INT, .example = "1073741824",
     .help = "of these, what sandboxes do not get"},
    {"diskPromisedBytes", FIELD_INT, .example = "4294967296",
     .help = "the sum of the sizes of all disks"},
    {"diskLow", FIELD_BOOL, .example = "false", .help = "so that those that write are paused"},
    {0},
};
const struct shape global_metrics_shape = {"GlobalMetrics", global_fields,
                                           .help = "counters of the daemon"};
