#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/table.h"
#include "cli/ui.h"

/* The ids to show: those named, or every sandbox that runs now. */
static int find_ids(struct args *args, struct api *api, char ***ret, struct err *err)
{
    json_t *all = NULL, *item;
    int64_t total;
    size_t i;

    for (i = 0; i < args->n_words; i++) {
        auto_free char *id = NULL;

        if (api_sandbox_id(api, args->words[i], &id, err) < 0)
            return -1;
        *ret = strv_add(*ret, id);
    }
    if (args->n_words > 0)
        return 0;
    if (api_sandboxes(api, NULL, 0, &all, &total, err) < 0)
        return -1;
    json_array_foreach(all, i, item)
    {
        auto_free char *id = NULL;

        if (api_sandbox_id(api, json_text(item, "id"), &id, NULL) == 0)
            *ret = strv_add(*ret, id);
    }
    json_decref(all);
    return 0;
}

/* Metrics of each; one that has gone meanwhile is an error only when it was named. */
static int measure(struct args *args, struct api *api, char *const *ids, json_t **ret,
                   struct err *err)
{
    json_t *all = json_array();

    for (; ids && *ids; ids++) {
        json_t *one = NULL;

        if (api_call(api, "GET", NULL, &one, err, "/sandboxes/%s/metrics", *ids) == 0) {
            (void)json_array_append_new(all, one);
        } else if (args->n_words > 0 || api_no_daemon()) {
            json_decref(all);
            return -1;
        }
    }
    *ret = all;
    return 0;
}

static void print_table(const json_t *all)
{
    auto_table struct table t;
    json_t *m;
    size_t i;

    table_init(&t, "ID|>CPU%|>MEMORY|>LIMIT|>MEM%|>PIDS|>NET IN|>NET OUT");
    json_array_foreach(all, i, m)
    {
        double used = json_num(m, "memoryUsageMb"), limit = json_num(m, "memoryLimitMb");
        char in[24], out[24];

        ui_size(json_num(m, "networkRxBytes"), in);
        ui_size(json_num(m, "networkTxBytes"), out);
        table_cell(&t, json_text(m, "sandboxId"));
        table_cellf(&t, "%.1f", json_num(m, "cpuPercent"));
        table_cellf(&t, "%.1f MB", used);
        table_cellf(&t, "%.0f MB", limit);
        table_cellf(&t, "%.1f", limit > 0 ? 100 * used / limit : 0);
        table_cellf(&t, "%" PRId64, json_int(m, "pids"));
        table_cell(&t, in);
        table_cell(&t, out);
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

static int show_once(struct args *args, struct api *api, bool live, struct err *err)
{
    auto_strv char **ids = NULL;
    json_t *all = NULL;

    if (find_ids(args, api, &ids, err) < 0 || measure(args, api, ids, &all, err) < 0)
        return -1;
    if (live && !args_has(args, "json"))
        fputs("\033[H\033[J", stdout);
    if (args_has(args, "json"))
        live ? ui_json_line(all) : ui_json(all);
    else if (json_array_size(all) > 0 || live)
        print_table(all);
    else
        fputs("No sandboxes. Make one with `cay create`.\n", stderr);
    (void)fflush(stdout);
    json_decref(all);
    return 0;
}

int cmd_stats(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    bool live = ui_stdout_is_terminal() && !args_has(args, "no-stream");
    int wait_ms = (int)(args_number(args, "interval", 1) * 1000);

    if (wait_ms < 100 || wait_ms > 3600000)
        return ui_usage(args, "--interval must be from 100ms to 1h");
    if (api_open(&api, args, &err) < 0)
        return ui_fail(&err);
    do {
        if (show_once(args, &api, live, &err) < 0)
            return ui_fail(&err);
        if (live)
            (void)poll(NULL, 0, wait_ms);
    } while (live && !ui_output_failed());
    return STATUS_OK;
}
