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
    uint64_t offset;  /* of the next byte */
    int64_t again_ns; /* when the next part is asked for */
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

static int open_part(struct engine *e, struct sandbox *sb, uint64_t from, uint64_t most,
                     int *ret_fd, struct err *err)
{
    auto_buf struct buf args = {0};

    buf_init(&args, 256);
    wire_put_str(&args, "main");
    wire_put_u64(&args, from);
    wire_put_u64(&args, most);
    return agent_open(e, sb, BOX_CTL, CALL_LOG, &args, ret_fd, err);
}

int engine_log_open(struct engine *e, const char *id, uint64_t lines, bool follow,
                    struct log_stream **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    struct log_stream *r;
    struct call_log log;
    uint64_t from;
    int fd;

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    *ret = NULL;
    if (!sb->spec.entrypoint)
        return 0;
    if (sandbox_check_running(sb, err) < 0 || log_read(e, sb, "main", 0, 1, NULL, &log, err) < 0 ||
        find_tail(e, sb, log.size, lines, &from, err) < 0)
        return -1;
    if ((follow ? log_follow(e, sb, "main", from, &fd, err)
                : open_part(e, sb, from, log.size - from, &fd, err)) < 0)
        return -1;
    r = xcalloc(1, sizeof(*r));
    r->engine = e;
    r->sandbox = sandbox_ref(sb);
    r->follow = follow;
    r->offset = from;
    agent_reader_init(&r->frames, sb, fd);
    *ret = r;
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

/* An agent that is older than CALL_FOLLOW gives what there is, and is asked again. */
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
    close_fd(&r->frames.fd);
    buf_done(&r->frames.in);
    r->again_ns = mono_ns() + AGAIN_NS;
    return LOG_WAITS;
}

static int next_part(struct log_stream *r, struct err *err)
{
    int fd;

    if (open_part(r->engine, r->sandbox, r->offset, UINT64_MAX, &fd, err) < 0)
        return -1;
    agent_reader_init(&r->frames, r->sandbox, fd);
    return 0;
}

int log_stream_next(struct log_stream *r, const char **ret, size_t *ret_len, struct err *err)
{
    struct frame f;
    int n;

    if (r->frames.fd < 0) {
        if (mono_ns() < r->again_ns)
            return LOG_WAITS;
        if (next_part(r, err) < 0)
            return -1;
    }
    n = agent_take(&r->frames, &f, err);
    if (n == 0 && agent_fill(&r->frames, err) < 0)
        return -1;
    if (n == 0)
        n = agent_take(&r->frames, &f, err);
    if (n < 0)
        return -1;
    if (n == 0) {
        agent_rest(&r->frames);
        return LOG_WAITS;
    }
    if (f.type == FRAME_END)
        return end_part(r, &f, err);
    if (f.type != FRAME_DATA)
        return agent_broken(err, "a log in a form that cannot be read");
    *ret = f.data;
    *ret_len = f.len;
    r->offset += f.len;
    return LOG_PIECE;
}
