/* Writes a layer beneath a directory. The source is hostile; these rules hold whatever it says:
 *
 * 1. A path is relative, has no ".." component, no more than LAYER_MAX_PATH bytes and
 *    LAYER_MAX_DEPTH components. Anything else is refused, not repaired.
 * 2. A parent is reached from the layer's root with openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)
 *    or one component at a time with O_NOFOLLOW: never by joining strings, never through a link
 *    that the same source made.
 * 3. What is there is removed before something new takes its name, and files are made with O_EXCL:
 *    nothing is ever written through a link.
 * 4. A hard link's target is found by rules 1 and 2 and is not a directory.
 * 5. Only directories, files, links and symbolic links of the source exist in a layer: no devices,
 *    fifos, sockets. The character device 0/0 is ours: it hides a name of the layers below.
 * 6. Owners are ids of the box (below LAYER_MAX_ID). Setuid bits stay: boxes mount with nosuid, and
 *    the folder above the layers is closed to everyone but root.
 * 7. Extended attributes outside user.* are left out, and user.overlay.* too: they are rights (file
 *    capabilities, ACLs, labels), or orders to overlayfs.
 * 8. Entries (folders that the archive left out too) and bytes are counted before they are made,
 *    and stop at the maximum: that of the layer, and that of the image.
 * 9. A folder that takes the name of something else in the same layer is opaque: what took the name
 *    first had hidden the folder below. */
#include "layer/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "layer/layer_internal.h"

void layer_init(struct layer *l, int root)
{
    *l = (struct layer){
        .root = root,
        .max_bytes = LAYER_MAX_BYTES,
        .max_entries = LAYER_MAX_ENTRIES,
        .parent.fd = -1,
    };
}

void layer_done(struct layer *l)
{
    place_leave(l);
}

char *layer_warning(const struct layer *l)
{
    if (l->left_out == 0)
        return NULL;
    return xasprintf("%llu %s left out, with a path longer than %d bytes or more than %d folders "
                     "deep; the first begins with %s",
                     (unsigned long long)l->left_out,
                     l->left_out == 1 ? "file or folder was" : "files and folders were",
                     LAYER_MAX_PATH, LAYER_MAX_DEPTH, l->left_out_first);
}

const char *printable(const char *path, char ret[96])
{
    size_t n = 0;

    for (; path[n] && n < 92; n++)
        ret[n] = path[n] >= ' ' && path[n] < 0x7f ? path[n] : '?';
    (void)snprintf(ret + n, 4, "%s", path[n] ? "..." : "");
    return ret;
}

int layer_bad(struct err *err, const char *path, const char *why)
{
    char shown[96];

    return err_code(err, ERR_INVALID, "bad_image", "entry \"%s\" %s", printable(path, shown), why);
}

int layer_sys_error(struct err *err, int errnum, const char *path)
{
    char shown[96];

    return err_sys(err, errnum, "write \"%s\" into the layer", printable(path, shown));
}

int layer_count(struct layer *l, struct err *err)
{
    if (l->goes_on && l->goes_on(l->arg, err) < 0)
        return -1;
    if (l->entries >= l->max_entries)
        return err_code(err, ERR_TOO_LARGE, "image_too_large",
                        "more than %llu entries; an image may not have more",
                        (unsigned long long)l->max_entries);
    l->entries++;
    return l->budget ? layer_budget_count(l->budget, 1, err) : 0;
}

int layer_grow(struct layer *l, uint64_t n, struct err *err)
{
    if (n > l->max_bytes - l->bytes)
        return err_code(
            err, ERR_TOO_LARGE, "image_too_large",
            "more than %llu MiB unpacked; CAY_MAX_IMAGE_SIZE says how large images may be",
            (unsigned long long)(l->max_bytes >> 20));
    l->bytes += n;
    if (l->goes_on && l->goes_on(l->arg, err) < 0)
        return -1;
    return l->budget ? layer_budget_grow(l->budget, n, err) : 0;
}

/* Rule 6. */
static int check_owner(const char *path, const struct layer_meta *meta, struct err *err)
{
    if (meta->uid >= 0 && meta->uid < LAYER_MAX_ID && meta->gid >= 0 && meta->gid < LAYER_MAX_ID)
        return 0;
    return layer_bad(err, path, "belongs to a user or group id that is not below 65536");
}

struct timespec *times_of(const struct layer_meta *meta, struct timespec ret[2])
{
    ret[0] = ret[1] = (struct timespec){
        .tv_sec = meta->mtime,
        .tv_nsec = meta->mtime_ns < 1000000000 ? meta->mtime_ns : 0,
    };
    return ret;
}

