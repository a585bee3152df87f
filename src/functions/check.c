#include "functions/input.h"

#include <math.h>
#include <string.h>

#include "functions/function.h"
#include "base/err.h"

static double string_max(const struct field *f)
{
    return f->max > 0 ? f->max : INPUT_STRING_MAX;
}

static int check_string(const struct field *f, const char *name, const json_t *v, struct err *err)
{
    size_t len;

    if (!json_is_string(v))
        return err_set(err, ERR_INVALID, "%s must be a string", name);
    len = json_string_length(v);
    if (len == 0 && f->min >= 1)
        return err_set(err, ERR_INVALID, "%s is required and must not be empty", name);
    if ((double)len < f->min)
        return err_set(err, ERR_INVALID, "%s must have at least %.0f bytes", name, f->min);
    if ((double)len > string_max(f))
        return err_set(err, ERR_INVALID, "%s must have at most %.0f bytes", name, string_max(f));
    return 0;
}

static bool in_range(const struct field *f, double v)
{
    return (f->min == 0 && f->max == 0) || (v >= f->min && v <= f->max);
}

static int check_number(const struct field *f, json_t **v, struct err *err)
{
    const char *kind = f->type == FIELD_INT ? "whole number" : "number";
    bool right = f->type == FIELD_INT ? json_is_integer(*v) : json_is_number(*v);
    double value = json_number_value(*v);

    if (right && in_range(f, value))
        return 0;
    if (right && f->clamp) {
        double nearer = value < f->min ? f->min : f->max;

        json_decref(*v);
        *v = f->type == FIELD_INT ? json_integer((json_int_t)nearer) : json_real(nearer);
        return 0;
    }
    if (f->min == 0 && f->max == 0)
        return err_set(err, ERR_INVALID, "%s must be a %s", f->name, kind);
    return err_set(err, ERR_INVALID, "%s must be a %s from %.15g to %.15g", f->name, kind, f->min,
                   f->max);
}

static int check_strings(const struct field *f, const json_t *v, struct err *err)
{
    char name[80];

    if (!json_is_array(v))
        return err_set(err, ERR_INVALID, "%s must be an array of strings", f->name);
    if (json_array_size(v) > INPUT_ITEMS_MAX)
        return err_set(err, ERR_INVALID, "%s must have at most %d items", f->name, INPUT_ITEMS_MAX);
    for (size_t i = 0; i < json_array_size(v); i++) {
        (void)snprintf(name, sizeof(name), "%s[%zu]", f->name, i);
        if (check_string(f, name, json_array_get(v, i), err) < 0)
            return -1;
    }
    return 0;
}

static int check_string_map(const struct field *f, json_t *v, struct err *err)
{
    const char *key;
    json_t *item;
    char name[160];

    if (!json_is_object(v))
        return err_set(err, ERR_INVALID, "%s must be an object whose values are strings", f->name);
    if (json_object_size(v) > INPUT_ITEMS_MAX)
        return err_set(err, ERR_INVALID, "%s must have at most %d entries", f->name,
                       INPUT_ITEMS_MAX);
    json_object_foreach(v, key, item)
    {
        (void)snprintf(name, sizeof(name), "%s.%s", f->name, key);
        if (check_string(f, name, item, err) < 0)
            return -1;
    }
    return 0;
}

static int check_command(const struct field *f, const json_t *v, struct err *err)
{
    if (json_is_string(v))
        return check_string(f, f->name, v, err);
    if (!json_is_array(v) || json_array_size(v) == 0)
        return err_set(err, ERR_INVALID,
                       "%s must be a string (run by a shell) or a non-empty array of strings (run "
                       "as it is)",
                       f->name);
    /* Only the program's name must be there; other arguments may be empty. */
    if (json_string_length(json_array_get(v, 0)) == 0)
        return err_set(err, ERR_INVALID, "%s[0] must be the name of a program", f->name);
    return check_strings(&(struct field){.name = f->name, .max = f->max}, v, err);
}

static int check_field(const struct field *f, json_t **v, struct err *err)
{
    switch (f->type) {
    case FIELD_STRING:
        return check_string(f, f->name, *v, err);
    case FIELD_INT:
    case FIELD_NUMBER:
        return check_number(f, v, err);
    case FIELD_BOOL:
        return json_is_boolean(*v) ? 0
                                   : err_set(err, ERR_INVALID, "%s must be true or false", f->name);
    case FIELD_STRINGS:
        return check_strings(f, *v, err);
    case FIELD_STRING_MAP:
        return check_string_map(f, *v, err);
    case FIELD_OBJECT:
        return json_is_object(*v) ? 0 : err_set(err, ERR_INVALID, "%s must be an object", f->name);
    case FIELD_ARRAY:
        if (!json_is_array(*v) || json_array_size(*v) > INPUT_ITEMS_MAX)
            return err_set(err, ERR_INVALID, "%s must be an array of at most %d items", f->name,
                           INPUT_ITEMS_MAX);
        return 0;
    case FIELD_COMMAND:
        return check_command(f, *v, err);
    }
    return err_set(err, ERR_INTERNAL, "%s has no known type", f->name);
}

static int take_field(const struct field *f, const json_t *in, json_t *out, struct err *err)
{
    json_t *v = json_object_get(in, f->name);

    if (v && !json_is_null(v))
        v = json_incref(v);
    else if (f->preset)
        v = json_loads(f->preset, JSON_DECODE_ANY, NULL);
    else if (f->required)
        return err_set(err, ERR_INVALID, "%s is required", f->name);
    else
        return 0;
    if (check_field(f, &v, err) < 0) {
        json_decref(v);
        return -1;
    }
    (void)json_object_set_new(out, f->name, v);
    return 0;
}

int input_check(json_t **in, const struct field *fields, json_t *params, struct err *err)
{
    json_t *out = json_object();

    for (const struct field *f = fields; f && f->name; f++) {
        if (take_field(f, *in, out, err) < 0) {
            json_decref(out);
            return -1;
        }
    }
    (void)json_object_update(out, params);
    json_decref(*in);
    *in = out;
    return 0;
}
