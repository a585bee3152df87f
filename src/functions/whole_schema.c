#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "functions/function.h"
#include "functions/schema.h"

/* Schemas for those who hand them to models, many of which do not follow references: so there are
 * none. */

#define REF_PREFIX "#/components/schemas/"
#define DEPTH_MAX  12

/* ---- references ---- */

static json_t *resolved(const json_t *schema, const json_t *shapes, int depth);

static json_t *of_ref(const json_t *schema, const json_t *shapes, int depth)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    json_t *whole = resolved(json_object_get(shapes, ref + strlen(REF_PREFIX)), shapes, depth + 1);
    const json_t *words = json_object_get(schema, "description");

    if (words)
        (void)json_object_set(whole, "description", (json_t *)words);
    return whole;
}

/* Of several forms a value has one, whichever word says so: oneOf is not among the words that
 * models' functions may be described with, anyOf is. */
static json_t *resolved(const json_t *schema, const json_t *shapes, int depth)
{
    json_t *copy, *one;
    const char *key;
    size_t i;

    if (depth > DEPTH_MAX) /* something that has itself in it: it can be anything there */
        return json_object();
    if (json_is_array(schema)) {
        copy = json_array();
        json_array_foreach(schema, i, one)
        {
            (void)json_array_append_new(copy, resolved(one, shapes, depth));
        }
        return copy;
    }
    if (!json_is_object(schema))
        return json_deep_copy(schema);
    if (json_is_string(json_object_get(schema, "$ref")))
        return of_ref(schema, shapes, depth);
    copy = json_object();
    json_object_foreach((json_t *)schema, key, one)
    {
        if (strcmp(key, "examples") != 0 || !json_is_array(one))
            (void)json_object_set_new(copy, strcmp(key, "oneOf") == 0 ? "anyOf" : key,
                                      resolved(one, shapes, depth));
    }
    return copy;
}

json_t *schema_whole(const json_t *schema, const json_t *shapes)
{
    return resolved(schema, shapes, 0);
}

/* ---- of a function ---- */

json_t *path_param_schema(const struct field *param)
{
    static const char encoded[] = ", percent-encoded";
    json_t *schema = field_schema(param);
    size_t len = strlen(param->help);

    if (str_ends(param->help, encoded))
        (void)json_object_set_new(schema, "description",
                                  json_stringn(param->help, len - strlen(encoded)));
    return schema;
}

static void add_params(const struct function *f, json_t *properties, json_t *required)
{
    for (const char *at = f->route ? strstr(f->route, "/:") : NULL; at; at = strstr(at + 1, "/:")) {
        const struct field *param = path_param(at + 2, strcspn(at + 2, "/"));

        if (param && !json_object_get(properties, param->name)) {
            (void)json_object_set_new(properties, param->name, path_param_schema(param));
            (void)json_array_append_new(required, json_string(param->name));
        }
    }
}

static void add_fields(const struct function *f, json_t *properties, json_t *required)
{
    for (const struct field *one = f->fields; one && one->name; one++) {
        if (json_object_get(properties, one->name))
            continue;
        (void)json_object_set_new(properties, one->name, field_schema(one));
        if (!one->optional && !one->preset)
            (void)json_array_append_new(required, json_string(one->name));
    }
}

json_t *function_takes(const struct function *f)
{
    json_t *properties = json_object(), *required = json_array(), *shapes = json_object();
    json_t *schema, *whole;

    add_params(f, properties, required);
    add_fields(f, properties, required);
    fields_collect(f->fields, shapes);
    schema = json_pack("{s:s, s:o}", "type", "object", "properties", properties);
    if (json_array_size(required) > 0)
        (void)json_object_set(schema, "required", required);
    whole = resolved(schema, shapes, 0);
    json_decref(required);
    json_decref(schema);
    json_decref(shapes);
    return whole;
}

json_t *function_gives(const struct function *f)
{
    json_t *shapes, *ref, *whole;

    if (!f->gives)
        return NULL;
    shapes = json_object();
    ref = shape_ref(f->gives);
    shape_collect(f->gives, shapes);
    whole = resolved(ref, shapes, 0);
    json_decref(ref);
    json_decref(shapes);
    return whole;
}
