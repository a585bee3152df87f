/* The second step of a layer: what it left to those below. Layers are unpacked side by side, so
 * that this waits until those below are whole. Nothing here reads what a stranger wrote but the
 * tree that the first step made; no link is followed. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "layer/layer_internal.h"
#include "layer/tree.h"

#define COPY_SIZE (64u << 10)
#define OPEN_DIR  (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct resolve {
    struct layer *layer;
    const int *lowers;
    size_t n;
    char path[LAYER_MAX_PATH + 1]; /* of the folder that is walked */
};

static int copy_data(struct layer *l, int from, int to, const char *path, struct err *err)
{
    auto_free char *data = xmalloc(COPY_SIZE);
    ssize_t n;
    int r;

    while ((n = read_some(from, data, COPY_SIZE)) > 0) {
        if (layer_grow(l, (uint64_t)n, err) < 0)
            return -1;
        r = write_all(to, data, (size_t)n);
        if (r < 0)
            return layer_sys_error(err, -r, path);
    }
    return n < 0 ? layer_sys_error(err, (int)-n, path) : 0;
}

/* Every name of the file here gets what the one below holds. */
static int fill_file(struct resolve *rs, int fd, const struct lower *from, const char *path,
                     struct err *err)
{
    auto_close int source =
        openat(from->dir, from->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct layer_meta meta = meta_of_stat(&from->st, 0);

    if (source < 0 || ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return layer_sys_error(err, errno, path);
    if (copy_data(rs->layer, source, fd, path, err) < 0 ||
        copy_attributes(source, fd, path, NULL, err) < 0)
        return -1;
    return layer_file_done(fd, path, &meta, err);
}

static int fill_symlink(int dirfd, const char *name, const struct lower *from, struct err *err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from->dir, from->name, target, sizeof(target) - 1);
    const struct timespec times[2] = {from->st.st_mtim, from->st.st_mtim};

    if (n < 0)
        return layer_sys_error(err, errno, name);
    target[n] = '\0';
    if (unlinkat(dirfd, name, 0) < 0 || symlinkat(target, dirfd, name) < 0 ||
        fchownat(dirfd, name, from->st.st_uid, from->st.st_gid, AT_SYMLINK_NOFOLLOW) < 0)
        return layer_sys_error(err, errno, name);
    (void)utimensat(dirfd, name, times, AT_SYMLINK_NOFOLLOW);
    return 0;
}

static int fill_borrowed(struct resolve *rs, int dirfd, const char *name, struct err *err)
{
    auto_close int fd = openat(dirfd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct lower from = {.dir = -1};
    char path[LAYER_MAX_PATH + 1];
    ssize_t n = fd < 0 ? -errno : read_some(fd, path, sizeof(path) - 1);
    int r;

    if (n < 0)
        return layer_sys_error(err, (int)-n, name);
    path[n] = '\0';
    r = lower_find(rs->lowers, rs->n, path, &from, err);
    if (r < 0)
        return -1;
    if (r == LOWER_FOUND && S_ISREG(from.st.st_mode))
        r = fill_file(rs, fd, &from, path, err);
    else if (r == LOWER_FOUND && S_ISLNK(from.st.st_mode))
        r = fill_symlink(dirfd, name, &from, err);
    else
        r = layer_bad(err, path, "is the target of a hard link, but is no file of the image");
    close_fd(&from.dir);
    return r;
}

/* Does the stack below show a folder at rs->path? The root always is one. */
static int below(const struct resolve *rs, bool hidden, struct lower *ret, struct err *err)
{
    int r;

    if (rs->path[0] == '\0')
        return 1;
    if (hidden)
        return 0;
    r = lower_find(rs->lowers, rs->n, rs->path, ret, err);
    if (r == LOWER_FOUND && S_ISDIR(ret->st.st_mode))
        return 1;
    close_fd(&ret->dir);
    return r < 0 ? -1 : 0;
}

/* A folder that the archive left out becomes as the one below it. */
static int complete_folder(const struct resolve *rs, int dirfd, bool hidden, struct err *err)
{
    struct lower from = {.dir = -1};
    struct layer_meta meta = {.mode = 0755};
    auto_close int there = -1;
    struct stat st;
    int r = below(rs, hidden, &from, err);

    if (r < 0 || fstat(dirfd, &st) < 0)
        return r < 0 ? -1 : layer_sys_error(err, errno, rs->path);
    meta.mtime = st.st_mtim.tv_sec;
    meta.mtime_ns = (uint32_t)st.st_mtim.tv_nsec;
    if (r == 1) {
        meta = meta_of_stat(&from.st, 0);
        there = openat(from.dir, from.name, OPEN_DIR);
        close_fd(&from.dir);
        if (there < 0)
            return layer_sys_error(err, errno, rs->path);
        if (copy_attributes(there, dirfd, rs->path, NULL, err) < 0)
            return -1;
    }
    return layer_file_done(dirfd, rs->path, &meta, err);
}

static int walk(struct resolve *rs, int dirfd, bool hidden, size_t *ret_kept, struct err *err);

/* One folder in a folder; *kept counts it unless it was only there to hold whiteouts of nothing. */
static int walk_folder(struct resolve *rs, int dirfd, const char *name, bool implied, bool hidden,
                       size_t *kept, struct err *err)
{
    auto_close int fd = openat(dirfd, name, OPEN_DIR);
    size_t inside = 0;
    struct lower from = {.dir = -1};
    int r;

    if (fd < 0)
        return layer_sys_error(err, errno, rs->path);
    if (walk(rs, fd, hidden || (rs->layer->opaques > 0 && is_opaque(fd)), &inside, err) < 0)
        return -1;
    if (implied && inside == 0) {
        r = below(rs, hidden, &from, err);
        close_fd(&from.dir);
        if (r < 0)
            return -1;
        if (r == 0)
            return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 ? layer_sys_error(err, errno, rs->path)
                                                           : 0;
    }
    (*kept)++;
    return implied ? complete_folder(rs, fd, hidden, err) : 0;
}

/* Whiteouts of nothing would be seen: overlayfs leaves them out of merged folders only. */
static int drop_idle_whiteouts(const struct resolve *rs, int dirfd, char **names, bool hidden,
                               size_t *kept, struct err *err)
{
    struct lower from = {.dir = -1};
    int r = below(rs, hidden, &from, err);

    close_fd(&from.dir);
    if (r < 0)
        return -1;
    for (char **name = names; *name; name++) {
        struct stat st;

        if (fstatat(dirfd, *name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !is_whiteout(&st))
            continue;
        if (r == 1)
            (*kept)++;
        else if (unlinkat(dirfd, *name, 0) < 0)
            return layer_sys_error(err, errno, rs->path);
    }
    return 0;
}

static int walk_entry(struct resolve *rs, int dirfd, const char *name, bool hidden, size_t *kept,
                      size_t *whiteouts, struct err *err)
{
    struct stat st;

    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return layer_sys_error(err, errno, name);
    if (S_ISDIR(st.st_mode))
        return walk_folder(rs, dirfd, name, st.st_uid == OWNER_IMPLIED, hidden, kept, err);
    if (is_whiteout(&st)) {
        (*whiteouts)++;
        return 0;
    }
    (*kept)++;
    if (S_ISREG(st.st_mode) && st.st_uid == OWNER_BORROWED)
        return fill_borrowed(rs, dirfd, name, err);
    return 0;
}

static int walk(struct resolve *rs, int dirfd, bool hidden, size_t *ret_kept, struct err *err)
{
    auto_strv char **names = NULL;
    size_t len = strlen(rs->path), kept = 0, whiteouts = 0;
    struct stat st;

    if (fstat(dirfd, &st) < 0)
        return layer_sys_error(err, errno, rs->path);
    if (tree_names(dirfd, LAYER_MAX_ENTRIES, &names, err) < 0)
        return -1;
    for (char **name = names; *name; name++) {
        /* The first step has seen to it that it fits. */
        (void)snprintf(rs->path + len, sizeof(rs->path) - len, "%s%s", len ? "/" : "", *name);
        if (walk_entry(rs, dirfd, *name, hidden, &kept, &whiteouts, err) < 0)
            return -1;
        rs->path[len] = '\0';
    }
    if (whiteouts > 0 && drop_idle_whiteouts(rs, dirfd, names, hidden, &kept, err) < 0)
        return -1;
    (void)futimens(dirfd, (const struct timespec[2]){st.st_atim, st.st_mtim});
    *ret_kept = kept;
    return 0;
}

static bool is_point(const char *name)
{
    return strcmp(name, "proc") == 0 || strcmp(name, "sys") == 0 || strcmp(name, "dev") == 0;
}

/* overlayfs does not look at the mark of a root, so that each name below is hidden by itself. */
static int hide_root(struct resolve *rs, const char *name, struct err *err)
{
    struct layer *l = rs->layer;
    auto_close int fd = -1;
    struct stat st;
    int r;

    if (is_point(name))
        return 0;
    if (fstatat(l->root, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT || mknodat(l->root, name, S_IFCHR, makedev(0, 0)) < 0)
            return layer_sys_error(err, errno, name);
        return 0;
    }
    if (!S_ISDIR(st.st_mode))
        return 0;
    fd = openat(l->root, name, OPEN_DIR);
    r = fd < 0 ? -errno : make_opaque(l, fd);
    return r < 0 ? layer_sys_error(err, -r, name) : 0;
}

static int hide_roots(struct resolve *rs, struct err *err)
{
    for (size_t i = 0; i < rs->n; i++) {
        auto_strv char **names = NULL;

        if (tree_names(rs->lowers[i], LAYER_MAX_ENTRIES, &names, err) < 0)
            return -1;
        for (char **name = names; *name; name++)
            if (hide_root(rs, *name, err) < 0)
                return -1;
    }
    return 0;
}

int layer_resolve(struct layer *l, const int *lowers, size_t n, struct err *err)
{
    auto_free struct resolve *rs = NULL;
    size_t kept;

    l->bound = l->implied > 0 || l->borrowed > 0 || l->whiteouts > 0 || l->root_opaque;
    if (!l->bound)
        return 0;
    rs = xcalloc(1, sizeof(*rs));
    *rs = (struct resolve){.layer = l, .lowers = lowers, .n = n};
    if (l->root_opaque && hide_roots(rs, err) < 0)
        return -1;
    return walk(rs, l->root, false, &kept, err);
}
