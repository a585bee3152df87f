#include "runtime/native/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/regular.h"
#include "base/remove.h"
#include "base/str.h"
#include "runtime/native/disk_internal.h"
#include "runtime/native/disk_spares.h"
#include "runtime/native/quota.h"
#include "runtime/runtime.h"

/* EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH; they are in no public header. */
#define SHUTDOWN_IOCTL    _IOR('X', 125, uint32_t)
#define SHUTDOWN_NO_FLUSH 2u

#define INODE 256

struct disk {
    char *dir;     /* <data>/sandboxes */
    char *scratch; /* <data>/scratch: templates */
    bool quota;
    bool unlocked; /* an older version made loop devices that are there still: see image_lock() */
    struct spares *spares; /* not with a quota */
    pthread_mutex_t lock;  /* making of templates */
};

static int make_dir(const char *path, struct err *err)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make %s", path);
    return 0;
}

static void end_lease(const char *device, const char *image);

static bool is_unlocked(const char *image)
{
    auto_close int fd = regular_open(AT_FDCWD, image, O_RDONLY, 0, NULL);

    return fd >= 0 && image_lock(fd);
}

/* What a daemon before us left mounted. Leases that it had out end; this one gives its own. */
static void look_at_mounted(struct disk *d)
{
    DIR *dir = opendir("/sys/fs/ext4");
    struct dirent *e;

    while (dir && (e = readdir(dir))) {
        char image[4096];

        if (!str_starts(e->d_name, "loop") || !loop_backing(e->d_name, image, sizeof(image)) ||
            !str_starts(image, d->dir))
            continue;
        end_lease(e->d_name, image);
        d->unlocked |= is_unlocked(image);
    }
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
        look_at_mounted(d);
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

/* Can the mount be attached somewhere? Where overlays take their folders by path, the launcher
 * attached it and took it down, and it cannot be again. What is set here is set already. */
static bool is_whole(int mount)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID};

    return mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof(attr)) == 0;
}

/* The disk of a box that is gone, with its mount if that will do: closing one waits for an RCU
 * grace period. */
static int take_spare(struct disk *d, const char *path, uint32_t mb, unsigned *ret_lives)
{
    auto_close int fd = spares_take(d->spares, path, mb, ret_lives);
    int m;

    if (fd < 0 || is_whole(fd))
        return steal_fd(fd);
    m = image_mount_again(fd);
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

static int open_template(struct disk *d, uint32_t mb, struct err *err)
{
    int fd;

    (void)pthread_mutex_lock(&d->lock);
    fd = template_open(d->scratch, mb, err);
    (void)pthread_mutex_unlock(&d->lock);
    return fd;
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
    r = image_mount(image, 0, err);
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

/* upper/ becomes the root of the box, logs/ is the agent's; work/ stays the host's. The owner of
 * upper/ comes last: a disk on which that is set has all of it. */
static int give_to(int mount, uint32_t owner, struct err *err)
{
    if (fchmodat(mount, "upper", 0755, 0) < 0 ||
        fchownat(mount, "logs", owner, owner, AT_SYMLINK_NOFOLLOW) < 0 ||
        fchownat(mount, "upper", owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, errno, "set the owner of the disk");
    return 0;
}

static int make_either(struct disk *d, const char *path, uint32_t mb, uint32_t owner,
                       unsigned *ret_lives, struct err *err)
{
    int mount;

    *ret_lives = 0;
    if (d->quota)
        return quota_make(path, disk_folders, DISK_FOLDERS, mb, owner, err);
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

/* A power cut soon after a disk was made, or was made ready for another, leaves it as it was before
 * that. */
static int make_missing(int mount, uint32_t owner, struct err *err)
{
    struct stat upper;

    for (size_t i = 0; i < DISK_FOLDERS; i++)
        if (mkdirat(mount, disk_folders[i], 0700) < 0 && errno != EEXIST)
            return err_sys(err, errno, "make the folders of the disk");
    if (fstatat(mount, "upper", &upper, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, errno, "look at the disk");
    return upper.st_uid == 0 ? give_to(mount, owner, err) : 0;
}

/* work/ has nothing that anybody needs, but in one of an older version a word that its overlay
 * cannot be mounted again, since it was volatile. */
static int make_fit(int mount, uint32_t owner, struct err *err)
{
    int r = remove_tree(mount, "work");

    if (r < 0)
        return err_sys(err, -r, "empty the work folder of the disk");
    return make_missing(mount, owner, err);
}

int disk_mount(struct disk *d, const char *id, uint32_t owner, int *ret_fd, struct err *err)
{
    auto_free char *path = path_of(d, id);
    auto_close int mount = d->quota ? open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)
                                    : image_mount_any(path, 0, d->unlocked, err);

    if (mount < 0)
        return d->quota ? err_sys(err, errno, "open %s", path) : -1;
    if (make_fit(mount, owner, err) < 0)
        return -1;
    *ret_fd = steal_fd(mount);
    return 0;
}

int disk_view(struct disk *d, const char *id, int *ret_fd, struct err *err)
{
    auto_free char *path = path_of(d, id);
    auto_close int mount = d->quota ? open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                                    : image_mount_any(path, MOUNT_ATTR_RDONLY, d->unlocked, err);
    int fd;

    if (mount < 0)
        return d->quota ? err_sys(err, errno, "open %s", path) : -1;
    fd = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "open %s", path);
    *ret_fd = fd;
    return 0;
}

int disk_flush(int fd, const char *id, struct err *err)
{
    auto_close int root = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (root < 0 || syncfs(root) < 0)
        return err_sys(err, errno, "write out the disk of %s", id);
    return 0;
}

void disk_shut_down(int fd)
{
    auto_close int root = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint32_t how = SHUTDOWN_NO_FLUSH;

    if (root >= 0)
        (void)ioctl(root, SHUTDOWN_IOCTL, &how);
}

void disk_give_up(const struct disk *d, int fd)
{
    if (!d->quota)
        disk_shut_down(fd);
}

int disk_retire(struct disk *d, const char *id, struct disk_left left, struct err *err)
{
    auto_free char *path = path_of(d, id);

    if (!d->quota && spares_put(d->spares, path, &left))
        return 0;
    disk_give_up(d, left.fd);
    close_fd(&left.root);
    close_fd(&left.fd);
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
    /* The table of files is no part of the blocks that are counted, but takes room as it is used;
     * nor is the journal, all of which can be written at any time. */
    ret->used = (st.f_blocks - st.f_bfree) * st.f_frsize +
                (st.f_files - st.f_ffree) * (uint64_t)INODE + ((uint64_t)DISK_JOURNAL_MB << 20);
    return 0;
}

/* As ext4 does itself when it is mounted: two of a hundred blocks, and no more than 4,096. */
static uint64_t usual_reserve(const char *path)
{
    struct stat st;
    uint64_t blocks = stat(path, &st) < 0 ? 0 : (uint64_t)st.st_size / DISK_BLOCK / 50;

    return blocks < 4096 ? blocks : 4096;
}

static int keep_blocks(const char *device, uint64_t blocks)
{
    char path[320], text[24];

    (void)snprintf(path, sizeof(path), "/sys/fs/ext4/%s/reserved_clusters", device);
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)blocks);
    return write_file_at(AT_FDCWD, path, text);
}

static void end_lease(const char *device, const char *image)
{
    (void)keep_blocks(device, usual_reserve(image));
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
    if (more / DISK_BLOCK < st.f_bfree && st.f_bfree - more / DISK_BLOCK > keep)
        keep = st.f_bfree - more / DISK_BLOCK;
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
