/* Writes a layer beneath a directory. The source is hostile; these rules hold whatever it says:
 *
 * 1. A path is relative, has no ".." component, no more than LAYER_MAX_PATH bytes and
 *    LAYER_MAX_DEPTH components. Anything else is refused, not repaired.
 * 2. A parent is reached from the layer's root with openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)
 * or one component at a time with O_NOFOLLOW: never by joining strings, never through a link that
 * the same source made.
 * 3. What is there is removed before something new takes its name, and files are made with O_EXCL:
 *    nothing is ever written through a link.
 * 4. A hard link's target is found by rules 1 and 2 and is not a directory.
 * 5. Only directories, files, links and symbolic links exist in a layer: no devices, fifos,
 * sockets.
 * 6. Owners are ids of the box (below LAYER_MAX_ID). Setuid bits stay: boxes mount with nosuid, and
 *    the folder above the layers is closed to everyone but root.
 * 7. Extended attributes outside user.* are left out, and user.overlay.* too: they are rights, or
 *    orders to overlayfs.
 * 8. Entries and bytes are counted before they are made, and stop at the maximum.
 *
 * Whiteouts of OCI layers are not interpreted here: in a plain root file system they are files. */
#include "image/image_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

void layer_init(struct layer *l, int root)
{
    *l = (struct layer){
        .root = root,
        .max_bytes = LAYER_MAX_BYTES,
        .max_entries = LAYER_MAX_ENTRIES,
    };
}

const char *printable(const char *path, char ret[96])
{
    size_t n = 0;

    for (; path[n] && n < 92; n++)
        ret[n] = path[n] >= ' ' && path[n] < 0x7f ? path[n] : '?';
    (void)snprintf(ret + n, 4, "%s", path[n] ? "..." : "");
    return ret;
}

static int bad_path(struct err *err, const char *path, const char *why)
{
    char shown[96];

    return err_code(err, ERR_INVALID, "bad_image", "entry \"%s\" %s", printable(path, shown), why);
}

static int sys_error(struct err *err, int errnum, const char *path)
{
    char shown[96];

    return err_sys(err, errnum, "write \"%s\" into the layer", printable(path, shown));
}

static int count_entry(struct layer *l, struct err *err)
{
    if (l->entries >= l->max_entries)
        return err_code(err, ERR_TOO_LARGE, "image_too_large",
                        "more than %llu entries; an image may not have more",
                        (unsigned long long)l->max_entries);
    l->entries++;
    return 0;
}

int layer_grow(struct layer *l, uint64_t n, struct err *err)
{
    if (n > l->max_bytes - l->bytes)
        return err_code(err, ERR_TOO_LARGE, "image_too_large",
                        "more than %llu MiB unpacked; an image may not be larger",
                        (unsigned long long)(l->max_bytes >> 20));
    l->bytes += n;
    return 0;
}

