#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/images.h"
#include "engine/long_work_internal.h"
#include "engine/policy.h"
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
    return open_export(e, policy_reference(e->policy, name), image_export, ret, err);
}

/* The layer is one, also where the snapshot has had several until now. */
static int one_layer(struct engine *e, const char *id, const char *image_id, char **ret,
                     struct err *err)
{
    auto_free char *flat = NULL;

    *ret = xstrdup(image_id);
    if (image_own_layers(e->images, image_id) <= 1)
        return 0;
    flat = flatten(e, image_id);
    free(*ret);
    *ret = flat ? xstrdup(flat) : NULL;
    if (!flat)
        return err_set(err, ERR_UNAVAILABLE, "the layers of %s could not be merged", id);
    return snapshot_swap_image(e, id, image_id, flat, err);
}

int engine_snapshot_export_open(struct engine *e, const char *id, struct image_export *ret,
                                struct err *err)
{
    char *image_id = NULL;
    json_t *o;
    int r;

    if (snapshot_find(e, id, &o, err) < 0)
        return -1;
    r = one_layer(e, json_string_value(json_object_get(o, "id")),
                  json_string_value(json_object_get(o, "imageId")), &image_id, err);
    json_decref(o);
    if (r == 0)
        return open_export(e, image_id, image_layer_export, ret, err);
    free(image_id);
    return -1;
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
