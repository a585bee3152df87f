#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/agent_client_internal.h"
#include "engine/engine_internal.h"
#include "engine/files.h"
#include "engine/files_internal.h"
#include "engine/path_internal.h"
#include "engine/quiet_internal.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"

/* Changes that are exactly what was asked for: CALL_ALTER, by one function for all of its kinds. */

_Static_assert(FILE_OWNER_KEEP == CALL_MODE_KEEP, "the agent is told as the engine is");

struct alter {
    enum call_alter kind;
    struct file_path path, other; /* other: of a move */
    uint32_t mode, uid, gid, flags;
};

static int ask(struct engine *e, struct sandbox *sb, const struct buf *args, struct buf *answer,
               struct err *err)
{
    auto_close int fd = -1;
    struct err why = {0};

    if (agent_call(e, sb, BOX_CTL, CALL_ALTER, args, &fd, err) < 0)
        return -1;
    return agent_expect(sb, fd, FRAME_OK, answer, &why) < 0 ? file_call_failed(&why, err) : 0;
}

static int alter(struct engine *e, const char *id, const struct alter *a, uint32_t *ret_changed,
                 struct err *err)
{
    auto_files struct sandbox *sb = NULL;
    auto_free char *path = NULL, *other = NULL;
    auto_buf struct buf args = {0}, answer = {0};
    struct wire w;
    uint32_t changed;

    if (file_target(e, id, a->path, &sb, &path, err) < 0)
        return -1;
    if (a->other.path &&
        path_resolve(e->config.workspace, a->other.path, a->other.anywhere, &other, err) < 0)
        return -1;
    buf_init(&args, FRAME_MAX);
    wire_put_u32(&args, a->kind);
    wire_put_str(&args, path);
    wire_put_str(&args, other ? other : "");
    wire_put_u32(&args, a->mode);
    wire_put_u32(&args, a->uid);
    wire_put_u32(&args, a->gid);
    wire_put_u32(&args, a->flags);
    if (ask(e, sb, &args, &answer, err) < 0)
        return -1;
    wire_init(&w, answer.data, answer.len);
    changed = wire_get_u32(&w);
    if (!wire_ok(&w))
        return agent_broken(err, "an answer in a form that cannot be read");
    *ret_changed = changed;
    return 0;
}

int engine_file_make_dir(struct engine *e, const char *id, struct file_path path, uint32_t mode,
                         bool parents, bool *ret_made, struct err *err)
{
    struct alter a = {.kind = ALTER_MKDIR,
                      .path = path,
                      .mode = mode,
                      .uid = FILE_OWNER_KEEP,
                      .gid = FILE_OWNER_KEEP,
                      .flags = parents ? ALTER_PARENTS : 0};
    uint32_t n;

    if (alter(e, id, &a, &n, err) < 0)
        return -1;
    *ret_made = n > 0;
    return 0;
}

int engine_file_remove(struct engine *e, const char *id, struct file_path path, bool recursive,
                       struct err *err)
{
    struct alter a = {.kind = ALTER_REMOVE,
                      .path = path,
                      .mode = FILE_MODE_KEEP,
                      .uid = FILE_OWNER_KEEP,
                      .gid = FILE_OWNER_KEEP,
                      .flags = recursive ? ALTER_RECURSIVE : 0};

    return alter(e, id, &a, &(uint32_t){0}, err);
}

int engine_file_mark(struct engine *e, const char *id, struct file_path path,
                     const struct file_marks *marks, uint32_t *ret_changed, struct err *err)
{
    struct alter a = {.kind = ALTER_MARKS,
                      .path = path,
                      .mode = marks->mode,
                      .uid = marks->uid,
                      .gid = marks->gid,
                      .flags = marks->recursive ? ALTER_RECURSIVE : 0};

    return alter(e, id, &a, ret_changed, err);
}

int engine_file_rename(struct engine *e, const char *id, struct file_path from, struct file_path to,
                       bool replace, struct err *err)
{
    struct alter a = {.kind = ALTER_MOVE,
                      .path = from,
                      .other = to,
                      .mode = FILE_MODE_KEEP,
                      .uid = FILE_OWNER_KEEP,
                      .gid = FILE_OWNER_KEEP,
                      .flags = replace ? ALTER_REPLACE : 0};

    return alter(e, id, &a, &(uint32_t){0}, err);
}
