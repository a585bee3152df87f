#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cli/archive.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/env_args.h"
#include "cli/escape.h"
#include "cli/name.h"
#include "cli/objects.h"
#include "cli/table.h"
#include "cli/ui.h"

/* ---- create, label ---- */

static int put_labels(const struct args *args, json_t *body, struct err *err)
{
    json_t *labels;

    if (!args_list(args, "label"))
        return 0;
    if (pairs_to_json(args_list(args, "label"), "--label", &labels, err) < 0)
        return -1;
    (void)json_object_set_new(body, "labels", labels);
    return 0;
}

int cmd_snapshot_create(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    json_t *body = json_object(), *made = NULL;
    struct err err = {0};

    json_put_text(body, "name", args->n_words > 1 ? args->words[1] : NULL);
    if (put_labels(args, body, &err) < 0) {
        json_decref(body);
        return ui_usage(args, "%s", err.text);
    }
    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0) {
        json_decref(body);
        return ui_fail(&err);
    }
    if (api_call(&api, "POST", body, &made, &err, "/sandboxes/%s/snapshots", id) < 0)
        return ui_fail(&err);
    return ui_made(args, made);
}

int cmd_snapshot_label(struct args *args)
{
    auto_free char *id = url_encoded(args->words[0]);
    auto_api struct api api = {0};
    json_t *body = json_object(), *changed = NULL, *labels = NULL;
    struct err err = {0};

    json_put_text(body, "name", args_text(args, "name"));
    if (args->n_words > 1) {
        if (pairs_to_json(args->words + 1, "a label", &labels, &err) < 0) {
            json_decref(body);
            return ui_usage(args, "%s", err.text);
        }
        (void)json_object_set_new(body, "labels", labels);
    }
    if (api_open(&api, args, &err) < 0) {
        json_decref(body);
        return ui_fail(&err);
    }
    if (api_call(&api, "POST", body, &changed, &err, "/snapshots/%s/label", id) < 0)
        return ui_fail(&err);
    return ui_made(args, changed);
}

/* ---- ls, inspect ---- */

/* K=V, with commas between them. */
static void put_labels_cell(struct table *t, const json_t *labels)
{
    auto_free char *text = xstrdup("");
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)labels, key, value)
    {
        char *more = xasprintf("%s%s%s=%s", text, *text ? "," : "", key, json_string_value(value));

        free(text);
        text = more;
    }
    table_cell(t, text);
}

