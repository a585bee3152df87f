#include "engine/mounts_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine_internal.h"
#include "engine/path_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"
#include "engine/volumes_internal.h"
#include "model/sandbox.h"

/* ---- what may be asked for ---- */

/* The normal form of where something is to be mounted. /proc, /sys and /dev are what a box is told
 * of the kernel, and covered where it shall not look. */
int mount_check_path(const char *path, char **ret, struct err *err)
{
    static const char *const taken[] = {"/proc", "/sys", "/dev"};
    auto_free char *normal = NULL;

    if (!path || *path != '/')
        return err_code(err, ERR_INVALID, "bad_mount_path", "mountPath must be an absolute path");
    if (path_resolve("/", path, true, &normal, err) < 0)
        return -1;
    if (strlen(normal) > MOUNT_PATH_MAX)
        return err_code(err, ERR_INVALID, "bad_mount_path", "mountPath must be at most %d bytes",
                        MOUNT_PATH_MAX);
    if (strcmp(normal, "/") == 0)
        return err_code(err, ERR_INVALID, "bad_mount_path", "nothing can be mounted at /");
    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        if (path_is_below(normal, taken[i]))
            return err_code(err, ERR_INVALID, "bad_mount_path",
                            "nothing can be mounted at %.100s: %s is the kernel's", normal,
                            taken[i]);
    *ret = steal_ptr(normal);
    return 0;
}

/* As "a/b"; NULL when it is all. */
int mount_check_sub(const char *sub, char **ret, struct err *err)
{
    auto_free char *normal = NULL;

    *ret = NULL;
    if (!sub || !*sub)
        return 0;
    if (path_resolve("/", sub, true, &normal, err) < 0)
        return err_wrap(err, "subPath");
    if (strlen(normal) > MOUNT_PATH_MAX)
        return err_set(err, ERR_INVALID, "subPath must be at most %d bytes", MOUNT_PATH_MAX);
    if (normal[1])
        *ret = xstrdup(normal + 1);
    return 0;
}

/* A folder of the host: only below what the operator has listed, and never what is ours. Links are
 * refused when it is opened, so that its name says where it is. */
static int check_bind(struct engine *e, const char *path, const char *sub, char **ret,
                      struct err *err)
{
    auto_free char *whole = xasprintf("%s/%s", path, sub ? sub : "");
    auto_free char *normal = NULL;
    bool allowed = false;

    if (*path != '/')
        return err_code(err, ERR_INVALID, "bad_bind", "path must be an absolute path of the host");
    if (path_resolve("/", whole, true, &normal, err) < 0)
        return -1;
    for (char *const *a = e->config.bind_allow; a && *a; a++)
        allowed = allowed || (**a == '/' && path_is_below(normal, *a));
    if (!allowed)
        return err_code(err, ERR_FORBIDDEN, "bind_not_allowed",
                        "%.100s is not below a folder that CAY_BIND_ALLOW lists", normal);
    if (path_is_below(normal, e->config.data_dir) || path_is_below(e->config.data_dir, normal))
        return err_code(err, ERR_FORBIDDEN, "bind_not_allowed",
                        "%.100s holds the state of the daemon, or is part of it", normal);
    *ret = steal_ptr(normal);
    return 0;
}

/* Is there room for one more, at that path? Whether the others are below it matters where they are
 * mounted already. */
int mount_check_others(const json_t *mounts, const struct mount_spec *new, bool are_mounted,
                       struct err *err)
{
    struct mount_spec m;

    if (json_array_size(mounts) >= MOUNTS_MAX)
        return err_code(err, ERR_LIMIT, "mount_limit", "a sandbox can have %d mounts at most",
                        MOUNTS_MAX);
    for (size_t i = 0; i < json_array_size(mounts); i++) {
        if (mount_spec_load(json_array_get(mounts, i), &m, err) < 0)
            return -1;
        if (strcmp(m.path, new->path) == 0)
            return err_code(err, ERR_CONFLICT, "mount_path_taken",
                            "something is mounted at %.100s already", m.path);
        if (are_mounted && path_is_below(m.path, new->path))
            return err_code(err, ERR_CONFLICT, "mount_path_taken",
                            "%.80s would be hidden, which is mounted below %.80s", m.path,
                            new->path);
        if (new->type == MOUNT_VOLUME &&
            m.type == MOUNT_VOLUME &&strcmp(m.source, new->source) == 0 &&
            strcmp(m.sub ? m.sub : "", new->sub ? new->sub : "") == 0)
            return err_code(err, ERR_CONFLICT, "volume_attached",
                            "the sandbox has this volume already, at %.100s", m.path);
    }
    return 0;
}

