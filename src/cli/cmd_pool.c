#include <unistd.h>

#include "base/err.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/network_args.h"
#include "cli/objects.h"
#include "cli/table.h"
#include "cli/ui.h"

/* Sandboxes that are up before somebody asks for them. */

static const char *word_of(const json_t *profile, const char *key)
{
    const char *text = json_string_value(json_object_get(profile, key));

    return text ? text : "-";
}

static void print_table(const json_t *profiles)
{
    auto_table struct table t;
    json_t *p;
    size_t i;

    table_init(&t, "ID|IMAGE|TEMPLATE|CODE|>MEMORY|>CPU|>READY|>SIZE|ERROR");
    json_array_foreach(profiles, i, p)
    {
        table_cell(&t, word_of(p, "id"));
        table_cell(&t, word_of(p, "image"));
        table_cell(&t, word_of(p, "template"));
        table_cell(&t, word_of(json_object_get(p, "interpreter"), "language"));
        table_cellf(&t, "%lld MB", (long long)json_int(p, "memory"));
        table_cellf(&t, "%g", json_num(p, "cpu"));
        table_cellf(&t, "%lld", (long long)json_int(p, "ready"));
        table_cellf(&t, "%lld", (long long)json_int(p, "size"));
        table_cell(&t, word_of(p, "error"));
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

int cmd_pool_ls(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *answer = NULL, *profiles;

    if (api_open(&api, args, &err) < 0 ||
        api_call(&api, "GET", NULL, &answer, &err, "/pool/profiles") < 0)
        return ui_fail(&err);
    profiles = json_object_get(answer, "profiles");
    if (args_has(args, "json"))
        ui_json(profiles);
    else if (args_has(args, "quiet"))
        objects_print_ids(profiles);
    else
        print_table(profiles);
    json_decref(answer);
    return STATUS_OK;
}

static void put_count(const struct args *args, const char *flag, json_t *body)
{
    if (args_has(args, flag))
        (void)json_object_set_new(body, flag,
                                  json_integer((json_int_t)(args_number(args, flag, 0) + 0.5)));
}

static void put_interpreter(const struct args *args, json_t *body)
{
    json_t *o = json_pack("{s:s}", "language", "python"), *imports = json_array();

    for (char **name = args_list(args, "import"); name && *name; name++)
        (void)json_array_append_new(imports, json_string(*name));
    if (json_array_size(imports) > 0)
        (void)json_object_set(o, "imports", imports);
    if (args_has(args, "python") || json_array_size(imports) > 0)
        (void)json_object_set(body, "interpreter", o);
    json_decref(imports);
    json_decref(o);
}

int cmd_pool_add(struct args *args)
{
    const char *template = args_text(args, "template");
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *profile = NULL, *body, *network = NULL;

    if ((args->n_words > 0) == (template != NULL))
        return ui_usage(args, template ? "either an image or --template, not both"
                                       : "which image, or which --template?");
    if (network_args(args, &network, &err) < 0)
        return ui_usage(args, "%s", err.text);
    body = json_object();
    if (network)
        (void)json_object_set_new(body, "network", network);
    json_put_text(body, "image", args->n_words > 0 ? args->words[0] : NULL);
    json_put_text(body, "template", template);
    put_count(args, "size", body);
    put_count(args, "memory", body);
    put_count(args, "pids", body);
    put_count(args, "disk", body);
    put_interpreter(args, body);
    if (args_has(args, "cpu"))
        (void)json_object_set_new(body, "cpu", json_real(args_number(args, "cpu", 1)));
    if (api_open(&api, args, &err) < 0) {
        json_decref(body);
        return ui_fail(&err);
    }
    if (api_call(&api, "POST", body, &profile, &err, "/pool/profiles") < 0)
        return ui_fail(&err);
    return ui_made(args, profile);
}

int cmd_pool_rm(struct args *args)
{
    return objects_rm(args, "pool/profiles");
}
