#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine_internal.h"
#include "model/limits.h"
#include "proto/frame.h"
#include "proto/wire.h"

#define SEARCH_MAX 10000

int file_target(struct engine *e, const char *id, struct file_path path, struct sandbox **ret_sb,
                char **ret_path, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;

    if (sandbox_get_running(e, id, &sb, err) < 0 ||
        path_resolve(e->config.workspace, path.path, path.anywhere, ret_path, err) < 0)
        return -1;
    *ret_sb = steal_ptr(sb);
    return 0;
}

/* The start of most calls: the path, and files are root's, as the contract has them. */
static void put_path(struct buf *args, const char *path)
{
    buf_init(args, FRAME_MAX);
    wire_put_str(args, path);
    wire_put_str(args, "");
}

/* ---- lists ---- */

static void permissions(uint32_t mode, char ret[11])
{
    static const char bits[] = "rwxrwxrwx";

    ret[0] = S_ISDIR(mode)    ? 'd'
             : S_ISLNK(mode)  ? 'l'
             : S_ISREG(mode)  ? '-'
             : S_ISCHR(mode)  ? 'c'
             : S_ISBLK(mode)  ? 'b'
             : S_ISFIFO(mode) ? 'p'
             : S_ISSOCK(mode) ? 's'
                              : '?';
    for (int i = 0; i < 9; i++)
        ret[1 + i] = mode & (0400u >> i) ? bits[i] : '-';
    if (mode & S_ISUID)
        ret[3] = mode & S_IXUSR ? 's' : 'S';
    if (mode & S_ISGID)
        ret[6] = mode & S_IXGRP ? 's' : 'S';
    if (mode & S_ISVTX)
        ret[9] = mode & S_IXOTH ? 't' : 'T';
    ret[10] = '\0';
}

static int read_file(const struct buf *payload, struct call_file *ret, struct err *err)
{
    struct wire w;

    wire_init(&w, payload->data, payload->len);
    call_file_get(&w, ret);
    if (wire_ok(&w) && ret->size <= INT64_MAX && ret->mtime_ms <= INT64_MAX)
        return 0;
    call_file_done(ret);
    return agent_broken(err, "a file in a form that cannot be read");
}

struct listing {
    json_t *items;
    const char *dir;
};

static int add_info(const struct buf *payload, void *arg, struct err *err)
{
    struct listing *l = arg;
    auto_free char *path = NULL;
    struct call_file f;
    json_t *o;

    if (read_file(payload, &f, err) < 0)
        return -1;
    path = xasprintf("%s/%s", strcmp(l->dir, "/") == 0 ? "" : l->dir, f.path);
    o = json_object();
    (void)json_object_set_new(o, "name", json_cstr(f.path));
    (void)json_object_set_new(o, "path", json_cstr(path));
    (void)json_object_set_new(o, "size", json_integer((json_int_t)f.size));
    (void)json_object_set_new(o, "isDirectory", json_boolean(f.kind == FILE_DIR));
    (void)json_object_set_new(o, "modifiedAt", json_integer((json_int_t)f.mtime_ms));
    (void)json_array_append_new(l->items, o);
    call_file_done(&f);
    return 0;
}

static int add_meta(const struct buf *payload, void *arg, struct err *err)
{
    struct listing *l = arg;
    char perms[11];
    struct call_file f;
    json_t *o;

    if (read_file(payload, &f, err) < 0)
        return -1;
    permissions(f.mode, perms);
    o = json_object();
    (void)json_object_set_new(o, "path", json_cstr(f.path));
    (void)json_object_set_new(o, "size", json_integer((json_int_t)f.size));
    (void)json_object_set_new(o, "permissions", json_cstr(perms));
    (void)json_object_set_new(o, "owner", json_cstr(f.owner));
    (void)json_object_set_new(o, "group", json_cstr(f.group));
    (void)json_object_set_new(o, "isDirectory", json_boolean(f.kind == FILE_DIR));
    (void)json_object_set_new(o, "isSymlink", json_boolean(f.kind == FILE_LINK));
    (void)json_object_set_new(o, "modifiedAt", json_integer((json_int_t)f.mtime_ms));
    (void)json_array_append_new(l->items, o);
    call_file_done(&f);
    return 0;
}

static int add_path(const struct buf *payload, void *arg, struct err *err)
{
    struct listing *l = arg;
    auto_free char *path = NULL;
    struct wire w;

    wire_init(&w, payload->data, payload->len);
    path = wire_get_str(&w);
    if (!wire_ok(&w))
        return agent_broken(err, "a path in a form that cannot be read");
    (void)json_array_append_new(l->items, json_cstr(path));
    return 0;
}

/* missing_is_empty: a directory that is not there has nothing in it, says the contract. */
static int make_list(struct engine *e, struct sandbox *sb, enum call_op op, const struct buf *args,
                     int (*each)(const struct buf *payload, void *arg, struct err *err),
                     const char *dir, bool missing_is_empty, json_t **ret, struct err *err)
{
    struct listing l = {.items = json_array(), .dir = dir};
    struct err why = {0};

    if (agent_items(e, sb, op, args, each, &l, &why) < 0 &&
        !(missing_is_empty && why.kind == ERR_NOT_FOUND && sandbox_check_running(sb, NULL) == 0)) {
        json_decref(l.items);
        if (err)
            *err = why;
        return -1;
    }
    *ret = l.items;
    return 0;
}