/* Outer ones first: a new array. */
json_t *mounts_with(const json_t *mounts, const struct mount_spec *new)
{
    json_t *list = mounts ? json_deep_copy(mounts) : json_array();
    size_t at = 0;

    while (at < json_array_size(list) &&
           strcmp(json_string_value(json_object_get(json_array_get(list, at), "mountPath")),
                  new->path) < 0)
        at++;
    (void)json_array_insert_new(list, at, mount_spec_json(new));
    return list;
}

static int add_mount(struct sandbox_spec *spec, const struct mount_spec *m, struct err *err)
{
    json_t *old = spec->mounts;

    if (mount_check_others(old, m, false, err) < 0)
        return -1;
    spec->mounts = mounts_with(old, m);
    json_decref(old);
    return 0;
}

static const char *text(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

/* name is a volume, path a folder of the host. */
static int find_source(struct engine *e, const json_t *o, struct mount_spec *m,
                       struct mount_pins *pins, char **ret_path, struct err *err)
{
    const char *name = text(o, "name"), *path = text(o, "path");
    uint32_t size = (uint32_t)json_integer_value(json_object_get(o, "sizeMb"));
    struct volume *v = NULL;
    int r;

    if (!name == !path)
        return err_set(err, ERR_INVALID,
                       "each of volumes has a name (of a volume) or a path (of the host)");
    if (path) {
        m->type = MOUNT_BIND;
        if (check_bind(e, path, m->sub, ret_path, err) < 0)
            return -1;
        m->sub = NULL;
        m->source = *ret_path;
        return 0;
    }
    if (pins->n == MOUNTS_MAX)
        return err_code(err, ERR_LIMIT, "mount_limit", "a sandbox can have %d mounts at most",
                        MOUNTS_MAX);
    m->type = MOUNT_VOLUME;
    r = json_is_true(json_object_get(o, "create")) && !str_starts(name, VOLUME_ID_START)
            ? volume_pin_or_create(e, name, size, &v, err)
            : volume_pin(e, name, &v, err);
    if (r < 0)
        return -1;
    pins->volumes[pins->n++] = v;
    m->source = volume_id(v);
    return 0;
}

static int read_volume(struct engine *e, const json_t *o, struct sandbox_spec *spec,
                       struct mount_pins *pins, struct err *err)
{
    auto_free char *path = NULL, *sub = NULL, *source = NULL;
    struct mount_spec m = {.read_only = json_is_true(json_object_get(o, "readOnly")),
                           .noexec = json_is_true(json_object_get(o, "noexec"))};

    if (mount_check_path(text(o, "mountPath"), &path, err) < 0 ||
        mount_check_sub(text(o, "subPath"), &sub, err) < 0)
        return -1;
    m.path = path;
    m.sub = sub;
    if (find_source(e, o, &m, pins, &source, err) < 0)
        return -1;
    return add_mount(spec, &m, err);
}

/* What is in it counts as the sandbox's memory: a size past that would be a lie. That of a clone
 * becomes smaller when the memory of the other sandbox was lowered. */
static int read_tmpfs(const json_t *o, bool is_clone, struct sandbox_spec *spec, struct err *err)
{
    const json_t *size = json_object_get(o, "sizeMb");
    auto_free char *path = NULL;
    struct mount_spec m = {.type = MOUNT_TMPFS,
                           .read_only = json_is_true(json_object_get(o, "readOnly")),
                           .noexec = json_is_true(json_object_get(o, "noexec")),
                           .size_mb = size ? (uint32_t)json_integer_value(size)
                                           : spec->limits.memory_mb / 2};

    if (mount_check_path(text(o, "mountPath"), &path, err) < 0)
        return -1;
    m.path = path;
    if (is_clone && m.size_mb > spec->limits.memory_mb)
        m.size_mb = spec->limits.memory_mb;
    if (m.size_mb > spec->limits.memory_mb)
        return err_set(err, ERR_INVALID,
                       "a tmpfs of %u MB is larger than the sandbox's memory of %u MB, which it is "
                       "part of",
                       m.size_mb, spec->limits.memory_mb);
    return add_mount(spec, &m, err);
}

int mounts_read(struct engine *e, const struct sandbox_request *req, struct sandbox_spec *spec,
                struct mount_pins *pins, struct err *err)
{
    pins->n = 0;
    for (size_t i = 0; i < json_array_size(req->tmpfs); i++)
        if (read_tmpfs(json_array_get(req->tmpfs, i), req->granted, spec, err) < 0)
            return err_wrap(err, "tmpfs[%zu]", i);
    for (size_t i = 0; i < json_array_size(req->volumes); i++)
        if (read_volume(e, json_array_get(req->volumes, i), spec, pins, err) < 0)
            return err_wrap(err, "volumes[%zu]", i);
    return 0;
}

void mounts_unpin(struct engine *e, struct mount_pins *pins)
{
    while (pins->n > 0)
        volume_unpin(e, pins->volumes[--pins->n]);
}

/* ---- opening ---- */

static int sub_not_made(const char *sub, int error, struct err *err)
{
    if (error == ENOSPC || error == EDQUOT)
        return err_code(err, ERR_LIMIT, "no_space",
                        "subPath %.100s cannot be made: the volume is full", sub);
    return err_code(err, ERR_INVALID, "bad_sub_path", "subPath %.100s cannot be made: %s", sub,
                    strerror(error));
}

/* The folder of a volume, root's, made when it is missing. A sandbox that has the volume may put a
 * link in its way at any time, also in place of what was just made: none is followed, here or by
 * the launcher. */
static int make_sub(int root, const char *sub, struct err *err)
{
    auto_close int at = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_free char *parts = xstrdup(sub);
    char *rest = NULL;

    for (char *name = strtok_r(parts, "/", &rest); name; name = strtok_r(NULL, "/", &rest)) {
        bool made = mkdirat(at, name, 0777) == 0;
        int fd;

        if (!made && errno != EEXIST)
            return sub_not_made(sub, errno, err);
        fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            return err_code(err, ERR_INVALID, "bad_sub_path",
                            "subPath %.100s: a part of it is a link, or no directory", sub);
        if (made)
            (void)fchmod(fd, 0777);
        close_fd(&at);
        at = fd;
    }
    return 0;
}

static int open_volume(struct engine *e, const struct mount_spec *m, struct box_mount *ret,
                       struct err *err)
{
    struct volume *v = NULL;
    int root, r;

    if (volume_pin(e, m->source, &v, err) < 0)
        return -1;
    ret->size_mb = volume_size_mb(v);
    r = volume_root(e, v, &root, err);
    if (r == 0 && m->sub)
        r = make_sub(root, m->sub, err);
    if (r == 0)
        r = volume_clone(e, v, &ret->fd, err);
    volume_unpin(e, v);
    return r;
}

/* Its owner is root of the sandbox, and nobody else there is anybody: so what is written there is
 * his, as if he had. A folder of the host's root is only shown: a setuid program in it would be
 * root's. */
static int check_owner(const char *path, const struct stat *st, bool read_only, struct err *err)
{
    if (read_only || (st->st_uid != 0 && st->st_gid != 0))
        return 0;
    return err_code(err, ERR_FORBIDDEN, "bind_not_allowed",
                    "%.100s belongs to root on the host: mount it readOnly, or give it another "
                    "owner and group",
                    path);
}

static int open_bind(const struct mount_spec *m, struct box_mount *ret, struct err *err)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    auto_close int fd = (int)syscall(SYS_openat2, AT_FDCWD, m->source, &how, sizeof(how));
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_code(err, ERR_INVALID, "bad_bind", "%.100s cannot be mounted: %s", m->source,
                        errno == ELOOP ? "a part of it is a link" : strerror(errno));
    if (check_owner(m->source, &st, m->read_only, err) < 0)
        return -1;
    ret->owned = true;
    ret->size_mb = DISK_MB_MAX; /* its end is the host's */
    ret->uid = st.st_uid;
    ret->gid = st.st_gid;
    ret->fd = open_tree(fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    return ret->fd < 0 ? err_sys(err, errno, "clone the mount of %s", m->source) : 0;
}

int mount_open(struct engine *e, const struct mount_spec *m, struct box_mount *ret, struct err *err)
{
    *ret = (struct box_mount){.fd = -1,
                              .path = m->path,
                              .sub = m->sub,
                              .read_only = m->read_only,
                              .noexec = m->noexec,
                              .size_mb = m->size_mb};
    if (m->type == MOUNT_VOLUME)
        return open_volume(e, m, ret, err);
    return m->type == MOUNT_BIND ? open_bind(m, ret, err) : 0;
}

int mounts_open(struct engine *e, struct sandbox *sb, struct open_mounts *ret, struct err *err)
{
    struct mount_spec m;

    ret->n = 0;
    pthread_mutex_lock(&sb->lock);
    ret->mounts = json_incref(sb->spec.mounts);
    pthread_mutex_unlock(&sb->lock);
    for (size_t i = 0; i < json_array_size(ret->mounts) && i < MOUNTS_MAX; i++) {
        if (mount_spec_load(json_array_get(ret->mounts, i), &m, err) < 0)
            return -1;
        if (m.type == MOUNT_BIND) {
            auto_free char *again = NULL;

            /* The operator may have changed his mind since it was made. */
            if (check_bind(e, m.source, NULL, &again, err) < 0)
                return -1;
        }
        if (mount_open(e, &m, &ret->list[i], err) < 0)
            return err_wrap(err, "mount %.80s", m.path);
        ret->n++;
    }
    return 0;
}

void mounts_close(struct open_mounts *m)
{
    while (m->n > 0)
        close_fd(&m->list[--m->n].fd);
    json_decref(m->mounts);
    m->mounts = NULL;
}
