#include "cli/repair.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cli/args.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/table.h"
#include "cli/ui.h"

int strays_ask(struct api *api, json_t **ret, struct err *err)
{
    return api_call(api, "GET", NULL, ret, err, "/admin/strays");
}

static bool is_wanted(const struct args *args, const char *id)
{
    for (size_t i = 0; i < args->n_words; i++)
        if (strcmp(args->words[i], id) == 0)
            return true;
    return args->n_words == 0;
}

/* A word that names nothing is a slip; then nothing is done at all. */
static bool are_known(const struct args *args, const json_t *answer)
{
    const json_t *strays = json_object_get(answer, "strays");
    bool known = true;

    for (size_t i = 0; i < args->n_words; i++) {
        size_t at = 0;

        while (at < json_array_size(strays) &&
               strcmp(json_text(json_array_get(strays, at), "id"), args->words[i]) != 0)
            at++;
        if (at < json_array_size(strays))
            continue;
        ui_warn("nothing that belongs to no sandbox has the id \"%s\": see `cay doctor`",
                args->words[i]);
        known = false;
    }
    return known;
}

/* Those that the words name, or all; *ret_bytes is what they take. */
static json_t *choose(const struct args *args, const json_t *answer, double *ret_bytes)
{
    json_t *chosen = json_array(), *stray;
    size_t i;

    *ret_bytes = 0;
    json_array_foreach(json_object_get(answer, "strays"), i, stray)
    {
        if (!is_wanted(args, json_text(stray, "id")))
            continue;
        (void)json_array_append(chosen, stray);
        *ret_bytes += json_num(stray, "bytes");
    }
    return chosen;
}

static void show(const json_t *strays)
{
    auto_table struct table t;
    json_t *stray;
    size_t i;

    table_init(&t, "ID|>SIZE|PATH");
    json_array_foreach(strays, i, stray)
    {
        char size[24];

        ui_size(json_num(stray, "bytes"), size);
        table_cell(&t, json_text(stray, "id"));
        table_cell(&t, size);
        table_cell(&t, json_text(stray, "path"));
    }
    if (i > 0)
        table_print(&t, stderr, ui_has_color(fileno(stderr)));
}

static int repair_one(struct api *api, bool adopt, const char *id, struct err *err)
{
    if (adopt)
        return api_call(api, "POST", NULL, NULL, err, "/admin/strays/%s/adopt", id);
    return api_call(api, "DELETE", NULL, NULL, err, "/admin/strays/%s", id);
}

static int repair_all(struct api *api, const struct args *args, bool adopt, const json_t *strays)
{
    json_t *done = json_array(), *stray;
    int status = STATUS_OK;
    size_t i;

    json_array_foreach(strays, i, stray)
    {
        struct err err = {0};

        if (repair_one(api, adopt, json_text(stray, "id"), &err) < 0)
            status = ui_fail(&err);
        else
            (void)json_array_append(done, stray);
    }
    if (args_has(args, "json"))
        ui_json(done);
    else
        ui_warn("%zu %s", json_array_size(done),
                adopt ? "became stopped sandboxes" : "were removed");
    json_decref(done);
    return status;
}

int repair(const struct args *args)
{
    const char *what = args_text(args, "repair");
    bool adopt = strcmp(what, "adopt") == 0;
    auto_api struct api api = {0};
    json_t *answer = NULL, *chosen;
    struct err err = {0};
    int status = STATUS_FAILED;
    char size[24];
    double bytes;

    if (!adopt && strcmp(what, "remove") != 0) {
        ui_warn("--repair takes adopt or remove, not %s", what);
        return STATUS_USAGE;
    }
    if (api_open(&api, args, &err) < 0 || strays_ask(&api, &answer, &err) < 0)
        return ui_fail(&err);
    if (!are_known(args, answer)) {
        json_decref(answer);
        return STATUS_FAILED;
    }
    chosen = choose(args, answer, &bytes);
    ui_size(bytes, size);
    show(chosen);
    if (json_array_size(chosen) == 0 || args_has(args, "yes") ||
        ui_confirm("%s %zu, %s?", adopt ? "Make stopped sandboxes of these" : "Remove these",
                   json_array_size(chosen), size))
        status = repair_all(&api, args, adopt, chosen);
    else
        ui_warn("nothing was done: it needs a yes on a terminal, or --yes");
    json_decref(chosen);
    json_decref(answer);
    return status;
}
