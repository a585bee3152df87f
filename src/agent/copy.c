#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"

/* The copy behind a move between filesystems: regular files, directories, links and FIFOs, with
 * mode, owner and times. Each level holds both its directories open; nothing is looked up by path
 * below the top. It ends when its caller has gone: who is told that it took too long may try again.
 */

#define DEPTH_MAX  128
#define LOOK_STEPS 64 /* files, or pieces of one, between two looks at the caller */

struct copy_level {
    DIR *from;
    int to;
    struct stat st; /* of from, set on to when all is in it */
};

struct copy {
    struct copy_level levels[DEPTH_MAX];
    size_t depth;
    struct agent_call *caller;
    unsigned steps;
};

static int check_wanted(struct copy *c)
{
    return ++c->steps % LOOK_STEPS == 0 && call_gone(c->caller) ? -ECANCELED : 0;
}

static int copy_bytes(struct copy *c, int from, int to)
{
    static char chunk[64 << 10];

    for (;;) {
        ssize_t n = read_some(from, chunk, sizeof(chunk));
        int r = n > 0 ? write_all(to, chunk, (size_t)n) : (int)n;

        if (n > 0 && r == 0)
            r = check_wanted(c);
        if (n <= 0 || r < 0)
            return r;
    }
}

/* As far as this user may: only root gives files away. */
static int copy_marks(int fd, const struct stat *st)
{
    struct timespec times[2] = {st->st_atim, st->st_mtim};

    if (fchown(fd, st->st_uid, st->st_gid) < 0 && errno != EPERM)
        return -errno;
    if (fchmod(fd, st->st_mode & 07777) < 0 || futimens(fd, times) < 0)
        return -errno;
    return 0;
}

static int copy_file(struct copy *c, int from_dir, const char *from, int to_dir, const char *to)
{
    auto_close int in = openat(from_dir, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    auto_close int out = -1;
    struct stat st;
    int r;

    if (in < 0 || fstat(in, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -ENXIO;
    out = openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return -errno;
    r = copy_bytes(c, in, out);
    return r < 0 ? r : copy_marks(out, &st);
}

static int copy_link(int from_dir, const char *from, int to_dir, const char *to,
                     const struct stat *st)
{
    char target[4096];
    ssize_t n = readlinkat(from_dir, from, target, sizeof(target) - 1);

    if (n < 0)
        return -errno;
    target[n] = '\0';
    if (symlinkat(target, to_dir, to) < 0)
        return -errno;
    (void)fchownat(to_dir, to, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW);
    (void)utimensat(to_dir, to, (struct timespec[]){st->st_atim, st->st_mtim}, AT_SYMLINK_NOFOLLOW);
    return 0;
}

static int copy_fifo(int to_dir, const char *to, const struct stat *st)
{
    mode_t mask = umask(0); /* by its name it could not be changed without following a link */
    int r = mkfifoat(to_dir, to, st->st_mode & 07777) < 0 ? -errno : 0;

    (void)umask(mask);
    if (r < 0)
        return r;
    (void)fchownat(to_dir, to, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW);
    (void)utimensat(to_dir, to, (struct timespec[]){st->st_atim, st->st_mtim}, AT_SYMLINK_NOFOLLOW);
    return 0;
}

static int enter(struct copy *c, int from_dir, const char *from, int to_dir, const char *to)
{
    struct copy_level *l = &c->levels[c->depth];
    auto_close int fd = -1;

    if (c->depth == DEPTH_MAX)
        return -ENAMETOOLONG;
    fd = openat(from_dir, from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &l->st) < 0 || mkdirat(to_dir, to, 0700) < 0)
        return -errno;
    l->to = openat(to_dir, to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (l->to < 0)
        return -errno;
    l->from = fdopendir(fd);
    if (!l->from) {
        close_fd(&l->to);
        return -ENOMEM;
    }
    (void)steal_fd(fd);
    c->depth++;
    return 0;
}

static int copy_entry(struct copy *c, int from_dir, const char *from, int to_dir, const char *to)
{
    struct stat st;

    if (fstatat(from_dir, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return enter(c, from_dir, from, to_dir, to);
    if (S_ISLNK(st.st_mode))
        return copy_link(from_dir, from, to_dir, to, &st);
    if (S_ISFIFO(st.st_mode))
        return copy_fifo(to_dir, to, &st);
    return copy_file(c, from_dir, from, to_dir, to);
}

static int leave(struct copy *c)
{
    struct copy_level *l = &c->levels[--c->depth];
    int r = copy_marks(l->to, &l->st);

    (void)closedir(l->from);
    (void)close(l->to);
    return r;
}

int copy_tree(struct agent_call *caller, int from_dir, const char *from, int to_dir, const char *to)
{
    static struct copy copy;
    struct copy *c = &copy;
    int r;

    c->caller = caller;
    r = copy_entry(c, from_dir, from, to_dir, to);
    while (r == 0 && c->depth > 0) {
        struct copy_level *l = &c->levels[c->depth - 1];
        struct dirent *e = readdir(l->from);

        r = check_wanted(c);
        if (r < 0)
            break;
        if (!e)
            r = leave(c);
        else if (!str_is_dot(e->d_name))
            r = copy_entry(c, dirfd(l->from), e->d_name, l->to, e->d_name);
    }
    while (c->depth > 0)
        (void)leave(c);
    return r;
}
