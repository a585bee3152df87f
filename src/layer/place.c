/* From the path of an entry to the folder that it goes into: rules 1 and 2 of layer.c. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/remove.h"
#include "layer/layer_internal.h"

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* Rule 1. */
int place_clean(const char *path, char ret[LAYER_MAX_PATH + 1], struct err *err)
{
    size_t len = strlen(path), n = 0;
    unsigned depth = 0;

    if (len == 0)
        return layer_bad(err, path, "has no name");
    if (len > LAYER_MAX_PATH)
        return layer_bad(err, path, "is longer than 4096 bytes");
    if (path[0] == '/' && strspn(path, "/") < len) /* "/" alone is how some write the root */
        return layer_bad(err, path, "is absolute; make the archive relative to its root");
    for (const char *p = path; *p;) {
        size_t part = strcspn(p, "/");

        if (part == 2 && p[0] == '.' && p[1] == '.')
            return layer_bad(err, path, "leads out of the image with \"..\"");
        if (part > NAME_MAX)
            return layer_bad(err, path, "has a component longer than 255 bytes");
        if (part > 0 && !(part == 1 && p[0] == '.')) {
            if (++depth > LAYER_MAX_DEPTH)
                return layer_bad(err, path, "is nested deeper than 256 folders");
            if (n > 0)
                ret[n++] = '/';
            memcpy(ret + n, p, part);
            n += part;
        }
        p += part;
        p += strspn(p, "/");
    }
    ret[n] = '\0';
    return 0;
}

void place_leave(struct layer *l)
{
    struct layer_parent *p = &l->parent;

    if (p->fd >= 0 && p->changed) {
        const struct timespec times[2] = {p->mtime, p->mtime};

        (void)futimens(p->fd, times);
    }
    close_fd(&p->fd);
}

static int enter(struct layer *l, int fd, const char *path, struct err *err)
{
    struct layer_parent *p = &l->parent;
    struct stat st;

    if (fstat(fd, &st) < 0) {
        (void)close(fd);
        return layer_sys_error(err, errno, path);
    }
    p->fd = fd;
    p->changed = false;
    p->setgid = st.st_mode & S_ISGID;
    p->mtime = st.st_mtim;
    p->len = strlen(path);
    memcpy(p->path, path, p->len + 1);
    return 0;
}

/* Rule 2. */
static int open_beneath(int root, const char *path)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };

    return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

/* One folder that the archive does not have. In a layer its owner and mode come from the one below,
 * unless that one is hidden. hides: there was a whiteout in its place. */
static int make_folder(struct layer *l, int at, const char *name, bool hides, bool hidden,
                       int *ret_fd, struct err *err)
{
    bool marked = l->oci && !hides && !hidden;
    auto_close int fd = -1;
    struct stat above;
    int r;

    if (layer_count(l, err) < 0)
        return -1;
    if (fstat(at, &above) < 0 || mkdirat(at, name, 0700) < 0)
        return layer_sys_error(err, errno, name);
    fd = openat(at, name, OPEN_DIR);
    if (fd < 0 || fchown(fd, marked ? OWNER_IMPLIED : 0, marked ? OWNER_IMPLIED : 0) < 0 ||
        fchmod(fd, 0755) < 0)
        return layer_sys_error(err, errno, name);
    r = hides ? make_opaque(l, fd) : 0;
    if (r < 0)
        return layer_sys_error(err, -r, name);
    (void)futimens(at, (const struct timespec[2]){above.st_atim, above.st_mtim});
    l->implied += marked;
    *ret_fd = steal_fd(fd);
    return 0;
}

/* The next folder on the way; 1 when hide is set and there is nothing to hide. *opaque: a folder on
 * the way hides all below. */
static int step_into(struct layer *l, int at, const char *name, bool hide, bool *opaque,
                     int *ret_fd, struct err *err)
{
    bool hides = false;
    struct stat st;
    int fd = openat(at, name, OPEN_DIR);

    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) {
        if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !is_whiteout(&st))
            return layer_bad(err, name,
                             "is used as a folder, but is a link or a file in the image");
        if (hide)
            return 1;
        if (unlinkat(at, name, 0) < 0)
            return layer_sys_error(err, errno, name);
        hides = true;
    } else if (fd < 0 && errno != ENOENT) {
        return layer_sys_error(err, errno, name);
    } else if (fd >= 0) {
        *opaque |= l->opaques > 0 && is_opaque(fd);
        *ret_fd = fd;
        return 0;
    }
    if (hide && *opaque)
        return 1;
    return make_folder(l, at, name, hides, *opaque, ret_fd, err);
}

/* Archives may leave parents out. Cuts dir at its slashes and puts them back. */
static int make_parents(struct layer *l, char *dir, bool hide, int *ret_fd, struct err *err)
{
    auto_close int at = fcntl(l->root, F_DUPFD_CLOEXEC, 0);
    bool opaque = l->root_opaque;

    if (at < 0)
        return layer_sys_error(err, errno, dir);
    for (char *name = dir; name;) {
        char *slash = strchr(name, '/');
        int next = -1, r;

        if (slash)
            *slash = '\0';
        r = step_into(l, at, name, hide, &opaque, &next, err);
        if (slash)
            *slash = '/';
        if (r != 0)
            return r;
        (void)close(at);
        at = next;
        name = slash ? slash + 1 : NULL;
    }
    *ret_fd = steal_fd(at);
    return 0;
}

static int find(struct layer *l, const char *path, bool hide, struct place *ret, struct err *err)
{
    struct layer_parent *cached = &l->parent;
    const char *parent;
    char *slash;
    int fd, r;

    if (place_clean(path, ret->full, err) < 0)
        return -1;
    slash = strrchr(ret->full, '/');
    if (slash)
        *slash = '\0';
    ret->name = slash ? slash + 1 : ret->full;
    parent = slash ? ret->full : "";
    if (cached->fd < 0 || strcmp(cached->path, parent) != 0) {
        place_leave(l);
        fd = open_beneath(l->root, slash ? parent : ".");
        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
            r = make_parents(l, ret->full, hide, &fd, err);
            if (r != 0)
                return r;
        } else if (fd < 0 && (errno == ELOOP || errno == EXDEV)) {
            return layer_bad(err, path, "goes through a link or a file of the image");
        } else if (fd < 0) {
            return layer_sys_error(err, errno, path);
        }
        if (enter(l, fd, parent, err) < 0)
            return -1;
    }
    if (slash)
        *slash = '/';
    ret->dir = cached->fd;
    return 0;
}

int place_make(struct layer *l, const char *path, struct place *ret, struct err *err)
{
    return find(l, path, false, ret, err);
}

int place_hide(struct layer *l, const char *path, struct place *ret, struct err *err)
{
    return find(l, path, true, ret, err);
}

int place_clear(struct layer *l, const struct place *p, struct err *err)
{
    int r = remove_tree(p->dir, p->name);

    l->parent.changed = true;
    return r < 0 ? layer_sys_error(err, -r, p->full) : 0;
}
