#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/agent_client_internal.h"
#include "engine/background_internal.h"
#include "engine/exec.h"
#include "engine/exec_internal.h"
#include "engine/json_text_internal.h"
#include "engine/sandbox_internal.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"

/* Execs that were started before, asked for by their ids. Nothing of them is in the database: the
 * agent of their sandbox knows them, as long as it lives, whatever became of the daemon. */

#define PART_MAX   (1u << 20)
#define FRAMES_MAX 65536 /* of one part */
#define LIST_MAX   1024  /* more than an agent keeps and runs together */

void exec_put_again(struct buf *args, const char *exec_id, uint64_t cursor, uint64_t most,
                    uint32_t flags)
{
    wire_put_str(args, exec_id);
    wire_put_u64(args, cursor);
    wire_put_u64(args, most);
    wire_put_u32(args, flags);
}

static bool is_exec_id(const char *exec_id)
{
    return id_valid(exec_id, "ex") || id_valid(exec_id, "bg");
}

int exec_check_id(const char *exec_id, struct err *err)
{
    if (is_exec_id(exec_id))
        return 0;
    return err_code(err, ERR_NOT_FOUND, "exec_not_found", "Exec not found: %.60s", exec_id);
}

void exec_explain_old(struct err *err, const char *exec_id)
{
    (void)err_code(err, ERR_NOT_FOUND, "exec_not_found",
                   "Exec not found: %s; the sandbox was made by an older cay, which kept none",
                   exec_id);
}

/* ---- as JSON ---- */

static json_t *info_json(const struct sandbox *sb, const struct call_kept *k)
{
    json_t *o = json_object();

    (void)json_object_set_new(o, "id", json_cstr(k->id));
    if (k->command[0])
        (void)json_object_set_new(
            o, "command", json_of_bytes(k->command, utf8_cut(k->command, strlen(k->command))));
    (void)json_object_set_new(o, "running", json_boolean(k->running));
    (void)json_object_set_new(o, "pid", json_integer(k->pid));
    (void)json_object_set_new(o, "tty", json_boolean(k->flags & EXEC_TTY));
    if (k->rows > 0 && k->rows <= UINT16_MAX && k->cols > 0 && k->cols <= UINT16_MAX)
        (void)json_object_update_new(
            o, json_pack("{s:I, s:I}", "rows", (json_int_t)k->rows, "cols", (json_int_t)k->cols));
    (void)json_object_set_new(o, "startedAt", json_integer((json_int_t)k->started_ms));
    if (k->running)
        return o;
    (void)json_object_set_new(o, "finishedAt", json_integer((json_int_t)k->finished_ms));
    exit_put(o, sb, &k->exit);
    (void)json_object_set_new(o, "duration", json_real((double)k->exit.duration_ns / 1e6));
    (void)json_object_set_new(o, "truncated",
                              json_boolean(k->exit.lost_stdout > 0 || k->exit.lost_stderr > 0));
    return o;
}

static int read_kept(const char *data, size_t len, struct call_kept *ret, struct err *err)
{
    struct wire w;

    wire_init(&w, data, len);
    call_state_get(&w, ret);
    if (!wire_ok(&w) || !exit_reason_of(&ret->exit) || ret->end > INT64_MAX ||
        ret->started_ms > INT64_MAX || ret->finished_ms > INT64_MAX)
        return agent_broken(err, "the state of a command in a form that cannot be read");
    return 0;
}

/* ---- one of them ---- */

struct part {
    struct sandbox *sandbox; /* once it was found */
    struct buf streams[2];
    uint64_t cursor, lost;
    size_t frames;
    bool last_is_error;
    struct call_kept state; /* at the end of it */
};

int exec_read_lost(const char *data, size_t len, uint64_t *cursor, uint64_t *ret, struct err *err)
{
    struct wire w;
    uint64_t lost;

    wire_init(&w, data, len);
    lost = wire_get_u64(&w);
    if (!wire_ok(&w) || *cursor > INT64_MAX || lost > INT64_MAX - *cursor)
        return agent_broken(err, "a count of lost bytes that cannot be");
    *cursor += lost;
    *ret = lost;
    return 0;
}

