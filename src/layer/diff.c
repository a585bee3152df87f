/* What one stack of layers shows and another does not. Folders that are the same parts of the same
 * layers in both are the same and not looked into, so that only what differs is walked. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "layer/diff.h"
#include "layer/layer_internal.h"
#include "layer/stack_internal.h"

#define DEPTH_MAX  256
#define PIECE_SIZE (64u << 10)

struct walk {
    const struct stack_diff *diff;
    unsigned depth;
    char path[LAYER_MAX_PATH + 1];
    char pieces[2][PIECE_SIZE]; /* of two files that are compared */
};

static int walk_folder(struct walk *w, const struct view *old, const struct view *new,
                       struct err *err);

static bool same_inode(int a, int b)
{
    struct stat x, y;

    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool has_part(const struct view *v, int fd)
{
    for (size_t i = 0; i < v->n; i++)
        if (same_inode(v->fds[i], fd))
            return true;
    return false;
}

static bool is_same(const struct view *a, const struct view *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!same_inode(a->fds[i], b->fds[i]))
            return false;
    return true;
}

/* ---- one entry ---- */

static uint32_t box_id(const struct walk *w, uint32_t id)
{
    return w->diff->ids_base >= LAYER_MAX_ID && id >= w->diff->ids_base ? id - w->diff->ids_base
                                                                        : id;
}

static bool link_differs(int a, int b, const char *name)
{
    char x[PATH_MAX], y[PATH_MAX];
    ssize_t n = readlinkat(a, name, x, sizeof(x)), m = readlinkat(b, name, y, sizeof(y));

    return n != m || n < 0 || memcmp(x, y, (size_t)n) != 0;
}

static ssize_t read_piece(int fd, char *piece)
{
    size_t len = 0;
    ssize_t n;

    do {
        n = read_some(fd, piece + len, PIECE_SIZE - len);
        len += n > 0 ? (size_t)n : 0;
    } while (n > 0 && len < PIECE_SIZE);
    return n < 0 ? n : (ssize_t)len;
}

/* Of two of the same size and time: a program can set times, and archives bring theirs. */
static bool content_differs(struct walk *w, int a, int b, const char *name)
{
    auto_close int x = openat(a, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    auto_close int y = openat(b, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t n, m;

    if (x < 0 || y < 0)
        return true;
    do {
        n = read_piece(x, w->pieces[0]);
        m = read_piece(y, w->pieces[1]);
        if (n != m || n < 0 || memcmp(w->pieces[0], w->pieces[1], (size_t)n) != 0)
            return true;
    } while (n > 0);
    return false;
}

static bool file_differs(struct walk *w, int old, const struct stat *o, int new,
                         const struct stat *n, const char *name)
{
    if (o->st_size != n->st_size || o->st_mtim.tv_sec != n->st_mtim.tv_sec ||
        o->st_mtim.tv_nsec != n->st_mtim.tv_nsec)
        return true;
    return (o->st_dev != n->st_dev || o->st_ino != n->st_ino) && content_differs(w, old, new, name);
}

/* Of a folder its time says only that something in it came or went, which is told anyway. */
static bool differs(struct walk *w, int old, const struct stat *o, int new, const struct stat *n,
                    const char *name)
{
    if (o->st_mode != n->st_mode || box_id(w, o->st_uid) != box_id(w, n->st_uid) ||
        box_id(w, o->st_gid) != box_id(w, n->st_gid))
        return true;
    if (S_ISLNK(n->st_mode))
        return link_differs(old, new, name);
    return S_ISREG(n->st_mode) && file_differs(w, old, o, new, n, name);
}

static int descend(struct walk *w, const struct view *old, const struct view *new, const char *name,
                   bool was, struct err *err)
{
    auto_view struct view below_old = {0}, below_new = {0};
    int r;

    if (w->depth >= DEPTH_MAX)
        return 0;
    if ((was && view_enter(old, name, &below_old, err) < 0) ||
        view_enter(new, name, &below_new, err) < 0)
        return -1;
    w->depth++;
    r = walk_folder(w, &below_old, &below_new, err);
    w->depth--;
    return r;
}

static int look(struct walk *w, const struct view *old, const struct view *new, const char *name,
                struct err *err)
{
    struct stat o, n;
    int at_old = view_find(old, name, &o), at_new = view_find(new, name, &n);
    bool both = at_old >= 0 && at_new >= 0;
    char kind = 0;

    if (at_old < 0 && at_new < 0)
        return 0;
    if (!both)
        kind = at_new >= 0 ? DIFF_ADDED : DIFF_DELETED;
    else if (differs(w, at_old, &o, at_new, &n, name))
        kind = DIFF_MODIFIED;
    if (kind && w->diff->found(w->diff->arg, kind, w->path, at_new >= 0 ? &n : &o, err) < 0)
        return -1;
    if (at_new < 0 || !S_ISDIR(n.st_mode))
        return 0;
    return descend(w, old, new, name, both && S_ISDIR(o.st_mode), err);
}

/* ---- a folder ---- */

static int look_named(struct walk *w, const struct view *old, const struct view *new,
                      const char *name, struct err *err)
{
    size_t len = strlen(w->path);
    int n = snprintf(w->path + len, sizeof(w->path) - len, "/%s", name), r = 0;

    if (n > 0 && (size_t)n < sizeof(w->path) - len)
        r = look(w, old, new, name, err);
    w->path[len] = '\0';
    return r;
}

static bool is_in(const struct view *v, size_t upto, const struct view *but, const char *name)
{
    struct stat st;

    for (size_t i = 0; i < upto; i++)
        if (!(but && has_part(but, v->fds[i])) &&
            fstatat(v->fds[i], name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            return true;
    return false;
}

/* The names of one part, but for those that were looked at. */
static int walk_part(struct walk *w, const struct view *old, const struct view *new, bool of_old,
                     size_t at, struct err *err)
{
    const struct view *v = of_old ? old : new;
    int fd = openat(v->fds[at], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!dir) {
        (void)layer_sys_error(err, errno, w->path);
        close_fd(&fd);
        return -1;
    }
    while (r == 0 && (errno = 0, e = readdir(dir))) {
        if (str_is_dot(e->d_name) || is_in(v, at, of_old ? new : old, e->d_name) ||
            (of_old && is_in(new, new->n, old, e->d_name)))
            continue;
        r = look_named(w, old, new, e->d_name, err);
    }
    if (r == 0 && errno != 0)
        r = layer_sys_error(err, errno, w->path);
    (void)closedir(dir);
    return r;
}

static int walk_folder(struct walk *w, const struct view *old, const struct view *new,
                       struct err *err)
{
    if (is_same(old, new))
        return 0;
    for (size_t i = 0; i < new->n; i++)
        if (!has_part(old, new->fds[i]) && walk_part(w, old, new, false, i, err) < 0)
            return -1;
    for (size_t i = 0; i < old->n; i++)
        if (!has_part(new, old->fds[i]) && walk_part(w, old, new, true, i, err) < 0)
            return -1;
    return 0;
}

int stack_diff(const struct stack_diff *diff, struct err *err)
{
    auto_free struct walk *w = xcalloc(1, sizeof(*w));
    auto_view struct view old = {0}, new = {0};

    w->diff = diff;
    if (view_root(&diff->old, &old, err) < 0 || view_root(&diff->new, &new, err) < 0)
        return -1;
    return walk_folder(w, &old, &new, err);
}
