#include "model/shapes.h"

#include "base/signals.h"

static const struct field process_fields[] = {
    {"pid", FIELD_INT, .example = "7", .help = "in the sandbox"},
    {"user", FIELD_STRING, .example = "\"root\"", .help = "name, or number when it has none"},
    {"cpu", FIELD_STRING, .example = "\"0.3\"", .help = "percent of a core over its whole life"},
    {"memory", FIELD_STRING, .example = "\"1.2\"", .help = "percent of the sandbox's memory"},
    {"command", FIELD_STRING, .example = "\"sleep 60\"", .help = "with its arguments"},
    {0},
};
static const struct shape process_shape = {"Process", process_fields,
                                           .help = "a process of a sandbox"};

static const struct field list_fields[] = {
    {"processes", FIELD_ARRAY, .of = &process_shape, .help = "of the sandbox"},
    {0},
};
const struct shape process_list_shape = {"ProcessList", list_fields,
                                         .help = "what runs in a sandbox"};

static const struct field usage_fields[] = {
    {"pid", FIELD_INT, .example = "7", .help = "in the sandbox"},
    {"cpu", FIELD_STRING, .example = "\"0.3\"", .help = "percent of a core over its whole life"},
    {"mem", FIELD_STRING, .example = "\"1.2\"", .help = "percent of the sandbox's memory"},
    {"vsz", FIELD_INT, .example = "2480", .help = "KiB of address space"},
    {"rss", FIELD_INT, .example = "920", .help = "KiB of memory"},
    {"command", FIELD_STRING, .example = "\"sleep 60\"", .help = "with its arguments"},
    {0},
};
static const struct shape process_usage_shape = {"ProcessUsage", usage_fields,
                                                 .help = "what a process uses"};

static const struct field top_fields[] = {
    {"processes", FIELD_ARRAY, .of = &process_usage_shape, .help = "of the sandbox"},
    {0},
};
const struct shape process_top_shape = {"ProcessTop", top_fields,
                                        .help = "what the processes of a sandbox use"};

static const struct field killed_fields[] = {
    {"killed", FIELD_INT, .example = "7", .help = "its pid in the sandbox"},
    {"signal", FIELD_STRING, .choices = signal_words, .help = "what it was sent"},
    {0},
};
const struct shape process_killed_shape = {"ProcessKilled", killed_fields,
                                           .help = "a signal that was sent"};
