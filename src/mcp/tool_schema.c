#include <stdlib.h>
#include <string.h>

#include "functions/schema.h"
#include "mcp/face_internal.h"

/* What tools take and give, from the rows of their functions. Clients hand these to models, many of
 * which do not follow references: so there are none. */

#define BRIEF_LEVEL 2

/* What a model has no use for: the face's own business, and forms of the same thing. */
static const char *const hidden[] = {"pathEncoding", "registry_auth", "detach", NULL};

static bool is_hidden(const char *name)
{
    for (const char *const *h = hidden; *h; h++)
        if (strcmp(*h, name) == 0)
            return true;
    return false;
}

/* ---- input ---- */

static void require(json_t *schema, const char *name)
{
    json_t *required = json_object_get(schema, "required");

    if (!required) {
        required = json_array();
        (void)json_object_set_new(schema, "required", required);
    }
    (void)json_array_append_new(required, json_string(name));
}

/* Those of the path first, since they say what it is about. */
static void add_params(const struct function *f, bool required, json_t *schema)
{
    json_t *properties = json_object_get(schema, "properties");

    for (const char *at = strstr(f->route, "/:"); at; at = strstr(at + 1, "/:")) {
        const struct field *param = path_param(at + 2, strcspn(at + 2, "/"));

        if (!json_object_get(properties, param->name)) {
            (void)json_object_set_new(properties, param->name, path_param_schema(param));
            if (required)
                require(schema, param->name);
        }
    }
}

static void add_fields(const struct function *f, bool required, const json_t *forced,
                       json_t *schema)
{
    json_t *properties = json_object_get(schema, "properties");

    for (const struct field *one = f->fields; one && one->name; one++) {
        if (is_hidden(one->name) || json_object_get(forced, one->name) ||
            json_object_get(properties, one->name))
            continue;
        (void)json_object_set_new(properties, one->name, field_schema(one));
        if (required && !one->optional && !one->preset)
            require(schema, one->name);
    }
}

json_t *tool_input(const struct function *f, const struct function *with, const json_t *forced)
{
    json_t *schema = json_pack("{s:s, s:{}}", "type", "object", "properties");
    json_t *shapes = json_object(), *whole;

    add_params(f, true, schema);
    add_fields(f, true, forced, schema);
    fields_collect(f->fields, shapes);
    if (with) {
        add_params(with, false, schema);
        add_fields(with, false, forced, schema);
        fields_collect(with->fields, shapes);
    }
    whole = schema_whole(schema, shapes);
    json_decref(schema);
    json_decref(shapes);
    return whole;
}

/* ---- output ---- */

/* What is no object goes into one, since a structured answer is one. */
static const char *wrapper(const struct function *f)
{
    if (f->answer == ANSWER_LIST)
        return "items";
    if (f->answer == ANSWER_EVENTS)
        return "lines";
    return f->answer == ANSWER_TEXT ? "content" : NULL;
}

/* A model reads it once for every conversation: what is deep inside is told by its type alone, and
 * limits of what we give are nobody's concern. */
static void make_brief(json_t *schema, int level)
{
    static const char *const limits[] = {"minLength", "maxLength", "pattern", "minimum",
                                         "maximum",   "minItems",  NULL};
    json_t *one;
    const char *key;
    size_t i;

    for (const char *const *l = limits; *l; l++)
        (void)json_object_del(schema, *l);
    if (level >= BRIEF_LEVEL) {
        (void)json_object_del(schema, "description");
        (void)json_object_del(schema, "properties");
        (void)json_object_del(schema, "required");
    }
    json_object_foreach(json_object_get(schema, "properties"), key, one)
    {
        make_brief(one, level + 1);
    }
    json_array_foreach(json_object_get(schema, "anyOf"), i, one)
    {
        make_brief(one, level);
    }
    if (json_object_get(schema, "items"))
        make_brief(json_object_get(schema, "items"), level);
}

static json_t *gives(const struct function *f)
{
    const struct shape *shape = f->answer == ANSWER_EVENTS ? f->events : f->gives;
    json_t *shapes = json_object(), *ref = shape_ref(shape), *schema;

    shape_collect(shape, shapes);
    schema = schema_whole(ref, shapes);
    json_decref(ref);
    json_decref(shapes);
    if (f->answer == ANSWER_EVENTS)
        schema = json_pack("{s:s, s:o}", "type", "array", "items", schema);
    return schema;
}

json_t *tool_output(const struct function *f, const struct function *with)
{
    const char *key = wrapper(f);
    json_t *schema = gives(f), *other;

    if (key)
        schema = json_pack("{s:s, s:{s:o}, s:[s]}", "type", "object", "properties", key, schema,
                           "required", key);
    (void)json_object_set_new(schema, "type", json_string("object"));
    make_brief(schema, 0);
    if (with) { /* either of the two */
        other = gives(with);
        make_brief(other, 0);
        (void)json_object_update_missing(json_object_get(schema, "properties"),
                                         json_object_get(other, "properties"));
        (void)json_object_del(schema, "required");
        json_decref(other);
    }
    return schema;
}

json_t *tool_wrap(const struct function *f, json_t *value)
{
    const char *key = wrapper(f);

    return key ? json_pack("{s:o}", key, value) : value;
}
