/* Reads a tar archive into a layer. The rules about paths are at the head of layer.c; these are the
 * archive's own:
 *
 * 1. Only the tar format, and only compressions that are decoded here (decode.c): no program is
 * ever run, which an image could have brought along. One compression, not one inside another.
 * 2. What came out so far is compared with what went in: a bomb is stopped by the size cap, or by
 *    its ratio once it is past RATIO_FROM bytes.
 * 3. An archive that is cut short or damaged anywhere fails as a whole.
 * 4. Names are bytes: libarchive warns when the locale cannot show one (ARCHIVE_WARN) and keeps it.
 * 5. Layers that a digest vouches for need no padding behind their last file: there are builders
 * that leave it out, and readers have always put up with it.
 * 6. libarchive keeps what describes an entry in memory (long names, attributes, maps of sparse
 *    files): for one entry it gets no more than HEADER_MAX bytes to read.
 *
 * One thread decompresses and digests, the caller's takes the archive apart and writes files. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "layer/decode.h"
#include "layer/layer_internal.h"
#include "layer/pipe.h"

#define RATIO_MAX  1000
#define RATIO_FROM (100ull << 20)
#define HEADER_MAX (4u << 20)
#define TAR_BLOCK  512u
#define PIPE_SIZE  (512u << 10)
#define PIECE_SIZE (128u << 10) /* stays in the cache between inflating and digesting */

struct unpack {
    struct layer *layer;
    uint64_t max_bytes; /* of the archive without its compression */
    struct pipe *pipe;
    /* the thread's, until it is joined */
    const struct unpack_source *src;
    EVP_MD_CTX *sha;
    struct err thread_err;
    /* the caller's */
    size_t held;        /* bytes at the pipe's end that libarchive looks at */
    uint64_t got;       /* from the pipe so far */
    uint64_t described; /* bytes read since the last piece of data came out */
    bool skipping;
    bool input_failed;    /* see thread_err */
    bool header_too_long; /* rule 6 */
};

/* ---- the thread ---- */

/* Rule 2. Headers and padding come on top of what the layer counts. */
static int check_bomb(const struct unpack *u, uint64_t in, uint64_t out, struct err *err)
{
    if (out > u->max_bytes || (out > RATIO_FROM && out / RATIO_MAX > in))
        return err_code(err, ERR_TOO_LARGE, "image_too_large",
                        "it unpacks to far more than its size allows; this looks like a bomb");
    return 0;
}

static int decode_all(struct unpack *u, struct decoder *d, struct err *err)
{
    uint64_t out = 0;
    char *room;
    ssize_t n;

    while ((n = pipe_room(u->pipe, &room)) > 0) {
        n = decoder_read(d, room, (size_t)n < PIECE_SIZE ? (size_t)n : PIECE_SIZE, err);
        if (n <= 0)
            return (int)n;
        out += (uint64_t)n;
        if (check_bomb(u, decoder_taken(d), out, err) < 0)
            return -1;
        digest_add(u->sha, room, (size_t)n);
        pipe_commit(u->pipe, (size_t)n);
    }
    return 0; /* the caller wants no more */
}

static void *decode_thread(void *arg)
{
    struct unpack *u = arg;
    struct decoder *d = decoder_new(u->src->read, u->src->arg);
    int r = decode_all(u, d, &u->thread_err);

    pipe_end(u->pipe, r < 0 ? EIO : 0);
    decoder_free(d);
    return NULL;
}

/* ---- the caller ---- */

static la_ssize_t read_pipe(struct archive *a, void *arg, const void **ret)
{
    static const char padding[TAR_BLOCK];
    struct unpack *u = arg;
    const char *data;
    ssize_t n;

    (void)a;
    pipe_consume(u->pipe, u->held);
    u->held = 0;
    if (!u->skipping && u->described > HEADER_MAX) {
        u->header_too_long = true;
        return -1;
    }
    n = pipe_peek(u->pipe, &data);
    if (n < 0) {
        u->input_failed = true;
        return -1;
    }
    *ret = data;
    if (n == 0 && u->layer->oci && u->got % TAR_BLOCK != 0) { /* rule 5 */
        n = (ssize_t)(TAR_BLOCK - u->got % TAR_BLOCK);
        *ret = padding;
    } else {
        u->held = (size_t)n;
    }
    u->got += (uint64_t)n;
    u->described += (uint64_t)n;
    return n;
}

