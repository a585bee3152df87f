#include "model/shapes.h"

#define WARNING_FIELD                                                                              \
    {                                                                                              \
        "warning", FIELD_STRING, .optional = true,                                                 \
                                 .example = "\"this daemon takes calls without a token\"",         \
                                 .help = "why tokens may keep nobody out"                          \
    }

static const struct field token_fields[] = {
    {"id", FIELD_STRING, .example = EXAMPLE_TOKEN_ID, .help = "to revoke it by"},
    {"name", FIELD_STRING, .example = "\"ci\"", .help = "what it is for; its id if it has none"},
    {"scopes", FIELD_STRINGS, .example = "[\"read\", \"exec\"]",
     .help = "what it may: read, exec, write; admin is all of it and the daemon itself"},
    {"sandboxId", FIELD_STRING, .optional = true, .example = EXAMPLE_SANDBOX_ID,
     .help = "the only sandbox that it is for"},
    {"label", FIELD_STRING_MAP, .optional = true, .example = "{\"team\": \"blue\"}",
     .help = "it is only for sandboxes whose metadata has this, and those that it makes have it"},
    {"createdAt", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {"createdBy", FIELD_STRING, .example = "\"root\"", .help = "who made it"},
    {"expiresAt", FIELD_INT, .optional = true, .example = "1767312000000",
     .help = "Unix milliseconds; absent = it does not"},
    {"expired", FIELD_BOOL, .optional = true, .example = "false", .help = "that time has come"},
    {"lastUsedAt", FIELD_INT, .optional = true, .example = "1767225700000",
     .help = "Unix milliseconds; of the time since the daemon started"},
    {"token", FIELD_STRING, .optional = true,
     .example = "\"cay_5f0c1e6b2a9d4c7e8f013b52_"
                "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0\"",
     .help = "what is sent as Authorization: Bearer; told once, to who makes it"},
    WARNING_FIELD,
    {0},
};
const struct shape token_shape = {"Token", token_fields, .help = "who may call, for what"};

static const struct field tokens_fields[] = {
    {"tokens", FIELD_ARRAY, .of = &token_shape, .help = "the newest first"},
    WARNING_FIELD,
    {0},
};
const struct shape token_list_shape = {"TokenList", tokens_fields, .help = "tokens"};