static int apply_meta(int fd, const char *path, const struct layer_meta *meta, struct err *err)
{
    struct timespec times[2];

    /* Owner first: changing it clears the setuid bit. */
    if (fchown(fd, (uid_t)meta->uid, (gid_t)meta->gid) < 0 || fchmod(fd, meta->mode & 07777) < 0)
        return layer_sys_error(err, errno, path);
    (void)futimens(fd, times_of(meta, times)); /* a time the filesystem cannot hold is no loss */
    return 0;
}

/* A place for an entry that is not a directory. */
static int make_room(struct layer *l, const char *path, struct place *ret, struct err *err)
{
    if (layer_count(l, err) < 0 || place_make(l, path, ret, err) < 0)
        return -1;
    if (ret->name[0] == '\0')
        return layer_bad(err, path, "must be a folder: it is the root of the image");
    l->parent.changed = true;
    return 0;
}

static int open_folder(struct layer *l, const struct place *p, int *ret_fd, struct err *err)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    auto_close int fd = -1;
    bool replaces = false;
    int r;

    if (mkdirat(p->dir, p->name, 0700) < 0 && errno != EEXIST)
        return layer_sys_error(err, errno, p->full);
    fd = openat(p->dir, p->name, flags);
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) { /* rule 3 */
        replaces = true;
        if (place_clear(l, p, err) < 0)
            return -1;
        if (mkdirat(p->dir, p->name, 0700) < 0)
            return layer_sys_error(err, errno, p->full);
        fd = openat(p->dir, p->name, flags);
    }
    if (fd < 0)
        return layer_sys_error(err, errno, p->full);
    r = replaces ? make_opaque(l, fd) : 0; /* rule 9 */
    if (r < 0)
        return layer_sys_error(err, -r, p->full);
    *ret_fd = steal_fd(fd);
    return 0;
}

int layer_dir_open(struct layer *l, const char *path, const struct layer_meta *meta, int *ret_fd,
                   struct err *err)
{
    auto_close int fd = -1;
    struct place p;

