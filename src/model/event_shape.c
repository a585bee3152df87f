#include "model/event.h"
#include "model/shapes.h"

static const struct field event_fields[] = {
    {"id", FIELD_STRING, .pattern = "^evt_[0-9a-f]{24}$", .example = EXAMPLE_EVENT_ID,
     .help = "ids sort as events happened"},
    {"topic", FIELD_STRING, .example = "\"sandbox.created\"", .help = "what happened"},
    {"sandboxId", FIELD_STRING, .example = EXAMPLE_SANDBOX_ID,
     .help = "to which sandbox; empty when to none"},
    {"data", FIELD_OBJECT, .example = "{\"image\": \"python:3.12-slim\"}",
     .help = "what there is to say about it, by topic"},
    {"timestamp", FIELD_INT, .example = "1767225600000", .help = "when, in Unix milliseconds"},
    {"published", FIELD_BOOL, .optional = true, .example = "true",
     .help = "by a caller; the daemon's own do not have this"},
    {0},
};
const struct shape event_shape = {"Event", event_fields, .help = "something that happened"};

static const struct field event_list_fields[] = {
    {"events", FIELD_ARRAY, .of = &event_shape, .help = "the newest first"},
    {"total", FIELD_INT, .example = "1", .help = "how many there are with these filters"},
    {0},
};
const struct shape event_list_shape = {"EventList", event_list_fields, .help = "events"};
