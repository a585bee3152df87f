#include "engine/logs.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/agent_client_internal.h"
#include "engine/background_internal.h"
#include "engine/sandbox_internal.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"

#define WINDOW_BYTES (256u << 10)
#define TAIL_MAX     (8u << 20)
#define AGAIN_NS     (500 * 1000000ll)

struct log_stream {
    struct engine *engine;
    struct sandbox *sandbox;
    struct agent_reader frames; /* without a descriptor between two parts */
    bool follow;
    bool timed;       /* the frames say which stream and when */
    uint64_t offset;  /* of the next byte */
    int64_t again_ns; /* when the next part is asked for */
    uint32_t pause;   /* of the sandbox, when it was last asked for one */
    bool pause_read;  /* all that there is in it */
};

/* ---- where to begin ---- */

/* Where the wanted line begins, when the window that starts at `from` has it; else -1. */
static int64_t find_line(const struct buf *window, uint64_t from, uint64_t *lines)
{
    for (size_t at = window->len; at > 0; at--)
        if (window->data[at - 1] == '\n' && (*lines)-- == 0)
            return (int64_t)(from + at);
    return -1;
}

/* Goes back from the end in windows, and counts the ends of lines: nothing is kept of them. */
static int find_tail(struct engine *e, struct sandbox *sb, uint64_t size, uint64_t lines,
                     uint64_t *ret, struct err *err)
{
    uint64_t from = size, floor = size > TAIL_MAX ? size - TAIL_MAX : 0;
    auto_buf struct buf window = {0};
    struct call_log log;
    char last = '\n';

    *ret = size;
    if (lines == 0)
        return 0;
    buf_init(&window, WINDOW_BYTES);
    while (from > floor) {
        uint64_t part = from - floor < WINDOW_BYTES ? from - floor : WINDOW_BYTES;
        int64_t found;

        buf_clear(&window);
        from -= part;
        if (log_read(e, sb, "main", from, part, &window, &log, err) < 0)
            return -1;
        /* A line that has not ended yet is one too. */
        if (from + part == size && window.len > 0)
            last = window.data[window.len - 1];
        if (from + part == size && last != '\n')
            lines--;
        found = find_line(&window, from, &lines);
        if (found >= 0) {
            *ret = (uint64_t)found;
            return 0;
        }
    }
    *ret = floor;
    return 0;
}

/* ---- reading ---- */

/* What follows, while the sandbox is paused; 1 = it is not. */
static int read_paused(struct log_stream *r, struct err *err)
{
    int n;

    r->pause = sandbox_pause(r->sandbox);
    r->pause_read = false;
    agent_reader_init(&r->frames, r->sandbox, -1);
    n = paused_log_frames(r->engine, r->sandbox, "main", r->offset, &r->frames.in, err);
    if (n == 0)
        r->timed = true;
    return n;
}

/* Of a log that is opened; *ret_size is how long it is now. */
static int start(struct engine *e, struct sandbox *sb, uint64_t lines, bool follow,
                 struct log_stream *r, struct err *err)
{
    struct log_request req = {.id = "main", .follow = follow};
    struct call_log log;
    int fd, paused;

    if (sandbox_check_there(sb, err) < 0 || log_read(e, sb, "main", 0, 1, NULL, &log, err) < 0 ||
        find_tail(e, sb, log.size, lines, &req.offset, err) < 0)
        return -1;
    req.most = log.size - req.offset;
    *r = (struct log_stream){.engine = e, .sandbox = sb, .follow = follow, .offset = req.offset};
    r->again_ns = mono_ns();
    paused = read_paused(r, err);
    if (paused <= 0)
        return paused;
    if (log_stream_start(e, sb, &req, &fd, &r->timed, err) < 0)
        return -1;
    agent_reader_init(&r->frames, sb, fd);
    return 0;
}

int engine_log_open(struct engine *e, const char *id, uint64_t lines, bool follow,
                    struct log_stream **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    struct log_stream r = {0};

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    *ret = NULL;
    if (!sb->spec.entrypoint)
        return 0;
    if (start(e, sb, lines, follow, &r, err) < 0) {
        buf_done(&r.frames.in);
        return -1;
    }
    *ret = xmalloc(sizeof(r));
    **ret = r;
    (*ret)->sandbox = sandbox_ref(sb);
    return 0;
}

void log_stream_close(struct log_stream *r)
{
    if (!r)
        return;
    close_fd(&r->frames.fd);
    buf_done(&r->frames.in);
    sandbox_unref(r->sandbox);
    free(r);
}

