#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/objects.h"
#include "cli/table.h"
#include "cli/ui.h"

int cmd_network_create(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *network = NULL, *body = json_pack("{s:s}", "name", args->words[0]);

    if (!body)
        return ui_usage(args, "the name is not valid UTF-8 text");
    if (api_open(&api, args, &err) < 0) {
        json_decref(body);
        return ui_fail(&err);
    }
    if (api_call(&api, "POST", body, &network, &err, "/networks") < 0)
        return ui_fail(&err);
    return ui_made(args, network);
}

static void print_table(const json_t *networks)
{
    auto_table struct table t;
    json_t *n;
    size_t i;

    table_init(&t, "ID|NAME|>AGE|SANDBOXES");
    json_array_foreach(networks, i, n)
    {
        char age[24];

        ui_duration(now_ms() - json_int(n, "createdAt"), age);
        table_cell(&t, json_text(n, "id"));
        table_cell(&t, json_text(n, "name"));
        table_cell(&t, age);
        table_cellf(&t, "%zu", json_array_size(json_object_get(n, "sandboxes")));
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

int cmd_network_ls(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *answer = NULL, *networks, *n;
    size_t i;

    if (api_open(&api, args, &err) < 0 ||
        api_call(&api, "GET", NULL, &answer, &err, "/networks") < 0)
        return ui_fail(&err);
    networks = json_object_get(answer, "networks");
    if (args_has(args, "json")) {
        ui_json(networks);
    } else if (args_has(args, "quiet")) {
        json_array_foreach(networks, i, n) printf("%s\n", json_text(n, "id"));
    } else {
        print_table(networks);
    }
    json_decref(answer);
    return STATUS_OK;
}

int cmd_network_inspect(struct args *args)
{
    return objects_inspect(args, "networks");
}

int cmd_network_rm(struct args *args)
{
    return objects_rm(args, "networks");
}

/* NETWORK ID… */
static int each_member(struct args *args, const char *what)
{
    auto_api struct api api = {0};
    auto_free char *word = url_encoded(args->words[0]);
    struct err err = {0};

    if (api_open(&api, args, &err) < 0)
        return ui_fail(&err);
    for (size_t i = 1; i < args->n_words; i++) {
        auto_free char *id = NULL;
        json_t *answer = NULL;

        if (api_sandbox_id(&api, args->words[i], &id, &err) < 0 ||
            api_call(&api, "POST", json_pack("{s:s}", "sandboxId", id), &answer, &err,
                     "/networks/%s/%s", word, what) < 0)
            return ui_fail(&err);
        json_decref(answer);
        if (!args_has(args, "quiet"))
            printf("%s\n", args->words[i]);
    }
    return STATUS_OK;
}

int cmd_network_connect(struct args *args)
{
    return each_member(args, "connect");
}

int cmd_network_disconnect(struct args *args)
{
    return each_member(args, "disconnect");
}
