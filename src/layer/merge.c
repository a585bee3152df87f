/* Several layers that lie on one another become one that shows and hides the same. Large files, and
 * those that have several names, are not copied but linked, since layers never change; the others
 * are copied, because some programs refuse files that have more names than they know of. Nothing is
 * kept in memory but the way to where it is. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "layer/layer_internal.h"
#include "layer/stack_internal.h"

#define DEPTH_MAX 64 /* each holds a descriptor for each of the layers */

#define LINK_SIZE (1 << 20)

struct merge {
    struct layer *layer;
    char data[CONTENT_SIZE];
};

static int merge_folder(struct merge *m, const struct view *parts, const struct view *below, int to,
                        unsigned depth, struct err *err);

/* The folder of that name in the parts from the first one on; *ret_hides when something that it
 * lies on is not to be seen any more. */
static int enter(const struct view *parts, size_t first, const char *name, struct view *ret,
                 bool *ret_hides, struct err *err)
{
    struct view v = {0};

    *ret_hides = false;
    for (size_t i = first; i < parts->n && !*ret_hides; i++) {
        int fd = openat(parts->fds[i], name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0 && errno == ENOENT)
            continue;
        if (fd < 0 && errno != ENOTDIR && errno != ELOOP) {
            view_done(&v);
            return layer_sys_error(err, errno, name);
        }
        *ret_hides = fd < 0 || is_opaque(fd);
        if (fd >= 0)
            view_add(&v, fd);
    }
    *ret = v;
    return 0;
}

static int set_meta(int from, int to, const char *name, struct err *err)
{
    struct stat st;

    if (fstat(from, &st) < 0 || fchown(to, st.st_uid, st.st_gid) < 0 ||
        fchmod(to, st.st_mode & 07777) < 0)
        return layer_sys_error(err, errno, name);
    return copy_attributes(from, to, name, NULL, err);
}

/* Last: what is put into a folder changes its time. */
static int set_time(int from, int to, const char *name, struct err *err)
{
    struct stat st;

    if (fstat(from, &st) < 0)
        return layer_sys_error(err, errno, name);
    (void)futimens(to, (const struct timespec[2]){st.st_mtim, st.st_mtim});
    return 0;
}

static int merge_sub(struct merge *m, const struct view *parts, const struct view *below,
                     size_t first, const char *name, int to, unsigned depth, struct err *err)
{
    auto_view struct view v = {0}, v_below = {0};
    auto_close int fd = -1;
    bool hides;
    int r;

    if (enter(parts, first, name, &v, &hides, err) < 0 ||
        (!hides && view_enter(below, name, &v_below, err) < 0))
        return -1;
    if (depth >= DEPTH_MAX)
        return err_set(err, ERR_TOO_LARGE, "folders are nested deeper than %d", DEPTH_MAX);
    if (mkdirat(to, name, 0700) < 0)
        return layer_sys_error(err, errno, name);
    fd = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return layer_sys_error(err, errno, name);
    r = hides ? make_opaque(m->layer, fd) : 0;
    if (r < 0)
        return layer_sys_error(err, -r, name);
    return merge_folder(m, &v, &v_below, fd, depth + 1, err);
}

static int copy_one(struct merge *m, int dirfd, const char *name, int to, struct err *err)
{
    auto_close int from = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    auto_close int made = -1;
    struct stat st;

    if (from < 0 || fstat(from, &st) < 0)
        return layer_sys_error(err, errno, name);
    made = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (made < 0)
        return layer_sys_error(err, errno, name);
    if (content_copy(m->layer, from, made, &st, m->data, err) < 0 ||
        set_meta(from, made, name, err) < 0)
        return -1;
    return set_time(from, made, name, err);
}

static bool is_above(const struct view *parts, size_t below, const char *name)
{
    struct stat st;

    for (size_t i = 0; i < below; i++)
        if (fstatat(parts->fds[i], name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            return true;
    return false;
}

static int merge_entry(struct merge *m, const struct view *parts, const struct view *below,
                       size_t at, const char *name, int to, unsigned depth, struct err *err)
{
    struct stat st, hidden;

    if (is_above(parts, at, name))
        return 0;
    if (layer_count(m->layer, err) < 0)
        return -1;
    if (fstatat(parts->fds[at], name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return layer_sys_error(err, errno, name);
    if (S_ISDIR(st.st_mode))
        return merge_sub(m, parts, below, at, name, to, depth, err);
    /* One of nothing would be seen: overlayfs leaves them out of merged folders only. */
    if (is_whiteout(&st) && view_find(below, name, &hidden) < 0)
        return 0;
    if (S_ISREG(st.st_mode) && st.st_nlink == 1 && st.st_size < LINK_SIZE)
        return copy_one(m, parts->fds[at], name, to, err);
    if (linkat(parts->fds[at], name, to, name, 0) < 0)
        return layer_sys_error(err, errno, name);
    m->layer->bytes += S_ISREG(st.st_mode) ? (uint64_t)st.st_blocks * 512 : 0;
    return 0;
}

static int merge_part(struct merge *m, const struct view *parts, const struct view *below,
                      size_t at, int to, unsigned depth, struct err *err)
{
    int fd = openat(parts->fds[at], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!dir) {
        (void)layer_sys_error(err, errno, ".");
        close_fd(&fd);
        return -1;
    }
    while (r == 0 && (errno = 0, e = readdir(dir)))
        if (!str_is_dot(e->d_name))
            r = merge_entry(m, parts, below, at, e->d_name, to, depth, err);
    if (r == 0 && errno)
        r = layer_sys_error(err, errno, ".");
    (void)closedir(dir);
    return r;
}

static int merge_folder(struct merge *m, const struct view *parts, const struct view *below, int to,
                        unsigned depth, struct err *err)
{
    if (set_meta(parts->fds[0], to, ".", err) < 0)
        return -1;
    for (size_t i = 0; i < parts->n; i++)
        if (merge_part(m, parts, below, i, to, depth, err) < 0)
            return -1;
    return set_time(parts->fds[0], to, ".", err);
}

int layer_merge(struct layer *l, const int *layers, size_t n, const int *below, size_t n_below,
                struct err *err)
{
    auto_free struct merge *m = xcalloc(1, sizeof(*m));
    auto_view struct view roots = {0}, roots_below = {0};

    m->layer = l;
    if (view_root(&(struct stack){.layers = layers, .n = n}, &roots, err) < 0 ||
        view_root(&(struct stack){.layers = below, .n = n_below}, &roots_below, err) < 0)
        return -1;
    return merge_folder(m, &roots, &roots_below, l->root, 0, err);
}
