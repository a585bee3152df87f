#include "model/shapes.h"

#define EXAMPLE_UUID "\"3f6d2c1a-0b9e-4c7d-8a51-2e4f6a8c0b1d\""

static const char *const directions[] = {"read", "write", NULL};

static const struct field end_fields[] = {
    {"channel_id", FIELD_STRING, .example = EXAMPLE_UUID, .help = "for /ws/channels/…"},
    {"access_key", FIELD_STRING, .example = EXAMPLE_UUID, .help = "for ?key="},
    {"direction", FIELD_STRING, .choices = directions, .help = "for ?dir="},
    {0},
};
static const struct shape channel_end_shape = {"ChannelEnd", end_fields,
                                               .help = "one end of a channel"};

static const struct field channel_fields[] = {
    {"writer", FIELD_OBJECT, .of = &channel_end_shape, .help = "takes what is typed"},
    {"reader", FIELD_OBJECT, .of = &channel_end_shape, .help = "gives what is shown"},
    {0},
};
static const struct shape channel_shape = {
    "Channel", channel_fields,
    .help = "a terminal's two ends, each for the first who comes within five minutes"};

static const char *const status_words[] = {"running", "exited", NULL};

#define ENDED_FIELDS                                                                               \
    {"oom", FIELD_BOOL, .optional = true,                                                          \
     .help = "true when the kernel killed for lack of memory while it ran"},                       \
    {                                                                                              \
        "message", FIELD_STRING, .optional = true,                                                 \
                                 .help = "how it ended, in words; absent when it ended by itself"  \
    }

static const struct field fields[] = {
    {"sessionId", FIELD_STRING, .example = EXAMPLE_TERMINAL_ID, .help = "term_ and 24 hex digits"},
    {"sandboxId", FIELD_STRING, .example = EXAMPLE_SANDBOX_ID, .help = "where it is"},
    {"execId", FIELD_STRING, .example = EXAMPLE_EXEC_ID, .help = "the command on it"},
    {"cols", FIELD_INT, .optional = true, .example = "80", .help = "absent when it is not known"},
    {"rows", FIELD_INT, .optional = true, .example = "24", .help = "absent when it is not known"},
    {"shell", FIELD_STRING, .example = "\"/bin/sh\"", .help = "how the command begins"},
    {"status", FIELD_STRING, .choices = status_words, .help = "exited once the command has ended"},
    {"backend", FIELD_STRING, .example = "\"native\"", .help = "the runtime"},
    {"createdAt", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {"recorded", FIELD_BOOL, .optional = true, .help = "of a new one: it is recorded"},
    {"channel", FIELD_OBJECT, .optional = true, .of = &channel_shape, .help = "of a new one"},
    {"finishedAt", FIELD_INT, .optional = true, .help = "once it has ended"},
    {"exitCode", FIELD_INT, .optional = true, .help = "once it has ended"},
    {"reason", FIELD_STRING, .optional = true, .choices = exec_end_words, .help = "why it ended"},
    ENDED_FIELDS,
    {0},
};
const struct shape terminal_shape = {"Terminal", fields,
                                     .help = "a command on a terminal, with or without viewers"};

static const struct field list_fields[] = {
    {"sessions", FIELD_ARRAY, .of = &terminal_shape, .help = "the newest first"},
    {0},
};
const struct shape terminal_list_shape = {"TerminalList", list_fields,
                                          .help = "terminals of a sandbox"};

static const struct field size_fields[] = {
    {"cols", FIELD_INT, .example = "120", .help = "as it is now"},
    {"rows", FIELD_INT, .example = "40", .help = "as it is now"},
    {0},
};
const struct shape terminal_size_shape = {"TerminalSize", size_fields, .help = "its new size"};

static const struct field closed_fields[] = {
    {"closed", FIELD_STRING, .example = EXAMPLE_TERMINAL_ID, .help = "the session"},
    {0},
};
const struct shape terminal_closed_shape = {"TerminalClosed", closed_fields,
                                            .help = "it has ended"};

static const char *const event_words[] = {"ready", "lost", "error", NULL};

static const struct field event_fields[] = {
    {"type", FIELD_STRING, .choices = event_words,
     .help = "ready is the first; lost: not all of what was shown before is kept; error: a Close "
             "follows"},
    {"sessionId", FIELD_STRING, .optional = true, .example = EXAMPLE_TERMINAL_ID,
     .help = "of ready"},
    {"cursor", FIELD_INT, .optional = true, .example = "0",
     .help = "of the next byte: each byte that comes adds one"},
    {"readOnly", FIELD_BOOL, .optional = true, .help = "of ready: what is sent is not taken"},
    {"bytes", FIELD_INT, .optional = true, .help = "of lost: how many"},
    {"error", FIELD_STRING, .optional = true, .help = "of error: in words"},
    {"code", FIELD_STRING, .optional = true, .help = "of error: a stable word"},
    {0},
};
const struct shape terminal_event_shape = {"TerminalEvent", event_fields,
                                           .help = "a text message of a terminal's WebSocket"};

static const char *const exit_words[] = {"exit", NULL};

static const struct field exit_fields[] = {
    {"type", FIELD_STRING, .choices = exit_words, .help = "the last message"},
    {"exitCode", FIELD_INT, .example = "0", .help = "128 and the signal's number after a signal"},
    {"reason", FIELD_STRING, .choices = exec_end_words, .help = "why it ended"},
    ENDED_FIELDS,
    {0},
};
const struct shape terminal_exit_shape = {"TerminalExit", exit_fields,
                                          .help = "how the command on a terminal ended"};
