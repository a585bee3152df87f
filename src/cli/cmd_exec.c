#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "cli/attach.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/ui.h"

static int started(json_t *answer, const char *id, bool as_json)
{
    if (as_json)
        ui_json(answer);
    else
        printf("%s\n", id);
    json_decref(answer);
    return STATUS_OK;
}

/* On a terminal that `cay attach` comes back to. */
static int detach_terminal(struct api *api, const char *id, struct attach_options o, bool as_json)
{
    struct err err = {0};
    char exec_id[ID_SIZE];

    o.detach = true;
    if (attach_leave(api, id, &o, exec_id, &err) < 0) {
        (void)ui_fail(&err);
        return attach_fail_status(&err);
    }
    return started(json_pack("{s:s, s:s}", "id", exec_id, "sandboxId", id), exec_id, as_json);
}

/* In the background: prints the id under which `cay logs` and `cay inspect` know it. */
static int detach(struct api *api, const char *id, const struct attach_options *o, bool as_json)
{
    json_t *body = exec_request_json(o), *answer = NULL;
    struct err err = {0};

    if (api_call(api, "POST", body, &answer, &err, "/sandboxes/%s/exec/background", id) < 0) {
        (void)ui_fail(&err);
        return attach_fail_status(&err);
    }
    return started(answer, json_text(answer, "id"), as_json);
}

static int attached(struct api *api, const char *id, const struct attach_options *o)
{
    struct attach_result result;
    struct err err = {0};

    if (attach_exec(api, id, o, &result, &err) < 0) {
        (void)ui_fail(&err);
        return attach_fail_status(&err);
    }
    if (result.timed_out)
        attach_warn_timeout(o);
    return result.status;
}

static int run(struct args *args, const struct attach_options *o)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};

    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0) {
        int status = ui_fail(&err);

        return status == STATUS_FAILED ? STATUS_CAY : status;
    }
    if (args_has(args, "detach") && o->tty)
        return detach_terminal(&api, id, *o, args_has(args, "json"));
    if (args_has(args, "detach"))
        return detach(&api, id, o, args_has(args, "json"));
    return attached(&api, id, o);
}

int cmd_exec(struct args *args)
{
    struct attach_options o = {0};
    struct err err = {0};
    int status;

    if (args->rest && args->n_words > 1)
        return ui_usage(args, "\"%s\" before \"--\" is not expected: give one command only",
                        args->words[1]);
    if (args->rest ? args->n_rest == 0 : args->n_words < 2)
        return ui_usage(args,
                        "exec needs a command: cay exec ID \"ls -l\", or cay exec ID -- ls -l");
    if (attach_read_args(&o, args, &err) < 0)
        return ui_usage(args, "%s", err.text);
    o.cwd = args_text(args, "cwd");
    o.command = args->rest ? command_line_json(args) : json_string(args->words[1]);
    if (o.command)
        status = run(args, &o);
    else
        status = ui_usage(args, "the command is not valid UTF-8 text");
    attach_done(&o);
    return status;
}