void log_stream_wait(const struct log_stream *r, int *ret_fd, int64_t *ret_until_ns)
{
    *ret_fd = r->frames.fd;
    *ret_until_ns = r->frames.fd < 0 ? r->again_ns : 0;
}

static void between_parts(struct log_stream *r, int64_t again_ns)
{
    close_fd(&r->frames.fd);
    buf_done(&r->frames.in);
    r->frames.at = 0;
    r->again_ns = again_ns;
}

/* A sandbox that is paused, and an agent that is older than CALL_FOLLOW, give what there is, and
 * are asked again. */
static int end_part(struct log_stream *r, const struct frame *f, struct err *err)
{
    struct call_log log;
    struct wire w;

    wire_init(&w, f->data, f->len);
    call_log_get(&w, &log);
    if (!wire_ok(&w))
        return agent_broken(err, "a log in a form that cannot be read");
    if (!r->follow || !log.running)
        return LOG_ENDED;
    r->pause_read = r->frames.fd < 0;
    between_parts(r, mono_ns() + AGAIN_NS);
    return LOG_WAITS;
}

/* Nothing comes in a pause that was read to its end, and each reading looks into the disk. */
static bool is_to_wait(struct log_stream *r)
{
    return r->pause_read && r->pause != 0 && r->pause == sandbox_pause(r->sandbox);
}

static int next_part(struct log_stream *r, struct err *err)
{
    struct log_request req = {
        .id = "main", .offset = r->offset, .most = UINT64_MAX, .follow = r->follow};
    auto_buf struct buf args = {0};
    int paused = read_paused(r, err), fd;

    if (paused <= 0)
        return paused;
    buf_init(&args, 256);
    if (r->timed) {
        log_put_output(&args, &req);
    } else {
        wire_put_str(&args, req.id);
        wire_put_u64(&args, req.offset);
        wire_put_u64(&args, req.most);
    }
    if (agent_open(r->engine, r->sandbox, BOX_CTL, r->timed ? CALL_OUTPUT : CALL_LOG, &args, &fd,
                   err) < 0)
        return -1;
    agent_reader_init(&r->frames, r->sandbox, fd);
    return 0;
}

static int take_piece(struct log_stream *r, const struct frame *f, struct log_piece *ret,
                      struct err *err)
{
    struct wire w;
    size_t skip = r->timed ? sizeof(uint64_t) : 0;

    *ret = (struct log_piece){.is_stderr = f->type == FRAME_STDERR};
    if (f->len < skip ||
        (f->type != FRAME_STDERR && f->type != (r->timed ? FRAME_STDOUT : FRAME_DATA)))
        return agent_broken(err, "a log in a form that cannot be read");
    wire_init(&w, f->data, f->len);
    ret->time_ms = r->timed ? (int64_t)(wire_get_u64(&w) & INT64_MAX) : 0;
    ret->data = f->data + skip;
    ret->len = f->len - skip;
    r->offset += ret->len;
    return LOG_PIECE;
}

/* As agent_take(), of what has come by now. */
static int take_frame(struct log_stream *r, struct frame *ret, struct err *err)
{
    int n = agent_take(&r->frames, ret, err);

    if (n != 0 || r->frames.fd < 0)
        return n;
    return agent_fill(&r->frames, err) < 0 ? -1 : agent_take(&r->frames, ret, err);
}

int log_stream_next(struct log_stream *r, struct log_piece *ret, struct err *err)
{
    struct err why = {0};
    struct frame f;
    int n;

    if (r->frames.fd < 0 && r->frames.at >= r->frames.in.len) {
        if (mono_ns() < r->again_ns)
            return LOG_WAITS;
        if (is_to_wait(r)) {
            between_parts(r, mono_ns() + AGAIN_NS);
            return LOG_WAITS;
        }
        if (next_part(r, err) < 0)
            return -1;
    }
    n = take_frame(r, &f, &why);
    if (n == 1 && f.type == FRAME_OK && r->timed)
        n = take_frame(r, &f, &why);
    if (n == 0 && r->frames.fd < 0) {
        between_parts(r, mono_ns());
        return LOG_WAITS;
    }
    if (n == 0) {
        agent_rest(&r->frames);
        return LOG_WAITS;
    }
    if (n < 0 && why.kind == ERR_INVALID && r->timed) { /* it was paused when it was opened */
        r->timed = false;
        between_parts(r, mono_ns());
        return LOG_WAITS;
    }
    if (n < 0) {
        if (err)
            *err = why;
        return -1;
    }
    return f.type == FRAME_END ? end_part(r, &f, err) : take_piece(r, &f, ret, err);
}
