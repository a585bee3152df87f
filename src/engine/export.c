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
#include "image/image.h"

/* The archive of an image as a stream: a thread waits for the worker that writes it. */

struct image_exporter {
    struct engine *engine;
    char *name;
    int out_fd;
    pthread_t thread;
    int result;
    struct err err;
};

static void *export_main(void *arg)
{
    struct image_exporter *x = arg;

    x->result = image_export(x->engine->images, x->name, x->out_fd, &x->err);
    close_fd(&x->out_fd);
    return NULL;
}

int engine_export_open(struct engine *e, const char *name, struct image_export *ret,
                       struct err *err)
{
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
    x->name = policy_reference(e->policy, name);
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
