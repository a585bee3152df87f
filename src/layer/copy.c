/* Copies a directory on this machine into a layer. Someone may change it meanwhile, so everything
 * is opened without following links and judged by what was opened. */
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/seen.h"
#include "base/str.h"
#include "layer/layer_internal.h"
#include "layer/tree.h"
#include "layer/trusted.h"

#define COPY_SIZE (64u << 10)
#define SEEN_MAX  (16u << 20) /* paths of files that have several names, where memory is shared */
#define XATTR_MAX (64u << 10)

struct folder_copy {
    struct layer *layer;
    EVP_MD_CTX *sha;    /* NULL = nobody asks for the digest */
    struct stat images; /* the store itself, which must not be copied into itself */
    bool upper;         /* of an overlay */
    uint32_t ids_base;
    void *seen; /* seen.h: a file with several names is copied once and linked afterwards */
    size_t seen_bytes;
    unsigned depth; /* components of path */
    char path[LAYER_MAX_PATH + 1];
    char data[CONTENT_SIZE];
};

struct layer_meta meta_of_stat(const struct stat *st, uint32_t ids_base)
{
    return (struct layer_meta){
        .mode = st->st_mode & 07777,
        .uid = (int64_t)st->st_uid - ids_base,
        .gid = (int64_t)st->st_gid - ids_base,
        .mtime = st->st_mtim.tv_sec,
        .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
    };
}

/* The digest's canonical form, of which no two trees have the same:
 *
 *   a block of 0xff, which no tar archive begins with: a layer is found by its digest, and that of
 *   a layer from an archive is the archive's own
 *   for each entry a letter, mode and owners, its path, and what a link leads to
 *   behind a file its letter 'c' and the digest of its content
 *   behind either an 'x', name and value for each attribute
 *
 * Whatever has no fixed length has it in front. Times are not in it: the same tree copied twice is
 * the same image. */
static void digest_begin(EVP_MD_CTX *sha)
{
    unsigned char block[512];

    memset(block, 0xff, sizeof(block));
    digest_add(sha, block, sizeof(block));
}

static void digest_field(EVP_MD_CTX *sha, const void *data, size_t len)
{
    uint64_t n = htole64(len);

    digest_add(sha, &n, sizeof(n));
    digest_add(sha, data, len);
}

static void digest_entry(struct folder_copy *c, char type, const struct stat *st,
                         const char *target)
{
    if (!c->sha)
        return;

    const uint32_t meta[] = {
        htole32(st->st_mode & 07777),
        htole32(st->st_uid - c->ids_base),
        htole32(st->st_gid - c->ids_base),
    };

    digest_add(c->sha, &type, 1);
    digest_add(c->sha, meta, sizeof(meta));
    digest_field(c->sha, c->path, strlen(c->path));
    digest_field(c->sha, target, strlen(target));
}

static void digest_attribute(EVP_MD_CTX *sha, const char *name, const void *value, size_t len)
{
    digest_add(sha, "x", 1);
    digest_field(sha, name, strlen(name));
    digest_field(sha, value, len);
}

static int read_failed(const struct folder_copy *c, int errnum, struct err *err)
{
    char shown[96];

    return err_sys(err, errnum, "read %s", printable(c->path[0] ? c->path : ".", shown));
}

/* In an order that does not depend on the filesystem. */
static char **sorted(char *names, size_t len)
{
    char **v = xcalloc(len + 1, sizeof(*v));
    size_t n = 0;

    for (char *name = names; name < names + len; name += strlen(name) + 1)
        v[n++] = name;
    strings_sort(v, n);
    return v;
}

