#include <string.h>

#include "base/err.h"
#include "engine/env.h"
#include "functions/functions_internal.h"

#define KEY_BYTES_MAX 256

static int check_key(const char *key, struct err *err)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    size_t len = strlen(key);

    if (len == 0 || len > KEY_BYTES_MAX || key[strspn(key, allowed)])
        return err_set(err, ERR_INVALID,
                       "the name of a variable must be 1 to %d of the characters A-Z a-z 0-9 _",
                       KEY_BYTES_MAX);
    return 0;
}

static int get(struct call *call, struct err *err)
{
    if (check_key(in_str(call, "key"), err) < 0)
        return -1;
    return engine_env_get(call->engine, in_id(call), in_str(call, "key"), &call->out, err);
}

static int set(struct call *call, struct err *err)
{
    json_t *vars = json_object_get(call->in, "vars"), *value;
    const char *key;

    if (json_object_size(vars) == 0)
        return err_set(err, ERR_INVALID, "vars is required and must not be empty");
    json_object_foreach(vars, key, value) if (check_key(key, err) < 0) return -1;
    return engine_env_set(call->engine, in_id(call), vars, &call->out, err);
}

static int list(struct call *call, struct err *err)
{
    return engine_env_list(call->engine, in_id(call), &call->out, err);
}

static int delete_key(struct call *call, struct err *err)
{
    if (check_key(in_str(call, "key"), err) < 0)
        return -1;
    return engine_env_delete(call->engine, in_id(call), in_str(call, "key"), &call->out, err);
}

static const struct field key_fields[] = {
    {"key", FIELD_STRING, .required = true, .min = 1, .max = KEY_BYTES_MAX,
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
