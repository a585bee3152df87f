#include "runtime/native/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "runtime/native/disk_internal.h"
#include "runtime/native/disk_spares.h"
#include "runtime/native/quota.h"
#include "runtime/runtime.h"

/* EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH; they are in no public header. */
#define SHUTDOWN_IOCTL    _IOR('X', 125, uint32_t)
#define SHUTDOWN_NO_FLUSH 2u

#define BLOCK         4096 /* of the filesystems that are made here */
#define INODE         256
#define TEMPLATES_MAX 32

struct disk {
    char *dir;     /* <data>/sandboxes */
    char *scratch; /* <data>/scratch: templates */
    bool quota;
    struct spares *spares; /* not with a quota */
    pthread_mutex_t lock;  /* making of templates */
};

static int make_dir(const char *path, struct err *err)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make %s", path);
    return 0;
}

static void end_lease(const struct disk *d, const char *device);

/* Of a daemon that ended while it had some out; this one gives its own. */
static void end_leases(const struct disk *d)
{
    DIR *dir = opendir("/sys/fs/ext4");
    struct dirent *e;

    while (dir && (e = readdir(dir)))
        if (str_starts(e->d_name, "loop"))
            end_lease(d, e->d_name);
    if (dir)
        (void)closedir(dir);
}

int disk_open(const char *data_dir, struct disk **ret, struct err *err)
{
    struct disk *d = xcalloc(1, sizeof(*d));
    auto_free char *spares = xasprintf("%s/scratch/spares", data_dir);

    d->dir = xasprintf("%s/sandboxes", data_dir);
    d->scratch = xasprintf("%s/scratch", data_dir);
    (void)pthread_mutex_init(&d->lock, NULL);
    if (make_dir(d->dir, err) < 0 || make_dir(d->scratch, err) < 0) {
        disk_free(d);
        return -1;
    }
    d->quota = quota_works(d->dir);
    if (!d->quota) {
        end_leases(d);
        d->spares = spares_open(spares);
    }
    *ret = d;
    return 0;
}

void disk_free(struct disk *d)
{
    if (!d)
        return;
    spares_free(d->spares);
    free(d->dir);
    free(d->scratch);
    (void)pthread_mutex_destroy(&d->lock);
    free(d);
}

const char *disk_kind(const struct disk *d)
{
    return d->quota ? "project quota" : "loop";
}

/* ---- templates ---- */

static int run_mke2fs(const char *image, const char *root, uint32_t mb, struct err *err)
{
    /* No journal: a box's disk is thrown away after a crash. Tables are left uninitialised, so that
     * a copy is a few blocks. The daemon's own path, not the box's, says which program runs. */
    auto_free char *size = xasprintf("%um", mb);
    char *argv[] = {(char[]){"mke2fs"},
                    (char[]){"-q"},
                    (char[]){"-F"},
                    (char[]){"-t"},
                    (char[]){"ext4"},
                    (char[]){"-m"},
                    (char[]){"0"},
                    (char[]){"-i"},
                    (char[]){"16384"},
                    (char[]){"-b"},
                    (char[]){"4096"}, /* BLOCK */
                    (char[]){"-O"},
                    (char[]){"^has_journal,^resize_inode,sparse_super2"},
                    (char[]){"-E"},
                    (char[]){"lazy_itable_init=1,nodiscard,root_owner=0:0,num_backup_sb=0"},
                    (char[]){"-d"},
                    (char *)(uintptr_t)root,
                    (char *)(uintptr_t)image,
                    size,
                    NULL};
    char *envp[] = {(char[]){"PATH=/usr/sbin:/sbin:/usr/bin:/bin"}, (char[]){"LC_ALL=C"}, NULL};
    int status = 0, r;
    pid_t pid;

    r = posix_spawn(&pid, "/sbin/mke2fs", NULL, NULL, argv, envp);
    if (r == ENOENT)
        return err_set(err, ERR_UNAVAILABLE,
                       "mke2fs is needed for the disks of sandboxes; install e2fsprogs");
    if (r != 0)
        return err_sys(err, r, "run mke2fs");
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(err, errno, "wait for mke2fs");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(err, ERR_INTERNAL, "mke2fs failed with status %d", WEXITSTATUS(status));
    return 0;
}

