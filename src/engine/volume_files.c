#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/remove.h"
#include "base/str.h"
#include "engine/engine_internal.h"
#include "engine/files_internal.h"
#include "engine/path_internal.h"
#include "engine/volumes.h"
#include "engine/volumes_internal.h"

/* Files of a volume, by the daemon itself. Sandboxes wrote them and may be changing them now: names
 * lead nowhere but into the volume, whatever links there are, and what is no regular file is found
 * out without waiting for it. */

struct volume_file {
    struct engine *engine;
    struct volume *volume;
    int fd;
    int dir; /* of one that is written: where it goes. It has no name until it is whole */
    char *name;
    uint32_t mode;
};

#define ENTRIES_MAX 10000 /* of a folder that are listed */

static int explain(int error, const char *path, struct err *err)
{
    switch (error) {
    case ENOENT:
        return err_code(err, ERR_NOT_FOUND, "file_not_found", "File not found: %.180s", path);
    case ENOTDIR:
        return err_code(err, ERR_INVALID, "not_a_directory", "%.180s: a part of it is no directory",
                        path);
    case EISDIR:
        return err_code(err, ERR_INVALID, "is_a_directory", "%.180s is a directory", path);
    case ELOOP:
    case EXDEV:
        return err_code(err, ERR_INVALID, "not_a_file", "%.180s is a link that leads nowhere",
                        path);
    case ENXIO:
    case EACCES:
        return err_code(err, ERR_INVALID, "not_a_file", "%.180s is no regular file", path);
    case ENAMETOOLONG:
    case EINVAL:
        return err_set(err, ERR_INVALID, "%.150s: %s", path, strerror(error));
    case EEXIST:
    case ENOTEMPTY:
    case EBUSY:
    case ETXTBSY:
        return err_set(err, ERR_CONFLICT, "%.150s: %s", path, strerror(error));
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return err_code(err, ERR_LIMIT, "no_space", "the volume is full");
    default:
        return err_sys(err, error, "use %.180s", path);
    }
}

/* Links are followed within the volume, as if it were the root of everything. A rename meanwhile
 * can make the kernel ask for another try. */
static int open_in(int root, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    int fd = -1;

    for (int tries = 0; tries < 8; tries++) {
        fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
        if (fd >= 0 || errno != EAGAIN)
            break;
    }
    return fd < 0 ? -errno : fd;
}

/* A volume that is open for one call. */
struct access {
    struct engine *engine;
    struct volume *volume;
    int root;
    char *path; /* normal */
};

static void access_done(struct access *a)
{
    free(a->path);
    volume_unpin(a->engine, a->volume);
}
#define auto_access __attribute__((cleanup(access_done)))

static int access_begin(struct engine *e, const char *word, const char *path, struct access *a,
                        struct err *err)
{
    *a = (struct access){.engine = e, .root = -1};
    if (path_resolve("/", path && *path ? path : "/", true, &a->path, err) < 0 ||
        volume_pin(e, word, &a->volume, err) < 0)
        return -1;
    return volume_root(e, a->volume, &a->root, err);
}

/* The folder that a path is in, and its name there; the folders are made with make. The top has
 * none. */
