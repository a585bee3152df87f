#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/server.h"
#include "iii/trigger_internal.h"

/* What a function answers, as an answer of HTTP. Who connects a worker is not who runs the daemon:
 * headers of a function are no more than lines of their own, and none of those that the server
 * goes by. */

#define ANSWER_MAX  (8u << 20)
#define HEADERS_MAX 8192 /* bytes of the headers that a function gives */

void trigger_answer_done(struct trigger_answer *a)
{
    buf_done(&a->headers);
    free(a->body);
    *a = (struct trigger_answer){0};
}

static void answer_init(struct trigger_answer *a, int status)
{
    *a = (struct trigger_answer){.status = status};
    buf_init(&a->headers, HEADERS_MAX);
}

static bool is_token(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)s[i]) && (!s[i] || !strchr("!#$%&'*+-.^_`|~", s[i])))
            return false;
    return len > 0;
}

static bool is_value(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < ' ' && *s != '\t')
            return false;
    return true;
}

/* Of these the server has its own, or they are about the connection. Which web pages may call is
 * the daemon's to say. */
static bool is_ours(const char *name, size_t len)
{
    static const char *const own[] = {
        "content-length",  "transfer-encoding", "connection", "keep-alive",
        "upgrade",         "trailer",           "te",         "date",
        "proxy-connection"};

    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (strlen(own[i]) == len && strncasecmp(own[i], name, len) == 0)
            return true;
    return strncasecmp(name, "access-control-", 15) == 0;
}

static void add_header(struct trigger_answer *a, const char *name, size_t len, const char *value)
{
    size_t before = a->headers.len;

    value += strspn(value, " \t");
    if (!is_token(name, len) || !is_value(value) || is_ours(name, len))
        return;
    if (buf_addf(&a->headers, "%.*s: %s", (int)len, name, value) < 0 ||
        buf_add(&a->headers, "", 1) < 0) {
        a->headers.len = before; /* there are too many: the rest is left out */
        return;
    }
    a->typed |= len == 12 && strncasecmp(name, "content-type", 12) == 0;
}

static void add_line(struct trigger_answer *a, const json_t *line)
{
    const char *text = json_string_value(line), *colon = text ? strchr(text, ':') : NULL;
    size_t len;

    if (!colon)
        return;
    text += strspn(text, " \t");
    len = (size_t)(colon - text);
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        len--;
    add_header(a, text, len, colon + 1);
}

/* A list of lines, or an object; a value of that may be a list, for headers that come often. */
static void add_headers(struct trigger_answer *a, json_t *headers)
{
    const char *name;
    json_t *value, *one;
    size_t i;

    if (json_is_array(headers))
        json_array_foreach(headers, i, value) add_line(a, value);
    json_object_foreach(headers, name, value)
    {
        if (json_is_string(value))
            add_header(a, name, strlen(name), json_string_value(value));
        json_array_foreach(value, i, one) if (json_is_string(one))
            add_header(a, name, strlen(name), json_string_value(one));
    }
}

void trigger_answer_head(struct trigger_answer *a, int status, json_t *headers)
{
    answer_init(a, status);
    add_headers(a, headers);
}

void trigger_answer_put_headers(const struct trigger_answer *a, struct http_req *req)
{
    for (size_t at = 0; at < a->headers.len; at += strlen(a->headers.data + at) + 1) {
        const char *line = a->headers.data + at, *colon = strchr(line, ':');
        auto_free char *name = xstrndup(line, (size_t)(colon - line));

        http_reply_header(req, name, colon + 2);
    }
}

static void put_body(struct trigger_answer *a, const json_t *body)
{
    if (a->typed && json_is_null(body)) {
        a->body = xstrdup("");
    } else if (a->typed && json_is_string(body)) {
        a->len = json_string_length(body);
        a->body = xmalloc(a->len + 1);
        memcpy(a->body, json_string_value(body), a->len + 1);
    } else {
        a->body = json_dumps(body, JSON_COMPACT | JSON_ENCODE_ANY);
        a->len = a->body ? strlen(a->body) : 0;
        if (!a->typed)
            add_header(a, "Content-Type", 12, "application/json");
    }
}

void trigger_answer_error(struct trigger_answer *a, int status, const char *code,
                          const char *message, bool skipped)
{
    json_t *o = json_pack("{s:{s:s, s:s}}", "error", "code", code, "message", message);
    char id[UUID_SIZE];

    answer_init(a, status);
    if (skipped)
        (void)json_object_set_new(o, "skipped", json_true());
    if (status == 500) {
        iii_uuid_new(id);
        (void)json_object_set_new(json_object_get(o, "error"), "error_id", json_string(id));
        log_warn("a function for a request failed", "error_id", id, "code", code, "error", message);
    }
    put_body(a, o);
    json_decref(o);
}

void trigger_answer_err(struct trigger_answer *a, const struct err *err)
{
    char seconds[16];

    trigger_answer_error(a, err_kind_status(err->kind),
                         err->code ? err->code : err_kind_code(err->kind), err->text, false);
    if (err->retry_s == 0)
        return;
    (void)snprintf(seconds, sizeof(seconds), "%u", err->retry_s);
    add_header(a, "Retry-After", 11, seconds);
}

/* {status_code, headers, body} of a function; what is missing or makes no sense is as if it was
 * fine and empty. */
void trigger_answer_result(struct trigger_answer *a, json_t *result)
{
    json_t *status = json_object_get(result, "status_code"),
           *body = json_object_get(result, "body");
    json_t *none = NULL;

    if (!status)
        status = json_object_get(result, "status"); /* as SDKs before 0.9 have it */
    answer_init(a, 200);
    if (json_is_integer(status) && json_integer_value(status) >= 200 &&
        json_integer_value(status) <= 599)
        a->status = (int)json_integer_value(status);
    add_headers(a, json_object_get(result, "headers"));
    if (!body)
        body = none = json_object();
    put_body(a, body);
    json_decref(none);
    if (!a->body || a->len > ANSWER_MAX) {
        trigger_answer_done(a);
        trigger_answer_error(a, 500, "INTERNAL_ERROR", "what the function answers is too long",
                             false);
    }
}
