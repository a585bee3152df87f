#include "cli/objects.h"

#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/ui.h"

int objects_rm(struct args *args, const char *list)
{
    auto_api struct api api = {0};
    struct err err = {0};
    int status = STATUS_OK;

    if (api_open(&api, args, &err) < 0)
        return ui_fail(&err);
    for (size_t i = 0; i < args->n_words && status != STATUS_NO_DAEMON; i++) {
        auto_free char *word = url_encoded(args->words[i]);

        if (api_call(&api, "DELETE", NULL, NULL, &err, "/%s/%s", list, word) < 0)
            status = ui_fail(&err);
        else if (!args_has(args, "quiet"))
            printf("%s\n", args->words[i]);
    }
    return status;
}

void objects_print_ids(const json_t *list)
{
    json_t *o;
    size_t i;

    json_array_foreach(list, i, o)
    {
        if (json_object_get(o, "id"))
            printf("%s\n", json_text(o, "id"));
    }
}

int objects_inspect(struct args *args, const char *list)
{
    auto_api struct api api = {0};
    auto_free char *word = url_encoded(args->words[0]);
    struct err err = {0};
    json_t *object = NULL;

    if (api_open(&api, args, &err) < 0 ||
        api_call(&api, "GET", NULL, &object, &err, "/%s/%s", list, word) < 0)
        return ui_fail(&err);
    ui_json(object);
    json_decref(object);
    return STATUS_OK;
}
