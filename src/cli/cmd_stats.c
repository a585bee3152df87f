#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/live.h"
#include "cli/table.h"
#include "cli/ui.h"

/* The sandboxes to show: those named, or every one. */
static int find_sandboxes(struct args *args, struct api *api, json_t **ret, struct err *err)
{
    int64_t total;
    json_t *found;

    if (args->n_words == 0)
        return api_sandboxes(api, NULL, 0, ret, &total, err);
    found = json_array();
    for (size_t i = 0; i < args->n_words; i++) {
        auto_free char *id = NULL;
        json_t *one = NULL;

        if (api_sandbox_id(api, args->words[i], &id, err) < 0 ||
            api_call(api, "GET", NULL, &one, err, "/sandboxes/%s", id) < 0) {
            json_decref(found);
            return -1;
        }
        (void)json_array_append_new(found, one);
    }
    *ret = found;
    return 0;
}

/* Metrics of each, with its name; one that has gone meanwhile is an error only when it was named.
 */
static int measure(struct args *args, struct api *api, const json_t *sandboxes, json_t **ret,
                   struct err *err)
{
    json_t *all = json_array(), *s;
    size_t i;

    json_array_foreach(sandboxes, i, s)
    {
        auto_free char *id = url_encoded(json_text(s, "id"));
        json_t *one = NULL;

        if (api_call(api, "GET", NULL, &one, err, "/sandboxes/%s/metrics", id) == 0) {
            (void)json_object_set(one, "name", json_object_get(s, "name"));
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

    table_init(&t, "ID|NAME|>CPU%|>MEMORY|>LIMIT|>MEM%|>PIDS|>NET IN|>NET OUT");
    json_array_foreach(all, i, m)
    {
        double used = json_num(m, "memoryUsageMb"), limit = json_num(m, "memoryLimitMb");
        char in[24], out[24];

        ui_size(json_num(m, "networkRxBytes"), in);
        ui_size(json_num(m, "networkTxBytes"), out);
        table_cell(&t, json_text(m, "sandboxId"));
        table_cell(&t, ui_name(json_text(m, "sandboxId"), json_text(m, "name")));
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

static int draw(struct args *args, struct api *api, bool live, struct err *err)
{
    json_t *sandboxes = NULL, *all = NULL;
    int r = find_sandboxes(args, api, &sandboxes, err);

    if (r == 0)
        r = measure(args, api, sandboxes, &all, err);
    json_decref(sandboxes);
    if (r < 0)
        return -1;
    if (live && !args_has(args, "json"))
        fputs("\033[H\033[J", stdout);
    if (args_has(args, "json"))
        live ? ui_json_line(all) : ui_json(all);
    else if (json_array_size(all) > 0 || live)
        print_table(all);
    else
        fputs("No sandboxes. Make one with `cay create`.\n", stderr);
    json_decref(all);
    return 0;
}

/* ---- what they used ---- */

static void add_samples(struct table *t, const json_t *history)
{
    json_t *s;
    size_t i;

    json_array_foreach(json_object_get(history, "samples"), i, s)
    {
        char ago[24], in[24], out[24];

        ui_duration(now_ms() - json_int(s, "timestamp"), ago);
        ui_size(json_num(s, "networkRxBytes"), in);
        ui_size(json_num(s, "networkTxBytes"), out);
        table_cell(t, json_text(history, "sandboxId"));
        table_cell(t, ago);
        table_cellf(t, "%.1f", json_num(s, "cpuPercent"));
        table_cellf(t, "%.1f MB", json_num(s, "memoryUsageMb"));
        table_cellf(t, "%" PRId64, json_int(s, "pids"));
        table_cell(t, in);
        table_cell(t, out);
    }
}

/* One that has gone meanwhile is an error only when it was named. */
static int collect(struct args *args, struct api *api, const json_t *sandboxes, json_t *all,
                   struct err *err)
{
    long long since = args_since_ms(args);
    json_t *s;
    size_t i;

    json_array_foreach(sandboxes, i, s)
    {
        auto_free char *id = url_encoded(json_text(s, "id"));
        json_t *one = NULL;

        if (api_call(api, "GET", NULL, &one, err, "/sandboxes/%s/metrics/history?since=%lld", id,
                     since) == 0)
            (void)json_array_append_new(all, one);
        else if (args->n_words > 0 || api_no_daemon())
            return -1;
    }
    return 0;
}

static int show_history(struct args *args, struct api *api, struct err *err)
{
    json_t *sandboxes = NULL, *all = json_array(), *one;
    auto_table struct table t;
    size_t i;
    int r = find_sandboxes(args, api, &sandboxes, err);

    if (r == 0)
        r = collect(args, api, sandboxes, all, err);
    table_init(&t, "ID|>AGO|>CPU%|>MEMORY|>PIDS|>NET IN|>NET OUT");
    json_array_foreach(all, i, one) add_samples(&t, one);
    if (r == 0 && args_has(args, "json"))
        ui_json(all);
    else if (r == 0)
        table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
    json_decref(sandboxes);
    json_decref(all);
    return r;
}

int cmd_stats(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};

    if (!args_has(args, "since"))
        return live_run(args, draw);
    if (api_open(&api, args, &err) < 0 || show_history(args, &api, &err) < 0)
        return ui_fail(&err);
    return STATUS_OK;
}
