/* A layer back into a tar archive, as OCI wants it: whiteouts are files called .wh.NAME, and a
 * folder that hides what is below has a .wh..wh..opq in it. Entries are in the order of their names
 * and have nothing that differs from one time to the next. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/seen.h"
#include "base/str.h"
#include "layer/layer_internal.h"
#include "layer/tree.h"

#define COPY_SIZE  (128u << 10)
#define XATTR_MAX  (64u << 10)
#define BLOCK_SIZE (64 << 10)

struct pack {
    struct archive *archive;
    EVP_MD_CTX *sha;
    pack_write write;
    void *arg;
    struct err write_err; /* of the write that failed */
    bool write_failed;
    uint32_t ids_base;
    void *seen; /* seen.h */
    char path[LAYER_MAX_PATH + 16];
    char data[COPY_SIZE];
};

static la_ssize_t write_block(struct archive *a, void *arg, const void *data, size_t len)
{
    struct pack *p = arg;

    (void)a;
    digest_add(p->sha, data, len);
    if (p->write(p->arg, data, len, &p->write_err) == 0)
        return (la_ssize_t)len;
    p->write_failed = true;
    return -1;
}

static int pack_failed(struct pack *p, struct err *err)
{
    const char *text = archive_error_string(p->archive);
    char shown[96], why[96];

    if (p->write_failed) {
        if (err)
            *err = p->write_err;
        return -1;
    }
    return err_set(err, ERR_INTERNAL, "pack \"%s\": %s", printable(p->path, shown),
                   printable(text ? text : "unknown error", why));
}

static int read_failed(const struct pack *p, int errnum, struct err *err)
{
    char shown[96];

    return err_sys(err, errnum, "read \"%s\" of the layer", printable(p->path, shown));
}

/* ---- one entry ---- */

static void set_owner(const struct pack *p, struct archive_entry *e, const struct stat *st)
{
    struct layer_meta meta = meta_of_stat(st, p->ids_base);

    archive_entry_set_uid(e, meta.uid);
    archive_entry_set_gid(e, meta.gid);
    archive_entry_set_perm(e, (__LA_MODE_T)meta.mode);
    archive_entry_set_mtime(e, (time_t)meta.mtime, (long)meta.mtime_ns);
}

static void add_xattrs(struct archive_entry *e, int fd)
{
    auto_free char *names = NULL, *value = NULL;
    ssize_t len = flistxattr(fd, NULL, 0);

    if (len <= 0)
        return;
    names = xmalloc(XATTR_MAX);
    value = xmalloc(XATTR_MAX);
    len = flistxattr(fd, names, XATTR_MAX);
    for (char *name = names; name < names + len; name += strlen(name) + 1) {
        ssize_t n = fgetxattr(fd, name, value, XATTR_MAX);

        if (n >= 0 && str_starts(name, "user."))
            archive_entry_xattr_add_entry(e, name, value, (size_t)n);
    }
}

static int put_header(struct pack *p, struct archive_entry *e, struct err *err)
{
    int r = archive_write_header(p->archive, e);

    return r == ARCHIVE_OK || r == ARCHIVE_WARN ? 0 : pack_failed(p, err);
}

static int put_data(struct pack *p, int fd, int64_t size, struct err *err)
{
    while (size > 0) {
        ssize_t n = read_some(fd, p->data, sizeof(p->data));

        if (n <= 0)
            return read_failed(p, n < 0 ? (int)-n : EIO, err);
        if (n > size)
            return read_failed(p, EFBIG, err);
        if (archive_write_data(p->archive, p->data, (size_t)n) != n)
            return pack_failed(p, err);
        size -= n;
    }
    return 0;
}

/* An empty file that says what is hidden; name replaces the last part of p->path, which begins at
 * base. */
static int put_marker(struct pack *p, struct archive_entry *e, size_t base, const char *name,
                      struct err *err)
{
    auto_free char *path = xasprintf("%.*s.wh.%s", (int)base, p->path, name);

    archive_entry_clear(e);
    archive_entry_copy_pathname(e, path);
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_perm(e, 0);
    archive_entry_set_mtime(e, 0, 0);
    archive_entry_set_size(e, 0);
    return put_header(p, e, err);
}

static int put_file(struct pack *p, struct archive_entry *e, int dirfd, const char *name,
                    const struct stat *st, struct err *err)
{
    auto_close int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const char *first = NULL;

    if (fd < 0)
        return read_failed(p, errno, err);
    if (st->st_nlink > 1)
        first = seen_add(&p->seen, st, p->path);
    if (first) {
        archive_entry_copy_hardlink(e, first);
        archive_entry_set_size(e, 0);
        return put_header(p, e, err);
    }
    archive_entry_set_size(e, st->st_size);
    add_xattrs(e, fd);
    if (put_header(p, e, err) < 0)
        return -1;
    return put_data(p, fd, st->st_size, err);
}

static int put_symlink(struct pack *p, struct archive_entry *e, int dirfd, const char *name,
                       struct err *err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dirfd, name, target, sizeof(target) - 1);

    if (n < 0)
        return read_failed(p, errno, err);
    target[n] = '\0';
    archive_entry_copy_symlink(e, target);
    return put_header(p, e, err);
}

/* ---- the tree ---- */

static int pack_dir(struct pack *p, struct archive_entry *e, int dirfd, struct err *err);

static int put_folder(struct pack *p, struct archive_entry *e, int dirfd, const char *name,
                      struct err *err)
{
    auto_close int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    size_t len = strlen(p->path);
    int r;

