#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "runtime/native/disk_internal.h"
#include "runtime/native/native_internal.h"

/* Volumes: sparse ext4 images with a journal, <data>/volumes/<id>.img, with ids from 0 to 65,535 as
 * they are in a box. One is on one loop device however many boxes have it: two filesystems on one
 * file would destroy it. Who holds it after a restart is found by the device that has the file.
 *
 * The end of a file's name says whose it is: ".new" nobody's yet, ".gone" nobody's any more. */

static const char *const stage_ends[] = {
    [VOLUME_NEW] = ".img.new", [VOLUME_KEPT] = ".img", [VOLUME_DOOMED] = ".img.gone"};

static char *path_of(const struct native *n, const char *id, enum volume_stage stage)
{
    return xasprintf("%s/volumes/%s%s", n->data_dir, id, stage_ends[stage]);
}

/* Waits for the disk: names in the folder are as they are from here on. */
static int sync_folder(const struct native *n)
{
    auto_free char *path = xasprintf("%s/volumes", n->data_dir);
    auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* ---- making one ---- */

/* Without blocks kept for root; tables are left as they are, zeroes of a new file. */
static int format(const char *image, struct err *err)
{
    const char *const argv[] = {"/sbin/mke2fs",
                                "-q",
                                "-F",
                                "-t",
                                "ext4",
                                "-m",
                                "0",
                                "-b",
                                "4096",
                                "-i",
                                "16384",
                                "-O",
                                "^resize_inode,sparse_super2",
                                "-E",
                                "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0,"
                                "num_backup_sb=0",
                                image,
                                NULL};
    int status = disk_tool(argv, err);

    if (status < 0)
        return -1;
    return status == 0 ? 0 : err_set(err, ERR_INTERNAL, "mke2fs failed with status %d", status);
}

/* Anybody in a box may write there, whoever its image runs commands as. Only a check of the
 * filesystem wants lost+found, and makes it then. */
static int furnish(int image, struct err *err)
{
    auto_close int mount = image_mount(image, 0, err), root = -1;

    if (mount < 0)
        return -1;
    root = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || unlinkat(root, "lost+found", AT_REMOVEDIR) < 0 || fchmod(root, 0777) < 0 ||
        syncfs(root) < 0)
        return err_sys(err, errno, "set up the volume");
    return 0;
}

static int make_image(const char *path, uint32_t mb, struct err *err)
{
    auto_close int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0 || ftruncate(fd, (off_t)mb << 20) < 0)
        return err_sys(err, errno, "make %s", path);
    if (format(path, err) < 0 || furnish(fd, err) < 0)
        return -1;
    return fsync(fd) < 0 ? err_sys(err, errno, "write %s", path) : 0;
}

int native_volume_make(struct runtime *rt, const char *id, uint32_t mb, struct err *err)
{
    auto_free char *path = path_of(native_of(rt), id, VOLUME_NEW);
    int r;

    r = make_image(path, mb, err);
    if (r == 0 && (r = sync_folder(native_of(rt))) < 0)
        (void)err_sys(err, -r, "make %s", path);
    if (r < 0)
        (void)unlink(path);
    return r < 0 ? err_no_space(err, "free some space on the host") : 0;
}

/* On failure it has its old name. */
static int rename_to(struct native *n, const char *id, enum volume_stage from, enum volume_stage to,
                     struct err *err)
{
    auto_free char *old = path_of(n, id, from);
    auto_free char *new = path_of(n, id, to);
    int r;

    if (rename(old, new) < 0)
        return err_sys(err, errno, "rename %s", old);
    r = sync_folder(n);
    if (r == 0)
        return 0;
    (void)rename(new, old);
    return err_sys(err, -r, "rename %s", old);
}

int native_volume_keep(struct runtime *rt, const char *id, struct err *err)
{
    return rename_to(native_of(rt), id, VOLUME_NEW, VOLUME_KEPT, err);
}

/* Of one whose file somebody has taken away there is a document still, which can go. */
int native_volume_doom(struct runtime *rt, const char *id, struct err *err)
{
    auto_free char *path = path_of(native_of(rt), id, VOLUME_KEPT);
    struct stat st;

    if (lstat(path, &st) < 0 && errno == ENOENT)
        return 0; /* somebody took it away: there is nothing left but its document */
    return rename_to(native_of(rt), id, VOLUME_KEPT, VOLUME_DOOMED, err);
}

