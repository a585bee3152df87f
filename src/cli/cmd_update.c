#include "base/err.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/env_args.h"
#include "cli/ui.h"

/* The daemon replaces all of it, and here some of it is said. */
static int add_metadata(const struct args *args, struct api *api, const char *id, json_t *body,
                        struct err *err)
{
    json_t *sandbox = NULL, *more = NULL, *metadata;

    if (!args_has(args, "metadata"))
        return 0;
    if (pairs_to_json(args_list(args, "metadata"), "--metadata", &more, err) < 0)
        return -1;
    if (api_call(api, "GET", NULL, &sandbox, err, "/sandboxes/%s", id) < 0) {
        json_decref(more);
        return -1;
    }
    metadata = json_deep_copy(json_object_get(sandbox, "metadata"));
    (void)json_object_update(metadata, more);
    (void)json_object_set_new(body, "metadata", metadata);
    json_decref(more);
    json_decref(sandbox);
    return 0;
}

static void add_whole(const struct args *args, const char *flag, const char *key, json_t *body)
{
    if (args_has(args, flag))
        (void)json_object_set_new(body, key,
                                  json_integer((json_int_t)(args_number(args, flag, 0) + 0.999)));
}

static int send_change(const struct args *args, struct api *api, const char *id, json_t **ret,
                       struct err *err)
{
    json_t *body = json_object();

    add_whole(args, "memory", "memory", body);
    add_whole(args, "pids", "pids", body);
    add_whole(args, "timeout", "timeout", body);
    add_whole(args, "idle-timeout", "idleTimeout", body);
    if (args_has(args, "cpu"))
        (void)json_object_set_new(body, "cpu", json_real(args_number(args, "cpu", 0)));
    if (add_metadata(args, api, id, body, err) < 0) {
        json_decref(body);
        return -1;
    }
    return api_call(api, "PATCH", body, ret, err, "/sandboxes/%s", id);
}

int cmd_update(struct args *args)
{
    static const char *const flags[] = {"memory",  "cpu",          "pids",
                                        "timeout", "idle-timeout", "metadata"};
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    json_t *sandbox = NULL;
    bool any = false;

    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        any = any || args_has(args, flags[i]);
    if (!any)
        return ui_usage(args, "what is to change? cay update --memory 1G %s", args->words[0]);
    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0 ||
        send_change(args, &api, id, &sandbox, &err) < 0)
        return ui_fail(&err);
    return ui_made(args, sandbox);
}
