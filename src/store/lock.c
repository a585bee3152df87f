#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/regular.h"
#include "base/str.h"
#include "store/store_internal.h"

#define HOLDER_MAX 32
#define LEFT_MS    2000 /* for a child of a killed daemon to close its copy of the lock */
#define AGAIN_MS   10

/* The digits of the pid in the file; "" if there are none. */
static void read_holder(int fd, char ret[HOLDER_MAX])
{
    ssize_t n = pread(fd, ret, HOLDER_MAX - 1, 0);

    ret[n > 0 ? n : 0] = '\0';
    ret[strspn(ret, "0123456789")] = '\0';
}

static bool holder_is_dead(int fd)
{
    char text[HOLDER_MAX];
    uint64_t pid;

    read_holder(fd, text);
    return str_u64(text, &pid) == 0 && pid > 0 && pid <= INT_MAX && kill((pid_t)pid, 0) < 0 &&
           errno == ESRCH;
}

/* A daemon that is killed while it starts a program leaves a child process that has a copy of the
 * lock until it executes the program or ends. 0, or -errno. */
static int lock_file(int fd)
{
    struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int64_t until = mono_ns() + LEFT_MS * 1000000ll;

    while (fcntl(fd, F_OFD_SETLK, &fl) < 0) {
        int why = errno == EACCES ? EAGAIN : errno;

        if (why != EAGAIN || !holder_is_dead(fd) || mono_ns() >= until)
            return -why;
        (void)poll(NULL, 0, AGAIN_MS);
    }
    return 0;
}

static int refuse(int fd, const char *data_dir, struct err *err)
{
    char text[HOLDER_MAX];

    read_holder(fd, text);
    if (holder_is_dead(fd))
        return err_code(err, ERR_CONFLICT, "data_in_use",
                        "a process of a cay that has ended (pid %s) still has the lock %s/lock; "
                        "try again, or find the process with `fuser` or `lsof` and end it",
                        text, data_dir);
    return err_code(
        err, ERR_CONFLICT, "data_in_use",
        "%s is in use by another cay (pid %s); stop that one, or set CAY_DATA and CAY_RUN "
        "to other directories",
        data_dir, text[0] ? text : "unknown");
}

/* An open-file-description lock: the kernel drops it when the last copy of its descriptor is
 * closed, so also when the daemon is killed; closing another descriptor of the file does not drop
 * it. */
int store_take_lock(const char *data_dir, int *ret_fd, struct err *err)
{
    auto_free char *path = xasprintf("%s/lock", data_dir);
    auto_close int fd = regular_open(AT_FDCWD, path, O_RDWR | O_CREAT, 0600, err);
    char text[HOLDER_MAX];
    int n, r;

    if (fd < 0)
        return -1;
    r = lock_file(fd);
    if (r == -EAGAIN)
        return refuse(fd, data_dir, err);
    if (r < 0)
        return err_sys(err, -r, "lock %s", path);
    /* The pid is for the error of another daemon; on a full disk the file stays empty. */
    n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    (void)!ftruncate(fd, 0);
    (void)write_all(fd, text, (size_t)n);
    *ret_fd = steal_fd(fd);
    return 0;
}
