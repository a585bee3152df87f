#include "base/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/mem.h"

const char *odd_file_kind(mode_t mode)
{
    return S_ISREG(mode)    ? NULL
           : S_ISDIR(mode)  ? "a folder"
           : S_ISLNK(mode)  ? "a symbolic link"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

static int say_odd(struct err *err, mode_t mode, const char *path)
{
    int why = S_ISDIR(mode) ? EISDIR : S_ISLNK(mode) ? ELOOP : ENXIO;

    (void)err_set(err, ERR_INTERNAL, "%s is %s where a file is expected: move it away", path,
                  odd_file_kind(mode));
    if (err)
        err->sys = why;
    return -why;
}

int regular_open(int dirfd, const char *path, int flags, mode_t mode, struct err *err)
{
    auto_close int fd =
        openat(dirfd, path, flags | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, mode);
    int why = fd < 0 ? errno : 0;
    struct stat st;

    if ((fd < 0 ? fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) : fstat(fd, &st)) == 0 &&
        !S_ISREG(st.st_mode))
        return say_odd(err, st.st_mode, path);
    if (fd >= 0)
        return steal_fd(fd);
    (void)err_sys(err, why, "open %s", path);
    return -why;
}
