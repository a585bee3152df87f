/* What a stack of layers shows, without mounting it: the rules of overlayfs for one path. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "layer/layer_internal.h"

/* Looks in one layer. */
static int look_in(int root, const char *path, struct lower *ret, struct err *err)
{
    auto_close int at = fcntl(root, F_DUPFD_CLOEXEC, 0);
    bool opaque = false;
    const char *slash;

    if (at < 0)
        return layer_sys_error(err, errno, path);
    for (; (slash = strchr(path, '/')); path = slash + 1) {
        auto_free char *part = xstrndup(path, (size_t)(slash - path));
        int next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (next < 0 && errno == ENOENT)
            return opaque ? LOWER_HIDDEN : LOWER_ABSENT;
        if (next < 0 && (errno == ENOTDIR || errno == ELOOP)) /* a whiteout, too */
            return LOWER_HIDDEN;
        if (next < 0)
            return layer_sys_error(err, errno, path);
        (void)close(at);
        at = next;
        opaque |= is_opaque(at);
    }
    if (fstatat(at, path, &ret->st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT)
            return layer_sys_error(err, errno, path);
        return opaque ? LOWER_HIDDEN : LOWER_ABSENT;
    }
    if (is_whiteout(&ret->st))
        return LOWER_HIDDEN;
    ret->dir = steal_fd(at);
    ret->name = path;
    return LOWER_FOUND;
}

int lower_find(const int *layers, size_t n, const char *path, struct lower *ret, struct err *err)
{
    int r = LOWER_ABSENT;

    for (size_t i = 0; r == LOWER_ABSENT && i < n; i++)
        r = look_in(layers[i], path, ret, err);
    return r;
}
