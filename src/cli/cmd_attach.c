#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "cli/attach.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/ending.h"
#include "cli/ui.h"

static int fail(const struct err *err)
{
    (void)ui_fail(err);
    return attach_fail_status(err);
}

static int end(struct api *api, const char *id, const char *exec_id)
{
    struct err err = {0};

    if (api_call(api, "POST", NULL, NULL, &err, "/sandboxes/%s/exec/%s/kill", id, exec_id) < 0)
        return fail(&err);
    return STATUS_OK;
}

/* Is it on a terminal? Ours must know before the first byte comes. */
static int is_tty(struct api *api, const char *id, const char *exec_id, bool *ret, struct err *err)
{
    json_t *now = NULL;

    /* Past any output: only how it is is wanted. */
    if (api_call(api, "GET", NULL, &now, err, "/sandboxes/%s/exec/%s?cursor=9007199254740991", id,
                 exec_id) < 0)
        return -1;
    *ret = json_is_true(json_object_get(now, "tty"));
    json_decref(now);
    return 0;
}

static int come_back(struct args *args, struct api *api, const char *id, const char *exec_id)
{
    struct attach_options o = {.again = args->words[1], .raw = args_has(args, "raw")};
    struct attach_result result;
    struct err err = {0};

    o.want_stdin = !args_has(args, "no-input");
    if (is_tty(api, id, exec_id, &o.tty, &err) < 0 || attach_exec(api, id, &o, &result, &err) < 0)
        return fail(&err);
    if (result.left)
        fprintf(stderr, "\ncay: it goes on; `cay attach %s %s` comes back\n", args->words[0],
                args->words[1]);
    else
        ending_tell(api, id, &o, &result);
    return result.status;
}

int cmd_attach(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL, *exec_id = NULL;
    struct err err = {0};

    if (!id_valid(args->words[1], "ex") && !id_valid(args->words[1], "bg"))
        return ui_usage(args, "\"%s\" is not the id of a command: ex_ or bg_ and 24 hex digits",
                        args->words[1]);
    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0)
        return fail(&err);
    exec_id = url_encoded(args->words[1]);
    return args_has(args, "end") ? end(&api, id, exec_id) : come_back(args, &api, id, exec_id);
}
