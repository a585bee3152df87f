#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/seen.h"
#include "base/str.h"
#include "cli/copy.h"
#include "cli/hostfs.h"
#include "cli/meter.h"
#include "cli/remote_tar.h"
#include "cli/tar.h"
#include "cli/transfer.h"

#define DEPTH_MAX  100
#define CHUNK      (128u << 10)
#define DIRS_MAX   (16u << 20) /* bytes for folders whose modes and times are kept until the end */
#define RECORD_MAX (1u << 20)  /* of a tar; they fill 10 KiB */

/* ---- out of the sandbox ---- */

struct done_dir {
    char *path;
    mode_t mode;
    int64_t mtime;
};

struct unpack {
    struct cp *c;
    struct tar_reader tar;
    struct meter meter;
    int dirfd;        /* where it goes */
    const char *name; /* what the top of the archive is called there; "" is dirfd itself */
    const char *top;  /* what it is called in the archive */
    struct done_dir *dirs;
    size_t n_dirs, dirs_size;
    bool any; /* entry that was written or skipped */
};

/* The path below the top, "" for the top itself; NULL for one that is not of this archive or climbs
 * out of it: the archive is what the sandbox likes it to be. */
static const char *below_top(const struct unpack *u, const char *path)
{
    size_t n = strlen(u->top);

    while (str_starts(path, "./"))
        path += 2;
    if (strncmp(path, u->top, n) != 0 || (path[n] && path[n] != '/'))
        return strcmp(u->top, ".") == 0 ? path : NULL;
    return path[n] ? path + n + 1 : path + n;
}

/* Opens the folder that a path is in, from the top, never through a link, and makes what is
 * missing; *ret_name is the last component. */
static int open_parent(const struct unpack *u, const char *path, int *ret_fd, char **ret_name,
                       struct err *err)
{
    auto_close int fd = fcntl(u->dirfd, F_DUPFD_CLOEXEC, 3);
    auto_free char *copy = xasprintf("%s/%s", u->name, path);
    char *save = NULL, *name = strtok_r(copy, "/", &save), *next;

    if (!name || !host_name_ok(name))
        return err_set(err, ERR_INVALID, "the sandbox sent a name that climbs: %s", path);
    for (unsigned depth = 0; (next = strtok_r(NULL, "/", &save)); depth++, name = next) {
        int inner;

        if (!host_name_ok(next))
            return err_set(err, ERR_INVALID, "the sandbox sent a name that climbs: %s", path);
        if (depth > DEPTH_MAX)
            return err_set(err, ERR_TOO_LARGE, "%s is more than %d folders deep", path, DEPTH_MAX);
        if (host_make_dir(fd, name, &inner, err) < 0)
            return -1;
        (void)close(fd);
        fd = inner;
    }
    *ret_name = xstrdup(name);
    *ret_fd = steal_fd(fd);
    return 0;
}

static int write_file(struct unpack *u, const struct tar_entry *e, int fd, const char *name,
                      struct err *err)
{
    auto_free char *data = xmalloc(CHUNK);
    struct host_file f;
    ssize_t n = 0;
    int r = host_file_begin(&f, fd, name, err);

    while (r == 0 && (n = tar_read(&u->tar, data, CHUNK, err)) > 0) {
        r = write_all(f.fd, data, (size_t)n);
        if (r < 0)
            r = err_sys(err, -r, "write %s", e->name);
        meter_add(&u->meter, n);
    }
    if (n < 0)
        r = -1;
    if (r == 0)
        r = host_file_commit(&f, e->mode, e->mtime, err);
    host_file_done(&f);
    u->c->files += r == 0;
    return r;
}

/* A folder must stay writable until all in it is there. One that was here before keeps its mode:
 * there may be more in it than what is copied, and the sandbox could open it to others. */
static int write_dir(struct unpack *u, const struct tar_entry *e, const char *path, int fd,
                     const char *name, struct err *err)
{
    auto_close int dir = -1;
    struct stat st;
    size_t size;
    bool is_new = fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0;

    if (host_make_dir(fd, name, &dir, err) < 0)
        return -1;
    size = sizeof(*u->dirs) + strlen(path);
    if (is_new && u->dirs_size + size <= DIRS_MAX) {
        u->dirs_size += size;
        u->dirs = xrealloc(u->dirs, (u->n_dirs + 1) * sizeof(*u->dirs));
        u->dirs[u->n_dirs++] = (struct done_dir){xstrdup(path), e->mode, e->mtime};
    }
    return 0;
}

static int write_name(struct unpack *u, const struct tar_entry *e, int fd, const char *name,
                      struct err *err)
{
    const char *path = below_top(u, e->link);
    auto_close int from_fd = -1;
    auto_free char *from = NULL;

