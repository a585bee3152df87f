#include "model/mount.h"

#include <stddef.h>
#include <string.h>

#include "base/err.h"

const char *const mount_type_words[] = {
    [MOUNT_VOLUME] = "volume", [MOUNT_TMPFS] = "tmpfs", [MOUNT_BIND] = "bind", NULL};

static const char *source_key(enum mount_type type)
{
    return type == MOUNT_VOLUME ? "volumeId" : "path";
}

json_t *mount_spec_json(const struct mount_spec *m)
{
    json_t *o = json_object();

    (void)json_object_set_new(o, "type", json_string(mount_type_words[m->type]));
    if (m->source)
        (void)json_object_set_new(o, source_key(m->type), json_string(m->source));
    (void)json_object_set_new(o, "mountPath", json_string(m->path));
    if (m->sub)
        (void)json_object_set_new(o, "subPath", json_string(m->sub));
    (void)json_object_set_new(o, "readOnly", json_boolean(m->read_only));
    (void)json_object_set_new(o, "noexec", json_boolean(m->noexec));
    if (m->size_mb)
        (void)json_object_set_new(o, "sizeMb", json_integer(m->size_mb));
    return o;
}

int mount_spec_load(const json_t *o, struct mount_spec *ret, struct err *err)
{
    const char *type = json_string_value(json_object_get(o, "type"));
    json_int_t size = json_integer_value(json_object_get(o, "sizeMb"));
    struct mount_spec m = {.path = json_string_value(json_object_get(o, "mountPath")),
                           .sub = json_string_value(json_object_get(o, "subPath")),
                           .read_only = json_is_true(json_object_get(o, "readOnly")),
                           .noexec = json_is_true(json_object_get(o, "noexec"))};
    int i = 0;

    while (type && mount_type_words[i] && strcmp(mount_type_words[i], type) != 0)
        i++;
    if (!type || !mount_type_words[i] || !m.path || size < 0 || size > UINT32_MAX)
        return err_set(err, ERR_INTERNAL, "the stored configuration has no usable mounts");
    m.type = (enum mount_type)i;
    m.size_mb = (uint32_t)size;
    if (m.type != MOUNT_TMPFS) {
        m.source = json_string_value(json_object_get(o, source_key(m.type)));
        if (!m.source)
            return err_set(err, ERR_INTERNAL, "a mount of the stored configuration has no source");
    }
    *ret = m;
    return 0;
}

bool path_is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    while (n > 0 && folder[n - 1] == '/')
        n--;
    return strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/');
}
