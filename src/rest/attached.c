#include "rest/attached.h"

#include <signal.h>
#include <string.h>

#include "base/err.h"
#include "http/server.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"

#define READ_BYTES    (64u << 10)
#define READS_AT_ONCE 16 /* of a client that sends without end; epoll tells of the rest */

int attached_check(struct http_req *req, struct err *err)
{
    if (http_upgrade_asked(req, ATTACHED_PROTOCOL))
        return 0;
    return err_code(err, ERR_INVALID, "upgrade_required",
                    "send the headers \"Connection: Upgrade\" and \"Upgrade: " ATTACHED_PROTOCOL
                    "\", or use exec/stream");
}

void attached_init(struct attached *a, struct http_req *req, bool want_stdin)
{
    *a = (struct attached){.req = req, .want_stdin = want_stdin};
    buf_init(&a->in, FRAME_MAX + FRAME_HEADER + READ_BYTES);
}

void attached_done(struct attached *a)
{
    buf_done(&a->in);
}

/* ---- to the client ---- */

static int put_frame(struct attached *a, unsigned type, const void *payload, size_t len)
{
    auto_buf struct buf frame = {0};

    buf_init(&frame, FRAME_HEADER + FRAME_MAX);
    (void)frame_put(&frame, type, payload, len);
    return http_stream_write(a->req, frame.data, frame.len);
}

int attached_started(struct attached *a, uint32_t pid)
{
    auto_buf struct buf payload = {0};

    if (http_upgrade(a->req, ATTACHED_PROTOCOL) < 0)
        return -1;
    a->upgraded = true;
    buf_init(&payload, 16);
    wire_put_u32(&payload, pid);
    return put_frame(a, FRAME_STARTED, payload.data, payload.len);
}

int attached_lost(struct attached *a, uint64_t bytes)
{
    auto_buf struct buf payload = {0};

    buf_init(&payload, 16);
    wire_put_u64(&payload, bytes);
    return put_frame(a, FRAME_LOST, payload.data, payload.len);
}

int attached_output(struct attached *a, enum channel channel, const void *data, size_t len)
{
    return put_frame(a, channel == CHANNEL_STDERR ? FRAME_STDERR : FRAME_STDOUT, data, len);
}

void attached_exit(struct attached *a, const json_t *out)
{
    const char *reason = json_string_value(json_object_get(out, "reason"));
    int code = (int)json_integer_value(json_object_get(out, "exitCode"));
    struct call_exit end = {
        .how = EXIT_CODE,
        .code = (uint32_t)code,
        .duration_ns = (uint64_t)(json_number_value(json_object_get(out, "duration")) * 1e6),
        .lost_stdout = (uint64_t)json_integer_value(json_object_get(out, "lostStdout")),
        .lost_stderr = (uint64_t)json_integer_value(json_object_get(out, "lostStderr")),
    };
    auto_buf struct buf payload = {0};

    if (strcmp(reason, "timeout") == 0) {
        end.how = EXIT_TIMEOUT;
    } else if (strcmp(reason, "cancelled") == 0) {
        end.how = EXIT_CANCELLED;
    } else if (strcmp(reason, "exit") != 0 && code > 128) {
        end.how = EXIT_SIGNAL; /* "oom" is one too: the kernel's SIGKILL */
        end.code = (uint32_t)code - 128;
    }
    if (json_is_true(json_object_get(out, "oom")))
        end.code |= EXIT_MEMORY;
    buf_init(&payload, FRAME_MAX);
    call_exit_put(&payload, &end);
    (void)put_frame(a, FRAME_EXIT, payload.data, payload.len);
}

void attached_error(struct attached *a, const struct err *err)
{
    auto_buf struct buf payload = {0};

    buf_init(&payload, FRAME_MAX);
    call_error_put(&payload, err);
    (void)put_frame(a, FRAME_ERROR, payload.data, payload.len);
}

/* ---- from the client ---- */

static bool read_input(const struct attached *a, const struct frame *f, struct input *ret)
{
    struct wire w;

    *ret = (struct input){.what = INPUT_STDIN, .data = f->data, .len = f->len};
    wire_init(&w, f->data, f->len);
    switch (f->type) {
    case FRAME_STDIN:
        return a->want_stdin;
    case FRAME_RESIZE:
        ret->what = INPUT_RESIZE;
        ret->first = wire_get_u32(&w);
        ret->second = wire_get_u32(&w);
        return wire_ok(&w) && ret->first >= 1 && ret->first <= 65535 && ret->second >= 1 &&
               ret->second <= 65535;
    case FRAME_SIGNAL:
        ret->what = INPUT_SIGNAL;
        ret->first = wire_get_u32(&w);
        return wire_ok(&w) && ret->first >= 1 && ret->first < NSIG;
    default:
        return false;
    }
}

/* Gives whole, correct frames to the task while it takes them. */
static int pass_frames(struct attached *a, struct task *task, struct err *err)
{
    struct frame f;
    struct input in;
    int r;

    while (task->takes_input && (r = frame_take(&a->in, &a->at, &f)) != 0) {
        if (r < 0 || !read_input(a, &f, &in))
            return err_code(err, ERR_INVALID, "bad_frame",
                            "after the upgrade, send only whole STDIN (when stdin was asked for), "
                            "RESIZE and SIGNAL frames");
        if (task->ops->input(task, &in, err) < 0)
            return -1;
    }
    buf_shift(&a->in, a->at);
    a->at = 0;
    return 0;
}

int attached_input(struct attached *a, struct task *task, struct err *err)
{
    ssize_t n = 1;

    if (pass_frames(a, task, err) < 0)
        return -1;
    for (int i = 0; i < READS_AT_ONCE && n > 0 && task->takes_input; i++) {
        char *room = buf_room(&a->in, READ_BYTES);

        n = http_upgraded_read(a->req, room, READ_BYTES);
        if (n < 0)
            return err_code(err, ERR_CONFLICT, "cancelled", "the client went away");
        a->in.len += (size_t)n;
        if (pass_frames(a, task, err) < 0)
            return -1;
    }
    if (a->in.len == 0)
        buf_done(&a->in); /* one that is silent holds nothing */
    return 0;
}

bool attached_has_frame(const struct attached *a)
{
    size_t at = a->at;
    struct frame f;

    return frame_take(&a->in, &at, &f) != 0;
}
