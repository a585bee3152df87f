#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "cli/attach.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/create.h"
#include "cli/ui.h"

static void set_text(json_t *body, const char *key, const char *value)
{
    if (value)
        (void)json_object_set_new(body, key, json_string(value));
}

static void set_whole(json_t *body, const struct args *args, const char *key)
{
    if (args_has(args, key))
        (void)json_object_set_new(body, key,
                                  json_integer((json_int_t)(args_number(args, key, 0) + 0.5)));
}

int create_body(const struct args *args, const char *image, json_t **ret, struct err *err)
{
    json_t *body = json_object();

    set_text(body, "image", image ? image : "host");
    set_text(body, "name", args_text(args, "name"));
    set_text(body, "workdir", args_text(args, "workdir"));
    set_whole(body, args, "memory");
    set_whole(body, args, "disk");
    if (args_has(args, "cpu"))
        (void)json_object_set_new(body, "cpu", json_real(args_number(args, "cpu", 1)));
    if (args_list(args, "env")) {
        json_t *env;

        if (pairs_to_json(args_list(args, "env"), "--env", &env, err) < 0) {
            json_decref(body);
            return -1;
        }
        (void)json_object_set_new(body, "env", env);
    }
    *ret = body;
    return 0;
}

int cmd_create(struct args *args)
{
    auto_api struct api api = {0};
    json_t *body = NULL, *sandbox = NULL;
    struct err err = {0};

    if (create_body(args, args->words[0], &body, &err) < 0)
        return ui_usage(args, "%s", err.text);
    set_whole(body, args, "timeout");
    if (args_list(args, "metadata")) {
        json_t *metadata;

        if (pairs_to_json(args_list(args, "metadata"), "--metadata", &metadata, &err) < 0) {
            json_decref(body);
            return ui_usage(args, "%s", err.text);
        }
        (void)json_object_set_new(body, "metadata", metadata);
    }
    if (args->n_rest > 0) {
        json_t *entrypoint = json_array();

        for (size_t i = 0; i < args->n_rest; i++)
            (void)json_array_append_new(entrypoint, json_string(args->rest[i]));
        (void)json_object_set_new(body, "entrypoint", entrypoint);
    }
    if (api_open(&api, args, &err) < 0 ||
        api_call(&api, "POST", body, &sandbox, &err, "/sandboxes") < 0)
        return ui_fail(&err);
    if (args_has(args, "json"))
        ui_json(sandbox);
    else
        printf("%s\n", json_text(sandbox, "id"));
    json_decref(sandbox);
    return STATUS_OK;
}
