#include <math.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/objects.h"
#include "cli/table.h"
#include "cli/ui.h"

int cmd_alert_set(struct args *args)
{
    const char *action = args_text(args, "action");
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *alert = NULL, *body;
    auto_free char *id = NULL;
    char *end;
    double threshold = strtod(args->words[2], &end);

    if (*end == '%')
        end++;
    if (end == args->words[2] || *end || !isfinite(threshold))
        return ui_usage(args, "\"%s\" is no number", args->words[2]);
    body = json_pack("{s:s, s:f, s:s}", "metric", args->words[1], "threshold", threshold, "action",
                     action ? action : "notify");
    if (!body)
        return ui_usage(args, "the metric is not valid UTF-8 text");
    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0) {
        json_decref(body);
        return ui_fail(&err);
    }
    if (api_call(&api, "POST", body, &alert, &err, "/sandboxes/%s/alerts", id) < 0)
        return ui_fail(&err);
    return ui_made(args, alert);
}

static void print_time(struct table *t, const json_t *o, const char *key)
{
    char age[24];

    if (json_object_get(o, key))
        ui_duration(now_ms() - json_int(o, key), age);
    table_cell(t, json_object_get(o, key) ? age : "-");
}

static void print_alerts(const json_t *alerts)
{
    auto_table struct table t;
    json_t *a;
    size_t i;

    table_init(&t, "ID|METRIC|>THRESHOLD|ACTION|TRIGGERED|>LAST FIRED");
    json_array_foreach(alerts, i, a)
    {
        table_cell(&t, json_text(a, "id"));
        table_cell(&t, json_text(a, "metric"));
        table_cellf(&t, "%g", json_num(a, "threshold"));
        table_cell(&t, json_text(a, "action"));
        table_cell(&t, json_is_true(json_object_get(a, "triggered")) ? "yes" : "no");
        print_time(&t, a, "lastTriggered");
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

static void print_events(const json_t *events)
{
    auto_table struct table t;
    json_t *e;
    size_t i;

    table_init(&t, ">AGE|METRIC|>VALUE|>THRESHOLD|ACTION|ALERT");
    json_array_foreach(events, i, e)
    {
        print_time(&t, e, "timestamp");
        table_cell(&t, json_text(e, "metric"));
        table_cellf(&t, "%g", json_num(e, "value"));
        table_cellf(&t, "%g", json_num(e, "threshold"));
        table_cell(&t, json_text(e, "action"));
        table_cell(&t, json_text(e, "alertId"));
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

static int show(struct args *args, const char *route, const char *key,
                void (*print)(const json_t *list))
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    json_t *answer = NULL;

    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0 ||
        api_call(&api, "GET", NULL, &answer, &err, "/sandboxes/%s/%s", id, route) < 0)
        return ui_fail(&err);
    if (args_has(args, "json"))
        ui_json(json_object_get(answer, key));
    else
        print(json_object_get(answer, key));
    json_decref(answer);
    return STATUS_OK;
}

int cmd_alert_ls(struct args *args)
{
    return show(args, "alerts", "alerts",
                args_has(args, "quiet") ? objects_print_ids : print_alerts);
}

int cmd_alert_history(struct args *args)
{
    return show(args, "alerts/history", "events", print_events);
}

int cmd_alert_rm(struct args *args)
{
    return objects_rm(args, "alerts");
}
