#include "service/alerts.h"

#include "base/err.h"
#include "functions/functions_internal.h"
#include "service/services.h"

static int take_service(const struct call *call, struct alerts **ret, struct err *err)
{
    *ret = call->services ? call->services->alerts : NULL;
    return *ret ? 0 : err_set(err, ERR_UNSUPPORTED, "this daemon has no alerts");
}

static int set(struct call *call, struct err *err)
{
    struct alerts *a;

    if (take_service(call, &a, err) < 0)
        return -1;
    return alerts_set(a, in_id(call), in_str(call, "metric"), in_number(call, "threshold"),
                      in_str(call, "action"), &call->out, err);
}

static int list(struct call *call, struct err *err)
{
    struct alerts *a;

    if (take_service(call, &a, err) < 0)
        return -1;
    return alerts_list(a, in_id(call), &call->out, err);
}

static int history(struct call *call, struct err *err)
{
    struct alerts *a;

    if (take_service(call, &a, err) < 0)
        return -1;
    return alerts_history(a, in_id(call), (unsigned)in_int(call, "limit"), &call->out, err);
}

static int delete (struct call *call, struct err *err)
{
    struct alerts *a;

    if (take_service(call, &a, err) < 0 || alerts_delete(a, in_str(call, "alertId"), err) < 0)
        return -1;
    call->out = json_pack("{s:s}", "deleted", in_str(call, "alertId"));
    return 0;
}

static int owner(struct call *call, const char *id, char ret[ID_SIZE], struct err *err)
{
    struct alerts *a;

    return take_service(call, &a, err) < 0 ? -1 : alerts_owner(a, id, ret, err);
}

static const struct owned alert_owned = {
    .param = "alertId", .owner = owner, .code = "alert_not_found", .text = "Alert not found: %s"};

static const struct field set_fields[] = {
    {"metric", FIELD_STRING, .choices = alert_metrics, .example = "\"memory\"",
     .help = "what is looked at; cpu, memory and disk are percent of what the sandbox may use"},
    {"threshold", FIELD_NUMBER, .max = 1e9, .example = "90",
     .help = "0 to 100; of pids how many processes and threads"},
    {"action", FIELD_STRING, .choices = alert_actions, .preset = "\"notify\"",
     .help =
         "notify: an event alert.fired, which webhooks get too; pause and kill do that as well"},
    {0},
};

static const struct field history_fields[] = {
    {"limit", FIELD_INT, .clamp = true, .min = 1, .max = ALERT_HISTORY_MAX, .preset = "50",
     .help = "how many at most"},
    {0},
};

const struct function alert_functions[] = {
    {"monitor::set_alert", "POST", "/sandboxes/:sandboxId/alerts", set_fields, set,
     "sandbox_set_alert", SCOPE_WRITE, .reach = REACH_SANDBOX, .flags = FUNCTION_MAKES,
     .help = "Sets a threshold for what a sandbox uses", .gives = &alert_shape,
     .errors = ERRORS_GONE " alert_limit no_space"},
    {"monitor::list_alerts", "GET", "/sandboxes/:sandboxId/alerts", NULL, list, NULL, SCOPE_READ,
     .reach = REACH_SANDBOX, .help = "Lists the alerts of a sandbox", .gives = &alert_list_shape,
     .errors = ERRORS_GONE},
    {"monitor::delete_alert", "DELETE", "/alerts/:alertId", NULL, delete, NULL, SCOPE_WRITE,
     .reach = REACH_OWNED, .owned = &alert_owned, .help = "Deletes an alert",
     .gives = &alert_deleted_shape, .errors = "alert_not_found no_space"},
    {"monitor::alert_history", "GET", "/sandboxes/:sandboxId/alerts/history", history_fields,
     history, "sandbox_alert_history", SCOPE_READ, .reach = REACH_SANDBOX,
     .help = "Tells when alerts of a sandbox have fired", .gives = &alert_history_shape,
     .errors = ERRORS_GONE},
    {0},
};
