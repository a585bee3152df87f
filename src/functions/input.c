#include "functions/input.h"

#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "functions/function.h"
#include "model/shape.h"

#define PATH_PARAM_MAX 1024

/* The parser recurses and allocates as it goes, so depth and size are judged before it starts. The
 * scan need not understand the text: brackets and commas outside of strings bound both. */
static int check_shape(const char *text, size_t len, struct err *err)
{
    unsigned depth = 0, values = 0;
    bool in_string = false;

    for (size_t i = 0; i < len; i++) {
        switch (text[i]) {
        case '"':
            in_string = !in_string;
            break;
        case '\\':
            i += in_string;
            break;
        case '{':
        case '[':
            if (!in_string && ++depth > INPUT_DEPTH_MAX)
                return err_code(err, ERR_INVALID, "json_too_deep",
                                "the JSON is nested too deeply; %d levels are allowed",
                                INPUT_DEPTH_MAX);
            break;
        case '}':
        case ']':
            depth -= !in_string && depth > 0;
            break;
        case ',':
            if (!in_string && ++values > INPUT_VALUES_MAX)
                return err_code(err, ERR_INVALID, "json_too_long",
                                "the JSON has too many values; %d are allowed", INPUT_VALUES_MAX);
            break;
        default:
            break;
        }
    }
    return 0;
}

/* Each value but the first follows a comma, a colon or the start of an array. */
size_t input_weight(const char *text, size_t len)
{
    size_t values = 1;

    for (size_t i = 0; i < len; i++)
        values += text[i] == ',' || text[i] == ':' || text[i] == '[';
    return values * INPUT_VALUE_SIZE;
}

static const char *in_words(const json_error_t *why)
{
    if (json_error_code(why) == json_error_null_character)
        return "a string has \\u0000, and no text may; bytes of a file go with files/upload";
    return why->text;
}

json_t *input_parse(const char *text, size_t len, struct err *err)
{
    json_error_t why;
    json_t *value;

    if (check_shape(text, len, err) < 0)
        return NULL;
    value = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (!value)
        (void)err_code(err, ERR_INVALID, "bad_json",
                       "the JSON is not valid: %s (line %d, column %d)", in_words(&why), why.line,
                       why.column);
    return value;
}

int input_check(json_t *in, const struct field *fields, json_t *params, struct err *err)
{
    if (fields_take(fields, in, err) < 0)
        return -1;
    (void)json_object_update(in, params);
    return 0;
}

/* ---- all of it in one object ---- */

static void add_encoded(struct buf *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (strchr("-._~", c) || (c < 0x80 && isalnum(c)))
            (void)buf_add(out, text, 1);
        else
            (void)buf_addf(out, "%%%02X", c);
    }
}

static int take_param(const json_t *in, const char *name, size_t len, json_t *params,
                      struct buf *path, struct err *err)
{
    auto_free char *key = xstrndup(name, len);
    const char *value = json_string_value(json_object_get(in, key));

    if (!value || !*value || strlen(value) > PATH_PARAM_MAX)
        return err_set(err, ERR_INVALID, "%s is required: a string of 1 to %d bytes", key,
                       PATH_PARAM_MAX);
    (void)json_object_set_new(params, key, json_string(value));
    add_encoded(path, value);
    return 0;
}

static int take_params(const struct function *f, const char *prefix, const json_t *in,
                       json_t *params, char **ret_path, struct err *err)
{
    const char *at = f->route;
    auto_buf struct buf path = {0};
    int r = 0;

    buf_init(&path, 64u << 10);
    (void)buf_addf(&path, "/%s", prefix);
    while (*at && r == 0) {
        size_t len = strcspn(at + 1, "/");

        (void)buf_add(&path, "/", 1);
        if (at[1] == ':')
            r = take_param(in, at + 2, len - 1, params, &path, err);
        else
            (void)buf_add(&path, at + 1, len);
        at += 1 + len;
    }
    *ret_path = buf_steal(&path);
    return r;
}

int input_take(const struct function *f, const char *prefix, json_t *in, char **ret_path,
               struct err *err)
{
    json_t *params = json_object();
    int r = take_params(f, prefix, in, params, ret_path, err);

    if (r == 0)
        r = input_check(in, f->fields, params, err);
    json_decref(params);
    return r;
}
