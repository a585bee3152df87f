#include "agent/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"

/* A directory is opened step by step from the top, without following links, and made the working
 * directory to be watched: no path is looked at twice, so nobody can put another in its place. None
 * is kept open, since that would hold the mount that it is on. */

#define DEPTH_MAX 256
#define TRIES_MAX 10

static struct watch_dir **bucket(struct watch_tree *t, int wd)
{
    return &t->by_wd[(unsigned)wd % ARRAY_LEN(t->by_wd)];
}

struct watch_dir *watch_tree_find(struct watch_tree *t, int wd)
{
    struct watch_dir *d = *bucket(t, wd);

    while (d && d->wd != wd)
        d = d->next;
    return d;
}

struct watch_dir *watch_tree_child(struct watch_tree *t, const struct watch_dir *above,
                                   const char *name)
{
    for (uint32_t i = 1; i < t->n; i++)
        if (t->all[i]->above == above && strcmp(t->all[i]->name, name) == 0)
            return t->all[i];
    return NULL;
}

bool watch_is_passing(const char *name)
{
    return str_starts(name, ".cay-") &&
           (str_ends(name, ".tmp") || str_starts(name + 5, "removed-"));
}

bool watch_tree_ignores(const struct watch_tree *t, const char *name)
{
    if (watch_is_passing(name))
        return true;
    for (char *const *glob = t->ignore; glob && *glob; glob++)
        if (str_glob(*glob, name))
            return true;
    return false;
}

/* From its end to its start. */
bool watch_tree_path(const struct watch_tree *t, const struct watch_dir *dir, const char *name,
                     char ret[WATCH_PATH_MAX])
{
    size_t at = WATCH_PATH_MAX - 1, top = strcmp(t->top, "/") == 0 ? 0 : strlen(t->top);

    ret[at] = '\0';
    if (!name && dir->above) {
        name = dir->name;
        dir = dir->above;
    }
    for (; name; name = dir->above ? dir->name : NULL, dir = dir->above ? dir->above : dir) {
        size_t n = strlen(name);

        if (n + 1 > at)
            return false;
        at -= n;
        memcpy(ret + at, name, n);
        ret[--at] = '/';
    }
    if (top > at)
        return false;
    memmove(ret + top, ret + at, WATCH_PATH_MAX - at);
    memcpy(ret, t->top, top);
    if (!*ret)
        memcpy(ret, "/", 2);
    return true;
}

/* ---- how many there are ---- */

static void count_own(const struct watch_tree *t)
{
    struct slot *slot = agent_own_slot();

    if (slot)
        slot->watched = t->n;
}

static bool has_room(const struct watch_tree *t)
{
    uint32_t all = 1;

    for (size_t i = 0; i < HANDLERS_MAX; i++)
        all += agents->handlers[i].pid != 0 ? agents->handlers[i].watched : 0;
    return t->n < WATCH_DIRS_MAX && all <= WATCH_DIRS_MAX;
}

static void note_unwatched(struct watch_tree *t, const struct watch_dir *above, const char *name)
{
    if (t->unwatched++ == 0 && !watch_tree_path(t, above, name, t->unwatched_path))
        t->unwatched_path[0] = '\0';
}

static struct watch_dir *dir_new(struct watch_tree *t, struct watch_dir *above, const char *name)
{
    size_t len = strlen(name) + 1;
    struct watch_dir *d;

    if (!has_room(t)) {
        if (above)
            note_unwatched(t, above, name);
        return NULL;
    }
    d = xcalloc(1, sizeof(*d) + len);
    memcpy(d->name, name, len);
    d->above = above;
    d->wd = -1;
    d->at = t->n;
    t->all[t->n++] = d;
    count_own(t);
    return d;
}

static void unhash(struct watch_tree *t, struct watch_dir *dir)
{
    struct watch_dir **at;

    if (dir->wd < 0)
        return;
    for (at = bucket(t, dir->wd); *at && *at != dir;)
        at = &(*at)->next;
    if (*at)
        *at = dir->next;
    dir->wd = -1;
}

