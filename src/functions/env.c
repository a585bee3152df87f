#include "engine/env.h"
#include "functions/functions_internal.h"
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
    {"key", FIELD_STRING, .min = 1, .max = ENV_KEY_MAX, .pattern = "^[A-Za-z_][A-Za-z0-9_]*$",
     .example = "\"MODE\"", .help = "name of the variable"},
    {0},
};

static const struct field set_fields[] = {
    {"vars", FIELD_STRING_MAP, .filled = true, .max = ARG_BYTES_MAX,
     .example = "{\"LANG\": \"C.UTF-8\"}", .help = "names and values"},
    {0},
};

const struct function env_functions[] = {
    {"env::get", "POST", "/sandboxes/:sandboxId/env/get", key_fields, get, "sandbox_env_get",
     SCOPE_READ, .reach = REACH_SANDBOX, .help = "Reads a variable of the environment",
     .gives = &env_value_shape, .errors = ERRORS_GONE " sandbox_not_running"},
    {"env::set", "POST", "/sandboxes/:sandboxId/env", set_fields, set, "sandbox_env_set",
     SCOPE_WRITE, .reach = REACH_SANDBOX, .help = "Sets variables for every later command",
     .gives = &env_set_shape, .errors = ERRORS_FILE " file_too_large"},
    {"env::list", "GET", "/sandboxes/:sandboxId/env", NULL, list, "sandbox_env_list", SCOPE_READ,
     .reach = REACH_SANDBOX, .help = "Lists the environment of commands", .gives = &env_list_shape,
     .errors = ERRORS_GONE " sandbox_not_running"},
    {"env::delete", "POST", "/sandboxes/:sandboxId/env/delete", key_fields, delete_key, NULL,
     SCOPE_WRITE, .reach = REACH_SANDBOX, .help = "Removes a variable", .gives = &env_deleted_shape,
     .errors = ERRORS_FILE " file_too_large"},
    {0},
};