static int open_above(const struct access *a, char **ret_name, struct err *err)
{
    const char *slash = strrchr(a->path, '/');
    auto_free char *above = xstrndup(a->path, slash == a->path ? 1 : (size_t)(slash - a->path));
    int fd;

    if (!slash[1])
        return err_set(err, ERR_INVALID, "that is the top of the volume");
    fd = open_in(a->root, above, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return explain(-fd, above, err);
    *ret_name = xstrdup(slash + 1);
    return fd;
}

/* ---- reading ---- */

static struct volume_file *file_new(struct access *a, int fd)
{
    struct volume_file *f = xcalloc(1, sizeof(*f));

    f->engine = a->engine;
    f->volume = steal_ptr(a->volume);
    f->fd = fd;
    f->dir = -1;
    return f;
}

int engine_volume_open_read(struct engine *e, const char *word, const char *path,
                            struct volume_file **ret, uint64_t *ret_size, struct err *err)
{
    auto_access struct access a;
    auto_close int fd = -1;
    struct stat st;

    if (access_begin(e, word, path, &a, err) < 0)
        return -1;
    fd = open_in(a.root, a.path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return explain(fd < 0 ? -fd : errno, a.path, err);
    if (!S_ISREG(st.st_mode))
        return explain(S_ISDIR(st.st_mode) ? EISDIR : ENXIO, a.path, err);
    *ret_size = (uint64_t)st.st_size;
    *ret = file_new(&a, steal_fd(fd));
    return 0;
}

ssize_t engine_volume_read(struct volume_file *f, void *data, size_t len, struct err *err)
{
    ssize_t n = read_some(f->fd, data, len);

    return n < 0 ? err_sys(err, (int)-n, "read the file") : n;
}

void engine_volume_close(struct volume_file *f)
{
    if (!f)
        return;
    close_fd(&f->fd);
    close_fd(&f->dir);
    volume_unpin(f->engine, f->volume);
    free(f->name);
    free(f);
}

/* ---- writing ---- */

int engine_volume_open_write(struct engine *e, const char *word, const char *path, uint32_t mode,
                             struct volume_file **ret, struct err *err)
{
    auto_access struct access a;
    auto_free char *name = NULL;
    auto_close int dir = -1, fd = -1;
    struct stat st;

    if (access_begin(e, word, path, &a, err) < 0 || (dir = open_above(&a, &name, err)) < 0)
        return -1;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (S_ISDIR(st.st_mode))
            return explain(EISDIR, a.path, err);
        if (mode == FILE_MODE_KEEP && S_ISREG(st.st_mode))
            mode = st.st_mode & 0777;
    }
    fd = openat(dir, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
    if (fd < 0)
        return explain(errno, a.path, err);
    *ret = file_new(&a, steal_fd(fd));
    (*ret)->dir = steal_fd(dir);
    (*ret)->name = steal_ptr(name);
    (*ret)->mode = mode == FILE_MODE_KEEP ? 0644 : mode & 0777;
    return 0;
}

int engine_volume_write(struct volume_file *f, const void *data, size_t len, struct err *err)
{
    int r = write_all(f->fd, data, len);

    return r < 0 ? explain(-r, f->name, err) : 0;
}

int engine_volume_write_end(struct volume_file *f, struct err *err)
{
    char own[32], temporary[ID_SIZE];

    (void)snprintf(own, sizeof(own), "/proc/self/fd/%d", f->fd);
    id_new(temporary, ".cay");
    if (fchmod(f->fd, f->mode) < 0 || fsync(f->fd) < 0 ||
        linkat(AT_FDCWD, own, f->dir, temporary, AT_SYMLINK_FOLLOW) < 0)
        return explain(errno, f->name, err);
    if (renameat(f->dir, temporary, f->dir, f->name) < 0 || fsync(f->dir) < 0) {
        int error = errno;

        (void)unlinkat(f->dir, temporary, 0);
        return explain(error, f->name, err);
    }
    return 0;
}

/* ---- the rest ---- */

/* Names are any bytes; those that are no text are left out, since JSON has no way to say them. */
static int list_entry(const struct access *a, int dir, const char *name, engine_item each,
                      void *arg, struct err *err)
{
    auto_free char *path = xasprintf("%s/%s", a->path[1] ? a->path : "", name);
    char mode[8];
    struct stat st;

    if (!utf8_valid(name, strlen(name)) || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    (void)snprintf(mode, sizeof(mode), "%04o", st.st_mode & 07777);
    return each(json_pack("{s:s, s:s, s:I, s:b, s:b, s:s, s:I}", "name", name, "path", path, "size",
                          (json_int_t)st.st_size, "isDirectory", S_ISDIR(st.st_mode), "isSymlink",
                          S_ISLNK(st.st_mode), "mode", mode, "modifiedAt",
                          (json_int_t)time_ms(&st.st_mtim)),
                arg, err);
}

int engine_volume_files(struct engine *e, const char *word, const char *path, engine_item each,
                        void *arg, struct err *err)
{
    auto_access struct access a;
    const struct dirent *entry;
    unsigned n = 0;
    DIR *dir;
    int fd, r = 0;

    if (access_begin(e, word, path, &a, err) < 0)
        return -1;
    fd = open_in(a.root, a.path, O_RDONLY | O_DIRECTORY);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        r = explain(fd < 0 ? -fd : errno, a.path, err);
        close_fd(&fd);
        return r;
    }
    while (r == 0 && n < ENTRIES_MAX && (errno = 0, entry = readdir(dir)))
        if (!str_is_dot(entry->d_name)) {
            r = list_entry(&a, dirfd(dir), entry->d_name, each, arg, err);
            n++;
        }
    if (r == 0 && n < ENTRIES_MAX && errno != 0)
        r = explain(errno, a.path, err);
    (void)closedir(dir);
    return r;
}

int engine_volume_file_info(struct engine *e, const char *word, const char *path, json_t **ret,
                            struct err *err)
{
    auto_access struct access a;
    auto_close int fd = -1;
    char mode[12], digits[8], owner[16], group[16];
    struct stat st;

    if (access_begin(e, word, path, &a, err) < 0)
        return -1;
    fd = open_in(a.root, a.path, O_PATH | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0)
        return explain(fd < 0 ? -fd : errno, a.path, err);
    file_permissions(st.st_mode, mode);
    (void)snprintf(digits, sizeof(digits), "%04o", st.st_mode & 07777);
    (void)snprintf(owner, sizeof(owner), "%u", st.st_uid);
    (void)snprintf(group, sizeof(group), "%u", st.st_gid);
    *ret = json_pack("{s:s, s:I, s:s, s:s, s:s, s:s, s:b, s:b, s:I}", "path", a.path, "size",
                     (json_int_t)st.st_size, "permissions", mode, "mode", digits, "owner",
                     st.st_uid ? owner : "root", "group", st.st_gid ? group : "root", "isDirectory",
                     S_ISDIR(st.st_mode), "isSymlink", S_ISLNK(st.st_mode), "modifiedAt",
                     (json_int_t)time_ms(&st.st_mtim));
    return 0;
}

int engine_volume_mkdir(struct engine *e, const char *word, const char *path, struct err *err)
{
    auto_access struct access a;
    auto_close int at = -1;
    char *rest = NULL;

    if (access_begin(e, word, path, &a, err) < 0)
        return -1;
    at = open_in(a.root, "/", O_PATH | O_DIRECTORY);
    for (char *name = strtok_r(a.path, "/", &rest); name; name = strtok_r(NULL, "/", &rest)) {
        int fd;

        if (mkdirat(at, name, 0755) < 0 && errno != EEXIST)
            return explain(errno, name, err);
        fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            return explain(errno, name, err);
        close_fd(&at);
        at = fd;
    }
    return 0;
}

int engine_volume_delete(struct engine *e, const char *word, const char *path, bool recursive,
                         struct err *err)
{
    auto_access struct access a;
    auto_free char *name = NULL;
    auto_close int dir = -1;
    int r = 0;

    if (access_begin(e, word, path, &a, err) < 0 || (dir = open_above(&a, &name, err)) < 0)
        return -1;
    if (unlinkat(dir, name, 0) < 0)
        r = -errno;
    if (r == -EISDIR && recursive)
        r = remove_tree_until(dir, name,
                              mono_ns() + (int64_t)e->config.volume_delete_s * 1000000000);
    if (r == -ETIME || (r == -ENOTEMPTY && recursive))
        return err_code(err, ERR_CONFLICT, "delete_incomplete",
                        "%.100s could not be emptied in %u s (CAY_VOLUME_DELETE_TIMEOUT): call "
                        "again if it is large; if sandboxes add files to it, stop them or detach "
                        "the volume",
                        a.path, e->config.volume_delete_s);
    return r < 0 ? explain(-r, a.path, err) : 0;
}
