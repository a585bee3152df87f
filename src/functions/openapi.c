#include "rest/rest.h"

#include <string.h>

#include "functions/function.h"
#include "functions/input.h"
#include "base/buf.h"
#include "base/mem.h"

static json_t *string_list_schema(const struct field *f)
{
    json_t *items = json_pack("{s:s}", "type", "string");

    if (f->max > 0)
        (void)json_object_set_new(items, "maxLength", json_integer((json_int_t)f->max));
    return json_pack("{s:s, s:o}", "type", "array", "items", items);
}

static json_t *type_schema(const struct field *f)
{
    switch (f->type) {
    case FIELD_STRING:
        return json_pack("{s:s}", "type", "string");
    case FIELD_INT:
        return json_pack("{s:s}", "type", "integer");
    case FIELD_NUMBER:
        return json_pack("{s:s}", "type", "number");
    case FIELD_BOOL:
        return json_pack("{s:s}", "type", "boolean");
    case FIELD_STRINGS:
        return string_list_schema(f);
    case FIELD_STRING_MAP:
        return json_pack("{s:s, s:{s:s}}", "type", "object", "additionalProperties", "type",
                         "string");
    case FIELD_OBJECT:
        return json_pack("{s:s}", "type", "object");
    case FIELD_ARRAY:
        return json_pack("{s:s}", "type", "array");
    case FIELD_COMMAND:
        return json_pack("{s:[{s:s, s:i}, {s:s, s:{s:s}, s:i}]}", "oneOf", "type", "string",
                         "minLength", 1, "type", "array", "items", "type", "string", "minItems", 1);
    }
    abort();
}

static void add_bound(json_t *schema, const struct field *f, const char *key, double bound)
{
    json_t *value = f->type == FIELD_NUMBER ? json_real(bound) : json_integer((json_int_t)bound);

    (void)json_object_set_new(schema, key, value);
}

/* A clamped number is accepted whatever it is, so its range is told in words. */
static void add_range(json_t *schema, const struct field *f)
{
    if (f->type == FIELD_STRING) {
        if (f->min > 0)
            add_bound(schema, f, "minLength", f->min);
        if (f->max > 0)
            add_bound(schema, f, "maxLength", f->max);
    } else if ((f->type == FIELD_INT || f->type == FIELD_NUMBER) && !f->clamp && f->max > f->min) {
        add_bound(schema, f, "minimum", f->min);
        add_bound(schema, f, "maximum", f->max);
    }
}

static json_t *field_schema(const struct field *f)
{
    json_t *schema = type_schema(f);

    add_range(schema, f);
    if (f->preset)
        (void)json_object_set_new(schema, "default", json_loads(f->preset, JSON_DECODE_ANY, NULL));
    if (f->help && f->clamp)
        (void)json_object_set_new(
            schema, "description",
            json_sprintf("%s; moved to the nearer end of %.15g to %.15g", f->help, f->min, f->max));
    else if (f->help)
        (void)json_object_set_new(schema, "description", json_string(f->help));
    return schema;
}

static json_t *body_schema(const struct function *f)
{
    json_t *properties = json_object(), *required = json_array();
    json_t *schema = json_pack("{s:s, s:o}", "type", "object", "properties", properties);

    for (const struct field *field = f->fields; field && field->name; field++) {
        (void)json_object_set_new(properties, field->name, field_schema(field));
        if (field->required)
            (void)json_array_append_new(required, json_string(field->name));
    }
    if (json_array_size(required) > 0)
        (void)json_object_set(schema, "required", required);
    json_decref(required);
    return schema;
}

static void add_query_parameters(json_t *parameters, const struct function *f)
{
    for (const struct field *field = f->fields; field && field->name; field++)
        (void)json_array_append_new(
            parameters, json_pack("{s:s, s:s, s:b, s:o}", "name", field->name, "in", "query",
                                  "required", field->required, "schema", field_schema(field)));
}

/* "/sandboxes/:id/exec" → "/sandbox/sandboxes/{id}/exec", with the parameters it names. */
static char *path_template(const char *prefix, const char *route, json_t *parameters)
{
    struct buf path;

    buf_init(&path, 1024);
    if (*prefix)
        (void)buf_addf(&path, "/%s", prefix);
    while (*route == '/') {
        size_t len = strcspn(++route, "/");

        if (*route == ':') {
            auto_free char *name = xstrndup(route + 1, len - 1);

            (void)buf_addf(&path, "/{%s}", name);
            (void)json_array_append_new(parameters, json_pack("{s:s, s:s, s:b, s:{s:s}}", "name",
                                                              name, "in", "path", "required", 1,
                                                              "schema", "type", "string"));
        } else {
            (void)buf_addf(&path, "/%.*s", (int)len, route);
        }
        route += len;
    }
    return buf_steal(&path);
}

