#include "cli/context.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/ignore.h"
#include "cli/tar.h"

#define IGNORE_MAX (1u << 20)
#define CHUNK      (256u << 10)
#define DEPTH_MAX  256

struct context_packing {
    int out;
    struct ignore ignore;
    struct context *context;
    unsigned depth;
    char data[CHUNK];
};

static int put(struct context_packing *p, const void *data, size_t len, struct err *err)
{
    int r = write_all(p->out, data, len);

    if (r < 0)
        return err_sys(err, -r, "keep the files in a temporary file");
    p->context->size += (int64_t)len;
    return 0;
}

static int put_header(struct context_packing *p, const struct tar_entry *e, struct err *err)
{
    auto_buf struct buf header = {0};

    buf_init(&header, TAR_HEADER_MAX);
    tar_put(&header, e);
    return put(p, header.data, header.len, err);
}

static int put_padding(struct context_packing *p, int64_t size, struct err *err)
{
    static const char zeros[512];

    return put(p, zeros, tar_padding(size), err);
}

static int pack_text(struct context_packing *p, const char *name, const char *text, size_t len,
                     struct err *err)
{
    struct tar_entry e = {
        .name = (char *)(uintptr_t)name, .type = TAR_FILE, .mode = 0644, .size = (int64_t)len};

    if (put_header(p, &e, err) < 0 || put(p, text, len, err) < 0)
        return -1;
    return put_padding(p, e.size, err);
}

/* Exactly the bytes that its header says: one that shrinks meanwhile is an error, what one grows is
 * left out. */
static int pack_file(struct context_packing *p, int dirfd, const char *name, const char *path,
                     struct err *err)
{
    auto_close int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct tar_entry e = {.name = (char *)(uintptr_t)path, .type = TAR_FILE};
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(err, errno, "read %.150s", path);
    e.mode = st.st_mode & 07777;
    e.mtime = st.st_mtim.tv_sec;
    e.size = st.st_size;
    if (put_header(p, &e, err) < 0)
        return -1;
    for (int64_t left = e.size; left > 0;) {
        ssize_t n = read_some(fd, p->data, left < CHUNK ? (size_t)left : CHUNK);

        if (n == 0)
            return err_set(err, ERR_CONFLICT, "%.150s became shorter while it was read", path);
        if (n < 0)
            return err_sys(err, (int)-n, "read %.150s", path);
        if (put(p, p->data, (size_t)n, err) < 0)
            return -1;
        left -= n;
    }
    p->context->files++;
    return put_padding(p, e.size, err);
}

static int pack_link(struct context_packing *p, int dirfd, const char *name, const char *path,
                     const struct stat *st, struct err *err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dirfd, name, target, sizeof(target) - 1);
    struct tar_entry e = {.name = (char *)(uintptr_t)path,
                          .link = target,
                          .type = TAR_LINK,
                          .mode = 0777,
                          .mtime = st->st_mtim.tv_sec};

    if (n < 0)
        return err_sys(err, errno, "read %.150s", path);
    target[n] = '\0';
    return put_header(p, &e, err);
}

static int pack_folder(struct context_packing *p, int fd, const char *path, struct err *err);

static int pack_dir(struct context_packing *p, int dirfd, const char *name, const char *path,
                    const struct stat *st, bool ignored, struct err *err)
{
    auto_close int fd = -1;
    struct tar_entry e = {.name = (char *)(uintptr_t)path,
                          .type = TAR_DIR,
                          .mode = st->st_mode & 07777,
                          .mtime = st->st_mtim.tv_sec};
    int r;

    if (ignored && !ignore_may_take_back(&p->ignore, path))
        return 0;
    if (++p->depth > DEPTH_MAX)
        return err_set(err, ERR_INVALID, "%.150s has folders in folders, too many", path);
    fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "read %.150s", path);
    r = ignored ? 0 : put_header(p, &e, err);
    if (r == 0)
        r = pack_folder(p, fd, path, err);
    p->depth--;
    return r;
}

