#include "functions/schema.h"

#include <stdlib.h>

#include "model/shape.h"

/* ---- schemas ---- */

static void set(json_t *schema, const char *key, json_t *value)
{
    (void)json_object_set_new(schema, key, value);
}

static json_t *simple(const char *type)
{
    return json_pack("{s:s}", "type", type);
}

static void add_length(json_t *schema, const struct field *f)
{
    if (f->min > 0)
        set(schema, "minLength", json_integer((json_int_t)f->min));
    if (f->max > 0)
        set(schema, "maxLength", json_integer((json_int_t)f->max));
}

static json_t *string_schema(const struct field *f)
{
    json_t *schema = simple("string");

    add_length(schema, f);
    if (f->pattern)
        set(schema, "pattern", json_string(f->pattern));
    if (f->choices) {
        json_t *words = json_array();

        for (const char *const *c = f->choices; *c; c++)
            (void)json_array_append_new(words, json_string(*c));
        set(schema, "enum", words);
    }
    return schema;
}

static json_t *bound(const struct field *f, double value)
{
    return f->type == FIELD_INT ? json_integer((json_int_t)value) : json_real(value);
}

/* A clamped number is accepted beyond its range, which is therefore told in words. */
static json_t *number_schema(const struct field *f)
{
    json_t *schema = simple(f->type == FIELD_INT ? "integer" : "number");

    if (!f->clamp && f->max > f->min) {
        set(schema, "minimum", bound(f, f->min));
        set(schema, "maximum", bound(f, f->max));
    } else if (f->clamp && !f->optional && f->min >= 0) {
        set(schema, "minimum", bound(f, 0));
    }
    return schema;
}

static json_t *list_schema(const struct field *f, json_t *items)
{
    json_t *schema = json_pack("{s:s, s:o}", "type", "array", "items", items);

    if (f->filled)
        set(schema, "minItems", json_integer(1));
    return schema;
}

static json_t *map_schema(const struct field *f)
{
    json_t *schema =
        json_pack("{s:s, s:o}", "type", "object", "additionalProperties", string_schema(f));

    if (f->filled)
        set(schema, "minProperties", json_integer(1));
    return schema;
}

static json_t *command_schema(const struct field *f)
{
    json_t *list =
        json_pack("{s:s, s:{s:s}, s:i}", "type", "array", "items", "type", "string", "minItems", 1);

    return json_pack("{s:[o, o]}", "oneOf", string_schema(f), list);
}

static json_t *network_schema(const struct field *f)
{
    return json_pack("{s:[o, o, o]}", "oneOf", simple("boolean"), string_schema(f),
                     f->of ? shape_ref(f->of) : simple("object"));
}

static json_t *type_schema(const struct field *f)
{
    switch (f->type) {
    case FIELD_STRING:
        return string_schema(f);
    case FIELD_INT:
    case FIELD_NUMBER:
        return number_schema(f);
    case FIELD_BOOL:
        return simple("boolean");
    case FIELD_STRINGS:
        return list_schema(f, string_schema(f));
    case FIELD_STRING_MAP:
        return map_schema(f);
    case FIELD_OBJECT:
        return f->of ? shape_ref(f->of) : simple("object");
    case FIELD_ARRAY:
        return list_schema(f, f->of ? shape_ref(f->of) : json_object());
    case FIELD_COMMAND:
        return command_schema(f);
    case FIELD_ANY:
        return json_object();
    case FIELD_NETWORK:
        return network_schema(f);
    }
    abort();
}

static json_t *description(const struct field *f)
{
    const char *lenient = f->lenient ? "; another type is ignored with a warning" : "";

    if (f->clamp)
        return json_sprintf("%s; moved to the nearer end of %.15g to %.15g%s", f->help, f->min,
                            f->max, lenient);
    return json_sprintf("%s%s", f->help, lenient);
}

json_t *field_schema(const struct field *f)
{
    json_t *schema = type_schema(f);

    if (f->nullable)
        set(schema, "type", json_pack("[O, s]", json_object_get(schema, "type"), "null"));
    if (f->preset)
        set(schema, "default", json_loads(f->preset, JSON_DECODE_ANY, NULL));
    if (f->example)
        set(schema, "examples", json_pack("[o]", json_loads(f->example, JSON_DECODE_ANY, NULL)));
    if (f->help)
        set(schema, "description", description(f));
    return schema;
}

json_t *fields_schema(const struct field *fields)
{
    json_t *properties = json_object(), *required = json_array();
    json_t *schema = json_pack("{s:s, s:o}", "type", "object", "properties", properties);

    for (const struct field *f = fields; f && f->name; f++) {
        set(properties, f->name, field_schema(f));
        if (!f->optional && !f->preset)
            (void)json_array_append_new(required, json_string(f->name));
    }
    if (json_array_size(required) > 0)
        (void)json_object_set(schema, "required", required);
    json_decref(required);
    return schema;
}

json_t *shape_ref(const struct shape *shape)
{
    return json_pack("{s:s+}", "$ref", "#/components/schemas/", shape->name);
}

json_t *shape_schema(const struct shape *shape)
{
    json_t *schema;

    if (shape->one_of) {
        json_t *list = json_array();

        for (const struct shape *const *s = shape->one_of; *s; s++)
            (void)json_array_append_new(list, shape_ref(*s));
        schema = json_pack("{s:o}", "oneOf", list);
    } else {
        schema = shape->value ? field_schema(shape->value) : fields_schema(shape->fields);
    }
    set(schema, "description", json_string(shape->help));
    return schema;
}

void shape_collect(const struct shape *shape, json_t *schemas)
{
    if (!shape || json_object_get(schemas, shape->name))
        return;
    set(schemas, shape->name, shape_schema(shape));
    for (const struct shape *const *s = shape->one_of; s && *s; s++)
        shape_collect(*s, schemas);
    fields_collect(shape->fields, schemas);
    if (shape->value)
        shape_collect(shape->value->of, schemas);
}

void fields_collect(const struct field *fields, json_t *schemas)
{
    for (const struct field *f = fields; f && f->name; f++)
        shape_collect(f->of, schemas);
}

/* ---- examples ---- */

json_t *field_example(const struct field *f)
{
    if (f->example || f->preset)
        return json_loads(f->example ? f->example : f->preset, JSON_DECODE_ANY, NULL);
    if (f->choices)
        return json_string(f->choices[0]);
    switch (f->type) {
    case FIELD_STRING:
    case FIELD_COMMAND:
    case FIELD_ANY:
        return json_string("");
    case FIELD_INT:
    case FIELD_NUMBER:
        return bound(f, f->min);
    case FIELD_BOOL:
    case FIELD_NETWORK:
        return json_true();
    case FIELD_STRINGS:
        return json_array();
    case FIELD_STRING_MAP:
        return json_object();
    case FIELD_OBJECT:
        return f->of ? shape_example(f->of) : json_object();
    case FIELD_ARRAY:
        return f->of ? json_pack("[o]", shape_example(f->of)) : json_array();
    }
    abort();
}

json_t *fields_example(const struct field *fields)
{
    json_t *o = json_object();

    for (const struct field *f = fields; f && f->name; f++)
        if ((!f->optional && !f->preset) || f->example)
            set(o, f->name, field_example(f));
    return o;
}

json_t *shape_example(const struct shape *shape)
{
    if (shape->one_of)
        return shape_example(shape->one_of[0]);
    return shape->value ? field_example(shape->value) : fields_example(shape->fields);
}
