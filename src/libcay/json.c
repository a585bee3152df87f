#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "libcay/libcay_internal.h"

/* JSON for callers who have no library for it, and what calls are put together from. */

#define DECODE (JSON_DECODE_ANY | JSON_ALLOW_NUL)

/* One reference of a pointer, with ~1 and ~0 as they are meant. */
static char *unescaped(const char *at, size_t len)
{
    char *s = xmalloc(len + 1);
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        if (at[i] == '~' && i + 1 < len && (at[i + 1] == '0' || at[i + 1] == '1'))
            s[n++] = at[++i] == '0' ? '~' : '/';
        else
            s[n++] = at[i];
    }
    s[n] = '\0';
    return s;
}

static json_t *element(const json_t *array, const char *word)
{
    char *end;
    unsigned long i = strtoul(word, &end, 10);

    return *word >= '0' && *word <= '9' && !*end ? json_array_get(array, i) : NULL;
}

/* The value at a pointer, borrowed from root. */
static json_t *find(json_t *root, const char *pointer)
{
    while (root && *pointer == '/') {
        size_t len = strcspn(++pointer, "/");
        auto_free char *word = unescaped(pointer, len);

        root = json_is_array(root) ? element(root, word) : json_object_get(root, word);
        pointer += len;
    }
    return *pointer ? NULL : root;
}

char *cay_json_get(const char *json, const char *pointer)
{
    json_t *root = json_loads(json, DECODE, NULL), *value = find(root, pointer);
    char *text = NULL;

    if (json_is_string(value))
        text = xstrdup(json_string_value(value));
    else if (value)
        text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(root);
    return text;
}

int64_t cay_json_int(const char *json, const char *pointer, int64_t fallback)
{
    json_t *root = json_loads(json, DECODE, NULL), *value = find(root, pointer);

    if (json_is_integer(value))
        fallback = json_integer_value(value);
    else if (json_is_real(value) && fabs(json_real_value(value)) < 0x1p63)
        fallback = (int64_t)json_real_value(value);
    json_decref(root);
    return fallback;
}

size_t cay_json_count(const char *json, const char *pointer)
{
    json_t *root = json_loads(json, DECODE, NULL), *value = find(root, pointer);
    size_t n = json_is_array(value) ? json_array_size(value) : json_object_size(value);

    json_decref(root);
    return n;
}

char *cay_json_quote(const char *text)
{
    json_t *value = json_string(text);
    char *quoted = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;

    json_decref(value);
    return quoted;
}

char *cay_url_encode(const char *text)
{
    return url_encoded(text);
}

json_t *pairs_json(const char *const *v)
{
    json_t *object = json_object();

    for (; v && *v; v++) {
        const char *equals = strchr(*v, '=');
        auto_free char *key = equals ? xstrndup(*v, (size_t)(equals - *v)) : NULL;

        if (!key || json_object_set_new(object, key, json_string(equals + 1)) < 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

int put_text(json_t *object, const char *key, const char *value)
{
    return value ? json_object_set_new(object, key, json_string(value)) : 0;
}

int put_pairs(json_t *object, const char *key, const char *const *pairs)
{
    json_t *all = pairs_json(pairs);

    if (!all)
        return -1;
    if (json_object_size(all) > 0)
        (void)json_object_set(object, key, all);
    json_decref(all);
    return 0;
}

int add_more(json_t *object, const char *more)
{
    json_t *members = more ? json_loads(more, 0, NULL) : NULL;
    int r = !more || (json_is_object(members) && json_object_update(object, members) == 0) ? 0 : -1;

    json_decref(members);
    return r;
}