/* Sockets, pipes and devices are no part of a build. */
static int pack_entry(struct context_packing *p, int dirfd, const char *name, const char *path,
                      struct err *err)
{
    bool ignored = ignore_has(&p->ignore, path);
    struct stat st;

    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "look at %.150s", path);
    if (S_ISDIR(st.st_mode))
        return pack_dir(p, dirfd, name, path, &st, ignored, err);
    if (ignored)
        return 0;
    if (S_ISREG(st.st_mode))
        return pack_file(p, dirfd, name, path, err);
    return S_ISLNK(st.st_mode) ? pack_link(p, dirfd, name, path, &st, err) : 0;
}

/* Sorted, so that the same folder gives the same archive. */
static int read_names(int fd, char ***ret, size_t *ret_n, struct err *err)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    auto_strv char **names = xcalloc(1, sizeof(*names));
    struct dirent *e;

    if (!d) {
        int saved = errno;

        close_fd(&copy);
        return err_sys(err, saved, "read a folder");
    }
    *ret_n = 0;
    while ((e = readdir(d))) {
        if (str_is_dot(e->d_name))
            continue;
        names = xrealloc(names, (*ret_n + 2) * sizeof(*names));
        names[(*ret_n)++] = xstrdup(e->d_name);
        names[*ret_n] = NULL;
    }
    (void)closedir(d);
    strings_sort(names, *ret_n);
    *ret = steal_ptr(names);
    return 0;
}

static int pack_folder(struct context_packing *p, int fd, const char *path, struct err *err)
{
    auto_strv char **names = NULL;
    size_t n = 0;

    if (read_names(fd, &names, &n, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        auto_free char *below = xasprintf("%s%s%s", path, *path ? "/" : "", names[i]);

        if (pack_entry(p, fd, names[i], below, err) < 0)
            return -1;
    }
    return 0;
}

/* 1 if it is there. */
static int read_ignore(int dirfd, const char *name, struct ignore *ret, struct err *err)
{
    auto_close int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    auto_free char *text = NULL;
    struct stat st;
    int r;

    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "read %.150s", name);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > IGNORE_MAX)
        return err_set(err, ERR_INVALID, "%.150s is not a file of at most 1 MiB", name);
    text = xmalloc((size_t)st.st_size + 1);
    r = read_exact(fd, text, (size_t)st.st_size);
    if (r < 0)
        return err_sys(err, -r, "read %.150s", name);
    ignore_parse(ret, text, (size_t)st.st_size);
    return 1;
}

static int pack_all(struct context_packing *p, int dirfd, const char *file, const char *apart,
                    const char *text, size_t text_len, struct err *err)
{
    static const char end[TAR_END_SIZE];
    auto_free char *own = xasprintf("%s.dockerignore", file);
    int r = read_ignore(AT_FDCWD, own, &p->ignore, err);

    if (r == 0)
        r = read_ignore(dirfd, ".dockerignore", &p->ignore, err);
    if (r < 0 || pack_text(p, apart, text, text_len, err) < 0 || pack_folder(p, dirfd, "", err) < 0)
        return -1;
    return put(p, end, sizeof(end), err);
}

int context_pack(const char *dir, const char *file, const char *apart, const char *text,
                 size_t text_len, struct context *ret, struct err *err)
{
    const char *tmp = getenv("TMPDIR");
    auto_close int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_close int out =
        open(tmp && *tmp == '/' ? tmp : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    auto_free struct context_packing *p = xcalloc(1, sizeof(*p));
    int r;

    if (dirfd < 0)
        return err_sys(err, errno, "open %.150s", dir);
    if (out < 0)
        return err_sys(err, errno, "make a temporary file for the build's files");
    *ret = (struct context){.fd = -1};
    p->out = out;
    p->context = ret;
    r = pack_all(p, dirfd, file, apart, text, text_len, err);
    ignore_done(&p->ignore);
    if (r == 0 && lseek(out, 0, SEEK_SET) < 0)
        r = err_sys(err, errno, "rewind the build's files");
    if (r == 0)
        ret->fd = steal_fd(out);
    return r;
}
