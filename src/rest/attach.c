#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/engine.h"
#include "functions/functions_internal.h"
#include "http/server.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"

/* One command between a client and an agent. Neither side is trusted to keep reading: a direction
 * that cannot be written is not read from either, and never stops the other direction. What the
 * client sends is checked frame by frame before it is passed on. */

#define PROTOCOL "cay-exec"

struct relay {
    int client;
    struct exec_stream exec;
    bool want_stdin;
    struct buf from_client; /* bytes of frames not yet whole */
    struct buf to_exec;     /* whole frames not yet written */
    struct buf to_client;
    bool ended; /* the last frame is in to_client */
};

static void put_error(struct relay *r, const struct err *err)
{
    auto_buf struct buf payload = {0};

    buf_init(&payload, FRAME_MAX);
    call_error_put(&payload, err);
    (void)frame_put(&r->to_client, FRAME_ERROR, payload.data, payload.len);
    r->ended = true;
}

static bool client_frame_ok(const struct relay *r, unsigned type, const char *payload, size_t len)
{
    struct wire w;
    uint32_t first, second;

    wire_init(&w, payload, len);
    switch (type) {
    case FRAME_STDIN:
        return r->want_stdin;
    case FRAME_RESIZE:
        first = wire_get_u32(&w);
        second = wire_get_u32(&w);
        return wire_ok(&w) && first >= 1 && first <= 65535 && second >= 1 && second <= 65535;
    case FRAME_SIGNAL:
        first = wire_get_u32(&w);
        return wire_ok(&w) && first >= 1 && first < NSIG;
    default:
        return false;
    }
}

/* Moves whole, correct frames from from_client to to_exec. */
static void pass_client_frames(struct relay *r)
{
    while (!r->ended) {
        unsigned type;
        long n = frame_parse(r->from_client.data, r->from_client.len, &type);

        if (n == 0)
            return;
        if (n < 0 || !client_frame_ok(r, type, r->from_client.data + FRAME_HEADER,
                                      (size_t)n - FRAME_HEADER)) {
            struct err err;

            (void)err_code(&err, ERR_INVALID, "bad_frame",
                           "after the upgrade, send only whole STDIN (when stdin was asked for), "
                           "RESIZE and SIGNAL frames");
            put_error(r, &err);
            return;
        }
        (void)buf_add(&r->to_exec, r->from_client.data, (size_t)n);
        buf_shift(&r->from_client, (size_t)n);
    }
}