    if (fd < 0)
        return read_failed(p, errno, err);
    add_xattrs(e, fd);
    if (put_header(p, e, err) < 0)
        return -1;
    p->path[len] = '/';
    p->path[len + 1] = '\0';
    r = is_opaque(fd) ? put_marker(p, e, len + 1, ".wh..opq", err) : 0;
    return r < 0 ? -1 : pack_dir(p, e, fd, err);
}

static int put_entry(struct pack *p, struct archive_entry *e, int dirfd, const char *name,
                     size_t base, struct err *err)
{
    struct stat st;

    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return read_failed(p, errno, err);
    if (is_whiteout(&st))
        return put_marker(p, e, base, name, err);
    archive_entry_clear(e);
    archive_entry_copy_pathname(e, p->path);
    archive_entry_set_filetype(e, st.st_mode & S_IFMT);
    set_owner(p, e, &st);
    switch (st.st_mode & S_IFMT) {
    case S_IFDIR:
        return put_folder(p, e, dirfd, name, err);
    case S_IFREG:
        return put_file(p, e, dirfd, name, &st, err);
    case S_IFLNK:
        return put_symlink(p, e, dirfd, name, err);
    default: /* fifos and sockets stay here */
        return 0;
    }
}

/* p->path is that of the folder with a slash, or empty. */
static int pack_dir(struct pack *p, struct archive_entry *e, int dirfd, struct err *err)
{
    auto_strv char **names = NULL;
    size_t base = strlen(p->path);

    if (tree_names(dirfd, LAYER_MAX_ENTRIES, &names, err) < 0)
        return -1;
    for (char **name = names; *name; name++) {
        int n = snprintf(p->path + base, sizeof(p->path) - base, "%s", *name);

        if (base + (size_t)n > LAYER_MAX_PATH)
            return read_failed(p, ENAMETOOLONG, err);
        if (put_entry(p, e, dirfd, *name, base, err) < 0)
            return -1;
    }
    p->path[base] = '\0';
    return 0;
}

/* In an archive a name that begins so hides another one, of whatever a reader has below: such a
 * file cannot be in it, nor can it be told that one was removed. */
static int check_name(const struct pack *p, const char *name, struct err *err)
{
    char shown[96];

    if (!str_starts(name, WHITEOUT_PREFIX))
        return 0;
    return err_code(err, ERR_UNSUPPORTED, "whiteout_name",
                    "\"%s\" cannot be in an archive of an image: there, names that begin with "
                    "\"" WHITEOUT_PREFIX "\" say what was removed; rename it",
                    printable(p->path, shown));
}

static int check_dir(struct pack *p, int dirfd, struct err *err)
{
    auto_strv char **names = NULL;
    size_t base = strlen(p->path);

    if (tree_names(dirfd, LAYER_MAX_ENTRIES, &names, err) < 0)
        return -1;
    for (char **name = names; *name; name++) {
        auto_close int fd = openat(dirfd, *name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int n = snprintf(p->path + base, sizeof(p->path) - base, "%s%s", *name, fd < 0 ? "" : "/");

        if (base + (size_t)n > LAYER_MAX_PATH)
            return read_failed(p, ENAMETOOLONG, err);
        if (check_name(p, *name, err) < 0 || (fd >= 0 && check_dir(p, fd, err) < 0))
            return -1;
    }
    p->path[base] = '\0';
    return 0;
}

int pack_check(int root, struct err *err)
{
    auto_free struct pack *p = xcalloc(1, sizeof(*p));

    return check_dir(p, root, err);
}

static int pack_all(struct pack *p, int root, struct err *err)
{
    struct archive_entry *e;
    int r;

    if (pack_check(root, err) < 0)
        return -1;
    e = archive_entry_new();
    if (!p->archive || !e)
        abort();
    if (archive_write_set_format_pax_restricted(p->archive) != ARCHIVE_OK ||
        archive_write_set_options(p->archive, "xattrheader=SCHILY") != ARCHIVE_OK ||
        archive_write_set_bytes_per_block(p->archive, BLOCK_SIZE) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(p->archive, 1) != ARCHIVE_OK ||
        archive_write_open(p->archive, p, NULL, write_block, NULL) != ARCHIVE_OK)
        r = pack_failed(p, err);
    else
        r = pack_dir(p, e, root, err);
    if (r == 0 && archive_write_close(p->archive) != ARCHIVE_OK)
        r = pack_failed(p, err);
    if (r < 0)
        (void)archive_write_fail(p->archive); /* or freeing it writes an end */
    archive_entry_free(e);
    return r;
}

int pack_layer(int root, uint32_t ids_base, pack_write write, void *arg,
               char ret_diff_id[DIGEST_HEX], struct err *err)
{
    auto_free struct pack *p = xcalloc(1, sizeof(*p));
    /* libarchive takes names for text of the locale; those that are none it writes as bytes. */
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    locale_t before = uselocale(utf8);
    char digest[DIGEST_HEX];
    int r;

    p->archive = archive_write_new();
    p->sha = digest_new();
    p->write = write;
    p->arg = arg;
    p->ids_base = ids_base;
    r = pack_all(p, root, err);
    (void)archive_write_free(p->archive);
    (void)uselocale(before);
    if (utf8)
        freelocale(utf8);
    seen_done(p->seen);
    digest_end(p->sha, digest);
    if (r == 0)
        memcpy(ret_diff_id, digest, sizeof(digest));
    return r;
}