int engine_file_list(struct engine *e, const char *id, struct file_path path, json_t **ret,
                     struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_free char *dir = NULL;
    auto_buf struct buf args = {0};

    if (!path.path)
        path.path = e->config.workspace;
    if (file_target(e, id, path, &sb, &dir, err) < 0)
        return -1;
    put_path(&args, dir);
    return make_list(e, sb, CALL_LIST, &args, add_info, dir, true, ret, err);
}

static int check_pattern(const char *pattern, struct err *err)
{
    size_t n = pattern ? strlen(pattern) : 0;

    if (n == 0)
        return err_set(err, ERR_INVALID, "pattern is required");
    if (n > GLOB_BYTES_MAX || strpbrk(pattern, ";|$`\\"))
        return err_set(err, ERR_INVALID,
                       "pattern must be a glob on the file's name of at most %d bytes, without ; | "
                       "$ ` and backslash",
                       GLOB_BYTES_MAX);
    return 0;
}

int engine_file_search(struct engine *e, const char *id, struct file_path dir, const char *pattern,
                       json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_free char *root = NULL;
    auto_buf struct buf args = {0};

    if (!dir.path)
        dir.path = e->config.workspace;
    if (file_target(e, id, dir, &sb, &root, err) < 0 || check_pattern(pattern, err) < 0)
        return -1;
    put_path(&args, root);
    wire_put_str(&args, pattern);
    wire_put_u32(&args, SEARCH_MAX);
    return make_list(e, sb, CALL_SEARCH, &args, add_path, root, true, ret, err);
}

int engine_file_info(struct engine *e, const char *id, const json_t *paths, bool anywhere,
                     json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_strv char **list = NULL;
    auto_buf struct buf args = {0};
    size_t i;
    json_t *item;

    if (sandbox_get_running(e, id, &sb, err) < 0)
        return -1;
    if (json_array_size(paths) == 0)
        return err_set(err, ERR_INVALID, "paths is required: an array of at least one path");
    if (json_array_size(paths) > CALL_PATHS_MAX)
        return err_set(err, ERR_TOO_LARGE, "paths must have at most %d items", CALL_PATHS_MAX);
    json_array_foreach(paths, i, item)
    {
        auto_free char *path = NULL;

        if (path_resolve(e->config.workspace, json_string_value(item), anywhere, &path, err) < 0)
            return -1;
        list = strv_add(list, path);
    }
    buf_init(&args, FRAME_MAX);
    wire_put_str(&args, "");
    wire_put_list(&args, list);
    if (make_list(e, sb, CALL_STAT, &args, add_meta, "", false, ret, err) < 0)
        return -1;
    if (json_array_size(*ret) == json_array_size(paths))
        return 0;
    json_decref(*ret);
    *ret = NULL;
    return agent_broken(err, "a list of the wrong length");
}

/* ---- changes ---- */

int engine_file_move(struct engine *e, const char *id, struct file_path from, struct file_path to,
                     struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_free char *source = NULL, *dest = NULL;
    auto_buf struct buf args = {0};

    if (file_target(e, id, from, &sb, &source, err) < 0 ||
        path_resolve(e->config.workspace, to.path, to.anywhere, &dest, err) < 0)
        return -1;
    buf_init(&args, FRAME_MAX);
    wire_put_str(&args, source);
    wire_put_str(&args, dest);
    wire_put_str(&args, "");
    return agent_simple(e, sb, CALL_MOVE, &args, err);
}

int engine_file_mkdir(struct engine *e, const char *id, struct file_path path, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_free char *dir = NULL;
    auto_buf struct buf args = {0};

    if (file_target(e, id, path, &sb, &dir, err) < 0)
        return -1;
    put_path(&args, dir);
    wire_put_u32(&args, 0755);
    return agent_simple(e, sb, CALL_MKDIR, &args, err);
}

static int remove_path(struct engine *e, const char *id, struct file_path path, bool recursive,
                       struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_free char *what = NULL;
    auto_buf struct buf args = {0};

    if (file_target(e, id, path, &sb, &what, err) < 0)
        return -1;
    put_path(&args, what);
    wire_put_u32(&args, recursive);
    return agent_simple(e, sb, CALL_REMOVE, &args, err);
}

int engine_file_delete(struct engine *e, const char *id, struct file_path path, struct err *err)
{
    return remove_path(e, id, path, false, err);
}

int engine_file_rmdir(struct engine *e, const char *id, struct file_path path, struct err *err)
{
    return remove_path(e, id, path, true, err);
}

/* 3 or 4 octal digits, or one clause such as u+x. */
static bool mode_valid(const char *mode)
{
    size_t n = strspn(mode, "01234567");

    if (mode[n] == '\0')
        return n == 3 || n == 4;
    mode += strspn(mode, "ugoa");
    if (!*mode || !strchr("+-=", *mode))
        return false;
    mode++;
    return strlen(mode) <= 8 && mode[strspn(mode, "rwxXt")] == '\0';
}

int engine_file_chmod(struct engine *e, const char *id, struct file_path path, const char *mode,
                      struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_free char *what = NULL;
    auto_buf struct buf args = {0};

    if (file_target(e, id, path, &sb, &what, err) < 0)
        return -1;
    if (!mode || !mode_valid(mode))
        return err_set(err, ERR_INVALID,
                       "mode must be 3 or 4 octal digits, such as 644, or one "
                       "clause, such as u+x");
    put_path(&args, what);
    wire_put_str(&args, mode);
    return agent_simple(e, sb, CALL_CHMOD, &args, err);
}