static int add_frame(struct part *p, unsigned type, const struct buf *payload, struct err *err)
{
    bool is_error = type == FRAME_STDERR;
    uint64_t lost;

    if (++p->frames > FRAMES_MAX)
        return agent_broken(err, "output in more pieces than there can be");
    if (type == FRAME_LOST) {
        if (exec_read_lost(payload->data, payload->len, &p->cursor, &lost, err) < 0)
            return -1;
        p->lost += lost;
        return 0;
    }
    if ((type != FRAME_STDOUT && !is_error) || payload->len == 0 ||
        p->streams[0].len + p->streams[1].len + payload->len > PART_MAX)
        return agent_broken(err, "output that was not asked for");
    (void)buf_add(&p->streams[is_error], payload->data, payload->len);
    p->cursor += payload->len;
    p->last_is_error = is_error;
    return 0;
}

/* A CALL_AGAIN from its first frame to its last. */
static int read_part(struct sandbox *sb, int fd, struct part *p, struct err *err)
{
    auto_buf struct buf payload = {0};
    unsigned type;

    if (agent_expect(sb, fd, FRAME_OK, &payload, err) < 0 ||
        read_kept(payload.data, payload.len, &p->state, err) < 0)
        return -1;
    if (p->cursor > p->state.end)
        p->cursor = p->state.end;
    for (;;) {
        if (agent_next(sb, fd, &type, &payload, err) < 0)
            return -1;
        if (type == FRAME_END)
            return read_kept(payload.data, payload.len, &p->state, err);
        if (add_frame(p, type, &payload, err) < 0)
            return -1;
    }
}

static int ask_once(struct sandbox *sb, const struct buf *args, struct part *p, struct err *err)
{
    auto_close int fd = -1;

    if (agent_call(sb->engine, sb, BOX_CTL, CALL_AGAIN, args, &fd, err) < 0)
        return -1;
    return read_part(sb, fd, p, err);
}

/* Of a paused sandbox only its background execs can be looked at; 1 = this is none of those. */
static int look_at_paused(struct engine *e, const char *id, const char *exec_id, uint64_t most,
                          struct part *p, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    struct err why = {0};
    struct call_log log;
    int r;

    if (!id_valid(exec_id, "bg") || sandbox_get(e, id, &sb, NULL) < 0)
        return 1;
    r = paused_log_read(e, sb, exec_id, p->cursor, most, &p->streams[0], &log, &why);
    if (r < 0 && why.code && strcmp(why.code, "log_not_found") == 0)
        return err_code(err, ERR_NOT_FOUND, "exec_not_found", "Exec not found: %s", exec_id);
    if (r < 0 && err)
        *err = why;
    if (r != 0)
        return r;
    p->sandbox = steal_ptr(sb);
    p->state = (struct call_kept){.running = log.running,
                                  .pid = log.pid,
                                  .flags = EXEC_BACKGROUND,
                                  .started_ms = log.started_ms,
                                  .finished_ms = log.finished_ms,
                                  .end = log.size,
                                  .exit = log.exit};
    (void)snprintf(p->state.id, sizeof(p->state.id), "%s", exec_id);
    p->cursor = (p->cursor < log.size ? p->cursor : log.size) + p->streams[0].len;
    return 0;
}

struct size {
    uint32_t rows, cols;
};

/* size NULL = the terminal stays as it is. */
static int ask(struct engine *e, const char *id, const char *exec_id, uint64_t most, uint32_t flags,
               const struct size *size, struct part *p, struct err *err)
{
    auto_buf struct buf args = {0};
    struct err why = {0};
    int r;

    buf_init(&p->streams[0], PART_MAX);
    buf_init(&p->streams[1], PART_MAX);
    if (sandbox_get_running(e, id, &p->sandbox, err) < 0 || exec_check_id(exec_id, err) < 0)
        return -1;
    buf_init(&args, FRAME_MAX);
    exec_put_again(&args, exec_id, p->cursor, most, flags);
    if (size) {
        wire_put_u32(&args, size->rows);
        wire_put_u32(&args, size->cols);
    }
    r = ask_once(p->sandbox, &args, p, &why);
    /* Its supervisor may have ended just as it was to answer. */
    if (r < 0 && p->frames == 0 && why.code && strcmp(why.code, "agent_lost") == 0)
        r = ask_once(p->sandbox, &args, p, &why);
    if (r < 0 && why.kind == ERR_INVALID)
        exec_explain_old(&why, exec_id);
    if (r < 0 && err)
        *err = why;
    return r;
}

static void part_done(struct part *p)
{
    buf_done(&p->streams[0]);
    buf_done(&p->streams[1]);
    sandbox_unref(p->sandbox);
}

