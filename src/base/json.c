#include "base/json.h"

json_t *json_of_strings(char *const *v)
{
    json_t *array = json_array();

    for (; v && *v; v++)
        (void)json_array_append_new(array, json_string(*v));
    return array;
}
