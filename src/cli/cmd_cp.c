#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/copy.h"
#include "cli/transfer.h"
#include "cli/ui.h"

static int copy(struct args *args, const struct location *from, const struct location *to,
                struct err *err)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct cp c = {.api = &api};
    int r;

    if (api_open(&api, args, err) < 0 ||
        api_sandbox_id(&api, from->sandbox ? from->sandbox : to->sandbox, &id, err) < 0)
        return -1;
    c.id = id;
    r = from->sandbox ? copy_out(&c, from->path, to->path, err)
                      : copy_in(&c, from->path, to->path, err);
    if (c.files > 1 && !args_has(args, "quiet"))
        ui_warn("copied %zu files", c.files);
    if (r == 0 && c.skipped > 0)
        return err_set(err, ERR_INVALID, "%zu %s skipped; all others were copied", c.skipped,
                       c.skipped == 1 ? "entry was" : "entries were");
    return r;
}

int cmd_cp(struct args *args)
{
    struct location from = {0}, to = {0};
    struct err err = {0};
    int status = STATUS_OK;

    location_parse(&from, args->words[0]);
    location_parse(&to, args->words[1]);
    if (!from.sandbox == !to.sandbox)
        status = ui_usage(args, "one of the two must be in a sandbox, as ID:path, and the other "
                                "here; a file with \":\" in its name is written ./a:b");
    else if (copy(args, &from, &to, &err) < 0)
        status = ui_fail(&err);
    location_done(&from);
    location_done(&to);
    return status;
}
