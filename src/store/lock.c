#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "store/store_internal.h"

static int refuse(int fd, const char *data_dir, struct err *err)
{
    char text[32] = "";

    if (pread(fd, text, sizeof(text) - 1, 0) < 0)
        text[0] = '\0';
    text[strspn(text, "0123456789")] = '\0';
    return err_code(
        err, ERR_CONFLICT, "data_in_use",
        "%s is in use by another cay (pid %s); stop that one, or set CAY_DATA and CAY_RUN "
        "to other directories",
        data_dir, text[0] ? text : "unknown");
}

/* An open-file-description lock: it goes when the daemon ends, however it ends, and a child that
 * merely closes a copy of some descriptor does not drop it. */
int store_take_lock(const char *data_dir, int *ret_fd, struct err *err)
{
    struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    auto_free char *path = xasprintf("%s/lock", data_dir);
    auto_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    char text[32];
    int n;

    if (fd < 0)
        return err_sys(err, errno, "open the lock %s", path);
    if (fcntl(fd, F_OFD_SETLK, &fl) < 0) {
        if (errno == EAGAIN || errno == EACCES)
            return refuse(fd, data_dir, err);
        return err_sys(err, errno, "lock %s", path);
    }
    /* For who is refused; a full disk is no reason to end here. */
    n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    (void)!ftruncate(fd, 0);
    (void)write_all(fd, text, (size_t)n);
    *ret_fd = steal_fd(fd);
    return 0;
}
