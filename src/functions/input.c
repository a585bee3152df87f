#include "functions/input.h"

#include "base/err.h"
#include "model/shape.h"

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
