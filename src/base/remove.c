#include "base/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"

/* Each level holds its directory open and removes entries relative to it, so no link is ever
 * followed. A directory that lies deeper than DEPTH_MAX is moved up to the top of the tree and met
 * there again. */

#define DEPTH_MAX   128
#define RETRIES_MAX 100

struct level {
    DIR *dir;
    char name[256]; /* in the level above; of the first level unused */
};

struct removal {
    const char *top; /* name of the whole tree, which may be a path */
    struct level levels[DEPTH_MAX];
    size_t depth;
    dev_t dev; /* of the whole tree */
    unsigned moved, retries;
    uint64_t left;    /* entries that may still be removed */
    int64_t until_ns; /* mono_ns; 0 = any time */
};

/* A mount is never entered, so what is in it stays. */
static int check_device(struct removal *r, int fd)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (r->depth == 0)
        r->dev = st.st_dev;
    return st.st_dev == r->dev ? 0 : -EBUSY;
}

/* Opens one more level. */
static int open_level(struct removal *r, int parent, const char *name)
{
    auto_close int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int res = fd < 0 ? -errno : check_device(r, fd);
    DIR *dir;

    if (res < 0)
        return res;
    dir = fdopendir(fd);
    if (!dir)
        return -errno;
    fd = -1; /* closedir() closes it */
    r->levels[r->depth++].dir = dir;
    return 0;
}

static int enter(struct removal *r, int parent, const char *name)
{
    struct level *l = &r->levels[r->depth];

    (void)snprintf(l->name, sizeof(l->name), "%s", name);
    return open_level(r, parent, name);
}

/* A removal that was cut short leaves names like these. The next one must not meet them, nor may a
 * process that writes to the tree guess them. */
static int lift(struct removal *r, int fd, const char *name)
{
    char to[ID_SIZE];

    r->moved++;
    id_new(to, ".cay-removed");
    return renameat(fd, name, dirfd(r->levels[0].dir), to) < 0 ? -errno : 0;
}

/* Removes the entry, unless it is a directory with something in it: 1 for that. */
static int remove_one(int fd, const char *name)
{
    if (unlinkat(fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    if (unlinkat(fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if (errno == ENOTDIR)
        return -EPERM; /* a file that may not be removed */
    return errno == ENOTEMPTY || errno == EEXIST ? 1 : -errno;
}

static int remove_entry(struct removal *r, int fd, const char *name)
{
    int res = r->left-- > 0 ? remove_one(fd, name) : -E2BIG;

    if (res <= 0)
        return res;
    return r->depth < DEPTH_MAX ? enter(r, fd, name) : lift(r, fd, name);
}

/* The deepest level has no more entries: take it off and remove it from the one above. */
static int leave(struct removal *r, int parent)
{
    struct level *l = &r->levels[--r->depth];
    int above = r->depth > 0 ? dirfd(r->levels[r->depth - 1].dir) : parent;
    const char *name = r->depth > 0 ? l->name : r->top;

    (void)closedir(l->dir);
    if (unlinkat(above, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return -errno;
    /* Directories were lifted to it, or somebody makes new entries as we go. */
    if (r->retries++ > RETRIES_MAX + r->moved)
        return -ENOTEMPTY;
    return open_level(r, above, name);
}

static int remove_below(struct removal *r, int parent)
{
    int res = open_level(r, parent, r->top);

    while (res == 0 && r->depth > 0) {
        DIR *dir = r->levels[r->depth - 1].dir;
        struct dirent *e = readdir(dir);

        if (r->until_ns && mono_ns() >= r->until_ns)
            res = -ETIME;
        else if (!e)
            res = leave(r, parent);
        else if (!str_is_dot(e->d_name))
            res = remove_entry(r, dirfd(dir), e->d_name);
    }
    while (r->depth > 0)
        (void)closedir(r->levels[--r->depth].dir);
    return res;
}

static int remove_within(int dirfd, const char *name, uint64_t max, int64_t until_ns)
{
    auto_free struct removal *r = NULL;
    int res = remove_one(dirfd, name);

    if (res <= 0)
        return res;
    r = xcalloc(1, sizeof(*r));
    r->top = name;
    r->left = max;
    r->until_ns = until_ns;
    return remove_below(r, dirfd);
}

int remove_tree(int dirfd, const char *name)
{
    return remove_within(dirfd, name, UINT64_MAX, 0);
}

int remove_small_tree(int dirfd, const char *name, uint64_t max)
{
    return remove_within(dirfd, name, max, 0);
}

int remove_tree_until(int dirfd, const char *name, int64_t until_ns)
{
    return remove_within(dirfd, name, UINT64_MAX, until_ns);
}
