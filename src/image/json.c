#include "image/image_internal.h"

#include "base/mem.h"

#define STRINGS_MAX 100000

char **strings_load(const json_t *a)
{
    auto_strv char **v = NULL;
    size_t n = json_array_size(a);

    if (!json_is_array(a) || n > STRINGS_MAX)
        return NULL;
    v = xcalloc(n + 1, sizeof(*v));
    for (size_t i = 0; i < n; i++) {
        const char *s = json_string_value(json_array_get(a, i));

        if (!s)
            return NULL;
        v[i] = xstrdup(s);
    }
    return steal_ptr(v);
}
