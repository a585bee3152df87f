/* The disks of the floor's boxes, made as src/runtime/native/disk.c makes them where there are no
 * project quotas. */

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "floor.h"

#define SHUTDOWN_IOCTL    _IOR('X', 125, uint32_t) /* EXT4_IOC_SHUTDOWN, in no public header */
#define SHUTDOWN_NO_FLUSH 2u
#define DISK_SIZE         "4096m" /* cay's default */

static char *template, *template_root;
static const char *const folders[] = {"upper", "work", "logs"};

static int run_mke2fs(struct err *err)
{
    char *argv[] = {(char[]){"mke2fs"},
                    (char[]){"-qF"},
                    (char[]){"-text4"},
                    (char[]){"-m0"},
                    (char[]){"-i16384"},
                    (char[]){"-b4096"},
                    (char[]){"-O^has_journal,^resize_inode,sparse_super2"},
                    (char[]){"-Elazy_itable_init=1,nodiscard,root_owner=0:0,num_backup_sb=0"},
                    (char[]){"-d"},
                    template_root,
                    template,
                    (char[]){DISK_SIZE},
                    NULL};
    char *envp[] = {(char[]){"PATH=/usr/sbin:/sbin:/usr/bin:/bin"}, NULL};
    int status = 0, r;
    pid_t pid;

    r = posix_spawn(&pid, "/sbin/mke2fs", NULL, NULL, argv, envp);
    if (r != 0)
        return err_sys(err, r, "run mke2fs");
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(err, errno, "wait for mke2fs");
    return status == 0 ? 0 : err_set(err, ERR_INTERNAL, "mke2fs failed");
}

int disk_setup(const char *dir, struct err *err)
{
    template = xasprintf("%s/template", dir);
    template_root = xasprintf("%s/template-root", dir);
    close_fd(&(int){open(template, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)});
    if (mkdir(template_root, 0700) < 0)
        return err_sys(err, errno, "make %s", template_root);
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        auto_free char *path = xasprintf("%s/%s", template_root, folders[i]);

        if (mkdir(path, 0700) < 0)
            return err_sys(err, errno, "make %s", path);
    }
    return run_mke2fs(err);
}

void disk_teardown(void)
{
    for (size_t i = 0; template_root && i < ARRAY_LEN(folders); i++) {
        auto_free char *path = xasprintf("%s/%s", template_root, folders[i]);

        (void)rmdir(path);
    }
    if (template_root)
        (void)rmdir(template_root);
    if (template)
        (void)unlink(template);
}

static int copy_template(int to)
{
    auto_close int from = open(template, O_RDONLY | O_CLOEXEC);
    struct stat st;
    off_t at = 0;

    if (from < 0 || fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
        return -1;
    while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
        off_t hole = lseek(from, at, SEEK_HOLE);
        loff_t in = at, out = at;

        while (in < hole)
            if (copy_file_range(from, &in, to, &out, (size_t)(hole - in), 0) <= 0)
                return -1;
        at = hole;
    }
    return errno == ENXIO ? 0 : -1;
}

/* Another program can take the device between asking for it and setting it up; with 32 clients it
 * is mostly one of our own. */
#define ATTACH_TRIES 4096

static int loop_attach(int file, char name[32])
{
    auto_close int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

    for (int tries = 0; tries < ATTACH_TRIES && control >= 0; tries++) {
        struct loop_config config = {
            .fd = (uint32_t)file, .block_size = 4096, .info.lo_flags = LO_FLAGS_AUTOCLEAR};
        auto_close int loop = -1;
        int n = ioctl(control, LOOP_CTL_GET_FREE);

        (void)snprintf(name, 32, "/dev/loop%d", n);
        loop = n < 0 ? -1 : open(name, O_RDWR | O_CLOEXEC);
        if (loop < 0)
            return -1;
        if (ioctl(loop, LOOP_CONFIGURE, &config) == 0)
            return steal_fd(loop);
        if (errno != EBUSY)
            return -1;
    }
    return -1;
}

static int mount_ext4(const char *device)
{
    auto_close int fs = fsopen("ext4", FSOPEN_CLOEXEC);

    if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "source", device, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FLAG, "discard", NULL, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FLAG, "noinit_itable", NULL, 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -1;
    return fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

/* The first folder and file read the filesystem's bitmaps: ahead, as cay does it. */
static void warm_up(int mount)
{
    if (mkdirat(mount, "work/warm", 0700) < 0)
        return;
    close_fd(&(int){openat(mount, "work/warm/f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)});
    (void)unlinkat(mount, "work/warm/f", 0);
    (void)unlinkat(mount, "work/warm", AT_REMOVEDIR);
}

int disk_make(const char *path, uint32_t owner, struct err *err)
{
    auto_close int image = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    auto_close int loop = -1, mount = -1;
    char device[32];

    if (image < 0 || copy_template(image) < 0)
        return err_sys(err, errno, "make %s", path);
    loop = loop_attach(image, device);
    mount = loop < 0 ? -1 : mount_ext4(device);
    if (mount < 0 || fchownat(mount, "upper", owner, owner, AT_SYMLINK_NOFOLLOW) < 0 ||
        fchmodat(mount, "upper", 0755, 0) < 0 ||
        fchownat(mount, "logs", owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, errno, "mount %s", path);
    warm_up(mount);
    return steal_fd(mount);
}

/* Nothing of it is wanted on the disk any more. */
void disk_abandon(int mount, const char *path)
{
    auto_close int top = mount < 0 ? -1 : openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint32_t how = SHUTDOWN_NO_FLUSH;

    if (top >= 0)
        (void)ioctl(top, SHUTDOWN_IOCTL, &how);
    (void)unlink(path);
}