static void unlist(struct watch_dir **list, const struct watch_dir *dir)
{
    for (; *list; list = &(*list)->pending)
        if (*list == dir) {
            *list = dir->pending;
            return;
        }
}

static void take_out(struct watch_tree *t, struct watch_dir *dir)
{
    unlist(&t->pending, dir);
    unlist(&t->late, dir);
    if (dir->wd >= 0)
        (void)inotify_rm_watch(t->fd, dir->wd);
    unhash(t, dir);
    t->all[dir->at] = t->all[--t->n];
    t->all[dir->at]->at = dir->at;
    free(dir);
}

bool watch_tree_is_below(const struct watch_dir *d, const struct watch_dir *top)
{
    while (d && d != top)
        d = d->above;
    return top && d;
}

void watch_tree_drop(struct watch_tree *t, struct watch_dir *dir)
{
    auto_free struct watch_dir **gone = NULL;
    size_t n = 0;

    if (!dir || !dir->above)
        return;
    gone = xcalloc(t->n, sizeof(struct watch_dir *));
    for (uint32_t i = 1; i < t->n; i++)
        if (watch_tree_is_below(t->all[i], dir))
            gone[n++] = t->all[i];
    while (n > 0)
        take_out(t, gone[--n]);
    count_own(t);
}

/* ---- reading directories ---- */