static int archive_failed(struct archive *a, const struct unpack *u, struct err *err)
{
    const char *text = archive_error_string(a);
    char shown[96];

    if (u->header_too_long)
        return err_code(err, ERR_TOO_LARGE, "image_too_large",
                        "an entry's header is longer than 4 MiB");
    return err_code(err, ERR_INVALID, "bad_image",
                    "not a tar archive (plain, gzip, bzip2, xz or zstd), or damaged: %s",
                    printable(text ? text : "unknown error", shown));
}

static struct layer_meta meta_of(struct archive_entry *e)
{
    return (struct layer_meta){
        .mode = (uint32_t)archive_entry_perm(e),
        .uid = archive_entry_uid(e),
        .gid = archive_entry_gid(e),
        .mtime = archive_entry_mtime_is_set(e) ? archive_entry_mtime(e) : 0,
        .mtime_ns = archive_entry_mtime_is_set(e) ? (uint32_t)archive_entry_mtime_nsec(e) : 0,
    };
}

/* Empty ones are left out: in a pax header that means there is none, and image builders read it so.
 */
static int add_xattrs(struct archive_entry *e, int fd, struct err *err)
{
    const char *name;
    const void *value;
    size_t len;

    (void)archive_entry_xattr_reset(e);
    while (archive_entry_xattr_next(e, &name, &value, &len) == ARCHIVE_OK)
        if (name && len > 0 && layer_xattr(fd, name, value, len, err) < 0)
            return -1;
    return 0;
}

static int write_at(int fd, const char *data, size_t len, off_t at, struct err *err)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, data, len, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "write a file of the layer");
        data += n;
        len -= (size_t)n;
        at += n;
    }
    return 0;
}

/* Sparse files stay sparse; their full length counts, since a copy may not be. */
static int add_data(struct archive *a, struct unpack *u, int fd, struct err *err)
{
    struct layer *l = u->layer;
    uint64_t end = 0, written = 0;

    for (;;) {
        const void *data;
        la_int64_t at;
        size_t len;
        int r;

        u->described = 0;
        r = archive_read_data_block(a, &data, &len, &at);
        if (r == ARCHIVE_EOF)
            break;
        if (r != ARCHIVE_OK)
            return archive_failed(a, u, err);
        if (at < 0 || (uint64_t)at < end || (uint64_t)at > l->max_bytes)
            return err_code(err, ERR_INVALID, "bad_image", "the parts of a sparse file overlap");
        if (layer_grow(l, (uint64_t)at - end + len, err) < 0 ||
            write_at(fd, data, len, at, err) < 0)
            return -1;
        end = (uint64_t)at + len;
        if (len > 0)
            written = end;
    }
    if (end > written && ftruncate(fd, (off_t)end) < 0)
        return err_sys(err, errno, "write a file of the layer");
    return 0;
}

static int add_file(struct archive *a, struct unpack *u, struct archive_entry *e, struct err *err)
{
    const char *path = archive_entry_pathname(e);
    struct layer_meta meta = meta_of(e);
    auto_close int fd = -1;

    if (layer_file(u->layer, path, &fd, err) < 0 || add_data(a, u, fd, err) < 0 ||
        add_xattrs(e, fd, err) < 0)
        return -1;
    return layer_file_done(fd, path, &meta, err);
}

static int add_folder(struct layer *l, struct archive_entry *e, struct err *err)
{
    struct layer_meta meta = meta_of(e);
    auto_close int fd = -1;

    if (layer_dir_open(l, archive_entry_pathname(e), &meta, &fd, err) < 0)
        return -1;
    return add_xattrs(e, fd, err);
}

