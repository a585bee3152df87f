#include "service/otlp_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#define SPAN_KIND_SERVER 2
#define STATUS_ERROR     2

static json_t *attribute(const char *key, const char *type, json_t *value)
{
    return json_pack("{s:s, s:{s:o}}", "key", key, "value", type, value);
}

static void add_text(json_t *list, const char *key, const char *value)
{
    if (value && *value)
        (void)json_array_append_new(list, attribute(key, "stringValue", json_string(value)));
}

static void add_number(json_t *list, const char *key, int64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%" PRId64, value);
    (void)json_array_append_new(list, attribute(key, "intValue", json_string(text)));
}

static json_t *attributes(const struct trace *t)
{
    json_t *list = json_array();

    add_text(list, "cay.function", t->function);
    add_text(list, "cay.sandbox.id", t->sandbox_id);
    add_text(list, "cay.caller", t->caller);
    add_text(list, "cay.face", t->face);
    add_number(list, "http.response.status_code", err_kind_status(t->kind));
    add_text(list, "error.type", t->code);
    if (t->exec_us >= 0)
        (void)json_array_append_new(list, attribute("cay.exec.duration_ms", "doubleValue",
                                                    json_real((double)t->exec_us / 1000)));
    return list;
}

static json_t *status(const struct trace *t)
{
    json_t *o = json_object();

    if (t->kind == ERR_NONE)
        return o;
    (void)json_object_set_new(o, "code", json_integer(STATUS_ERROR));
    (void)json_object_set_new(o, "message", json_string(t->error));
    return o;
}

static json_t *span(const struct trace *t)
{
    char trace[33], id[17], parent[17], start[24], end[24];
    int64_t end_ns = t->end_ms * 1000000;
    json_t *o;

    hex_text(t->context.trace_id, 16, trace);
    hex_text(t->context.span_id, 8, id);
    hex_text(t->context.parent_id, 8, parent);
    (void)snprintf(start, sizeof(start), "%" PRId64, end_ns - t->duration_us * 1000);
    (void)snprintf(end, sizeof(end), "%" PRId64, end_ns);
    o = json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:o, s:o}", "traceId", trace, "spanId", id,
                  "name", t->function, "kind", SPAN_KIND_SERVER, "startTimeUnixNano", start,
                  "endTimeUnixNano", end, "attributes", attributes(t), "status", status(t));
    if (t->context.remote)
        (void)json_object_set_new(o, "parentSpanId", json_string(parent));
    return o;
}

char *otlp_json(const struct trace *traces, size_t n, const char *service, const char *host)
{
    json_t *resource = json_array(), *spans = json_array(), *all;
    char *text;

    add_text(resource, "service.name", service);
    add_text(resource, "service.version", CAY_VERSION);
    add_text(resource, "host.name", host);
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(spans, span(&traces[i]));
    all = json_pack("{s:[{s:{s:o}, s:[{s:{s:s, s:s}, s:o}]}]}", "resourceSpans", "resource",
                    "attributes", resource, "scopeSpans", "scope", "name", "cay", "version",
                    CAY_VERSION, "spans", spans);
    text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return text;
}