/* A character that is not all there yet stays for the next call, unless nothing follows. */
static void cut_last(struct part *p)
{
    struct buf *last = &p->streams[p->last_is_error];
    size_t n = last->len ? utf8_cut(last->data, last->len) : 0;

    if (!p->state.running && p->cursor >= p->state.end)
        return;
    p->cursor -= last->len - n;
    last->len = n;
}

int engine_exec_state(struct engine *e, const char *id, const char *exec_id, uint64_t cursor,
                      json_t **ret, struct err *err)
{
    struct part p = {.cursor = cursor};
    int r;

    buf_init(&p.streams[0], PART_MAX);
    r = look_at_paused(e, id, exec_id, PART_MAX, &p, err);
    if (r > 0)
        r = ask(e, id, exec_id, PART_MAX, 0, NULL, &p, err);
    if (r == 0) {
        json_t *o = info_json(p.sandbox, &p.state);
        bool more = p.cursor < p.state.end; /* but for what is cut off now and may never be whole */

        cut_last(&p);
        (void)json_object_set_new(o, "stdout", json_of_bytes(p.streams[0].data, p.streams[0].len));
        (void)json_object_set_new(o, "stderr", json_of_bytes(p.streams[1].data, p.streams[1].len));
        (void)json_object_set_new(o, "cursor", json_integer((json_int_t)p.cursor));
        (void)json_object_set_new(o, "lost", json_integer((json_int_t)p.lost));
        (void)json_object_set_new(o, "more", json_boolean(more));
        *ret = o;
    }
    part_done(&p);
    return r;
}

int engine_exec_end(struct engine *e, const char *id, const char *exec_id, json_t **ret,
                    struct err *err)
{
    struct part p = {.cursor = INT64_MAX};
    int r = ask(e, id, exec_id, 0, AGAIN_FOLLOW | AGAIN_END, NULL, &p, err);

    if (r == 0)
        *ret = info_json(p.sandbox, &p.state);
    part_done(&p);
    return r;
}

int engine_exec_look(struct engine *e, const char *id, const char *exec_id, json_t **ret,
                     struct err *err)
{
    struct part p = {.cursor = INT64_MAX};
    int r = ask(e, id, exec_id, 0, 0, NULL, &p, err);

    if (r == 0)
        *ret = info_json(p.sandbox, &p.state);
    part_done(&p);
    return r;
}

int engine_exec_set_size(struct engine *e, const char *id, const char *exec_id, uint32_t rows,
                         uint32_t cols, json_t **ret, struct err *err)
{
    struct part p = {.cursor = INT64_MAX};
    int r = ask(e, id, exec_id, 0, 0, &(struct size){rows, cols}, &p, err);

    if (r == 0)
        *ret = info_json(p.sandbox, &p.state);
    part_done(&p);
    return r;
}

/* ---- all of them ---- */

struct exec_list {
    const struct sandbox *sandbox;
    json_t *items;
};

static int add_item(const struct buf *payload, void *arg, struct err *err)
{
    struct exec_list *list = arg;
    struct call_kept state;

    if (read_kept(payload->data, payload->len, &state, err) < 0)
        return -1;
    if (is_exec_id(state.id) && json_array_size(list->items) < LIST_MAX)
        (void)json_array_append_new(list->items, info_json(list->sandbox, &state));
    return 0;
}

static int by_start(const void *a, const void *b)
{
    json_int_t x = json_integer_value(json_object_get(*(json_t *const *)a, "startedAt"));
    json_int_t y = json_integer_value(json_object_get(*(json_t *const *)b, "startedAt"));

    return x < y ? 1 : x > y ? -1 : 0;
}

int engine_exec_list(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    struct exec_list list;
    struct err why = {0};

    if (sandbox_get_running(e, id, &sb, err) < 0)
        return -1;
    list = (struct exec_list){.sandbox = sb, .items = json_array()};
    if (agent_items(e, sb, CALL_EXECS, NULL, add_item, &list, &why) < 0 &&
        why.kind != ERR_INVALID) {
        json_decref(list.items);
        if (err)
            *err = why;
        return -1;
    }
    /* The newest first: the agent goes by the places that it keeps them in, which are used again;
     * an older one has none. */
    *ret = json_pack("{s:o}", "execs", json_sorted(list.items, by_start));
    return 0;
}
