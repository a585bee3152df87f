#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/upload.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "proto/frame.h"

int make_dirs(const char *path, mode_t mode, struct err *err)
{
    auto_free char *part = xstrdup(path);
    struct stat st;

    for (char *p = part + 1;; p++) {
        char was = *p;

        if (was != '/' && was != '\0')
            continue;
        *p = '\0';
        if (mkdir(part, was ? 0755 : mode) == 0) {
            if (!was)
                (void)chmod(part, mode); /* our umask is not the caller's wish */
        } else if (errno != EEXIST && errno != EISDIR) {
            int e = errno;

            /* On a read-only part of the path an existing directory is still fine. */
            if (stat(part, &st) < 0 || !S_ISDIR(st.st_mode))
                return file_error(err, e, part);
        }
        *p = was;
        if (!was)
            break;
    }
    if (stat(path, &st) < 0)
        return file_error(err, errno, path);
    return S_ISDIR(st.st_mode) ? 0 : file_error(err, ENOTDIR, path);
}

int mkdir_call(struct agent_call *c, struct err *err)
{
    auto_free char *path = wire_get_str(&c->args);
    auto_free char *user = wire_get_str(&c->args);
    uint32_t mode = wire_get_u32(&c->args);

    if (call_args_ok(c, err) < 0 || path_check(path, err) < 0 || identity_become(c, user, err) < 0)
        return -1;
    if (make_dirs(path, mode == CALL_MODE_KEEP ? 0755 : mode & 07777, err) < 0)
        return -1;
    call_reply(c, FRAME_OK, NULL, 0);
    return 0;
}

void upload_done(struct upload *u)
{
    if (u->fd >= 0 && u->tmp[0])
        (void)unlinkat(u->dir, u->tmp, 0);
    close_fd(&u->fd);
    close_fd(&u->dir);
    free(u->path);
    free(u->parent);
}

/* A link as the last part stands for what it points to, as for any program that opens it to write.
 */
static int resolve(struct upload *u, const char *path, struct err *err)
{
    char real[PATH_MAX];
    struct stat st;
    char *slash;

    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
        if (!realpath(path, real))
            return file_error(err, errno, path);
        path = real;
    }
    if (path[strlen(path) - 1] == '/')
        return file_error(err, EISDIR, path);
    u->path = xstrdup(path);
    u->parent = xstrdup(path);
    slash = strrchr(u->parent, '/');
    u->name = u->path + (slash - u->parent) + 1;
    if (slash == u->parent)
        slash++;
    *slash = '\0';
    return 0;
}

/* What is there already decides about mode and owner, and whether this user may replace it at all.
 */
