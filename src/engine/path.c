#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/path_internal.h"
#include "model/limits.h"

static int has_dots(struct err *err, const char *path)
{
    return err_code(err, ERR_INVALID, "path_traversal",
                    "Path traversal detected: %.180s goes up with \"..\"; write it without", path);
}

static int is_outside(struct err *err, const char *path, const char *workspace)
{
    return err_code(err, ERR_INVALID, "path_traversal",
                    "Path traversal detected: %.180s is outside the workspace %.80s, which needs "
                    "\"anywhere\": true",
                    path, workspace);
}

/* Appends path to out component by component: without ".", empty ones and a slash at the end. A
 * component ".." is refused, a name like "a..b" is not. */
static int append(struct buf *out, const char *path)
{
    while (*path) {
        size_t n = strcspn(path, "/");

        if (n == 2 && strncmp(path, "..", 2) == 0)
            return -1;
        if (n > 0 && !(n == 1 && *path == '.')) {
            (void)buf_add_str(out, "/");
            (void)buf_add(out, path, n);
        }
        path += n;
        path += strspn(path, "/");
    }
    return 0;
}

static bool is_within(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    while (n > 0 && dir[n - 1] == '/')
        n--;
    return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

int path_resolve(const char *workspace, const char *path, bool anywhere, char **ret,
                 struct err *err)
{
    auto_buf struct buf out = {0};

    if (!path || !*path)
        return err_set(err, ERR_INVALID, "path is required");
    buf_init(&out, SIZE_MAX / 4);
    if (*path != '/')
        (void)append(&out, workspace);
    if (append(&out, path) < 0)
        return has_dots(err, path);
    if (out.len > PATH_BYTES_MAX)
        return err_set(err, ERR_INVALID, "path must be at most %d bytes", PATH_BYTES_MAX);
    if (out.len == 0)
        (void)buf_add_str(&out, "/");
    if (!anywhere && !is_within(out.data, workspace))
        return is_outside(err, path, workspace);
    *ret = buf_steal(&out);
    return 0;
}
