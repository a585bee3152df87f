/* The input of a function: the first line is the query, the rest the body. What passes the check
 * must be what the fields promise, and must survive being written and read again. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/function.h"
#include "functions/input.h"
#include "rest/query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct field fields[] = {
    {"text", FIELD_STRING, .optional = true, .min = 1, .max = 8},
    {"count", FIELD_INT, .optional = true, .min = 1, .max = 100},
    {"size", FIELD_INT, .optional = true, .clamp = true, .min = 64, .max = 4096},
    {"cpu", FIELD_NUMBER, .optional = true, .clamp = true, .min = 0.5, .max = 4},
    {"flag", FIELD_BOOL, .optional = true},
    {"names", FIELD_STRINGS, .optional = true, .max = 8},
    {"env", FIELD_STRING_MAP, .optional = true},
    {"data", FIELD_OBJECT, .optional = true},
    {"items", FIELD_ARRAY, .optional = true},
    {"command", FIELD_COMMAND, .optional = true, .min = 1},
    {"page", FIELD_INT, .min = 1, .max = 10, .preset = "3"},
    {0},
};

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void check_promises(json_t *in)
{
    json_t *text = json_object_get(in, "text"), *count = json_object_get(in, "count");
    json_t *size = json_object_get(in, "size"), *cpu = json_object_get(in, "cpu");
    auto_free char *dump = json_dumps(in, JSON_COMPACT);
    json_t *again;

    require(json_is_integer(json_object_get(in, "page")));
    if (text) {
        require(json_string_length(text) >= 1 && json_string_length(text) <= 8);
        require(strlen(json_string_value(text)) == json_string_length(text));
        require(utf8_valid(json_string_value(text), json_string_length(text)));
    }
    if (count)
        require(json_integer_value(count) >= 1 && json_integer_value(count) <= 100);
    if (size)
        require(json_integer_value(size) >= 64 && json_integer_value(size) <= 4096);
    if (cpu)
        require(json_number_value(cpu) >= 0.5 && json_number_value(cpu) <= 4);
    require(dump != NULL);
    again = json_loads(dump, 0, NULL);
    require(again != NULL);
    json_decref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *newline = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t query_len = newline ? (size_t)(newline - data) : size;
    auto_free char *query = xstrndup((const char *)data, query_len);
    auto_free char *body = NULL;
    size_t body_len = newline ? size - query_len - 1 : 0;
    json_t *in = json_object(), *params = json_object();
    struct err err = {0};

    body = xmalloc(body_len + 1);
    if (body_len > 0)
        memcpy(body, newline + 1, body_len);
    body[body_len] = '\0';
    if (query_add(in, query, fields, &err) == 0 && body_add(in, body, body_len, &err) == 0 &&
        input_check(in, fields, params, &err) == 0)
        check_promises(in);
    else
        require(err.kind == ERR_INVALID && err.text[0]);
    json_decref(in);
    json_decref(params);
    return 0;
}
