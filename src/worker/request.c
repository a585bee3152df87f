#include <string.h>

#include "base/mem.h"
#include "worker/worker.h"

const char *request_string(const struct worker_request *q, const char *key)
{
    return json_string_value(json_object_get(q->json, key));
}

char **strings_of_json(const json_t *a)
{
    char **v = xcalloc(1, sizeof(*v));

    for (size_t i = 0; i < json_array_size(a); i++) {
        const char *s = json_string_value(json_array_get(a, i));

        if (s)
            v = strv_add(v, s);
    }
    return v;
}
