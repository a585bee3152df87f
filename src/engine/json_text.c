#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "engine/json_text_internal.h"

json_t *json_of_bytes(const char *s, size_t len)
{
    json_t *text = json_stringn(s ? s : "", len);
    auto_buf struct buf clean = {0};

    if (text)
        return text;
    buf_init(&clean, 3 * len + 3); /* U+FFFD is three bytes */
    (void)utf8_clean(&clean, s, len);
    return json_stringn(clean.data ? clean.data : "", clean.len);
}

json_t *json_cstr(const char *s)
{
    return json_of_bytes(s, strlen(s));
}

json_t *json_of_texts(char *const *list)
{
    json_t *array = json_array();

    for (; list && *list; list++)
        (void)json_array_append_new(array, json_cstr(*list));
    return array;
}

void json_add_warning(json_t *answer, const char *text)
{
    json_t *warnings = json_object_get(answer, "warnings");

    if (!text)
        return;
    if (!warnings) {
        warnings = json_array();
        (void)json_object_set_new(answer, "warnings", warnings);
    }
    (void)json_array_append_new(warnings, json_cstr(text));
}
