#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "functions/error_codes.h"
#include "functions/function.h"
#include "functions/keys.h"
#include "functions/schema.h"
#include "model/shapes.h"

#define SERVER "http://127.0.0.1:3111" /* where a daemon listens that is not told otherwise */

static void set(json_t *o, const char *key, json_t *value)
{
    (void)json_object_set_new(o, key, value);
}

static bool takes_body(const struct function *f)
{
    return f->fields && strcmp(f->method, "GET") != 0 && strcmp(f->method, "DELETE") != 0;
}

static bool is_required(const struct field *f)
{
    return !f->optional && !f->preset;
}

static bool needs_body(const struct function *f)
{
    for (const struct field *field = f->fields; field && field->name; field++)
        if (is_required(field))
            return true;
    return false;
}

/* ---- parameters ---- */

/* Lists and maps are JSON text in a query. */
static bool is_json_text(const struct field *f)
{
    return f->type == FIELD_STRINGS || f->type == FIELD_STRING_MAP || f->type == FIELD_OBJECT ||
           f->type == FIELD_ARRAY;
}

static json_t *parameter(const struct field *f, const char *where, bool required)
{
    json_t *p = json_pack("{s:s, s:s, s:b, s:s}", "name", f->name, "in", where, "required",
                          required, "description", f->help);

    if (is_json_text(f))
        set(p, "content", json_pack("{s:{s:o}}", "application/json", "schema", field_schema(f)));
    else
        set(p, "schema", field_schema(f));
    return p;
}

static void add_query_parameters(json_t *parameters, const struct function *f)
{
    for (const struct field *field = f->fields; field && field->name; field++)
        (void)json_array_append_new(parameters, parameter(field, "query", is_required(field)));
}

/* A body of bytes is what "content" would be and has no room for the other fields, so they can come
 * in the query. None is required there: a JSON body has them all. */
static void add_fields_beside_bytes(json_t *parameters, const struct function *f)
{
    for (const struct field *field = f->fields; field && field->name; field++)
        if (strcmp(field->name, "content") != 0)
            (void)json_array_append_new(parameters, parameter(field, "query", false));
}

static void add_key_parameter(json_t *parameters)
{
    (void)json_array_append_new(
        parameters,
        json_pack("{s:s, s:s, s:b, s:s, s:{s:s, s:i, s:i, s:s}}", "name", "Idempotency-Key", "in",
                  "header", "required", 0, "description",
                  "of the caller's choice: who sends the same request with the same key again "
                  "within 24 hours is given the same answer, with Idempotent-Replayed: true",
                  "schema", "type", "string", "minLength", 1, "maxLength", KEY_MAX, "pattern",
                  "^[!-~]+$"));
}

/* "/sandboxes/:sandboxId/exec" → "/sandbox/sandboxes/{sandboxId}/exec", with what it names. */
static char *path_template(const char *prefix, const char *route, json_t *parameters)
{
    struct buf path;

    buf_init(&path, 1024);
    if (*prefix)
        (void)buf_addf(&path, "/%s", prefix);
    while (*route == '/') {
        size_t len = strcspn(++route, "/");

        if (*route == ':') {
            const struct field *param = path_param(route + 1, len - 1);

            if (!param)
                abort(); /* a route names a parameter that path_params lacks */
            (void)buf_addf(&path, "/{%s}", param->name);
            (void)json_array_append_new(parameters, parameter(param, "path", true));
        } else {
            (void)buf_addf(&path, "/%.*s", (int)len, route);
        }
        route += len;
    }
    return buf_steal(&path);
}

/* ---- what comes and goes ---- */

static json_t *json_media(json_t *schema, json_t *example)
{
    return json_pack("{s:o, s:o}", "schema", schema, "example", example);
}

static json_t *bytes_media(void)
{
    return json_pack("{s:{s:s, s:s}}", "schema", "type", "string", "format", "binary");
}

/* A stream is text to OpenAPI 3.1, and so to what is generated from it; what the data of each event
 * is stands beside that, as 3.2 will have it (itemSchema). */
