#include "rest/reference.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "http/server.h"
#include "rest/html.h"
#include "rest/rest_internal.h"

#define PAGE_MAX (8u << 20)

static const char style[] =
    "body{font:15px/1.5 system-ui,sans-serif;margin:0;color:#222;background:#fff;display:flex}"
    "nav{position:sticky;top:0;height:100vh;overflow:auto;width:19em;flex:none;padding:1em;"
    "box-sizing:border-box;border-right:1px solid #ddd;font-size:13px}"
    "nav ul{list-style:none;margin:0 0 .6em;padding:0 0 0 .6em}main{padding:1em "
    "2em;max-width:62em;min-width:0}"
    "h2{margin-top:2.5em;border-bottom:1px solid #ddd}h3{margin-top:2em;font-size:16px}"
    "a{color:#0a58a8;text-decoration:none}a:hover{text-decoration:underline}"
    "code,pre{font:13px/1.45 ui-monospace,monospace;background:#f4f4f4;border-radius:3px}"
    "code{padding:1px 3px}pre{padding:.7em;overflow:auto}table{border-collapse:collapse;width:100%}"
    "td,th{text-align:left;vertical-align:top;padding:.25em .6em .25em 0;border-bottom:1px solid "
    "#eee}b.m{display:inline-block;min-width:4em}.r{color:#b00020}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}a{color:#7ab8f5}"
    "code,pre{background:#262626}nav,h2{border-color:#333}td,th{border-color:#2a2a2a}}"
    "@media(max-width:50em){body{display:block}nav{position:static;height:auto;width:auto}}";

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

/* ---- types ---- */

static void add_ref(struct buf *b, const char *ref)
{
    const char *name = strrchr(ref, '/');

    name = name ? name + 1 : ref;
    (void)buf_add_str(b, "<a href=\"#");
    html_add_str(b, name);
    (void)buf_add_str(b, "\">");
    html_add_str(b, name);
    (void)buf_add_str(b, "</a>");
}

static void add_type(struct buf *b, const json_t *schema);

static void add_types(struct buf *b, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);

        if (i > 0)
            (void)buf_add_str(b, " or ");
        if (json_is_string(one))
            html_add_str(b, json_string_value(one));
        else
            add_type(b, one);
    }
}

static void add_choices(struct buf *b, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        auto_free char *text = json_dumps(json_array_get(list, i), JSON_ENCODE_ANY);

        (void)buf_add_str(b, i > 0 ? " | <code>" : "<code>");
        html_add_str(b, text ? text : "");
        (void)buf_add_str(b, "</code>");
    }
}

static void add_type(struct buf *b, const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");

    if (json_object_get(schema, "$ref")) {
        add_ref(b, str(schema, "$ref"));
    } else if (json_object_get(schema, "oneOf")) {
        add_types(b, json_object_get(schema, "oneOf"));
    } else if (json_object_get(schema, "enum")) {
        add_choices(b, json_object_get(schema, "enum"));
    } else if (json_is_array(type)) {
        add_types(b, type);
    } else if (json_object_get(schema, "items")) {
        (void)buf_add_str(b, "array of ");
        add_type(b, json_object_get(schema, "items"));
    } else {
        html_add_str(b, json_is_string(type) ? json_string_value(type) : "any");
    }
}

/* ---- tables ---- */

static void add_row(struct buf *b, const char *name, const json_t *schema, bool required,
                    const char *help)
{
    const json_t *preset = json_object_get(schema, "default");

    (void)buf_add_str(b, "<tr><td><code>");
    html_add_str(b, name);
    (void)buf_add_str(b, required ? "</code> <span class=\"r\">required</span></td><td>"
                                  : "</code></td><td>");
    add_type(b, schema);
    (void)buf_add_str(b, "</td><td>");
    html_add_str(b, help);
    if (preset) {
        auto_free char *text = json_dumps(preset, JSON_ENCODE_ANY);

        (void)buf_add_str(b, " Default: <code>");
        html_add_str(b, text ? text : "");
        (void)buf_add_str(b, "</code>");
    }
    (void)buf_add_str(b, "</td></tr>\n");
}

static bool is_listed(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), name) == 0)
            return true;
    return false;
}

static void add_properties(struct buf *b, const json_t *schema)
{
    json_t *properties = json_object_get(schema, "properties"), *one;
    const char *name;

    json_object_foreach(properties, name, one)
        add_row(b, name, one, is_listed(json_object_get(schema, "required"), name),
                str(one, "description"));
}

/* The first of its types of content. */
static json_t *first_content(const json_t *o, const char **ret_type)
{
    void *it = json_object_iter(json_object_get(o, "content"));

    *ret_type = it ? json_object_iter_key(it) : "";
    return it ? json_object_iter_value(it) : NULL;
}

