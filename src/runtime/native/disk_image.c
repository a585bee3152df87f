#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/regular.h"
#include "base/str.h"
#include "runtime/native/disk_internal.h"

/* Files with filesystems, and the loop devices that they are mounted from. */

/* Seconds after which what changed is written though nobody asked for it: as long as the kernel
 * leaves data in memory. Each time costs the host an fsync. */
#define COMMIT "30"

#define TRIES 64 /* to get a device that another takes, or gives up, meanwhile */

bool image_lock(int image)
{
    return flock(image, LOCK_EX | LOCK_NB) == 0;
}

/* Our own threads take turns: all would be given the same device, and all but one ask again. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

/* The device that is free now; -EBUSY when somebody else was quicker. */
static int try_attach(int control, int file, char *name, size_t size)
{
    struct loop_config config = {
        .fd = (uint32_t)file, .block_size = 4096, .info.lo_flags = LO_FLAGS_AUTOCLEAR};
    auto_close int loop = -1;
    int n = ioctl(control, LOOP_CTL_GET_FREE);

    if (n < 0)
        return -errno;
    (void)snprintf(name, size, "/dev/loop%d", n);
    loop = open(name, O_RDWR | O_CLOEXEC);
    if (loop < 0 || ioctl(loop, LOOP_CONFIGURE, &config) < 0)
        return -errno;
    return steal_fd(loop);
}

/* A free loop device set up on file: its path is in name. Another program can take the device
 * between asking for it and setting it up, or be at mounting what it was on before; then we ask
 * again. The device keeps the open file, and with it the lock. */
static int loop_attach(int file, char *name, size_t size)
{
    auto_close int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

    if (control < 0)
        return -errno;
    for (int tries = 0; tries < TRIES; tries++) {
        int loop;

        (void)pthread_mutex_lock(&turn);
        loop = try_attach(control, file, name, size);
        (void)pthread_mutex_unlock(&turn);
        if (loop != -EBUSY)
            return loop;
        (void)poll(NULL, 0, tries < 8 ? 0 : 1 + tries / 8);
    }
    return -EBUSY;
}

/* A superblock of the device, which is there already if it is mounted. Only one with a journal
 * takes `commit`. */
static int configure(int fs, const char *device, bool journal)
{
    if (fsconfig(fs, FSCONFIG_SET_STRING, "source", device, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FLAG, "discard", NULL, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FLAG, "noinit_itable", NULL, 0) < 0 ||
        (journal && fsconfig(fs, FSCONFIG_SET_STRING, "commit", COMMIT, 0) < 0) ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    return 0;
}

static int mount_device(const char *device, unsigned attrs)
{
    auto_close int fs = fsopen("ext4", FSOPEN_CLOEXEC);
    int r = fs < 0 ? -errno : configure(fs, device, true), m;

    if (r == -EINVAL) {
        close_fd(&fs);
        fs = fsopen("ext4", FSOPEN_CLOEXEC);
        r = fs < 0 ? -errno : configure(fs, device, false);
    }
    if (r < 0)
        return r;
    m = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | attrs);
    return m < 0 ? -errno : m;
}

int image_mount(int image, unsigned attrs, struct err *err)
{
    char device[64];
    auto_close int loop = -1;
    int r;

    if (!image_lock(image))
        return err_sys(err, errno, "lock the disk");
    loop = loop_attach(image, device, sizeof(device));
    if (loop < 0)
        return err_sys(err, -loop, "attach a loop device (are loop devices available?)");
    r = mount_device(device, attrs);
    return r < 0 ? err_sys(err, -r, "mount %s", device) : r;
}

int disk_device(int fd, char *name, size_t size)
{
    char link[64], device[256];
    struct stat root;
    ssize_t n;

    if (fstat(fd, &root) < 0)
        return -errno;
    (void)snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(root.st_dev),
                   minor(root.st_dev));
    n = readlink(link, device, sizeof(device) - 1);
    if (n < 0)
        return -errno;
    device[n] = '\0';
    (void)snprintf(name, size, "%s", strrchr(device, '/') + 1);
    return 0;
}

