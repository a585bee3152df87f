#include "functions/iii.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "functions/iii_internal.h"

/* ---- which there are ---- */

int iii_functions_each(int (*each)(const struct function *f, void *arg), void *arg)
{
    static const struct function *const all[] = {
        iii_sandbox_functions, iii_exec_functions, iii_run_functions,
        iii_file_functions,    iii_grep_functions,
    };

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        for (const struct function *f = all[i]; f->id; f++) {
            int r = each(f, arg);

            if (r != 0)
                return r;
        }
    }
    return 0;
}

struct wanted {
    const char *id;
    const struct function *found;
};

static int is_it(const struct function *f, void *arg)
{
    struct wanted *w = arg;

    if (strcmp(f->id, w->id) != 0)
        return 0;
    w->found = f;
    return 1;
}

const struct function *iii_function(const char *id)
{
    struct wanted w = {.id = id};

    (void)iii_functions_each(is_it, &w);
    return w.found;
}

const struct iii_settings *iii_settings_of(const struct call *call)
{
    static const struct iii_settings preset = III_SETTINGS_DEFAULT;

    return call->about && call->about->iii ? call->about->iii : &preset;
}

/* ---- the operator's limits ---- */

const char *const iii_limit_variables[III_LIMITS] = {
    [III_LIMIT_SANDBOXES] = "CAY_III_SANDBOXES", [III_LIMIT_ALL_SANDBOXES] = "CAY_MAX_SANDBOXES",
    [III_LIMIT_EXECS] = "CAY_III_EXECS",         [III_LIMIT_EXEC_MS] = "CAY_III_EXEC_MS",
    [III_LIMIT_COMMAND] = "CAY_MAX_CMD_TIMEOUT", [III_LIMIT_IMAGES] = "CAY_ALLOWED_IMAGES",
    [III_LIMIT_CAPS] = "CAY_IMAGE_CAPS",         [III_LIMIT_INSTALL] = "CAY_AUTO_INSTALL",
    [III_LIMIT_PULL] = "CAY_PULL_POLICY",
};

/* A file is named without its folder: callers need not know the paths of the host. */
const char *iii_limit_source(const struct iii_settings *settings, enum iii_limit limit)
{
    const char *source = settings->sources[limit], *slash = source ? strrchr(source, '/') : NULL;

    return slash ? slash + 1 : source ? source : iii_limit_variables[limit];
}

int iii_name_limit(const struct iii_settings *settings, enum iii_limit limit, struct err *err)
{
    const char *variable = iii_limit_variables[limit], *source = iii_limit_source(settings, limit);
    auto_free char *text = xstrdup(err->text);
    const char *found = strstr(text, variable);

    if (found)
        return err_code(err, err->kind, err->code, "%.*s%s%s", (int)(found - text), text, source,
                        found + strlen(variable));
    return err_code(err, err->kind, err->code, "%s (%s)", text, source);
}

int iii_fix(struct call *call, json_t *fix, const char *note)
{
    json_decref(call->out);
    call->out = json_pack("{s:o*, s:s*}", "fix", fix, "fix_note", note);
    return -1;
}

/* ---- input, and what is said of it, as clients know it from serde ---- */

static const char *word_of(const struct field *f)
{
    switch (f->type) {
    case FIELD_STRING:
        return "a string";
    case FIELD_INT:
        return f->max > 0 && f->max <= UINT32_MAX ? "u32" : "u64";
    case FIELD_NUMBER:
        return "f64";
    case FIELD_BOOL:
        return "a boolean";
    case FIELD_STRINGS:
    case FIELD_ARRAY:
        return "a sequence";
    case FIELD_STRING_MAP:
    case FIELD_OBJECT:
        return "a map";
    case FIELD_NETWORK:
        return "a boolean, a string or a map";
    case FIELD_COMMAND:
    case FIELD_ANY:
        break;
    }
    return "a value";
}

static int wrong_type(const json_t *v, const char *wanted, struct err *err)
{
#define WRONG(...) err_code(err, ERR_INVALID, "bad_payload", "invalid type: " __VA_ARGS__)
    switch (json_typeof(v)) {
    case JSON_NULL:
        return WRONG("null, expected %s", wanted);
    case JSON_TRUE:
    case JSON_FALSE:
        return WRONG("boolean `%s`, expected %s", json_is_true(v) ? "true" : "false", wanted);
    case JSON_INTEGER:
        return WRONG("integer `%lld`, expected %s", (long long)json_integer_value(v), wanted);
    case JSON_REAL:
        return WRONG("floating point `%g`, expected %s", json_real_value(v), wanted);
    case JSON_STRING:
        return WRONG("string \"%.80s\", expected %s", json_string_value(v), wanted);
    case JSON_ARRAY:
        return WRONG("sequence, expected %s", wanted);
    case JSON_OBJECT:
        return WRONG("map, expected %s", wanted);
    }
#undef WRONG
    abort();
}

