#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "cli/attach.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/create.h"
#include "cli/pull.h"
#include "cli/ui.h"

static void set_whole(json_t *body, const struct args *args, const char *key)
{
    if (args_has(args, key))
        (void)json_object_set_new(body, key,
                                  json_integer((json_int_t)(args_number(args, key, 0) + 0.5)));
}

int create_body(const struct args *args, const char *image, json_t **ret, struct err *err)
{
    static const char *const policies[] = {"always", "missing", "never"};
    const char *policy = args_text(args, "pull");
    json_t *body;
    bool known = !policy;

    for (size_t i = 0; i < ARRAY_LEN(policies) && !known; i++)
        known = strcmp(policy, policies[i]) == 0;
    if (!known)
        return err_set(err, ERR_INVALID, "--pull needs always, missing or never, not \"%s\"",
                       policy);
    body = json_object();
    json_put_text(body, "pull", policy);
    json_put_text(body, "image", image ? image : "host");
    json_put_text(body, "name", args_text(args, "name"));
    json_put_text(body, "workdir", args_text(args, "workdir"));
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

int create_sandbox(struct api *api, const struct args *args, json_t *body, json_t **ret,
                   bool *ret_pulled, struct err *err)
{
    const char *image = json_text(body, "image");
    struct pull pull = {.quiet = args_has(args, "quiet")};
    auto_free char *name = xstrdup(image);
    int r;

    *ret_pulled = false;
    /* The host image is always there: nothing to wait for, so no stream either. */
    if (strcmp(image, "host") == 0)
        return api_call(api, "POST", body, ret, err, "/sandboxes");
    pull.name = name;
    r = pull_call(api, "/sandboxes", body, &pull, ret, err);
    *ret_pulled = pull.fetched;
    return r;
}

int cmd_create(struct args *args)
{
    auto_api struct api api = {0};
    json_t *body = NULL, *sandbox = NULL;
    struct err err = {0};
    bool pulled;

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
        json_t *entrypoint = command_line_json(args);

        if (!entrypoint) {
            json_decref(body);
            return ui_usage(args, "the command is not valid UTF-8 text");
        }
        (void)json_object_set_new(body, "entrypoint", entrypoint);
    }
    if (api_open(&api, args, &err) < 0) {
        json_decref(body);
        return ui_fail(&err);
    }
    if (create_sandbox(&api, args, body, &sandbox, &pulled, &err) < 0)
        return pull_fail(&err);
    return ui_made(args, sandbox);
}