    if (!path || !*path)
        return err_set(err, ERR_INVALID, "the sandbox sent a name that climbs: %s", e->link);
    if (open_parent(u, path, &from_fd, &from, err) < 0)
        return -1;
    return host_make_name(from_fd, from, fd, name, err);
}

static int write_entry(struct unpack *u, const struct tar_entry *e, struct err *err)
{
    const char *path = below_top(u, e->name);
    auto_close int fd = -1;
    auto_free char *name = NULL;

    if (!path)
        return err_set(err, ERR_INVALID, "the sandbox sent %s, which was not asked for", e->name);
    if (u->c->contents && !*path && e->type == TAR_DIR)
        return 0;
    if (open_parent(u, path, &fd, &name, err) < 0)
        return -1;
    switch (e->type) {
    case TAR_FILE:
        return write_file(u, e, fd, name, err);
    case TAR_DIR:
        return write_dir(u, e, path, fd, name, err);
    case TAR_LINK:
        return host_make_link(fd, name, e->link, e->mtime, err);
    case TAR_HARD_LINK:
        return write_name(u, e, fd, name, err);
    case TAR_OTHER:
        break;
    }
    copy_skip(u->c, e->name, "no regular file, directory or link");
    return 0;
}

/* The deepest first, because a folder may lose the right to be entered. */
static void finish_dirs(struct unpack *u)
{
    while (u->n_dirs > 0) {
        struct done_dir *d = &u->dirs[--u->n_dirs];
        auto_close int fd = -1, dir = -1;
        auto_free char *name = NULL;
        struct err ignored = {0};

        if (open_parent(u, d->path, &fd, &name, &ignored) == 0 &&
            host_make_dir(fd, name, &dir, &ignored) == 0)
            host_finish_dir(dir, d->mode, d->mtime);
        free(d->path);
    }
    free(u->dirs);
}

static int unpack_all(struct unpack *u, struct err *err)
{
    int r = 0, got;

    do {
        struct tar_entry e;

        got = tar_next(&u->tar, &e, err);
        if (got > 0)
            r = write_entry(u, &e, err);
        u->any |= got > 0;
        tar_entry_done(&e);
    } while (got > 0 && r == 0);
    return got < 0 ? -1 : r;
}

/* What fills the archive's last record is taken, so that tar can end by itself. */
static int drain(int fd, struct err *err)
{
    char rest[4096];
    size_t taken = 0;
    ssize_t n;

    while ((n = read_some(fd, rest, sizeof(rest))) > 0) {
        taken += (size_t)n;
        if (taken > RECORD_MAX)
            return err_set(err, ERR_INVALID, "the sandbox sends more after the archive's end");
    }
    return 0;
}

int tree_out(struct cp *c, const char *from, int dirfd, const char *name, struct err *err)
{
    auto_free char *path = NULL, *dir = NULL, *top = NULL;
    struct unpack u = {.c = c, .dirfd = dirfd, .name = c->contents ? "" : name};
    struct remote_tar tar;
    int r;

    if (remote_absolute(c->api, from, &path, err) < 0)
        return -1;
    host_split(path, &dir, &top);
    if (remote_tar_start(&tar, c->api, c->id, remote_pack_command(dir, top), false, err) < 0)
        return -1;
    u.top = *top ? top : ".";
    u.tar.fd = tar.fd;
    meter_begin(&u.meter, -1);
    r = unpack_all(&u, err);
    meter_end(&u.meter);
    finish_dirs(&u);
    if (r == 0)
        r = drain(tar.fd, err);
    if (remote_tar_end(&tar, r, err) < 0)
        return -1;
    if (!u.any)
        return remote_tar_empty(err);
    if (!u.tar.ended)
        return err_set(err, ERR_INTERNAL, "tar in the sandbox sent an archive without its end");
    return 0;
}

/* ---- into the sandbox ---- */

struct pack {
    struct cp *c;
    struct meter meter;
    void *seen; /* files with several names, see base/seen.h */
    int fd;
};

static int send_all(struct pack *p, const void *data, size_t len, struct err *err)
{
    int r = write_all(p->fd, data, len);

    if (r == -EPIPE)
        return err_set(err, ERR_INTERNAL, "tar in the sandbox ended before it had everything");
    return r < 0 ? err_sys(err, -r, "send the archive") : 0;
}

static int send_header(struct pack *p, const char *name, const char *link, enum tar_type type,
                       const struct stat *st, struct err *err)
{
    const struct tar_entry e = {.name = (char *)(uintptr_t)name,
                                .link = (char *)(uintptr_t)link,
                                .type = type,
                                .mode = st->st_mode & 0777,
                                .size = type == TAR_FILE ? st->st_size : 0,
                                .mtime = st->st_mtime};
    auto_buf struct buf header = {0};

    buf_init(&header, TAR_HEADER_MAX);
    tar_put(&header, &e);
    return send_all(p, header.data, header.len, err);
}

