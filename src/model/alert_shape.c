#include "model/shapes.h"

static const char *const metric_words[] = {"cpu", "memory", "pids", "disk", NULL};
static const char *const action_words[] = {"notify", "pause", "kill", NULL};

#define ALERT_FIELDS                                                                               \
    {"sandboxId", FIELD_STRING, .example = EXAMPLE_SANDBOX_ID, .help = "whose"},                   \
        {"metric", FIELD_STRING, .choices = metric_words, .help = "what is looked at"},            \
        {"threshold", FIELD_NUMBER, .example = "90.0",                                             \
         .help = "percent of what the sandbox may use; of pids how many"},                         \
    {                                                                                              \
        "action", FIELD_STRING, .choices = action_words, .help = "what is done when it fires"      \
    }

static const struct field alert_fields[] = {
    {"id", FIELD_STRING, .example = EXAMPLE_ALERT_ID, .help = "alrt_ and 24 hex digits"},
    ALERT_FIELDS,
    {"triggered", FIELD_BOOL, .example = "false",
     .help = "it has fired, and the value was not below since"},
    {"lastChecked", FIELD_INT, .optional = true, .help = "Unix milliseconds"},
    {"lastTriggered", FIELD_INT, .optional = true, .help = "Unix milliseconds"},
    {"createdAt", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {0},
};
const struct shape alert_shape = {"Alert", alert_fields,
                                  .help = "a threshold for what a sandbox uses"};

static const struct field list_fields[] = {
    {"alerts", FIELD_ARRAY, .of = &alert_shape, .help = "the newest first"},
    {0},
};
const struct shape alert_list_shape = {"AlertList", list_fields, .help = "alerts of a sandbox"};

static const struct field deleted_fields[] = {
    {"deleted", FIELD_STRING, .example = EXAMPLE_ALERT_ID, .help = "its id"},
    {0},
};
const struct shape alert_deleted_shape = {"AlertDeleted", deleted_fields,
                                          .help = "an alert is gone"};

static const struct field event_fields[] = {
    {"alertId", FIELD_STRING, .example = EXAMPLE_ALERT_ID, .help = "which has fired"},
    ALERT_FIELDS,
    {"value", FIELD_NUMBER, .example = "97.5", .help = "what it was then"},
    {"timestamp", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {0},
};
static const struct shape event_shape_of_alert = {"AlertEvent", event_fields,
                                                  .help = "an alert has fired"};

static const struct field history_fields[] = {
    {"events", FIELD_ARRAY, .of = &event_shape_of_alert, .help = "the newest first"},
    {"total", FIELD_INT, .example = "1", .help = "how many are kept; 100 at most"},
    {0},
};
const struct shape alert_history_shape = {"AlertHistory", history_fields,
                                          .help = "when alerts of a sandbox have fired"};
