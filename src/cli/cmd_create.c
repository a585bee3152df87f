#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/attach.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/create.h"
#include "cli/env_args.h"
#include "cli/mount_args.h"
#include "cli/name.h"
#include "cli/network_args.h"
#include "cli/patch_args.h"
#include "cli/port_args.h"
#include "cli/pull.h"
#include "cli/ranges.h"
#include "cli/ui.h"

static void set_whole(json_t *body, const struct args *args, const char *key)
{
    if (args_has(args, key))
        (void)json_object_set_new(body, key,
                                  json_integer((json_int_t)(args_number(args, key, 0) + 0.5)));
}

int create_check(struct api *api, const struct args *args, const char *flag, double life_s,
                 struct err *err)
{
    const char *name = args_text(args, "name");

    if (ranges_check(api, args, flag, life_s, err) < 0)
        return -1;
    return name ? name_check(name, err) : 0;
}

bool create_is_misused(const struct err *err)
{
    return err->kind == ERR_INVALID && !*api_last_code();
}

void create_take_words(struct args *args)
{
    if (!args_text(args, "template") || args->n_words == 0 || args->exact)
        return;
    /* A word and what follows it stand side by side in argv. */
    args->rest = args->n_rest > 0 ? args->rest - 1 : args->words;
    args->n_rest++;
    args->n_words = 0;
}

const char *create_image(const struct args *args)
{
    return args->n_words > 0 ? args->words[0] : NULL;
}

int create_body(const struct args *args, const char *image, json_t **ret, struct err *err)
{
    json_t *body, *env = NULL, *patches = NULL, *network = NULL;

    if (network_args(args, &network, err) < 0)
        return -1;
    if (env_read_args(args, &env, err) < 0 || patch_read_args(args, &patches, err) < 0) {
        json_decref(env);
        json_decref(network);
        return -1;
    }
    body = json_object();
    json_put_text(body, "pull", args_text(args, "pull"));
    json_put_text(body, "template", args_text(args, "template"));
    if (!args_text(args, "template") || image)
        json_put_text(body, "image", image ? image : "host");
    json_put_text(body, "name", args_text(args, "name"));
    if (args_text(args, "name"))
        (void)json_object_set_new(body, "unique", json_true());
    json_put_text(body, "workdir", args_text(args, "workdir"));
    set_whole(body, args, "memory");
    set_whole(body, args, "pids");
    set_whole(body, args, "disk");
    if (args_has(args, "cpu"))
        (void)json_object_set_new(body, "cpu", json_real(args_number(args, "cpu", 1)));
    if (env)
        (void)json_object_set_new(body, "env", env);
    if (patches)
        (void)json_object_set_new(body, "patches", patches);
    if (network)
        (void)json_object_set_new(body, "network", network);
    if (args_list(args, "connect"))
        (void)json_object_set_new(body, "networks", json_of_strings(args_list(args, "connect")));
    if (mount_args(args, body, err) < 0 || port_args(args, body, err) < 0) {
        json_decref(body);
        return -1;
    }
    *ret = body;
    return 0;
}

int create_sandbox(struct api *api, const struct args *args, json_t *body, json_t **ret,
                   bool *ret_pulled, struct err *err)
{
    const char *image = json_text(body, "image"), *template = json_text(body, "template");
    struct pull pull = {.quiet = args_has(args, "quiet")};
    auto_free char *name = xstrdup(*template ? template : image);
    int r;

    *ret_pulled = false;
    /* The host image is always there: nothing to wait for, so no stream either. */
    if (strcmp(image, "host") == 0 && !*template)
        return api_call(api, "POST", body, ret, err, "/sandboxes");
    pull.name = name;
    r = pull_call(api, "/sandboxes", body, &pull, ret, err);
    *ret_pulled = pull.fetched;
    return r;
}

/* What only a sandbox that stays has: its life, notes and an entrypoint. */
static int add_lasting(struct args *args, bool own, json_t *body, struct err *err)
{
    json_t *entrypoint;

    set_whole(body, args, "timeout");
    json_put_text(body, "onTimeout", args_text(args, "on-timeout"));
    if (args_has(args, "idle-timeout")) /* in whole seconds, and none of less is for ever */
        (void)json_object_set_new(
            body, "idleTimeout",
            json_integer((json_int_t)(args_number(args, "idle-timeout", 0) + 0.999)));
    if (args->n_rest == 0) {
        /* The host image has none; its sandboxes stay up without. A template says it itself. */
        if (own && strcmp(json_text(body, "image"), "host") != 0 && !args_text(args, "template"))
            (void)json_object_set_new(body, "runEntrypoint", json_true());
        return 0;
    }
    entrypoint = command_line_json(args);
    if (!entrypoint)
        return err_set(err, ERR_INVALID, "the command is not valid UTF-8 text");
    (void)json_object_set_new(body, "entrypoint", entrypoint);
    return 0;
}

bool create_means_template(struct api *api, const struct args *args)
{
    const char *image = create_image(args);
    auto_free char *word = image ? url_encoded(image) : NULL;
    struct err err = {0};

    if (!word || !str_starts(api_last_code(), "image_") ||
        api_call(api, "GET", NULL, NULL, &err, "/templates/%s", word) < 0)
        return false;
    ui_warn("\"%.80s\" was taken for an image; the template of that name is --template %.80s",
            image, image);
    return true;
}

static int create_with(struct args *args, json_t *body)
{
    auto_api struct api api = {0};
    json_t *sandbox = NULL;
    struct err err = {0};
    bool pulled;

    if (api_open(&api, args, &err) < 0 ||
        create_check(&api, args, "--timeout", args_number(args, "timeout", -1), &err) < 0) {
        json_decref(body);
        if (create_is_misused(&err))
            return ui_usage(args, "%s", err.text);
        return ui_fail(&err);
    }
    if (create_sandbox(&api, args, body, &sandbox, &pulled, &err) < 0) {
        int status = pull_fail(&err);

        (void)create_means_template(&api, args);
        return status;
    }
    return ui_made(args, sandbox);
}

static int create_noted(struct args *args, bool own, json_t *metadata)
{
    json_t *body = NULL;
    struct err err = {0};

    create_take_words(args);
    if (create_body(args, create_image(args), &body, &err) < 0)
        return ui_usage(args, "%s", err.text);
    if (metadata)
        (void)json_object_set(body, "metadata", metadata);
    if (add_lasting(args, own, body, &err) < 0) {
        json_decref(body);
        return ui_usage(args, "%s", err.text);
    }
    return create_with(args, body);
}

int create_and_tell(struct args *args, bool own)
{
    return create_noted(args, own, NULL);
}

int cmd_create(struct args *args)
{
    json_t *metadata = NULL;
    struct err err = {0};
    int status;

    if (args_list(args, "metadata") &&
        pairs_to_json(args_list(args, "metadata"), "--metadata", &metadata, &err) < 0)
        return ui_usage(args, "%s", err.text);
    status = create_noted(args, false, metadata);
    json_decref(metadata);
    return status;
}
