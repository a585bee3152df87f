#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/agent_client_internal.h"
#include "engine/files.h"
#include "engine/files_internal.h"
#include "engine/quiet_internal.h"
#include "engine/sandbox_internal.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"
#include "runtime/runtime.h"

/* Bytes of files: whole, or as streams. */

#define EMPTY_FRAMES_MAX 16

_Static_assert(FILE_MODE_KEEP == CALL_MODE_KEEP, "the agent is told as the engine is");

/* What the agent says of the file before its bytes. */
static int read_look(struct agent_reader *r, struct file_look *ret, struct err *err)
{
    struct call_file f;
    struct frame frame;
    struct wire w;
    bool ok;

    if (agent_reader_next(r, &frame, err) < 0)
        return -1;
    if (frame.type != FRAME_OK)
        return agent_broken(err, "an answer of the wrong kind");
    wire_init(&w, frame.data, frame.len);
    call_file_get(&w, &f);
    ok = wire_ok(&w) && f.size <= INT64_MAX;
    *ret = (struct file_look){f.size, f.mode, f.mtime_ms};
    call_file_done(&f);
    return ok ? 0 : agent_broken(err, "a file in a form that cannot be read");
}

static void reader_done(struct agent_reader *r)
{
    close_fd(&r->fd);
    buf_done(&r->in);
}

static int open_read(struct engine *e, struct sandbox *sb, const char *path,
                     struct file_range range, struct agent_reader *ret, struct file_look *ret_look,
                     struct err *err)
{
    auto_buf struct buf args = {0};
    int fd;

    buf_init(&args, FRAME_MAX);
    wire_put_str(&args, path);
    wire_put_str(&args, "");
    wire_put_u64(&args, range.offset);
    wire_put_u64(&args, range.most);
    if (agent_call(e, sb, BOX_CTL, CALL_READ, &args, &fd, err) < 0)
        return -1;
    agent_reader_init(ret, sb, fd);
    if (read_look(ret, ret_look, err) == 0)
        return 0;
    reader_done(ret);
    return -1;
}

/* The next bytes, which are the reader's until the call after this one; 0 at their end. */
static ssize_t next_bytes(struct agent_reader *r, const char **ret, struct err *err)
{
    for (int i = 0; i < EMPTY_FRAMES_MAX; i++) {
        struct frame f;

        if (agent_reader_next(r, &f, err) < 0)
            return -1;
        if (f.type == FRAME_END)
            return 0;
        if (f.type != FRAME_DATA)
            break;
        *ret = f.data;
        if (f.len > 0)
            return (ssize_t)f.len;
    }
    return agent_broken(err, "file data in a form that cannot be read");
}

static int too_large(size_t max, struct err *err)
{
    return err_code(err, ERR_TOO_LARGE, "file_too_large", "the file is larger than %zu KiB",
                    max >> 10);
}

static int read_all(struct agent_reader *r, struct buf *out, struct err *err)
{
    size_t max = out->max;
    const char *data = NULL;
    ssize_t n;

    while ((n = next_bytes(r, &data, err)) > 0) {
        /* The size was a claim; a file may also grow while it is read. */
        if (out->len + (size_t)n > max || buf_add(out, data, (size_t)n) < 0)
            return too_large(max, err);
    }
    return n < 0 ? -1 : 0;
}

int file_read(struct engine *e, struct sandbox *sb, const char *path, struct buf *out,
              struct err *err)
{
    struct agent_reader reader;
    struct file_look look = {0};
    int r;

    if (open_read(e, sb, path, (struct file_range){0}, &reader, &look, err) < 0)
        return -1;
    r = look.size > out->max ? too_large(out->max, err) : read_all(&reader, out, err);
    reader_done(&reader);
    return r;
}

static void put_write(struct buf *args, const char *path, uint32_t mode, bool parents)
{
    buf_init(args, FRAME_MAX);
    wire_put_str(args, path);
    wire_put_str(args, "");
    wire_put_u32(args, mode);
    wire_put_u32(args, parents);
}

