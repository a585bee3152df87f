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

json_t *paths_body(char *const *paths, size_t n, bool anywhere)
{
    json_t *list = json_array(), *o;
    bool text = true;

    for (size_t i = 0; i < n; i++)
        text = text && is_text(paths[i]);
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(list, text ? json_string(paths[i]) : path_encoded(paths[i]));
    o = json_pack("{s:o, s:b}", "paths", list, "anywhere", anywhere);
    if (!text)
        (void)json_object_set_new(o, "pathEncoding", json_string("base64"));
    return o;
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
