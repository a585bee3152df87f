#include "base/rlimits.h"
#include "model/shapes.h"

const char *const exec_end_words[] = {"exit",      "signal", "oom", "timeout",
                                      "cancelled", "lost",   NULL};

#define END_FIELDS                                                                                 \
    {"oom", FIELD_BOOL, .optional = true,                                                          \
     .help = "true when the kernel killed for lack of memory while it ran"},                       \
    {                                                                                              \
        "message", FIELD_STRING, .optional = true,                                                 \
                                 .help = "how it ended, in words; absent when it ended by itself"  \
    }

static const struct field rlimit_fields[] = {
    {"resource", FIELD_STRING, .choices = rlimit_words, .help = "as setrlimit names them"},
    {"soft", FIELD_INT, .min = -1, .max = 9007199254740991, .example = "1024",
     .help = "-1 = unlimited"},
    {"hard", FIELD_INT, .optional = true, .min = -1, .max = 9007199254740991,
     .help = "to which the process can raise it itself; the soft one when absent"},
    {0},
};
const struct shape rlimit_shape = {"Rlimit", rlimit_fields, .help = "a limit of a process"};

static const struct field result_fields[] = {
    {"exitCode", FIELD_INT, .example = "0", .help = "128 and the signal's number after a signal"},
    {"stdout", FIELD_STRING, .example = "\"hello\\n\"", .help = "as text"},
    {"stderr", FIELD_STRING, .example = "\"\"", .help = "as text"},
    {"duration", FIELD_NUMBER, .example = "1.7", .help = "milliseconds"},
    {"reason", FIELD_STRING, .choices = exec_end_words, .help = "why it ended"},
    END_FIELDS,
    {"hint", FIELD_STRING, .optional = true,
     .help = "what may be the matter with one that failed, such as the lack of a network"},
    {"truncated", FIELD_BOOL, .example = "false", .help = "there was more output than is kept"},
    {"execId", FIELD_STRING, .optional = true, .example = EXAMPLE_EXEC_ID,
     .help = "by which it can be had again; X-Exec-Id says it too"},
    {0},
};
const struct shape exec_result_shape = {"ExecResult", result_fields, .help = "how a command ended"};

static const char *const output_words[] = {"stdout", "stderr", "lost", "error", "exit", NULL};

