#include "wall/wall.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"

/* A backstop: the work itself needs about a tenth. Threads and the windows of zstd are in it. */
#define DATA_MAX   (512u << 20)
#define FILES_MAX  4096
#define ARENAS_MAX 2

#define COPY_MAX  (16u << 20) /* of a file that is shown */
#define ROOT_SIZE "64m"

#define HARMLESS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

/* ---- limits and capabilities ---- */

static int limit(int what, rlim_t most)
{
    struct rlimit now;

    if (getrlimit((__rlimit_resource_t)what, &now) < 0)
        return -1;
    if (now.rlim_max == RLIM_INFINITY || now.rlim_max > most)
        now.rlim_max = most;
    now.rlim_cur = now.rlim_max;
    return setrlimit((__rlimit_resource_t)what, &now);
}

int wall_limits(unsigned from, struct err *err)
{
    (void)umask(0);
    (void)mallopt(M_ARENA_MAX, ARENAS_MAX);
    if (close_range(from, ~0u, 0) < 0)
        return err_sys(err, errno, "close what a walled process does not need");
    if (limit(RLIMIT_NOFILE, FILES_MAX) < 0 || limit(RLIMIT_CORE, 0) < 0)
        return err_sys(err, errno, "limit a walled process");
#ifndef CAY_SANITIZED
    if (limit(RLIMIT_DATA, DATA_MAX) < 0) /* a sanitizer's shadow is far larger */
        return err_sys(err, errno, "limit a walled process");
#endif
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(err, errno, "give up new privileges");
    return 0;
}

/* What can be had at all. */
static int bound(uint64_t kept, struct err *err)
{
    int r = caps_bound(kept);

    return r < 0 ? err_sys(err, -r, "give up capabilities") : 0;
}

int wall_capabilities(uint64_t kept, struct err *err)
{
    uint64_t had;
    int r;

    if (bound(kept, err) < 0)
        return -1;
    r = caps_get(&had);
    if (r == 0)
        r = caps_set(had & kept); /* a daemon in a container may lack some */
    return r < 0 ? err_sys(err, -r, "give up a walled process's capabilities") : 0;
}

int wall_id(unsigned id, struct err *err)
{
    if (bound(0, err) < 0)
        return -1;
    if (setgroups(0, NULL) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        return err_sys(err, errno, "take an id for a walled process");
    return 0;
}

int wall_tasks(unsigned most, struct err *err)
{
    return limit(RLIMIT_NPROC, most) < 0 ? err_sys(err, errno, "limit a walled process") : 0;
}

void wall_environment(void)
{
    for (char **line = environ; line && *line; line++)
        explicit_bzero(*line, strlen(*line));
    environ = NULL;
}

/* ---- a root of its own ---- */

static int root_failed(const char *what, struct err *err)
{
    return err_sys(err, errno, "make a root for a walled process (%s)", what);
}

int wall_root_new(int *ret_root, struct err *err)
{
    auto_close int fs = -1, root = -1;

    /* What is mounted here is not to be seen by the host, nor the other way round. */
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return root_failed("part from the host's mounts", err);
    fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "size", ROOT_SIZE, 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return root_failed("tmpfs", err);
    root = fsmount(fs, FSMOUNT_CLOEXEC, HARMLESS);
    if (root < 0 || move_mount(root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return root_failed("mount it", err);
    *ret_root = steal_fd(root);
    return 0;
}

/* The folders that path is in; path is absolute and ours or the operator's. */
static int make_parents(int root, const char *path)
{
    auto_free char *part = xstrdup(path + 1);

    for (char *slash = part; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        if (part[0] && mkdirat(root, part, 0755) < 0 && errno != EEXIST)
            return -1;
    }
    return 0;
}

int wall_root_show(int root, const char *path, struct err *err)
{
    struct mount_attr attr = {.attr_set = HARMLESS | MOUNT_ATTR_RDONLY};
    auto_close int tree = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

    if (tree < 0)
        return errno == ENOENT ? 0 : root_failed(path, err);
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ||
        make_parents(root, path) < 0 || mkdirat(root, path + 1, 0755) < 0 ||
        move_mount(tree, "", root, path + 1, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return root_failed(path, err);
    return 0;
}

static int copy(int from, int to)
{
    char data[16384];
    ssize_t n;

    for (size_t all = 0; (n = read_some(from, data, sizeof(data))) > 0;) {
        int r;

        all += (size_t)n;
        r = all > COPY_MAX ? -EFBIG : write_all(to, data, (size_t)n);
        if (r < 0)
            return r;
    }
    return (int)n;
}

int wall_root_copy(int root, const char *path, struct err *err)
{
    auto_close int from = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), to = -1;
    int r;

    if (from < 0)
        return 0; /* whoever needs it says so */
    if (make_parents(root, path) < 0)
        return root_failed(path, err);
    to = openat(root, path + 1, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (to < 0)
        return errno == EEXIST ? 0 : root_failed(path, err);
    r = copy(from, to);
    return r < 0 ? err_sys(err, -r, "copy %.100s", path) : 0;
}

int wall_root_enter(int root, struct err *err)
{
    struct mount_attr attr = {.attr_set = HARMLESS | MOUNT_ATTR_RDONLY};

    if (mount_setattr(root, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 || fchdir(root) < 0 ||
        syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return root_failed("enter it", err);
    return 0;
}

int wall_root_names(const char *ca_file, struct err *err)
{
    static const char *const folders[] = {"/etc/ssl/certs", "/usr/share/ca-certificates",
                                          "/usr/local/share/ca-certificates"};
    static const char *const copied[] = {"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf",
                                         "/etc/host.conf", "/etc/gai.conf"};
    auto_close int root = -1;

    if (wall_root_new(&root, err) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        if (wall_root_show(root, folders[i], err) < 0)
            return -1;
    for (size_t i = 0; i < ARRAY_LEN(copied); i++)
        if (wall_root_copy(root, copied[i], err) < 0)
            return -1;
    /* It may be readable by root only, and in one of the folders already. */
    if (ca_file && ca_file[0] == '/' && faccessat(root, ca_file + 1, R_OK, 0) < 0 &&
        wall_root_copy(root, ca_file, err) < 0)
        return -1;
    return wall_root_enter(root, err);
}
