/* Reads a tar archive into a layer. The rules about paths are at the head of layer.c; these are the
 * archive's own:
 *
 * 1. Only the tar format, and only compressions that libarchive decodes by itself: it must never
 * run a program, which an image could have brought along. One compression, not one inside another.
 * 2. At every read of the archive, what came out so far is compared with what went in: a bomb is
 *    stopped by the size cap, or by its ratio once it is past RATIO_FROM bytes.
 * 3. An archive that is cut short or damaged anywhere fails as a whole.
 * 4. Names are bytes: libarchive warns when the locale cannot show one (ARCHIVE_WARN) and keeps it.
 */
#include "image/image_internal.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"

#define RATIO_MAX  1000
#define RATIO_FROM (100ull << 20)
#define READ_SIZE  (64u << 10)

struct source {
    int fd;
    int error;      /* errno of a failed read */
    bool too_dense; /* rule 2 */
    EVP_MD_CTX *sha;
    uint64_t max_bytes;
    char data[READ_SIZE];
};

static bool is_bomb(struct archive *a, uint64_t max_bytes)
{
    uint64_t in = (uint64_t)archive_filter_bytes(a, -1);
    uint64_t out = (uint64_t)archive_filter_bytes(a, 0);

    /* Headers and padding come on top of what the layer counts. */
    return out > max_bytes * 2 || (out > RATIO_FROM && out / RATIO_MAX > in);
}

static la_ssize_t read_source(struct archive *a, void *arg, const void **ret)
{
    struct source *src = arg;
    ssize_t n;

    if (is_bomb(a, src->max_bytes)) {
        src->too_dense = true;
        return -1;
    }
    n = read_some(src->fd, src->data, sizeof(src->data));
    if (n < 0) {
        src->error = (int)-n;
        return -1;
    }
    digest_add(src->sha, src->data, (size_t)n);
    *ret = src->data;
    return n;
}

static int archive_failed(struct archive *a, const struct source *src, struct err *err)
{
    const char *text = archive_error_string(a);
    char shown[96];

    if (src->too_dense)
        return err_code(err, ERR_TOO_LARGE, "image_too_large",
                        "it unpacks to far more than its size allows; this looks like a bomb");
    if (src->error)
        return err_sys(err, src->error, "read the archive");
    return err_code(err, ERR_INVALID, "bad_image",
                    "not a tar archive (plain, gzip, bzip2, xz or zstd), or damaged: %s",
                    printable(text ? text : "unknown error", shown));
}

/* Rule 1: ARCHIVE_WARN is libarchive's way to say that it would run a program. */
static int open_archive(struct source *src, struct archive **ret, struct err *err)
{
    struct archive *a = archive_read_new();

    if (!a)
        abort();
    if (archive_read_support_format_tar(a) != ARCHIVE_OK ||
        archive_read_support_filter_gzip(a) != ARCHIVE_OK ||
        archive_read_support_filter_bzip2(a) != ARCHIVE_OK ||
        archive_read_support_filter_xz(a) != ARCHIVE_OK ||
        archive_read_support_filter_zstd(a) != ARCHIVE_OK) {
        (void)archive_read_free(a);
        return err_set(
            err, ERR_INTERNAL,
            "this libarchive lacks gzip, bzip2, xz or zstd; install Debian's libarchive13");
    }
    if (archive_read_open(a, src, NULL, read_source, NULL) != ARCHIVE_OK) {
        (void)archive_failed(a, src, err);
        (void)archive_read_free(a);
        return -1;
    }
    if (archive_filter_count(a) > 2) { /* the compression and the file itself */
        (void)archive_read_free(a);
        return err_code(err, ERR_INVALID, "bad_image",
                        "the archive is compressed more than once; unpack it first");
    }
    *ret = a;
    return 0;
}

static struct layer_meta meta_of(struct archive_entry *e)
{
    return (struct layer_meta){
        .mode = (uint32_t)archive_entry_perm(e),
        .uid = archive_entry_uid(e),
        .gid = archive_entry_gid(e),
        .mtime = archive_entry_mtime(e),
        .mtime_ns = (uint32_t)archive_entry_mtime_nsec(e),
    };
}

static int copy_xattrs(struct archive_entry *e, int fd, struct err *err)
{
    const char *name;
    const void *value;
    size_t len;

    (void)archive_entry_xattr_reset(e);
    while (archive_entry_xattr_next(e, &name, &value, &len) == ARCHIVE_OK)
        if (name && layer_xattr(fd, name, value, len, err) < 0)
            return -1;
    return 0;
}

