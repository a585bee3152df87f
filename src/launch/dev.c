#include "launch/launch_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "launch/mount_calls.h"

/* /dev of a box: a tmpfs of its own, made by the launcher because only the host's root can make
 * device nodes that work. Each box has its own nodes: on a shared one a lock or a watch would be a
 * channel to the neighbours. */

static const struct {
    const char *name;
    unsigned major, minor;
} devices[] = {
    {"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
    {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};

static const struct {
    const char *name, *target;
} device_links[] = {
    {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
};

static int fill(int dir)
{
    static const char *const folders[] = {"pts", "shm", "mqueue"};
    mode_t mask = umask(0);
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(devices); i++)
        if (mknodat(dir, devices[i].name, S_IFCHR | 0666,
                    makedev(devices[i].major, devices[i].minor)) < 0)
            r = -errno;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(device_links); i++)
        if (symlinkat(device_links[i].target, dir, device_links[i].name) < 0)
            r = -errno;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(folders); i++)
        if (mkdirat(dir, folders[i], 0755) < 0)
            r = -errno;
    (void)umask(mask);
    return r;
}

int dev_make(void)
{
    auto_close int dev = make_tmpfs("64k");
    int r = dev < 0 ? dev : fill(dev);

    return r < 0 ? r : steal_fd(dev);
}

int dev_close(int dev, int userns)
{
    int r = map_mount(dev, userns, MOUNT_ATTR_RDONLY);

    if (r < 0) /* tmpfs before 6.3: the nodes show as nobody's, with mode 0666 */
        r = map_mount(dev, -1, MOUNT_ATTR_RDONLY);
    return r;
}
