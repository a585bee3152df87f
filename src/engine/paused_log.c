#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/agent_client_internal.h"
#include "engine/background_internal.h"
#include "engine/engine_internal.h"
#include "engine/exec_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/turn_internal.h"
#include "proto/frame.h"
#include "proto/log_file.h"
#include "proto/wire.h"
#include "runtime/runtime.h"

/* The logs of a sandbox that is paused or stopped. It has no agent that can answer, but what that
 * wrote is on the disk, which the host can read: nothing in the sandbox runs meanwhile, because a
 * resume or a start waits for its turn. */

#define PIECE      (64u << 10)
#define FRAMES_MAX (128u << 10) /* of one reading, and one piece more */

static int read_bytes(struct log_file *l, uint64_t most, struct buf *out, struct err *err)
{
    auto_free char *piece = xmalloc(PIECE);
    struct log_mark mark;
    ssize_t n;

    while (most > 0 &&
           (n = log_file_next(l, piece, most < PIECE ? (size_t)most : PIECE, &mark)) > 0) {
        if (buf_add(out, piece, (size_t)n) < 0)
            return err_set(err, ERR_TOO_LARGE, "more of a log than was asked for");
        most -= (uint64_t)n;
    }
    return 0;
}

static int read_log(int logs, const char *log_id, uint64_t offset, uint64_t most, struct buf *out,
                    struct call_log *ret, struct err *err)
{
    struct log_file l = LOG_FILE(logs, log_id);
    int r;

    l.plain = true;
    r = log_file_look(&l);
    if (r == -ENOENT)
        return err_code(err, ERR_NOT_FOUND, "log_not_found",
                        "the sandbox has no background exec \"%s\"", log_id);
    if (r < 0)
        return err_sys(err, -r, "read the log of background exec %s", log_id);
    l.offset = offset;
    *ret = l.now;
    if (!exit_reason_of(&l.now.exit))
        r = agent_broken(err, "a log in a form that cannot be read");
    else
        r = out ? read_bytes(&l, most, out, err) : 0;
    log_file_close(&l);
    return r;
}

static int open_logs(struct engine *e, struct sandbox *sb, int *ret_fd, struct err *err)
{
    auto_close int disk = -1;
    uint32_t ids_base;

    if (runtime_disk_open(e->runtime, &sb->box, false, &disk, &ids_base, err) < 0)
        return -1;
    *ret_fd = openat(disk, "logs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret_fd < 0 ? err_sys(err, errno, "open the logs of a sandbox") : 0;
}

/* In the sandbox's turn while it stands still; 1 = it does not. */
static int begin(struct engine *e, struct sandbox *sb, bool waits, int *ret_logs, struct err *err)
{
    if (!sandbox_is_still(sb))
        return 1;
    if (waits ? turn_take(e, &sb->turn, err) < 0 : !turn_try(&sb->turn))
        return -1;
    if (sandbox_is_still(sb) && open_logs(e, sb, ret_logs, err) == 0)
        return 0;
    turn_give(&sb->turn);
    return sandbox_is_still(sb) ? -1 : 1;
}

int paused_log_read(struct engine *e, struct sandbox *sb, const char *log_id, uint64_t offset,
                    uint64_t most, struct buf *out, struct call_log *ret, struct err *err)
{
    auto_close int logs = -1;
    int r = begin(e, sb, true, &logs, err);

    if (r != 0)
        return r;
    r = read_log(logs, log_id, offset, most, out, ret, err);
    turn_give(&sb->turn);
    return r;
}

int paused_log_look(struct engine *e, struct sandbox *sb, const char *log_id, struct call_log *ret)
{
    auto_close int logs = -1;
    int r = begin(e, sb, false, &logs, NULL);

    if (r != 0)
        return r;
    r = read_log(logs, log_id, 0, 0, NULL, ret, NULL);
    turn_give(&sb->turn);
    return r;
}

static void put_end(struct buf *frames, const struct call_log *now)
{
    auto_buf struct buf b = {0};

    buf_init(&b, LOG_STATE_MAX);
    call_log_put(&b, now);
    (void)frame_put(frames, FRAME_END, b.data, b.len);
}

static int read_frames(int logs, const char *log_id, uint64_t offset, struct buf *frames,
                       struct err *err)
{
    auto_free char *piece = xmalloc(PIECE);
    struct log_file l = LOG_FILE(logs, log_id);
    int r = log_file_look(&l);
    ssize_t n = 1;

    if (r < 0)
        return err_sys(err, -r, "read the log of background exec %s", log_id);
    l.offset = offset;
    while (frames->len < FRAMES_MAX) {
        auto_buf struct buf b = {0};
        struct log_mark mark;

        n = log_file_next(&l, piece, PIECE, &mark);
        if (n <= 0)
            break;
        buf_init(&b, FRAME_MAX);
        wire_put_u64(&b, mark.time_ms);
        (void)buf_add(&b, piece, (size_t)n);
        (void)frame_put(frames, mark.is_stderr ? FRAME_STDERR : FRAME_STDOUT, b.data, b.len);
    }
    if (n <= 0)
        put_end(frames, &l.now);
    log_file_close(&l);
    return 0;
}

int paused_log_frames(struct engine *e, struct sandbox *sb, const char *log_id, uint64_t offset,
                      struct buf *frames, struct err *err)
{
    auto_close int logs = -1;
    int r = begin(e, sb, true, &logs, err);

    if (r != 0)
        return r;
    r = read_frames(logs, log_id, offset, frames, err);
    turn_give(&sb->turn);
    return r;
}
