#include <unistd.h>

#include "base/err.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/table.h"
#include "cli/ui.h"

static int prune(struct api *api, const struct args *args, bool dry_run, json_t **ret,
                 struct err *err)
{
    json_t *body = json_pack("{s:b}", "dryRun", dry_run);

    if (args_has(args, "unused-for"))
        (void)json_object_set_new(body, "unusedFor",
                                  json_integer((json_int_t)args_number(args, "unused-for", 0)));
    if (args_has(args, "keep-size"))
        (void)json_object_set_new(body, "keepMb",
                                  json_integer((json_int_t)args_number(args, "keep-size", 0)));
    return api_call(api, "POST", body, ret, err, "/images/prune");
}

static void print_removed(FILE *out, const json_t *answer)
{
    auto_table struct table t;
    json_t *image;
    size_t i;

    table_init(&t, "NAME|>SIZE");
    json_array_foreach(json_object_get(answer, "removed"), i, image)
    {
        char size[24];

        ui_size(json_num(image, "size"), size);
        table_cell(&t, json_text(image, "name"));
        table_cell(&t, size);
    }
    if (i > 0)
        table_print(&t, out, ui_has_color(fileno(out)));
}

static void report(const struct args *args, const json_t *answer, bool dry_run)
{
    char bytes[24];

    ui_size(json_num(answer, "bytes"), bytes);
    if (args_has(args, "json")) {
        ui_json(answer);
        return;
    }
    print_removed(stdout, answer);
    ui_warn("%s %s", bytes, dry_run ? "would be freed; nothing was removed" : "freed");
}

/* 1 = yes, 0 = no, -1. What would go is shown first, on stderr: it is part of the question. */
static int confirm(struct api *api, const struct args *args, struct err *err)
{
    json_t *answer = NULL;
    size_t n;
    int yes;

    if (prune(api, args, true, &answer, err) < 0)
        return -1;
    n = json_array_size(json_object_get(answer, "removed"));
    if (n > 0 && isatty(STDIN_FILENO) == 1)
        print_removed(stderr, answer);
    yes = n == 0 || ui_confirm("Remove %zu %s?", n, n == 1 ? "image" : "images");
    json_decref(answer);
    return yes;
}

int cmd_image_prune(struct args *args)
{
    bool dry_run = args_has(args, "dry-run");
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *answer = NULL;
    int yes = 1;

    if (api_open(&api, args, &err) < 0)
        return ui_fail(&err);
    if (!dry_run && !args_has(args, "yes"))
        yes = confirm(&api, args, &err);
    if (yes == 0) {
        ui_warn("nothing was removed: it needs a yes on a terminal, or --yes");
        return STATUS_FAILED;
    }
    if (yes < 0 || prune(&api, args, dry_run, &answer, &err) < 0)
        return ui_fail(&err);
    report(args, answer, dry_run);
    json_decref(answer);
    return STATUS_OK;
}