/* The file that a loop device is on. */
bool loop_backing(const char *device, char *backing, size_t size)
{
    char path[300];

    (void)snprintf(path, sizeof(path), "/sys/block/%s/loop/backing_file", device);
    if (read_file_at(AT_FDCWD, path, backing, size) <= 0)
        return false;
    backing[strcspn(backing, "\n")] = '\0';
    return true;
}

/* The loop device on a file, if there is one: its path is in name. */
static bool find_loop(const char *file, char *name, size_t size)
{
    DIR *dir = opendir("/sys/block");
    bool found = false;
    struct dirent *e;

    while (dir && !found && (e = readdir(dir))) {
        char backing[4096];

        if (!str_starts(e->d_name, "loop") || !loop_backing(e->d_name, backing, sizeof(backing)))
            continue;
        found = strcmp(backing, file) == 0;
        if (found)
            (void)snprintf(name, size, "/dev/%s", e->d_name);
    }
    if (dir)
        (void)closedir(dir);
    return found;
}

int image_mount_again(int fd)
{
    char name[64], device[80];

    if (disk_device(fd, name, sizeof(name)) < 0)
        return -1;
    (void)snprintf(device, sizeof(device), "/dev/%s", name);
    return mount_device(device, 0);
}

static bool is_mount_of(int mount, const char *path)
{
    char device[64], backing[4096];

    return disk_device(mount, device, sizeof(device)) == 0 &&
           loop_backing(device, backing, sizeof(backing)) && strcmp(backing, path) == 0;
}

/* Mounts what a loop device has; -ENXIO = none has it any more. A device that was given up since it
 * was found can be another file's by now. One that is mounted stays what it is, so that is looked
 * at then. */
static int mount_attached(const char *path, unsigned attrs)
{
    auto_close int mount = -1;
    char device[300];

    if (!find_loop(path, device, sizeof(device)))
        return -ENXIO;
    mount = mount_device(device, attrs);
    if (mount < 0)
        return mount;
    return is_mount_of(mount, path) ? steal_fd(mount) : -ENXIO;
}

static int mount_any(const char *path, unsigned attrs, bool scan, struct err *err)
{
    int r = -EBUSY;

    for (int tries = 0; tries < TRIES; tries++) {
        auto_close int image = regular_open(AT_FDCWD, path, O_RDWR, 0, err);

        if (image < 0)
            return -1;
        if (scan && (r = mount_attached(path, attrs)) >= 0)
            return r;
        if (image_lock(image))
            return image_check(path, image, err) < 0 ? -1 : image_mount(image, attrs, err);
        /* A device has it, unless that is being given up, or is being set up by another. */
        r = mount_attached(path, attrs);
        if (r >= 0)
            return r;
        (void)poll(NULL, 0, 1 + tries);
    }
    return err_sys(err, -r, "mount %s", path);
}

/* It is gone, or no filesystem: trying again does not help, but people can. */
static bool is_lost(int sys)
{
    return sys == ENOENT || sys == EISDIR || sys == ELOOP || sys == ENXIO || sys == EINVAL ||
           sys == EUCLEAN || sys == EBADMSG;
}

int image_mount_any(const char *path, unsigned attrs, bool scan, struct err *err)
{
    struct err why = {0};
    int r = mount_any(path, attrs, scan, &why);

    if (r >= 0)
        return r;
    if (is_lost(why.sys)) {
        log_error("a disk is gone or damaged", "file", path, "error", why.text);
        return err_code(err, ERR_CONFLICT, "disk_damaged",
                        "%s is gone from the host's disk or damaged (%s): put a copy of it back, "
                        "or remove what it belongs to",
                        strrchr(path, '/') + 1, strerror(why.sys));
    }
    if (err)
        *err = why;
    return -1;
}
