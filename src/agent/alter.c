#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "proto/frame.h"

/* Changes to files that are what they say and no more, for callers who want to know of what was in
 * the way: CALL_MKDIR, CALL_REMOVE and CALL_MOVE find that fine, or go around it. */

#define DEPTH_MAX   128
#define WHERE_SHOWN 60 /* bytes of a path that is too deep */
#define LOOK_STEPS  64 /* files between two looks at the caller */

#define ALTER_FLAGS (ALTER_PARENTS | ALTER_RECURSIVE | ALTER_REPLACE)

struct alter {
    struct agent_call *call;
    uint32_t kind, mode, uid, gid, flags;
    char *path, *other;
    uint32_t changed;
};

static void alter_done(struct alter *a)
{
    free(a->path);
    free(a->other);
}

static int alter_error(struct err *err, int errnum, const char *path)
{
    if (errnum == EEXIST)
        (void)err_code(err, ERR_CONFLICT, "file_exists", "%.150s is there already", path);
    else if (errnum == ENOTEMPTY)
        (void)err_code(err, ERR_CONFLICT, "directory_not_empty",
                       "%.150s is a directory with something in it", path);
    else
        return file_error(err, errnum, path);
    err->sys = errnum;
    return -1;
}

/* ---- directories ---- */

static uint32_t mode_or(const struct alter *a, uint32_t preset)
{
    return a->mode == CALL_MODE_KEEP ? preset : a->mode & 07777;
}

static int make_parents(const char *path, struct err *err)
{
    auto_free char *dir = xstrdup(path);
    char *slash = strrchr(dir, '/');

    if (slash == dir)
        return 0;
    *slash = '\0';
    return make_dirs(dir, 0755, err);
}

/* Our umask is not the caller's wish. By what is open: what has the name by now may be a link. */
static int set_mode(const char *path, uint32_t mode)
{
    auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 || fchmod(fd, mode) < 0 ? -errno : 0;
}

static int alter_mkdir(struct alter *a, struct err *err)
{
    bool parents = a->flags & ALTER_PARENTS;
    struct stat st;

    if (parents && strcmp(a->path, "/") != 0 && make_parents(a->path, err) < 0)
        return -1;
    if (mkdir(a->path, 0755) == 0) {
        int r = set_mode(a->path, mode_or(a, 0755));

        a->changed = 1;
        return r < 0 ? file_error(err, -r, a->path) : 0;
    }
    if (errno == EEXIST && parents && stat(a->path, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    return alter_error(err, errno, a->path);
}

static int alter_remove(struct alter *a, struct err *err)
{
    auto_close int parent = -1;
    char name[256];
    struct stat st;

    parent = open_parent(a->path, name, err);
    if (parent < 0)
        return -1;
    a->changed = 1;
    if (a->flags & ALTER_RECURSIVE)
        return remove_at(parent, name, a->path, true, err);
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        unlinkat(parent, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) == 0)
        return 0;
    return alter_error(err, errno, a->path);
}

/* ---- mode and owner ---- */

/* Owner first: changing it takes set-id bits away. fd may be O_PATH, which fchmod() does not take.
 */
static int set_marks(struct alter *a, int fd)
{
    char path[32];

    if ((a->uid != CALL_MODE_KEEP || a->gid != CALL_MODE_KEEP) &&
        fchownat(fd, "", a->uid, a->gid, AT_EMPTY_PATH) < 0)
        return -errno;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (a->mode != CALL_MODE_KEEP && chmod(path, a->mode & 07777) < 0)
        return -errno;
    a->changed++;
    return 0;
}

struct marks_walk {
    DIR *levels[DEPTH_MAX];
    size_t depth;
    unsigned steps;
};

/* By what is open, so that nobody can put a link in its place meanwhile; and opened before it has a
 * mode that may not let us. */
static int enter(struct marks_walk *w, struct alter *a, int dir, const char *name, bool top)
{
    auto_close int fd = -1;
    int r;

    if (w->depth == DEPTH_MAX)
        return -ENAMETOOLONG;
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (top ? 0 : O_NOFOLLOW));
    if (fd < 0)
        return -errno;
    r = set_marks(a, fd);
    if (r < 0)
        return r;
    w->levels[w->depth] = fdopendir(fd);
    if (!w->levels[w->depth])
        return -ENOMEM;
    (void)steal_fd(fd);
    w->depth++;
    return 0;
}

