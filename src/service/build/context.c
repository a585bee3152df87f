#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "engine/images.h"
#include "service/build/build_internal.h"

#define LOOK_BYTES (16u << 20) /* between two looks at the host's disk */

/* ---- the archive as it comes, in a file that has no name and so ends with us ---- */

struct build_archive {
    struct engine *engine;
    int fd;
    uint64_t bytes;
};

int build_archive_open(struct engine *e, struct build_archive **ret, struct err *err)
{
    int fd;

    if (engine_build_file(e, &fd, err) < 0)
        return -1;
    *ret = xcalloc(1, sizeof(**ret));
    **ret = (struct build_archive){.engine = e, .fd = fd};
    return 0;
}

/* What is free on the host's disk belongs to sandboxes too. */
int build_archive_add(struct build_archive *a, const void *data, size_t len, struct err *err)
{
    uint64_t before = a->bytes;
    int r;

    a->bytes += len;
    if (a->bytes > BUILD_CONTEXT_BYTES_MAX)
        return err_code(err, ERR_TOO_LARGE, "context_too_large",
                        "the files of a build are at most %llu MiB: leave out what it does not "
                        "need with .dockerignore",
                        BUILD_CONTEXT_BYTES_MAX >> 20);
    if (a->bytes / LOOK_BYTES != before / LOOK_BYTES && engine_build_room(a->engine, err) < 0)
        return -1;
    r = write_all(a->fd, data, len);
    if (r == 0)
        return 0;
    (void)err_sys(err, -r, "keep the files of the build");
    return err_no_space(err, "the disk with cay's data is full");
}

void build_archive_close(struct build_archive *a)
{
    close_fd(&a->fd);
    free(a);
}

/* ---- what is in it ---- */

int build_context_open(struct build_archive *a, const char *apart, const struct engine_watch *watch,
                       struct build_context **ret, struct err *err)
{
    struct engine *e = a->engine;
    struct build_context *c;
    char *image_id = NULL, *text = NULL;

    if (engine_build_context(e, a->fd, BUILD_CONTEXT_BYTES_MAX, apart, DOCKERFILE_BYTES_MAX, watch,
                             &image_id, &text, err) < 0)
        return err_wrap(err, "the files of the build");
    c = xcalloc(1, sizeof(*c));
    c->engine = e;
    c->image_id = image_id;
    c->apart = text;
    *ret = c;
    return 0;
}

void build_context_close(struct build_context *c)
{
    if (!c)
        return;
    engine_image_let_go(c->engine, c->image_id);
    free(c->image_id);
    free(c->apart);
    free(c);
}

const char *build_context_apart(const struct build_context *c)
{
    return c->apart;
}

int build_context_text(struct build_context *c, const char *path, size_t max, char **ret,
                       size_t *ret_len, struct err *err)
{
    return engine_build_text(c->engine, c->image_id, path, max, ret, ret_len, err);
}
