#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "cli/attach.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/ending.h"
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

static int fail(const struct attach_options *o, const struct err *err)
{
    (void)ui_fail(err);
    if (json_is_string(o->command) && strcmp(api_last_code(), "command_not_found") == 0)
        ui_warn("one argument is a line for the shell, and this sandbox has none; a program alone "
                "stands after \"--\": cay exec ID -- PROGRAM");
    return attach_fail_status(err);
}

/* On a terminal that `cay attach` comes back to. */
static int detach_terminal(struct api *api, const char *id, struct attach_options o, bool as_json)
{
    struct err err = {0};
    char exec_id[ID_SIZE];

    o.detach = true;
    o.want_stdin = true; /* the terminal's input is for who comes back to it */
    if (attach_leave(api, id, &o, exec_id, &err) < 0)
        return fail(&o, &err);
    return started(json_pack("{s:s, s:s}", "id", exec_id, "sandboxId", id), exec_id, as_json);
}

/* In the background: prints the id under which `cay logs` and `cay inspect` know it. */
static int detach(struct api *api, const char *id, const struct attach_options *o, bool as_json)
{
    json_t *body = exec_request_json(o), *answer = NULL;
    struct err err = {0};

    if (api_call(api, "POST", body, &answer, &err, "/sandboxes/%s/exec/background", id) < 0)
        return fail(o, &err);
    return started(answer, json_text(answer, "id"), as_json);
}

static int attached(struct api *api, const char *id, struct attach_options o, bool as_json)
{
    auto_buf struct buf out = {0};
    auto_buf struct buf error = {0};
    struct attach_result result;
    struct err err = {0};

    buf_init(&out, CAPTURE_MAX);
    buf_init(&error, CAPTURE_MAX);
    o.out = as_json ? &out : NULL;
    o.error = as_json ? &error : NULL;
    if (attach_exec(api, id, &o, &result, &err) < 0)
        return fail(&o, &err);
    if (as_json) {
        json_t *object = attach_result_json(api, id, &o, &result);

        ui_json(object);
        json_decref(object);
    }
    ending_tell(api, id, &o, &result);
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
    return attached(&api, id, *o, args_has(args, "json"));
}

int cmd_exec(struct args *args)
{
    struct attach_options o = {0};
    struct err err = {0};
    int status;

    if (args->n_rest == 0)
        return ui_usage(args, "exec needs a command: cay exec %s ls -l", args->words[0]);
    if (args_has(args, "json") && args_has(args, "tty") && !args_has(args, "detach"))
        return ui_usage(args, "--json and --tty exclude each other");
    if (attach_read_args(&o, args, &err) < 0)
        return ui_usage(args, "%s", err.text);
    o.cwd = args_text(args, "workdir");
    /* One argument alone is a line for the shell. */
    o.command =
        args->n_rest > 1 || args->exact ? command_line_json(args) : json_string(args->rest[0]);
    if (o.command)
        status = run(args, &o);
    else
        status = ui_usage(args, "the command is not valid UTF-8 text");
    attach_done(&o);
    return status;
}