static int add_entry(struct archive *a, struct unpack *u, struct archive_entry *e, struct err *err)
{
    const char *path = archive_entry_pathname(e);
    const char *hard = archive_entry_hardlink(e), *soft = archive_entry_symlink(e);
    struct layer_meta meta = meta_of(e);

    if (!path)
        return err_code(err, ERR_INVALID, "bad_image", "an entry's name is not valid text");
    if (u->layer->oci) {
        int r = layer_marker(u->layer, path, err);

        if (r != 0)
            return r < 0 ? -1 : 0;
    }
    if (hard)
        return layer_link(u->layer, path, hard, err);
    switch (archive_entry_filetype(e)) {
    case AE_IFREG:
        return add_file(a, u, e, err);
    case AE_IFDIR:
        return add_folder(u->layer, e, err);
    case AE_IFLNK:
        return layer_symlink(u->layer, path, soft ? soft : "", &meta, err);
    default: /* devices, fifos, sockets */
        return layer_drop(u->layer, err);
    }
}

static int add_entries(struct archive *a, struct unpack *u, struct err *err)
{
    struct archive_entry *e;
    int r;

    for (;;) {
        u->described = 0;
        r = archive_read_next_header(a, &e);
        if (r != ARCHIVE_OK && r != ARCHIVE_WARN) /* rule 4 */
            break;
        if (add_entry(a, u, e, err) < 0)
            return -1;
        /* Here, and not with the next header: what is skipped is not held in memory. */
        u->skipping = true;
        r = archive_read_data_skip(a);
        u->skipping = false;
        if (r != ARCHIVE_OK && r != ARCHIVE_EOF && r != ARCHIVE_WARN)
            break;
    }
    if (r != ARCHIVE_EOF)
        return archive_failed(a, u, err);
    if (u->layer->entries == 0 && !u->layer->oci)
        return err_code(err, ERR_INVALID, "bad_image", "the archive is empty");
    return 0;
}

/* libarchive stops at the end mark; the digest is of the whole, and its end may be damaged. */
static int drain(struct unpack *u)
{
    const char *data;
    ssize_t n;

    pipe_consume(u->pipe, u->held);
    while ((n = pipe_peek(u->pipe, &data)) > 0)
        pipe_consume(u->pipe, (size_t)n);
    u->input_failed = n < 0;
    return n < 0 ? -1 : 0;
}

static int read_archive(struct unpack *u, struct err *err)
{
    struct archive *a = archive_read_new();
    const char *data;
    ssize_t n;
    int r;

    if (!a)
        abort();
    n = pipe_peek(u->pipe, &data);
    if (n == 0 && u->layer->oci) { /* a layer that changes nothing may be no bytes at all */
        (void)archive_read_free(a);
        return 0;
    }
    if (archive_read_support_format_tar(a) != ARCHIVE_OK ||
        archive_read_open(a, u, NULL, read_pipe, NULL) != ARCHIVE_OK)
        r = archive_failed(a, u, err);
    else
        r = add_entries(a, u, err);
    if (r == 0)
        r = drain(u);
    (void)archive_read_free(a);
    return r;
}

int unpack_tar(const struct unpack_source *src, struct layer *l, char ret_diff_id[DIGEST_HEX],
               struct err *err)
{
    struct unpack u = {.layer = l, .max_bytes = l->max_bytes * 2, .src = src};
    char digest[DIGEST_HEX];
    pthread_t thread;
    int r;

    u.pipe = pipe_new(PIPE_SIZE);
    u.sha = digest_new();
    r = pthread_create(&thread, NULL, decode_thread, &u);
    if (r != 0) {
        r = err_sys(err, r, "start a thread");
    } else {
        r = read_archive(&u, err);
        if (r < 0 && src->stop)
            src->stop(src->arg);
        pipe_close(u.pipe);
        (void)pthread_join(thread, NULL);
        if (r < 0 && u.input_failed && err)
            *err = u.thread_err;
    }
    layer_done(l);
    digest_end(u.sha, digest);
    pipe_free(u.pipe);
    if (r == 0)
        memcpy(ret_diff_id, digest, sizeof(digest));
    return r;
}

static ssize_t read_file(void *arg, void *data, size_t len)
{
    return read_some(*(int *)arg, data, len);
}

int unpack_file(int fd, struct layer *l, char ret_diff_id[DIGEST_HEX], struct err *err)
{
    const struct unpack_source src = {.read = read_file, .arg = &fd};

    return unpack_tar(&src, l, ret_diff_id, err);
}
