#include <string.h>

#include "base/err.h"
#include "engine/pool.h"
#include "functions/functions_internal.h"
#include "model/sandbox.h"

static int status(struct call *call, struct err *err)
{
    (void)err;
    engine_pool_status(call->engine, caller_sees_daemon(call->caller), &call->out);
    return 0;
}

static int list(struct call *call, struct err *err)
{
    (void)err;
    engine_pool_profiles(call->engine, &call->out);
    return 0;
}

static int add(struct call *call, struct err *err)
{
    struct pool_request req = {
        .image = in_str(call, "image"),
        .template = in_str(call, "template"),
        .memory_mb = in_maybe(call, "memory"),
        .cpu_cores = in_maybe(call, "cpu"),
        .pids = in_maybe(call, "pids"),
        .disk_mb = in_maybe(call, "disk"),
        .network = json_object_get(call->in, "network"),
        .helper = json_object_get(call->in, "interpreter"),
        .size = (uint32_t)in_int(call, "size"),
    };
    const char *language = json_string_value(json_object_get(req.helper, "language"));

    if (req.helper && strcmp(language, "python") != 0)
        return err_set(err, ERR_INVALID, "interpreter.language must be python");

    return engine_pool_add(call->engine, &req, &call->out, err);
}

static int remove_profile(struct call *call, struct err *err)
{
    if (engine_pool_remove(call->engine, in_str(call, "profileId"), err) < 0)
        return -1;
    return reply_success(call);
}

/* As those of a create: only one that wants the same gets such a box. */
static const struct field add_fields[] = {
    {"image", FIELD_STRING, .optional = true, .min = 1, .max = IMAGE_NAME_MAX,
     .example = "\"python:3.12-slim\"", .help = "as in a create; it is not pulled for the pool"},
    {"template", FIELD_STRING, .optional = true, .min = 1, .max = 255,
     .help = "in place of an image: id or name of a template, whose image and limits these are"},
    {"size", FIELD_INT, .min = 1, .max = POOL_SIZE_MAX, .preset = "2", .help = "how many"},
    {"memory", FIELD_INT, .optional = true, .example = "512", .help = "MB, as in a create"},
    {"cpu", FIELD_NUMBER, .optional = true, .help = "cores, as in a create"},
    {"pids", FIELD_INT, .optional = true, .help = "processes and threads, as in a create"},
    {"disk", FIELD_INT, .optional = true, .clamp = true, .min = DISK_MB_MIN, .max = DISK_MB_MAX,
     .help = "MB of disk, as in a create"},
    {"interpreter", FIELD_OBJECT, .optional = true, .of = &pool_interpreter_shape,
     .help = "what has started in them already, for code without a context"},
    {"network", FIELD_NETWORK, .optional = true, .max = NETWORK_TEXT_MAX,
     .of = &network_policy_shape, .help = "as in a create"},
    {0},
};

const struct function pool_functions[] = {
    {"pool::status", "GET", "/pool/status", NULL, status, NULL, SCOPE_NONE, .reach = REACH_ALL,
     .flags = FUNCTION_OPEN,
     .help = "Says how many sandboxes are ready before somebody asks for one; without a token the "
             "numbers only",
     .gives = &pool_status_shape},
    {"pool::profiles", "GET", "/pool/profiles", NULL, list, NULL, SCOPE_READ, .reach = REACH_NEVER,
     .help = "Lists the kinds of sandboxes that the pool has ready", .gives = &pool_profiles_shape},
    {"pool::add", "POST", "/pool/profiles", add_fields, add, NULL, SCOPE_ADMIN,
     .reach = REACH_NEVER, .flags = FUNCTION_MAKES,
     .help = "Has so many sandboxes of a kind ready from now on, also after a restart",
     .gives = &pool_profile_shape,
     .errors = "bad_image image_not_allowed image_cap_exceeded " ERRORS_NET " "
               "pool_profile_exists pool_limit template_not_found no_space"},
    {"pool::remove", "DELETE", "/pool/profiles/:profileId", NULL, remove_profile, NULL, SCOPE_ADMIN,
     .reach = REACH_NEVER, .help = "Removes a profile and what is ready of it",
     .gives = &success_shape, .errors = "pool_profile_not_found"},
    {0},
};