/* Sparse files stay sparse; their full length counts, since a copy may not be. */
static int copy_data(struct archive *a, struct source *src, struct layer *l, int fd,
                     struct err *err)
{
    uint64_t end = 0;

    for (;;) {
        const void *data;
        la_int64_t at;
        size_t len;
        int r = archive_read_data_block(a, &data, &len, &at);

        if (r == ARCHIVE_EOF)
            break;
        src->too_dense |= is_bomb(a, src->max_bytes);
        if (r != ARCHIVE_OK || src->too_dense)
            return archive_failed(a, src, err);
        if (at < 0 || (uint64_t)at < end || (uint64_t)at > l->max_bytes)
            return err_code(err, ERR_INVALID, "bad_image", "the parts of a sparse file overlap");
        if (layer_grow(l, (uint64_t)at - end + len, err) < 0)
            return -1;
        end = (uint64_t)at + len;
        for (size_t done = 0; done < len;) {
            ssize_t n = pwrite(fd, (const char *)data + done, len - done, at + (off_t)done);

            if (n < 0 && errno == EINTR)
                continue;
            if (n < 0)
                return err_sys(err, errno, "write a file of the layer");
            done += (size_t)n;
        }
    }
    return ftruncate(fd, (off_t)end) < 0 ? err_sys(err, errno, "write a file of the layer") : 0;
}

static int add_file(struct archive *a, struct source *src, struct archive_entry *e, struct layer *l,
                    struct err *err)
{
    const char *path = archive_entry_pathname(e);
    struct layer_meta meta = meta_of(e);
    auto_close int fd = -1;

    if (layer_file(l, path, &fd, err) < 0 || copy_data(a, src, l, fd, err) < 0 ||
        copy_xattrs(e, fd, err) < 0)
        return -1;
    return layer_file_done(fd, path, &meta, err);
}

static int add_entry(struct archive *a, struct source *src, struct archive_entry *e,
                     struct layer *l, struct err *err)
{
    const char *path = archive_entry_pathname(e);
    const char *hard = archive_entry_hardlink(e), *soft = archive_entry_symlink(e);
    struct layer_meta meta = meta_of(e);

    if (!path)
        return err_code(err, ERR_INVALID, "bad_image", "an entry's name is not valid text");
    if (hard)
        return layer_link(l, path, hard, err);
    switch (archive_entry_filetype(e)) {
    case AE_IFREG:
        return add_file(a, src, e, l, err);
    case AE_IFDIR:
        return layer_dir(l, path, &meta, err);
    case AE_IFLNK:
        return layer_symlink(l, path, soft ? soft : "", &meta, err);
    default: /* devices, fifos, sockets */
        return layer_drop(l, err);
    }
}

static int add_entries(struct archive *a, struct source *src, struct layer *l, struct err *err)
{
    struct archive_entry *e;
    int r;

    while ((r = archive_read_next_header(a, &e)) == ARCHIVE_OK || r == ARCHIVE_WARN) { /* rule 4 */
        if (add_entry(a, src, e, l, err) < 0)
            return -1;
    }
    if (r != ARCHIVE_EOF)
        return archive_failed(a, src, err);
    if (l->entries == 0)
        return err_code(err, ERR_INVALID, "bad_image", "the archive is empty");
    return 0;
}

/* libarchive stops at the end mark; the digest is of the whole file. */
static int drain(struct source *src, struct err *err)
{
    ssize_t n;

    while ((n = read_some(src->fd, src->data, sizeof(src->data))) > 0)
        digest_add(src->sha, src->data, (size_t)n);
    return n < 0 ? err_sys(err, (int)-n, "read the archive") : 0;
}

int unpack_tar(int fd, struct layer *l, EVP_MD_CTX *sha, struct err *err)
{
    auto_free struct source *src = xcalloc(1, sizeof(*src));
    struct archive *a = NULL;
    int r;

    src->fd = fd;
    src->sha = sha;
    src->max_bytes = l->max_bytes;
    r = open_archive(src, &a, err);
    if (r == 0)
        r = add_entries(a, src, l, err);
    if (r == 0)
        r = drain(src, err);
    (void)archive_read_free(a);
    return r;
}
