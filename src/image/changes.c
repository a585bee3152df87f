/* What a sandbox changed, against the image that it was made from, or another. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "image/image.h"
#include "image/image_internal.h"
#include "layer/diff.h"

struct opened {
    int *fds;
    size_t n;
};

static void opened_done(struct opened *o)
{
    for (size_t i = 0; i < o->n; i++)
        close_fd(&o->fds[i]);
    free(o->fds);
}
#define auto_opened __attribute__((cleanup(opened_done)))

static void opened_add(struct opened *o, int fd)
{
    o->fds = xrealloc(o->fds, (o->n + 1) * sizeof(*o->fds));
    o->fds[o->n++] = fd;
}

/* Layers of ours, by their paths: nobody else can have put anything there. */
static int open_image(const struct image *image, struct opened *o, struct err *err)
{
    for (char **path = image->layers; *path; path++) {
        int fd = open(*path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
            return err_sys(err, errno, "open a layer");
        opened_add(o, fd);
    }
    return 0;
}

static int tell(void *arg, char kind, const char *path, const struct stat *st, struct err *err)
{
    const struct image_changes *c = arg;

    return c->found(c->arg, kind, path, st->st_mode, st->st_size, err);
}

int image_changes(struct image_store *s, const struct image_changes *changes, struct err *err)
{
    auto_opened struct opened old = {0}, new = {0};
    struct image *of = NULL, *against = NULL;
    struct stack_diff diff = {
        .ids_base = changes->ids_base, .found = tell, .arg = (void *)(uintptr_t)changes};
    int upper =
        openat(changes->scratch_fd, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r;

    if (upper < 0)
        return err_sys(err, errno, "open what the sandbox changed");
    opened_add(&new, upper);
    r = image_get_id(s, changes->image_id, &of, err);
    if (r == 0)
        r = image_get_id(s, changes->against_id, &against, err);
    if (r == 0 && (open_image(of, &new, err) < 0 || open_image(against, &old, err) < 0))
        r = -1;
    image_free(of);
    image_free(against);
    if (r < 0)
        return -1;
    diff.old = (struct stack){.layers = old.fds, .n = old.n};
    diff.new = (struct stack){.layers = new.fds, .n = new.n};
    return stack_diff(&diff, err);
}
