#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "engine/images.h"
#include "service/build/build_internal.h"

#define PIECE_BYTES (256u << 10)
#define LOOK_BYTES  (16u << 20) /* between two looks at the host's disk */

/* The archive as it comes, into a file that has no name and so ends with us. What is free on the
 * host's disk belongs to sandboxes too. */
static int receive(struct engine *e, build_read read, void *arg, int fd, struct err *err)
{
    auto_free char *piece = xmalloc(PIECE_BYTES);
    uint64_t total = 0;

    for (;;) {
        ssize_t n = read(arg, piece, PIECE_BYTES, err);
        int r;

        if (n <= 0)
            return (int)n;
        total += (uint64_t)n;
        if (total > BUILD_CONTEXT_BYTES_MAX)
            return err_code(err, ERR_TOO_LARGE, "context_too_large",
                            "the files of a build are at most %llu MiB: leave out what it does not "
                            "need with .dockerignore",
                            BUILD_CONTEXT_BYTES_MAX >> 20);
        if (total / LOOK_BYTES != (total - (uint64_t)n) / LOOK_BYTES &&
            engine_build_room(e, err) < 0)
            return -1;
        r = write_all(fd, piece, (size_t)n);
        if (r < 0) {
            (void)err_sys(err, -r, "keep the files of the build");
            return err_no_space(err, "the disk with cay's data is full");
        }
    }
}

int build_context_open(struct engine *e, build_read read, void *arg, const char *apart,
                       const struct engine_watch *watch, struct build_context **ret,
                       struct err *err)
{
    struct build_context *c;
    char *image_id = NULL, *text = NULL;
    auto_close int fd = -1;

    if (engine_build_file(e, &fd, err) < 0 || receive(e, read, arg, fd, err) < 0)
        return -1;
    if (engine_build_context(e, fd, BUILD_CONTEXT_BYTES_MAX, apart, DOCKERFILE_BYTES_MAX, watch,
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