int native_volume_remove(struct runtime *rt, const char *id, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(stage_ends); i++) {
        auto_free char *path = path_of(native_of(rt), id, (enum volume_stage)i);

        if (unlink(path) < 0 && errno != ENOENT)
            return err_sys(err, errno, "remove %s", path);
    }
    return 0;
}

static void tell_found(const char *name,
                       void (*found)(const char *id, enum volume_stage stage, void *arg), void *arg)
{
    for (size_t i = 0; i < ARRAY_LEN(stage_ends); i++) {
        size_t len = strlen(name), end = strlen(stage_ends[i]);
        char id[ID_SIZE];

        if (!str_ends(name, stage_ends[i]) || len - end >= sizeof(id))
            continue;
        (void)snprintf(id, sizeof(id), "%.*s", (int)(len - end), name);
        if (id_valid(id, "vol"))
            found(id, (enum volume_stage)i, arg);
    }
}

void native_volume_each(struct runtime *rt,
                        void (*found)(const char *id, enum volume_stage stage, void *arg),
                        void *arg)
{
    auto_free char *path = xasprintf("%s/volumes", native_of(rt)->data_dir);
    DIR *dir = opendir(path);
    struct dirent *e;

    while (dir && (e = readdir(dir)))
        tell_found(e->d_name, found, arg);
    if (dir)
        (void)closedir(dir);
}

/* ---- mounting one ---- */

static uint64_t usual_reserve(const char *path)
{
    struct stat st;
    uint64_t blocks = stat(path, &st) < 0 ? 0 : (uint64_t)st.st_size / 4096 / 50;

    return blocks < 4096 ? blocks : 4096;
}

static int keep_blocks(int mount, uint64_t blocks)
{
    char device[64], path[128], text[24];
    int r = disk_device(mount, device, sizeof(device));

    if (r < 0)
        return r;
    (void)snprintf(path, sizeof(path), "/sys/fs/ext4/%s/reserved_clusters", device);
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)blocks);
    return write_file_at(AT_FDCWD, path, text);
}

/* base: a mount of it that this daemon has. At the first one a lease of the daemon before ends. */
int native_volume_open(struct runtime *rt, const char *id, int base, int *ret_fd, struct err *err)
{
    auto_free char *path = path_of(native_of(rt), id, VOLUME_KEPT);
    int m;

    if (base >= 0) {
        m = image_mount_again(base);
        if (m < 0)
            return err_set(err, ERR_INTERNAL, "the volume %s cannot be mounted again", id);
    } else {
        m = image_mount_any(path, 0, false, err);
        if (m < 0)
            return -1;
        (void)keep_blocks(m, usual_reserve(path));
    }
    *ret_fd = m;
    return 0;
}

int native_volume_room(struct runtime *rt, const char *id, int fd, struct disk_room *ret,
                       struct err *err)
{
    auto_free char *path = path_of(native_of(rt), id, VOLUME_KEPT);
    struct statvfs fs;
    struct stat st;

    if (stat(path, &st) < 0)
        return err_sys(err, errno, "look at the volume %s", id);
    ret->backed = ret->used = (uint64_t)st.st_blocks * 512;
    ret->size = (uint64_t)st.st_size;
    if (fd < 0)
        return 0;
    if (fstatvfs(fd, &fs) < 0)
        return err_sys(err, errno, "look at the volume %s", id);
    ret->used = (fs.f_blocks - fs.f_bfree) * fs.f_frsize + (fs.f_files - fs.f_ffree) * 256;
    return 0;
}

int native_volume_lease(struct runtime *rt, const char *id, int fd, uint64_t more, struct err *err)
{
    auto_free char *path = path_of(native_of(rt), id, VOLUME_KEPT);
    uint64_t keep = usual_reserve(path);
    struct statvfs fs;
    int r;

    if (fstatvfs(fd, &fs) < 0)
        return err_sys(err, errno, "look at the volume %s", id);
    if (more / fs.f_frsize < fs.f_bfree && fs.f_bfree - more / fs.f_frsize > keep)
        keep = fs.f_bfree - more / fs.f_frsize;
    r = keep_blocks(fd, keep);
    return r < 0 ? err_sys(err, -r, "bound the volume %s", id) : 0;
}
