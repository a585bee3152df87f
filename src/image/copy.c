/* Copies a directory on this machine into a layer. Someone may change it meanwhile, so everything
 * is opened without following links and judged by what was opened. */
#include "image/image_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <search.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"

#define COPY_SIZE (64u << 10)
#define XATTR_MAX (64u << 10)

/* A file with several names is copied once and linked afterwards. */
struct seen {
    dev_t dev;
    ino_t ino;
    char *path;
};

struct copy {
    struct layer *layer;
    EVP_MD_CTX *sha;
    struct stat images; /* the store itself, which must not be copied into itself */
    void *seen;         /* tree of struct seen */
    char path[LAYER_MAX_PATH + 1];
    char data[COPY_SIZE];
};

static int by_inode(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;

    if (x->dev != y->dev)
        return x->dev < y->dev ? -1 : 1;
    return x->ino < y->ino ? -1 : x->ino > y->ino;
}

static void seen_free(void *p)
{
    struct seen *s = p;

    free(s->path);
    free(s);
}

static struct layer_meta meta_of(const struct stat *st)
{
    return (struct layer_meta){
        .mode = st->st_mode & 07777,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .mtime = st->st_mtim.tv_sec,
        .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
    };
}

/* The digest's canonical form: a line and a NUL for each entry, then what it holds. Times are not
 * in it: the same tree copied twice is the same image. */
static void digest_entry(struct copy *c, char type, const struct stat *st, const char *target)
{
    auto_free char *line = xasprintf("%c %o %u %u %s", type, (unsigned)st->st_mode & 07777,
                                     (unsigned)st->st_uid, (unsigned)st->st_gid, c->path);

    digest_add(c->sha, line, strlen(line) + 1);
    digest_add(c->sha, target, strlen(target) + 1);
}

static int read_failed(const struct copy *c, int errnum, struct err *err)
{
    char shown[96];

    return err_sys(err, errnum, "read %s", printable(c->path[0] ? c->path : ".", shown));
}

static int copy_xattrs(struct copy *c, int from, int to, struct err *err)
{
    auto_free char *names = xmalloc(XATTR_MAX), *value = xmalloc(XATTR_MAX);
    ssize_t len = flistxattr(from, names, XATTR_MAX);

    if (len < 0)
        return errno == ENOTSUP ? 0 : read_failed(c, errno, err);
    for (char *name = names; name < names + len; name += strlen(name) + 1) {
        ssize_t n = fgetxattr(from, name, value, XATTR_MAX);

        if (n >= 0 && layer_xattr(to, name, value, (size_t)n, err) < 0)
            return -1;
    }
    return 0;
}

static int copy_bytes(struct copy *c, int from, int to, struct err *err)
{
    uint64_t total = 0;
    ssize_t n;

    while ((n = read_some(from, c->data, sizeof(c->data))) > 0) {
        int r;

        if (layer_grow(c->layer, (uint64_t)n, err) < 0)
            return -1;
        digest_add(c->sha, c->data, (size_t)n);
        r = write_all(to, c->data, (size_t)n);
        if (r < 0)
            return err_sys(err, -r, "write a file of the layer");
        total += (uint64_t)n;
    }
    if (n < 0)
        return read_failed(c, (int)-n, err);
    digest_add(c->sha, &total, sizeof(total));
    return 0;
}

/* 1 when an earlier name of the same file was linked. */
static int link_seen(struct copy *c, const struct stat *st, struct err *err)
{
    struct seen key = {.dev = st->st_dev, .ino = st->st_ino}, *s;
    struct seen **found = tfind(&key, &c->seen, by_inode);

    if (found) {
        digest_entry(c, 'h', st, (*found)->path);
        return layer_link(c->layer, c->path, (*found)->path, err) < 0 ? -1 : 1;
    }
    s = xcalloc(1, sizeof(*s));
    *s = key;
    s->path = xstrdup(c->path);
    if (!tsearch(s, &c->seen, by_inode))
        abort();
    return 0;
}