/* Rule 1. ret has no leading "./", no empty or "." components; "" is the root itself. */
static int clean_path(const char *path, char ret[LAYER_MAX_PATH + 1], struct err *err)
{
    size_t len = strlen(path), n = 0;
    unsigned depth = 0;

    if (len == 0)
        return bad_path(err, path, "has no name");
    if (len > LAYER_MAX_PATH)
        return bad_path(err, path, "is longer than 4096 bytes");
    if (path[0] == '/')
        return bad_path(err, path, "is absolute; make the archive relative to its root");
    for (const char *p = path; *p;) {
        size_t part = strcspn(p, "/");

        if (part == 2 && p[0] == '.' && p[1] == '.')
            return bad_path(err, path, "leads out of the image with \"..\"");
        if (part > NAME_MAX)
            return bad_path(err, path, "has a component longer than 255 bytes");
        if (part > 0 && !(part == 1 && p[0] == '.')) {
            if (++depth > LAYER_MAX_DEPTH)
                return bad_path(err, path, "is nested deeper than 256 folders");
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

static int open_beneath(int root, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };

    return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

/* Archives may leave parents out; those that are missing belong to root. Cuts dir at its slashes
 * and puts them back. */
static int make_parents(struct layer *l, char *dir, int *ret_fd, struct err *err)
{
    auto_close int at = fcntl(l->root, F_DUPFD_CLOEXEC, 0);

    if (at < 0)
        return sys_error(err, errno, dir);
    for (char *name = dir; name;) {
        char *slash = strchr(name, '/');
        int next;

        if (slash)
            *slash = '\0';
        next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0 && errno == ENOENT) {
            if (count_entry(l, err) < 0)
                return -1;
            if (mkdirat(at, name, 0755) < 0 || fchmodat(at, name, 0755, 0) < 0)
                return sys_error(err, errno, dir);
            next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        }
        if (slash)
            *slash = '/';
        if (next < 0)
            return bad_path(err, dir, "is used as a folder, but is a link or a file in the image");
        (void)close(at);
        at = next;
        name = slash ? slash + 1 : NULL;
    }
    *ret_fd = steal_fd(at);
    return 0;
}

/* Rules 1 and 2: the descriptor of the folder that path is in, and its name there. full is the
 * caller's memory for both; an empty name means the root itself. */
static int open_parent(struct layer *l, const char *path, bool make, char full[LAYER_MAX_PATH + 1],
                       int *ret_dir, const char **ret_name, struct err *err)
{
    char *slash;
    int fd;

    if (clean_path(path, full, err) < 0)
        return -1;
    slash = strrchr(full, '/');
    if (slash)
        *slash = '\0';
    fd = open_beneath(l->root, slash ? full : ".");
    if (fd < 0 && errno == ENOENT && make) {
        if (make_parents(l, full, &fd, err) < 0)
            return -1;
    } else if (fd < 0 && (errno == ELOOP || errno == ENOTDIR || errno == EXDEV)) {
        return bad_path(err, path, "goes through a link or a file of the image");
    } else if (fd < 0 && errno == ENOENT) {
        return bad_path(err, path, "is the target of a hard link, but is not in the image");
    } else if (fd < 0) {
        return sys_error(err, errno, path);
    }
    *ret_dir = fd;
    *ret_name = slash ? slash + 1 : full;
    return 0;
}

/* Rule 3: a place for an entry that is not a directory. */
static int make_room(struct layer *l, const char *path, char full[LAYER_MAX_PATH + 1], int *ret_dir,
                     const char **ret_name, struct err *err)
{
    auto_close int dir = -1;
    const char *name;

    if (count_entry(l, err) < 0 || open_parent(l, path, true, full, &dir, &name, err) < 0)
        return -1;
    if (name[0] == '\0')
        return bad_path(err, path, "must be a folder: it is the root of the image");
    if (unlinkat(dir, name, 0) < 0 && errno != ENOENT) {
        if (errno != EISDIR && errno != EPERM)
            return sys_error(err, errno, path);
        if (unlinkat(dir, name, AT_REMOVEDIR) < 0)
            return bad_path(err, path, "would replace a folder that is not empty");
    }
    *ret_dir = steal_fd(dir);
    *ret_name = name;
    return 0;
}

/* Rule 6. */
static int check_owner(const char *path, const struct layer_meta *meta, struct err *err)
{
    if (meta->uid >= 0 && meta->uid < LAYER_MAX_ID && meta->gid >= 0 && meta->gid < LAYER_MAX_ID)
        return 0;
    return bad_path(err, path, "belongs to a user or group id that is not below 65536");
}

static int apply_meta(int fd, const char *path, const struct layer_meta *meta, struct err *err)
{
    /* Owner first: changing it clears the setuid bit. */
    if (fchown(fd, (uid_t)meta->uid, (gid_t)meta->gid) < 0 || fchmod(fd, meta->mode & 07777) < 0)
        return sys_error(err, errno, path);
    return 0;
}

static struct timespec *times_of(const struct layer_meta *meta, struct timespec ret[2])
{
    ret[0] = ret[1] = (struct timespec){
        .tv_sec = meta->mtime,
        .tv_nsec = meta->mtime_ns < 1000000000 ? meta->mtime_ns : 0,
    };
    return ret;
}

int layer_dir(struct layer *l, const char *path, const struct layer_meta *meta, struct err *err)
{
    char full[LAYER_MAX_PATH + 1];
    auto_close int dir = -1, fd = -1;
    const char *name;
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

    if (check_owner(path, meta, err) < 0 || count_entry(l, err) < 0 ||
        open_parent(l, path, true, full, &dir, &name, err) < 0)
        return -1;
    if (name[0] == '\0')
        return apply_meta(l->root, path, meta, err);
    fd = openat(dir, name, flags);
    if (fd < 0 && errno != ENOENT) { /* a file or a link: rule 3 */
        if (unlinkat(dir, name, 0) < 0)
            return sys_error(err, errno, path);
    }
    if (fd < 0) {
        if (mkdirat(dir, name, 0700) < 0)
            return sys_error(err, errno, path);
        fd = openat(dir, name, flags);
    }
    if (fd < 0)
        return sys_error(err, errno, path);
    return apply_meta(fd, path, meta, err);
}

int layer_symlink(struct layer *l, const char *path, const char *target,
                  const struct layer_meta *meta, struct err *err)
{
    char full[LAYER_MAX_PATH + 1];
    struct timespec times[2];
    auto_close int dir = -1;
    const char *name;

    if (target[0] == '\0' || strlen(target) >= LAYER_MAX_PATH)
        return bad_path(err, path, "is a link with an empty or over-long target");
    if (check_owner(path, meta, err) < 0 || make_room(l, path, full, &dir, &name, err) < 0)
        return -1;
    /* Where it points is not checked: it is only ever followed inside a box. */
    if (symlinkat(target, dir, name) < 0 ||
        fchownat(dir, name, (uid_t)meta->uid, (gid_t)meta->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return sys_error(err, errno, path);
    (void)utimensat(dir, name, times_of(meta, times), AT_SYMLINK_NOFOLLOW);
    return 0;
}

/* Rule 4. */
int layer_link(struct layer *l, const char *path, const char *target, struct err *err)
{
    char full[LAYER_MAX_PATH + 1], from[LAYER_MAX_PATH + 1];
    auto_close int dir = -1, from_dir = -1;
    const char *name, *from_name;
    struct stat st, there;

    if (open_parent(l, target, false, from, &from_dir, &from_name, err) < 0)
        return -1;
    if (from_name[0] == '\0' || fstatat(from_dir, from_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return bad_path(err, path, "is a hard link to something that is not in the image");
    if (S_ISDIR(st.st_mode))
        return bad_path(err, path, "is a hard link to a folder");
    if (open_parent(l, path, true, full, &dir, &name, err) < 0)
        return -1;
    /* A link to itself is done already; making room for it would remove it. */
    if (name[0] && fstatat(dir, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        there.st_ino == st.st_ino && there.st_dev == st.st_dev)
        return count_entry(l, err);
    close_fd(&dir);
    if (make_room(l, path, full, &dir, &name, err) < 0)
        return -1;
    if (linkat(from_dir, from_name, dir, name, 0) < 0)
        return sys_error(err, errno, path);
    return 0;
}

int layer_file(struct layer *l, const char *path, int *ret_fd, struct err *err)
{
    char full[LAYER_MAX_PATH + 1];
    auto_close int dir = -1;
    const char *name;
    int fd;

    if (make_room(l, path, full, &dir, &name, err) < 0)
        return -1;
    fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return sys_error(err, errno, path);
    *ret_fd = fd;
    return 0;
}

int layer_file_done(int fd, const char *path, const struct layer_meta *meta, struct err *err)
{
    struct timespec times[2];

    if (check_owner(path, meta, err) < 0 || apply_meta(fd, path, meta, err) < 0)
        return -1;
    (void)futimens(fd, times_of(meta, times)); /* a time the filesystem cannot hold is no loss */
    return 0;
}

int layer_drop(struct layer *l, struct err *err)
{
    l->dropped++;
    return count_entry(l, err);
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

int layer_finish(struct layer *l, struct err *err)
{
    static const struct {
        const char *name;
        mode_t mode;
        bool must; /* mounted over at every start: may not be anything but a directory */
    } points[] = {
        {"proc", 0755, true},
        {"sys", 0755, true},
        {"dev", 0755, true},
        {"tmp", 01777, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(points); i++) {
        struct stat st;

        if (fstatat(l->root, points[i].name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            if (points[i].must && !S_ISDIR(st.st_mode))
                return bad_path(err, points[i].name, "must be a folder in an image");
        } else if (errno != ENOENT || mkdirat(l->root, points[i].name, 0700) < 0 ||
                   fchmodat(l->root, points[i].name, points[i].mode, 0) < 0) {
            return sys_error(err, errno, points[i].name);
        }
    }
    /* One call for the whole layer; a sync of each file would take minutes. */
    if (syncfs(l->root) < 0)
        return err_sys(err, errno, "put the layer on disk");
    return 0;
}