/* The sandbox by its name, which it keeps; its id is in the JSON. */
static void print_table(const json_t *snapshots)
{
    auto_table struct table t;
    json_t *one;
    size_t i;

    table_init(&t, "ID|NAME|SANDBOX|>SIZE|>AGE|LABELS");
    json_array_foreach(snapshots, i, one)
    {
        const char *name = json_text(json_object_get(one, "config"), "name");
        char size[24], age[24];

        ui_size(json_num(one, "size"), size);
        ui_duration(now_ms() - json_int(one, "createdAt"), age);
        table_cell(&t, json_text(one, "id"));
        table_cell(&t, ui_name(json_text(one, "id"), json_text(one, "name")));
        table_cell(&t, *name ? name : json_text(one, "sandboxId"));
        table_cell(&t, size);
        table_cell(&t, age);
        put_labels_cell(&t, json_object_get(one, "labels"));
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

static void print_list(const struct args *args, const json_t *snapshots)
{
    json_t *one;
    size_t i;

    if (args_has(args, "json")) {
        ui_json(snapshots);
    } else if (args_has(args, "quiet")) {
        json_array_foreach(snapshots, i, one)
        {
            printf("%s\n", json_text(one, "id"));
        }
    } else {
        print_table(snapshots);
    }
}

/* Of a sandbox that is gone there may be some too: then its id is needed. */
static int list_of(struct api *api, const char *word, json_t **ret, struct err *err)
{
    auto_free char *id = NULL;

    if (!word)
        return api_call(api, "GET", NULL, ret, err, "/snapshots");
    if (api_sandbox_id(api, word, &id, err) < 0)
        return -1;
    return api_call(api, "GET", NULL, ret, err, "/sandboxes/%s/snapshots", id);
}

int cmd_snapshot_ls(struct args *args)
{
    auto_api struct api api = {0};
    json_t *answer = NULL;
    struct err err = {0};

    if (api_open(&api, args, &err) < 0 || list_of(&api, args->words[0], &answer, &err) < 0)
        return ui_fail(&err);
    print_list(args, json_object_get(answer, "snapshots"));
    json_decref(answer);
    return STATUS_OK;
}

int cmd_snapshot_inspect(struct args *args)
{
    return objects_inspect(args, "snapshots");
}

/* ---- rm, restore, clone, fork ---- */

int cmd_snapshot_rm(struct args *args)
{
    return objects_rm(args, "snapshots");
}

int cmd_snapshot_restore(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    json_t *body = json_object(), *sandbox = NULL;
    struct err err = {0};

    json_put_text(body, "snapshotId", args->words[1]);
    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0) {
        json_decref(body);
        return ui_fail(&err);
    }
    if (api_call(&api, "POST", body, &sandbox, &err, "/sandboxes/%s/snapshots/restore", id) < 0)
        return ui_fail(&err);
    return ui_made(args, sandbox);
}

/* As a create does: a name that can be used in place of the id. */
static int put_request(const struct args *args, json_t *body, struct err *err)
{
    const char *name = args_text(args, "name");

    json_put_text(body, "onTimeout", args_text(args, "on-timeout"));
    if (!name)
        return 0;
    if (name_check(name, err) < 0)
        return -1;
    json_put_text(body, "name", name);
    (void)json_object_set_new(body, "unique", json_true());
    return 0;
}

int cmd_snapshot_clone(struct args *args)
{
    auto_free char *id = url_encoded(args->words[0]);
    auto_api struct api api = {0};
    json_t *body = json_object(), *sandbox = NULL;
    struct err err = {0};

    if (put_request(args, body, &err) < 0) {
        json_decref(body);
        return ui_usage(args, "%s", err.text);
    }
    if (api_open(&api, args, &err) < 0) {
        json_decref(body);
        return ui_fail(&err);
    }
    if (api_call(&api, "POST", body, &sandbox, &err, "/snapshots/%s/clone", id) < 0)
        return ui_fail(&err);
    return ui_made(args, sandbox);
}

/* Most warnings are the same for all. */
static void warn_once(const json_t *sandboxes)
{
    json_t *seen = json_object(), *sandbox, *text;
    size_t i, k;

    json_array_foreach(sandboxes, i, sandbox)
    {
        json_array_foreach(json_object_get(sandbox, "warnings"), k, text)
        {
            const char *warning = json_string_value(text);

            if (!warning || json_object_get(seen, warning))
                continue;
            ui_warn("%s", warning);
            (void)json_object_set_new(seen, warning, json_true());
        }
    }
    json_decref(seen);
}

int cmd_fork(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    json_t *body, *answer = NULL, *one;
    struct err err = {0};
    size_t i;

    body = json_pack("{s:I}", "count", (json_int_t)args_number(args, "count", 1));
    if (put_request(args, body, &err) < 0) {
        json_decref(body);
        return ui_usage(args, "%s", err.text);
    }
    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0) {
        json_decref(body);
        return ui_fail(&err);
    }
    if (api_call(&api, "POST", body, &answer, &err, "/sandboxes/%s/fork", id) < 0)
        return ui_fail(&err);
    warn_once(json_object_get(answer, "sandboxes"));
    if (args_has(args, "json"))
        ui_json(json_object_get(answer, "sandboxes"));
    else
        json_array_foreach(json_object_get(answer, "sandboxes"), i, one)
            printf("%s\n", json_text(one, "id"));
    json_decref(answer);
    return STATUS_OK;
}

/* ---- diff ---- */

int cmd_diff(struct args *args)
{
    auto_free char *snapshot = args->n_words > 1 ? url_encoded(args->words[1]) : NULL;
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    json_t *answer = NULL, *one;
    struct err err = {0};
    size_t i;

    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0 ||
        api_call(&api, "GET", NULL, &answer, &err, "/sandboxes/%s/diff%s%s", id,
                 snapshot ? "?snapshotId=" : "", snapshot ? snapshot : "") < 0)
        return ui_fail(&err);
    if (args_has(args, "json")) {
        ui_json(json_object_get(answer, "changes"));
    } else {
        json_array_foreach(json_object_get(answer, "changes"), i, one)
        {
            auto_free char *path = escape_text(ESCAPE_CELL, json_text(one, "path"));

            printf("%s %s\n", json_text(one, "kind"), path);
        }
    }
    if (json_is_true(json_object_get(answer, "truncated")))
        ui_warn("there are more changes than are told");
    json_decref(answer);
    return STATUS_OK;
}

/* ---- export, import ---- */

int cmd_snapshot_export(struct args *args)
{
    auto_free char *id = url_encoded(args->words[0]);
    auto_free char *url = xasprintf("/snapshots/%s/export", id);

    return archive_save(args, args->words[0], url);
}

int cmd_snapshot_import(struct args *args)
{
    auto_api struct api api = {0};
    json_t *body = json_object(), *made = NULL;
    struct err err = {0};
    char path[PATH_MAX];

    /* The daemon reads it, and its working directory is another one. */
    if (!realpath(args->words[0], path)) {
        json_decref(body);
        (void)err_set(&err, ERR_INVALID, "%s cannot be read: %m", args->words[0]);
        return ui_fail(&err);
    }
    json_put_text(body, "path", path);
    json_put_text(body, "image", args->words[1]);
    json_put_text(body, "name", args_text(args, "name"));
    if (put_labels(args, body, &err) < 0) {
        json_decref(body);
        return ui_usage(args, "%s", err.text);
    }
    if (api_open(&api, args, &err) < 0) {
        json_decref(body);
        return ui_fail(&err);
    }
    if (api_call(&api, "POST", body, &made, &err, "/snapshots/import") < 0)
        return ui_fail(&err);
    return ui_made(args, made);
}
