#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "base/err.h"
#include "base/mem.h"
#include "proto/frame.h"

/* Removing without recursion. Each level holds its directory open and removes entries relative to
 * it, so no link is ever followed. What lies deeper than DEPTH_MAX is moved up to the top of the
 * tree and met there again. */

#define DEPTH_MAX   128
#define RETRIES_MAX 100

struct level {
    DIR *dir;
    char name[256]; /* in the level above */
};

struct removal {
    struct level levels[DEPTH_MAX];
    size_t depth;
    unsigned moved, retries;
};

static int enter(struct removal *r, int parent, const char *name)
{
    struct level *l = &r->levels[r->depth];
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    l->dir = fdopendir(fd);
    if (!l->dir) {
        (void)close(fd);
        return -ENOMEM;
    }
    (void)snprintf(l->name, sizeof(l->name), "%s", name);
    r->depth++;
    return 0;
}

static int lift(struct removal *r, int fd, const char *name)
{
    char to[48];

    (void)snprintf(to, sizeof(to), ".cay-removed-%d-%u", getpid(), r->moved++);
    return renameat(fd, name, dirfd(r->levels[0].dir), to) < 0 ? -errno : 0;
}

/* Something in the way: gone afterwards, or entered. */
static int remove_entry(struct removal *r, int fd, const char *name)
{
    if (unlinkat(fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    if (unlinkat(fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return -errno;
    return r->depth < DEPTH_MAX ? enter(r, fd, name) : lift(r, fd, name);
}

/* The deepest level has no more entries: take it off and remove it from the one above. */
static int leave(struct removal *r, int parent)
{
    struct level *l = &r->levels[--r->depth];
    int above = r->depth > 0 ? dirfd(r->levels[r->depth - 1].dir) : parent;
    char name[sizeof(l->name)];

    (void)closedir(l->dir);
    if (unlinkat(above, l->name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return -errno;
    /* Directories were lifted to it, or somebody makes new entries as we go. */
    if (r->retries++ > RETRIES_MAX + r->moved)
        return -ENOTEMPTY;
    memcpy(name, l->name, sizeof(name));
    return enter(r, above, name);
}

static bool is_dot(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static int remove_below(struct removal *r, int parent, const char *name)
{
    int res = enter(r, parent, name);

    while (res == 0 && r->depth > 0) {
        DIR *dir = r->levels[r->depth - 1].dir;
        struct dirent *e = readdir(dir);

        if (!e)
            res = leave(r, parent);
        else if (!is_dot(e->d_name))
            res = remove_entry(r, dirfd(dir), e->d_name);
    }
    while (r->depth > 0)
        (void)closedir(r->levels[--r->depth].dir);
    return res;
}

/* The directory that holds path, and path's name in it without trailing slashes. */
static int open_parent(const char *path, char name[256], struct err *err)
{
    auto_free char *dir = xstrdup(path);
    size_t len = strlen(dir);
    char *slash;
    int fd;

    while (len > 1 && dir[len - 1] == '/')
        dir[--len] = '\0';
    slash = strrchr(dir, '/');
    if (!slash[1] || is_dot(slash + 1))
        return err_set(err, ERR_INVALID, "%.100s cannot be removed; name a file or directory",
                       path);
    if (strlen(slash + 1) > 255)
        return file_error(err, ENAMETOOLONG, path);
    (void)snprintf(name, 256, "%s", slash + 1);
    slash[slash == dir] = '\0';
    fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? file_error(err, errno, path) : fd;
}

static int remove_path(const char *path, bool recursive, struct err *err)
{
    static struct removal removal;
    auto_close int parent = -1;
    char name[256];
    struct stat st;
    int r;

    parent = open_parent(path, name, err);
    if (parent < 0)
        return -1;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return file_error(err, errno, path);
    if (S_ISDIR(st.st_mode) && !recursive)
        return err_code(err, ERR_INVALID, "is_a_directory",
                        "%.120s is a directory; ask for a recursive removal", path);
    if (S_ISDIR(st.st_mode))
        r = remove_below(&removal, parent, name);
    else
        r = unlinkat(parent, name, 0) < 0 ? -errno : 0;
    return r < 0 ? file_error(err, -r, path) : 0;
}

int remove_tree(const char *path, struct err *err)
{
    return remove_path(path, true, err);
}

int remove_call(struct call *c, struct err *err)
{
    auto_free char *path = wire_get_str(&c->args);
    auto_free char *user = wire_get_str(&c->args);
    uint32_t recursive = wire_get_u32(&c->args);

    if (call_args_ok(c, err) < 0 || path_check(path, err) < 0 || identity_become(user, err) < 0)
        return -1;
    if (remove_path(path, recursive != 0, err) < 0 && err->sys != ENOENT)
        return -1;
    call_reply(c, FRAME_OK, NULL, 0);
    return 0;
}
