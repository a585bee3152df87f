#include "model/shapes.h"

#define MS_EXAMPLE "1767225600000"

#define WEBHOOK_FIELDS                                                                             \
    {"id", FIELD_STRING, .pattern = "^wh_[0-9a-f]{24}$", .example = EXAMPLE_WEBHOOK_ID,            \
     .help = "wh_ and 24 hex digits"},                                                             \
        {"url", FIELD_STRING, .example = "\"https://hooks.example.com/cay\"",                      \
         .help = "where events are sent"},                                                         \
        {"topics", FIELD_STRINGS, .example = "[\"sandbox.*\"]", .help = "of which events"},        \
        {"sandboxId", FIELD_STRING, .nullable = true, .example = "null",                           \
         .help = "of which sandbox; null = of all"},                                               \
        {"active", FIELD_BOOL, .example = "true",                                                  \
         .help = "whether anything is sent; else events wait"},                                    \
        {"createdAt", FIELD_INT, .example = MS_EXAMPLE, .help = "Unix milliseconds"},              \
        {"failures", FIELD_INT, .example = "0",                                                    \
         .help = "attempts in a row that failed; 0 = it takes what it is sent"},                   \
        {"lastStatus", FIELD_INT, .nullable = true, .example = "204",                              \
         .help = "HTTP status of the last attempt; null = there was no answer"},                   \
        {"lastError", FIELD_STRING, .nullable = true, .example = "null",                           \
         .help = "why there was no answer, as in deliveries"},                                     \
        {"lastAttemptAt", FIELD_INT, .nullable = true, .example = MS_EXAMPLE,                      \
         .help = "Unix milliseconds; null = nothing was sent yet"},                                \
    {                                                                                              \
        "nextAttemptAt", FIELD_INT, .nullable = true, .example = "null",                           \
                                    .help = "when it is tried again, after a failure"              \
    }

static const struct field webhook_fields[] = {WEBHOOK_FIELDS, {0}};
const struct shape webhook_shape = {"Webhook", webhook_fields,
                                    .help = "who is told of events by HTTP"};

static const struct field webhook_made_fields[] = {
    WEBHOOK_FIELDS,
    {"secret", FIELD_STRING, .example = "\"whsec_9d2f\"",
     .help = "what messages are signed with; it is not shown again"},
    {0},
};
const struct shape webhook_made_shape = {"WebhookMade", webhook_made_fields,
                                         .help = "a webhook and its secret"};

static const struct field webhook_list_fields[] = {
    {"webhooks", FIELD_ARRAY, .of = &webhook_shape, .help = "the oldest first"},
    {0},
};
const struct shape webhook_list_shape = {"WebhookList", webhook_list_fields, .help = "all of them"};

static const struct field webhook_deleted_fields[] = {
    {"deleted", FIELD_STRING, .example = EXAMPLE_WEBHOOK_ID, .help = "its id"},
    {0},
};
const struct shape webhook_deleted_shape = {"WebhookDeleted", webhook_deleted_fields,
                                            .help = "it is gone"};

static const char *const state_words[] = {"retrying", "delivered", "failed", NULL};

static const struct field delivery_fields[] = {
    {"id", FIELD_STRING, .pattern = "^dlv_[0-9a-f]{24}$",
     .example = "\"dlv_3f2a9c1e7b5d4e8a9c0b1d2e\"",
     .help = "X-Cay-Delivery: the same for all attempts"},
    {"eventId", FIELD_STRING, .example = EXAMPLE_EVENT_ID, .help = "of what"},
    {"topic", FIELD_STRING, .example = "\"sandbox.created\"", .help = "of what"},
    {"state", FIELD_STRING, .choices = state_words, .example = "\"delivered\"",
     .help = "failed: it is not tried again"},
    {"attempts", FIELD_INT, .example = "1", .help = "how often it was tried"},
    {"status", FIELD_INT, .nullable = true, .example = "204",
     .help = "HTTP status of the last attempt; null = there was no answer"},
    {"error", FIELD_STRING, .nullable = true, .example = "null",
     .help = "why there was none: refused (an address that may not be called), no_name, "
             "no_connection, no_trust, timeout, broken, bad_url, died"},
    {"message", FIELD_STRING, .nullable = true, .example = "null", .help = "the same for people"},
    {"address", FIELD_STRING, .nullable = true, .example = "\"203.0.113.9\"",
     .help = "that was called or refused"},
    {"duration", FIELD_INT, .example = "38", .help = "milliseconds of the last attempt"},
    {"timestamp", FIELD_INT, .example = MS_EXAMPLE,
     .help = "of the last attempt, in Unix milliseconds"},
    {"nextAttemptAt", FIELD_INT, .nullable = true, .example = "null",
     .help = "of one that is retrying"},
    {0},
};
const struct shape delivery_shape = {"Delivery", delivery_fields,
                                     .help = "an event on its way to a webhook"};

static const struct field delivery_list_fields[] = {
    {"deliveries", FIELD_ARRAY, .of = &delivery_shape, .help = "the newest first"},
    {0},
};
const struct shape delivery_list_shape = {"DeliveryList", delivery_list_fields,
                                          .help = "what was sent to a webhook"};
