#include "cli/remote_path.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/ui.h"

static bool is_text(const char *s)
{
    return utf8_valid(s, strlen(s));
}

static json_t *encoded(const char *path)
{
    auto_buf struct buf text = {0};

    buf_init(&text, 2 * strlen(path) + 8);
    (void)base64_encode(&text, path, strlen(path));
    return json_stringn(text.data ? text.data : "", text.len);
}

static json_t *body(const char *key, json_t *value, bool as_text, bool anywhere)
{
    json_t *o = json_pack("{s:o, s:b}", key, value, "anywhere", anywhere);

    if (!as_text)
        (void)json_object_set_new(o, "pathEncoding", json_string("base64"));
    return o;
}

json_t *path_body(const char *path, bool anywhere)
{
    bool text = is_text(path);

    return body("path", text ? json_string(path) : encoded(path), text, anywhere);
}

json_t *paths_body(char *const *paths, size_t n, bool anywhere)
{
    json_t *list = json_array();
    bool text = true;

    for (size_t i = 0; i < n; i++)
        text = text && is_text(paths[i]);
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(list, text ? json_string(paths[i]) : encoded(paths[i]));
    return body("paths", list, text, anywhere);
}

char *path_query(const char *path)
{
    bool text = is_text(path);
    json_t *other = text ? NULL : encoded(path);
    auto_free char *value = url_encoded(text ? path : json_string_value(other));

    json_decref(other);
    return xasprintf("path=%s%s", value, text ? "" : "&pathEncoding=base64");
}

char *entry_name(const json_t *entry)
{
    const json_t *exact = json_object_get(entry, "pathBase64");
    auto_buf struct buf path = {0};
    const char *slash;

    if (!json_is_string(exact))
        return xstrdup(json_text(entry, "name"));
    buf_init(&path, json_string_length(exact) + 1);
    if (base64_decode(&path, json_string_value(exact), json_string_length(exact)) < 0 ||
        path.len == 0)
        return xstrdup(json_text(entry, "name"));
    slash = strrchr(path.data, '/');
    return xstrdup(slash ? slash + 1 : path.data);
}

/* The bytes as printf %b reads them; the dot keeps newlines at the end from being cut off. */
static void add_argument(struct buf *script, const char *arg)
{
    (void)buf_add_str(script, "a=$(printf %b. '");
    for (const unsigned char *p = (const unsigned char *)arg; *p; p++)
        (void)buf_addf(script, "\\0%03o", *p);
    (void)buf_add_str(script, "'); set -- \"$@\" \"${a%.}\"; ");
}

json_t *path_command(const char *const *argv)
{
    auto_buf struct buf script = {0};
    json_t *list = json_array();
    bool text = true;

    for (size_t i = 0; argv[i]; i++) {
        text = text && is_text(argv[i]);
        (void)json_array_append_new(list, json_string(argv[i]));
    }
    if (text)
        return list;
    json_decref(list);
    buf_init(&script, 256u << 10);
    for (size_t i = 0; argv[i]; i++)
        add_argument(&script, argv[i]);
    (void)buf_add_str(&script, "exec \"$@\"");
    return json_pack("[s, s, s]", "sh", "-c", script.data);
}
