#include "model/shapes.h"

static const char *const healthy[] = {"healthy", NULL};

static const char *const problems[] = {"disk_low",          "document_damaged",
                                       "launcher_down",     "sandbox_not_removed",
                                       "audit_not_written", NULL};

static const struct field problem_fields[] = {
    {"what", FIELD_STRING, .choices = problems, .help = "is tried again until it works"},
    {"since", FIELD_INT, .example = "1760000000000", .help = "ms since 1970"},
    {"attempts", FIELD_INT, .example = "3", .help = "that have failed"},
    {"sandboxId", FIELD_STRING, .optional = true, .example = EXAMPLE_SANDBOX_ID,
     .help = "what could not be taken away; for callers who may read"},
    {"text", FIELD_STRING, .optional = true, .example = "\"its processes do not end\"",
     .help = "why; for callers who may read"},
    {0},
};
static const struct shape problem_shape = {"HealthProblem", problem_fields,
                                           .help = "what does not work now"};

static const struct field health_fields[] = {
    {"status", FIELD_STRING, .choices = healthy, .help = "it answers"},
    {"version", FIELD_STRING, .example = "\"0.1.0\"", .help = "of the daemon"},
    {"problems", FIELD_ARRAY, .of = &problem_shape, .optional = true,
     .help = "what does not work and is being tried again, the oldest first; at most 100"},
    {0},
};
const struct shape health_shape = {"Health", health_fields, .help = "the daemon answers"};

static const struct field limits_fields[] = {
    {"memoryMinMb", FIELD_INT, .example = "64", .help = "MB"},
    {"memoryMaxMb", FIELD_INT, .example = "4096", .help = "MB"},
    {"cpuMin", FIELD_NUMBER, .example = "0.5", .help = "cores"},
    {"cpuMax", FIELD_NUMBER, .example = "4.0", .help = "cores"},
    {"pidsMin", FIELD_INT, .example = "16", .help = "processes and threads"},
    {"pidsMax", FIELD_INT, .example = "4096", .help = "processes and threads"},
    {"diskMinMb", FIELD_INT, .example = "64", .help = "MB"},
    {"diskMaxMb", FIELD_INT, .example = "1048576", .help = "MB"},
    {"timeoutMin", FIELD_INT, .example = "60", .help = "seconds"},
    {"timeoutMax", FIELD_INT, .optional = true, .example = "86400",
     .help = "seconds; absent = any, and a sandbox may have no end (0)"},
    {"maxSandboxes", FIELD_INT, .example = "50", .help = "at a time, without stopped ones"},
    {"maxStopped", FIELD_INT, .optional = true, .example = "200",
     .help = "stopped ones; absent = any"},
    {"maxCommandSeconds", FIELD_INT, .optional = true, .example = "300",
     .help = "of a command that is waited for; absent = any"},
    {0},
};
static const struct shape limits_shape = {"Limits", limits_fields,
                                          .help = "what a sandbox can be given"};

static const struct field info_fields[] = {
    {"version", FIELD_STRING, .example = "\"0.1.0\"", .help = "of the daemon"},
    {"runtime", FIELD_STRING, .example = "\"native\"", .help = "what runs sandboxes"},
    {"isolation", FIELD_STRING, .example = "\"shared kernel, hardened\"",
     .help = "what stands between a sandbox and the host"},
    {"workspace", FIELD_STRING, .example = "\"/workspace\"", .help = "where files belong"},
    {"defaultImage", FIELD_STRING, .example = "\"host\"",
     .help = "what CAY_DEFAULT_IMAGE says; clients may offer it"},
    {"limits", FIELD_OBJECT, .of = &limits_shape, .help = "what a sandbox can be given"},
    {0},
};
const struct shape info_shape = {"Info", info_fields, .help = "what this daemon is"};

static const struct field openapi_value = {.type = FIELD_OBJECT,
                                           .example = "{\"openapi\": \"3.1.0\"}"};
