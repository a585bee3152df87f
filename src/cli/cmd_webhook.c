#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/objects.h"
#include "cli/table.h"
#include "cli/ui.h"

/* Webhooks: the secret of a new one is shown once. */

static json_t *body_of(const struct args *args)
{
    json_t *body = json_pack("{s:s}", "url", args->words[0]), *topics = json_array();

    for (char **topic = args_list(args, "topic"); topic && *topic; topic++)
        (void)json_array_append_new(topics, json_string(*topic));
    if (json_array_size(topics) > 0)
        (void)json_object_set(body, "topics", topics);
    json_decref(topics);
    json_put_text(body, "sandboxId", args_text(args, "sandbox"));
    return body;
}

int cmd_webhook_create(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *webhook = NULL;

    if (api_open(&api, args, &err) < 0 ||
        api_call(&api, "POST", body_of(args), &webhook, &err, "/webhooks") < 0)
        return ui_fail(&err);
    if (args_has(args, "json")) {
        ui_json(webhook);
    } else {
        if (ui_stdout_is_terminal())
            ui_warn("keep the secret now, it is not shown again");
        printf("%s %s\n", json_text(webhook, "id"), json_text(webhook, "secret"));
    }
    json_decref(webhook);
    return STATUS_OK;
}

/* ---- lists ---- */

static void add_topics(struct table *t, const json_t *topics)
{
    char text[128] = "";
    json_t *topic;
    size_t i;

    json_array_foreach(topics, i, topic)
    {
        size_t len = strlen(text);

        (void)snprintf(text + len, sizeof(text) - len, "%s%s", i ? "," : "",
                       json_string_value(topic));
    }
    table_cell(t, text);
}

static void add_ago(struct table *t, int64_t ms)
{
    char text[24];

    if (ms > 0) {
        ui_duration(now_ms() - ms, text);
        table_cellf(t, "%s ago", text);
    } else {
        table_cell(t, "-");
    }
}

/* "204", "no_connection" or "-". */
static void add_answer(struct table *t, const json_t *o, const char *status, const char *error)
{
    if (json_int(o, status) > 0)
        table_cellf(t, "%lld", (long long)json_int(o, status));
    else
        table_cell(t, *json_text(o, error) ? json_text(o, error) : "-");
}

static void print_webhooks(const json_t *webhooks)
{
    auto_table struct table t;
    json_t *w;
    size_t i;

    table_init(&t, "ID|URL|TOPICS|SANDBOX|STATE|LAST|SENT");
    json_array_foreach(webhooks, i, w)
    {
        bool active = json_is_true(json_object_get(w, "active"));

        table_cell(&t, json_text(w, "id"));
        table_cell(&t, json_text(w, "url"));
        add_topics(&t, json_object_get(w, "topics"));
        table_cell(&t, *json_text(w, "sandboxId") ? json_text(w, "sandboxId") : "all");
        table_cell(&t, !active ? "paused" : json_int(w, "failures") > 0 ? "failing" : "ok");
        add_answer(&t, w, "lastStatus", "lastError");
        add_ago(&t, json_int(w, "lastAttemptAt"));
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

int cmd_webhook_ls(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *answer = NULL, *webhooks, *w;
    size_t i;

    if (api_open(&api, args, &err) < 0 ||
        api_call(&api, "GET", NULL, &answer, &err, "/webhooks") < 0)
        return ui_fail(&err);
    webhooks = json_object_get(answer, "webhooks");
    if (args_has(args, "json")) {
        ui_json(webhooks);
    } else if (args_has(args, "quiet")) {
        json_array_foreach(webhooks, i, w)
        {
            printf("%s\n", json_text(w, "id"));
        }
    } else {
        print_webhooks(webhooks);
    }
    json_decref(answer);
    return STATUS_OK;
}

static void print_deliveries(const json_t *deliveries)
{
    auto_table struct table t;
    json_t *d;
    size_t i;

    table_init(&t, "ID|TOPIC|STATE|>ATTEMPTS|ANSWER|SENT|EVENT");
    json_array_foreach(deliveries, i, d)
    {
        table_cell(&t, json_text(d, "id"));
        table_cell(&t, json_text(d, "topic"));
        table_cell(&t, json_text(d, "state"));
        table_cellf(&t, "%lld", (long long)json_int(d, "attempts"));
        add_answer(&t, d, "status", "error");
        add_ago(&t, json_int(d, "timestamp"));
        table_cell(&t, json_text(d, "eventId"));
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

int cmd_webhook_deliveries(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = url_encoded(args->words[0]);
    struct err err = {0};
    json_t *answer = NULL;

    if (api_open(&api, args, &err) < 0 ||
        api_call(&api, "GET", NULL, &answer, &err, "/webhooks/%s/deliveries?limit=%.0f", id,
                 args_number(args, "tail", 20)) < 0)
        return ui_fail(&err);
    if (args_has(args, "json"))
        ui_json(json_object_get(answer, "deliveries"));
    else
        print_deliveries(json_object_get(answer, "deliveries"));
    json_decref(answer);
    return STATUS_OK;
}

/* ---- one ---- */

int cmd_webhook_rm(struct args *args)
{
    return objects_rm(args, "webhooks");
}

int cmd_webhook_test(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = url_encoded(args->words[0]);
    struct err err = {0};
    json_t *d = NULL;
    bool taken;

    if (api_open(&api, args, &err) < 0 ||
        api_call(&api, "POST", NULL, &d, &err, "/webhooks/%s/test", id) < 0)
        return ui_fail(&err);
    taken = strcmp(json_text(d, "state"), "delivered") == 0;
    if (args_has(args, "json"))
        ui_json(d);
    else if (json_int(d, "status") > 0)
        printf("%s: it answered %lld in %lld ms\n", taken ? "delivered" : "failed",
               (long long)json_int(d, "status"), (long long)json_int(d, "duration"));
    else
        ui_line("failed: %s (%s)", json_text(d, "error"), json_text(d, "message"));
    json_decref(d);
    return taken ? STATUS_OK : STATUS_FAILED;
}

static int set_active(struct args *args, bool active)
{
    auto_api struct api api = {0};
    struct err err = {0};

    if (api_open(&api, args, &err) < 0)
        return ui_fail(&err);
    for (size_t i = 0; i < args->n_words; i++) {
        auto_free char *id = url_encoded(args->words[i]);
        json_t *answer = NULL;

        if (api_call(&api, "PUT", json_pack("{s:b}", "active", active), &answer, &err,
                     "/webhooks/%s", id) < 0)
            return ui_fail(&err);
        json_decref(answer);
        if (!args_has(args, "quiet"))
            printf("%s\n", args->words[i]);
    }
    return STATUS_OK;
}

int cmd_webhook_pause(struct args *args)
{
    return set_active(args, false);
}

int cmd_webhook_resume(struct args *args)
{
    return set_active(args, true);
}
