#include "engine/files.h"

#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/mode.h"
#include "base/str.h"
#include "engine/agent_client_internal.h"
#include "engine/engine_internal.h"
#include "engine/files_internal.h"
#include "engine/json_text_internal.h"
#include "engine/path_internal.h"
#include "engine/quiet_internal.h"
#include "engine/sandbox_internal.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"

#define SEARCH_MAX 10000

int file_target(struct engine *e, const char *id, struct file_path path, struct sandbox **ret_sb,
                char **ret_path, struct err *err)
{
    auto_files struct sandbox *sb = NULL;

    if (files_begin(e, id, &sb, err) < 0 ||
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

void file_permissions(uint32_t mode, char ret[11])
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
    if (wire_ok(&w) && ret->size <= INT64_MAX)
        return 0;
    call_file_done(ret);
    return agent_broken(err, "a file in a form that cannot be read");
}

struct listing {
    engine_item each;
    void *arg;
    const char *dir;
    bool base64;
};

static json_t *base64_of(const char *bytes)
{
    size_t len = strlen(bytes);
    auto_buf struct buf text = {0};

    buf_init(&text, 2 * len + 8);
    (void)base64_encode(&text, bytes, len);
    return json_stringn(text.data ? text.data : "", text.len);
}

static json_t *path_text(const struct listing *l, const char *bytes)
{
    return l->base64 ? base64_of(bytes) : json_cstr(bytes);
}

/* A path that is no text always comes in the one form that leads back to it, whatever was asked. */
static void set_path(const struct listing *l, json_t *o, const char *path)
{
    (void)json_object_set_new(o, "path", path_text(l, path));
    if (!utf8_valid(path, strlen(path)))
        (void)json_object_set_new(o, "pathBase64", base64_of(path));
}

/* What chmod takes, and where a link leads. */
static void set_kind(const struct listing *l, json_t *o, const struct call_file *f)
{
    char mode[8];

    (void)snprintf(mode, sizeof(mode), "%04o", f->mode & 07777);
    (void)json_object_set_new(o, "isSymlink", json_boolean(f->kind == FILE_LINK));
    (void)json_object_set_new(o, "mode", json_cstr(mode));
    if (f->kind == FILE_LINK)
        (void)json_object_set_new(o, "target", path_text(l, f->target));
}

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
    (void)json_object_set_new(o, "name", path_text(l, f.path));
    set_path(l, o, path);
    (void)json_object_set_new(o, "size", json_integer((json_int_t)f.size));
    (void)json_object_set_new(o, "isDirectory", json_boolean(f.kind == FILE_DIR));
    set_kind(l, o, &f);
    (void)json_object_set_new(o, "modifiedAt", json_integer(f.mtime_ms));
    call_file_done(&f);
    return l->each(o, l->arg, err);
}

static int add_meta(const struct buf *payload, void *arg, struct err *err)
{
    struct listing *l = arg;
    char perms[11];
    struct call_file f;
    json_t *o;

    if (read_file(payload, &f, err) < 0)
        return -1;
    file_permissions(f.mode, perms);
    o = json_object();
    set_path(l, o, f.path);
    (void)json_object_set_new(o, "size", json_integer((json_int_t)f.size));
    (void)json_object_set_new(o, "permissions", json_cstr(perms));
    (void)json_object_set_new(o, "owner", json_cstr(f.owner));
    (void)json_object_set_new(o, "group", json_cstr(f.group));
    (void)json_object_set_new(o, "isDirectory", json_boolean(f.kind == FILE_DIR));
    set_kind(l, o, &f);
    (void)json_object_set_new(o, "modifiedAt", json_integer(f.mtime_ms));
    call_file_done(&f);
    return l->each(o, l->arg, err);
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
    return l->each(path_text(l, path), l->arg, err);
}

/* A directory that is not there has nothing in it, says the contract. */
static int missing_is_empty(struct sandbox *sb, const struct err *why, struct err *err)
{
    if (why->kind == ERR_NOT_FOUND && sandbox_check_box(sb, NULL) == 0)
        return 0;
    if (err)
        *err = *why;
    return -1;
}

int engine_file_list(struct engine *e, const char *id, struct file_path path, engine_item each,
                     void *arg, struct err *err)
{
    auto_files struct sandbox *sb = NULL;
    struct listing l = {.each = each, .arg = arg, .base64 = path.base64};
    auto_free char *dir = NULL;
    auto_buf struct buf args = {0};
    struct err why = {0};

    if (!path.path)
        path.path = e->config.workspace;
    if (file_target(e, id, path, &sb, &dir, err) < 0)
        return -1;
    put_path(&args, dir);
    l.dir = dir;
    if (agent_items(e, sb, CALL_LIST, &args, add_info, &l, &why) < 0)
        return missing_is_empty(sb, &why, err);
    return 0;
}