/* mke2fs announces a file that it has to make itself. */
static int make_empty(const char *path, struct err *err)
{
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

    return fd < 0 ? err_sys(err, errno, "make %s", path) : 0;
}

static int make_template(struct disk *d, const char *path, uint32_t mb, struct err *err)
{
    auto_free char *tmp = xasprintf("%s.tmp", path);
    auto_free char *root = xasprintf("%s/root", d->scratch);
    int r = make_dir(root, err);

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(disk_folders); i++) {
        auto_free char *dir = xasprintf("%s/%s", root, disk_folders[i]);

        r = make_dir(dir, err);
    }
    if (r == 0)
        r = make_empty(tmp, err);
    if (r == 0)
        r = run_mke2fs(tmp, root, mb, err);
    if (r == 0 && rename(tmp, path) < 0)
        r = err_sys(err, errno, "rename %s", tmp);
    if (r < 0)
        (void)unlink(tmp);
    return r;
}

/* Callers choose sizes: of the templates those stay that were used last. */
static void drop_oldest_template(struct disk *d)
{
    struct timespec oldest = {0};
    char name[NAME_MAX + 1] = "";
    DIR *dir = opendir(d->scratch);
    struct dirent *e;
    unsigned n = 0;

    while (dir && (e = readdir(dir))) {
        struct stat st;

        if (!str_starts(e->d_name, "template-") || !str_ends(e->d_name, ".img") ||
            fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (n++ > 0 && (st.st_mtim.tv_sec > oldest.tv_sec || (st.st_mtim.tv_sec == oldest.tv_sec &&
                                                              st.st_mtim.tv_nsec > oldest.tv_nsec)))
            continue;
        oldest = st.st_mtim;
        (void)snprintf(name, sizeof(name), "%s", e->d_name);
    }
    if (n > TEMPLATES_MAX)
        (void)unlinkat(dirfd(dir), name, 0);
    if (dir)
        (void)closedir(dir);
}

static int open_template(struct disk *d, uint32_t mb, struct err *err)
{
    auto_free char *path = xasprintf("%s/template-%u.img", d->scratch, mb);
    int fd, r = 0;

    (void)pthread_mutex_lock(&d->lock);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        r = make_template(d, path, mb, err);
        fd = r < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        drop_oldest_template(d);
    } else if (fd >= 0) {
        (void)futimens(fd, NULL);
    }
    if (fd < 0 && r == 0)
        r = err_sys(err, errno, "open %s", path);
    (void)pthread_mutex_unlock(&d->lock);
    return r < 0 ? -1 : fd;
}

/* ---- a loop disk ---- */

static int copy_sparse(int from, int to)
{
    struct stat st;
    off_t at = 0;

    if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
        return -errno;
    for (;;) {
        loff_t in, out;
        off_t hole;

        at = lseek(from, at, SEEK_DATA);
        if (at < 0)
            return errno == ENXIO ? 0 : -errno;
        hole = lseek(from, at, SEEK_HOLE);
        for (in = out = at; in < hole;) {
            ssize_t n = copy_file_range(from, &in, to, &out, (size_t)(hole - in), 0);

            if (n <= 0)
                return n < 0 ? -errno : -EIO;
        }
        at = hole;
    }
}

/* A free loop device set up on file: its path is in name. Another program can take the device
 * between asking for it and setting it up; then we ask again. */
static int loop_attach(int file, char *name, size_t size)
{
    auto_close int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

    if (control < 0)
        return -errno;
    for (int tries = 0; tries < 64; tries++) {
        struct loop_config config = {
            .fd = (uint32_t)file, .block_size = 4096, .info.lo_flags = LO_FLAGS_AUTOCLEAR};
        auto_close int loop = -1;
        int n = ioctl(control, LOOP_CTL_GET_FREE);

        if (n < 0)
            return -errno;
        (void)snprintf(name, size, "/dev/loop%d", n);
        loop = open(name, O_RDWR | O_CLOEXEC);
        if (loop < 0)
            return -errno;
        if (ioctl(loop, LOOP_CONFIGURE, &config) == 0)
            return steal_fd(loop);
        if (errno != EBUSY)
            return -errno;
    }
    return -EBUSY;
}

