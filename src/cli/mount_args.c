#include "cli/mount_args.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/args.h"
#include "cli/ui.h"

/* As docker has it: bytes, or 64k, 64m, 1g. Whole megabytes, rounded up. */
static int read_size(const char *text, json_int_t *ret, struct err *err)
{
    static const char units[] = "bkmgt";
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end | 0x20) : units;
    unsigned shift = unit ? (unsigned)(unit - units) * 10 : 0;

    if (*text < '0' || *text > '9' || !unit || (*end && end[1]) || n == 0 || n > (1ull << 40) ||
        (n << shift) >> shift != n)
        return err_set(err, ERR_INVALID, "\"%s\" is no size: write 512m or 1g", text);
    *ret = (json_int_t)(((n << shift) + (1 << 20) - 1) >> 20);
    return 0;
}

/* A path of this machine is made absolute here; the daemon has no other. */
static int put_source(json_t *o, const char *source, struct err *err)
{
    auto_free char *real = NULL;

    if (source[0] == '.') {
        real = realpath(source, NULL);
        if (!real)
            return err_set(err, ERR_INVALID, "there is no directory %s", source);
        source = real;
    }
    json_put_text(o, *source == '/' ? "path" : "name", source);
    if (*source != '/' && !str_starts(source, "vol_"))
        (void)json_object_set_new(o, "create", json_true());
    return 0;
}

static int put_option(json_t *o, const char *key, const char *value, struct err *err)
{
    json_int_t size = 0;

    if (strcmp(key, "ro") == 0 || strcmp(key, "readonly") == 0)
        return json_object_set_new(o, "readOnly",
                                   json_boolean(!value || strcmp(value, "false") != 0));
    if (strcmp(key, "noexec") == 0)
        return json_object_set_new(o, "noexec", json_true());
    /* What is so anyway, and what docker takes. */
    if (strcmp(key, "rw") == 0 || strcmp(key, "exec") == 0 || strcmp(key, "nosuid") == 0 ||
        strcmp(key, "nodev") == 0)
        return 0;
    if (value && (strcmp(key, "size") == 0 || strcmp(key, "tmpfs-size") == 0)) {
        if (read_size(value, &size, err) < 0)
            return -1;
        return json_object_set_new(o, "sizeMb", json_integer(size));
    }
    if (value && (strcmp(key, "subpath") == 0 || strcmp(key, "volume-subpath") == 0)) {
        json_put_text(o, "subPath", value);
        return 0;
    }
    return err_set(err, ERR_INVALID, "a mount has no option \"%s\"", key);
}

/* "ro,size=64m" */
static int put_options(json_t *o, const char *text, struct err *err)
{
    auto_free char *copy = xstrdup(text);
    char *rest = NULL;

    for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(word, '=');

        if (value)
            *value++ = '\0';
        if (put_option(o, word, value, err) < 0)
            return -1;
    }
    return 0;
}

/* SOURCE:PATH[:OPTIONS]; of a tmpfs PATH[:OPTIONS]. */
static int read_short(json_t *o, const char *text, bool has_source, struct err *err)
{
    auto_free char *copy = xstrdup(text);
    char *at = copy, *options, *path = has_source ? strchr(at, ':') : at;

    if (has_source) {
        if (!path || path == at)
            return err_set(err, ERR_INVALID,
                           "-v \"%s\" must be VOLUME:PATH or VOLUME:PATH:ro; PATH is in the "
                           "sandbox",
                           text);
        *path++ = '\0';
    }
    options = strchr(path, ':');
    if (options)
        *options++ = '\0';
    if (*path != '/')
        return err_set(err, ERR_INVALID, "\"%s\" mounts at \"%s\", which is no absolute path", text,
                       path);
    if (has_source && put_source(o, at, err) < 0)
        return -1;
    json_put_text(o, "mountPath", path);
    return options ? put_options(o, options, err) : 0;
}

/* One KEY=VALUE of --mount. */
static int put_word(json_t *o, const char *key, const char *value, const char **type,
                    struct err *err)
{
    static const char *const types[] = {"volume", "bind", "tmpfs"};

    if (value && strcmp(key, "type") == 0) {
        for (size_t i = 0; i < ARRAY_LEN(types); i++)
            if (strcmp(types[i], value) == 0)
                *type = types[i];
        return *type ? 0 : err_set(err, ERR_INVALID, "a mount has no type \"%s\"", value);
    }
    if (value && list_has("source src", key, strlen(key)))
        return put_source(o, value, err);
    if (value && list_has("target dst destination", key, strlen(key))) {
        json_put_text(o, "mountPath", value);
        return 0;
    }
    return put_option(o, key, value, err);
}

/* type=volume,src=NAME,dst=PATH,…; gives the list of the body that it belongs to. */
static int read_long(json_t *o, const char *text, const char **ret_list, struct err *err)
{
    auto_free char *copy = xstrdup(text);
    const char *type = NULL;
    char *rest = NULL;

    for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(word, '=');

        if (value)
            *value++ = '\0';
        if (put_word(o, word, value, &type, err) < 0)
            return -1;
    }
    if (!type)
        type = "volume";
    if (!json_object_get(o, "mountPath"))
        return err_set(err, ERR_INVALID, "--mount \"%s\" has no dst=PATH", text);
    if (strcmp(type, "tmpfs") != 0 &&
        !json_object_get(o, strcmp(type, "bind") == 0 ? "path" : "name"))
        return err_set(err, ERR_INVALID, "--mount \"%s\" has no src= that is %s", text,
                       strcmp(type, "bind") == 0 ? "an absolute path" : "a volume");
    *ret_list = strcmp(type, "tmpfs") == 0 ? "tmpfs" : "volumes";
    return 0;
}

enum form { FORM_VOLUME, FORM_TMPFS, FORM_MOUNT };

static int read_all(const struct args *args, const char *flag, enum form form, json_t *body,
                    struct err *err)
{
    char **texts = args_list(args, flag);

    for (; texts && *texts; texts++) {
        const char *list = form == FORM_TMPFS ? "tmpfs" : "volumes";
        json_t *o = json_object();

        if ((form == FORM_MOUNT ? read_long(o, *texts, &list, err)
                                : read_short(o, *texts, form == FORM_VOLUME, err)) < 0) {
            json_decref(o);
            return -1;
        }
        if (!json_object_get(body, list))
            (void)json_object_set_new(body, list, json_array());
        (void)json_array_append_new(json_object_get(body, list), o);
    }
    return 0;
}

int mount_args(const struct args *args, json_t *body, struct err *err)
{
    if (read_all(args, "volume", FORM_VOLUME, body, err) < 0 ||
        read_all(args, "tmpfs", FORM_TMPFS, body, err) < 0)
        return -1;
    return read_all(args, "mount", FORM_MOUNT, body, err);
}
