#include "cli/file_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/args.h"
#include "cli/client.h"
#include "cli/escape.h"
#include "cli/remote_path.h"
#include "cli/table.h"
#include "cli/ui.h"

static void print_list(const json_t *list, bool details)
{
    auto_table struct table t;
    json_t *file;
    size_t i;

    table_init(&t, "TYPE|>SIZE|>MODIFIED|NAME");
    json_array_foreach(list, i, file)
    {
        auto_free char *name = entry_name(file);
        char age[24];

        if (!details) {
            ui_line("%s", name);
            continue;
        }
        ui_duration(now_ms() - json_int(file, "modifiedAt"), age);
        table_cell(&t, json_is_true(json_object_get(file, "isDirectory")) ? "d" : "-");
        table_cellf(&t, "%" PRId64, json_int(file, "size"));
        table_cellf(&t, "%s ago", age);
        table_cell(&t, name);
    }
    if (details)
        table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

void file_list_print(const struct args *args, const json_t *list)
{
    if (args_has(args, "json"))
        ui_json(list);
    else
        print_list(list, !args_has(args, "quiet"));
}
