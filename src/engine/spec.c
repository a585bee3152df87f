#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine_internal.h"
#include "engine/policy.h"
#include "model/limits.h"
#include "oci/reference.h"

#define METADATA_MAX_BYTES (64u << 10)
#define ENTRYPOINT_MAX     1024

_Static_assert(IMAGE_NAME_MAX == REFERENCE_MAX, "one length of image names");

static uint32_t clamp(double v, uint32_t min, uint32_t max)
{
    if (!(v > min))
        return min;
    return v < max ? (uint32_t)(v + 0.5) : max;
}

static uint32_t number(const json_t *in, const char *key, double scale, uint32_t preset,
                       uint32_t min, uint32_t max)
{
    const json_t *v = json_object_get(in, key);

    return json_is_number(v) ? clamp(json_number_value(v) * scale, min, max) : preset;
}

static const char *text(const json_t *in, const char *key)
{
    return json_string_value(json_object_get(in, key));
}

static int read_image(struct engine *e, const json_t *in, struct sandbox_spec *ret, struct err *err)
{
    const char *image = text(in, "image");
    auto_free char *name = NULL;

    if (!image || !*image)
        return err_set(err, ERR_INVALID, "image is required");
    if (strlen(image) > IMAGE_NAME_MAX || strstr(image, "..") || strchr(image, '$'))
        return err_set(err, ERR_INVALID,
                       "image must be a name of at most %d bytes without .. and $", IMAGE_NAME_MAX);
    /* An id is no way around the list: what counts is the image's name. */
    name = image_of_id(e, image);
    if (policy_check(e->policy, name && *name ? name : image, err) < 0)
        return -1;
    ret->image = xstrdup(image);
    return policy_limit(e->policy, name && *name ? name : image, json_object_get(in, "cpu"),
                        json_object_get(in, "memory"), &ret->limits, err);
}

static int read_texts(const struct engine *e, const json_t *in, struct sandbox_spec *ret,
                      struct err *err)
{
    const char *name = text(in, "name"), *workdir = text(in, "workdir");

    if (name && strlen(name) > SANDBOX_NAME_MAX)
        return err_set(err, ERR_INVALID, "name must be at most %d bytes", SANDBOX_NAME_MAX);
    ret->name = name && *name ? xstrdup(name) : NULL;
    if (workdir && *workdir &&
        path_resolve(e->config.workspace, workdir, true, &ret->workdir, err) < 0)
        return err_wrap(err, "workdir");
    return 0;
}

static int read_maps(const json_t *in, struct sandbox_spec *ret, struct err *err)
{
    const json_t *env = json_object_get(in, "env"), *metadata = json_object_get(in, "metadata");
    const char *key;
    size_t size = 0;
    json_t *value;

    if (json_is_object(env)) {
        if (env_check(env, err) < 0)
            return -1;
        ret->env = json_deep_copy(env);
    } else {
        ret->env = json_object();
    }
    ret->metadata = json_is_object(metadata) ? json_deep_copy(metadata) : json_object();
    json_object_foreach(ret->metadata, key, value)
    {
        if (!json_is_string(value))
            return err_set(err, ERR_INVALID, "metadata.%.80s must be a string", key);
        size += strlen(key) + json_string_length(value);
    }
    if (size > METADATA_MAX_BYTES)
        return err_set(err, ERR_TOO_LARGE, "metadata must be at most %u bytes in total",
                       METADATA_MAX_BYTES);
    return 0;
}

static int read_entrypoint(const json_t *in, struct sandbox_spec *ret, struct err *err)
{
    const json_t *list = json_object_get(in, "entrypoint");
    size_t i;
    json_t *item;

    if (json_array_size(list) > ENTRYPOINT_MAX)
        return err_set(err, ERR_TOO_LARGE, "entrypoint must have at most %d items", ENTRYPOINT_MAX);
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item))
            return err_set(err, ERR_INVALID, "entrypoint must be an array of strings");
        ret->entrypoint = strv_add(ret->entrypoint, json_string_value(item));
    }
    if (ret->entrypoint && json_is_true(json_object_get(in, "runEntrypoint")))
        return err_set(err, ERR_INVALID, "send entrypoint or runEntrypoint, not both");
    return 0;
}

static void read_numbers(const struct engine_config *c, const json_t *in, struct sandbox_spec *ret)
{
    ret->timeout_s =
        number(in, "timeout", 1, clamp(c->default_timeout_s, TIMEOUT_S_MIN, TIMEOUT_S_MAX),
               TIMEOUT_S_MIN, TIMEOUT_S_MAX);
    ret->limits = c->default_limits;
    ret->limits.memory_mb =
        number(in, "memory", 1, ret->limits.memory_mb, MEMORY_MB_MIN, MEMORY_MB_MAX);
    ret->limits.cpu_millis =
        number(in, "cpu", 1000, ret->limits.cpu_millis, CPU_MILLIS_MIN, CPU_MILLIS_MAX);
    ret->limits.disk_mb = number(in, "disk", 1, ret->limits.disk_mb, DISK_MB_MIN, DISK_MB_MAX);
}

static int read_spec(struct engine *e, const json_t *in, struct sandbox_spec *ret, struct err *err)
{
    read_numbers(&e->config, in, ret);
    if (read_image(e, in, ret, err) < 0 || read_texts(e, in, ret, err) < 0 ||
        read_maps(in, ret, err) < 0 || read_entrypoint(in, ret, err) < 0)
        return -1;
    if (json_is_true(json_object_get(in, "network")))
        return err_code(
            err, ERR_UNSUPPORTED, "network_unsupported",
            "network access is not available with the %s runtime yet; create the sandbox "
            "without network",
            e->runtime->ops->name);
    return 0;
}

int spec_read(struct engine *e, const json_t *in, struct sandbox_spec *ret, struct err *err)
{
    struct sandbox_spec spec = {0};

    if (read_spec(e, in, &spec, err) < 0) {
        sandbox_spec_done(&spec);
        return -1;
    }
    *ret = spec;
    return 0;
}

/* ---- what comes from the image ---- */

/* An explicit one wins, then the image's, then the workspace; so too when the image's is no path.
 */
static int take_workdir(const struct engine *e, const struct image *image,
                        struct sandbox_spec *spec, struct err *err)
{
    auto_free char *absolute = xasprintf("%s%s", *image->workdir == '/' ? "" : "/", image->workdir);

    if (spec->workdir || (*image->workdir && path_resolve(e->config.workspace, absolute, true,
                                                          &spec->workdir, NULL) == 0))
        return 0;
    return path_resolve(e->config.workspace, e->config.workspace, true, &spec->workdir, err);
}

static int take_entrypoint(const struct image *image, struct sandbox_spec *spec, struct err *err)
{
    for (char **arg = image->entrypoint; arg && *arg; arg++)
        spec->entrypoint = strv_add(spec->entrypoint, *arg);
    for (char **arg = image->cmd; arg && *arg; arg++)
        spec->entrypoint = strv_add(spec->entrypoint, *arg);
    if (spec->entrypoint)
        return 0;
    return err_code(err, ERR_INVALID, "no_default_command",
                    "%s has no command of its own: say what to run with entrypoint", image->name);
}

int spec_take_image(const struct engine *e, const json_t *in, const struct image *image,
                    struct sandbox_spec *spec, struct err *err)
{
    if (take_workdir(e, image, spec, err) < 0)
        return -1;
    return json_is_true(json_object_get(in, "runEntrypoint")) ? take_entrypoint(image, spec, err)
                                                              : 0;
}