/* -1 when the client has gone. */
static int read_client(struct relay *r)
{
    char *room = buf_room(&r->from_client, 64 << 10);
    ssize_t n;

    if (!room)
        return -1;
    n = recv(r->client, room, 64 << 10, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    if (n == 0)
        return -1;
    r->from_client.len += (size_t)n;
    pass_client_frames(r);
    return 0;
}

static void put_exit(struct relay *r, const struct exec_output *out)
{
    struct call_exit end = {
        .how = EXIT_CODE,
        .code = (uint32_t)out->exit_code,
        .duration_ns = (uint64_t)(out->duration_ms * 1e6),
        .lost_stdout = out->lost_stdout,
        .lost_stderr = out->lost_stderr,
    };
    auto_buf struct buf payload = {0};

    if (strcmp(out->reason, "timeout") == 0) {
        end.how = EXIT_TIMEOUT;
    } else if (strcmp(out->reason, "cancelled") == 0) {
        end.how = EXIT_CANCELLED;
    } else if (strcmp(out->reason, "exit") != 0 && out->exit_code > 128) {
        end.how = EXIT_SIGNAL; /* "oom" is one too: the kernel's SIGKILL */
        end.code = (uint32_t)out->exit_code - 128;
    }
    buf_init(&payload, FRAME_MAX);
    call_exit_put(&payload, &end);
    (void)frame_put(&r->to_client, FRAME_EXIT, payload.data, payload.len);
    r->ended = true;
}

static void read_exec(struct relay *r)
{
    struct exec_output out;
    struct err err = {0};

    if (engine_exec_next(&r->exec, &out, &err) < 0) {
        log_error("attached exec lost", "error", err.text);
        (void)err_code(&err, ERR_UNAVAILABLE, "agent_lost",
                       "the sandbox ended before the command did");
        put_error(r, &err);
        return;
    }
    switch (out.what) {
    case EXEC_STDOUT:
        (void)frame_put(&r->to_client, FRAME_STDOUT, out.data, out.len);
        return;
    case EXEC_STDERR:
        (void)frame_put(&r->to_client, FRAME_STDERR, out.data, out.len);
        return;
    case EXEC_EXIT:
        put_exit(r, &out);
        return;
    }
}

/* Writes what the socket takes now: 0, or -1 when the peer has gone. */
static int flush(int fd, struct buf *b)
{
    ssize_t n = send(fd, b->data, b->len, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    buf_shift(b, (size_t)n);
    return 0;
}

static short wanted(bool readable, const struct buf *out)
{
    return (short)((readable ? POLLIN : 0) | (out->len > 0 ? POLLOUT : 0));
}

static int relay_step(struct relay *r)
{
    struct pollfd p[2] = {
        {.fd = r->client, .events = wanted(r->to_exec.len == 0 && !r->ended, &r->to_client)},
        {.fd = r->exec.fd, .events = wanted(r->to_client.len == 0, &r->to_exec)},
    };

    p[0].events |= POLLRDHUP;
    /* poll() tells of a hang-up unasked: it would spin until the client has taken its bytes. */
    if (r->ended || !p[1].events)
        p[1].fd = -1;
    if (poll(p, 2, -1) < 0)
        return errno == EINTR ? 0 : -1;
    if (p[0].revents & (POLLHUP | POLLERR | POLLRDHUP))
        return -1;
    if ((p[0].revents & POLLOUT) && flush(r->client, &r->to_client) < 0)
        return -1;
    if ((p[0].revents & POLLIN) && read_client(r) < 0)
        return -1;
    /* An agent that no longer reads has something to say first. */
    if ((p[1].revents & POLLOUT) && flush(r->exec.fd, &r->to_exec) < 0)
        buf_clear(&r->to_exec);
    if ((p[1].revents & (POLLIN | POLLHUP | POLLERR)) && r->to_client.len == 0 && !r->ended)
        read_exec(r);
    return 0;
}

static void relay_run(struct relay *r)
{
    auto_buf struct buf started = {0};

    buf_init(&started, 16);
    wire_put_u32(&started, r->exec.pid);
    (void)frame_put(&r->to_client, FRAME_STARTED, started.data, started.len);
    pass_client_frames(r);
    while (!r->ended || r->to_client.len > 0)
        if (relay_step(r) < 0)
            return;
}

int exec_attach(struct call *call, const struct exec_request *req, struct err *err)
{
    const char *upgrade = call->req ? http_req_header(call->req, "Upgrade") : NULL;
    struct relay r = {.want_stdin = req->want_stdin};
    const char *early;
    size_t early_len;

    if (!upgrade || strcasecmp(upgrade, PROTOCOL) != 0)
        return err_code(err, ERR_INVALID, "upgrade_required",
                        "send the headers \"Connection: Upgrade\" and \"Upgrade: " PROTOCOL
                        "\", or use exec/stream");
    if (engine_exec_open(call->engine, in_id(call), req, &r.exec, err) < 0)
        return -1;
    if (http_upgrade(call->req, PROTOCOL, &r.client, &early, &early_len, err) < 0) {
        engine_exec_close(&r.exec);
        return -1;
    }
    buf_init(&r.from_client, FRAME_MAX + FRAME_HEADER + (64 << 10));
    buf_init(&r.to_exec, FRAME_MAX + FRAME_HEADER + (128 << 10));
    buf_init(&r.to_client, 2 * (FRAME_MAX + FRAME_HEADER));
    if (buf_add(&r.from_client, early, early_len) == 0)
        relay_run(&r);
    engine_exec_close(&r.exec); /* cancels what still runs */
    buf_done(&r.from_client);
    buf_done(&r.to_exec);
    buf_done(&r.to_client);
    return 0;
}
