#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/env_args.h"
#include "cli/escape.h"
#include "cli/ui.h"

static int open_sandbox(struct args *args, struct api *api, char **ret_id, struct err *err)
{
    if (api_open(api, args, err) < 0)
        return -1;
    return api_sandbox_id(api, args->words[0], ret_id, err);
}

/* Values came from a sandbox's callers; a terminal gets none of their control bytes. */
static void print_value(const char *value)
{
    auto_free char *shown = ui_stdout_is_terminal() ? escape_text(ESCAPE_LINES, value) : NULL;

    printf("%s\n", shown ? shown : value);
}

int cmd_env_list(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    json_t *answer = NULL, *vars, *value;
    const char *key;

    if (open_sandbox(args, &api, &id, &err) < 0 ||
        api_call(&api, "GET", NULL, &answer, &err, "/sandboxes/%s/env", id) < 0)
        return ui_fail(&err);
    vars = json_object_get(answer, "vars");
    if (args_has(args, "json"))
        ui_json(vars);
    else
        json_object_foreach(vars, key, value)
        {
            auto_free char *line = xasprintf("%s=%s", key, json_string_value(value));

            print_value(line);
        }
    json_decref(answer);
    return STATUS_OK;
}

int cmd_env_get(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    json_t *answer = NULL;
    int status = STATUS_OK;

    if (open_sandbox(args, &api, &id, &err) < 0 ||
        api_call(&api, "POST", json_pack("{s:s}", "key", args->words[1]), &answer, &err,
                 "/sandboxes/%s/env/get", id) < 0)
        return ui_fail(&err);
    if (!json_is_true(json_object_get(answer, "exists")))
        status = STATUS_FAILED;
    if (args_has(args, "json"))
        ui_json(answer);
    else if (status == STATUS_OK)
        print_value(json_text(answer, "value"));
    else
        ui_warn("%s has no variable \"%s\"", args->words[0], args->words[1]);
    json_decref(answer);
    return status;
}

int cmd_env_set(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    json_t *vars = json_object();

    for (size_t i = 1; i < args->n_words; i++) {
        size_t before = json_object_size(vars);
        bool own = !strchr(args->words[i], '=');

        if (env_add(vars, args->words[i], "env set", &err) < 0) {
            json_decref(vars);
            return ui_usage(args, "%s", err.text);
        }
        if (own && json_object_size(vars) == before) {
            json_decref(vars);
            return ui_usage(args, "this shell has no variable \"%s\": write %s=VALUE",
                            args->words[i], args->words[i]);
        }
    }
    if (open_sandbox(args, &api, &id, &err) < 0) {
        json_decref(vars);
        return ui_fail(&err);
    }
    if (api_call(&api, "POST", json_pack("{s:o}", "vars", vars), NULL, &err, "/sandboxes/%s/env",
                 id) < 0)
        return ui_fail(&err);
    return STATUS_OK;
}

int cmd_env_unset(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    int status = STATUS_OK;

    if (open_sandbox(args, &api, &id, &err) < 0)
        return ui_fail(&err);
    for (size_t i = 1; i < args->n_words && status != STATUS_NO_DAEMON; i++) {
        if (api_call(&api, "POST", json_pack("{s:s}", "key", args->words[i]), NULL, &err,
                     "/sandboxes/%s/env/delete", id) < 0)
            status = ui_fail(&err);
    }
    return status;
}
