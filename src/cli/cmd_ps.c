#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/live.h"
#include "cli/table.h"
#include "cli/ui.h"

#define COMMAND_SHOWN 160

/* Some fields are strings in the contract and might be numbers elsewhere. */
static void value_cell(struct table *t, const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);

    if (json_is_string(v))
        table_cell(t, json_string_value(v));
    else if (json_is_integer(v))
        table_cellf(t, "%" PRId64, (int64_t)json_integer_value(v));
    else if (json_is_number(v))
        table_cellf(t, "%.1f", json_number_value(v));
    else
        table_cell(t, "-");
}

/* One that has a program among its arguments, as a context of the interpreter has, is pages long;
 * --json has all of it. */
static void command_cell(struct table *t, const json_t *process)
{
    const char *command = json_text(process, "command");

    if (strlen(command) <= COMMAND_SHOWN)
        table_cell(t, command);
    else
        table_cellf(t, "%.*s…", (int)utf8_cut(command, COMMAND_SHOWN), command);
}

static void print_table(const json_t *processes)
{
    auto_table struct table t;
    json_t *p;
    size_t i;

    table_init(&t, ">PID|USER|>CPU%|>MEM%|COMMAND");
    json_array_foreach(processes, i, p)
    {
        value_cell(&t, p, "pid");
        value_cell(&t, p, "user");
        value_cell(&t, p, "cpu");
        value_cell(&t, p, "memory");
        command_cell(&t, p);
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

/* As hands know it from docker: without an id, the sandboxes. */
int cmd_ps(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    json_t *answer = NULL;
    const json_t *processes;

    if (args->n_words == 0)
        return cmd_ls(args);
    if (args_has(args, "all") || args_has(args, "status") || args_has(args, "quiet"))
        return ui_usage(args, "--all, --status and --quiet are for the list of sandboxes, without "
                              "ID");
    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0 ||
        api_call(&api, "GET", NULL, &answer, &err, "/sandboxes/%s/processes", id) < 0)
        return ui_fail(&err);
    processes = json_object_get(answer, "processes");
    if (args_has(args, "json"))
        ui_json(processes);
    else
        print_table(processes);
    json_decref(answer);
    return STATUS_OK;
}

/* ---- top ---- */

static void print_usage(const json_t *processes)
{
    auto_table struct table t;
    json_t *p;
    size_t i;

    table_init(&t, ">PID|>CPU%|>MEM%|>RESIDENT|COMMAND");
    json_array_foreach(processes, i, p)
    {
        char resident[24];

        ui_size(json_num(p, "rss") * 1024, resident);
        value_cell(&t, p, "pid");
        value_cell(&t, p, "cpu");
        value_cell(&t, p, "mem");
        table_cell(&t, resident);
        command_cell(&t, p);
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

static int draw_top(struct args *args, struct api *api, bool live, struct err *err)
{
    auto_free char *id = NULL;
    json_t *answer = NULL;
    const json_t *processes;

    if (api_sandbox_id(api, args->words[0], &id, err) < 0 ||
        api_call(api, "GET", NULL, &answer, err, "/sandboxes/%s/processes/top", id) < 0)
        return -1;
    processes = json_object_get(answer, "processes");
    if (live && !args_has(args, "json"))
        fputs("\033[H\033[J", stdout);
    if (args_has(args, "json"))
        live ? ui_json_line(processes) : ui_json(processes);
    else
        print_usage(processes);
    json_decref(answer);
    return 0;
}

int cmd_top(struct args *args)
{
    return live_run(args, draw_top);
}
