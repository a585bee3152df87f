#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "engine/agent_client_internal.h"
#include "engine/exec.h"
#include "engine/exec_internal.h"
#include "engine/sandbox_internal.h"
#include "proto/call.h"
#include "proto/wire.h"

/* What was recorded of a terminal (agent/recording.c), record by record. */

#define HEAD       16
#define PIECE_MAX  (64u << 10) /* of one record */
#define BUFFER_MAX (FRAME_MAX + PIECE_MAX + HEAD)

struct reading {
    int (*each)(const struct exec_recorded *r, void *arg, struct err *err);
    void *arg;
    struct buf in;
};

static int broken(struct err *err)
{
    return agent_broken(err, "a recording that cannot be read");
}

static int read_record(uint64_t time, uint32_t kind, const char *data, size_t len,
                       struct exec_recorded *ret, struct err *err)
{
    struct call_exit end;
    struct wire w;

    *ret = (struct exec_recorded){.seconds = (double)time / 1e6, .data = data, .len = len};
    wire_init(&w, data, len);
    switch (kind) {
    case RECORD_OUTPUT:
        ret->what = RECORDED_OUTPUT;
        return 0;
    case RECORD_SIZE:
        ret->what = RECORDED_SIZE;
        ret->rows = wire_get_u32(&w);
        ret->cols = wire_get_u32(&w);
        return wire_ok(&w) && ret->rows <= UINT16_MAX && ret->cols <= UINT16_MAX ? 0 : broken(err);
    case RECORD_EXIT:
        ret->what = RECORDED_EXIT;
        call_exit_get(&w, &end);
        if (!wire_ok(&w) || !exit_reason_of(&end))
            return broken(err);
        ret->exit_code = exit_code_of(&end);
        return 0;
    case RECORD_FULL:
        ret->what = RECORDED_FULL;
        return 0;
    default:
        return broken(err);
    }
}

/* Whole records are passed on; the start of one stays. */
static int pass_records(struct reading *r, struct err *err)
{
    size_t at = 0;

    while (r->in.len - at >= HEAD) {
        struct exec_recorded record;
        struct wire w;
        uint64_t time;
        uint32_t kind, len;

        wire_init(&w, r->in.data + at, HEAD);
        time = wire_get_u64(&w);
        kind = wire_get_u32(&w);
        len = wire_get_u32(&w);
        if (len > PIECE_MAX || time > INT64_MAX)
            return broken(err);
        if (r->in.len - at - HEAD < len)
            break;
        if (read_record(time, kind, r->in.data + at + HEAD, len, &record, err) < 0 ||
            r->each(&record, r->arg, err) < 0)
            return -1;
        at += HEAD + len;
    }
    buf_shift(&r->in, at);
    return 0;
}

static int read_all(struct sandbox *sb, int fd, struct reading *r, struct err *err)
{
    auto_buf struct buf payload = {0};
    uint64_t sum = 0;
    unsigned type;

    if (agent_expect(sb, fd, FRAME_OK, &payload, err) < 0)
        return -1;
    for (;;) {
        if (agent_next(sb, fd, &type, &payload, err) < 0)
            return -1;
        if (type == FRAME_END)
            return 0; /* what is left is the start of a record that is being written */
        sum += payload.len;
        if (type != FRAME_DATA || sum > RECORDING_MAX + PIECE_MAX ||
            buf_add(&r->in, payload.data, payload.len) < 0)
            return broken(err);
        if (pass_records(r, err) < 0)
            return -1;
    }
}

int engine_exec_recording(struct engine *e, const char *id, const char *exec_id,
                          int (*each)(const struct exec_recorded *r, void *arg, struct err *err),
                          void *arg, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_buf struct buf args = {0};
    auto_close int fd = -1;
    struct reading r = {.each = each, .arg = arg};
    struct err why = {0};
    int result = -1;

    if (sandbox_get_running(e, id, &sb, err) < 0 || exec_check_id(exec_id, err) < 0)
        return -1;
    buf_init(&r.in, BUFFER_MAX);
    buf_init(&args, 256);
    wire_put_str(&args, exec_id);
    if (agent_call(e, sb, BOX_CTL, CALL_RECORDING, &args, &fd, &why) == 0)
        result = read_all(sb, fd, &r, &why);
    if (result < 0 && why.kind == ERR_INVALID)
        (void)err_code(&why, ERR_NOT_FOUND, "recording_not_found",
                       "the sandbox was made by an older cay, which recorded nothing");
    if (result < 0 && err)
        *err = why;
    buf_done(&r.in);
    return result;
}