/* One that was removed meanwhile is left out, as is a link. */
static int visit(struct marks_walk *w, struct alter *a, int dir, const char *name)
{
    auto_close int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (S_ISLNK(st.st_mode))
        return 0;
    if (!S_ISDIR(st.st_mode))
        return set_marks(a, fd);
    r = enter(w, a, dir, name, false);
    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? 0 : r;
}

/* By the end of where it is: the start is what was asked for. */
static int too_deep(const struct marks_walk *w, const struct alter *a, struct err *err)
{
    char link[32], where[4096];
    const char *end = where;
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd(w->levels[w->depth - 1]));
    n = readlink(link, where, sizeof(where) - 1);
    where[n > 0 ? n : 0] = '\0';
    if (n > WHERE_SHOWN && (end = strchr(where + n - WHERE_SHOWN, '/')) == NULL)
        end = "";
    (void)err_set(
        err, ERR_INVALID,
        "%.80s has more than %d levels of directories; what is below %s%s was not changed", a->path,
        DEPTH_MAX, end == where ? "" : "\xe2\x80\xa6", end);
    err->sys = ENAMETOOLONG;
    return -1;
}

static int walk_marks(struct alter *a, struct err *err)
{
    static struct marks_walk walk;
    struct marks_walk *w = &walk;
    int r = enter(w, a, AT_FDCWD, a->path, true);

    while (r == 0 && w->depth > 0) {
        DIR *dir = w->levels[w->depth - 1];
        struct dirent *e = readdir(dir);

        if (++w->steps % LOOK_STEPS == 0 && call_gone(a->call))
            r = -ECANCELED;
        else if (!e)
            (void)closedir(w->levels[--w->depth]);
        else if (!str_is_dot(e->d_name))
            r = visit(w, a, dirfd(dir), e->d_name);
    }
    if (r == -ENAMETOOLONG && w->depth == DEPTH_MAX)
        (void)too_deep(w, a, err);
    else if (r < 0)
        (void)file_error(err, -r, a->path);
    while (w->depth > 0)
        (void)closedir(w->levels[--w->depth]);
    return r < 0 ? -1 : 0;
}

/* The path itself may be a link: what it points to is meant, as for chmod(1). */
static int alter_marks(struct alter *a, struct err *err)
{
    auto_close int fd = open(a->path, O_PATH | O_CLOEXEC);
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return file_error(err, errno, a->path);
    if ((a->flags & ALTER_RECURSIVE) && S_ISDIR(st.st_mode))
        return walk_marks(a, err);
    r = set_marks(a, fd);
    return r < 0 ? file_error(err, -r, a->path) : 0;
}

/* ---- moves ---- */

static int alter_move(struct alter *a, struct err *err)
{
    a->changed = 1;
    if (path_check(a->other, err) < 0)
        return -1;
    if (move_exactly(a->call, a->path, a->other, a->flags & ALTER_REPLACE, err) == 0)
        return 0;
    if (err->sys == EEXIST || err->sys == ENOTEMPTY)
        return alter_error(err, err->sys, a->other);
    return -1;
}

static int apply(struct alter *a, struct err *err)
{
    switch (a->kind) {
    case ALTER_MKDIR:
        return alter_mkdir(a, err);
    case ALTER_REMOVE:
        return alter_remove(a, err);
    case ALTER_MARKS:
        return alter_marks(a, err);
    case ALTER_MOVE:
        return alter_move(a, err);
    default:
        return err_set(err, ERR_INVALID, "changes of kind %u are not known", a->kind);
    }
}

int alter_call(struct agent_call *c, struct err *err)
{
    __attribute__((cleanup(alter_done))) struct alter a = {.call = c};
    auto_buf struct buf b = {0};

    a.kind = wire_get_u32(&c->args);
    a.path = wire_get_str(&c->args);
    a.other = wire_get_str(&c->args);
    a.mode = wire_get_u32(&c->args);
    a.uid = wire_get_u32(&c->args);
    a.gid = wire_get_u32(&c->args);
    a.flags = wire_get_u32(&c->args);
    if (call_args_ok(c, err) < 0 || path_check(a.path, err) < 0)
        return -1;
    if (a.flags & ~ALTER_FLAGS)
        return err_set(err, ERR_INVALID, "a change with unknown flags %#x", a.flags);
    if (apply(&a, err) < 0)
        return -1;
    buf_init(&b, 16);
    wire_put_u32(&b, a.changed);
    call_reply_buf(c, FRAME_OK, &b);
    return 0;
}
