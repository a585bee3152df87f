#include "model/sandbox.h"
#include "model/shapes.h"

static const struct field config_fields[] = {
    {"image", FIELD_STRING, .example = "\"python:3.12-slim\"", .help = "as it was asked for"},
    {"name", FIELD_STRING, .optional = true, .help = "as it was asked for"},
    {"timeout", FIELD_INT, .example = "300", .help = "seconds; 0 = it does not expire"},
    {"idleTimeout", FIELD_INT, .optional = true, .example = "600",
     .help = "seconds without use until it is stopped"},
    {"idleRemoves", FIELD_BOOL, .optional = true,
     .help = "true: after idleTimeout it is removed, not stopped, as sandboxes of iii are"},
    {"onTimeout", FIELD_STRING, .optional = true, .choices = sandbox_timeout_words,
     .help = "stop: after timeout it is stopped and keeps its files; absent = it is removed"},
    {"memory", FIELD_INT, .example = "512", .help = "MB"},
    {"cpu", FIELD_NUMBER, .example = "1.0", .help = "cores"},
    {"disk", FIELD_INT, .example = "4096", .help = "MB"},
    {"pids", FIELD_INT, .example = "1024", .help = "processes and threads at a time"},
    {"network", FIELD_NETWORK, .optional = true, .of = &network_policy_shape, .example = "true",
     .help = "what it may reach: true is the public internet; absent = nothing"},
    {"env", FIELD_STRING_MAP, .optional = true, .help = "environment of every command"},
    {"workdir", FIELD_STRING, .example = "\"/workspace\"", .help = "where commands start"},
    {"metadata", FIELD_STRING_MAP, .optional = true, .help = "of the caller"},
    {"entrypoint", FIELD_STRINGS, .optional = true, .help = "main process, as arguments"},
    {"template", FIELD_STRING, .optional = true, .help = "name of the template that it is of"},
    {"templateBuild", FIELD_STRING, .optional = true,
     .help = "imageId of the template's build that it was made from"},
    {"networks", FIELD_STRINGS, .optional = true, .example = "[" EXAMPLE_NETWORK_ID "]",
     .help = "ids of the networks that it is connected to"},
    {"mounts", FIELD_ARRAY, .optional = true, .of = &mount_shape,
     .help = "volumes, tmpfs and folders of the host"},
    {"ports", FIELD_ARRAY, .optional = true, .of = &port_record_shape,
     .help = "ports of it that can be reached on the host"},
    {0},
};
const struct shape sandbox_config_shape = {"SandboxConfig", config_fields,
                                           .help = "what a sandbox was made from"};

static const char *const main_words[] = {"running", "exited", "unknown", NULL};

static const struct field main_fields[] = {
    {"state", FIELD_STRING, .choices = main_words, .example = "\"exited\"",
     .help = "unknown when the sandbox does not say"},
    {"exitCode", FIELD_INT, .optional = true, .example = "1",
     .help = "once it has ended: 128 and the signal's number after a signal"},
    {"reason", FIELD_STRING, .optional = true, .choices = exec_end_words,
     .help = "why it ended, with exitCode"},
    {"oom", FIELD_BOOL, .optional = true,
     .help = "true when the kernel killed for lack of memory while it ran"},
    {"message", FIELD_STRING, .optional = true,
     .help = "how it ended, in words; absent when it ended by itself"},
    {"startedAt", FIELD_INT, .optional = true, .help = "Unix milliseconds, with exitCode"},
    {"finishedAt", FIELD_INT, .optional = true, .help = "Unix milliseconds, with exitCode"},
    {"output", FIELD_STRING, .optional = true, .example = "\"no such file: app.py\\n\"",
     .help = "the last lines that it put out, once it has ended"},
    {0},
};
static const struct shape main_state_shape = {"EntrypointState", main_fields,
                                              .help = "how the main process is"};

static const struct field sandbox_fields[] = {
    {"id", FIELD_STRING, .example = EXAMPLE_SANDBOX_ID, .help = "sbx_ and 24 hex digits"},
    {"name", FIELD_STRING, .example = "\"demo\"", .help = "for people; the id when none was given"},
    {"image", FIELD_STRING, .example = "\"python:3.12-slim\"", .help = "as it was asked for"},
    {"status", FIELD_STRING, .choices = sandbox_state_words + SANDBOX_CREATING,
     .example = "\"running\"", .help = "what it does"},
    {"reason", FIELD_STRING, .optional = true, .help = "why it is stopped, or was paused unasked"},
    {"createdAt", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {"expiresAt", FIELD_INT, .example = "1767225900000", .help = "Unix milliseconds; 0 = never"},
    {"idleAt", FIELD_INT, .optional = true,
     .help = "Unix milliseconds: when it is stopped if nothing is done with it until then; of one "
             "that runs and has an idleTimeout"},
    {"draining", FIELD_BOOL, .optional = true,
     .help = "true: it is about to stop, and takes no new commands"},
    {"metadata", FIELD_STRING_MAP, .example = "{\"team\": \"blue\"}", .help = "of the caller"},
    {"entrypoint", FIELD_STRINGS, .optional = true, .help = "main process, as arguments"},
    {"entrypointState", FIELD_OBJECT, .optional = true, .of = &main_state_shape,
     .help = "how the main process is; with entrypoint"},
    {"config", FIELD_OBJECT, .of = &sandbox_config_shape, .help = "what it was made from"},
    {"runtime", FIELD_STRING, .example = "\"native\"", .help = "what runs it"},
    {"isolation", FIELD_STRING, .example = "\"shared kernel, hardened\"",
     .help = "what stands between it and the host"},
    {"warnings", FIELD_STRINGS, .optional = true,
     .help = "of a create: what was sent and ignored, and why; of a clone also what it lacks"},
    {0},
};
const struct shape sandbox_shape = {"Sandbox", sandbox_fields, .help = "one box"};

static const struct field list_fields[] = {
    {"items", FIELD_ARRAY, .of = &sandbox_shape, .help = "the newest first"},
    {"total", FIELD_INT, .example = "1", .help = "on all pages"},
    {"page", FIELD_INT, .example = "1", .help = "counted from 1"},
    {"pageSize", FIELD_INT, .example = "20", .help = "the most on a page"},
    {"nextCursor", FIELD_INT, .optional = true,
     .help = "cursor of the next page; absent on the last"},
    {0},
};
const struct shape sandbox_list_shape = {"SandboxList", list_fields,
                                         .help = "one page of sandboxes"};

/* ---- events of a create whose image must come first ---- */

static const char *const sandbox_word[] = {"sandbox", NULL};

static const struct field sandbox_event_fields[] = {
    {"event", FIELD_STRING, .choices = sandbox_word, .help = "the last one"},
    {"sandbox", FIELD_OBJECT, .of = &sandbox_shape, .help = "it runs"},
    {0},
};
static const struct shape sandbox_event_shape = {"SandboxEvent", sandbox_event_fields,
                                                 .help = "the sandbox runs"};

static const struct shape *const create_events[] = {
    &resolving_event_shape,       &resolved_event_shape,
    &layer_event_shape,           &storing_event_shape,
    &build_step_event_shape,      &build_output_event_shape,
    &build_step_done_event_shape, &sandbox_event_shape,
    &error_event_shape,           NULL,
};
const struct shape create_event_shape = {
    "CreateEvent", .one_of = create_events,
    .help =
        "what a pull of the image and a build of the template do, then the sandbox or an error"};
