#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/table.h"
#include "cli/ui.h"

static void print_table(const json_t *images)
{
    auto_table struct table t;
    json_t *image;
    size_t i;

    table_init(&t, "NAME|ID|>SIZE|>AGE");
    json_array_foreach(images, i, image)
    {
        char size[24], age[24];

        ui_size(json_num(image, "size"), size);
        ui_duration(now_ms() - json_int(image, "createdAt"), age);
        table_cell(&t, json_text(image, "name"));
        /* "sha256:" and 12 digits are enough to tell them apart. */
        table_cellf(&t, "%.19s", json_text(image, "id"));
        table_cell(&t, json_num(image, "size") > 0 ? size : "-");
        table_cell(&t, json_int(image, "createdAt") > 0 ? age : "-");
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
        json_array_foreach(images, i, image) printf("%s\n", json_text(image, "name"));
    } else {
        print_table(images);
    }
    json_decref(answer);
    return STATUS_OK;
}

int cmd_image_import(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *image = NULL;
    char path[PATH_MAX];

    /* The daemon reads it, and its working directory is another one. */
    if (!realpath(args->words[0], path)) {
        (void)err_set(&err, ERR_INVALID, "%s cannot be read: %m", args->words[0]);
        return ui_fail(&err);
    }
    if (api_open(&api, args, &err) < 0 ||
        api_call(&api, "POST", json_pack("{s:s, s:s}", "path", path, "name", args->words[1]),
                 &image, &err, "/images/import") < 0)
        return ui_fail(&err);
    if (args_has(args, "json"))
        ui_json(image);
    else
        printf("%s\n", json_text(image, "id"));
    json_decref(image);
    return STATUS_OK;
}

int cmd_image_rm(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    int status = STATUS_OK;

    if (api_open(&api, args, &err) < 0)
        return ui_fail(&err);
    for (size_t i = 0; i < args->n_words && status != STATUS_NO_DAEMON; i++) {
        auto_free char *name = url_encoded(args->words[i]);

        if (api_call(&api, "DELETE", NULL, NULL, &err, "/images/%s", name) < 0)
            status = ui_fail(&err);
        else
            printf("%s\n", args->words[i]);
    }
    return status;
}

int cmd_image_inspect(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *name = url_encoded(args->words[0]);
    struct err err = {0};
    json_t *image = NULL;

    if (api_open(&api, args, &err) < 0 ||
        api_call(&api, "GET", NULL, &image, &err, "/images/%s", name) < 0)
        return ui_fail(&err);
    ui_json(image);
    json_decref(image);
    return STATUS_OK;
}
