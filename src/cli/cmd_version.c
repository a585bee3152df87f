#include <stdio.h>
#include <sys/utsname.h>

#include "base/err.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/ui.h"

/* The daemon's version is worth a line only when there is a daemon; its absence is no failure. */
static json_t *daemon_version(const struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *health = NULL, *version;

    if (api_open(&api, args, &err) < 0 || api_call(&api, "GET", NULL, &health, &err, "/health") < 0)
        return json_null();
    version = json_incref(json_object_get(health, "version"));
    json_decref(health);
    return version ? version : json_null();
}

int cmd_version(struct args *args)
{
    json_t *daemon = daemon_version(args);

    if (args_has(args, "json")) {
        json_t *object = json_pack("{s:s, s:O}", "version", CAY_VERSION, "daemon", daemon);

        ui_json(object);
        json_decref(object);
    } else {
        printf("cay %s\n", CAY_VERSION);
        if (json_is_string(daemon))
            printf("daemon %s\n", json_string_value(daemon));
    }
    json_decref(daemon);
    return STATUS_OK;
}