static int check_items(const json_t *array, struct err *err)
{
    json_t *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)array, i, one)
    {
        if (!json_is_string(one))
            return wrong_type(one, "a string", err);
    }
    return 0;
}

static int check_field(const struct field *f, const json_t *v, struct err *err)
{
    if (!v && !f->optional && !f->preset)
        return err_code(err, ERR_INVALID, "bad_payload", "missing field `%s`", f->name);
    if (!v || (json_is_null(v) && (f->optional || f->preset)))
        return 0;
    if (!field_has_type(f, v))
        return wrong_type(v, word_of(f), err);
    if (f->type == FIELD_INT && json_number_value(v) < f->min)
        return err_code(err, ERR_INVALID, "bad_payload",
                        "invalid value: integer `%.0f`, expected %s", json_number_value(v),
                        word_of(f));
    return f->type == FIELD_STRINGS ? check_items(v, err) : 0;
}

static int check_fields(const struct function *f, const json_t *in, struct err *err)
{
    static const struct field id_field = III_ID_FIELD;

    if (!json_is_object(in))
        return wrong_type(in, "a map", err);
    if (f->reach == REACH_SANDBOX &&
        check_field(&id_field, json_object_get(in, id_field.name), err) < 0)
        return -1;
    for (const struct field *field = f->fields; field && field->name; field++)
        if (check_field(field, json_object_get(in, field->name), err) < 0)
            return -1;
    return 0;
}

/* The engine's id in place of the caller's. */
static int take_id(json_t *in, const json_t *uuid, struct err *err)
{
    char id[ID_SIZE];

    if (iii_id_of_uuid(json_string_value(uuid), id, err) < 0)
        return -1;
    (void)json_object_del(in, "sandbox_id");
    (void)json_object_set_new(in, "sandboxId", json_string(id));
    return 0;
}

/* What is about a sandbox has its id, whether its fields say so or not. */
int iii_input(const struct function *f, json_t *in, struct err *err)
{
    json_t *uuid;
    int r;

    if (check_fields(f, in, err) < 0)
        return -1;
    uuid = json_incref(json_object_get(in, "sandbox_id"));
    r = fields_take(f->fields, in, err);
    if (r < 0 && err)
        err->code = "bad_payload";
    if (r == 0 && f->reach == REACH_SANDBOX)
        r = take_id(in, uuid, err);
    json_decref(uuid);
    return r;
}

/* ---- parts that several rows take ---- */

static int env_list(const json_t *list, json_t *ret, struct err *err)
{
    json_t *one;
    size_t i;

    if (check_items(list, err) < 0)
        return -1;
    json_array_foreach((json_t *)(uintptr_t)list, i, one)
    {
        const char *text = json_string_value(one), *equals = strchr(text, '=');
        auto_free char *key = equals ? xstrndup(text, (size_t)(equals - text)) : NULL;

        if (key && *key)
            (void)json_object_set_new(ret, key, json_string(equals + 1));
    }
    return 0;
}

/* Names are for the engine to judge. */
static int env_map(const json_t *map, json_t *ret, struct err *err)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)map, key, value)
    {
        if (!json_is_string(value))
            return wrong_type(value, "a string", err);
        (void)json_object_set(ret, key, value);
    }
    return 0;
}

int iii_env(const json_t *env, json_t **ret, struct err *err)
{
    json_t *vars;
    int r;

    *ret = NULL;
    if (!env)
        return 0;
    if (!json_is_array(env) && !json_is_object(env))
        return wrong_type(env, "a sequence or a map", err);
    vars = json_object();
    r = json_is_array(env) ? env_list(env, vars, err) : env_map(env, vars, err);
    if (r < 0)
        json_decref(vars);
    else
        *ret = vars;
    return r;
}

struct file_path iii_path(const char *path, const char *base, char **ret_path)
{
    *ret_path = *path == '/' || !*path ? xstrdup(path) : xasprintf("%s/%s", base, path);
    return (struct file_path){.path = *ret_path, .anywhere = true};
}

int iii_file_error(struct err *err)
{
    if (err->code)
        return -1;
    if (err->kind == ERR_INVALID)
        err->code = "bad_fs_request";
    else if (err->kind == ERR_CONFLICT || err->kind == ERR_INTERNAL || err->kind == ERR_TOO_LARGE)
        err->code = "file_failed";
    return -1;
}
