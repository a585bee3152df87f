#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine_internal.h"
#include "engine/env_internal.h"
#include "engine/image_policy.h"
#include "engine/images_internal.h"
#include "engine/network_internal.h"
#include "engine/patches_internal.h"
#include "engine/path_internal.h"
#include "engine/sandboxes.h"
#include "engine/spec_internal.h"
#include "image/image.h"
#include "model/limits.h"
#include "model/sandbox.h"
#include "runtime/runtime.h"

#define ENTRYPOINT_MAX 1024

static uint32_t clamp(double v, uint32_t min, uint32_t max)
{
    if (!(v > min))
        return min;
    return v < max ? (uint32_t)(v + 0.5) : max;
}

static uint32_t number(struct maybe_number n, double scale, uint32_t preset, uint32_t min,
                       uint32_t max)
{
    return n.given ? clamp(n.value * scale, min, max) : preset;
}

static int read_image(struct engine *e, const struct sandbox_request *req, struct sandbox_spec *ret,
                      struct err *err)
{
    const struct image_wish wish = {req->cpu_cores.given, req->memory_mb.given, req->granted};
    const char *image = req->image;
    bool is_short;

    if (!image || !*image)
        return err_set(err, ERR_INVALID,
                       "image is required: a name as python:3.12-slim, or host for this machine's "
                       "own programs");
    is_short = image_policy_is_short_name(e->policy, image);
    if (!is_short && (strlen(image) > IMAGE_NAME_MAX || strstr(image, "..") || strchr(image, '$')))
        return err_code(err, ERR_INVALID, "bad_image",
                        "image must be a name of at most %d bytes without .. and $",
                        IMAGE_NAME_MAX);
    if (!req->image_id && image_check_allowed(e, image, err) < 0)
        return -1;
    ret->image = xstrdup(image);
    return image_limit(e, image, &wish, &ret->limits, err);
}

static int read_texts(const struct engine *e, const struct sandbox_request *req,
                      struct sandbox_spec *ret, struct err *err)
{
    const char *name = req->name, *workdir = req->workdir;
    auto_selector struct sandbox_selector selector = {0};

    if (name && strlen(name) > SANDBOX_NAME_MAX)
        return err_set(err, ERR_INVALID, "name must be at most %d bytes", SANDBOX_NAME_MAX);
    if (req->unique && (!name || !*name))
        return err_set(err, ERR_INVALID, "unique needs a name");
    if (req->unique && sandbox_name_is_like_id(name))
        return err_set(err, ERR_INVALID,
                       "a unique name must not begin with \"%s\": that is taken for an id",
                       SANDBOX_ID_START);
    if (req->unique && sandbox_selector_parse(name, &selector))
        return err_set(err, ERR_INVALID,
                       "a unique name must not have the form NAME@KEY=VALUE: that selects a "
                       "sandbox by its metadata");
    ret->name = name && *name ? xstrdup(name) : NULL;
    if (workdir && *workdir &&
        path_resolve(e->config.workspace, workdir, true, &ret->workdir, err) < 0)
        return err_wrap(err, "workdir");
    return 0;
}

int spec_check_metadata(const json_t *metadata, struct err *err)
{
    const char *key;
    size_t size = 0;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)metadata, key, value)
    {
        if (!json_is_string(value))
            return err_set(err, ERR_INVALID, "metadata.%.80s must be a string", key);
        size += strlen(key) + json_string_length(value);
    }
    if (size > METADATA_BYTES_MAX)
        return err_set(err, ERR_TOO_LARGE, "metadata must be at most %u bytes in total",
                       METADATA_BYTES_MAX);
    return 0;
}

static int read_maps(const struct sandbox_request *req, struct sandbox_spec *ret, struct err *err)
{
    if (req->env && env_check(req->env, err) < 0)
        return -1;
    ret->env = req->env ? json_deep_copy(req->env) : json_object();
    ret->metadata = req->metadata ? json_deep_copy(req->metadata) : json_object();
    return spec_check_metadata(ret->metadata, err);
}

