/* Copies from a stack of layers into a new layer. Layers do not change, so what was looked at is
 * what is copied. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "layer/layer_internal.h"
#include "layer/stack_internal.h"

#define COPY_SIZE (64u << 10)

struct copying {
    struct stack_copy *c;
    unsigned depth;                /* folders in folders */
    char path[LAYER_MAX_PATH + 1]; /* in the layer */
    char data[COPY_SIZE];
};

/* ---- the digest ---- */

static void digest_field(EVP_MD_CTX *sha, const void *data, size_t len)
{
    uint64_t n = htole64(len);

    digest_add(sha, &n, sizeof(n));
    digest_add(sha, data, len);
}

static struct layer_meta meta_of(const struct stack_copy *c, const struct stat *st)
{
    struct layer_meta meta = meta_of_stat(st, 0);

    if (c->uid >= 0)
        meta.uid = c->uid;
    if (c->gid >= 0)
        meta.gid = c->gid;
    if (c->mode >= 0 && !S_ISLNK(st->st_mode))
        meta.mode = (uint32_t)c->mode;
    return meta;
}

/* Each entry by its name, those of a folder between it and a dot. Times are not in it: the same
 * files copied again are the same step. */
static void digest_entry(const struct copying *k, char type, const char *name,
                         const struct layer_meta *meta, const char *target)
{
    const uint32_t numbers[] = {htole32(meta->mode), htole32((uint32_t)meta->uid),
                                htole32((uint32_t)meta->gid)};

    digest_add(k->c->sha, &type, 1);
    digest_add(k->c->sha, numbers, sizeof(numbers));
    digest_field(k->c->sha, name, strlen(name));
    digest_field(k->c->sha, target, strlen(target));
}

/* ---- entries ---- */

static int read_failed(const struct copying *k, int errnum, struct err *err)
{
    char shown[96];

    return err_sys(err, errnum, "read what becomes %s", printable(k->path, shown));
}

static int copy_pieces(struct copying *k, int from, int to, EVP_MD_CTX *content, struct err *err)
{
    ssize_t n;

    while ((n = read_some(from, k->data, sizeof(k->data))) > 0) {
        int r = 0;

        digest_add(content, k->data, (size_t)n);
        if (to < 0)
            continue;
        if (layer_grow(k->c->to, (uint64_t)n, err) < 0)
            return -1;
        r = write_all(to, k->data, (size_t)n);
        if (r < 0)
            return err_sys(err, -r, "write a file of the layer");
    }
    return n < 0 ? read_failed(k, (int)-n, err) : 0;
}

static int copy_file(struct copying *k, int dirfd, const char *name, const struct stat *st,
                     struct err *err)
{
    auto_close int from = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct layer_meta meta = meta_of(k->c, st);
    auto_close int to = -1;
    char digest[DIGEST_HEX];
    EVP_MD_CTX *content;
    int r;

    if (from < 0)
        return read_failed(k, errno, err);
    digest_entry(k, 'f', name, &meta, "");
    if (k->c->to && layer_file(k->c->to, k->path, &to, err) < 0)
        return -1;
    content = digest_new();
    r = copy_pieces(k, from, to, content, err);
    digest_end(content, digest);
    digest_add(k->c->sha, digest, sizeof(digest));
    if (r < 0 || !k->c->to)
        return r;
    if (copy_attributes(from, to, k->path, NULL, err) < 0)
        return -1;
    return layer_file_done(to, k->path, &meta, err);
}

static int copy_link(struct copying *k, int dirfd, const char *name, const struct stat *st,
                     struct err *err)
{
    struct layer_meta meta = meta_of(k->c, st);
    char target[PATH_MAX];
    ssize_t n = readlinkat(dirfd, name, target, sizeof(target) - 1);

    if (n < 0)
        return read_failed(k, errno, err);
    target[n] = '\0';
    digest_entry(k, 'l', name, &meta, target);
    return k->c->to ? layer_symlink(k->c->to, k->path, target, &meta, err) : 0;
}

static int copy_folder(struct copying *k, const struct view *from, struct err *err);

/* A folder in a folder. In its place there may be a link to one. */
static int copy_subfolder(struct copying *k, const struct view *above, const char *name,
                          const struct stat *st, struct err *err)
{
    struct layer_meta meta = meta_of(k->c, st);
    auto_view struct view v = {0};
    auto_free char *path = xstrdup(k->path);
    struct stat there;
    int r;

    if (++k->depth > LAYER_MAX_DEPTH)
        return layer_bad(err, k->path, "is nested deeper than 256 folders");
    if (view_enter(above, name, &v, err) < 0)
        return -1;
    digest_entry(k, 'd', name, &meta, "");
    if (k->c->to) {
        char real[LAYER_MAX_PATH + 1];

        r = stack_resolve(&k->c->below, k->path, true, real, &there, err);
        if (r < 0)
            return -1;
        /* What the link leads to stays as it is. */
        if (r == 1 && S_ISDIR(there.st_mode) && strcmp(real, k->path) != 0)
            memcpy(k->path, real, sizeof(real));
        else if (layer_dir(k->c->to, k->path, &meta, err) < 0)
            return -1;
    }
    r = copy_folder(k, &v, err);
    memcpy(k->path, path, strlen(path) + 1);
    k->depth--;
    return r;
}

static int copy_entry(struct copying *k, const struct view *v, const char *name, struct err *err)
{
    struct stat st;
    int dirfd = view_find(v, name, &st);

    if (dirfd < 0)
        return 0;
    switch (st.st_mode & S_IFMT) {
    case S_IFDIR:
        return copy_subfolder(k, v, name, &st, err);
    case S_IFREG:
        return copy_file(k, dirfd, name, &st, err);
    case S_IFLNK:
        return copy_link(k, dirfd, name, &st, err);
    default:
        return 0;
    }
}

static int copy_folder(struct copying *k, const struct view *from, struct err *err)
{
    auto_strv char **names = NULL;
    size_t len = strlen(k->path);

    if (view_names(from, &names, err) < 0)
        return -1;
    for (char **name = names; *name; name++) {
        int n = snprintf(k->path + len, sizeof(k->path) - len, "%s%s", len ? "/" : "", *name);

        if (n < 0 || (size_t)n >= sizeof(k->path) - len)
            return layer_bad(err, *name, "would have a path longer than 4096 bytes");
        if (copy_entry(k, from, *name, err) < 0)
            return -1;
        k->path[len] = '\0';
    }
    digest_add(k->c->sha, ".", 1);
    return 0;
}

int stack_copy(struct stack_copy *c, const char *from, const char *to, struct err *err)
{
    auto_free struct copying *k = xcalloc(1, sizeof(*k));
    const char *slash = strrchr(from, '/');
    auto_free char *dir = xstrndup(from, slash ? (size_t)(slash - from) : 0);
    auto_view struct view above = {0};
    struct stat st = {.st_mode = S_IFDIR};

    k->c = c;
    (void)snprintf(k->path, sizeof(k->path), "%s", to);
    if (view_open(&c->from, dir, &above, err) < 0)
        return -1;
    if (*from && view_find(&above, slash ? slash + 1 : from, &st) < 0)
        return err_code(err, ERR_NOT_FOUND, "file_not_found", "there is no file %.100s", from);
    if (S_ISDIR(st.st_mode)) {
        auto_view struct view v = {0};

        if (*from && view_enter(&above, slash ? slash + 1 : from, &v, err) < 0)
            return -1;
        return copy_folder(k, *from ? &v : &above, err);
    }
    return copy_entry(k, &above, slash ? slash + 1 : from, err);
}