static int mount_device(const char *device, unsigned attrs, struct err *err)
{
    auto_close int fs = fsopen("ext4", FSOPEN_CLOEXEC);
    int m;

    if (fs < 0)
        return err_sys(err, errno, "open ext4");
    if (fsconfig(fs, FSCONFIG_SET_STRING, "source", device, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FLAG, "discard", NULL, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FLAG, "noinit_itable", NULL, 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return err_sys(err, errno, "mount %s", device);
    m = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | attrs);
    return m < 0 ? err_sys(err, errno, "mount %s", device) : m;
}

static int mount_image(int image, unsigned attrs, struct err *err)
{
    char device[64];
    auto_close int loop = loop_attach(image, device, sizeof(device));

    if (loop < 0)
        return err_sys(err, -loop, "attach a loop device (are loop devices available?)");
    return mount_device(device, attrs, err);
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

/* Can the mount be attached somewhere? Where overlays take their folders by path, the launcher
 * attached it and took it down, and it cannot be again. What is set here is set already. */
static bool is_whole(int mount)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID};

    return mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof(attr)) == 0;
}

/* Another mount of the same filesystem. */
static int mount_again(int mount)
{
    char name[64], device[80];

    if (disk_device(mount, name, sizeof(name)) < 0)
        return -1;
    (void)snprintf(device, sizeof(device), "/dev/%s", name);
    return mount_device(device, 0, NULL);
}

/* The disk of a box that is gone, with its mount if that will do: closing one waits for an RCU
 * grace period. */
static int take_spare(struct disk *d, const char *path, uint32_t mb, unsigned *ret_lives)
{
    auto_close int fd = spares_take(d->spares, path, mb, ret_lives);
    int m;

    if (fd < 0 || is_whole(fd))
        return steal_fd(fd);
    m = mount_again(fd);
    if (m < 0)
        (void)unlink(path);
    return m;
}

/* The first folder and file of a new filesystem read its bitmaps and tables from the loop device; a
 * mount of an overlay makes some, and somebody waits for that. */
