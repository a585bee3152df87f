#include "rest/query.h"

#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/input.h"
#include "model/shape.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

char *query_decode(const char *s, size_t len, bool plus)
{
    auto_free char *out = xmalloc(len + 1);
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        char c = s[i];

        if (c == '%') {
            int high, low;

            if (len - i < 3)
                return NULL;
            high = hex_digit(s[i + 1]);
            low = hex_digit(s[i + 2]);
            if (high < 0 || low < 0)
                return NULL;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if (c == '\0')
            return NULL;
        out[n++] = c;
    }
    out[n] = '\0';
    return utf8_valid(out, n) ? steal_ptr(out) : NULL;
}

/* NULL = neither. "True" is what Python's str() makes of it. */
static json_t *query_bool(const char *text)
{
    if (strcmp(text, "1") == 0 || strcasecmp(text, "true") == 0)
        return json_true();
    if (strcmp(text, "0") == 0 || strcasecmp(text, "false") == 0)
        return json_false();
    return NULL;
}

/* A text that does not read as its type stays a string, which input_check() then refuses by name.
 */
static json_t *query_value(const struct field *f, const char *text)
{
    json_t *value = NULL;

    if (f->type == FIELD_STRING || f->type == FIELD_COMMAND)
        return json_string(text);
    if (f->type == FIELD_BOOL)
        value = query_bool(text);
    if (!value)
        value = input_parse(text, strlen(text), NULL);
    return value ? value : json_string(text);
}

static int add_pair(json_t *in, const char *pair, size_t len, const struct field *fields,
                    struct err *err)
{
    const char *equals = memchr(pair, '=', len);
    size_t name_len = equals ? (size_t)(equals - pair) : len;
    auto_free char *name = query_decode(pair, name_len, true);
    auto_free char *text = NULL;
    const struct field *f;

    if (equals)
        text = query_decode(equals + 1, len - name_len - 1, true);
    else
        text = xstrdup("");
    if (!name || !text)
        return err_code(err, ERR_INVALID, "bad_query",
                        "the query is not percent-encoded UTF-8 without NUL");
    f = field_find(fields, name);
    if (!f)
        return 0;
    if (json_object_get(in, name))
        return err_code(err, ERR_INVALID, "bad_query", "%s is given twice in the query", name);
    (void)json_object_set_new(in, name, query_value(f, text));
    return 0;
}

int query_add(json_t *in, const char *query, const struct field *fields, struct err *err)
{
    while (*query) {
        size_t len = strcspn(query, "&");

        if (len > 0 && add_pair(in, query, len, fields, err) < 0)
            return -1;
        query += len;
        query += *query == '&';
    }
    return 0;
}

int body_add(json_t *in, const char *text, size_t len, struct err *err)
{
    json_t *body;

    if (strspn(text, " \t\r\n") >= len)
        return 0;
    body = input_parse(text, len, err);
    if (!body)
        return -1;
    if (!json_is_object(body)) {
        json_decref(body);
        return err_code(err, ERR_INVALID, "bad_json", "the body must be a JSON object");
    }
    (void)json_object_update(in, body);
    json_decref(body);
    return 0;
}
