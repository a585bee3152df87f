#include "model/shapes.h"

/* What the functions of the worker `iii-sandbox` give, with its names for things. */

static const struct field created_fields[] = {
    {"sandbox_id", FIELD_STRING, .example = EXAMPLE_SANDBOX_UUID,
     .help = "a UUID, for all other calls"},
    {"image", FIELD_STRING, .example = "\"python\"", .help = "as it was asked for"},
    {0},
};
const struct shape iii_created_shape = {"IiiCreated", created_fields, .help = "a new sandbox"};

static const struct field stopped_fields[] = {
    {"sandbox_id", FIELD_STRING, .example = EXAMPLE_SANDBOX_UUID, .help = "as it was asked for"},
    {"stopped", FIELD_BOOL, .example = "true", .help = "always true"},
    {0},
};
const struct shape iii_stopped_shape = {"IiiStopped", stopped_fields,
                                        .help = "a sandbox that is gone"};

static const struct field sandbox_fields[] = {
    {"sandbox_id", FIELD_STRING, .example = EXAMPLE_SANDBOX_UUID, .help = "a UUID"},
    {"name", FIELD_STRING, .nullable = true, .help = "the label that it was given"},
    {"image", FIELD_STRING, .example = "\"python\"", .help = "as it was asked for"},
    {"age_secs", FIELD_INT, .example = "12", .help = "seconds since it was made"},
    {"exec_in_progress", FIELD_BOOL, .help = "a command runs"},
    {"exec_in_flight", FIELD_INT, .help = "how many commands run"},
    {"exec_slots_free", FIELD_INT, .example = "4", .help = "how many more may"},
    {"stopped", FIELD_BOOL, .help = "always false: one that has stopped is not listed"},
    {"cpus", FIELD_NUMBER, .example = "1", .help = "cores"},
    {"memory_mb", FIELD_INT, .example = "512", .help = "MB of memory"},
    {"network", FIELD_NETWORK, .of = &network_policy_shape, .example = "false",
     .help = "what it may reach: false nothing, true the public internet, or a policy"},
    {"idle_timeout_secs", FIELD_INT, .example = "300",
     .help = "seconds without use until it goes; 0 = it does not"},
    {"created_at", FIELD_INT, .example = "1767225600", .help = "Unix seconds"},
    {"last_activity", FIELD_INT, .example = "1767225600",
     .help = "Unix seconds: when it was last used"},
    {0},
};
static const struct shape sandbox_shape_of_iii = {"IiiSandbox", sandbox_fields, .help = "one box"};

static const struct field list_fields[] = {
    {"sandboxes", FIELD_ARRAY, .of = &sandbox_shape_of_iii, .help = "the newest first"},
    {0},
};
const struct shape iii_list_shape = {"IiiSandboxList", list_fields, .help = "those that live"};

static const char *const image_kinds[] = {"preset", "custom", NULL};

static const struct field image_fields[] = {
    {"name", FIELD_STRING, .example = "\"python\"", .help = "what a create may name"},
    {"oci_ref", FIELD_STRING, .example = "\"docker.io/library/python:3.12-slim\"",
     .help = "what it stands for"},
    {"kind", FIELD_STRING, .choices = image_kinds, .help = "custom: the operator's own"},
    {0},
};
static const struct shape image_shape_of_iii = {"IiiImage", image_fields,
                                                .help = "a short name of an image"};

static const struct field catalog_fields[] = {
    {"images", FIELD_ARRAY, .of = &image_shape_of_iii, .help = "presets first"},
    {0},
};
const struct shape iii_catalog_shape = {"IiiCatalog", catalog_fields,
                                        .help = "images with short names"};

/* ---- commands ---- */

#define EXEC_FIELDS                                                                                \
    {"stdout", FIELD_STRING, .example = "\"hi\\n\"",                                               \
     .help = "as text; with stderr at most 960 KiB as JSON; \"\" when it went over a channel"},    \
        {"stderr", FIELD_STRING, .help = "the same"},                                              \
        {"exit_code", FIELD_INT, .nullable = true, .example = "0",                                 \
         .help = "128 and the signal's number after a signal; 126 and 127 when it did not start"}, \
        {"timed_out", FIELD_BOOL, .help = "always false: that is the error S200"},                 \
        {"duration_ms", FIELD_INT, .example = "5", .help = "how long it ran"},                     \
        {"success", FIELD_BOOL, .example = "true", .help = "its exit code is 0"},                  \
        {"truncated", FIELD_BOOL, .help = "there was more output than is here"},                   \
        {"stdout_truncated", FIELD_BOOL, .help = "of stdout"},                                     \
        {"stderr_truncated", FIELD_BOOL, .help = "of stderr"},                                     \
    {                                                                                              \
        "exec_id", FIELD_STRING, .optional = true, .example = EXAMPLE_EXEC_ID,                     \
                                 .help = "by which it is known; absent when it did not start"      \
    }

