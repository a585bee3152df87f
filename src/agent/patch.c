#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "proto/frame.h"

/* What a create asks for in the files of its box before anything runs there (a box of which a part
 * could not be made is thrown away), and copies and links that a caller asks for later. Links are
 * followed, but for the last part of what is made. As for every call the box's root is ours: they
 * lead nowhere else, also when somebody in the box changes a path between two looks at it. */

struct patch {
    uint32_t kind, mode, replace;
    char *path, *other;
};

static void patch_done(struct patch *p)
{
    free(p->path);
    free(p->other);
}

static int make_parents(const char *path, struct err *err)
{
    auto_free char *dir = xstrdup(path);
    char *slash = strrchr(dir, '/');

    if (slash == dir)
        return 0;
    *slash = '\0';
    return make_dirs(dir, 0755, err);
}

/* A file that is a mount of its own stays: it is written over. Of a directory only a copy may take
 * the place. */
static int clear_place(const struct patch *p, struct err *err)
{
    auto_close int parent = -1;
    char name[256];
    struct stat st;

    if (lstat(p->path, &st) < 0)
        return errno == ENOENT ? make_parents(p->path, err) : file_error(err, errno, p->path);
    if (!p->replace)
        return file_error(err, EEXIST, p->path);
    if (S_ISDIR(st.st_mode) && p->kind != PATCH_COPY)
        return file_error(err, EISDIR, p->path);
    parent = open_parent(p->path, name, err);
    if (parent < 0)
        return -1;
    if (remove_at(parent, name, p->path, true, err) == 0)
        return 0;
    return err->sys == EBUSY && p->kind == PATCH_FILE ? 0 : -1;
}

static int put_link(const struct patch *p, struct err *err)
{
    return symlink(p->other, p->path) < 0 ? file_error(err, errno, p->path) : 0;
}

static bool is_within(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/' || dir[n - 1] == '/');
}

/* Where it goes, links on the way resolved; what is above it is there by now. */
static int real_place(const struct patch *p, char ret[PATH_MAX], struct err *err)
{
    auto_free char *dir = xstrdup(p->path);
    char *slash = strrchr(dir, '/');
    char above[PATH_MAX];

    slash[slash == dir] = '\0';
    if (!realpath(dir, above))
        return file_error(err, errno, p->path);
    if ((size_t)snprintf(ret, PATH_MAX, "%s/%s", strcmp(above, "/") == 0 ? "" : above,
                         strrchr(p->path, '/') + 1) >= PATH_MAX)
        return file_error(err, ENAMETOOLONG, p->path);
    return 0;
}

static int set_mode(const struct patch *p, int dir, const char *name)
{
    struct stat st;

    if (p->mode == CALL_MODE_KEEP || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISREG(st.st_mode))
        return 0;
    return fchmodat(dir, name, p->mode & 07777, 0) < 0 ? -errno : 0;
}

/* All of it is there before anything else goes: one that fails leaves what there was. */
static int copy_beside(struct agent_call *c, const struct patch *p, int from, const char *from_name,
                       int to, const char *to_name, struct err *err)
{
    struct err ignored;
    char tmp[64];
    int r;

    (void)snprintf(tmp, sizeof(tmp), ".cay-%d-%llx.tmp", getpid(), (unsigned long long)mono_ns());
    r = copy_tree(c, from, from_name, to, tmp);
    if (r == 0)
        r = set_mode(p, to, tmp);
    if (r == 0 && clear_place(p, err) < 0) {
        (void)remove_at(to, tmp, p->path, true, &ignored);
        return -1;
    }
    if (r == 0 && renameat(to, tmp, to, to_name) < 0)
        r = -errno;
    if (r == 0)
        return 0;
    (void)remove_at(to, tmp, p->path, true, &ignored);
    return file_error(err, -r, r == -ENXIO || r == -EACCES ? p->other : p->path);
}

static int put_copy(struct agent_call *c, const struct patch *p, struct err *err)
{
    auto_close int from = -1, to = -1;
    char real[PATH_MAX], place[PATH_MAX], from_name[256], to_name[256];
    struct stat st;

    if (!realpath(p->other, real))
        return file_error(err, errno, p->other);
    if (make_parents(p->path, err) < 0 || real_place(p, place, err) < 0)
        return -1;
    if (is_within(place, real) || is_within(real, place))
        return err_set(err, ERR_INVALID, "%.100s and %.100s are in one another", p->other, p->path);
    if (!p->replace && lstat(p->path, &st) == 0)
        return file_error(err, EEXIST, p->path);
    from = open_parent(real, from_name, err);
    to = from < 0 ? -1 : open_parent(p->path, to_name, err);
    return to < 0 ? -1 : copy_beside(c, p, from, from_name, to, to_name, err);
}

static int apply(struct agent_call *c, const struct patch *p, struct err *err)
{
    switch (p->kind) {
    case PATCH_FILE:
        if (clear_place(p, err) == 0)
            return write_file(c, p->path, p->mode == CALL_MODE_KEEP ? 0644 : p->mode, WRITE_PARENTS,
                              err);
        swallow(c);
        return -1;
    case PATCH_APPEND:
        return write_file(c, p->path, p->mode, WRITE_PARENTS | WRITE_APPEND, err);
    case PATCH_LINK:
        if (clear_place(p, err) < 0 || put_link(p, err) < 0)
            return -1;
        break;
    case PATCH_COPY:
        if (put_copy(c, p, err) < 0)
            return -1;
        break;
    default:
        return err_set(err, ERR_INVALID, "patches of kind %u are not known", p->kind);
    }
    call_reply(c, FRAME_OK, NULL, 0);
    return 0;
}

int patch_call(struct agent_call *c, struct err *err)
{
    __attribute__((cleanup(patch_done))) struct patch p = {0};

    p.kind = wire_get_u32(&c->args);
    p.path = wire_get_str(&c->args);
    p.other = wire_get_str(&c->args);
    p.mode = wire_get_u32(&c->args);
    p.replace = wire_get_u32(&c->args);
    if (call_args_ok(c, err) == 0 && path_check(p.path, err) == 0 &&
        (p.kind != PATCH_COPY || path_check(p.other, err) == 0))
        return apply(c, &p, err);
    if (p.kind == PATCH_FILE || p.kind == PATCH_APPEND)
        swallow(c);
    return -1;
}
