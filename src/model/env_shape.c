#include "model/shapes.h"

static const struct field value_fields[] = {
    {"key", FIELD_STRING, .example = "\"MODE\"", .help = "name of the variable"},
    {"exists", FIELD_BOOL, .example = "true", .help = "commands have it"},
    {"value", FIELD_STRING, .nullable = true, .example = "\"C.UTF-8\"",
     .help = "null when they have not"},
    {0},
};
const struct shape env_value_shape = {"EnvValue", value_fields,
                                      .help = "a variable of the environment"};

static const struct field set_fields[] = {
    {"count", FIELD_INT, .example = "1", .help = "how many"},
    {"set", FIELD_STRINGS, .example = "[\"LANG\"]", .help = "their names"},
    {0},
};
const struct shape env_set_shape = {"EnvSet", set_fields, .help = "variables that were set"};

static const struct field list_fields[] = {
    {"count", FIELD_INT, .example = "1", .help = "how many"},
    {"vars", FIELD_STRING_MAP, .example = "{\"LANG\": \"C.UTF-8\"}", .help = "names and values"},
    {0},
};
const struct shape env_list_shape = {"EnvList", list_fields,
                                     .help = "the environment that commands have"};

static const struct field deleted_fields[] = {
    {"deleted", FIELD_STRING, .example = "\"LANG\"", .help = "name of the variable"},
    {0},
};
const struct shape env_deleted_shape = {"EnvDeleted", deleted_fields,
                                        .help = "a variable that is gone"};