static const struct field exec_fields[] = {EXEC_FIELDS, {0}};
const struct shape iii_exec_shape = {"IiiExecResult", exec_fields, .help = "how a command ended"};

static const struct field run_fields[] = {
    EXEC_FIELDS,
    {"sandbox_id", FIELD_STRING, .optional = true, .help = "with keep_sandbox"},
    {0},
};
const struct shape iii_run_shape = {"IiiRunResult", run_fields, .help = "how code ended"};

static const struct field cancelled_fields[] = {
    {"exec_id", FIELD_STRING, .example = EXAMPLE_EXEC_ID, .help = "of the command"},
    {"cancelled", FIELD_BOOL, .example = "true", .help = "false: it had ended by itself"},
    {0},
};
const struct shape iii_cancelled_shape = {"IiiCancelled", cancelled_fields,
                                          .help = "a command that has ended"};

static const struct field code_file_fields[] = {
    {"path", FIELD_STRING, .min = 1, .max = 4095, .example = "\"helper.py\"",
     .help = "absolute, or beside the code"},
    {"content", FIELD_STRING, .max = 24u << 20, .example = "\"\"", .help = "text"},
    {0},
};
const struct shape iii_code_file_shape = {"IiiCodeFile", code_file_fields,
                                          .help = "a file that code needs"};

/* ---- files ---- */

#define ENTRY_FIELDS                                                                               \
    {"name", FIELD_STRING, .example = "\"a.txt\"", .help = "without what it is in"},               \
        {"is_dir", FIELD_BOOL, .help = "a directory"},                                             \
        {"size", FIELD_INT, .example = "6", .help = "bytes"},                                      \
        {"mode", FIELD_STRING, .example = "\"0644\"", .help = "octal digits"},                     \
        {"mtime", FIELD_INT, .example = "1767225600", .help = "Unix seconds"},                     \
    {                                                                                              \
        "is_symlink", FIELD_BOOL, .help = "a symbolic link, of which all this is"                  \
    }

static const struct field entry_fields[] = {ENTRY_FIELDS, {0}};
const struct shape iii_entry_shape = {"IiiEntry", entry_fields, .help = "what a path is"};

static const struct field ls_fields[] = {
    {"entries", FIELD_ARRAY, .of = &iii_entry_shape, .help = "by name"},
    {0},
};
const struct shape iii_ls_shape = {"IiiEntries", ls_fields, .help = "what is in a directory"};

static const struct field mkdir_fields[] = {
    {"created", FIELD_BOOL, .example = "true", .help = "false: it was there"},
    {0},
};
const struct shape iii_mkdir_shape = {"IiiMadeDirectory", mkdir_fields, .help = "a directory"};

static const struct field written_fields[] = {
    {"bytes_written", FIELD_INT, .example = "6", .help = "how long the file is"},
    {"path", FIELD_STRING, .example = "\"/tmp/a.txt\"", .help = "as it was asked for"},
    {0},
};
const struct shape iii_written_shape = {"IiiWritten", written_fields, .help = "a file"};

static const struct field read_fields[] = {
    {"content", FIELD_OBJECT, .nullable = true,
     .help = "the channel that its bytes are read from; null where there are none"},
    {"body", FIELD_STRING, .optional = true, .example = "\"hello\\n\"",
     .help = "the same as text, of a file that is one and has at most 960 KiB as JSON"},
    {"size", FIELD_INT, .example = "6", .help = "bytes"},
    {"mode", FIELD_STRING, .example = "\"0644\"", .help = "octal digits"},
    {"mtime", FIELD_INT, .example = "1767225600", .help = "Unix seconds"},
    {0},
};
const struct shape iii_read_shape = {"IiiFile", read_fields, .help = "a file that is read"};

static const struct field removed_fields[] = {
    {"removed", FIELD_BOOL, .example = "true", .help = "always true"},
    {0},
};
const struct shape iii_removed_shape = {"IiiRemoved", removed_fields,
                                        .help = "a path that is gone"};

static const struct field updated_fields[] = {
    {"updated", FIELD_INT, .example = "1", .help = "how many files, the first one included"},
    {0},
};
const struct shape iii_updated_shape = {"IiiUpdated", updated_fields,
                                        .help = "files that were changed"};

static const struct field moved_fields[] = {
    {"moved", FIELD_BOOL, .example = "true", .help = "always true"},
    {0},
};
const struct shape iii_moved_shape = {"IiiMoved", moved_fields, .help = "a file elsewhere"};