static int look_at_old(struct upload *u, struct err *err)
{
    if (fstatat(u->dir, u->name, &u->old, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : file_error(err, errno, u->path);
    if (!S_ISREG(u->old.st_mode))
        return file_error(err, S_ISDIR(u->old.st_mode) ? EISDIR : ENXIO, u->path);
    if (faccessat(u->dir, u->name, W_OK, AT_EACCESS) < 0)
        return file_error(err, errno, u->path);
    u->exists = true;
    return 0;
}

int upload_begin(struct upload *u, const char *path, bool parents, struct err *err)
{
    if (resolve(u, path, err) < 0)
        return -1;
    u->dir = open(u->parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (u->dir < 0 && parents) { /* mostly they are there */
        if (make_dirs(u->parent, 0755, err) < 0)
            return -1;
        u->dir = open(u->parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    if (u->dir < 0)
        return file_error(err, errno, u->parent);
    if (look_at_old(u, err) < 0)
        return -1;
    (void)snprintf(u->tmp, sizeof(u->tmp), ".cay-%d-%llx.tmp", getpid(),
                   (unsigned long long)mono_ns());
    u->fd = openat(u->dir, u->tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return u->fd < 0 ? file_error(err, errno, u->path) : 0;
}

/* For a file that is a mount of its own, as /etc/hosts is: none can take its place. It stays as it
 * was if there is no room. */
static int fill_old(const struct upload *u)
{
    auto_close int old = openat(u->dir, u->name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    off_t at = 0;
    ssize_t n;

    if (old < 0 || fstat(u->fd, &st) < 0)
        return -errno;
    if (st.st_size > 0 && fallocate(old, FALLOC_FL_KEEP_SIZE, 0, st.st_size) < 0 &&
        errno != EOPNOTSUPP)
        return -errno;
    do
        n = sendfile(old, u->fd, &at, 1u << 20);
    while (n > 0);
    return n < 0 || ftruncate(old, st.st_size) < 0 ? -errno : 0;
}

int upload_commit(struct upload *u, struct err *err)
{
    mode_t mode = u->mode != CALL_MODE_KEEP ? u->mode & 07777
                  : u->exists               ? u->old.st_mode & 07777
                                            : 0644;
    int r;

    /* Owner first: changing it takes set-id bits away. A user who may write another's file but not
     * give files away leaves it as their own. */
    if (u->exists && fchown(u->fd, u->old.st_uid, u->old.st_gid) < 0 && errno != EPERM)
        return file_error(err, errno, u->path);
    if (fchmod(u->fd, mode) < 0)
        return file_error(err, errno, u->path);
    if (renameat(u->dir, u->tmp, u->dir, u->name) == 0) {
        u->tmp[0] = '\0';
        return 0;
    }
    r = errno == EBUSY && u->exists ? fill_old(u) : -errno;
    return r < 0 ? file_error(err, -r, u->path) : 0;
}

/* 1 when all of it is there, 0 when the caller went away or broke the protocol, -1 with err. */
static int receive(struct agent_call *c, struct upload *u, struct err *err)
{
    struct frame f;

    while (call_next(c, 0, &f) == 1) {
        int r;

        if (f.type == FRAME_END)
            return 1;
        if (f.type != FRAME_DATA)
            return 0;
        r = write_all(u->fd, f.data, f.len);
        if (r < 0)
            return file_error(err, -r, u->path);
    }
    return 0;
}

void swallow(struct agent_call *c)
{
    struct frame f;

    while (call_next(c, 0, &f) == 1 && f.type == FRAME_DATA)
        ;
}

/* What comes next is to follow what the file has. */
static int begin_with_old(const struct upload *u, struct err *err)
{
    auto_close int old = openat(u->dir, u->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t n;

    if (old < 0)
        return file_error(err, errno, u->path);
    do
        n = sendfile(u->fd, old, NULL, 1u << 20);
    while (n > 0);
    return n < 0 ? file_error(err, errno, u->path) : 0;
}

/* *ret_whole: there is nothing more to come. */
static int receive_to(struct agent_call *c, const char *path, uint32_t mode, unsigned flags,
                      bool *ret_whole, struct err *err)
{
    auto_upload struct upload u = UPLOAD_INIT(mode);
    int r;

    if (upload_begin(&u, path, flags & WRITE_PARENTS, err) < 0 ||
        ((flags & WRITE_APPEND) && u.exists && begin_with_old(&u, err) < 0))
        return -1;
    r = receive(c, &u, err);
    *ret_whole = r == 1;
    return r == 1 && upload_commit(&u, err) < 0 ? -1 : r;
}

int write_file(struct agent_call *c, const char *path, uint32_t mode, unsigned flags,
               struct err *err)
{
    bool whole = false;
    int r = receive_to(c, path, mode, flags, &whole, err);

    if (r < 0 && !whole)
        swallow(c);
    if (r == 1)
        call_reply(c, FRAME_OK, NULL, 0);
    return r < 0 ? -1 : 0;
}

int write_call(struct agent_call *c, struct err *err)
{
    auto_free char *path = wire_get_str(&c->args);
    auto_free char *user = wire_get_str(&c->args);
    uint32_t mode = wire_get_u32(&c->args), parents = wire_get_u32(&c->args);

    if (call_args_ok(c, err) < 0 || path_check(path, err) < 0 ||
        identity_become(c, user, err) < 0) {
        swallow(c);
        return -1;
    }
    return write_file(c, path, mode, parents ? WRITE_PARENTS : 0, err);
}