static int open_dir(const struct watch_tree *t, const struct watch_dir *dir)
{
    const struct watch_dir *steps[DEPTH_MAX];
    size_t n = 0;
    int fd;

    for (const struct watch_dir *d = dir; d->above; d = d->above) {
        if (n == DEPTH_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        steps[n++] = d;
    }
    fd = open(t->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && n > 0) {
        int below = openat(fd, steps[--n]->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        close_fd(&fd);
        fd = below;
    }
    return fd;
}

static bool is_kernel_tree(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC);
}

/* One that has a watch already was known at another place, from which it has been moved; what
 * inotify tells of that is still to come. 0 or -errno. */
static int set_watch(struct watch_tree *t, struct watch_dir *dir, int fd)
{
    struct watch_dir *known;
    int wd, r = 0;

    if (fchdir(fd) < 0)
        return -errno;
    wd = inotify_add_watch(t->fd, ".", t->mask | IN_ONLYDIR | IN_EXCL_UNLINK);
    if (wd < 0)
        r = -errno;
    (void)!chdir("/");
    if (r < 0)
        return r;
    known = watch_tree_find(t, wd);
    if (known && known != dir)
        unhash(t, known);
    if (known == dir)
        return 0;
    dir->wd = wd;
    dir->next = *bucket(t, wd);
    *bucket(t, wd) = dir;
    return 0;
}

static bool is_dir_at(int fd, const struct dirent *e)
{
    struct stat st;

    if (e->d_type != DT_UNKNOWN)
        return e->d_type == DT_DIR;
    return fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static void take_entry(struct watch_tree *t, struct watch_dir *dir, int fd, const struct dirent *e)
{
    bool is_dir;
    struct watch_dir *d;

    if (str_is_dot(e->d_name) || watch_tree_ignores(t, e->d_name))
        return;
    is_dir = is_dir_at(fd, e);
    if (t->found)
        t->found(dir, e->d_name, is_dir, t->arg);
    if (!is_dir || !t->recursive)
        return;
    /* While nothing is told of there can be none, and when there is no room it does not matter:
     * that spares looking at thousands for each of a million. */
    if (t->found && has_room(t) && watch_tree_child(t, dir, e->d_name))
        return;
    d = dir_new(t, dir, e->d_name);
    if (d) {
        d->pending = t->pending;
        t->pending = d;
    }
}

/* The watch comes first, so that nothing falls between it and the reading. 0 or -errno. */
static int read_dir(struct watch_tree *t, struct watch_dir *dir)
{
    int fd = open_dir(t, dir), r;
    struct dirent *e;
    DIR *d;

    if (fd < 0)
        return -errno;
    if (dir->above && is_kernel_tree(fd)) {
        close_fd(&fd);
        return -EINVAL;
    }
    r = set_watch(t, dir, fd);
    d = r == 0 ? fdopendir(fd) : NULL;
    if (!d) {
        r = r < 0 ? r : -errno;
        close_fd(&fd);
        return r;
    }
    if (t->recursive || t->found)
        while ((e = readdir(d)))
            take_entry(t, dir, dirfd(d), e);
    (void)closedir(d);
    return 0;
}

static bool is_elsewhere(int r)
{
    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP;
}

/* What cannot be opened is gone, or not ours to look into. */
static void read_pending(struct watch_tree *t)
{
    while (t->pending) {
        struct watch_dir *dir = t->pending;
        int r;

        t->pending = dir->pending;
        dir->pending = NULL;
        r = read_dir(t, dir);
        if (is_elsewhere(r) && dir->above && dir->tries++ < TRIES_MAX) {
            dir->pending = t->late;
            t->late = dir;
            continue;
        }
        if (r == -ENOSPC || r == -ENOMEM || r == -ENAMETOOLONG)
            note_unwatched(t, dir->above, dir->name);
        if (r < 0)
            watch_tree_drop(t, dir);
    }
}

void watch_tree_retry(struct watch_tree *t)
{
    t->pending = t->late;
    t->late = NULL;
    read_pending(t);
}

void watch_tree_add(struct watch_tree *t, struct watch_dir *above, const char *name)
{
    struct watch_dir *d;

    if (!t->recursive || watch_tree_child(t, above, name))
        return;
    d = dir_new(t, above, name);
    if (!d)
        return;
    d->pending = t->pending;
    t->pending = d;
    read_pending(t);
}

void watch_tree_move(struct watch_tree *t, struct watch_dir *dir, struct watch_dir *above,
                     const char *name)
{
    struct watch_dir *moved = xcalloc(1, sizeof(*moved) + strlen(name) + 1);
    int wd = dir->wd;

    unhash(t, dir);
    memcpy(moved->name, name, strlen(name) + 1);
    moved->above = above;
    moved->at = dir->at;
    moved->tries = dir->tries;
    if (wd < 0) {
        moved->pending = t->late;
        t->late = moved;
    }
    unlist(&t->late, dir);
    moved->wd = wd;
    t->all[moved->at] = moved;
    if (wd >= 0) {
        moved->next = *bucket(t, wd);
        *bucket(t, wd) = moved;
    }
    for (uint32_t i = 1; i < t->n; i++)
        if (t->all[i]->above == dir)
            t->all[i]->above = moved;
    free(dir);
}

/* ---- the whole ---- */

void watch_tree_done(struct watch_tree *t)
{
    while (t->n > 0)
        free(t->all[--t->n]);
    memset(t->by_wd, 0, sizeof(t->by_wd));
    t->pending = t->late = NULL;
    close_fd(&t->fd);
}

int watch_tree_build(struct watch_tree *t, struct err *err)
{
    struct watch_dir *top;
    int r;

    watch_tree_done(t);
    count_own(t);
    t->unwatched = 0;
    t->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (t->fd < 0)
        return err_code(err, ERR_LIMIT, "watch_limit",
                        "the sandbox's processes watch files at as many places as they may "
                        "(fs.inotify.max_user_instances); end some");
    top = dir_new(t, NULL, "");
    if (!top)
        return err_code(err, ERR_LIMIT, "watch_limit",
                        "callers watch %d directories of this sandbox already, which is as many as "
                        "may be; end some",
                        WATCH_DIRS_MAX);
    r = read_dir(t, top);
    if (r < 0)
        return file_error(err, -r, t->top);
    read_pending(t);
    return 0;
}
