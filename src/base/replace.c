#include "base/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"

int replace_file(int dirfd, const char *name, const void *data, size_t len, struct err *err)
{
    char tmp[ID_SIZE];
    auto_close int fd = -1;
    int r;

    id_new(tmp, "tmp");
    fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(err, errno, "create %s", name);
    r = write_all(fd, data, len);
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    if (r == 0 && renameat(dirfd, tmp, dirfd, name) < 0)
        r = -errno;
    if (r < 0) {
        (void)unlinkat(dirfd, tmp, 0);
        return err_sys(err, -r, "replace %s", name);
    }
    if (fsync(dirfd) < 0)
        return err_sys(err, errno, "sync the folder of %s", name);
    return 0;
}
