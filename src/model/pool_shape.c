#include "model/shapes.h"

static const char *const sources[] = {"config", "api", NULL};

static const struct field interpreter_fields[] = {
    {"language", FIELD_STRING, .max = 40, .preset = "\"python\"", .example = "\"python\"",
     .help = "python"},
    {"imports", FIELD_STRINGS, .optional = true, .min = 1, .max = 256, .example = "[\"json\"]",
     .help = "modules that it has loaded"},
    {0},
};
const struct shape pool_interpreter_shape = {"PoolInterpreter", interpreter_fields,
                                             .help = "an interpreter that waits in a box"};

static const struct field profile_fields[] = {
    {"id", FIELD_STRING, .optional = true, .example = "\"wp_5f0c1e6b2a9d4c7e8f013b52\"",
     .help = "to remove it by; those of the configuration have none"},
    {"image", FIELD_STRING, .optional = true, .example = "\"host\"",
     .help = "what its sandboxes are made from"},
    {"template", FIELD_STRING, .optional = true, .example = "\"data-science\"",
     .help = "in place of an image"},
    {"memory", FIELD_INT, .example = "512", .help = "MB"},
    {"cpu", FIELD_NUMBER, .example = "1.0", .help = "cores"},
    {"pids", FIELD_INT, .example = "1024", .help = "processes and threads"},
    {"disk", FIELD_INT, .example = "4096", .help = "MB"},
    {"network", FIELD_NETWORK, .of = &network_policy_shape, .example = "false",
     .help = "what they may reach"},
    {"interpreter", FIELD_OBJECT, .optional = true, .of = &pool_interpreter_shape,
     .help = "what has started in them already"},
    {"size", FIELD_INT, .example = "2", .help = "how many are to be ready"},
    {"ready", FIELD_INT, .example = "2", .help = "how many are"},
    {"source", FIELD_STRING, .choices = sources, .help = "where it comes from"},
    {"error", FIELD_STRING, .optional = true, .example = "\"Image not found: python:3\"",
     .help = "why the last one could not be made; it is tried again"},
    {0},
};
const struct shape pool_profile_shape = {"PoolProfile", profile_fields,
                                         .help = "a kind of sandbox that the pool has ready"};

static const struct field profiles_fields[] = {
    {"profiles", FIELD_ARRAY, .of = &pool_profile_shape,
     .help = "those of the configuration, then those that were added"},
    {0},
};
const struct shape pool_profiles_shape = {"PoolProfiles", profiles_fields,
                                          .help = "what the pool has ready"};

static const struct field status_fields[] = {
    {"total", FIELD_INT, .example = "2", .help = "how many are to be ready"},
    {"ready", FIELD_INT, .example = "2", .help = "how many are"},
    {"by_profile", FIELD_OBJECT, .example = "{\"host:512:1:false\": 2}",
     .help = "how many are ready, by IMAGE:MEMORY:CPU:NETWORK; empty for who has no token"},
    {"profiles", FIELD_ARRAY, .optional = true, .of = &pool_profile_shape,
     .help = "each with what it lacks; not for who has no token"},
    {0},
};
const struct shape pool_status_shape = {"PoolStatus", status_fields,
                                        .help = "how full the pool is"};
