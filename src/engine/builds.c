#include "engine/builds.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/image_json_internal.h"
#include "engine/images.h"
#include "engine/images_internal.h"
#include "engine/images_used_internal.h"
#include "engine/long_work_internal.h"
#include "engine/sandboxes.h"
#include "engine/space_internal.h"
#include "engine/watch.h"
#include "image/image.h"

bool engine_is_ending(const struct engine *e)
{
    return atomic_load(&e->draining);
}

int engine_build_base(struct engine *e, const char *name, const char *platform,
                      const struct engine_watch *watch, json_t **ret, struct err *err)
{
    struct sandbox_request req = {.image = name, .platform = platform};
    struct image *image;

    if (image_check_allowed(e, name, err) < 0 || image_obtain(e, &req, watch, &image, err) < 0)
        return -1;
    *ret = image_json(e, image);
    return 0;
}

/* ---- work of the image worker ---- */

struct building {
    struct engine *engine;
    const struct engine_watch *watch;
    char *held;
};

static int goes_on(const json_t *event, void *arg)
{
    const struct building *b = arg;
    const struct engine_watch *watch = b->watch;

    (void)event;
    if (atomic_load(&b->engine->draining) || engine_watch_is_over(watch))
        return -1;
    return watch && watch->progress ? watch->progress(NULL, watch->arg) : 0;
}

static void hold(const char *image_id, void *arg)
{
    struct building *b = arg;

    engine_image_hold(b->engine, image_id);
    b->held = xstrdup(image_id);
}

/* What was made stays held, unless it did not come to its end. */
static void done(struct building *b, int r)
{
    if (r < 0 && b->held)
        engine_image_let_go(b->engine, b->held);
    free(b->held);
    worker_end(b->engine);
}

static struct image_build what(const struct build_layer *l, struct building *b)
{
    return (struct image_build){
        .base_id = l->base_id,
        .from = l->from,
        .items = l->items,
        .config = l->config,
        .made = hold,
        .progress = goes_on,
        .arg = b,
    };
}

int engine_build_layer(struct engine *e, const struct build_layer *l,
                       const struct engine_watch *watch, json_t **ret, struct err *err)
{
    struct building b = {.engine = e, .watch = watch};
    struct image_build build = what(l, &b);
    struct image *image;
    int r;

    if (space_check(e, err) < 0 || worker_begin(e, err) < 0)
        return -1;
    r = image_build(e->images, &build, &image, err);
    done(&b, r);
    if (r < 0)
        return -1;
    *ret = image_json(e, image);
    return 0;
}

int engine_build_digest(struct engine *e, const struct build_layer *l,
                        const struct engine_watch *watch, char ret[BUILD_DIGEST_SIZE],
                        struct err *err)
{
    struct building b = {.engine = e, .watch = watch};
    struct image_build build = what(l, &b);
    int r;

    if (worker_begin(e, err) < 0)
        return -1;
    r = image_build_digest(e->images, &build, ret, err);
    done(&b, r);
    return r;
}

/* ---- the context ---- */

int engine_build_room(struct engine *e, struct err *err)
{
    return space_check(e, err);
}

int engine_build_file(struct engine *e, int *ret_fd, struct err *err)
{
    if (space_check(e, err) < 0)
        return -1;
    return image_context_file(e->images, ret_fd, err);
}

int engine_build_context(struct engine *e, int fd, uint64_t max_bytes, const char *apart,
                         size_t apart_max, const struct engine_watch *watch, char **ret_id,
                         char **ret_text, struct err *err)
{
    struct building b = {.engine = e, .watch = watch};
    struct image_context context = {.fd = fd,
                                    .max_bytes = max_bytes,
                                    .apart = apart,
                                    .apart_max = apart_max,
                                    .made = hold,
                                    .progress = goes_on,
                                    .arg = &b};
    struct image *image;
    int r;

    if (space_check(e, err) < 0 || worker_begin(e, err) < 0)
        return -1;
    r = image_context(e->images, &context, &image, ret_text, err);
    done(&b, r);
    if (r < 0)
        return -1;
    *ret_id = xstrdup(image->id);
    image_free(image);
    return 0;
}

int engine_build_text(struct engine *e, const char *id, const char *path, size_t max, char **ret,
                      size_t *ret_len, struct err *err)
{
    int r;

    if (worker_begin(e, err) < 0)
        return -1;
    r = image_show(e->images, id, path, max, ret, ret_len, err);
    worker_end(e);
    return r;
}

int64_t engine_build_size(struct engine *e, const char *id)
{
    struct image *image = NULL;
    int64_t size = 0;

    if (image_get_id(e->images, id, &image, NULL) == 0)
        size = image->size;
    image_free(image);
    return size;
}
