#include "engine/file_watch.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/agent_client_internal.h"
#include "engine/engine_internal.h"
#include "engine/json_text_internal.h"
#include "engine/path_internal.h"
#include "engine/sandbox_internal.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"

struct file_watch {
    struct sandbox *sandbox;
    struct agent_reader frames;
    bool base64; /* how paths are told */
};

static uint32_t kinds_of(unsigned changes)
{
    return (changes & FILE_CREATED ? 1u << CHANGE_CREATE : 0) |
           (changes & FILE_WRITTEN ? 1u << CHANGE_WRITE : 0) |
           (changes & FILE_REMOVED ? 1u << CHANGE_REMOVE : 0) |
           (changes & FILE_RENAMED ? 1u << CHANGE_RENAME : 0) |
           (changes & FILE_CHMODED ? 1u << CHANGE_CHMOD : 0);
}

static int begin(struct engine *e, struct sandbox *sb, const char *path,
                 const struct file_watch_request *req, int *ret_fd, struct err *err)
{
    auto_buf struct buf args = {0}, ok = {0};
    auto_close int fd = -1;

    buf_init(&args, FRAME_MAX);
    buf_init(&ok, FRAME_MAX);
    wire_put_str(&args, path);
    wire_put_str(&args, "");
    wire_put_u32(&args, req->recursive);
    wire_put_u32(&args, kinds_of(req->changes));
    wire_put_list(&args, req->ignore);
    if (agent_call(e, sb, BOX_CTL, CALL_WATCH, &args, &fd, err) < 0 ||
        agent_expect(sb, fd, FRAME_OK, &ok, err) < 0)
        return -1;
    *ret_fd = steal_fd(fd);
    return 0;
}

/* What an agent says that does not know the call; of a path it says more. */
static bool is_too_old(const struct err *why)
{
    return why->kind == ERR_INVALID && !why->code && !why->sys;
}

int engine_file_watch(struct engine *e, const char *id, const struct file_watch_request *req,
                      struct file_watch **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_free char *path = NULL;
    struct err why = {0};
    struct file_watch *w;
    int fd;

    if (path_resolve(e->config.workspace, req->path.path, req->path.anywhere, &path, err) < 0 ||
        sandbox_get_running(e, id, &sb, err) < 0)
        return -1;
    if (begin(e, sb, path, req, &fd, &why) < 0) {
        if (is_too_old(&why))
            (void)err_code(
                &why, ERR_UNSUPPORTED, "agent_too_old",
                "the sandbox was started by an older cay, which cannot watch files; stop "
                "it and start it again");
        if (err)
            *err = why;
        return -1;
    }
    w = xcalloc(1, sizeof(*w));
    w->sandbox = steal_ptr(sb);
    w->base64 = req->path.base64;
    agent_reader_init(&w->frames, w->sandbox, fd);
    *ret = w;
    return 0;
}

void file_watch_close(struct file_watch *w)
{
    if (!w)
        return;
    close_fd(&w->frames.fd);
    buf_done(&w->frames.in);
    sandbox_unref(w->sandbox);
    free(w);
}

int file_watch_fd(const struct file_watch *w)
{
    return w->frames.fd;
}

/* ---- one change ---- */

static json_t *base64_of(const char *bytes)
{
    auto_buf struct buf text = {0};

    buf_init(&text, 2 * strlen(bytes) + 8);
    (void)base64_encode(&text, bytes, strlen(bytes));
    return json_stringn(text.data ? text.data : "", text.len);
}

static void set_path(const struct file_watch *w, json_t *o, const char *key, const char *key_base64,
                     const char *path)
{
    if (!*path)
        return;
    (void)json_object_set_new(o, key, w->base64 ? base64_of(path) : json_cstr(path));
    if (!utf8_valid(path, strlen(path)))
        (void)json_object_set_new(o, key_base64, base64_of(path));
}

static void set_count(json_t *o, const char *key, uint64_t n)
{
    if (n > 0)
        (void)json_object_set_new(o, key, json_integer((json_int_t)n));
}

static json_t *change_json(const struct file_watch *w, const struct call_change *c)
{
    static const char *const words[] = {
        [CHANGE_READY] = "ready",       [CHANGE_CREATE] = "create",     [CHANGE_WRITE] = "write",
        [CHANGE_REMOVE] = "remove",     [CHANGE_RENAME] = "rename",     [CHANGE_CHMOD] = "chmod",
        [CHANGE_OVERFLOW] = "overflow", [CHANGE_UNWATCHED] = "overflow"};
    bool is_file = c->kind >= CHANGE_CREATE && c->kind <= CHANGE_CHMOD;
    json_t *o = json_pack("{s:s, s:I}", "type", words[c->kind], "timestamp",
                          (json_int_t)(c->time_ms & INT64_MAX));

    set_path(w, o, "path", "pathBase64", c->path);
    set_path(w, o, "from", "fromBase64", c->from);
    if (is_file)
        (void)json_object_set_new(o, "isDirectory", json_boolean(c->is_dir));
    set_count(o, c->kind == CHANGE_OVERFLOW ? "lost" : "directories", is_file ? 0 : c->lost);
    return o;
}

static int take_change(struct file_watch *w, const struct frame *f, json_t **ret, struct err *err)
{
    struct call_change c;
    struct wire in;
    bool ok;

    wire_init(&in, f->data, f->len);
    call_change_get(&in, &c);
    ok = f->type == FRAME_ITEM && wire_ok(&in) && c.kind <= CHANGE_UNWATCHED && c.lost <= INT64_MAX;
    if (ok)
        *ret = change_json(w, &c);
    call_change_done(&c);
    return ok ? FILE_WATCH_CHANGE : agent_broken(err, "a change of a file that cannot be read");
}

int file_watch_next(struct file_watch *w, json_t **ret, struct err *err)
{
    struct frame f;
    int n = agent_take(&w->frames, &f, err);

    if (n == 0 && agent_fill(&w->frames, err) < 0)
        return -1;
    if (n == 0)
        n = agent_take(&w->frames, &f, err);
    if (n < 0)
        return -1;
    if (n == 0) {
        agent_rest(&w->frames);
        return FILE_WATCH_WAITS;
    }
    return f.type == FRAME_END ? FILE_WATCH_ENDED : take_change(w, &f, ret, err);
}
