#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/create.h"
#include "cli/env_args.h"
#include "cli/ui.h"

int command_words(const char *text, const char *flag, json_t **ret, struct err *err)
{
    json_t *words = NULL, *word;
    size_t i;

    if (*text != '[') {
        words = json_pack("[s, s, s]", "/bin/sh", "-c", text);
        if (!words)
            return err_set(err, ERR_INVALID, "%s is not valid UTF-8 text", flag);
        *ret = words;
        return 0;
    }
    words = json_loads(text, 0, NULL);
    json_array_foreach(words, i, word)
    {
        if (!json_is_string(word)) {
            json_decref(words);
            words = NULL;
            break;
        }
    }
    if (!words)
        return err_set(err, ERR_INVALID,
                       "%s needs a line for the shell, or words as a JSON array such as "
                       "'[\"python3\", \"-m\", \"app\"]'",
                       flag);
    *ret = words;
    return 0;
}

static int set_command(json_t *body, const struct args *args, const char *key, struct err *err)
{
    const char *text = args_text(args, key);
    auto_free char *flag = xasprintf("--%s", key);
    json_t *words;

    if (!text)
        return 0;
    if (command_words(text, flag, &words, err) < 0)
        return -1;
    return json_object_set_new(body, key, words);
}

static int set_pairs(json_t *body, const struct args *args, const char *flag, const char *key,
                     struct err *err)
{
    auto_free char *shown = xasprintf("--%s", flag);
    json_t *pairs;

    if (!args_list(args, flag))
        return 0;
    if (pairs_to_json(args_list(args, flag), shown, &pairs, err) < 0)
        return -1;
    return json_object_set_new(body, key, pairs);
}

static int commit_body(const struct args *args, json_t *body, struct err *err)
{
    json_put_text(body, "name", args->words[1]);
    json_put_text(body, "workdir", args_text(args, "workdir"));
    json_put_text(body, "user", args_text(args, "user"));
    if (set_command(body, args, "entrypoint", err) < 0 || set_command(body, args, "cmd", err) < 0)
        return -1;
    if (set_pairs(body, args, "env", "env", err) < 0)
        return -1;
    return set_pairs(body, args, "label", "labels", err);
}

int cmd_image_commit(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    json_t *body = json_object(), *image = NULL;
    struct err err = {0};

    if (commit_body(args, body, &err) < 0) {
        json_decref(body);
        return ui_usage(args, "%s", err.text);
    }
    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0) {
        json_decref(body);
        return ui_fail(&err);
    }
    if (api_call(&api, "POST", body, &image, &err, "/sandboxes/%s/commit", id) < 0)
        return ui_fail(&err);
    return ui_made(args, image);
}