int copy_attributes(int from, int to, const char *path, EVP_MD_CTX *sha, struct err *err)
{
    auto_free char *names = NULL, *value = NULL;
    auto_free char **list = NULL;
    ssize_t len = flistxattr(from, NULL, 0);
    char shown[96];

    if (len == 0 || (len < 0 && errno == ENOTSUP))
        return 0;
    names = xmalloc(XATTR_MAX);
    value = xmalloc(XATTR_MAX);
    len = flistxattr(from, names, XATTR_MAX);
    if (len < 0)
        return err_sys(err, errno, "read the attributes of %s", printable(path, shown));
    list = sorted(names, (size_t)len);
    for (char **name = list; *name; name++) {
        ssize_t n = fgetxattr(from, *name, value, XATTR_MAX);

        if (n < 0)
            continue;
        if (layer_xattr(to, *name, value, (size_t)n, err) < 0)
            return -1;
        if (sha && str_starts(*name, "user.") && !str_starts(*name, "user.overlay."))
            digest_attribute(sha, *name, value, (size_t)n);
    }
    return 0;
}

/* An upper directory is whole by itself only without these; cay mounts overlays so that they are
 * never made. */
static int check_upper(const struct folder_copy *c, int fd, struct err *err)
{
    int found = c->upper ? trusted_look(fd) : 0;
    char shown[96];

    if (found < 0)
        return read_failed(c, -found, err);
    if (found & (TRUSTED_REDIRECT | TRUSTED_METACOPY))
        return err_set(err, ERR_UNSUPPORTED,
                       "%s is only a part of a file or folder below; the overlay must be mounted "
                       "with redirect_dir=off,metacopy=off",
                       printable(c->path, shown));
    return 0;
}

static int copy_pieces(struct folder_copy *c, int from, int to, EVP_MD_CTX *content,
                       struct err *err)
{
    ssize_t n;

    while ((n = read_some(from, c->data, COPY_SIZE)) > 0) {
        int r;

        if (layer_grow(c->layer, (uint64_t)n, err) < 0)
            return -1;
        digest_add(content, c->data, (size_t)n);
        r = write_all(to, c->data, (size_t)n);
        if (r < 0)
            return err_sys(err, -r, "write a file of the layer");
    }
    return n < 0 ? read_failed(c, (int)-n, err) : 0;
}

/* How long it is shows only at its end: someone may write to it meanwhile. */
static int copy_bytes(struct folder_copy *c, int from, int to, struct err *err)
{
    EVP_MD_CTX *content = digest_new();
    char digest[DIGEST_HEX];
    int r = copy_pieces(c, from, to, content, err);

    digest_end(content, digest);
    digest_add(c->sha, "c", 1);
    digest_add(c->sha, digest, sizeof(digest));
    return r;
}

/* 1 when an earlier name of the same file was linked. */
static int link_seen(struct folder_copy *c, const struct stat *st, struct err *err)
{
    const char *first = seen_add(&c->seen, st, c->path);

    if (!first) {
        c->seen_bytes += strlen(c->path) + 1;
        if (!c->sha && c->seen_bytes > SEEN_MAX)
            return err_code(err, ERR_TOO_LARGE, "image_too_large",
                            "too many files have several names");
        return 0;
    }
    digest_entry(c, 'h', st, first);
    return layer_link(c->layer, c->path, first, err) < 0 ? -1 : 1;
}

static int copy_content(struct folder_copy *c, int from, int to, const struct stat *st,
                        struct err *err)
{
    return c->sha ? copy_bytes(c, from, to, err)
                  : content_copy(c->layer, from, to, st, c->data, err);
}

static int copy_opened(struct folder_copy *c, int from, const struct stat *st, struct err *err)
{
    struct layer_meta meta = meta_of_stat(st, c->ids_base);
    auto_close int to = -1;

    digest_entry(c, 'f', st, "");
    if (layer_file(c->layer, c->path, &to, err) < 0 || copy_content(c, from, to, st, err) < 0 ||
        copy_attributes(from, to, c->path, c->sha, err) < 0)
        return -1;
    return layer_file_done(to, c->path, &meta, err);
}