static json_t *events_media(const struct shape *events)
{
    json_t *example = shape_example(events);
    auto_free char *line = json_dumps(example, 0);

    json_decref(example);
    return json_pack("{s:{s:s}, s:o, s:o}", "schema", "type", "string", "x-itemSchema",
                     shape_ref(events), "example", json_sprintf("data: %s\n\n", line));
}

static json_t *request_body(const struct function *f)
{
    json_t *content = json_object();

    set(content, "application/json",
        json_media(fields_schema(f->fields), fields_example(f->fields)));
    if (f->flags & FUNCTION_RAW_IN)
        set(content, "application/octet-stream", bytes_media());
    return json_pack("{s:b, s:o}", "required", needs_body(f), "content", content);
}

/* Does the connection become something else? */
static bool is_upgrade(const struct function *f)
{
    return f->answer == ANSWER_ATTACH || f->answer == ANSWER_SOCKET || f->answer == ANSWER_DIAL;
}

static const char *success_text(const struct function *f)
{
    if (f->answer == ANSWER_DIAL)
        return "the connection becomes one to the port";
    if (f->answer == ANSWER_ATTACH)
        return "the connection becomes a stream of frames";
    if (f->answer == ANSWER_SOCKET)
        return "the connection becomes a WebSocket";
    if (f->answer == ANSWER_CAST)
        return "a recording";
    if (f->answer == ANSWER_PROMETHEUS)
        return "metrics";
    if (f->gives)
        return f->gives->help;
    if (f->events)
        return f->events->help;
    return "an archive";
}

static json_t *success(const struct function *f)
{
    json_t *ok = json_pack("{s:s}", "description", success_text(f)), *content;

    if (is_upgrade(f))
        return ok;
    content = json_object();
    /* JSON is first: that is what a client gets that asks for nothing else. */
    if (f->gives)
        set(content, "application/json", json_media(shape_ref(f->gives), shape_example(f->gives)));
    if (f->events)
        set(content, "text/event-stream", events_media(f->events));
    if (f->answer == ANSWER_BYTES)
        set(content, "application/octet-stream", bytes_media());
    if (f->answer == ANSWER_TAR)
        set(content, "application/x-tar", bytes_media());
    if (f->answer == ANSWER_CAST)
        set(content, "application/x-asciicast", bytes_media());
    if (f->answer == ANSWER_PROMETHEUS)
        set(content, "text/plain", json_pack("{s:{s:s}}", "schema", "type", "string"));
    if (json_object_size(content) > 0)
        (void)json_object_set(ok, "content", content);
    json_decref(content);
    return ok;
}

/* ---- errors ---- */

/* Adds a code to the answer of a status, which it makes if it is the first. */
static void add_code(json_t *responses, int status, const struct error_code *e)
{
    char key[8];
    json_t *response;
    const char *before;

    (void)snprintf(key, sizeof(key), "%d", status);
    response = json_object_get(responses, key);
    if (!response) {
        response = json_pack("{s:{s:{s:o}}, s:[]}", "content", "application/json", "schema",
                             shape_ref(&error_shape), "x-codes");
        set(responses, key, response);
    }
    (void)json_array_append_new(json_object_get(response, "x-codes"), json_string(e->code));
    before = json_string_value(json_object_get(response, "description"));
    set(response, "description",
        json_sprintf("%s%s%s: %s", before ? before : "", before ? "; " : "", e->code, e->help));
}

/* Lists the codes, and adds an answer for each of their statuses. */
static json_t *add_errors(json_t *responses, const char *codes)
{
    json_t *list = json_array();

    while (codes && *codes) {
        size_t len = strcspn(codes, " ");
        const struct error_code *e = error_code_find(codes, len);

        if (!e)
            abort(); /* a row names a code that error_codes lacks */
        codes += len;
        codes += strspn(codes, " ");
        (void)json_array_append_new(list, json_string(e->code));
        add_code(responses, e->status, e);
        if (e->also)
            add_code(responses, e->also, e);
    }
    return list;
}

/* ---- the document ---- */

/* "cmd::run" → "cmd_run": generators make names of it. */
static char *operation_id(const char *id)
{
    const char *colons = strstr(id, "::");

    return xasprintf("%.*s_%s", (int)(colons - id), id, colons + 2);
}

