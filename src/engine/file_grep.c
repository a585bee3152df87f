#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
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

#define EDITS_BYTES_MAX (24u << 20) /* more than an agent says that does as it should */

struct finding {
    engine_item each;
    void *arg;
    size_t bytes, bytes_max;
    uint32_t left;  /* lines that may still come */
    bool truncated; /* the agent said that there are more */
    bool full;      /* bytes_max: the rest is not wanted */
};

static uint32_t text_flags(const struct file_text *t)
{
    return (t->recursive ? TEXT_RECURSIVE : 0) | (t->ignore_case ? TEXT_IGNORE_CASE : 0);
}

static int check_globs(const struct file_text *t, struct err *err)
{
    if (strv_len(t->include) > CALL_GLOBS_MAX || strv_len(t->exclude) > CALL_GLOBS_MAX)
        return err_code(err, ERR_INVALID, "bad_fs_request", "there can be %d globs of each kind",
                        CALL_GLOBS_MAX);
    return 0;
}

static json_t *match_json(const struct call_match *m)
{
    json_t *o = json_object();

    (void)json_object_set_new(o, "path", json_cstr(m->path));
    (void)json_object_set_new(o, "line", json_integer((json_int_t)m->line));
    (void)json_object_set_new(o, "content", json_of_bytes(m->text, m->len));
    return o;
}

static int add_match(const struct buf *payload, void *arg, struct err *err)
{
    struct finding *f = arg;
    struct call_match m;
    struct wire w;
    json_t *item = NULL;
    bool ok;

    wire_init(&w, payload->data, payload->len);
    call_match_get(&w, &m);
    ok = wire_ok(&w) && m.kind <= MATCH_MORE && m.line <= INT64_MAX;
    if (ok && m.kind == MATCH_LINE && f->left-- == 0)
        ok = false;
    if (ok && m.kind == MATCH_LINE) {
        item = match_json(&m);
        f->bytes += json_dumpb(item, NULL, 0, JSON_COMPACT) + 1;
    }
    f->truncated |= m.kind == MATCH_MORE;
    f->full = f->bytes > f->bytes_max;
    call_match_done(&m);
    if (ok && !f->full)
        return f->each(item, f->arg, err);
    json_decref(item);
    return f->full ? -1 : agent_broken(err, "lines that cannot be taken");
}

int engine_file_grep(struct engine *e, const char *id, const struct file_grep *req,
                     engine_item each, void *arg, bool *ret_truncated, struct err *err)
{
    const struct file_text *t = &req->text;
    struct finding f = {
        .each = each, .arg = arg, .bytes_max = req->bytes_max, .left = req->matches_max};
    auto_files struct sandbox *sb = NULL;
    auto_free char *root = NULL;
    auto_buf struct buf args = {0};
    struct err why = {0};

    if (check_globs(t, err) < 0 || file_target(e, id, t->path, &sb, &root, err) < 0)
        return -1;
    buf_init(&args, FRAME_MAX);
    wire_put_str(&args, root);
    wire_put_str(&args, "");
    wire_put_str(&args, t->pattern);
    wire_put_u32(&args, text_flags(t));
    wire_put_list(&args, t->include);
    wire_put_list(&args, t->exclude);
    wire_put_u32(&args, req->matches_max);
    wire_put_u32(&args, req->line_max);
    if (agent_items(e, sb, CALL_GREP, &args, add_match, &f, &why) < 0 && !f.full)
        return file_call_failed(&why, err);
    *ret_truncated = f.truncated || f.full;
    return 0;
}

static int add_edit(const struct buf *payload, void *arg, struct err *err)
{
    struct finding *f = arg;
    struct call_edit edit;
    struct wire w;
    json_t *item = NULL;
    bool ok;

    wire_init(&w, payload->data, payload->len);
    call_edit_get(&w, &edit);
    f->bytes += payload->len;
    ok = wire_ok(&w) && edit.replacements <= INT64_MAX && f->bytes <= EDITS_BYTES_MAX;
    if (ok && !edit.alive) {
        bool success = !edit.error[0];

        item = json_object();
        (void)json_object_set_new(item, "path", json_cstr(edit.path));
        (void)json_object_set_new(item, "replacements",
                                  json_integer((json_int_t)edit.replacements));
        (void)json_object_set_new(item, "success", json_boolean(success));
        if (!success)
            (void)json_object_set_new(item, "error", json_cstr(edit.error));
    }
    call_edit_done(&edit);
    return ok ? f->each(item, f->arg, err)
              : agent_broken(err, "files in a form that cannot be taken");
}

/* The sandbox, and its path or its files in their normal form. */
static int sed_target(struct engine *e, const char *id, const struct file_text *t,
                      struct sandbox **ret_sb, char **ret_root, char ***ret_files, struct err *err)
{
    if (strv_len(t->files) > CALL_PATHS_MAX)
        return err_set(err, ERR_TOO_LARGE, "files must have at most %d items", CALL_PATHS_MAX);
    if (t->path.path)
        return file_target(e, id, t->path, ret_sb, ret_root, err);
    for (char **file = t->files; file && *file; file++) {
        auto_free char *path = NULL;

        if (path_resolve(e->config.workspace, *file, t->path.anywhere, &path, err) < 0)
            return -1;
        *ret_files = strv_add(*ret_files, path);
    }
    return files_begin(e, id, ret_sb, err);
}

int engine_file_sed(struct engine *e, const char *id, const struct file_sed *req, engine_item each,
                    void *arg, struct err *err)
{
    const struct file_text *t = &req->text;
    struct finding f = {.each = each, .arg = arg};
    auto_files struct sandbox *sb = NULL;
    auto_free char *root = NULL;
    auto_strv char **files = NULL;
    auto_buf struct buf args = {0};
    struct err why = {0};

    if ((t->path.path != NULL) == (strv_len(t->files) > 0))
        return err_code(err, ERR_INVALID, "bad_fs_request", "say either files or path");
    if (check_globs(t, err) < 0 || sed_target(e, id, t, &sb, &root, &files, err) < 0)
        return -1;
    buf_init(&args, FRAME_MAX);
    wire_put_str(&args, root);
    wire_put_str(&args, "");
    wire_put_list(&args, files);
    wire_put_str(&args, t->pattern);
    wire_put_str(&args, req->replacement);
    wire_put_u32(&args, text_flags(t) | (req->literal ? TEXT_LITERAL : 0) |
                            (req->first_only ? TEXT_FIRST_ONLY : 0));
    wire_put_list(&args, t->include);
    wire_put_list(&args, t->exclude);
    return agent_items(e, sb, CALL_SED, &args, add_edit, &f, &why) < 0 ? file_call_failed(&why, err)
                                                                       : 0;
}
