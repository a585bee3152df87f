#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/mode.h"
#include "base/str.h"
#include "proto/frame.h"

/* Every call here runs as the user it names, in a process of its own whose root is the box's and
 * which holds no descriptor but the connection: a path can lead nowhere else. */

#define LIST_MAX       100000
#define LIST_BYTES_MAX (16u << 20)
#define CHUNK          (64u << 10) /* of a file that is read: every handler may hold one */

int file_error(struct err *err, int errnum, const char *path)
{
    switch (errnum) {
    case ENOENT:
        (void)err_code(err, ERR_NOT_FOUND, "file_not_found", "%.150s: there is no such file", path);
        break;
    case EISDIR:
        (void)err_code(err, ERR_INVALID, "is_a_directory", "%.150s is a directory", path);
        break;
    case ENOTDIR:
        (void)err_code(err, ERR_INVALID, "not_a_directory",
                       "%.150s: a part of the path is not a directory", path);
        break;
    case ENXIO:
        (void)err_code(err, ERR_INVALID, "not_a_file", "%.150s is not a regular file", path);
        break;
    case EACCES:
    case EPERM:
    case EROFS:
        (void)err_code(err, ERR_FORBIDDEN, "permission_denied", "%.150s: %s", path,
                       strerror(errnum));
        break;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        (void)err_code(err, ERR_LIMIT, "no_space",
                       "%.100s: the sandbox's disk is full; remove files, or make a sandbox with a "
                       "larger disk (CAY_DEFAULT_DISK when none is asked for)",
                       path);
        break;
    case EEXIST:
    case ENOTEMPTY:
    case EBUSY:
    case ETXTBSY:
        (void)err_set(err, ERR_CONFLICT, "%.150s: %s", path, strerror(errnum));
        break;
    case ELOOP:
    case ENAMETOOLONG:
    case EINVAL:
        (void)err_set(err, ERR_INVALID, "%.150s: %s", path, strerror(errnum));
        break;
    default:
        return err_sys(err, errnum, "%.150s", path);
    }
    err->sys = errnum;
    return -1;
}

static enum call_file_kind kind_of(mode_t mode)
{
    return S_ISREG(mode)   ? FILE_REGULAR
           : S_ISDIR(mode) ? FILE_DIR
           : S_ISLNK(mode) ? FILE_LINK
                           : FILE_OTHER;
}

/* path is what the answer calls it; link, below dirfd, is read when it is one. */
static void send_file(struct agent_call *c, unsigned type, int dirfd, const char *path,
                      const struct stat *st, struct accounts *names)
{
    char target[4096];
    ssize_t n = S_ISLNK(st->st_mode) ? readlinkat(dirfd, path, target, sizeof(target) - 1) : 0;
    struct call_file f = {
        .path = (char *)(uintptr_t)path,
        .kind = kind_of(st->st_mode),
        .mode = st->st_mode,
        .size = (uint64_t)st->st_size,
        .mtime_ms = time_ms(&st->st_mtim),
        .uid = st->st_uid,
        .gid = st->st_gid,
        .owner = (char *)(uintptr_t)accounts_user(names, st->st_uid),
        .group = (char *)(uintptr_t)accounts_group(names, st->st_gid),
        .target = target,
    };
    auto_buf struct buf b = {0};

    target[n > 0 ? n : 0] = '\0';
    buf_init(&b, FRAME_MAX);
    call_file_put(&b, &f);
    call_reply_buf(c, type, &b);
}

#define LEASE_TRIES 200
#define LEASE_MS    5

/* Without waiting for the other side of a FIFO, and without a device becoming our terminal. But PID
 * 1 is waited for, which holds a lease on /proc/meminfo (meminfo.c), and writes it when it hears
 * that somebody comes. */
static int open_at_once(const char *path)
{
    int fd;

    for (int tries = 0; tries < LEASE_TRIES; tries++) {
        fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd >= 0 || errno != EAGAIN)
            break;
        (void)poll(NULL, 0, LEASE_MS);
    }
    return fd;
}

int open_regular(const char *path, struct stat *ret, struct err *err)
{
    auto_close int fd = open_at_once(path);

    if (fd < 0 || fstat(fd, ret) < 0)
        return file_error(err, errno, path);
    if (!S_ISREG(ret->st_mode))
        return file_error(err, S_ISDIR(ret->st_mode) ? EISDIR : ENXIO, path);
    return steal_fd(fd);
}

