#include "layer/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"

int tree_open_dir(int dirfd, const char *name, mode_t mode, int *ret_fd, struct err *err)
{
    auto_close int fd = -1;

    if (mkdirat(dirfd, name, mode) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make the folder %s", name);
    fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, mode) < 0)
        return err_sys(err, errno, "open the folder %s", name);
    *ret_fd = steal_fd(fd);
    return 0;
}

int tree_names(int dirfd, size_t max, char ***ret, struct err *err)
{
    auto_strv char **names = NULL;
    size_t n = 0, cap = 0;
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* an offset of its own */
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;
    int failed;

    if (!d) {
        int saved = errno;

        close_fd(&fd);
        return err_sys(err, saved, "read a folder");
    }
    while ((errno = 0, e = readdir(d)) && n < max) {
        if (str_is_dot(e->d_name))
            continue;
        if (n + 1 >= cap) {
            cap = cap ? cap * 2 : 16;
            names = xrealloc(names, cap * sizeof(*names));
        }
        names[n++] = xstrdup(e->d_name);
        names[n] = NULL;
    }
    failed = e ? 0 : errno;
    (void)closedir(d);
    if (failed)
        return err_sys(err, failed, "read a folder");
    if (e)
        return err_code(err, ERR_TOO_LARGE, "image_too_large", "a folder has more than %zu entries",
                        max);
    if (!names)
        names = xcalloc(1, sizeof(*names));
    strings_sort(names, n);
    *ret = steal_ptr(names);
    return 0;
}
