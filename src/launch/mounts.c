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

int make_sys(struct child *child)
{
    child->sys = make_mount("sysfs", SAFE | MOUNT_ATTR_RDONLY, NULL);
    return child->sys < 0 ? child->sys : 0;
}

int stage_proc(struct child *child)
{
    return attach(child, child->proc, "proc");
}

int stage_sys(struct child *child)
{
    return attach(child, child->sys, "sys");
}

int stage_cgroups(struct child *child)
{
    static const char *const empty[] = {"size", "0", "mode", "0555", NULL};

    if (child->plan->cgroup_v2)
        return mount_new(child, "cgroup2", "sys/fs/cgroup", SAFE | MOUNT_ATTR_RDONLY, NULL);
    return mount_new(child, "tmpfs", "sys/fs/cgroup", SAFE | MOUNT_ATTR_RDONLY, empty);
}

int stage_dev(struct child *child)
{
    static const char *const pts[] = {"ptmxmode", "0666", "mode", "0620", NULL};
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

/* Files of the host's kernel that say too much. What is not there, or what the box's root may not
 * read anyway because the host's root owns it, needs no mask. */
static const char *const masked_files[] = {
    "proc/kcore",       "proc/keys",          "proc/interrupts",  "proc/timer_list",
    "proc/sched_debug", "proc/latency_stats", "proc/timer_stats", "proc/kmsg",
    "proc/kallsyms",    "proc/config.gz",
};
static const char *const masked_folders[] = {
    "proc/acpi",
    "proc/asound",
    "proc/scsi",
    "proc/driver",
    "sys/firmware",
    "sys/class/dmi",
    "sys/devices/virtual/dmi",
    "sys/devices/virtual/powercap",
    "sys/kernel/debug",
    "sys/kernel/tracing",
    "sys/kernel/security",
    "sys/kernel/btf",
    "sys/fs/bpf",
    "sys/module",
};
static const char *const read_only[] = {"proc/bus", "proc/fs", "proc/irq", "proc/sys",
                                        "proc/sysrq-trigger"};

static bool others_may_look(int at)
{
    struct stat st;

    return fstat(at, &st) == 0 && (st.st_uid == 0 || (st.st_mode & 0007));
}

/* Puts a read-only clone of what `from` names (relative to dir) over path; from "" is path itself.
 */
static int cover(const struct child *child, const char *path, int flags, int dir, const char *from)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    auto_close int at = open_inside(child, path, flags, false);
    auto_close int copy = -1;

    if (at == -ENOENT || at == -ENOTDIR)
        return 0;
    if (at < 0)
        return at;
    if (*from && !others_may_look(at))
        return 0;
    copy = open_tree(*from ? dir : at, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (copy < 0 || mount_setattr(copy, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ||
        move_mount(copy, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

/* A masked file becomes /dev/null, a masked folder the stage's empty one. */
int mask_paths(struct child *child)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(masked_files); i++)
        r = cover(child, masked_files[i], 0, child->top, "dev/null");
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(masked_folders); i++)
        r = cover(child, masked_folders[i], O_DIRECTORY, child->top, "empty");
    return r;
}

/* Settings that belong to the box's own namespaces, before /proc/sys is closed. */
int set_sysctls(struct child *child)
{
    static const struct {
        const char *path, *value;
        bool needed;
    } sysctls[] = {
        {"proc/sys/user/max_user_namespaces", "0", true},
        {"proc/sys/net/ipv4/ip_unprivileged_port_start", "0", false},
        {"proc/sys/net/ipv4/ping_group_range", "0 65535", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(sysctls); i++) {
        int r = write_file_at(child->top, sysctls[i].path, sysctls[i].value);

        if (r < 0 && sysctls[i].needed)
            return r;
    }
    return 0;
}

int close_proc(struct child *child)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(read_only); i++)
        r = cover(child, read_only[i], 0, -1, "");
    return r;
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

int enter_root(struct child *child)
{
    return fchdir(child->parts.root) < 0 || chroot(".") < 0 || chdir("/") < 0 ? -errno : 0;
}