static void add_input(struct buf *b, const json_t *op)
{
    const json_t *parameters = json_object_get(op, "parameters"), *body;
    const char *type;
    const json_t *schema;

    body = first_content(json_object_get(op, "requestBody"), &type);
    schema = json_object_get(body, "schema");
    if (json_array_size(parameters) == 0 && !schema)
        return;
    (void)buf_add_str(b, "<table>");
    for (size_t i = 0; i < json_array_size(parameters); i++) {
        const json_t *p = json_array_get(parameters, i);

        add_row(b, str(p, "name"), json_object_get(p, "schema"),
                json_is_true(json_object_get(p, "required")), str(p, "description"));
    }
    add_properties(b, schema);
    (void)buf_add_str(b, "</table>\n");
}

/* ---- operations ---- */

static void add_example(struct buf *b, const char *server, const char *method, const char *path,
                        const json_t *op)
{
    const char *type;
    const json_t *body = first_content(json_object_get(op, "requestBody"), &type);
    json_t *example = json_object_get(body, "example");

    (void)buf_addf(b, "<pre>curl -X %s ", method);
    html_add_str(b, server);
    html_add_str(b, path);
    if (json_is_object(example)) {
        auto_free char *text = json_dumps(example, JSON_COMPACT);

        (void)buf_add_str(b, " \\\n  -H 'Content-Type: application/json' -d '");
        html_add_str(b, text ? text : "");
        (void)buf_add_str(b, "'");
    }
    (void)buf_add_str(b, "</pre>\n");
}

static void add_answer(struct buf *b, const json_t *answer)
{
    const char *type;
    json_t *content = first_content(answer, &type), *items, *example;

    if (!content)
        return;
    items = json_object_get(content, "x-itemSchema");
    example = json_object_get(content, "example");
    (void)buf_add_str(b, "<p>Answer: ");
    html_add_str(b, str(answer, "description"));
    (void)buf_add_str(b, " (<code>");
    html_add_str(b, type);
    (void)buf_add_str(b, "</code>, ");
    add_type(b, items ? items : json_object_get(content, "schema"));
    (void)buf_add_str(b, items ? " each)</p>\n" : ")</p>\n");
    if (example) {
        auto_free char *text = json_is_string(example) ? xstrdup(json_string_value(example))
                                                       : json_dumps(example, JSON_INDENT(2));

        (void)buf_add_str(b, "<pre>");
        html_add_str(b, text ? text : "");
        (void)buf_add_str(b, "</pre>\n");
    }
}

static void add_failures(struct buf *b, json_t *answers)
{
    json_t *answer;
    const char *status;
    bool any = false;

    json_object_foreach(answers, status, answer)
    {
        if (status[0] == '2' || !json_object_get(answer, "x-codes"))
            continue;
        (void)buf_add_str(b, any ? "" : "<details><summary>Errors</summary><table>");
        any = true;
        (void)buf_add_str(b, "<tr><td>");
        html_add_str(b, status);
        (void)buf_add_str(b, "</td><td>");
        html_add_str(b, str(answer, "description"));
        (void)buf_add_str(b, "</td></tr>\n");
    }
    if (any)
        (void)buf_add_str(b, "</table></details>\n");
}

static void add_operation(struct buf *b, const char *server, const char *path, const char *verb,
                          const json_t *op)
{
    char method[8];
    size_t n = 0;

    for (; verb[n] && n + 1 < sizeof(method); n++)
        method[n] = (char)(verb[n] & ~0x20); /* letters in upper case */
    method[n] = '\0';
    (void)buf_addf(b, "<h3 id=\"%s\"><b class=\"m\">%s</b> <code>", str(op, "operationId"), method);
    html_add_str(b, path);
    (void)buf_add_str(b, "</code></h3><p>");
    html_add_str(b, str(op, "summary"));
    (void)buf_add_str(b, ".</p>\n");
    add_input(b, op);
    add_example(b, server, method, path, op);
    add_answer(b, json_object_get(json_object_get(op, "responses"), "200"));
    add_failures(b, json_object_get(op, "responses"));
}

static const char *tag_of(const json_t *op)
{
    const char *tag = json_string_value(json_array_get(json_object_get(op, "tags"), 0));

    return tag ? tag : "";
}

/* Calls each for every operation of the tag, in the order of the document. */
static void each_of_tag(struct buf *b, const json_t *openapi, const char *tag,
                        void (*each)(struct buf *b, const char *server, const char *path,
                                     const char *verb, const json_t *op))
{
    const char *server = str(json_array_get(json_object_get(openapi, "servers"), 0), "url");
    json_t *operations, *op;
    const char *path, *verb;

    json_object_foreach(json_object_get(openapi, "paths"), path, operations)
        json_object_foreach(operations, verb, op) if (strcmp(tag_of(op), tag) == 0)
            each(b, server, path, verb, op);
}