static void warm_up(int mount)
{
    if (mkdirat(mount, "work/warm", 0700) < 0)
        return;
    close_fd(&(int){openat(mount, "work/warm/f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)});
    (void)unlinkat(mount, "work/warm/f", 0);
    (void)unlinkat(mount, "work/warm", AT_REMOVEDIR);
}

static int make_loop(struct disk *d, const char *path, uint32_t mb, struct err *err)
{
    auto_close int from = open_template(d, mb, err);
    auto_close int image = -1;
    int r;

    if (from < 0)
        return -1;
    image = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (image < 0)
        return err_sys(err, errno, "make %s", path);
    r = copy_sparse(from, image);
    if (r < 0) {
        (void)unlink(path);
        return err_sys(err, -r, "copy the template of the disk");
    }
    r = mount_image(image, 0, err);
    if (r < 0)
        (void)unlink(path);
    else
        warm_up(r);
    return r;
}

/* ---- either kind ---- */

static char *path_of(const struct disk *d, const char *id)
{
    return xasprintf("%s/%s%s", d->dir, id, d->quota ? "" : ".img");
}

/* upper/ becomes the root of the box, logs/ is the agent's; work/ stays the host's. */
static int give_to(int mount, uint32_t owner, struct err *err)
{
    if (fchownat(mount, "upper", owner, owner, AT_SYMLINK_NOFOLLOW) < 0 ||
        fchmodat(mount, "upper", 0755, 0) < 0 ||
        fchownat(mount, "logs", owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, errno, "set the owner of the disk");
    return 0;
}

static int make_either(struct disk *d, const char *path, uint32_t mb, uint32_t owner,
                       unsigned *ret_lives, struct err *err)
{
    int mount;

    *ret_lives = 0;
    if (d->quota)
        return quota_make(path, disk_folders, ARRAY_LEN(disk_folders), mb, owner, err);
    mount = take_spare(d, path, mb, ret_lives);
    return mount >= 0 ? mount : make_loop(d, path, mb, err);
}

int disk_make(struct disk *d, const char *id, uint32_t mb, uint32_t owner, int *ret_fd,
              unsigned *ret_lives, struct err *err)
{
    auto_free char *path = path_of(d, id);
    auto_close int mount = make_either(d, path, mb, owner, ret_lives, err);

    if (mount < 0)
        return -1;
    if (give_to(mount, owner, err) < 0) {
        close_fd(&mount);
        (void)disk_remove(d, id, NULL);
        return -1;
    }
    *ret_fd = steal_fd(mount);
    return 0;
}

/* One part of a path below *at, which becomes that part. */
static int make_part(int *at, const char *name, uint32_t mode, uint32_t owner)
{
    int fd;

    if (mkdirat(*at, name, 0700) == 0) {
        if (fchmodat(*at, name, mode, 0) < 0 ||
            fchownat(*at, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
    } else if (errno != EEXIST) {
        return -errno;
    }
    fd = openat(*at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    close_fd(at);
    *at = fd;
    return 0;
}

int disk_make_dir(int fd, const char *path, uint32_t mode, uint32_t owner, struct err *err)
{
    auto_close int at = openat(fd, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    auto_free char *parts = xstrdup(path);
    char *rest = NULL, *name = strtok_r(parts, "/", &rest);
    int r = at < 0 ? -errno : 0;

    while (r == 0 && name) {
        const char *part = name;

        name = strtok_r(NULL, "/", &rest);
        r = make_part(&at, part, name ? 0755 : mode, owner);
    }
    return r < 0 ? err_sys(err, -r, "make %s on the disk", path) : 0;
}

/* The file that a loop device is on. */
static bool read_backing(const char *device, char *backing, size_t size)
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

        if (!str_starts(e->d_name, "loop") || !read_backing(e->d_name, backing, sizeof(backing)))
            continue;
        found = strcmp(backing, file) == 0;
        if (found)
            (void)snprintf(name, size, "/dev/%s", e->d_name);
    }
    if (dir)
        (void)closedir(dir);
    return found;
}

/* A second mount of a device that is mounted is the same filesystem. */
static int mount_view(const char *path, struct err *err)
{
    auto_close int image = -1;
    char device[300];

    if (find_loop(path, device, sizeof(device)))
        return mount_device(device, MOUNT_ATTR_RDONLY, err);
    image = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (image < 0)
        return err_sys(err, errno, "open %s", path);
    return mount_image(image, MOUNT_ATTR_RDONLY, err);
}

int disk_view(struct disk *d, const char *id, int *ret_fd, struct err *err)
{
    auto_free char *path = path_of(d, id);
    auto_close int mount = d->quota ? open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                                    : mount_view(path, err);
    int fd;

    if (mount < 0)
        return d->quota ? err_sys(err, errno, "open %s", path) : -1;
    fd = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "open %s", path);
    *ret_fd = fd;
    return 0;
}

void disk_shut_down(int fd)
{
    auto_close int root = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint32_t how = SHUTDOWN_NO_FLUSH;

    if (root >= 0)
        (void)ioctl(root, SHUTDOWN_IOCTL, &how);
}

int disk_retire(struct disk *d, const char *id, int fd, uint32_t mb, unsigned lives,
                struct err *err)
{
    auto_free char *path = path_of(d, id);

    if (!d->quota && spares_put(d->spares, path, mb, lives, fd))
        return 0;
    if (!d->quota)
        disk_shut_down(fd);
    close_fd(&fd);
    return disk_remove(d, id, err);
}

int disk_remove(struct disk *d, const char *id, struct err *err)
{
    auto_free char *path = path_of(d, id);

    if (d->quota)
        return quota_remove(d->dir, id, err);
    if (unlink(path) < 0 && errno != ENOENT)
        return err_sys(err, errno, "remove %s", path);
    return 0;
}

uint64_t disk_used(struct disk *d, const char *id)
{
    auto_free char *path = path_of(d, id);
    struct stat st;

    if (d->quota)
        return quota_used(path);
    return stat(path, &st) < 0 ? 0 : (uint64_t)st.st_blocks * 512;
}

int disk_room(struct disk *d, const char *id, int fd, struct disk_room *ret, struct err *err)
{
    struct statvfs st;

    ret->backed = disk_used(d, id);
    ret->used = ret->backed;
    if (d->quota)
        return 0;
    if (fstatvfs(fd, &st) < 0)
        return err_sys(err, errno, "look at the disk of %s", id);
    /* The table of files is no part of the blocks that are counted, but takes room as it is used.
     */
    ret->used =
        (st.f_blocks - st.f_bfree) * st.f_frsize + (st.f_files - st.f_ffree) * (uint64_t)INODE;
    return 0;
}

/* As ext4 does itself when it is mounted: two of a hundred blocks, and no more than 4,096. */
static uint64_t usual_reserve(const char *path)
{
    struct stat st;
    uint64_t blocks = stat(path, &st) < 0 ? 0 : (uint64_t)st.st_size / BLOCK / 50;

    return blocks < 4096 ? blocks : 4096;
}

static int keep_blocks(const char *device, uint64_t blocks)
{
    char path[320], text[24];

    (void)snprintf(path, sizeof(path), "/sys/fs/ext4/%s/reserved_clusters", device);
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)blocks);
    return write_file_at(AT_FDCWD, path, text);
}

static void end_lease(const struct disk *d, const char *device)
{
    char backing[4096];

    if (read_backing(device, backing, sizeof(backing)) && str_starts(backing, d->dir))
        (void)keep_blocks(device, usual_reserve(backing));
}

/* Of the blocks that ext4 keeps for itself only it takes any, to write out what was accepted: what
 * is counted as kept cannot be promised to anybody inside. */
int disk_lease(struct disk *d, const char *id, int fd, uint64_t more, struct err *err)
{
    auto_free char *image = path_of(d, id);
    uint64_t keep = usual_reserve(image);
    struct statvfs st;
    char device[64];
    int r;

    if (d->quota)
        return 0;
    if (fstatvfs(fd, &st) < 0)
        return err_sys(err, errno, "look at the disk of %s", id);
    r = disk_device(fd, device, sizeof(device));
    if (r < 0)
        return err_sys(err, -r, "find the loop device of %s", id);
    if (more / BLOCK < st.f_bfree && st.f_bfree - more / BLOCK > keep)
        keep = st.f_bfree - more / BLOCK;
    r = keep_blocks(device, keep);
    return r < 0 ? err_sys(err, -r, "bound the disk of %s", id) : 0;
}

bool disk_find(const struct disk *d, const char *id, char *ret, size_t size)
{
    auto_free char *path = path_of(d, id);

    if (access(path, F_OK) < 0)
        return false;
    (void)snprintf(ret, size, "%s", path);
    return true;
}

int64_t disk_owner(struct disk *d, const char *id)
{
    auto_close int fd = -1;
    struct stat st;

    if (disk_view(d, id, &fd, NULL) < 0 || fstatat(fd, "upper", &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    return st.st_uid;
}

void disk_each(struct disk *d, void (*found)(const char *id, void *arg), void *arg)
{
    DIR *dir = opendir(d->dir);
    struct dirent *e;

    while (dir && (e = readdir(dir))) {
        char id[ID_SIZE + 8];

        (void)snprintf(id, sizeof(id), "%.*s", (int)sizeof(id) - 1, e->d_name);
        if (!d->quota && str_ends(id, ".img"))
            id[strlen(id) - 4] = '\0';
        if (id_valid(id, "sbx"))
            found(id, arg);
    }
    if (dir)
        (void)closedir(dir);
}
