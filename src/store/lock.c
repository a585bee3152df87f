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

#define HOLDER_MAX 64
#define LEFT_MS    2000 /* for a child of a killed daemon to close its copy of the lock */
#define AGAIN_MS   10

/* The daemon that has the lock, as the file says: "PID NAMESPACE". */
struct holder {
    uint64_t pid;       /* 0 = not known */
    uint64_t namespace; /* inode of the PID namespace that pid is of; 0 = ours (cay 0.1.0) */
};

static uint64_t own_namespace(void)
{
    struct stat st;

    return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

static struct holder read_holder(int fd)
{
    struct holder h = {0};
    char text[HOLDER_MAX], *space;
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    space = strchr(text, ' ');
    if (space)
        *space++ = '\0';
    if (str_u64(text, &h.pid) < 0 || h.pid > INT_MAX || (space && str_u64(space, &h.namespace) < 0))
        return (struct holder){0};
    return h;
}

/* A daemon in a container may share the folder: its pid says nothing here. */
static bool is_elsewhere(const struct holder *h)
{
    return h->namespace != 0 && h->namespace != own_namespace();
}

static bool is_dead(const struct holder *h)
{
    return h->pid > 0 && !is_elsewhere(h) && kill((pid_t)h->pid, 0) < 0 && errno == ESRCH;
}

/* A daemon that is killed while it starts a program leaves a child process that has a copy of the
 * lock until it executes the program or ends. 0, or -errno. */
static int lock_file(int fd)
{
    struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int64_t until = mono_ns() + LEFT_MS * 1000000ll;

    while (fcntl(fd, F_OFD_SETLK, &fl) < 0) {
        int why = errno == EACCES ? EAGAIN : errno;
        struct holder h = read_holder(fd);

        if (why != EAGAIN || !is_dead(&h) || mono_ns() >= until)
            return -why;
        (void)poll(NULL, 0, AGAIN_MS);
    }
    return 0;
}

static int refuse(int fd, const char *data_dir, struct err *err)
{
    struct holder h = read_holder(fd);
    auto_free char *who = h.pid ? xasprintf("pid %llu%s", (unsigned long long)h.pid,
                                            is_elsewhere(&h) ? " in another container" : "")
                                : xstrdup("pid unknown");

    if (is_dead(&h))
        return err_code(err, ERR_CONFLICT, "data_in_use",
                        "a process of a cay that has ended (%s) still has the lock %s/lock; "
                        "try again, or find the process with `fuser` or `lsof` and end it",
                        who, data_dir);
    return err_code(err, ERR_CONFLICT, "data_in_use",
                    "%s is in use by another cay (%s); stop that one, or set CAY_DATA and CAY_RUN "
                    "to other directories",
                    data_dir, who);
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
    n = snprintf(text, sizeof(text), "%ld %llu\n", (long)getpid(),
                 (unsigned long long)own_namespace());
    (void)!ftruncate(fd, 0);
    (void)write_all(fd, text, (size_t)n);
    *ret_fd = steal_fd(fd);
    return 0;
}
