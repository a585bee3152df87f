#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/image_policy.h"
#include "engine/images.h"
#include "engine/images_internal.h"
#include "engine/images_used_internal.h"
#include "engine/long_work_internal.h"
#include "engine/snapshots.h"
#include "engine/snapshots_internal.h"
#include "engine/space_internal.h"
#include "image/image.h"
#include "model/sandbox.h"

/* A snapshot from the archive of a layer, on top of an image that is here. It is of no sandbox of
 * this machine: what clones of it get is what sandboxes get by default. */

struct importing {
    struct engine *engine;
    char *held;
};

static void hold(const char *image_id, void *arg)
{
    struct importing *i = arg;

    engine_image_hold(i->engine, image_id);
    i->held = xstrdup(image_id);
}

static json_t *config_of(const struct engine *e, const char *name, const struct image *image)
{
    struct sandbox_spec spec = {
        .image = xstrdup(name),
        .timeout_s = e->config.default_timeout_s,
        .limits = e->config.default_limits,
        .workdir = xstrdup(*image->workdir == '/' ? image->workdir : e->config.workspace),
        .env = json_object(),
        .metadata = json_object(),
    };
    json_t *config = sandbox_spec_json(&spec);

    sandbox_spec_done(&spec);
    return config;
}

static int import_on(struct engine *e, const char *path, const struct image *base,
                     struct snapshot_new *new, struct err *err)
{
    struct importing i = {.engine = e};
    struct image *image = NULL;

    if (image_layer_import(e->images, base->id, path, hold, &i, &image, err) < 0) {
        if (i.held)
            engine_image_let_go(e, i.held);
        free(i.held);
        return -1;
    }
    new->image_id = i.held;
    new->bytes = image->size - base->size;
    image_free(image);
    return 0;
}

int engine_snapshot_import(struct engine *e, const char *path, const char *image, const char *name,
                           const json_t *labels, json_t **ret, struct err *err)
{
    auto_free char *reference = image_policy_reference(e->policy, image);
    struct snapshot_new new = {.sandbox_id = "", .name = name, .labels = labels};
    struct image *base;
    int r;

    if (image_check_allowed(e, image, err) < 0 || space_check(e, err) < 0 ||
        images_take(e, reference, &base, err) < 0)
        return -1;
    new.config = config_of(e, image, base);
    r = worker_begin(e, err);
    if (r == 0) {
        r = import_on(e, path, base, &new, err);
        worker_end(e);
    }
    if (r == 0)
        r = snapshot_add(e, &new, ret, err);
    images_release(e, base->id);
    images_drop(e, base->id, reference);
    image_free(base);
    json_decref(new.config);
    free(new.image_id);
    return r;
}
