#include <pthread.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/images.h"
#include "engine/snapshots.h"
#include "engine/snapshots_internal.h"
#include "engine/threads_internal.h"
#include "image/image.h"

/* A snapshot of a sandbox that came from a snapshot has a layer more than that one. Each layer
 * costs every box that is made from it, so that snapshots with too many get an image that shows the
 * same with one. Sandboxes that run keep what they were made from. */

struct flattener {
    pthread_t thread;
    bool runs;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool work, stop;
};

struct held {
    struct engine *engine;
    char *id;
};

static void hold(const char *image_id, void *arg)
{
    struct held *h = arg;

    engine_image_hold(h->engine, image_id);
    h->id = xstrdup(image_id);
}

char *flatten(struct engine *e, const char *image_id)
{
    struct held h = {.engine = e};
    struct err err = {0};
    int r = image_flatten(e->images, image_id, hold, &h, &err);

    if (r == 0)
        return h.id;
    if (r < 0)
        log_warn("the layers of a snapshot could not be merged", "image", image_id, "error",
                 err.text);
    if (h.id)
        engine_image_let_go(e, h.id);
    free(h.id);
    return NULL;
}

void flatten_now(struct engine *e, char **image_id)
{
    char *flat = flatten(e, *image_id);

    if (!flat)
        return;
    engine_image_let_go(e, *image_id);
    free(*image_id);
    *image_id = flat;
}

static void look_at(struct engine *e, const json_t *snapshot)
{
    const char *id = json_string_value(json_object_get(snapshot, "id"));
    const char *image_id = json_string_value(json_object_get(snapshot, "imageId"));
    auto_free char *flat = NULL;
    struct err err = {0};

    if (!image_id || image_own_layers(e->images, image_id) <= FLAT_MAX)
        return;
    flat = flatten(e, image_id);
    if (flat && snapshot_swap_image(e, id, image_id, flat, &err) < 0 && err.kind != ERR_NOT_FOUND)
        log_warn("a snapshot keeps its many layers", "id", id, "error", err.text);
}

static bool stops(struct flattener *f)
{
    bool stop;

    pthread_mutex_lock(&f->lock);
    stop = f->stop;
    pthread_mutex_unlock(&f->lock);
    return stop;
}

static bool wait_for_work(struct flattener *f)
{
    bool go_on;

    pthread_mutex_lock(&f->lock);
    while (!f->work && !f->stop)
        pthread_cond_wait(&f->woken, &f->lock);
    f->work = false;
    go_on = !f->stop;
    pthread_mutex_unlock(&f->lock);
    return go_on;
}

static void *run(void *arg)
{
    struct engine *e = arg;
    struct flattener *f = e->flattener;

    thread_is_background();
    while (wait_for_work(f)) {
        json_t *all, *list;

        engine_snapshot_list(e, NULL, NULL, &all);
        list = json_object_get(all, "snapshots");
        for (size_t i = json_array_size(list); i-- > 0 && !stops(f);) /* from the oldest on */
            look_at(e, json_array_get(list, i));
        json_decref(all);
    }
    return NULL;
}

int flattener_start(struct engine *e, struct err *err)
{
    struct flattener *f = xcalloc(1, sizeof(*f));
    int r;

    (void)pthread_mutex_init(&f->lock, NULL);
    (void)pthread_cond_init(&f->woken, NULL);
    f->work = true; /* a daemon before may have ended before it came to some */
    e->flattener = f;
    r = pthread_create(&f->thread, NULL, run, e);
    if (r != 0)
        return err_sys(err, r, "start a thread");
    f->runs = true;
    return 0;
}

void flattener_stop(struct engine *e)
{
    struct flattener *f = e->flattener;

    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_signal(&f->woken);
    pthread_mutex_unlock(&f->lock);
    if (f->runs)
        (void)pthread_join(f->thread, NULL);
    (void)pthread_mutex_destroy(&f->lock);
    (void)pthread_cond_destroy(&f->woken);
    free(f);
    e->flattener = NULL;
}

void flattener_wake(struct engine *e)
{
    struct flattener *f = e->flattener;

    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->work = true;
    pthread_cond_signal(&f->woken);
    pthread_mutex_unlock(&f->lock);
}