static int copy_file(struct folder_copy *c, int dirfd, const char *name, struct err *err)
{
    /* O_NONBLOCK: a fifo that was swapped in must not hold us. What a sandbox wrote was not read
     * by it because we do. */
    auto_close int from = openat(dirfd, name,
                                 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
                                     (c->sha ? 0 : O_NOATIME));
    struct stat st;

    if (from < 0 || fstat(from, &st) < 0)
        return read_failed(c, errno, err);
    if (!S_ISREG(st.st_mode))
        return layer_drop(c->layer, err);
    if (check_upper(c, from, err) < 0)
        return -1;
    if (st.st_nlink > 1) {
        int r = link_seen(c, &st, err);

        if (r != 0)
            return r < 0 ? -1 : 0;
    }
    return copy_opened(c, from, &st, err);
}

static int copy_symlink(struct folder_copy *c, int dirfd, const char *name, const struct stat *st,
                        struct err *err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dirfd, name, target, sizeof(target) - 1);
    struct layer_meta meta = meta_of_stat(st, c->ids_base);

    if (n < 0)
        return read_failed(c, errno, err);
    target[n] = '\0';
    digest_entry(c, 'l', st, target);
    return layer_symlink(c->layer, c->path, target, &meta, err);
}

static int copy_dir(struct folder_copy *c, int dirfd, struct err *err);

/* What is mounted below (a /proc of a chroot) is not part of the tree and becomes an empty folder.
 */
static int enter_dir(struct folder_copy *c, int dirfd, const char *name, const struct stat *st,
                     struct err *err)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS,
    };
    auto_close int fd = (int)syscall(SYS_openat2, dirfd, name, &how, sizeof(how));

    if (fd < 0 && errno == EXDEV) {
        struct layer_meta meta = meta_of_stat(st, c->ids_base);

        digest_entry(c, 'd', st, "");
        return layer_dir(c->layer, c->path, &meta, err);
    }
    if (fd < 0)
        return read_failed(c, errno, err);
    return copy_dir(c, fd, err);
}

/* Devices, fifos, sockets. In an upper directory the device 0/0 hides a name; and what a fifo or a
 * socket took the place of must not be there again. */
static int copy_special(struct folder_copy *c, const struct stat *st, struct err *err)
{
    struct layer_meta meta = meta_of_stat(st, c->ids_base);
    struct stat none = {0};

    if (c->upper && (S_ISFIFO(st->st_mode) || S_ISSOCK(st->st_mode))) {
        digest_entry(c, S_ISFIFO(st->st_mode) ? 'p' : 's', st, "");
        return layer_special(c->layer, c->path, st->st_mode & S_IFMT, &meta, err);
    }
    if (!c->upper || !is_whiteout(st))
        return layer_drop(c->layer, err);
    none.st_uid = none.st_gid = c->ids_base;
    digest_entry(c, 'w', &none, "");
    return layer_whiteout(c->layer, c->path, err);
}

static int copy_entry(struct folder_copy *c, int dirfd, const char *name, struct err *err)
{
    struct stat st;

    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return read_failed(c, errno, err);
    switch (st.st_mode & S_IFMT) {
    case S_IFDIR:
        return enter_dir(c, dirfd, name, &st, err);
    case S_IFREG:
        return copy_file(c, dirfd, name, err);
    case S_IFLNK:
        return copy_symlink(c, dirfd, name, &st, err);
    default:
        return copy_special(c, &st, err);
    }
}

/* The folder itself. */
static int copy_folder(struct folder_copy *c, int dirfd, struct err *err)
{
    bool opaque = c->upper && c->path[0] && is_opaque(dirfd);
    const char *path = c->path[0] ? c->path : ".";
    auto_close int to = -1;
    struct layer_meta meta;
    struct stat st;

    if (fstat(dirfd, &st) < 0)
        return read_failed(c, errno, err);
    if (st.st_dev == c->images.st_dev && st.st_ino == c->images.st_ino)
        return err_code(err, ERR_INVALID, "bad_image",
                        "it contains cay's own data folder; import a folder that does not");
    if (check_upper(c, dirfd, err) < 0)
        return -1;
    meta = meta_of_stat(&st, c->ids_base);
    digest_entry(c, opaque ? 'o' : 'd', &st, "");
    if (layer_dir_open(c->layer, path, &meta, &to, err) < 0 ||
        copy_attributes(dirfd, to, path, c->sha, err) < 0)
        return -1;
    return opaque ? layer_opaque(c->layer, path, err) : 0;
}

