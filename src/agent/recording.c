#include "agent/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/uio.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "proto/plan.h"

#define SUFFIX      ".cast"
#define FILES_MAX   8
#define FILES_BYTES (48ull << 20)
#define HEAD        16
#define FULL_ROOM   (2 * HEAD + 64) /* for what is said at the end */

static void name_of(char ret[64], const char *id)
{
    (void)snprintf(ret, 64, "%.40s" SUFFIX, id);
}

/* A record that is not whole is none: whoever reads stops before it. */
static void put(struct recording *r, int64_t started, uint32_t kind, const void *data, size_t len)
{
    int64_t now = started ? mono_ns() - started : 0;
    auto_buf struct buf head = {0};
    struct iovec parts[2];

    buf_init(&head, HEAD);
    wire_put_u64(&head, (uint64_t)now / 1000);
    wire_put_u32(&head, kind);
    wire_put_u32(&head, (uint32_t)len);
    parts[0] = (struct iovec){head.data, head.len};
    parts[1] = (struct iovec){(void *)(uintptr_t)data, len};
    if (writev(r->file, parts, 2) != (ssize_t)(HEAD + len))
        close_fd(&r->file); /* no room: it ends here */
    r->bytes += (uint32_t)(HEAD + len);
}

void recording_add(struct recording *r, int64_t started, uint32_t kind, const void *data,
                   size_t len)
{
    if (r->file < 0)
        return;
    if (len > RECORDING_MAX - FULL_ROOM || r->bytes + HEAD + len > RECORDING_MAX - FULL_ROOM) {
        put(r, started, RECORD_FULL, "", 0);
        close_fd(&r->file);
        return;
    }
    put(r, started, kind, data, len);
}

void recording_size(struct recording *r, int64_t started, uint32_t rows, uint32_t cols)
{
    auto_buf struct buf b = {0};

    buf_init(&b, 8);
    wire_put_u32(&b, rows);
    wire_put_u32(&b, cols);
    recording_add(r, started, RECORD_SIZE, b.data, b.len);
}

void recording_begin(struct recording *r, const char *id, uint32_t rows, uint32_t cols)
{
    char name[64];

    kept_prune(SUFFIX, FILES_MAX - 1, FILES_BYTES - RECORDING_MAX);
    name_of(name, id);
    (void)unlinkat(AGENT_FD_LOGS, name, 0);
    r->file =
        openat(AGENT_FD_LOGS, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    r->bytes = 0;
    recording_size(r, 0, rows, cols);
}

void recording_end(struct recording *r, int64_t started, const struct call_exit *end)
{
    auto_buf struct buf b = {0};

    buf_init(&b, 64);
    call_exit_put(&b, end);
    recording_add(r, started, RECORD_EXIT, b.data, b.len);
    close_fd(&r->file);
}

void recording_discard(struct recording *r, const char *id)
{
    char name[64];

    if (r->file < 0)
        return;
    close_fd(&r->file);
    name_of(name, id);
    (void)unlinkat(AGENT_FD_LOGS, name, 0);
}

/* ---- reading */

static void send_file(struct agent_call *c, int fd)
{
    static char piece[64 << 10];
    uint64_t left = RECORDING_MAX; /* it may grow meanwhile */
    ssize_t n;

    call_reply(c, FRAME_OK, NULL, 0);
    while (left > 0 && (n = read_some(fd, piece, sizeof(piece))) > 0) {
        call_reply(c, FRAME_DATA, piece, (size_t)n);
        call_flush(c);
        left -= (uint64_t)n < left ? (uint64_t)n : left;
    }
    call_reply(c, FRAME_END, NULL, 0);
}

int recording_call(struct agent_call *c, struct err *err)
{
    auto_free char *id = wire_get_str(&c->args);
    auto_close int fd = -1;
    char name[64];

    if (call_args_ok(c, err) < 0)
        return -1;
    if (log_id_ok(id)) {
        name_of(name, id);
        fd = openat(AGENT_FD_LOGS, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd < 0)
        return err_code(err, ERR_NOT_FOUND, "recording_not_found",
                        "nothing was recorded of exec \"%.40s\", or it is not kept any more", id);
    send_file(c, fd);
    return 0;
}
