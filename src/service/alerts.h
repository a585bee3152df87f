#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/id.h"

struct alerts;
struct engine;
struct err;
struct events;

/* Thresholds for what a sandbox uses. One thread looks every so many seconds at the sandboxes that
 * have any, and at no others. An alert fires once when its value has come to the threshold, and can
 * fire again when it has been below it by a twentieth. That it has fired is on the disk before
 * something is done about it, and what was not done yet is done by the next daemon. */

#define ALERTS_MAX        32  /* of a sandbox */
#define ALERT_HISTORY_MAX 100 /* of a sandbox */

struct alerts_config {
    const char *data_dir;
    struct engine *engine;
    struct events *events; /* that are told: alert.fired, alert.resolved; NULL = nobody */
    uint32_t interval_s;   /* 0 = only alerts_look() looks */
};

int alerts_open(const struct alerts_config *config, struct alerts **ret, struct err *err);
int alerts_start(struct alerts *a, struct err *err);
/* The engine is not called any more afterwards. Fine if it was not started. */
void alerts_stop(struct alerts *a);
void alerts_close(struct alerts *a);

extern const char *const alert_metrics[], *const alert_actions[]; /* ended by NULL */

/* Gives an Alert. ERR_INVALID for a threshold that the metric cannot come to, ERR_LIMIT
 * "alert_limit" past ALERTS_MAX. */
int alerts_set(struct alerts *a, const char *sandbox_id, const char *metric, double threshold,
               const char *action, json_t **ret, struct err *err);
/* {alerts: the newest first}. */
int alerts_list(struct alerts *a, const char *sandbox_id, json_t **ret, struct err *err);
/* Whose it is: ERR_NOT_FOUND "alert_not_found". */
int alerts_owner(struct alerts *a, const char *alert_id, char ret[ID_SIZE], struct err *err);
int alerts_delete(struct alerts *a, const char *alert_id, struct err *err);
/* {events: the newest first, total}; also those of alerts that are deleted. */
int alerts_history(struct alerts *a, const char *sandbox_id, unsigned limit, json_t **ret,
                   struct err *err);

/* One look, now. For tests, in place of the thread. */
void alerts_look(struct alerts *a);