    if (check_owner(path, meta, err) < 0 || layer_count(l, err) < 0 ||
        place_make(l, path, &p, err) < 0)
        return -1;
    if (p.name[0] == '\0') {
        place_leave(l); /* it is the root itself, whose time is set now */
        fd = openat(l->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            return layer_sys_error(err, errno, path);
    } else {
        l->parent.changed = true;
        if (open_folder(l, &p, &fd, err) < 0)
            return -1;
    }
    if (apply_meta(fd, path, meta, err) < 0)
        return -1;
    *ret_fd = steal_fd(fd);
    return 0;
}

int layer_dir(struct layer *l, const char *path, const struct layer_meta *meta, struct err *err)
{
    auto_close int fd = -1;

    return layer_dir_open(l, path, meta, &fd, err);
}

int layer_symlink(struct layer *l, const char *path, const char *target,
                  const struct layer_meta *meta, struct err *err)
{
    struct timespec times[2];
    struct place p;
    int r;

    if (target[0] == '\0' || strlen(target) >= LAYER_MAX_PATH)
        return layer_bad(err, path, "is a link with an empty or over-long target");
    if (check_owner(path, meta, err) < 0 || make_room(l, path, &p, err) < 0)
        return -1;
    /* Where it points is not checked: it is only ever followed inside a box. */
    r = symlinkat(target, p.dir, p.name);
    if (r < 0 && errno == EEXIST) { /* rule 3 */
        if (place_clear(l, &p, err) < 0)
            return -1;
        r = symlinkat(target, p.dir, p.name);
    }
    if (r < 0 ||
        fchownat(p.dir, p.name, (uid_t)meta->uid, (gid_t)meta->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return layer_sys_error(err, errno, path);
    (void)utimensat(p.dir, p.name, times_of(meta, times), AT_SYMLINK_NOFOLLOW);
    return 0;
}

/* A socket keeps its mode but for what the umask takes: it cannot be opened, and the image worker
 * may change modes of what it opened only. */
int layer_special(struct layer *l, const char *path, uint32_t type, const struct layer_meta *meta,
                  struct err *err)
{
    struct timespec times[2];
    auto_close int fd = -1;
    struct place p;

    if (check_owner(path, meta, err) < 0 || make_room(l, path, &p, err) < 0)
        return -1;
    if (mknodat(p.dir, p.name, type | meta->mode, 0) < 0 ||
        fchownat(p.dir, p.name, (uid_t)meta->uid, (gid_t)meta->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return layer_sys_error(err, errno, path);
    if (type == S_IFIFO) {
        fd = openat(p.dir, p.name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fchmod(fd, meta->mode) < 0)
            return layer_sys_error(err, errno, path);
    }
    (void)utimensat(p.dir, p.name, times_of(meta, times), AT_SYMLINK_NOFOLLOW);
    return 0;
}

int layer_file(struct layer *l, const char *path, int *ret_fd, struct err *err)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    struct place p;
    int fd;

    if (make_room(l, path, &p, err) < 0)
        return -1;
    fd = openat(p.dir, p.name, flags, 0600);
    if (fd < 0 && errno == EEXIST) { /* rule 3 */
        if (place_clear(l, &p, err) < 0)
            return -1;
        fd = openat(p.dir, p.name, flags, 0600);
    }
    if (fd < 0)
        return layer_sys_error(err, errno, path);
    *ret_fd = fd;
    return 0;
}

int layer_file_done(int fd, const char *path, const struct layer_meta *meta, struct err *err)
{
    return check_owner(path, meta, err) < 0 ? -1 : apply_meta(fd, path, meta, err);
}

/* A file that stands for the one of a layer below, which may not be there yet. */
static int borrow(struct layer *l, const char *target, struct err *err)
{
    auto_close int fd = -1;
    int r;

    if (layer_file(l, target, &fd, err) < 0)
        return -1;
    r = write_all(fd, target, strlen(target));
    if (r < 0 || fchown(fd, OWNER_BORROWED, OWNER_BORROWED) < 0)
        return layer_sys_error(err, r < 0 ? -r : errno, target);
    l->borrowed++;
    return 0;
}

/* Rule 4. from is clean. */
static int find_target(struct layer *l, const char *path, const char *from, struct lower *ret,
                       struct err *err)
{
    int r = lower_find(&l->root, 1, from, ret, err);

    if (r == LOWER_ABSENT && l->oci && !l->root_opaque) {
        if (borrow(l, from, err) < 0)
            return -1;
        r = lower_find(&l->root, 1, from, ret, err);
    }
    if (r < 0)
        return -1;
    if (r != LOWER_FOUND)
        return layer_bad(err, path, "is a hard link to something that is not in the image");
    if (!S_ISREG(ret->st.st_mode) && !S_ISLNK(ret->st.st_mode)) {
        close_fd(&ret->dir);
        return layer_bad(err, path, "is a hard link to a folder");
    }
    return 0;
}

static int link_to(struct layer *l, const struct lower *from, const struct place *p,
                   struct err *err)
{
    struct stat there;

    if (linkat(from->dir, from->name, p->dir, p->name, 0) == 0)
        return 0;
    if (errno != EEXIST)
        return layer_sys_error(err, errno, p->full);
    /* A link to itself is done already; making room for it would remove it. */
    if (fstatat(p->dir, p->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        there.st_ino == from->st.st_ino && there.st_dev == from->st.st_dev)
        return 0;
    if (place_clear(l, p, err) < 0)
        return -1;
    if (linkat(from->dir, from->name, p->dir, p->name, 0) < 0) {
        if (errno == ENOENT)
            return layer_bad(err, p->full, "is a hard link to something inside of itself");
        return layer_sys_error(err, errno, p->full);
    }
    return 0;
}

int layer_link(struct layer *l, const char *path, const char *target, struct err *err)
{
    struct lower from = {.dir = -1};
    char clean[LAYER_MAX_PATH + 1];
    struct place p;
    int r;

    /* Some builders write "/usr/bin/perl"; it is a path of the image all the same. */
    target += strspn(target, "/");
    if (place_clean(target, clean, err) < 0)
        return -1;
    if (clean[0] == '\0')
        return layer_bad(err, path, "is a hard link to a folder");
    if (find_target(l, path, clean, &from, err) < 0)
        return -1;
    r = make_room(l, path, &p, err);
    if (r == 0)
        r = link_to(l, &from, &p, err);
    close_fd(&from.dir);
    return r;
}

int layer_drop(struct layer *l, struct err *err)
{
    l->dropped++;
    return layer_count(l, err);
}

int layer_xattr(int fd, const char *name, const void *value, size_t len, struct err *err)
{
    char shown[96];

    /* Rule 7. */
    if (!str_starts(name, "user.") || str_starts(name, "user.overlay."))
        return 0;
    if (fsetxattr(fd, name, value, len, 0) == 0 || errno == ENOTSUP || errno == EPERM)
        return 0; /* EPERM: symlinks and special files cannot have any */
    return err_sys(err, errno, "set attribute \"%s\"", printable(name, shown));
}
