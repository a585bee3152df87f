#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/table.h"
#include "cli/ui.h"

#define FIRST_PAGE 200

/* "running", "stopped (reboot)", "running (entrypoint exited 1)": a sandbox outlives its main
 * process. Nobody wonders about a stop that was asked for. */
static void status_cell(struct table *t, const json_t *sandbox)
{
    const json_t *main = json_object_get(sandbox, "entrypointState");
    const char *status = json_text(sandbox, "status"), *why = json_text(sandbox, "reason");
    const char *reason = json_text(main, "reason");

    if (*why && strcmp(why, "requested") != 0)
        table_cellf(t, "%s (%s)", status, why);
    else if (strcmp(json_text(main, "state"), "exited") != 0 || !*reason)
        table_cell(t, status);
    else if (strcmp(reason, "exit") == 0)
        table_cellf(t, "%s (entrypoint exited %" PRId64 ")", status, json_int(main, "exitCode"));
    else if (strcmp(reason, "signal") == 0)
        table_cellf(t, "%s (entrypoint ended by signal %" PRId64 ")", status,
                    json_int(main, "exitCode") - STATUS_SIGNAL);
    else
        table_cellf(t, "%s (entrypoint ended: %s)", status,
                    strcmp(reason, "oom") == 0 ? "out of memory" : reason);
}

static void print_table(json_t *all)
{
    auto_table struct table t;
    int64_t now = now_ms();
    json_t *item;
    size_t i;

    table_init(&t, "ID|NAME|IMAGE|STATUS|>AGE|>EXPIRES");
    json_array_foreach(all, i, item)
    {
        int64_t expires = json_int(item, "expiresAt");
        char age[24], left[24];

        ui_duration(now - json_int(item, "createdAt"), age);
        ui_duration(expires - now + 999, left);
        table_cell(&t, json_text(item, "id"));
        table_cell(&t, ui_name(json_text(item, "id"), json_text(item, "name")));
        table_cell(&t, json_text(item, "image"));
        status_cell(&t, item);
        table_cell(&t, age);
        if (expires == 0)
            table_cell(&t, "never");
        else
            table_cellf(&t, expires <= now ? "now" : "in %s", left);
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

static void print_ids(json_t *all)
{
    json_t *item;
    size_t i;

    json_array_foreach(all, i, item)
    {
        if (id_valid(json_text(item, "id"), "sbx"))
            printf("%s\n", json_text(item, "id"));
    }
}

int cmd_ls(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *all = NULL;
    int64_t total = 0;

    if (api_open(&api, args, &err) < 0 ||
        api_sandboxes(&api, args_text(args, "status"), args_has(args, "all") ? 0 : FIRST_PAGE, &all,
                      &total, &err) < 0)
        return ui_fail(&err);
    if (args_has(args, "json"))
        ui_json(all);
    else if (args_has(args, "quiet"))
        print_ids(all);
    else if (json_array_size(all) > 0)
        print_table(all);
    else
        fputs("No sandboxes. Make one with `cay create`.\n", stderr);
    if ((int64_t)json_array_size(all) < total)
        ui_warn("showing %zu of %" PRId64 " sandboxes: --all shows every one", json_array_size(all),
                total);
    json_decref(all);
    return STATUS_OK;
}

static int inspect_one(struct api *api, const char *word, json_t **ret, struct err *err)
{
    auto_free char *id = NULL;

    if (id_valid(word, "bg"))
        return api_call(api, "GET", NULL, ret, err, "/exec/background/%s/status", word);
    if (api_sandbox_id(api, word, &id, err) < 0)
        return -1;
    return api_call(api, "GET", NULL, ret, err, "/sandboxes/%s", id);
}

int cmd_inspect(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *all = json_array();
    int status = STATUS_OK;

    if (api_open(&api, args, &err) < 0)
        status = ui_fail(&err);
    for (size_t i = 0; status != STATUS_NO_DAEMON && api.http && i < args->n_words; i++) {
        json_t *one = NULL;

        if (inspect_one(&api, args->words[i], &one, &err) < 0)
            status = ui_fail(&err);
        else
            (void)json_array_append_new(all, one);
    }
    /* One object for one id, so that `cay inspect ID | jq .status` reads well. */
    if (args->n_words == 1 && json_array_size(all) == 1)
        ui_json(json_array_get(all, 0));
    else if (args->n_words > 1)
        ui_json(all);
    json_decref(all);
    return status;
}