int engine_file_search(struct engine *e, const char *id, struct file_path dir, const char *pattern,
                       engine_item each, void *arg, struct err *err)
{
    auto_files struct sandbox *sb = NULL;
    struct listing l = {.each = each, .arg = arg, .base64 = dir.base64};
    auto_free char *root = NULL;
    auto_buf struct buf args = {0};
    struct err why = {0};

    if (!glob_valid(pattern))
        return err_set(err, ERR_INVALID,
                       "pattern must be a glob on the file's name of at most %d bytes, without "
                       "; | $ ` and backslash",
                       GLOB_BYTES_MAX);
    if (!dir.path)
        dir.path = e->config.workspace;
    if (file_target(e, id, dir, &sb, &root, err) < 0)
        return -1;
    put_path(&args, root);
    wire_put_str(&args, pattern);
    wire_put_u32(&args, SEARCH_MAX);
    if (agent_items(e, sb, CALL_SEARCH, &args, add_path, &l, &why) < 0)
        return missing_is_empty(sb, &why, err);
    return 0;
}

static int append(json_t *item, void *array, struct err *err)
{
    (void)err;
    (void)json_array_append_new(array, item);
    return 0;
}

int engine_file_info(struct engine *e, const char *id, const json_t *paths, bool anywhere,
                     bool base64, json_t **ret, struct err *err)
{
    auto_files struct sandbox *sb = NULL;
    auto_strv char **list = NULL;
    auto_buf struct buf args = {0};
    struct listing l = {.each = append, .base64 = base64};
    size_t i;
    json_t *item;
    int r;

    if (files_begin(e, id, &sb, err) < 0)
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
    l.arg = json_array();
    r = agent_items(e, sb, CALL_STAT, &args, add_meta, &l, err);
    if (r == 0 && json_array_size(l.arg) != json_array_size(paths))
        r = agent_broken(err, "a list of the wrong length");
    if (r == 0)
        *ret = l.arg;
    else
        json_decref(l.arg);
    return r;
}

/* ---- changes ---- */

int engine_file_move(struct engine *e, const char *id, struct file_path from, struct file_path to,
                     struct err *err)
{
    auto_files struct sandbox *sb = NULL;
    auto_free char *source = NULL, *dest = NULL;
    auto_buf struct buf args = {0};

    if (file_target(e, id, from, &sb, &source, err) < 0 ||
        path_resolve(e->config.workspace, to.path, to.anywhere, &dest, err) < 0)
        return -1;
    /* A slash at the end says that a directory is meant, which the agent holds a file to. */
    if (to.path[strlen(to.path) - 1] == '/' && strcmp(dest, "/") != 0) {
        char *plain = dest;

        dest = xasprintf("%s/", plain);
        free(plain);
    }
    buf_init(&args, FRAME_MAX);
    wire_put_str(&args, source);
    wire_put_str(&args, dest);
    wire_put_str(&args, "");
    return agent_simple(e, sb, CALL_MOVE, &args, err);
}

int file_call_failed(const struct err *why, struct err *err)
{
    if (why->kind == ERR_INVALID && strstr(why->text, "does not serve call"))
        return err_code(err, ERR_UNSUPPORTED, "agent_too_old",
                        "the sandbox was started by an older cay, which cannot do that; stop and "
                        "start it");
    if (err)
        *err = *why;
    return -1;
}

/* As a patch of a create does it (CALL_PATCH), in a box that runs. */
static int put_patch(struct engine *e, struct sandbox *sb, enum call_patch kind, const char *path,
                     const char *other, bool replace, struct err *err)
{
    auto_buf struct buf args = {0};
    struct err why = {0};

    buf_init(&args, FRAME_MAX);
    wire_put_u32(&args, kind);
    wire_put_str(&args, path);
    wire_put_str(&args, other);
    wire_put_u32(&args, CALL_MODE_KEEP);
    wire_put_u32(&args, replace);
    return agent_simple(e, sb, CALL_PATCH, &args, &why) < 0 ? file_call_failed(&why, err) : 0;
}

int engine_file_copy(struct engine *e, const char *id, struct file_path from, struct file_path to,
                     bool replace, struct err *err)
{
    auto_files struct sandbox *sb = NULL;
    auto_free char *source = NULL, *dest = NULL;

    if (file_target(e, id, from, &sb, &source, err) < 0 ||
        path_resolve(e->config.workspace, to.path, to.anywhere, &dest, err) < 0)
        return -1;
    return put_patch(e, sb, PATCH_COPY, dest, source, replace, err);
}

int engine_file_symlink(struct engine *e, const char *id, const char *target, struct file_path path,
                        bool replace, struct err *err)
{
    auto_files struct sandbox *sb = NULL;
    auto_free char *place = NULL;

    if (file_target(e, id, path, &sb, &place, err) < 0)
        return -1;
    return put_patch(e, sb, PATCH_LINK, place, target, replace, err);
}

int engine_file_mkdir(struct engine *e, const char *id, struct file_path path, struct err *err)
{
    auto_files struct sandbox *sb = NULL;
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
    auto_files struct sandbox *sb = NULL;
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

int engine_file_chmod(struct engine *e, const char *id, struct file_path path, const char *mode,
                      struct err *err)
{
    auto_files struct sandbox *sb = NULL;
    auto_free char *what = NULL;
    auto_buf struct buf args = {0};

    if (mode_parse(mode, 0, false, &(uint32_t){0}) < 0)
        return err_set(err, ERR_INVALID,
                       "mode must be 3 or 4 octal digits, such as 644, or one "
                       "clause, such as u+x");
    if (file_target(e, id, path, &sb, &what, err) < 0)
        return -1;
    put_path(&args, what);
    wire_put_str(&args, mode);
    return agent_simple(e, sb, CALL_CHMOD, &args, err);
}
