#include "model/shapes.h"

static const char *const end_words[] = {"exit",      "signal", "oom", "timeout",
                                        "cancelled", "lost",   NULL};

static const struct field result_fields[] = {
    {"exitCode", FIELD_INT, .example = "0", .help = "128 and the signal's number after a signal"},
    {"stdout", FIELD_STRING, .example = "\"hello\\n\"", .help = "as text"},
    {"stderr", FIELD_STRING, .example = "\"\"", .help = "as text"},
    {"duration", FIELD_NUMBER, .example = "1.7", .help = "milliseconds"},
    {"reason", FIELD_STRING, .choices = end_words, .help = "why it ended"},
    {"truncated", FIELD_BOOL, .example = "false", .help = "there was more output than is kept"},
    {0},
};
const struct shape exec_result_shape = {"ExecResult", result_fields, .help = "how a command ended"};

static const char *const output_words[] = {"stdout", "stderr", "error", "exit", NULL};

static const struct field event_fields[] = {
    {"type", FIELD_STRING, .choices = output_words,
     .help = "whose output; error when the sandbox ended first; exit is the last one"},
    {"data", FIELD_STRING, .example = "\"hello\\n\"",
     .help = "text; of exit the exit code, -1 after a timeout"},
    {"timestamp", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {0},
};
const struct shape exec_event_shape = {"ExecEvent", event_fields,
                                       .help = "a piece of a command's output, or its end"};

static const struct field attach_event_fields[] = {
    {"pid", FIELD_INT, .example = "7", .help = "in the sandbox"},
    {0},
};
const struct shape attach_event_shape = {"AttachEvent", attach_event_fields,
                                         .help = "that an attached command has started"};

static const struct field attach_end_fields[] = {
    {"exitCode", FIELD_INT, .example = "0", .help = "128 and the signal's number after a signal"},
    {"reason", FIELD_STRING, .choices = end_words, .help = "why it ended"},
    {"duration", FIELD_NUMBER, .example = "1.7", .help = "milliseconds"},
    {"lostStdout", FIELD_INT, .example = "0", .help = "bytes of output that were not kept"},
    {"lostStderr", FIELD_INT, .example = "0", .help = "bytes of output that were not kept"},
    {0},
};
const struct shape attach_end_shape = {"AttachEnd", attach_end_fields,
                                       .help = "how an attached command ended"};

static const struct field background_fields[] = {
    {"id", FIELD_STRING, .example = EXAMPLE_EXEC_ID, .help = "bg_ and 24 hex digits"},
    {"sandboxId", FIELD_STRING, .example = EXAMPLE_SANDBOX_ID, .help = "where it runs"},
    {"command", FIELD_STRING, .example = "\"python3 -m http.server\"",
     .help = "as text; arguments with spaces between them"},
    {"pid", FIELD_INT, .example = "7", .help = "in the sandbox"},
    {"running", FIELD_BOOL, .example = "true", .help = "false once it has ended"},
    {"startedAt", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {"exitCode", FIELD_INT, .optional = true, .help = "once it has ended and that is known"},
    {"finishedAt", FIELD_INT, .optional = true, .help = "Unix milliseconds, with exitCode"},
    {0},
};
const struct shape background_exec_shape = {"BackgroundExec", background_fields,
                                            .help = "a command that was left running"};

static const struct field logs_fields[] = {
    {"output", FIELD_STRING, .example = "\"hello\\n\"", .help = "stdout and stderr as text"},
    {"cursor", FIELD_INT, .example = "6", .help = "where to read on"},
    {0},
};
const struct shape exec_logs_shape = {"ExecLogs", logs_fields,
                                      .help = "a part of a background command's output"};

static const char *const log_words[] = {"stdout", "stderr", "end", NULL};

static const struct field log_event_fields[] = {
    {"type", FIELD_STRING, .choices = log_words, .help = "whose line; end is the last one"},
    {"data", FIELD_STRING, .example = "\"listening on 8000\"", .help = "one line of text"},
    {"timestamp", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {0},
};
const struct shape log_event_shape = {"LogEvent", log_event_fields,
                                      .help = "a line of the main process, or the end"};
