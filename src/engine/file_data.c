#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/agent_client_internal.h"
#include "engine/files.h"
#include "engine/files_internal.h"
#include "engine/sandbox_internal.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"
#include "runtime/runtime.h"

/* Bytes of files: whole, or as streams. */

#define EMPTY_FRAMES_MAX 16

_Static_assert(FILE_MODE_KEEP == CALL_MODE_KEEP, "the agent is told as the engine is");

static int open_read(struct engine *e, struct sandbox *sb, const char *path, int *ret_fd,
                     uint64_t *ret_size, struct err *err)
{
    auto_close int fd = -1;
    auto_buf struct buf args = {0}, payload = {0};
    struct call_file f;
    struct wire w;
    bool ok;

    buf_init(&args, FRAME_MAX);
    wire_put_str(&args, path);
    wire_put_str(&args, "");
    wire_put_u64(&args, 0);
    wire_put_u64(&args, 0);
    if (agent_call(e, sb, BOX_CTL, CALL_READ, &args, &fd, err) < 0 ||
        agent_expect(sb, fd, FRAME_OK, &payload, err) < 0)
        return -1;
    wire_init(&w, payload.data, payload.len);
    call_file_get(&w, &f);
    ok = wire_ok(&w) && f.size <= INT64_MAX;
    *ret_size = f.size;
    call_file_done(&f);
    if (!ok)
        return agent_broken(err, "a file in a form that cannot be read");
    *ret_fd = steal_fd(fd);
    return 0;
}

static ssize_t next_bytes(struct sandbox *sb, int fd, struct buf *payload, struct err *err)
{
    for (int i = 0; i < EMPTY_FRAMES_MAX; i++) {
        unsigned type;

        if (agent_next(sb, fd, &type, payload, err) < 0)
            return -1;
        if (type == FRAME_END)
            return 0;
        if (type != FRAME_DATA)
            break;
        if (payload->len > 0)
            return (ssize_t)payload->len;
    }
    return agent_broken(err, "file data in a form that cannot be read");
}

static int too_large(size_t max, struct err *err)
{
    return err_code(err, ERR_TOO_LARGE, "file_too_large", "the file is larger than %zu KiB",
                    max >> 10);
}

int file_read(struct engine *e, struct sandbox *sb, const char *path, struct buf *out,
              struct err *err)
{
    size_t max = out->max;
    auto_close int fd = -1;
    auto_buf struct buf payload = {0};
    uint64_t size;
    ssize_t n;

    if (open_read(e, sb, path, &fd, &size, err) < 0)
        return -1;
    if (size > max)
        return too_large(max, err);
    while ((n = next_bytes(sb, fd, &payload, err)) > 0) {
        /* The size was a claim; a file may also grow while it is read. */
        if (out->len + (size_t)n > max || buf_add(out, payload.data, (size_t)n) < 0)
            return too_large(max, err);
    }
    return n < 0 ? -1 : 0;
}

static int open_write(struct engine *e, struct sandbox *sb, const char *path, uint32_t mode,
                      int *ret_fd, struct err *err)
{
    auto_buf struct buf args = {0};

    buf_init(&args, FRAME_MAX);
    wire_put_str(&args, path);
    wire_put_str(&args, "");
    wire_put_u32(&args, mode);
    wire_put_u32(&args, 1);
    return agent_call(e, sb, BOX_CTL, CALL_WRITE, &args, ret_fd, err);
}

static int write_some(struct sandbox *sb, int fd, const void *data, size_t len, struct err *err)
{
    const char *p = data;

    while (len > 0) {
        size_t n = len < FRAME_MAX ? len : FRAME_MAX;

        if (agent_send(sb, fd, FRAME_DATA, p, n, err) < 0)
            return -1;
        p += n;
        len -= n;
    }
    return 0;
}

static int write_end(struct sandbox *sb, int fd, struct err *err)
{
    auto_buf struct buf payload = {0};

    if (agent_send(sb, fd, FRAME_END, NULL, 0, err) < 0)
        return -1;
    return agent_expect(sb, fd, FRAME_OK, &payload, err);
}

int file_write(struct engine *e, struct sandbox *sb, const char *path, const void *data, size_t len,
               struct err *err)
{
    auto_close int fd = -1;

    if (open_write(e, sb, path, CALL_MODE_KEEP, &fd, err) < 0 ||
        write_some(sb, fd, data, len, err) < 0)
        return -1;
    return write_end(sb, fd, err);
}

/* ---- for callers that know a sandbox by its id ---- */

struct file_stream {
    struct sandbox *sandbox; /* held until close */
    int fd;
};

static struct file_stream *stream_new(struct sandbox *sb, int fd)
{
    struct file_stream *f = xcalloc(1, sizeof(*f));

    f->sandbox = sandbox_ref(sb);
    f->fd = fd;
    return f;
}

void engine_file_close(struct file_stream *f)
{
    if (!f)
        return;
    close_fd(&f->fd);
    sandbox_unref(f->sandbox);
    free(f);
}

int engine_file_open_read(struct engine *e, const char *id, struct file_path path,
                          struct file_stream **ret, uint64_t *ret_size, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_free char *real = NULL;
    int fd;

    if (file_target(e, id, path, &sb, &real, err) < 0 ||
        open_read(e, sb, real, &fd, ret_size, err) < 0)
        return -1;
    *ret = stream_new(sb, fd);
    return 0;
}

ssize_t engine_file_next(struct file_stream *f, struct buf *payload, struct err *err)
{
    return next_bytes(f->sandbox, f->fd, payload, err);
}

int engine_file_open_write(struct engine *e, const char *id, struct file_path path, uint32_t mode,
                           struct file_stream **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_free char *real = NULL;
    int fd;

    if (file_target(e, id, path, &sb, &real, err) < 0 ||
        open_write(e, sb, real, mode, &fd, err) < 0)
        return -1;
    *ret = stream_new(sb, fd);
    return 0;
}

int engine_file_write_some(struct file_stream *f, const void *data, size_t len, struct err *err)
{
    return write_some(f->sandbox, f->fd, data, len, err);
}

int engine_file_write_end(struct file_stream *f, struct err *err)
{
    return write_end(f->sandbox, f->fd, err);
}

int engine_file_write(struct engine *e, const char *id, struct file_path path, const void *data,
                      size_t len, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_free char *real = NULL;

    if (file_target(e, id, path, &sb, &real, err) < 0)
        return -1;
    return file_write(e, sb, real, data, len, err);
}