/* A program in the sandbox can make paths that no layer has. They must not keep the rest of its
 * disk from being copied. There can be any number of them: the caller is asked as with each that is
 * copied. */
static int leave_out(struct folder_copy *c, struct err *err)
{
    struct layer *l = c->layer;

    if (l->left_out++ == 0)
        (void)printable(c->path, l->left_out_first);
    return l->goes_on ? l->goes_on(l->arg, err) : 0;
}

static int copy_child(struct folder_copy *c, int dirfd, const char *name, struct err *err)
{
    size_t len = strlen(c->path);
    int n = snprintf(c->path + len, sizeof(c->path) - len, "%s%s", len ? "/" : "", name);

    bool fits = n >= 0 && (size_t)n < sizeof(c->path) - len && c->depth < LAYER_MAX_DEPTH;
    int r = 0;

    c->depth++;
    if (fits)
        r = copy_entry(c, dirfd, name, err);
    else if (c->upper)
        r = leave_out(c, err);
    else
        r = layer_bad(err, c->path, "is longer than 4096 bytes, or nested deeper than 256 folders");
    c->depth--;
    c->path[len] = '\0';
    return r;
}

/* In their order, which a digest needs. */
static int copy_sorted(struct folder_copy *c, int dirfd, struct err *err)
{
    auto_strv char **names = NULL;

    if (tree_names(dirfd, LAYER_MAX_ENTRIES, &names, err) < 0)
        return -1;
    for (char **name = names; *name; name++)
        if (copy_child(c, dirfd, *name, err) < 0)
            return -1;
    return 0;
}

/* As they come, so that a folder of any size takes no memory. */
static int copy_as_found(struct folder_copy *c, int dirfd, struct err *err)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME), r = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!dir) {
        (void)read_failed(c, errno, err);
        close_fd(&fd);
        return -1;
    }
    while (r == 0 && (errno = 0, e = readdir(dir)))
        if (!str_is_dot(e->d_name))
            r = copy_child(c, dirfd, e->d_name, err);
    if (r == 0 && errno)
        r = read_failed(c, errno, err);
    (void)closedir(dir);
    return r;
}

static int copy_dir(struct folder_copy *c, int dirfd, struct err *err)
{
    if (copy_folder(c, dirfd, err) < 0)
        return -1;
    return c->sha ? copy_sorted(c, dirfd, err) : copy_as_found(c, dirfd, err);
}

static int copy_all(struct folder_copy *c, int dirfd, struct layer *l, EVP_MD_CTX *sha,
                    struct err *err)
{
    int r;

    c->layer = l;
    c->sha = sha;
    if (sha)
        digest_begin(sha);
    r = copy_dir(c, dirfd, err);
    seen_done(c->seen);
    layer_done(l);
    return r;
}

int copy_tree(int dirfd, int images, struct layer *l, EVP_MD_CTX *sha, struct err *err)
{
    auto_free struct folder_copy *c = xcalloc(1, sizeof(*c));

    if (fstat(images, &c->images) < 0)
        return err_sys(err, errno, "look at the image store");
    return copy_all(c, dirfd, l, sha, err);
}

int copy_upper(int dirfd, uint32_t ids_base, struct layer *l, EVP_MD_CTX *sha, struct err *err)
{
    auto_free struct folder_copy *c = xcalloc(1, sizeof(*c));

    c->upper = true;
    c->ids_base = ids_base;
    return copy_all(c, dirfd, l, sha, err);
}
