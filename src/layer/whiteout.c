/* Names and folders of the layers below that a layer hides. The order of entries does not matter: a
 * marker hides what is below, never what the same layer has, and what comes after it in the same
 * layer is there. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "layer/layer_internal.h"
#include "layer/trusted.h"

#define META                                                                                       \
    WHITEOUT_PREFIX WHITEOUT_PREFIX /* of AUFS, which has left nothing but the opaque marker */
#define OPAQUE META ".opq"

bool is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

bool is_opaque(int dirfd)
{
    int found = trusted_look(dirfd);

    return found > 0 && (found & TRUSTED_OPAQUE);
}

int make_opaque(struct layer *l, int dirfd)
{
    l->opaques++;
    return trusted_make_opaque(dirfd);
}

/* Does the file stand for the one of that path in a layer below? */
static bool is_borrowed_from(const struct place *p)
{
    auto_close int fd = openat(p->dir, p->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    char path[LAYER_MAX_PATH + 1];
    ssize_t n = fd < 0 ? -1 : read_some(fd, path, sizeof(path));

    return n == (ssize_t)strlen(p->full) && memcmp(path, p->full, (size_t)n) == 0;
}

static int hide_name(struct layer *l, const struct place *p, struct err *err)
{
    if (mknodat(p->dir, p->name, S_IFCHR, makedev(0, 0)) < 0)
        return layer_sys_error(err, errno, p->full);
    l->parent.changed = true;
    l->whiteouts++;
    return 0;
}

int layer_whiteout(struct layer *l, const char *path, struct err *err)
{
    auto_close int fd = -1;
    struct place p;
    struct stat st;
    int r;

    if (layer_count(l, err) < 0)
        return -1;
    r = place_hide(l, path, &p, err);
    if (r != 0)
        return r < 0 ? -1 : 0;
    if (p.name[0] == '\0')
        return layer_bad(err, path, "hides the root of the image");
    if (fstatat(p.dir, p.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? hide_name(l, &p, err) : layer_sys_error(err, errno, path);
    if (S_ISREG(st.st_mode) && st.st_uid == OWNER_BORROWED && is_borrowed_from(&p))
        return place_clear(l, &p, err) < 0 ? -1 : hide_name(l, &p, err);
    if (!S_ISDIR(st.st_mode))
        return 0; /* this layer's own, which hides what is below anyway */
    fd = openat(p.dir, p.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r = fd < 0 ? -errno : make_opaque(l, fd);
    return r < 0 ? layer_sys_error(err, -r, path) : 0;
}

int layer_opaque(struct layer *l, const char *path, struct err *err)
{
    struct place p;
    auto_free char *inside = xasprintf("%s/x", path);
    int r;

    if (layer_count(l, err) < 0)
        return -1;
    r = place_hide(l, inside, &p, err);
    if (r != 0)
        return r < 0 ? -1 : 0;
    if (p.name == p.full) { /* overlayfs does not look at the mark of a root */
        l->root_opaque = true;
        return 0;
    }
    r = make_opaque(l, p.dir);
    return r < 0 ? layer_sys_error(err, -r, path) : 0;
}

/* A marker is only ever the last part of a path. */
static bool goes_through_marker(const char *clean, const char *name)
{
    for (const char *p = clean; p < name; p = strchr(p, '/') + 1)
        if (str_starts(p, WHITEOUT_PREFIX))
            return true;
    return false;
}

int layer_marker(struct layer *l, const char *path, struct err *err)
{
    char clean[LAYER_MAX_PATH + 1];
    const char *hidden;
    char *name;

    if (place_clean(path, clean, err) < 0)
        return -1;
    name = strrchr(clean, '/');
    name = name ? name + 1 : clean;
    if (goes_through_marker(clean, name))
        return layer_bad(err, path, "is in a folder whose name is that of a whiteout");
    if (!str_starts(name, WHITEOUT_PREFIX))
        return 0;
    hidden = name + strlen(WHITEOUT_PREFIX);
    if (strcmp(name, OPAQUE) == 0) {
        if (name > clean)
            name[-1] = '\0';
        return layer_opaque(l, name > clean ? clean : ".", err) < 0 ? -1 : 1;
    }
    if (str_starts(name, META))
        return layer_drop(l, err) < 0 ? -1 : 1;
    if (hidden[0] == '\0' || str_is_dot(hidden))
        return layer_bad(err, path, "is a whiteout of nothing");
    memmove(name, hidden, strlen(hidden) + 1);
    return layer_whiteout(l, clean, err) < 0 ? -1 : 1;
}
