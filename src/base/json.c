#include "base/json.h"

#include <stdlib.h>

#include "base/mem.h"

json_t *json_of_strings(char *const *v)
{
    json_t *array = json_array();

    for (; v && *v; v++)
        (void)json_array_append_new(array, json_string(*v));
    return array;
}

json_t *json_sorted(json_t *array, int (*compare)(const void *a, const void *b))
{
    size_t n = json_array_size(array);
    auto_free json_t **all = xcalloc(n + 1, sizeof(*all));
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        all[i] = json_array_get(array, i);
    qsort(all, n, sizeof(json_t *), compare);
    for (size_t i = 0; i < n; i++)
        (void)json_array_append(list, all[i]);
    json_decref(array);
    return list;
}

const char *json_text(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));

    return s ? s : "";
}

double json_num(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

int64_t json_int(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    double real = json_number_value(v);

    if (json_is_integer(v))
        return json_integer_value(v);
    if (real >= 0x1p63)
        return INT64_MAX;
    return real < -0x1p63 ? INT64_MIN : (int64_t)real;
}

void json_put_text(json_t *object, const char *key, const char *value)
{
    if (value)
        (void)json_object_set_new(object, key, json_string(value));
}
