#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/objects.h"
#include "cli/table.h"
#include "cli/ui.h"

/* "5m", or "-" for a time that never was. The times of the host image are those of the daemon. */
static void age_cell(struct table *t, const json_t *image, const char *key)
{
    int64_t since = strcmp(json_text(image, "id"), "host") == 0 ? 0 : json_int(image, key);
    char age[24];

    ui_duration(now_ms() - since, age);
    table_cell(t, since > 0 ? age : "-");
}

static void print_table(const json_t *images)
{
    auto_table struct table t;
    json_t *image;
    size_t i;

    table_init(&t, "NAME|ID|>SIZE|>AGE|>USED|IN USE");
    json_array_foreach(images, i, image)
    {
        char size[24];

        ui_size(json_num(image, "size"), size);
        table_cell(&t, json_text(image, "name"));
        /* "sha256:" and 12 digits are enough to tell them apart. */
        table_cellf(&t, "%.19s", json_text(image, "id"));
        table_cell(&t, json_num(image, "size") > 0 ? size : "-");
        age_cell(&t, image, "createdAt");
        age_cell(&t, image, "usedAt");
        table_cell(&t, json_is_true(json_object_get(image, "inUse")) ? "yes" : "-");
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

int cmd_image_ls(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *answer = NULL, *images, *image;
    size_t i;

    if (api_open(&api, args, &err) < 0 || api_call(&api, "GET", NULL, &answer, &err, "/images") < 0)
        return ui_fail(&err);
    images = json_object_get(answer, "images");
    if (args_has(args, "json")) {
        ui_json(images);
    } else if (args_has(args, "quiet")) {
        json_array_foreach(images, i, image) ui_line("%s", json_text(image, "name"));
    } else {
        print_table(images);
    }
    json_decref(answer);
    return STATUS_OK;
}

int cmd_image_rm(struct args *args)
{
    return objects_rm(args, "images");
}

int cmd_image_inspect(struct args *args)
{
    return objects_inspect(args, "images");
}

int cmd_image_tag(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *name = url_encoded(args->words[0]);
    struct err err = {0};
    json_t *body = json_pack("{s:s}", "name", args->words[1]), *image = NULL;

    if (!body)
        return ui_usage(args, "the new name is not valid UTF-8 text");
    if (api_open(&api, args, &err) < 0) {
        json_decref(body);
        return ui_fail(&err);
    }
    if (api_call(&api, "POST", body, &image, &err, "/images/%s/tag", name) < 0)
        return ui_fail(&err);
    ui_line("%s", json_text(image, "name"));
    json_decref(image);
    return STATUS_OK;
}

int cmd_image_catalog(struct args *args)
{
    auto_api struct api api = {0};
    auto_table struct table t = {0};
    struct err err = {0};
    json_t *answer = NULL, *images, *image;
    size_t i;

    if (api_open(&api, args, &err) < 0 ||
        api_call(&api, "GET", NULL, &answer, &err, "/images/catalog") < 0)
        return ui_fail(&err);
    images = json_object_get(answer, "images");
    if (args_has(args, "json")) {
        ui_json(images);
        json_decref(answer);
        return STATUS_OK;
    }
    table_init(&t, "NAME|IMAGE|KIND");
    json_array_foreach(images, i, image)
    {
        table_cell(&t, json_text(image, "name"));
        table_cell(&t, json_text(image, "reference"));
        table_cell(&t, json_text(image, "kind"));
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
    json_decref(answer);
    return STATUS_OK;
}