static json_t *operation(const struct function *f, json_t *parameters)
{
    auto_free char *tag = xstrndup(f->id, strcspn(f->id, ":"));
    auto_free char *id = operation_id(f->id);
    json_t *op = json_pack("{s:s, s:s, s:s, s:[s], s:s, s:s}", "operationId", id, "x-function",
                           f->id, "summary", f->help, "tags", tag, "x-scope", scope_words[f->scope],
                           "x-reach", reach_words[f->reach]);
    json_t *responses = json_object();

    if (takes_body(f))
        set(op, "requestBody", request_body(f));
    else
        add_query_parameters(parameters, f);
    if (f->flags & FUNCTION_RAW_IN)
        add_fields_beside_bytes(parameters, f);
    if (f->flags & FUNCTION_MAKES)
        add_key_parameter(parameters);
    if (json_array_size(parameters) > 0)
        (void)json_object_set(op, "parameters", parameters);
    set(responses, is_upgrade(f) ? "101" : "200", success(f));
    set(op, "x-errors", add_errors(responses, f->errors));
    set(responses, "default", json_pack("{s:s}", "$ref", "#/components/responses/Error"));
    set(op, "responses", responses);
    if (f->flags & FUNCTION_OPEN)
        set(op, "security", json_array());
    return op;
}

struct document {
    const char *prefix;
    json_t *paths, *schemas;
    json_t *tags; /* [{"name"}], as operations have them */
};

/* Rows of a kind need not stand together. */
static void add_tag(json_t *tags, const struct function *f)
{
    auto_free char *name = xstrndup(f->id, strcspn(f->id, ":"));

    for (size_t i = 0; i < json_array_size(tags); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(tags, i), "name")), name) == 0)
            return;
    (void)json_array_append_new(tags, json_pack("{s:s}", "name", name));
}

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
        set(d->paths, path, item);
    }
    set(item, method, operation(f, parameters));
    json_decref(parameters);
    add_tag(d->tags, f);
    fields_collect(f->fields, d->schemas);
    shape_collect(f->gives, d->schemas);
    shape_collect(f->events, d->schemas);
    return 0;
}

/* Every code, so that programs need not gather them. */
static json_t *all_codes(void)
{
    json_t *list = json_array();

    for (const struct error_code *e = error_codes; e->code; e++) {
        json_t *statuses;

        if (e->elsewhere)
            continue;
        statuses = json_pack("[i]", e->status);
        if (e->also)
            (void)json_array_append_new(statuses, json_integer(e->also));
        (void)json_array_append_new(list, json_pack("{s:s, s:o, s:b, s:s}", "code", e->code,
                                                    "statuses", statuses, "general", e->general,
                                                    "description", e->help));
    }
    return list;
}

static json_t *components(json_t *schemas)
{
    json_t *error = json_pack("{s:s, s:{s:{s:o}}}", "description",
                              "any failure; x-errors lists the codes that are general", "content",
                              "application/json", "schema", shape_ref(&error_shape));

    shape_collect(&error_shape, schemas);
    return json_pack("{s:o, s:{s:o}, s:{s:{s:s, s:s}}}", "schemas", schemas, "responses", "Error",
                     error, "securitySchemes", "token", "type", "http", "scheme", "bearer");
}

json_t *functions_openapi(const char *prefix)
{
    struct document d = {
        .prefix = prefix, .paths = json_object(), .schemas = json_object(), .tags = json_array()};

    (void)functions_each(add_function, &d);
    return json_pack("{s:s, s:{s:s, s:s, s:{s:s, s:s}}, s:[{s:s}], s:[{s:[]}], s:o, s:o, s:o, s:o}",
                     "openapi", "3.1.0", "info", "title", "cay", "version", CAY_VERSION, "license",
                     "name", "Apache 2.0", "identifier", "Apache-2.0", "servers", "url", SERVER,
                     "security", "token", "tags", d.tags, "paths", d.paths, "components",
                     components(d.schemas), "x-errors", all_codes());
}
