#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/objects.h"
#include "cli/ui.h"

/* Addresses of ports, for browsers and for others. */

#define EXPIRES_S_MAX (31 * 86400)

/* "http://{port}-sbx-….localhost:3111/" with the number in its place, and a path. */
static json_t *plain_url(const char *pattern, const char *port, const char *path)
{
    const char *mark = strstr(pattern, "{port}");

    if (!mark)
        return json_pack("{s:s}", "url", pattern);
    return json_pack("{s:o}", "url",
                     json_sprintf("%.*s%s%.*s%s", (int)(mark - pattern), pattern, port,
                                  (int)strcspn(mark + 6, "/"), mark + 6, path));
}

static int call_url(struct api *api, const struct args *args, const char *id, json_t **ret,
                    struct err *err)
{
    const char *path = args_text(args, "path");
    json_t *body;

    if (args_has(args, "revoke") && api_call(api, "POST", json_pack("{s:b}", "revokeSigned", 1),
                                             NULL, err, "/sandboxes/%s/proxy/config", id) < 0)
        return -1;
    if (!args_has(args, "expires"))
        return api_call(api, "POST", NULL, ret, err, "/sandboxes/%s/proxy/config", id);
    body = json_pack("{s:I, s:I}", "port", (json_int_t)strtol(args->words[1], NULL, 10),
                     "expiresIn", (json_int_t)(args_number(args, "expires", 0) + 0.5));
    json_put_text(body, "path", path);
    return api_call(api, "POST", body, ret, err, "/sandboxes/%s/proxy/sign", id);
}

int cmd_url(struct args *args)
{
    const char *path = args_text(args, "path");
    double expires = args_number(args, "expires", 0);
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    json_t *answer = NULL;
    uint64_t port;

    if (str_u64(args->words[1], &port) < 0 || port < 1 || port > 65535)
        return ui_usage(args, "PORT must be a number from 1 to 65535");
    if (path && path[0] != '/')
        return ui_usage(args, "--path must start with /");
    if (args_has(args, "expires") && (expires < 1 || expires > EXPIRES_S_MAX))
        return ui_usage(args, "--expires must be from 1s to 31d");
    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0 ||
        call_url(&api, args, id, &answer, &err) < 0)
        return ui_fail(&err);
    if (!args_has(args, "expires")) {
        json_t *plain = plain_url(json_text(answer, "url"), args->words[1], path ? path : "/");

        json_decref(answer);
        answer = plain;
    }
    if (args_has(args, "json"))
        ui_json(answer);
    else
        printf("%s\n", json_text(answer, "url"));
    json_decref(answer);
    return STATUS_OK;
}
