#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine_internal.h"
#include "engine/images.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"
#include "engine/snapshots.h"
#include "engine/snapshots_internal.h"
#include "image/image.h"
#include "model/sandbox.h"

/* Sandboxes from the disk of another: a create from an image by its id, with the configuration of
 * that other one. Their images have no document; they stay as long as a sandbox is made from them.
 */

static struct maybe_number given(double value)
{
    return (struct maybe_number){.given = true, .value = value};
}

static int create_like(struct engine *e, const struct sandbox_spec *spec, const char *image_id,
                       const char *name, json_t **ret, struct err *err)
{
    struct sandbox_request req = {
        .image = spec->image,
        .image_id = image_id,
        .name = name,
        .timeout_s = given(spec->timeout_s),
        .memory_mb = given(spec->limits.memory_mb),
        .cpu_cores = given(spec->limits.cpu_millis / 1000.0),
        .pids = given(spec->limits.pids),
        .disk_mb = given(spec->limits.disk_mb),
        .network = spec->network,
        .env = spec->env,
        .metadata = spec->metadata,
        .workdir = spec->workdir,
        .entrypoint = spec->entrypoint,
    };

    return engine_create(e, &req, NULL, ret, err);
}

int engine_snapshot_clone(struct engine *e, const char *id, const char *name, json_t **ret,
                          struct err *err)
{
    struct sandbox_spec spec;
    json_t *o;
    int r;

    if (snapshot_find(e, id, &o, err) < 0)
        return -1;
    r = sandbox_spec_load(json_object_get(o, "config"), &spec, err);
    if (r == 0) {
        r = create_like(e, &spec, json_string_value(json_object_get(o, "imageId")), name, ret, err);
        sandbox_spec_done(&spec);
    }
    json_decref(o);
    return r;
}

static int copy_spec(struct sandbox *sb, struct sandbox_spec *ret, struct err *err)
{
    json_t *config;
    int r;

    pthread_mutex_lock(&sb->lock);
    config = sandbox_spec_json(&sb->spec);
    pthread_mutex_unlock(&sb->lock);
    r = sandbox_spec_load(config, ret, err);
    json_decref(config);
    return r;
}

static void remove_made(struct engine *e, json_t *made)
{
    struct err err = {0};
    json_t *one;
    size_t i;

    json_array_foreach(made, i, one)
    {
        const char *id = json_string_value(json_object_get(one, "id"));

        if (engine_remove(e, id, &err) < 0)
            log_warn("a clone that is not wanted could not be removed", "id", id, "error",
                     err.text);
    }
    json_decref(made);
}

static int create_all(struct engine *e, const struct sandbox_spec *spec, const char *image_id,
                      unsigned n, const char *name, json_t **ret, struct err *err)
{
    json_t *made = json_array(), *one;

    for (unsigned i = 1; i <= n; i++) {
        auto_free char *numbered = name && n > 1 ? xasprintf("%s-%u", name, i) : NULL;

        if (create_like(e, spec, image_id, numbered ? numbered : name, &one, err) < 0) {
            remove_made(e, made);
            return -1;
        }
        (void)json_array_append_new(made, one);
    }
    *ret = made;
    return 0;
}

int engine_fork(struct engine *e, const char *sandbox_id, unsigned n, const char *name,
                json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_free char *image_id = NULL;
    struct sandbox_spec spec;
    int64_t bytes;
    int r;

    if (sandbox_get(e, sandbox_id, &sb, err) < 0 || copy_spec(sb, &spec, err) < 0)
        return -1;
    r = snapshot_take(e, sb, &image_id, &bytes, err);
    if (r == 0) {
        r = create_all(e, &spec, image_id, n, name, ret, err);
        engine_image_let_go(e, image_id);
    }
    sandbox_spec_done(&spec);
    return r;
}
