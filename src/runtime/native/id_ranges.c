#include "runtime/native/id_ranges.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

_Static_assert(ID_RANGES_FIRST + ID_RANGES * 65536ull <= ID_OWNERS_FIRST &&
                   ID_OWNERS_FIRST + ID_RANGES <= INT32_MAX,
               "owners are in no range, and ids are positive everywhere");

static int open_dir(struct err *err)
{
    int fd = open(ID_RANGES_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT) {
        if (mkdir(ID_RANGES_DIR, 0700) < 0 && errno != EEXIST)
            return err_sys(err, errno, "make %s", ID_RANGES_DIR);
        fd = open(ID_RANGES_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    return fd < 0 ? err_sys(err, errno, "open %s", ID_RANGES_DIR) : fd;
}

static bool is_owned(int dir, const char *name, const char *owner)
{
    char text[PATH_MAX];
    ssize_t n = readlinkat(dir, name, text, sizeof(text) - 1);

    text[n < 0 ? 0 : n] = '\0';
    return strcmp(text, owner) == 0;
}

struct model {
    char name[16];
};

/* A mark of an owner that stands for no range. The others are the same link by another name, which
 * costs a fraction of one more. */
static struct model model_of(const char *owner)
{
    struct model m;

    (void)snprintf(m.name, sizeof(m.name), ".%08x", str_hash(owner));
    return m;
}

static bool has_model(int dir, const struct model *m, const char *owner)
{
    return is_owned(dir, m->name, owner) || symlinkat(owner, dir, m->name) == 0;
}

/* The owner is the target of a link: it is there with the mark or not at all, so that a daemon that
 * is killed here leaves no mark without an owner. 1 = taken, 0 = somebody has it, -errno. */
static int try_take(int dir, const char *owner, uint32_t slot)
{
    struct model m = model_of(owner);
    char name[16];

    (void)snprintf(name, sizeof(name), "%u", slot);
    if (has_model(dir, &m, owner)) {
        if (linkat(dir, m.name, dir, name, 0) == 0)
            return 1;
        if (errno == EEXIST)
            return 0;
    }
    if (symlinkat(owner, dir, name) < 0)
        return errno == EEXIST ? 0 : -errno;
    return 1;
}

int id_range_take(const char *owner, uint32_t *ret, struct err *err)
{
    static atomic_uint next;
    auto_close int dir = open_dir(err);

    if (dir < 0)
        return -1;
    for (unsigned tries = 0; tries < ID_RANGES; tries++) {
        uint32_t slot = atomic_fetch_add(&next, 1) % ID_RANGES;
        int r = try_take(dir, owner, slot);

        if (r < 0)
            return err_sys(err, -r, "reserve an id range in %s", ID_RANGES_DIR);
        if (r > 0) {
            *ret = slot;
            return 0;
        }
    }
    return err_set(err, ERR_LIMIT,
                   "all %d id ranges of this machine are in use; remove sandboxes first",
                   ID_RANGES);
}

bool id_range_retake(const char *owner, uint32_t slot)
{
    auto_close int dir = open_dir(NULL);
    char name[16];

    (void)snprintf(name, sizeof(name), "%u", slot);
    return dir >= 0 && (try_take(dir, owner, slot) > 0 || is_owned(dir, name, owner));
}

void id_range_release(const char *owner, uint32_t slot)
{
    auto_close int dir = open_dir(NULL);
    char name[16];

    (void)snprintf(name, sizeof(name), "%u", slot);
    if (dir >= 0 && is_owned(dir, name, owner))
        (void)unlinkat(dir, name, 0);
}

void id_range_each(const char *owner, void (*each)(uint32_t slot, void *arg), void *arg)
{
    DIR *d = opendir(ID_RANGES_DIR);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        uint64_t slot;

        if (str_u64(e->d_name, &slot) == 0 && slot < ID_RANGES &&
            is_owned(dirfd(d), e->d_name, owner))
            each((uint32_t)slot, arg);
    }
    if (d)
        (void)closedir(d);
}

void id_ranges_done(const char *owner)
{
    auto_close int dir = open_dir(NULL);
    struct model m = model_of(owner);

    if (dir >= 0 && is_owned(dir, m.name, owner))
        (void)unlinkat(dir, m.name, 0);
}