static json_t *bytes_media(void)
{
    return json_pack("{s:{s:s, s:s}}", "schema", "type", "string", "format", "binary");
}

static json_t *request_body(const struct function *f)
{
    json_t *content = json_object();

    (void)json_object_set_new(content, "application/json",
                              json_pack("{s:o}", "schema", body_schema(f)));
    if (f->flags & FUNCTION_RAW_IN)
        (void)json_object_set_new(content, "application/octet-stream", bytes_media());
    return json_pack("{s:o}", "content", content);
}

static json_t *responses(const struct function *f)
{
    const char *status = f->flags & FUNCTION_UPGRADE ? "101" : "200";
    json_t *ok = json_pack("{s:s}", "description", f->result);
    json_t *content = json_object();

    if (f->flags & FUNCTION_TAR)
        (void)json_object_set_new(content, "application/x-tar", bytes_media());
    else if (!(f->flags & FUNCTION_STREAM))
        (void)json_object_set_new(content, "application/json", json_pack("{s:{}}", "schema"));
    if (f->flags & (FUNCTION_STREAM | FUNCTION_EVENTS))
        (void)json_object_set_new(content, "text/event-stream",
                                  json_pack("{s:{s:s}}", "schema", "type", "string"));
    if (f->flags & FUNCTION_RAW_OUT)
        (void)json_object_set_new(content, "application/octet-stream", bytes_media());
    if (!(f->flags & FUNCTION_UPGRADE))
        (void)json_object_set(ok, "content", content);
    json_decref(content);
    return json_pack("{s:o, s:{s:s}}", status, ok, "default", "$ref",
                     "#/components/responses/Error");
}

static json_t *operation(const struct function *f, json_t *parameters)
{
    auto_free char *tag = xstrndup(f->id, strcspn(f->id, ":"));
    json_t *op = json_pack("{s:s, s:s, s:[s], s:o}", "operationId", f->id, "summary", f->help,
                           "tags", tag, "responses", responses(f));
    bool has_body = strcmp(f->method, "GET") != 0 && strcmp(f->method, "DELETE") != 0;

    if (has_body && f->fields)
        (void)json_object_set_new(op, "requestBody", request_body(f));
    else
        add_query_parameters(parameters, f);
    if (json_array_size(parameters) > 0)
        (void)json_object_set(op, "parameters", parameters);
    if (f->flags & FUNCTION_OPEN)
        (void)json_object_set_new(op, "security", json_array());
    return op;
}

struct document {
    const char *prefix;
    json_t *paths;
};

static int add_function(const struct function *f, void *arg)
{
    struct document *d = arg;
    json_t *parameters = json_array(), *item;
    auto_free char *path = path_template(d->prefix, f->route, parameters);
    char method[16];
    size_t i;

    for (i = 0; f->method[i] && i + 1 < sizeof(method); i++)
        method[i] = (char)(f->method[i] | 0x20);
    method[i] = '\0';
    item = json_object_get(d->paths, path);
    if (!item) {
        item = json_object();
        (void)json_object_set_new(d->paths, path, item);
    }
    (void)json_object_set_new(item, method, operation(f, parameters));
    json_decref(parameters);
    return 0;
}

json_t *rest_openapi(const char *prefix)
{
    struct document d = {.prefix = prefix, .paths = json_object()};
    json_t *error = json_pack("{s:s, s:[s, s], s:{s:{s:s, s:s}, s:{s:s, s:s}}}", "type", "object",
                              "required", "error", "code", "properties", "error", "type", "string",
                              "description", "what was wrong and what to do", "code", "type",
                              "string", "description", "a stable word for programs");
    json_t *response =
        json_pack("{s:s, s:{s:{s:{s:s}}}}", "description", "any failure", "content",
                  "application/json", "schema", "$ref", "#/components/schemas/Error");
    json_t *components = json_pack("{s:{s:o}, s:{s:o}, s:{s:{s:s, s:s}}}", "schemas", "Error",
                                   error, "responses", "Error", response, "securitySchemes",
                                   "token", "type", "http", "scheme", "bearer");

    (void)functions_each(add_function, &d);
    return json_pack("{s:s, s:{s:s, s:s}, s:[{s:[]}], s:o, s:o}", "openapi", "3.1.0", "info",
                     "title", "cay", "version", CAY_VERSION, "security", "token", "paths", d.paths,
                     "components", components);
}
