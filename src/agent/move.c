#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/stat.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "proto/frame.h"

/* A move as mv(1) does it:
 *  1. Onto a directory, or a link to one, it goes into that directory.
 *  2. A file replaces a file, atomically. A directory replaces nothing, not even an empty one, and
 *     nothing is merged.
 *  3. A link is moved, not what it points to.
 *  4. To another filesystem it is copied beside its goal, renamed, and then removed. */

#define ANCESTORS_MAX 8192

/* A name in a directory that is held open, so that all steps mean the same one. */
struct move_end {
    int dir;
    char name[256];
    const char *path; /* what the caller called it */
};

static void place_done(struct move_end *p)
{
    close_fd(&p->dir);
}
#define auto_place __attribute__((cleanup(place_done)))

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Rule 1. */
static int find_goal(const struct move_end *from, bool is_dir, struct move_end *to, struct err *err)
{
    size_t len = strlen(to->path);

    to->dir = open(to->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (to->dir >= 0) {
        memcpy(to->name, from->name, sizeof(to->name));
        return 0;
    }
    if (errno != ENOENT && errno != ENOTDIR)
        return file_error(err, errno, to->path);
    if (!is_dir && to->path[len - 1] == '/')
        return err_code(err, ERR_INVALID, "not_a_directory", "%.150s is not a directory", to->path);
    to->dir = open_parent(to->path, to->name, err);
    return to->dir < 0 ? -1 : 0;
}

/* The kernel sees this for itself only within one mount. */
static bool is_within(int dir, const struct stat *what)
{
    auto_close int at = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat st, last = {0};

    for (int i = 0; i < ANCESTORS_MAX && at >= 0 && fstat(at, &st) == 0; i++) {
        int up;

        if (is_same(&st, what))
            return true;
        if (i > 0 && is_same(&st, &last))
            break; /* the root */
        last = st;
        up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close_fd(&at);
        at = up;
    }
    return false;
}

static int exists(const struct move_end *from, const struct move_end *to, struct err *err)
{
    return err_set(err, ERR_CONFLICT,
                   "%.100s cannot replace \"%.80s\", which is there already; remove that first",
                   from->path, to->name);
}

static bool is_same_place(const struct move_end *a, const struct move_end *b)
{
    struct stat x, y;

    return fstat(a->dir, &x) == 0 && fstat(b->dir, &y) == 0 && is_same(&x, &y) &&
           strcmp(a->name, b->name) == 0;
}

/* Rule 2. *ret_linked: what is there is the same file by another name. */
static int check_goal(const struct move_end *from, const struct stat *st, const struct move_end *to,
                      bool *ret_linked, struct err *err)
{
    bool is_dir = S_ISDIR(st->st_mode);
    struct stat old;

    *ret_linked = false;
    if (is_dir && is_within(to->dir, st))
        return err_set(err, ERR_INVALID, "%.150s cannot be moved into itself", from->path);
    if (fstatat(to->dir, to->name, &old, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : file_error(err, errno, to->path);
    if (is_same_place(from, to))
        return err_set(err, ERR_CONFLICT, "%.100s is where it is to go already", from->path);
    if (is_dir || S_ISDIR(old.st_mode))
        return exists(from, to, err);
    *ret_linked = is_same(st, &old);
    return 0;
}

/* 0 or -errno. keep: nothing that is there goes. */
static int rename_to(const struct move_end *from, const struct move_end *to, bool keep)
{
    if (keep &&
        syscall(SYS_renameat2, from->dir, from->name, to->dir, to->name, RENAME_NOREPLACE) == 0)
        return 0;
    if (keep && errno != EINVAL) /* it is a flag that not every filesystem knows */
        return -errno;
    return renameat(from->dir, from->name, to->dir, to->name) < 0 ? -errno : 0;
}

static bool is_mount(const struct move_end *p)
{
    struct statx x;

    return syscall(SYS_statx, p->dir, p->name, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &x) == 0 &&
           (x.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

/* Rule 4. What cannot be removed is not copied, as far as that is known before. */
static int copy_to(struct agent_call *c, const struct move_end *from, const struct move_end *to,
                   bool keep, struct err *err)
{
    struct move_end tmp = {.dir = to->dir};
    struct err ignored;
    int r;

    if (is_mount(from))
        return file_error(err, EBUSY, from->path);
    if (faccessat(from->dir, ".", W_OK, AT_EACCESS) < 0 && errno == EROFS)
        return file_error(err, EROFS, from->path);
    (void)snprintf(tmp.name, sizeof(tmp.name), ".cay-%d-%llx.tmp", getpid(),
                   (unsigned long long)mono_ns());
    r = copy_tree(c, from->dir, from->name, tmp.dir, tmp.name);
    if (r == 0)
        r = rename_to(&tmp, to, keep);
    if (r == 0)
        return remove_at(from->dir, from->name, from->path, true, err);
    (void)remove_at(tmp.dir, tmp.name, to->path, true, &ignored);
    return file_error(err, -r, r == -ENXIO || r == -EACCES ? from->path : to->path);
}

static int move(struct agent_call *c, struct move_end *from, struct move_end *to, struct err *err)
{
    struct stat st;
    bool linked, is_dir;
    int r;

    from->dir = open_parent(from->path, from->name, err);
    if (from->dir < 0)
        return -1;
    if (fstatat(from->dir, from->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return file_error(err, errno, from->path);
    is_dir = S_ISDIR(st.st_mode);
    if (find_goal(from, is_dir, to, err) < 0 || check_goal(from, &st, to, &linked, err) < 0)
        return -1;
    if (linked) /* a rename of one to the other leaves both */
        return remove_at(from->dir, from->name, from->path, false, err);
    r = rename_to(from, to, is_dir);
    /* Another filesystem, such as /tmp, or a directory of the image, which overlayfs does not
     * rename. */
    if (r == -EXDEV)
        return copy_to(c, from, to, is_dir, err);
    return r < 0 ? file_error(err, -r, from->path) : 0;
}

/* In place of rules 1 and 2: to is its name, and whether it replaces what has that is the caller's
 * to say. What the kernel does not replace stays, as a directory that is not empty. */
static int move_as_told(struct agent_call *c, struct move_end *from, struct move_end *to,
                        bool replace, struct err *err)
{
    struct stat st, old;
    int r;

    from->dir = open_parent(from->path, from->name, err);
    if (from->dir < 0)
        return -1;
    if (fstatat(from->dir, from->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return file_error(err, errno, from->path);
    to->dir = open_parent(to->path, to->name, err);
    if (to->dir < 0)
        return -1;
    if (S_ISDIR(st.st_mode) && is_within(to->dir, &st))
        return err_set(err, ERR_INVALID, "%.150s cannot be moved into itself", from->path);
    /* For filesystems that cannot look and rename in one. */
    if (!replace && fstatat(to->dir, to->name, &old, AT_SYMLINK_NOFOLLOW) == 0)
        return file_error(err, EEXIST, to->path);
    r = rename_to(from, to, !replace);
    if (r == -EXDEV)
        return copy_to(c, from, to, !replace, err);
    return r < 0 ? file_error(err, -r, to->path) : 0;
}

int move_exactly(struct agent_call *c, const char *from, const char *to, bool replace,
                 struct err *err)
{
    auto_place struct move_end source = {.dir = -1, .path = from}, goal = {.dir = -1, .path = to};

    return move_as_told(c, &source, &goal, replace, err);
}

int move_call(struct agent_call *c, struct err *err)
{
    auto_free char *from = wire_get_str(&c->args);
    auto_free char *to = wire_get_str(&c->args);
    auto_free char *user = wire_get_str(&c->args);
    auto_place struct move_end source = {.dir = -1, .path = from}, goal = {.dir = -1, .path = to};

    if (call_args_ok(c, err) < 0 || path_check(from, err) < 0 || path_check(to, err) < 0 ||
        identity_become(c, user, err) < 0 || move(c, &source, &goal, err) < 0)
        return -1;
    call_reply(c, FRAME_OK, NULL, 0);
    return 0;
}