static void add_link(struct buf *b, const char *server, const char *path, const char *verb,
                     const json_t *op)
{
    (void)server;
    (void)path;
    (void)verb;
    (void)buf_addf(b, "<li><a href=\"#%s\">", str(op, "operationId"));
    html_add_str(b, str(op, "summary"));
    (void)buf_add_str(b, "</a></li>");
}

/* Of all operations, in the order in which they come first. */
static json_t *tags_of(const json_t *openapi)
{
    json_t *tags = json_array(), *operations, *op;
    const char *path, *verb;

    json_object_foreach(json_object_get(openapi, "paths"), path, operations)
        json_object_foreach(operations, verb, op) if (!is_listed(tags, tag_of(op)))(void)
            json_array_append_new(tags, json_string(tag_of(op)));
    return tags;
}

static void add_index(struct buf *b, const json_t *openapi, const json_t *tags)
{
    (void)buf_add_str(b, "<nav><b>cay</b> <a href=\"openapi.json\">openapi.json</a>");
    for (size_t i = 0; i < json_array_size(tags); i++) {
        const char *tag = json_string_value(json_array_get(tags, i));

        (void)buf_addf(b, "<p><a href=\"#tag-%s\"><b>%s</b></a></p><ul>", tag, tag);
        each_of_tag(b, openapi, tag, add_link);
        (void)buf_add_str(b, "</ul>");
    }
    (void)buf_add_str(b, "<p><a href=\"#objects\"><b>objects</b></a></p></nav>\n");
}

static void add_objects(struct buf *b, const json_t *openapi)
{
    json_t *schemas = json_object_get(json_object_get(openapi, "components"), "schemas"), *schema;
    const char *name;

    (void)buf_add_str(b, "<h2 id=\"objects\">Objects</h2>\n");
    json_object_foreach(schemas, name, schema)
    {
        (void)buf_add_str(b, "<h3 id=\"");
        html_add_str(b, name);
        (void)buf_add_str(b, "\">");
        html_add_str(b, name);
        (void)buf_add_str(b, "</h3><p>");
        html_add_str(b, str(schema, "description"));
        (void)buf_add_str(b, "</p><table>");
        add_properties(b, schema);
        (void)buf_add_str(b, "</table>\n");
    }
}

void reference_write(const json_t *openapi, struct buf *ret)
{
    json_t *tags = tags_of(openapi);

    (void)buf_addf(ret,
                   "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                   "<meta name=\"viewport\" content=\"width=device-width\"><title>cay %s: API "
                   "reference</title><style>%s</style></head><body>\n",
                   str(json_object_get(openapi, "info"), "version"), style);
    add_index(ret, openapi, tags);
    (void)buf_add_str(ret,
                      "<main><h1>API reference</h1><p>Input is one flat object of query, JSON body "
                      "and path. Success is 200 with JSON; a failure has <code>error</code>, a "
                      "text for people, and <code>code</code> for programs. Times are Unix "
                      "milliseconds, timeouts seconds, durations milliseconds, memory MB.</p>\n");
    for (size_t i = 0; i < json_array_size(tags); i++) {
        const char *tag = json_string_value(json_array_get(tags, i));

        (void)buf_addf(ret, "<h2 id=\"tag-%s\">%s</h2>\n", tag, tag);
        each_of_tag(ret, openapi, tag, add_operation);
    }
    add_objects(ret, openapi);
    (void)buf_add_str(ret, "</main></body></html>\n");
    json_decref(tags);
}

/* Made once: who asks again and again costs no more than its bytes. */
static const struct buf *page_of(struct rest *rest)
{
    pthread_mutex_lock(&rest->reference_lock);
    if (rest->reference.len == 0) {
        buf_init(&rest->reference, PAGE_MAX);
        reference_write(rest->about.openapi, &rest->reference);
    }
    pthread_mutex_unlock(&rest->reference_lock);
    return &rest->reference;
}

bool reference_handle(struct rest *rest, struct http_req *req)
{
    const struct buf *page;

    if (strcmp(http_req_path(req), "/docs") != 0 || strcmp(http_req_method(req), "GET") != 0)
        return false;
    page = page_of(rest);
    http_reply_header(req, "Content-Security-Policy",
                      "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'");
    http_reply_header(req, "X-Content-Type-Options", "nosniff");
    http_reply(req, 200, "text/html; charset=utf-8", page->data, page->len);
    return true;
}