static int open_write(struct engine *e, struct sandbox *sb, const char *path, uint32_t mode,
                      bool parents, int *ret_fd, struct err *err)
{
    auto_buf struct buf args = {0};

    put_write(&args, path, mode, parents);
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

/* Most files are small: then all of it is one message, and the agent wakes once. */
int file_send(struct engine *e, struct sandbox *sb, enum call_op op, const struct buf *args,
              const void *data, size_t len, struct err *err)
{
    auto_buf struct buf payload = {0};
    auto_close int fd = -1;

    if (len > AGENT_DATA_MAX) {
        if (agent_call(e, sb, BOX_CTL, op, args, &fd, err) < 0 ||
            write_some(sb, fd, data, len, err) < 0)
            return -1;
        return write_end(sb, fd, err);
    }
    if (agent_call_with(e, sb, op, args, data, len, &fd, err) < 0)
        return -1;
    return agent_expect(sb, fd, FRAME_OK, &payload, err);
}

int file_write(struct engine *e, struct sandbox *sb, const char *path, const void *data, size_t len,
               struct err *err)
{
    auto_buf struct buf args = {0};

    put_write(&args, path, CALL_MODE_KEEP, true);
    return file_send(e, sb, CALL_WRITE, &args, data, len, err);
}

/* ---- for callers that know a sandbox by its id ---- */

struct file_stream {
    struct sandbox *sandbox; /* held until close */
    bool counts;             /* as one of UPLOADS_MAX */
    struct agent_reader reader;
    struct file_look look; /* of one that is read */
};

/* Takes over what files_begin() gave. */
static struct file_stream *stream_new(struct sandbox *sb)
{
    struct file_stream *f = xcalloc(1, sizeof(*f));

    f->sandbox = sb;
    return f;
}

void engine_file_close(struct file_stream *f)
{
    if (!f)
        return;
    reader_done(&f->reader);
    if (f->counts)
        (void)atomic_fetch_sub(&f->sandbox->uploads, 1);
    files_done(f->sandbox);
    free(f);
}

int engine_file_open_read(struct engine *e, const char *id, struct file_path path,
                          struct file_range range, struct file_stream **ret, uint64_t *ret_size,
                          struct err *err)
{
    auto_files struct sandbox *sb = NULL;
    auto_free char *real = NULL;
    struct agent_reader reader;
    struct file_look look = {0};

    if (file_target(e, id, path, &sb, &real, err) < 0 ||
        open_read(e, sb, real, range, &reader, &look, err) < 0)
        return -1;
    *ret = stream_new(steal_ptr(sb));
    (*ret)->reader = reader;
    (*ret)->look = look;
    *ret_size = look.size;
    return 0;
}

void engine_file_look(const struct file_stream *f, struct file_look *ret)
{
    *ret = f->look;
}

ssize_t engine_file_next(struct file_stream *f, const char **ret, struct err *err)
{
    return next_bytes(&f->reader, ret, err);
}

/* An upload holds one of the agent's 96 calls until its client has sent all: the rest is for
 * others.
 */
#define UPLOADS_MAX 64

static int upload_begin(struct sandbox *sb, struct err *err)
{
    if (atomic_fetch_add(&sb->uploads, 1) < UPLOADS_MAX)
        return 0;
    (void)atomic_fetch_sub(&sb->uploads, 1);
    return err_code(err, ERR_UNAVAILABLE, "sandbox_busy",
                    "%d files are being uploaded to the sandbox; try again when one has come whole",
                    UPLOADS_MAX);
}

int engine_file_open_write(struct engine *e, const char *id, struct file_path path, uint32_t mode,
                           bool parents, struct file_stream **ret, struct err *err)
{
    auto_files struct sandbox *sb = NULL;
    auto_free char *real = NULL;
    struct agent_reader reader;
    int fd;

    if (file_target(e, id, path, &sb, &real, err) < 0 || upload_begin(sb, err) < 0)
        return -1;
    if (open_write(e, sb, real, mode, parents, &fd, err) < 0) {
        (void)atomic_fetch_sub(&sb->uploads, 1);
        return -1;
    }
    agent_reader_init(&reader, sb, fd);
    *ret = stream_new(steal_ptr(sb));
    (*ret)->reader = reader;
    (*ret)->counts = true;
    return 0;
}

int engine_file_write_some(struct file_stream *f, const void *data, size_t len, struct err *err)
{
    return write_some(f->sandbox, f->reader.fd, data, len, err);
}

int engine_file_write_end(struct file_stream *f, struct err *err)
{
    return write_end(f->sandbox, f->reader.fd, err);
}

int engine_file_put(struct engine *e, const char *id, struct file_path path, uint32_t mode,
                    bool parents, const void *data, size_t len, struct err *err)
{
    auto_files struct sandbox *sb = NULL;
    auto_free char *real = NULL;
    auto_buf struct buf args = {0};

    if (file_target(e, id, path, &sb, &real, err) < 0)
        return -1;
    put_write(&args, real, mode, parents);
    return file_send(e, sb, CALL_WRITE, &args, data, len, err);
}

int engine_file_write(struct engine *e, const char *id, struct file_path path, const void *data,
                      size_t len, struct err *err)
{
    return engine_file_put(e, id, path, FILE_MODE_KEEP, true, data, len, err);
}