/* Exactly the size that the header says: a file that grows is cut, one that shrinks ends the copy.
 */
static int send_file(struct pack *p, int fd, const struct stat *st, const char *name,
                     struct err *err)
{
    static const char zeros[512];
    const char *first = st->st_nlink > 1 ? seen_add(&p->seen, st, name) : NULL;
    auto_free char *data = NULL;
    int64_t left = st->st_size;

    if (first)
        return send_header(p, name, first, TAR_HARD_LINK, st, err);
    data = xmalloc(CHUNK);
    if (send_header(p, name, NULL, TAR_FILE, st, err) < 0)
        return -1;
    while (left > 0) {
        ssize_t n = read_some(fd, data, left < CHUNK ? (size_t)left : CHUNK);

        if (n < 0)
            return err_sys(err, (int)-n, "read %s", name);
        if (n == 0)
            return err_set(err, ERR_CONFLICT, "%s became shorter while it was read", name);
        if (send_all(p, data, (size_t)n, err) < 0)
            return -1;
        left -= n;
        meter_add(&p->meter, n);
    }
    p->c->files++;
    return send_all(p, zeros, tar_padding(st->st_size), err);
}

static int send_link(struct pack *p, int dirfd, const char *entry, const char *name,
                     struct err *err)
{
    char text[PATH_MAX];
    struct stat st;
    ssize_t n = readlinkat(dirfd, entry, text, sizeof(text) - 1);

    if (n < 0 || fstatat(dirfd, entry, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, errno, "read the link %s", name);
    text[n] = '\0';
    return send_header(p, name, text, TAR_LINK, &st, err);
}

static int send_dir(struct pack *p, int fd, const char *name, unsigned depth, struct err *err);

static int send_entry(struct pack *p, int dirfd, const char *entry, const char *dir, unsigned depth,
                      struct err *err)
{
    auto_free char *name = xasprintf("%s/%s", dir, entry);
    /* A pipe must not make us wait for its other end. */
    auto_close int fd = openat(dirfd, entry, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (strlen(name) >= PATH_MAX)
        return err_set(err, ERR_TOO_LARGE, "a path is longer than %d bytes: %.60s…", PATH_MAX,
                       name);
    if (fd < 0 && errno == ELOOP)
        return send_link(p, dirfd, entry, name, err);
    if (fd < 0 && errno != ENXIO)
        return err_sys(err, errno, "open %s", name);
    if (fd < 0 || fstat(fd, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))) {
        copy_skip(p->c, name, "a pipe, socket or device");
        return 0;
    }
    return S_ISREG(st.st_mode) ? send_file(p, fd, &st, name, err)
                               : send_dir(p, fd, name, depth + 1, err);
}

static int send_dir(struct pack *p, int fd, const char *name, unsigned depth, struct err *err)
{
    struct dirent *entry;
    struct stat st;
    DIR *dir;
    int r;

    if (depth > DEPTH_MAX)
        return err_set(err, ERR_TOO_LARGE, "%s is more than %d folders deep", name, DEPTH_MAX);
    if (fstat(fd, &st) < 0)
        return err_sys(err, errno, "look at %s", name);
    if ((depth > 0 || !p->c->contents) && send_header(p, name, NULL, TAR_DIR, &st, err) < 0)
        return -1;
    fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return err_sys(err, errno, "read the folder %s", name);
    r = 0;
    while (r == 0 && (entry = readdir(dir))) {
        if (host_name_ok(entry->d_name))
            r = send_entry(p, dirfd(dir), entry->d_name, name, depth, err);
    }
    (void)closedir(dir);
    return r;
}

int tree_in(struct cp *c, int fd, const char *to, struct err *err)
{
    static const char end[TAR_END_SIZE];
    auto_free char *path = NULL;
    struct pack p = {.c = c};
    struct remote_tar tar;
    int r;

    if (remote_absolute(c->api, to, &path, err) < 0 ||
        remote_mkdir(c->api, c->id, path, true, err) < 0 ||
        remote_tar_start(&tar, c->api, c->id, remote_unpack_command(path), true, err) < 0)
        return -1;
    p.fd = tar.fd;
    meter_begin(&p.meter, -1);
    r = send_dir(&p, fd, ".", 0, err);
    if (r == 0)
        r = send_all(&p, end, sizeof(end), err);
    meter_end(&p.meter);
    seen_done(p.seen);
    return remote_tar_end(&tar, r, err);
}
