#include "runtime/native/quota.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/quota.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/remove.h"

/* quotactl_fd() names the filesystem by a descriptor (5.14), so no device path is needed. */
static int quota_call(int fd, unsigned cmd, uint32_t id, void *arg)
{
    return syscall(SYS_quotactl_fd, fd, QCMD(cmd, PRJQUOTA), id, arg) < 0 ? -errno : 0;
}

/* XFS alone answers ENOSPC at a project's limit, as programs expect of a full disk; ext4 says
 * EDQUOT. */
bool quota_works(const char *dir)
{
    struct fs_quota_statv state = {.qs_version = FS_QSTATV_VERSION1};
    auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct statfs fs;

    return fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == XFS_SUPER_MAGIC &&
           quota_call(fd, Q_XGETQSTATV, 0, &state) == 0 && (state.qs_flags & FS_QUOTA_PDQ_ENFD);
}

static int set_project(int fd, uint32_t project)
{
    struct fsxattr attr;

    if (ioctl(fd, FS_IOC_FSGETXATTR, &attr) < 0)
        return -errno;
    attr.fsx_projid = project;
    attr.fsx_xflags |= FS_XFLAG_PROJINHERIT;
    return ioctl(fd, FS_IOC_FSSETXATTR, &attr) < 0 ? -errno : 0;
}

static int set_limit(int fd, uint32_t project, uint32_t mb)
{
    struct fs_disk_quota q = {
        .d_version = FS_DQUOT_VERSION,
        .d_flags = FS_PROJ_QUOTA,
        .d_id = project,
        .d_fieldmask = FS_DQ_BHARD | FS_DQ_IHARD,
        .d_blk_hardlimit = (uint64_t)mb << 11, /* units of 512 bytes */
        .d_ino_hardlimit = (uint64_t)mb << 6,  /* one for 16 KiB, as the image disks have */
    };

    return quota_call(fd, Q_XSETQLIM, project, &q);
}

int quota_make(const char *path, const char *const *folders, size_t n, uint32_t mb,
               uint32_t project, struct err *err)
{
    auto_close int fd = -1;
    int m, r;

    if (mkdir(path, 0700) < 0)
        return err_sys(err, errno, "make %s", path);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r = fd < 0 ? -errno : set_project(fd, project);
    if (r == 0)
        r = set_limit(fd, project, mb);
    for (size_t i = 0; r == 0 && i < n; i++)
        if (mkdirat(fd, folders[i], 0700) < 0)
            r = -errno;
    if (r < 0) {
        (void)rmdir(path);
        return err_sys(err, -r, "set a project quota on %s", path);
    }
    m = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    return m < 0 ? err_sys(err, errno, "open %s", path) : m;
}

int quota_remove(const char *dir, const char *id, struct err *err)
{
    auto_free char *path = xasprintf("%s/%s", dir, id);
    auto_close int fd = -1;
    struct fsxattr attr = {0};
    int r;

    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "open %s", path);
    (void)ioctl(fd, FS_IOC_FSGETXATTR, &attr);
    r = remove_tree(AT_FDCWD, path);
    if (r < 0)
        return err_sys(err, -r, "remove %s", path);
    if (attr.fsx_projid)
        (void)set_limit(fd, attr.fsx_projid, 0);
    return 0;
}

uint64_t quota_used(const char *path)
{
    struct fs_disk_quota q = {0};
    struct fsxattr attr;
    auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || ioctl(fd, FS_IOC_FSGETXATTR, &attr) < 0 ||
        quota_call(fd, Q_XGETQUOTA, attr.fsx_projid, &q) < 0)
        return 0;
    return q.d_bcount * 512;
}
