#include "oci/oci_internal.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define DEPTH_MAX  64
#define VALUES_MAX 200000

void make_printable(char *text)
{
    for (; *text; text++)
        if (*text < 0x20 || *text > 0x7e)
            *text = '?';
}

int document_bad(const struct document_kind *doc, struct err *err, const char *fmt, ...)
{
    char why[200];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    make_printable(why);
    return err_code(err, ERR_INVALID, doc->code, "the %s is not usable: %s", doc->what, why);
}

/* Before it is parsed: a few bytes can make a value that takes a hundred in memory, and each level
 * takes stack. The text need not be JSON; the parser says so afterwards. */
static bool costs_too_much(const char *bytes, size_t len)
{
    unsigned depth = 0, values = 0;
    bool quoted = false;

    for (size_t i = 0; i < len; i++) {
        char c = bytes[i];

        if (quoted && c == '\\') {
            i++;
        } else if (c == '"') {
            quoted = !quoted;
        } else if (!quoted && (c == '[' || c == '{')) {
            if (++depth > DEPTH_MAX)
                return true;
            values++;
        } else if (!quoted && (c == ']' || c == '}')) {
            depth -= depth > 0;
        } else if (!quoted && c == ',') {
            values++;
        }
        if (values > VALUES_MAX)
            return true;
    }
    return false;
}

int document_load(const struct document_kind *doc, const char *bytes, size_t len, size_t max,
                  json_t **ret, struct err *err)
{
    json_error_t why;
    json_t *root;

    if (len > max)
        return document_bad(doc, err, "it has %zu bytes and may have %zu", len, max);
    if (costs_too_much(bytes, len))
        return document_bad(doc, err, "it is nested deeper than %d levels, or has over %d values",
                            DEPTH_MAX, VALUES_MAX);
    root = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return document_bad(doc, err, "%s at line %d", why.text, why.line);
    if (!json_is_object(root)) {
        json_decref(root);
        return document_bad(doc, err, "it is not a JSON object");
    }
    *ret = root;
    return 0;
}

int document_string(const struct document_kind *doc, const json_t *object, const char *key,
                    const char **ret, struct err *err)
{
    const json_t *value = json_object_get(object, key);

    if (!value || json_is_null(value)) {
        *ret = "";
        return 0;
    }
    if (!json_is_string(value))
        return document_bad(doc, err, "%s is not a string", key);
    *ret = json_string_value(value);
    return 0;
}