const struct shape openapi_shape = {"OpenApi", .value = &openapi_value,
                                    .help = "an OpenAPI 3.1 document"};

static const struct field sweep_fields[] = {
    {"swept", FIELD_INT, .example = "2", .help = "how many were removed"},
    {0},
};
const struct shape sweep_shape = {
    "Sweep", sweep_fields, .help = "sandboxes whose time was over: removed, or about to stop"};

static const struct field stray_fields[] = {
    {"id", FIELD_STRING, .example = EXAMPLE_SANDBOX_ID, .help = "whose it was"},
    {"path", FIELD_STRING, .example = "\"/var/lib/cay/sandboxes/sbx_5f0c1e6b2a9d4c7e8f013b52.img\"",
     .help = "of its disk on the host; empty when it has none"},
    {"bytes", FIELD_INT, .example = "1048576", .help = "that the disk takes on the host"},
    {"processes", FIELD_INT, .example = "0", .help = "that still run"},
    {0},
};
static const struct shape stray_shape = {"Stray", stray_fields,
                                         .help = "something that belongs to no sandbox"};

static const struct field strays_fields[] = {
    {"strays", FIELD_ARRAY, .of = &stray_shape, .help = "nothing is done about them unasked"},
    {"bytes", FIELD_INT, .example = "1048576", .help = "that all of them take"},
    {0},
};
const struct shape strays_shape = {"Strays", strays_fields, .help = "what belongs to no sandbox"};

static const struct field success_fields[] = {
    {"success", FIELD_BOOL, .example = "true", .help = "always true"},
    {0},
};
const struct shape success_shape = {"Success", success_fields, .help = "it is done"};

static const char *const spawn_words[] = {
    "not_found",      "permission_denied", "not_executable", "bad_cwd", "bad_args",
    "resource_limit", "user_setup_failed", "out_of_memory",  NULL};
static const char *const stage_words[] = {"fork", "user", "rlimit", "cwd", "exec", NULL};

static const struct field error_fields[] = {
    {"error", FIELD_STRING, .example = "\"Sandbox not found: sbx_0\"",
     .help = "what was wrong and what to do"},
    {"code", FIELD_STRING, .example = "\"sandbox_not_found\"",
     .help = "a stable word for programs; each operation lists its own"},
    {"execId", FIELD_STRING, .optional = true, .example = EXAMPLE_EXEC_ID,
     .help = "of command_timeout: of the command"},
    {"exitCode", FIELD_INT, .optional = true,
     .help = "of command_timeout 124; of template_not_ready the command's"},
    {"stdout", FIELD_STRING, .optional = true, .help = "of command_timeout: what it printed"},
    {"stderr", FIELD_STRING, .optional = true, .help = "of command_timeout: what it printed"},
    {"truncated", FIELD_BOOL, .optional = true,
     .help = "of command_timeout: there was more output than is kept"},
    {"command", FIELD_STRING, .optional = true, .example = "\"RUN make\"",
     .help = "of a build: the step that failed"},
    {"output", FIELD_STRING, .optional = true,
     .help = "of a build and of template_not_ready: the last lines of the command's output"},
    {"kind", FIELD_STRING, .optional = true, .choices = spawn_words,
     .help = "of a command that could not be started: why"},
    {"stage", FIELD_STRING, .optional = true, .choices = stage_words,
     .help = "of a command that could not be started: what was being done"},
    {"errno", FIELD_INT, .optional = true,
     .help = "of a command that could not be started: what the kernel said, if it did"},
    {"errnoName", FIELD_STRING, .optional = true, .help = "the same as a word: ENOENT"},
    {"processes", FIELD_ARRAY, .optional = true, .of = &volume_holder_shape,
     .help = "of volume_busy: who has files of it open, 16 at most"},
    {0},
};
const struct shape error_shape = {"Error", error_fields, .help = "any failure"};