static const struct field event_fields[] = {
    {"type", FIELD_STRING, .choices = output_words,
     .help = "whose output; lost when some is not kept any more; error when the end cannot be "
             "told; exit is the last one"},
    {"data", FIELD_STRING, .example = "\"hello\\n\"",
     .help = "text; of exit the exit code, -1 after a timeout; of lost how many bytes"},
    {"timestamp", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {"cursor", FIELD_INT, .optional = true, .example = "6", .help = "where to go on after it"},
    {"execId", FIELD_STRING, .optional = true, .example = EXAMPLE_EXEC_ID,
     .help = "in the first event"},
    {"code", FIELD_STRING, .optional = true, .help = "of error: a stable word"},
    {"reason", FIELD_STRING, .optional = true, .choices = exec_end_words,
     .help = "of exit: why it ended"},
    END_FIELDS,
    {0},
};
const struct shape exec_event_shape = {"ExecEvent", event_fields,
                                       .help = "a piece of a command's output, or its end"};

static const struct field attach_event_fields[] = {
    {"pid", FIELD_INT, .optional = true, .example = "7",
     .help = "in the sandbox: it has started, or the caller is attached"},
    {"lost", FIELD_INT, .optional = true, .example = "4096",
     .help = "bytes of output that are not kept any more"},
    {0},
};
const struct shape attach_event_shape = {"AttachEvent", attach_event_fields,
                                         .help = "what happens to an attached command"};

static const struct field attach_end_fields[] = {
    {"exitCode", FIELD_INT, .example = "0", .help = "128 and the signal's number after a signal"},
    {"reason", FIELD_STRING, .choices = exec_end_words, .help = "why it ended"},
    END_FIELDS,
    {"duration", FIELD_NUMBER, .example = "1.7", .help = "milliseconds"},
    {"lostStdout", FIELD_INT, .example = "0", .help = "bytes of output that were not kept"},
    {"lostStderr", FIELD_INT, .example = "0", .help = "bytes of output that were not kept"},
    {0},
};
const struct shape attach_end_shape = {"AttachEnd", attach_end_fields,
                                       .help = "how an attached command ended"};

static const struct field background_fields[] = {
    {"id", FIELD_STRING, .example = EXAMPLE_BACKGROUND_ID, .help = "bg_ and 24 hex digits"},
    {"sandboxId", FIELD_STRING, .example = EXAMPLE_SANDBOX_ID, .help = "where it runs"},
    {"command", FIELD_STRING, .example = "\"python3 -m http.server\"",
     .help = "as text; arguments with spaces between them; its first 4,096 bytes"},
    {"pid", FIELD_INT, .optional = true, .example = "7",
     .help = "in the sandbox; absent when that has stopped"},
    {"running", FIELD_BOOL, .example = "true", .help = "false once it has ended"},
    {"startedAt", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {"exitCode", FIELD_INT, .optional = true, .help = "once it has ended and that is known"},
    {"finishedAt", FIELD_INT, .optional = true, .help = "Unix milliseconds, with exitCode"},
    {"reason", FIELD_STRING, .optional = true, .choices = exec_end_words,
     .help = "why it ended, with exitCode"},
    END_FIELDS,
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

static const struct field interrupt_fields[] = {
    {"success", FIELD_BOOL, .example = "true", .help = "always true"},
    {"pending", FIELD_BOOL, .example = "false",
     .help = "the sandbox is paused: the signal is taken when it goes on"},
    {0},
};
const struct shape interrupt_shape = {"Interrupted", interrupt_fields, .help = "a signal was sent"};

static const char *const log_words[] = {"stdout", "stderr", "end", NULL};

static const struct field log_event_fields[] = {
    {"type", FIELD_STRING, .choices = log_words,
     .help = "which stream the line is of; end is the last event. Of sandboxes that an older cay "
             "made, stderr is stdout too"},
    {"data", FIELD_STRING, .example = "\"listening on 8000\"", .help = "one line of text"},
    {"timestamp", FIELD_INT, .example = "1767225600000",
     .help = "when the process wrote it, in Unix milliseconds"},
    {0},
};
const struct shape log_event_shape = {"LogEvent", log_event_fields,
                                      .help = "a line of the main process, or the end"};

#define INFO_FIELDS                                                                                \
    {"id", FIELD_STRING, .example = EXAMPLE_EXEC_ID,                                               \
     .help = "ex_ and 24 hex digits; bg_ of one in the background"},                               \
        {"command", FIELD_STRING, .optional = true, .example = "\"make\"",                         \
         .help = "how it begins; of one in the background it may be absent"},                      \
        {"running", FIELD_BOOL, .example = "true", .help = "false once it has ended"},             \
        {"pid", FIELD_INT, .example = "7", .help = "in the sandbox"},                              \
        {"tty", FIELD_BOOL, .example = "false", .help = "it runs on a terminal"},                  \
        {"rows", FIELD_INT, .optional = true, .help = "of its terminal"},                          \
        {"cols", FIELD_INT, .optional = true, .help = "of its terminal"},                          \
        {"startedAt", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},         \
        {"finishedAt", FIELD_INT, .optional = true, .help = "once it has ended"},                  \
        {"exitCode", FIELD_INT, .optional = true,                                                  \
         .help = "once it has ended: 128 and the signal's number after a signal, 124 after a "     \
                 "timeout"},                                                                       \
        {"reason", FIELD_STRING, .optional = true, .choices = exec_end_words,                      \
         .help = "why it ended"},                                                                  \
        END_FIELDS,                                                                                \
        {"duration", FIELD_NUMBER, .optional = true, .help = "milliseconds, once it has ended"},   \
    {                                                                                              \
        "truncated", FIELD_BOOL, .optional = true,                                                 \
                                 .help = "once it has ended: there was more output than is kept"   \
    }

static const struct field info_fields[] = {INFO_FIELDS, {0}};
const struct shape exec_info_shape = {"ExecInfo", info_fields,
                                      .help = "a command that was started before"};

static const struct field state_fields[] = {
    INFO_FIELDS,
    {"stdout", FIELD_STRING, .example = "\"hello\\n\"",
     .help = "from the cursor on, as text; of a terminal or in the background both streams"},
    {"stderr", FIELD_STRING, .example = "\"\"", .help = "from the cursor on, as text"},
    {"cursor", FIELD_INT, .example = "6", .help = "where to read on"},
    {"lost", FIELD_INT, .example = "0",
     .help = "bytes after the cursor that are not kept any more"},
    {"more", FIELD_BOOL, .example = "false", .help = "there is more already: read on"},
    {0},
};
const struct shape exec_state_shape = {"ExecState", state_fields,
                                       .help = "how a command is, and a part of its output"};

static const struct field list_fields[] = {
    {"execs", FIELD_ARRAY, .of = &exec_info_shape, .help = "of the sandbox, the newest first"},
    {0},
};
const struct shape exec_list_shape = {"ExecList", list_fields,
                                      .help = "commands that run, and the last that ended"};
