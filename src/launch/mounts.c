#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "launch/attach_internal.h"
#include "launch/box_internal.h"
#include "launch/mount_calls.h"

/* What a box sees of files. The rules are at the head of box.c. */

/* Rule 2. Mounts that came with the namespace are locked in place; a clone of one folder is our
 * own. */
int enter_stage(struct child *child)
{
    child->top = open_tree(child->stage, "box", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (child->top < 0 ||
        move_mount(child->top, "", child->stage, "box", MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
        fchdir(child->top) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return -errno;
    return 0;
}

/* Rule 4. A folder of the image's root that is missing is made (in the upper layer). */
static int open_inside(const struct child *child, const char *path, int flags, bool make)
{
    struct open_how how = {.flags = (uint64_t)(O_PATH | O_CLOEXEC | flags),
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS};
    int fd = (int)syscall(SYS_openat2, child->top, path, &how, sizeof(how));

    if (fd < 0 && errno == ENOENT && make && !strchr(path, '/') &&
        mkdirat(child->top, path, 0755) == 0)
        fd = (int)syscall(SYS_openat2, child->top, path, &how, sizeof(how));
    return fd < 0 ? -errno : fd;
}

static int attach(const struct child *child, int mount, const char *path)
{
    auto_close int at = open_inside(child, path, O_DIRECTORY, true);

    if (at < 0)
        return at;
    return move_mount(mount, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0
               ? -errno
               : 0;
}

/* A new filesystem of that type, detached. options: key, value pairs; NULL ends. */
static int make_mount(const char *type, unsigned attrs, const char *const *options)
{
    auto_close int fs = fsopen(type, FSOPEN_CLOEXEC);
    int m;

    if (fs < 0)
        return -errno;
    for (; options && options[0]; options += 2)
        if (fsconfig(fs, FSCONFIG_SET_STRING, options[0], options[1], 0) < 0)
            return -errno;
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    m = fsmount(fs, FSMOUNT_CLOEXEC, attrs);
    return m < 0 ? -errno : m;
}

static int mount_new(const struct child *child, const char *type, const char *path, unsigned attrs,
                     const char *const *options)
{
    auto_close int m = make_mount(type, attrs, options);

    return m < 0 ? m : attach(child, m, path);
}

#define SHM_SIZE "67108864"

#define SAFE (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

int make_proc(struct child *child)
{
    child->proc = make_mount("proc", SAFE, NULL);
    return child->proc < 0 ? child->proc : 0;
}

int make_sysfs(void)
{
    return make_mount("sysfs", SAFE | MOUNT_ATTR_RDONLY, NULL);
}

int stage_proc(struct child *child)
{
    return attach(child, child->proc, "proc");
}

/* /sys is made up: of the kernel's own there is what programs ask for to know their processors,
 * their memory and their network, and nothing of disks, drivers or other devices. Programs that
 * walk through the rest find it empty. */
static const char *const sys_folders[] = {
    "block",
    "bus",
    "class",
    "dev",
    "dev/block",
    "devices",
    "devices/system",
    "fs",
    "devices/virtual",
    "devices/virtual/net",
    "firmware",
    "fs/cgroup",
    "kernel",
    "kernel/mm",
    "kernel/mm/hugepages",
    "kernel/mm/transparent_hugepage",
    "module",
    "power",
};
static const char *const sys_shown[] = {
    "devices/system",
    "devices/virtual/net",
    "kernel/mm/hugepages",
    "kernel/mm/transparent_hugepage",
};

/* The box's own folder that nothing is in; whatever folder is masked shows it. */
#define EMPTY "/sys/block"

/* Puts that folder of the kernel's sysfs where it is in ours. */
static int show_of_sys(int from, int to, const char *path)
{
    auto_close int part = open_tree(from, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

    if (part < 0)
        return errno == ENOENT ? 0 : -errno;
    return move_mount(part, "", to, path, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

int stage_sys(struct child *child)
{
    /* The size is for the two files in it that the box may write: its /etc/hosts and
     * /etc/resolv.conf. */
    static const char *const options[] = {"mode", "0555", "size", "65536", NULL};
    auto_close int whole = child->sys;
    int r = attach(child, whole, "sysfs");

    child->sys = r < 0 ? r : make_mount("tmpfs", SAFE, options);
    if (child->sys < 0)
        return child->sys;
    r = attach(child, child->sys, "sys");
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(sys_folders); i++)
        if (mkdirat(child->sys, sys_folders[i], 0555) < 0)
            r = -errno;
    /* Of the kernel's own it is a folder of links into there, which would be a mount more. */
    if (r == 0 && symlinkat("../devices/virtual/net", child->sys, "class/net") < 0)
        r = -errno;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(sys_shown); i++)
        r = show_of_sys(whole, child->sys, sys_shown[i]);
    if (r == 0 && umount2("/sysfs", MNT_DETACH) < 0)
        r = -errno;
    return r;
}

int close_sys(struct child *child)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

    return mount_setattr(child->sys, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

int stage_cgroups(struct child *child)
{
    if (!child->v2)
        return cover_cgroups(child);
    return mount_new(child, "cgroup2", "sys/fs/cgroup", SAFE | MOUNT_ATTR_RDONLY, NULL);
}

int stage_dev(struct child *child)
{
    /* The machine has 3,072 terminals for all boxes. */
    static const char *const pts[] = {"ptmxmode", "0666", "mode", "0620", "max", "64", NULL};
    static const char *const shm[] = {"mode", "1777", "size", SHM_SIZE, NULL};
    int r = attach(child, child->dev, "dev");

    if (r == 0)
        r = mount_new(child, "devpts", "dev/pts", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, pts);
    if (r == 0)
        r = mount_new(child, "tmpfs", "dev/shm", SAFE, shm);
    if (r == 0)
        r = mount_new(child, "mqueue", "dev/mqueue", SAFE, NULL);
    return r;
}

/* What /proc shows beside processes: what programs need, and what is the box's own. The rest tells
 * about the host and its neighbours: disks and who uses them, locks, devices, drivers, the kernel's
 * command line. It is masked, whatever a kernel or a module of it may add. */
static const char *const proc_shown[] = {
    "cgroups", "cpuinfo", "filesystems", "loadavg", "meminfo", "stat",
    "sys",     "sysvipc", "tty",         "uptime",  "version", "vmstat",
};

static bool others_may_look(const struct stat *st)
{
    return st->st_uid == 0 || (st->st_mode & 0007);
}

/* Binds what is masked with over path, by the calls of old: there are dozens a box, and one does
 * what takes five with descriptors. Our root is the stage, with nothing in it that is not ours, so
 * names can be trusted. A bind is as read-only as the mount that it is of, as all here are. */
static int cover(const char *path, const char *with)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!others_may_look(&st))
        return 0;
    return mount(with, path, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

static bool is_shown(const struct dirent *e)
{
    /* Links lead to a process: self, net, mounts. */
    if (e->d_type == DT_LNK || e->d_name[0] == '.' || (e->d_name[0] >= '0' && e->d_name[0] <= '9'))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(proc_shown); i++)
        if (strcmp(proc_shown[i], e->d_name) == 0)
            return true;
    return false;
}

/* A masked file becomes /dev/null, a masked folder an empty one. What the box's root may not read,
 * because the host's root owns it, needs no mask. */
int mask_paths(struct child *child)
{
    auto_close int fd = openat(child->top, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *proc = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;
    int r = 0;

    if (!proc)
        return -errno;
    (void)steal_fd(fd);
    while (r == 0 && (e = readdir(proc))) {
        char path[280];

        (void)snprintf(path, sizeof(path), "/proc/%s", e->d_name);
        if (!is_shown(e))
            r = cover(path, e->d_type == DT_DIR ? EMPTY : "/dev/null");
    }
    (void)closedir(proc);
    return r;
}

/* Of the box's own user namespace, before /proc/sys is closed. Those of its network are in nets.c.
 */
int set_sysctls(struct child *child)
{
    return write_file_at(child->top, "proc/sys/user/max_user_namespaces", "0");
}

int close_proc(struct child *child)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    auto_close int sys =
        open_tree(child->proc, "sys", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);

    if (sys < 0 || mount_setattr(sys, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ||
        move_mount(sys, "", child->proc, "sys", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

/* The root goes over the stage, which thereby is out of reach. */
int attach_root(struct child *child)
{
    if (move_mount(child->parts.root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    child->top = child->parts.root;
    return 0;
}

int bind_host_folders(struct child *child)
{
    for (unsigned i = 0; i < child->parts.n_binds; i++) {
        int r = attach(child, child->parts.binds[i], child->plan->binds[i] + 1);

        if (r < 0)
            return r;
    }
    return 0;
}

/* With everything that is mounted below them. */
int move_kernel_folders(struct child *child)
{
    int r = attach(child, child->proc, "proc");

    if (r == 0)
        r = attach(child, child->sys, "sys");
    if (r == 0)
        r = attach(child, child->dev, "dev");
    return r;
}

/* A small box has a small one: it could otherwise fill its memory with files, and nothing could run
 * any more that would remove them. */
int limit_shm(struct child *child)
{
    auto_close int fs = -1;
    char size[32];

    if (child->plan->shm_max >= strtoull(SHM_SIZE, NULL, 10))
        return 0;
    (void)snprintf(size, sizeof(size), "%llu", (unsigned long long)child->plan->shm_max);
    fs = fspick(child->top, "dev/shm", FSPICK_CLOEXEC | FSPICK_NO_AUTOMOUNT);
    if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "size", size, 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
        return -errno;
    return 0;
}

/* Of the box's own user namespace, so that what is in it counts as its memory. */
static int make_more_tmpfs(const struct plan_mount *m)
{
    char size[24];
    const char *options[] = {"mode", "1777", "size", size, NULL};

    (void)snprintf(size, sizeof(size), "%llu", (unsigned long long)m->size);
    return make_mount("tmpfs",
                      MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                          (m->flags & PLAN_MOUNT_READ_ONLY ? MOUNT_ATTR_RDONLY : 0) |
                          (m->flags & PLAN_MOUNT_NOEXEC ? MOUNT_ATTR_NOEXEC : 0),
                      options);
}

/* In the order of the plan: one may be in another. */
int mount_more(struct child *child)
{
    unsigned at = 0;

    for (uint32_t i = 0; i < child->plan->n_mounts; i++) {
        const struct plan_mount *m = &child->plan->mounts[i];
        bool is_tmpfs = m->flags & PLAN_MOUNT_TMPFS;
        auto_close int made = is_tmpfs ? make_more_tmpfs(m) : -1;
        int r;

        if (is_tmpfs ? made < 0 : at == child->parts.n_mounts)
            return is_tmpfs ? made : -EPROTO;
        r = attach_place(child->top, m->path, is_tmpfs ? made : child->parts.mounts[at++]);
        if (r < 0) {
            (void)snprintf(child->failed, sizeof(child->failed), "%s%s", PLAN_STEP_MOUNT, m->path);
            return r;
        }
    }
    return 0;
}

int enter_root(struct child *child)
{
    return fchdir(child->parts.root) < 0 || chroot(".") < 0 || chdir("/") < 0 ? -errno : 0;
}