static int read_entrypoint(const struct sandbox_request *req, struct sandbox_spec *ret,
                           struct err *err)
{
    if (!req->entrypoint || !*req->entrypoint)
        return 0;
    if (strv_len(req->entrypoint) > ENTRYPOINT_MAX)
        return err_set(err, ERR_TOO_LARGE, "entrypoint must have at most %d items", ENTRYPOINT_MAX);
    if (req->run_entrypoint)
        return err_set(err, ERR_INVALID, "send entrypoint or runEntrypoint, not both");
    for (char *const *arg = req->entrypoint; *arg; arg++)
        ret->entrypoint = strv_add(ret->entrypoint, *arg);
    return 0;
}

static uint32_t read_life(const struct engine_config *c, struct maybe_number timeout_s)
{
    uint32_t most = c->ceilings.timeout_s;

    if (timeout_s.given && timeout_s.value == 0 && most == 0)
        return 0;
    return number(timeout_s, 1, c->default_timeout_s, TIMEOUT_S_MIN, most ? most : TIMEOUT_S_MAX);
}

void spec_change(const struct engine_config *c, const struct sandbox_change *change,
                 struct sandbox_spec *spec)
{
    const struct sandbox_ceilings *most = &c->ceilings;
    struct sandbox_limits *limits = &spec->limits;

    if (change->timeout_s.given)
        spec->timeout_s = read_life(c, change->timeout_s);
    if (change->idle_s.given)
        spec->idle_s = change->idle_s.value > 0 ? clamp(change->idle_s.value, 1, IDLE_S_MAX) : 0;
    limits->memory_mb =
        number(change->memory_mb, 1, limits->memory_mb, MEMORY_MB_MIN, most->memory_mb);
    limits->cpu_millis =
        number(change->cpu_cores, 1000, limits->cpu_millis, CPU_MILLIS_MIN, most->cpu_millis);
    limits->pids = number(change->pids, 1, limits->pids, PIDS_MIN, most->pids);
}

static void read_numbers(const struct engine_config *c, const struct sandbox_request *req,
                         struct sandbox_spec *ret)
{
    struct sandbox_change change = {.memory_mb = req->memory_mb,
                                    .cpu_cores = req->cpu_cores,
                                    .pids = req->pids,
                                    .idle_s = req->idle_s};
    struct sandbox_limits *limits = &ret->limits;

    *limits = c->default_limits;
    ret->timeout_s = read_life(c, req->timeout_s);
    ret->idle_removes = req->idle_removes;
    ret->expiry_stops = req->maker.expiry_stops;
    spec_change(c, &change, ret);
    limits->disk_mb = number(req->disk_mb, 1, limits->disk_mb, DISK_MB_MIN, DISK_MB_MAX);
}

static int read_network(struct engine *e, const json_t *network, json_t **ret, struct err *err)
{
    if (network_read(network, ret, err) < 0)
        return -1;
    return *ret ? engine_check_network(e, err) : 0;
}

static void read_template(const struct sandbox_request *req, struct sandbox_spec *ret)
{
    if (!req->template)
        return;
    ret->template = xstrdup(req->template);
    ret->template_build = req->template_build ? xstrdup(req->template_build) : NULL;
}

static int read_spec(struct engine *e, const struct sandbox_request *req, struct sandbox_spec *ret,
                     struct err *err)
{
    read_numbers(&e->config, req, ret);
    if (read_image(e, req, ret, err) < 0 || read_texts(e, req, ret, err) < 0 ||
        read_maps(req, ret, err) < 0 || read_entrypoint(req, ret, err) < 0 ||
        patches_check(e, req->patches, err) < 0)
        return -1;
    read_template(req, ret);
    return read_network(e, req->network, &ret->network, err);
}

int spec_read(struct engine *e, const struct sandbox_request *req, struct sandbox_spec *ret,
              struct err *err)
{
    struct sandbox_spec spec = {0};

    if (read_spec(e, req, &spec, err) < 0) {
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

int spec_take_image(const struct engine *e, const struct sandbox_request *req,
                    const struct image *image, struct sandbox_spec *spec, struct err *err)
{
    if (take_workdir(e, image, spec, err) < 0)
        return -1;
    return req->run_entrypoint ? take_entrypoint(image, spec, err) : 0;
}
