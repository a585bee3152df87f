#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/image_policy.h"
#include "engine/images.h"
#include "engine/long_work_internal.h"
#include "engine/snapshots.h"
#include "engine/snapshots_internal.h"
#include "image/image.h"

/* The archive of an image as a stream: a thread waits for the worker that writes it. */

struct image_exporter {
    struct engine *engine;
    int (*run)(struct image_store *s, const char *name, int out_fd, struct err *err);
    char *name;
    int out_fd;
    pthread_t thread;
    int result;
    struct err err;
};

static void *export_main(void *arg)
{
    struct image_exporter *x = arg;

    x->result = x->run(x->engine->images, x->name, x->out_fd, &x->err);
    close_fd(&x->out_fd);
    return NULL;
}

/* Takes the name. */
static int open_export(struct engine *e, char *name,
                       int (*run)(struct image_store *s, const char *name, int out_fd,
                                  struct err *err),
                       struct image_export *ret, struct err *err)
{
    auto_free char *taken = name;
    struct image_exporter *x;
    int fds[2], r;

    if (worker_begin(e, err) < 0)
        return -1;
    if (pipe2(fds, O_CLOEXEC) < 0) {
        worker_end(e);
        return err_sys(err, errno, "make a pipe");
    }
    x = xcalloc(1, sizeof(*x));
    x->engine = e;
    x->run = run;
    x->name = steal_ptr(taken);
    x->out_fd = fds[1];
    r = pthread_create(&x->thread, NULL, export_main, x);
    if (r != 0) {
        (void)close(fds[0]);
        close_fd(&x->out_fd);
        free(x->name);
        free(x);
        worker_end(e);
        return err_sys(err, r, "start the thread of an export");
    }
    *ret = (struct image_export){.fd = fds[0], .exporter = x};
    return 0;
}

int engine_export_open(struct engine *e, const char *name, struct image_export *ret,
                       struct err *err)
{
    return open_export(e, image_policy_reference(e->policy, name), image_export, ret, err);
}

static const char *text_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

/* The layer is one, also where the snapshot has had several until now. Others may merge them at the
 * same time: then theirs is it. */
static int merge_layers(struct engine *e, const json_t *snapshot, struct err *err)
{
    const char *id = text_of(snapshot, "id"), *image_id = text_of(snapshot, "imageId");
    auto_free char *flat = NULL;
    struct err why = {0};

    if (image_own_layers(e->images, image_id) <= 1)
        return 0;
    flat = flatten(e, image_id);
    if (!flat)
        return err_set(err, ERR_UNAVAILABLE, "the layers of %s could not be merged", id);
    if (snapshot_swap_image(e, id, image_id, flat, &why) == 0 || why.kind == ERR_NOT_FOUND)
        return 0;
    if (err)
        *err = why;
    return -1;
}

int engine_snapshot_export_open(struct engine *e, const char *id, struct image_export *ret,
                                struct err *err)
{
    auto_free char *whole_id = NULL;
    char *image_id;
    json_t *o;
    int r;

    if (snapshot_hold(e, id, NULL, &o, err) < 0)
        return -1;
    r = merge_layers(e, o, err);
    whole_id = xstrdup(text_of(o, "id"));
    snapshot_let_go(e, o);
    if (r < 0 || snapshot_find(e, whole_id, &o, err) < 0)
        return -1;
    image_id = xstrdup(text_of(o, "imageId"));
    json_decref(o);
    return open_export(e, image_id, image_layer_export, ret, err);
}

int engine_export_close(struct image_export *export, struct err *err)
{
    struct image_exporter *x = export->exporter;
    int r;

    close_fd(&export->fd);
    (void)pthread_join(x->thread, NULL);
    r = x->result;
    worker_end(x->engine);
    if (r < 0 && err)
        *err = x->err;
    free(x->name);
    free(x);
    export->exporter = NULL;
    return r;
}
