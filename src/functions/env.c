#include "functions/functions_internal.h"
#include "engine/engine.h"
#include "model/env.h"

static int get(struct call *call, struct err *err)
{
    return engine_env_get(call->engine, in_id(call), in_str(call, "key"), &call->out, err);
}

static int set(struct call *call, struct err *err)
{
    return engine_env_set(call->engine, in_id(call), json_object_get(call->in, "vars"), &call->out,
                          err);
}

static int list(struct call *call, struct err *err)
{
    return engine_env_list(call->engine, in_id(call), &call->out, err);
}

static int delete_key(struct call *call, struct err *err)
{
    return engine_env_delete(call->engine, in_id(call), in_str(call, "key"), &call->out, err);
}

static const struct field key_fields[] = {
    {"key", FIELD_STRING, .required = true, .min = 1, .max = ENV_KEY_MAX,
     .help = "name of the variable"},
    {0},
};

static const struct field set_fields[] = {
    {"vars", FIELD_STRING_MAP, .required = true, .max = ARG_BYTES_MAX, .help = "names and values"},
    {0},
};

const struct function env_functions[] = {
    {"env::get", "POST", "/sandboxes/:id/env/get", key_fields, get, "sandbox_env_get", SCOPE_READ,
     .help = "Reads a variable of the environment", .result = "{key, value, exists}"},
    {"env::set", "POST", "/sandboxes/:id/env", set_fields, set, "sandbox_env_set", SCOPE_WRITE,
     .help = "Sets variables for every later command", .result = "{set: [key], count}"},
    {"env::list", "GET", "/sandboxes/:id/env", NULL, list, "sandbox_env_list", SCOPE_READ,
     .help = "Lists the environment of commands", .result = "{vars, count}"},
    {"env::delete", "POST", "/sandboxes/:id/env/delete", key_fields, delete_key, NULL, SCOPE_WRITE,
     .help = "Removes a variable", .result = "{deleted: key}"},
    {0},
};
