#include "engine/engine.h"
#include "engine/sandboxes.h"
#include "engine/strays.h"
#include "functions/functions_internal.h"
#include "model/sandbox.h"

static int sweep(struct call *call, struct err *err)
{
    unsigned swept;

    if (engine_sweep(call->engine, &swept, err) < 0)
        return -1;
    call->out = json_pack("{s:i}", "swept", (int)swept);
    return 0;
}

static int strays(struct call *call, struct err *err)
{
    return engine_strays(call->engine, &call->out, err);
}

static int stray_adopt(struct call *call, struct err *err)
{
    return engine_stray_adopt(call->engine, in_str(call, "strayId"), &call->out, err);
}

static int stray_remove(struct call *call, struct err *err)
{
    if (engine_stray_remove(call->engine, in_str(call, "strayId"), err) < 0)
        return -1;
    return reply_success(call);
}

static int info(struct call *call, struct err *err)
{
    const struct engine_config *c = engine_config(call->engine);
    json_t *limits;

    (void)err;
    limits = json_pack("{s:i, s:i, s:f, s:f, s:i, s:i, s:i, s:I}", "memoryMinMb", MEMORY_MB_MIN,
                       "memoryMaxMb", MEMORY_MB_MAX, "cpuMin", CPU_MILLIS_MIN / 1000.0, "cpuMax",
                       CPU_MILLIS_MAX / 1000.0, "timeoutMin", TIMEOUT_S_MIN, "timeoutMax",
                       TIMEOUT_S_MAX, "maxSandboxes", (int)c->max_sandboxes, "maxCommandSeconds",
                       (json_int_t)c->max_command_s);
    call->out = json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "version", CAY_VERSION, "runtime",
                          call->about->runtime, "isolation", call->about->boundary, "workspace",
                          c->workspace, "defaultImage", c->default_image, "limits", limits);
    return 0;
}

static int openapi(struct call *call, struct err *err)
{
    (void)err;
    call->out = json_incref(call->about->openapi);
    return 0;
}

const struct function admin_functions[] = {
    {"lifecycle::sweep", "POST", "/admin/sweep", NULL, sweep, NULL, SCOPE_ADMIN,
     .help = "Removes expired sandboxes now", .gives = &sweep_shape},
    {"system::strays", "GET", "/admin/strays", NULL, strays, NULL, SCOPE_ADMIN,
     .help = "Lists what is on this machine and belongs to no sandbox", .gives = &strays_shape},
    {"system::stray_adopt", "POST", "/admin/strays/:strayId/adopt", NULL, stray_adopt, NULL,
     SCOPE_ADMIN, .help = "Makes a stopped sandbox of a disk that belongs to none",
     .gives = &sandbox_shape, .errors = "stray_not_found conflict"},
    {"system::stray_remove", "DELETE", "/admin/strays/:strayId", NULL, stray_remove, NULL,
     SCOPE_ADMIN, .help = "Removes a disk that belongs to no sandbox", .gives = &success_shape,
     .errors = "stray_not_found"},
    {"system::info", "GET", "/info", NULL, info, NULL, SCOPE_READ,
     .help = "Says what this daemon is", .gives = &info_shape},
    {"system::openapi", "GET", "/openapi.json", NULL, openapi, NULL, SCOPE_READ,
     .help = "Gives this description; also outside of the prefix", .gives = &openapi_shape},
    {0},
};
