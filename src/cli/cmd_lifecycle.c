#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/ui.h"

/* What pause, resume and stop do to each sandbox that is named. Goes on after a failure, so that
 * one bad id does not keep the others; the status tells. */
static int each_word(struct args *args, struct api *api, const char *method, const char *action)
{
    int status = STATUS_OK;

    for (size_t i = 0; i < args->n_words && status != STATUS_NO_DAEMON; i++) {
        auto_free char *id = NULL;
        struct err err = {0};

        if (api_sandbox_id(api, args->words[i], &id, &err) < 0 ||
            api_call(api, method, NULL, NULL, &err, "/sandboxes/%s%s", id, action) < 0)
            status = ui_fail(&err);
        else if (!args_has(args, "quiet"))
            printf("%s\n", id);
    }
    return status;
}

static int on_each(struct args *args, const char *method, const char *action)
{
    auto_api struct api api = {0};
    struct err err = {0};

    if (api_open(&api, args, &err) < 0)
        return ui_fail(&err);
    return each_word(args, &api, method, action);
}

int cmd_pause(struct args *args)
{
    return on_each(args, "POST", "/pause");
}

int cmd_resume(struct args *args)
{
    return on_each(args, "POST", "/resume");
}

static int stop_all(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    struct args all = *args;
    json_t *list = NULL, *item;
    int64_t total;
    size_t i;
    int status;

    if (api_open(&api, args, &err) < 0 || api_sandboxes(&api, NULL, 0, &list, &total, &err) < 0)
        return ui_fail(&err);
    if (json_array_size(list) > 0 && !args_has(args, "yes") &&
        !ui_confirm("Remove %zu %s with everything inside?", json_array_size(list),
                    json_array_size(list) == 1 ? "sandbox" : "sandboxes")) {
        ui_warn("nothing was removed: --all needs a yes on a terminal, or --yes");
        json_decref(list);
        return STATUS_FAILED;
    }
    all.words = xcalloc(json_array_size(list) + 1, sizeof(char *));
    all.n_words = 0;
    json_array_foreach(list, i, item) all.words[all.n_words++] =
        (char *)(uintptr_t)json_text(item, "id");
    status = each_word(&all, &api, "DELETE", "");
    free(all.words);
    json_decref(list);
    return status;
}

int cmd_stop(struct args *args)
{
    if (args_has(args, "all")) {
        if (args->n_words > 0)
            return ui_usage(args, "give ids or --all, not both");
        return stop_all(args);
    }
    if (args->n_words == 0)
        return ui_usage(args, "stop needs the id of a sandbox, or --all");
    return on_each(args, "DELETE", "");
}
