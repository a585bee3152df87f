#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct courier;
struct err;
struct events;
struct webhook_test;
struct webhooks;

/* Who asked to be told of events by HTTP. Each webhook is a reader of the events (service/events.h)
 * with a place that outlives the daemon: every event of its topics is brought to its URL, in about
 * the order in which they happened, at least once, and tried again for a day. One whose target is
 * dead waits by itself. docs/webhooks.md has what users are told. */

struct webhooks_config {
    uint32_t max;         /* webhooks that there may be; at most WEBHOOKS_MAX */
    uint32_t retry_ms;    /* until the first attempt is made again; twice as long each time */
    uint32_t retry_hours; /* that an event is tried for */
    uint32_t timeout_s;   /* that a target has to answer; 0 = 10; at most WEBHOOK_TIMEOUT_S_MAX */
    char *const *allow;   /* as in courier_config */
};

#define WEBHOOKS_MAX           256
#define WEBHOOK_TIMEOUT_S_MAX  60 /* as the courier has it */
#define WEBHOOK_TOPICS_MAX     32
#define WEBHOOK_URL_MAX        2048
#define WEBHOOK_SECRET_MIN     16
#define WEBHOOK_SECRET_MAX     256
#define WEBHOOK_DELIVERIES_MAX 100 /* that are kept of each */
#define WEBHOOK_TEST_TOPIC     "webhook.test"
#define WEBHOOK_FAILED         "webhook.failed" /* an event was given up */

/* All three outlive it. */
int webhooks_open(const char *data_dir, const struct webhooks_config *config, struct events *events,
                  struct courier *courier, struct webhooks **ret, struct err *err);
/* After the courier's. */
int webhooks_start(struct webhooks *w, struct err *err);
/* Before the courier's. Fine if it was not started. */
void webhooks_stop(struct webhooks *w);
/* When the courier has stopped. */
void webhooks_close(struct webhooks *w);

struct webhook_request {
    const char *url;
    const json_t *topics;   /* an array of texts as topics_valid() has them; NULL = ["*"] */
    const char *sandbox_id; /* NULL = of any and of none */
    const char *secret;     /* NULL = a new one */
};

/* *ret is a Webhook with its secret, which nobody is told again. ERR_INVALID "bad_webhook",
 * "webhook_target_refused"; ERR_LIMIT "webhook_limit". */
int webhooks_create(struct webhooks *w, const struct webhook_request *request, json_t **ret,
                    struct err *err);
/* The newest first. */
json_t *webhooks_list(struct webhooks *w);
/* These three: ERR_NOT_FOUND "webhook_not_found". */
int webhooks_get(struct webhooks *w, const char *id, json_t **ret, struct err *err);
int webhooks_remove(struct webhooks *w, const char *id, struct err *err);
/* An array of Deliveries, the newest first. */
int webhooks_deliveries(struct webhooks *w, const char *id, unsigned limit, json_t **ret,
                        struct err *err);
/* Goes on with one that was put off, or puts it off: nothing is lost meanwhile. */
int webhooks_set_active(struct webhooks *w, const char *id, bool active, json_t **ret,
                        struct err *err);

/* Sends an event of WEBHOOK_TEST_TOPIC at once, whatever else waits, and once. fd is readable when
 * the Delivery is there. */
int webhook_test_begin(struct webhooks *w, const char *id, struct webhook_test **ret,
                       struct err *err);
int webhook_test_fd(const struct webhook_test *t);
/* NULL = not there yet. */
json_t *webhook_test_take(struct webhook_test *t);
void webhook_test_free(struct webhook_test *t);
