#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/file_list.h"
#include "cli/objects.h"
#include "cli/remote_path.h"
#include "cli/table.h"
#include "cli/ui.h"

/* The API lets names repeat, and then nobody can use them. */
static int check_new(struct api *api, const char *name, struct err *err)
{
    auto_free char *word = url_encoded(name);
    json_t *volume = NULL;

    if (api_call(api, "GET", NULL, &volume, err, "/volumes/%s", word) < 0)
        return strcmp(api_last_code(), "volume_not_found") == 0 ? 0 : -1;
    (void)err_set(err, ERR_CONFLICT, "there is a volume %s already: %s", name,
                  json_text(volume, "id"));
    json_decref(volume);
    return -1;
}

int cmd_volume_create(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *volume = NULL, *body = json_pack("{s:s}", "name", args->words[0]);

    if (!body)
        return ui_usage(args, "the name is not valid UTF-8 text");
    if (args_has(args, "size"))
        (void)json_object_set_new(body, "sizeMb",
                                  json_integer((json_int_t)(args_number(args, "size", 0) + 0.5)));
    if (api_open(&api, args, &err) < 0 ||
        (*args->words[0] && check_new(&api, args->words[0], &err) < 0)) {
        json_decref(body);
        return ui_fail(&err);
    }
    if (api_call(&api, "POST", body, &volume, &err, "/volumes") < 0)
        return ui_fail(&err);
    return ui_made(args, volume);
}

static void print_table(const json_t *volumes)
{
    auto_table struct table t;
    json_t *v;
    size_t i;

    table_init(&t, "ID|NAME|>SIZE|>ON DISK|>AGE|SANDBOXES");
    json_array_foreach(volumes, i, v)
    {
        char size[24], used[24], age[24];

        ui_size(json_num(v, "sizeBytes"), size);
        ui_size(json_num(v, "usedBytes"), used);
        ui_duration(now_ms() - json_int(v, "createdAt"), age);
        table_cell(&t, json_text(v, "id"));
        table_cell(&t, json_text(v, "name"));
        table_cell(&t, size);
        table_cell(&t, used);
        table_cell(&t, age);
        table_cellf(&t, "%zu", json_array_size(json_object_get(v, "attachments")));
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

/* Of VOLUME or VOLUME:PATH. */
static int list_files(struct args *args, const char *which)
{
    size_t n = strcspn(which, ":");
    auto_free char *name = xstrndup(which, n), *word = url_encoded(name);
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *list = NULL;

    if (api_open(&api, args, &err) < 0 ||
        api_call(&api, "POST", path_body(which[n] && which[n + 1] ? which + n + 1 : "/", false),
                 &list, &err, "/volumes/%s/files/list", word) < 0)
        return ui_fail(&err);
    file_list_print(args, list);
    json_decref(list);
    return STATUS_OK;
}

int cmd_volume_ls(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *answer = NULL, *volumes, *v;
    size_t i;

    if (args->n_words > 0)
        return list_files(args, args->words[0]);
    if (api_open(&api, args, &err) < 0 ||
        api_call(&api, "GET", NULL, &answer, &err, "/volumes") < 0)
        return ui_fail(&err);
    volumes = json_object_get(answer, "volumes");
    if (args_has(args, "json")) {
        ui_json(volumes);
    } else if (args_has(args, "quiet")) {
        json_array_foreach(volumes, i, v) printf("%s\n", json_text(v, "id"));
    } else {
        print_table(volumes);
    }
    json_decref(answer);
    return STATUS_OK;
}

int cmd_volume_inspect(struct args *args)
{
    return objects_inspect(args, "volumes");
}

int cmd_volume_rm(struct args *args)
{
    return objects_rm(args, "volumes");
}

int cmd_volume_attach(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *word = url_encoded(args->words[0]), *id = NULL;
    struct err err = {0};
    json_t *body, *answer = NULL;

    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[1], &id, &err) < 0)
        return ui_fail(&err);
    body = json_pack("{s:s, s:s, s:b, s:b}", "sandboxId", id, "mountPath", args->words[2],
                     "readOnly", args_has(args, "read-only"), "noexec", args_has(args, "noexec"));
    if (!body)
        return ui_usage(args, "the path is not valid UTF-8 text");
    json_put_text(body, "subPath", args_text(args, "subpath"));
    if (api_call(&api, "POST", body, &answer, &err, "/volumes/%s/attach", word) < 0)
        return ui_fail(&err);
    ui_line("%s", json_text(answer, "mountPath"));
    json_decref(answer);
    return STATUS_OK;
}

int cmd_volume_detach(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *word = url_encoded(args->words[0]), *id = NULL;
    json_t *body = json_object(), *answer = NULL;
    struct err err = {0};
    int r = api_open(&api, args, &err);

    if (r == 0 && args->n_words > 1)
        r = api_sandbox_id(&api, args->words[1], &id, &err);
    if (r < 0) {
        json_decref(body);
        return ui_fail(&err);
    }
    json_put_text(body, "sandboxId", id);
    json_put_text(body, "mountPath", args->n_words > 2 ? args->words[2] : NULL);
    if (api_call(&api, "POST", body, &answer, &err, "/volumes/%s/detach", word) < 0)
        return ui_fail(&err);
    printf("%s\n", json_text(answer, "sandboxId"));
    json_decref(answer);
    return STATUS_OK;
}