static int send_bytes(struct agent_call *c, int fd, const char *path, uint64_t offset,
                      uint64_t most, struct err *err)
{
    static char chunk[CHUNK];

    while (most > 0) {
        size_t want = most < sizeof(chunk) ? (size_t)most : sizeof(chunk);
        ssize_t n = pread(fd, chunk, want, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return file_error(err, errno, path);
        if (n == 0)
            break;
        call_reply(c, FRAME_DATA, chunk, (size_t)n);
        offset += (uint64_t)n;
        most -= (uint64_t)n;
    }
    call_reply(c, FRAME_END, NULL, 0);
    return 0;
}

/* Up to the size that the caller is told; what has none to tell, as in /proc, until it ends. */
static uint64_t bytes_wanted(const struct stat *st, uint64_t offset, uint64_t most)
{
    uint64_t size = (uint64_t)st->st_size, there = offset < size ? size - offset : 0;

    if (most == 0)
        most = UINT64_MAX;
    return size == 0 || most < there ? most : there;
}

int read_call(struct agent_call *c, struct err *err)
{
    auto_free char *path = wire_get_str(&c->args);
    auto_free char *user = wire_get_str(&c->args);
    uint64_t offset = wire_get_u64(&c->args), most = wire_get_u64(&c->args);
    struct accounts none = {0};
    auto_close int fd = -1;
    struct stat st;

    if (call_args_ok(c, err) < 0 || path_check(path, err) < 0 || identity_become(c, user, err) < 0)
        return -1;
    if (offset > INT64_MAX)
        return err_set(err, ERR_INVALID, "the offset is too large");
    fd = open_regular(path, &st, err);
    if (fd < 0)
        return -1;
    send_file(c, FRAME_OK, AT_FDCWD, path, &st, &none);
    return send_bytes(c, fd, path, offset, bytes_wanted(&st, offset, most), err);
}

int stat_call(struct agent_call *c, struct err *err)
{
    auto_free char *user = wire_get_str(&c->args);
    auto_strv char **paths = wire_get_list(&c->args, CALL_PATHS_MAX);
    auto_accounts struct accounts names = {0};

    if (call_args_ok(c, err) < 0 || identity_become(c, user, err) < 0)
        return -1;
    accounts_load(&names);
    for (char **path = paths; *path; path++) {
        struct stat st;

        if (path_check(*path, err) < 0)
            return -1;
        if (lstat(*path, &st) < 0)
            return file_error(err, errno, *path);
        send_file(c, FRAME_ITEM, AT_FDCWD, *path, &st, &names);
    }
    call_reply(c, FRAME_END, NULL, 0);
    return 0;
}

/* Names one after the other, each with its NUL. */
static int read_names(struct agent_call *c, DIR *dir, const char *path, struct buf *names,
                      size_t *ret_n, struct err *err)
{
    struct dirent *e;
    size_t n = 0;

    for (errno = 0; (e = readdir(dir)); errno = 0) {
        if (str_is_dot(e->d_name))
            continue;
        if (names->len > HEAVY_FROM && heavy_turn(c, err) < 0)
            return -1;
        if (n++ == LIST_MAX || buf_add(names, e->d_name, strlen(e->d_name) + 1) < 0)
            return err_set(err, ERR_TOO_LARGE,
                           "%.100s has more than %d entries; run a command to list it", path,
                           LIST_MAX);
    }
    *ret_n = n;
    return errno ? file_error(err, errno, path) : 0;
}

static void send_names(struct agent_call *c, int dirfd, struct buf *text, size_t n)
{
    auto_accounts struct accounts accounts = {0};
    auto_free char **names = xcalloc(n, sizeof(*names));
    char *p = text->data;

    accounts_load(&accounts);
    for (size_t i = 0; i < n; i++) {
        names[i] = p;
        p += strlen(p) + 1;
    }
    strings_sort(names, n);
    for (size_t i = 0; i < n; i++) {
        struct stat st;

        /* One that was removed meanwhile is left out. */
        if (fstatat(dirfd, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
            send_file(c, FRAME_ITEM, dirfd, names[i], &st, &accounts);
    }
}

int list_call(struct agent_call *c, struct err *err)
{
    auto_free char *path = wire_get_str(&c->args);
    auto_free char *user = wire_get_str(&c->args);
    auto_buf struct buf text = {0};
    size_t n = 0;
    DIR *dir;
    int fd, r;

    buf_init(&text, LIST_BYTES_MAX);
    if (call_args_ok(c, err) < 0 || path_check(path, err) < 0 || identity_become(c, user, err) < 0)
        return -1;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return file_error(err, errno, path);
    r = read_names(c, dir, path, &text, &n, err);
    if (r == 0) {
        send_names(c, fd, &text, n);
        call_reply(c, FRAME_END, NULL, 0);
    }
    (void)closedir(dir);
    return r;
}

int chmod_call(struct agent_call *c, struct err *err)
{
    auto_free char *path = wire_get_str(&c->args);
    auto_free char *user = wire_get_str(&c->args);
    auto_free char *text = wire_get_str(&c->args);
    struct stat st;
    uint32_t mode;

    if (call_args_ok(c, err) < 0 || path_check(path, err) < 0 || identity_become(c, user, err) < 0)
        return -1;
    if (stat(path, &st) < 0)
        return file_error(err, errno, path);
    if (mode_parse(text, st.st_mode, S_ISDIR(st.st_mode), &mode) < 0)
        return err_set(
            err, ERR_INVALID,
            "\"%.20s\" is not a mode; write octal digits such as 755 or a clause such as u+x",
            text);
    if (chmod(path, mode) < 0)
        return file_error(err, errno, path);
    call_reply(c, FRAME_OK, NULL, 0);
    return 0;
}
