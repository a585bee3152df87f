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

/* Where there is no upper end, none is told. */
static json_t *limits_json(const struct engine_config *c)
{
    const struct sandbox_ceilings *most = &c->ceilings;
    json_t *o = json_pack("{s:i, s:I, s:f, s:f, s:i, s:I, s:i, s:i, s:i}", "memoryMinMb",
                          MEMORY_MB_MIN, "memoryMaxMb", (json_int_t)most->memory_mb, "cpuMin",
                          CPU_MILLIS_MIN / 1000.0, "cpuMax", most->cpu_millis / 1000.0, "pidsMin",
                          PIDS_MIN, "pidsMax", (json_int_t)most->pids, "diskMinMb", DISK_MB_MIN,
                          "diskMaxMb", DISK_MB_MAX, "timeoutMin", TIMEOUT_S_MIN);

    if (most->timeout_s)
        (void)json_object_set_new(o, "timeoutMax", json_integer(most->timeout_s));
    (void)json_object_set_new(o, "maxSandboxes", json_integer(c->max_sandboxes));
    if (c->max_stopped)
        (void)json_object_set_new(o, "maxStopped", json_integer(c->max_stopped));
    if (c->max_command_s)
        (void)json_object_set_new(o, "maxCommandSeconds", json_integer(c->max_command_s));
    return o;
}

static int info(struct call *call, struct err *err)
{
    const struct engine_config *c = engine_config(call->engine);

    (void)err;
    call->out = json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "version", CAY_VERSION, "runtime",
                          call->about->runtime, "isolation", call->about->boundary, "workspace",
                          c->workspace, "defaultImage", c->default_image, "limits", limits_json(c));
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
     .reach = REACH_NEVER, .help = "Removes expired sandboxes now", .gives = &sweep_shape},
    {"system::strays", "GET", "/admin/strays", NULL, strays, NULL, SCOPE_ADMIN,
     .reach = REACH_NEVER, .help = "Lists what is on this machine and belongs to no sandbox",
     .gives = &strays_shape},
    {"system::stray_adopt", "POST", "/admin/strays/:strayId/adopt", NULL, stray_adopt, NULL,
     SCOPE_ADMIN, .reach = REACH_NEVER,
     .help = "Makes a stopped sandbox of a disk that belongs to none", .gives = &sandbox_shape,
     .errors = "stray_not_found conflict"},
    {"system::stray_remove", "DELETE", "/admin/strays/:strayId", NULL, stray_remove, NULL,
     SCOPE_ADMIN, .reach = REACH_NEVER, .help = "Removes a disk that belongs to no sandbox",
     .gives = &success_shape, .errors = "stray_not_found"},
    {"system::info", "GET", "/info", NULL, info, NULL, SCOPE_READ, .reach = REACH_ALL,
     .help = "Says what this daemon is", .gives = &info_shape},
    {"system::openapi", "GET", "/openapi.json", NULL, openapi, NULL, SCOPE_READ, .reach = REACH_ALL,
     .help = "Gives this description; also outside of the prefix", .gives = &openapi_shape},
    {0},
};
