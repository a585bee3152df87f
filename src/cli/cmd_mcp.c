#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/mcp_bridge.h"
#include "cli/private.h"
#include "cli/ui.h"

/* `cay mcp`: the Model Context Protocol on stdin and stdout, for clients that start a program. What
 * it says to people goes to stderr. */

static char *path_of(const struct args *args)
{
    const char *tools = args_text(args, "tools");
    auto_free char *words = url_encoded(tools ? tools : "all");

    return xasprintf("/mcp?tools=%s%s", words, args_has(args, "read-only") ? "&readOnly=true" : "");
}

/* A daemon at the usual place, or one for this client alone. */
static int find_daemon(const struct args *args, struct private_daemon *own, char **ret,
                       struct err *err)
{
    auto_api struct api api = {0};
    struct http_response r;
    bool chosen;

    if (api_address(args_text(args, "host"), ret, &chosen, err) < 0)
        return -1;
    api_open_target(&api, *ret);
    if (http_client_send(api.http, "GET", "/sandbox/health", NULL, NULL, 0, &r, err) == 0)
        return 0;
    if (chosen || err->kind != ERR_UNAVAILABLE || err->sys == 0)
        return api_explain(&api, err);
    if (private_start(own, err) < 0)
        return -1;
    ui_warn("no daemon is running: one for this client alone was started, and its sandboxes go "
            "with it");
    free(*ret);
    *ret = xstrdup(own->target);
    return 0;
}

int cmd_mcp(struct args *args)
{
    struct private_daemon own = PRIVATE_DAEMON_NONE;
    auto_free char *target = NULL, *path = path_of(args);
    struct err err = {0};
    int status;

    if (isatty(STDIN_FILENO))
        ui_warn("this is for programs, which send messages of the Model Context Protocol here; "
                "`cay help mcp` says how to set one up, and ctrl-d ends it");
    (void)signal(SIGPIPE, SIG_IGN);
    if (find_daemon(args, &own, &target, &err) < 0)
        status = ui_fail(&err);
    else
        status = mcp_bridge(target, own.target ? NULL : api_token(), path);
    private_stop(&own);
    return status;
}
