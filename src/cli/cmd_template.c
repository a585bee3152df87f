#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/objects.h"
#include "cli/pull.h"
#include "cli/table.h"
#include "cli/template_args.h"
#include "cli/ui.h"

/* Has it what must be built, and was it? */
static const char *build_state(const json_t *template)
{
    const json_t *config = json_object_get(template, "config");
    const json_t *build = json_object_get(template, "build");

    if (json_is_true(json_object_get(build, "stale")))
        return "stale";
    if (build)
        return "yes";
    return json_object_get(config, "setup") || json_object_get(config, "files") ||
                   json_object_get(config, "user")
               ? "not yet"
               : "-";
}

static void print_table(const json_t *templates)
{
    auto_table struct table t;
    json_t *template;
    size_t i;

    table_init(&t, "NAME|IMAGE|BUILT|>AGE|DESCRIPTION");
    json_array_foreach(templates, i, template)
    {
        int64_t made = json_int(template, "createdAt");
        char age[24];

        ui_duration(now_ms() - made, age);
        table_cell(&t, json_text(template, "name"));
        table_cell(&t, json_text(json_object_get(template, "config"), "image"));
        table_cell(&t, build_state(template));
        table_cell(&t, made > 0 ? age : "-");
        table_cell(&t, json_text(template, "description"));
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

int cmd_template_ls(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *answer = NULL, *templates, *template;
    size_t i;

    if (api_open(&api, args, &err) < 0 ||
        api_call(&api, "GET", NULL, &answer, &err, "/templates") < 0)
        return ui_fail(&err);
    templates = json_object_get(answer, "templates");
    if (args_has(args, "json")) {
        ui_json(templates);
    } else if (args_has(args, "quiet")) {
        json_array_foreach(templates, i, template) ui_line("%s", json_text(template, "name"));
    } else {
        print_table(templates);
    }
    json_decref(answer);
    return STATUS_OK;
}

int cmd_template_show(struct args *args)
{
    return objects_inspect(args, "templates");
}

/* Takes body. */
static int build(struct args *args, const char *path, json_t *body, const char *name)
{
    struct pull pull = {.name = name, .quiet = args_has(args, "quiet")};
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *template = NULL;

    if (api_open(&api, args, &err) < 0) {
        json_decref(body);
        return ui_fail(&err);
    }
    if (pull_call(&api, path, body, &pull, &template, &err) < 0)
        return pull_fail(&err);
    return ui_made(args, template);
}

int cmd_template_create(struct args *args)
{
    auto_free char *image = NULL;
    struct err err = {0};
    json_t *body = NULL;

    if (template_body(args, &body, &err) < 0)
        return ui_usage(args, "%s", err.text);
    image = xstrdup(json_text(json_object_get(body, "config"), "image"));
    return build(args, "/templates", body, image);
}

int template_build_again(struct args *args)
{
    auto_free char *name = url_encoded(args->words[0]);
    auto_free char *path = xasprintf("/templates/%s/build", name);
    json_t *body = json_object();

    if (args_has(args, "pull"))
        (void)json_object_set_new(body, "pull", json_true());
    if (args_has(args, "no-cache"))
        (void)json_object_set_new(body, "noCache", json_true());
    return build(args, path, body, args->words[0]);
}

int cmd_template_rm(struct args *args)
{
    return objects_rm(args, "templates");
}
