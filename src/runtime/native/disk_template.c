#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/regular.h"
#include "base/str.h"
#include "runtime/native/disk_internal.h"
#include "runtime/native/disk_spares.h"

/* Empty filesystems, from which disks are copied. */

#define TEMPLATES_MAX 32

static int run_mke2fs(const char *image, const char *root, uint32_t mb, struct err *err)
{
    /* Tables and journal are left uninitialised, so that a copy is a few blocks. The journal comes
     * on top of what the sandbox may have. */
    auto_free char *size = xasprintf("%um", mb + DISK_JOURNAL_MB);
    auto_free char *journal = xasprintf("size=%d", DISK_JOURNAL_MB);
    const char *argv[] = {"/sbin/mke2fs",
                          "-q",
                          "-F",
                          "-t",
                          "ext4",
                          "-m",
                          "0",
                          "-i",
                          "16384",
                          "-b",
                          "4096", /* DISK_BLOCK */
                          "-J",
                          journal,
                          "-O",
                          "^resize_inode,sparse_super2",
                          "-E",
                          "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0,"
                          "num_backup_sb=0",
                          "-d",
                          root,
                          image,
                          size,
                          NULL};
    int r = disk_tool(argv, err);

    return r > 0 ? err_set(err, ERR_INTERNAL, "mke2fs failed with status %d", r) : r;
}

/* mke2fs announces a file that it has to make itself. */
static int make_empty(const char *path, struct err *err)
{
    auto_close int fd = regular_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0600, err);

    return fd < 0 ? -1 : 0;
}

static int make_dir(const char *path, struct err *err)
{
    return mkdir(path, 0700) < 0 && errno != EEXIST ? err_sys(err, errno, "make %s", path) : 0;
}

/* It gets its name when it is on disk: one with holes after a power cut would be copied for ever.
 */
static int put_in_place(const char *tmp, const char *path, struct err *err)
{
    auto_close int fd = regular_open(AT_FDCWD, tmp, O_RDONLY, 0, err);

    if (fd < 0)
        return -1;
    if (fsync(fd) < 0 || rename(tmp, path) < 0)
        return err_sys(err, errno, "put %s in place", tmp);
    return 0;
}

static int make_template(const char *dir, const char *path, uint32_t mb, struct err *err)
{
    auto_free char *tmp = xasprintf("%s.tmp", path);
    auto_free char *root = xasprintf("%s/root", dir);
    int r = make_dir(root, err);

    for (size_t i = 0; r == 0 && i < DISK_FOLDERS; i++) {
        auto_free char *folder = xasprintf("%s/%s", root, disk_folders[i]);

        r = make_dir(folder, err);
    }
    if (r == 0)
        r = make_empty(tmp, err);
    if (r == 0)
        r = run_mke2fs(tmp, root, mb, err);
    if (r == 0)
        r = put_in_place(tmp, path, err);
    if (r < 0)
        (void)unlink(tmp);
    return r;
}

/* Callers choose sizes: of the templates those stay that were used last. */
static void drop_oldest(const char *path)
{
    struct timespec oldest = {0};
    char name[NAME_MAX + 1] = "";
    DIR *dir = opendir(path);
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

int template_open(const char *dir, uint32_t mb, struct err *err)
{
    /* Not template-N.img: older versions had them without a journal. */
    auto_free char *path = xasprintf("%s/template-j-%u.img", dir, mb);
    int fd = regular_open(AT_FDCWD, path, O_RDONLY, 0, err);

    if (fd == -ENOENT) {
        if (make_template(dir, path, mb, err) < 0)
            return -1;
        fd = regular_open(AT_FDCWD, path, O_RDONLY, 0, err);
        drop_oldest(dir);
    } else if (fd >= 0) {
        (void)futimens(fd, NULL);
    }
    return fd < 0 ? -1 : fd;
}