static int copy_file(struct copy *c, int dirfd, const char *name, struct err *err)
{
    /* O_NONBLOCK: a fifo that was swapped in must not hold us. */
    auto_close int from =
        openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    auto_close int to = -1;
    struct layer_meta meta;
    struct stat st;

    if (from < 0 || fstat(from, &st) < 0)
        return read_failed(c, errno, err);
    if (!S_ISREG(st.st_mode))
        return layer_drop(c->layer, err);
    if (st.st_nlink > 1) {
        int r = link_seen(c, &st, err);

        if (r != 0)
            return r < 0 ? -1 : 0;
    }
    digest_entry(c, 'f', &st, "");
    meta = meta_of(&st);
    if (layer_file(c->layer, c->path, &to, err) < 0 || copy_bytes(c, from, to, err) < 0 ||
        copy_xattrs(c, from, to, err) < 0)
        return -1;
    return layer_file_done(to, c->path, &meta, err);
}

static int copy_symlink(struct copy *c, int dirfd, const char *name, const struct stat *st,
                        struct err *err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dirfd, name, target, sizeof(target) - 1);
    struct layer_meta meta = meta_of(st);

    if (n < 0)
        return read_failed(c, errno, err);
    target[n] = '\0';
    digest_entry(c, 'l', st, target);
    return layer_symlink(c->layer, c->path, target, &meta, err);
}

static int copy_dir(struct copy *c, int dirfd, struct err *err);

/* What is mounted below (a /proc of a chroot) is not part of the tree and becomes an empty folder.
 */
static int enter_dir(struct copy *c, int dirfd, const char *name, const struct stat *st,
                     struct err *err)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS,
    };
    auto_close int fd = (int)syscall(SYS_openat2, dirfd, name, &how, sizeof(how));

    if (fd < 0 && errno == EXDEV) {
        struct layer_meta meta = meta_of(st);

        digest_entry(c, 'd', st, "");
        return layer_dir(c->layer, c->path, &meta, err);
    }
    if (fd < 0)
        return read_failed(c, errno, err);
    return copy_dir(c, fd, err);
}

static int copy_entry(struct copy *c, int dirfd, const char *name, struct err *err)
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
        return layer_drop(c->layer, err);
    }
}

static int copy_dir(struct copy *c, int dirfd, struct err *err)
{
    auto_strv char **names = NULL;
    size_t len = strlen(c->path);
    struct layer_meta meta;
    struct stat st;

    if (fstat(dirfd, &st) < 0)
        return read_failed(c, errno, err);
    if (st.st_dev == c->images.st_dev && st.st_ino == c->images.st_ino)
        return err_code(err, ERR_INVALID, "bad_image",
                        "it contains cay's own data folder; import a folder that does not");
    meta = meta_of(&st);
    digest_entry(c, 'd', &st, "");
    if (layer_dir(c->layer, len ? c->path : ".", &meta, err) < 0 ||
        tree_names(dirfd, LAYER_MAX_ENTRIES, &names, err) < 0)
        return -1;
    for (char **name = names; *name; name++) {
        int n = snprintf(c->path + len, sizeof(c->path) - len, "%s%s", len ? "/" : "", *name);

        if (n < 0 || (size_t)n >= sizeof(c->path) - len)
            return err_code(err, ERR_INVALID, "bad_image", "a path is longer than 4096 bytes");
        if (copy_entry(c, dirfd, *name, err) < 0)
            return -1;
        c->path[len] = '\0';
    }
    return 0;
}

int copy_tree(int dirfd, int images, struct layer *l, EVP_MD_CTX *sha, struct err *err)
{
    auto_free struct copy *c = xcalloc(1, sizeof(*c));
    int r;

    c->layer = l;
    c->sha = sha;
    if (fstat(images, &c->images) < 0)
        return err_sys(err, errno, "look at the image store");
    r = copy_dir(c, dirfd, err);
    tdestroy(c->seen, seen_free);
    return r;
}
