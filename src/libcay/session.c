#include "libcay/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "libcay/api.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"

#define CHUNK   (64u << 10)
#define OUT_MAX (4 * CHUNK)
#define SPARE   1024 /* of OUT_MAX, for what is not input */
#define TRY_MS  200

#define STATUS_TIMED_OUT 124
#define STATUS_SIGNAL    128

/* ---- the connection ---- */

static void add_size(const struct session *s, json_t *body)
{
    if (s->rows == 0 || s->cols == 0)
        return;
    (void)json_object_set_new(body, "rows", json_integer(s->rows));
    (void)json_object_set_new(body, "cols", json_integer(s->cols));
}

static json_t *start_json(const struct session *s, const struct session_request *r)
{
    json_t *body = json_copy(r->body);

    (void)json_object_set_new(body, "stdin", json_boolean(s->want_stdin));
    (void)json_object_set_new(body, "execId", json_string(s->exec_id));
    (void)json_object_set_new(body, "detach", json_boolean(s->detach));
    if (s->tty)
        (void)json_object_set_new(body, "tty", json_true());
    add_size(s, body);
    return body;
}

static json_t *again_json(const struct session *s)
{
    json_t *body =
        json_pack("{s:b, s:I}", "stdin", (int)s->want_stdin, "cursor", (json_int_t)s->cursor);

    if (s->share)
        (void)json_object_set_new(body, "share", json_true());
    add_size(s, body);
    return body;
}

/* Takes body. */
static int open_stream(struct session *s, const char *path, json_t *body, struct err *err)
{
    auto_free char *text = json_dumps(body, JSON_COMPACT);
    struct http_response response;
    int fd;

    json_decref(body);
    if (!text)
        return err_set(err, ERR_INVALID, "the command is not valid UTF-8 text");
    if (http_client_upgrade(s->api->http, path, "cay-exec", text, strlen(text), &response, &fd,
                            err) < 0)
        return api_explain(s->api, err);
    if (fd < 0) {
        if (api_check(s->api, &response, err) < 0)
            return -1;
        return err_set(err, ERR_INTERNAL, "%s does not know how to attach: is it a cay daemon?",
                       s->api->target);
    }
    api_failure_clear(s->api->failure); /* of tries before this one */
    close_fd(&s->fd);
    s->fd = fd;
    (void)fd_set_nonblock(fd, true);
    buf_clear(&s->in);
    buf_clear(&s->out);
    s->at = 0;
    s->heard = s->lost = false;
    return 0;
}

static int open_start(struct session *s, const struct session_request *r, struct err *err)
{
    auto_free char *path = xasprintf("/sandbox/sandboxes/%s/exec/attach", s->id);

    s->again = false;
    return open_stream(s, path, start_json(s, r), err);
}

static int open_again(struct session *s, struct err *err)
{
    auto_free char *path = xasprintf("/sandbox/sandboxes/%s/exec/%s/attach", s->id, s->exec_id);

    if (open_stream(s, path, again_json(s), err) < 0)
        return -1;
    s->again = true;
    return 0;
}

/* ---- coming back ---- */

static int gone(const struct session *s, struct err *err)
{
    return err_code(err, ERR_UNAVAILABLE, "connection_lost",
                    "the connection to the daemon ended, the command goes on: `cay attach %s %s` "
                    "comes back to it; `logs` instead of `attach` shows its output, `attach --end` "
                    "ends it",
                    s->id, s->exec_id);
}

static bool is_unknown(const struct session *s)
{
    return strcmp(s->api->failure->code, "exec_not_found") == 0;
}

/* 1 when it is there again, 0 when the daemon is still away, -1. */
static int try_again(struct session *s, struct err *err)
{
    if (open_again(s, err) < 0) {
        /* Nobody listens, or it does not know the sandbox yet, or the old connection has not been
         * seen to end. */
        bool is_stopped = err->code && strcmp(err->code, "cancelled") == 0;

        return !is_stopped && (err->kind == ERR_UNAVAILABLE || err->kind == ERR_CONFLICT) ? 0 : -1;
    }
    if (s->want_stdin && s->input_ended)
        session_input(s, NULL, 0); /* its end may not have arrived */
    return 1;
}

/* Input of a pipe that was under way may or may not have arrived, so nobody can go on with it. */
static bool can_come_back(const struct session *s)
{
    return s->tty || !s->has_sent;
}

int session_come_back(struct session *s, int wake_fd, int patience_ms, struct err *err)
{
    int64_t until = mono_ns() + (int64_t)patience_ms * 1000000;
    struct pollfd p = {.fd = wake_fd, .events = POLLIN};
    struct err why = {0};

    /* One that lets us come and ends at once is not asked again at once. */
    if (s->again && !s->heard && poll(&p, 1, TRY_MS) > 0)
        return gone(s, err);
    while (can_come_back(s) && mono_ns() < until) {
        int r = try_again(s, &why);

        if (r > 0)
            return 0;
        if (r < 0 && is_unknown(s)) { /* it does not go on */
            *err = why;
            return err_wrap(err, "the connection to the daemon ended");
        }
        if (r < 0 || poll(&p, 1, TRY_MS) > 0) /* who waits does not want to any more */
            break;
    }
    return gone(s, err);
}

/* ---- beginning and end ---- */

int session_open(struct session *s, struct api *api, const char *id,
                 const struct session_request *request, struct err *err)
{
    *s = (struct session){.api = api,
                          .id = xstrdup(id),
                          .cursor = request->cursor,
                          .tty = request->tty,
                          .want_stdin = request->want_stdin,
                          .share = request->share,
                          .detach = request->detach,
                          .rows = request->rows,
                          .cols = request->cols,
                          .fd = -1};
    buf_init(&s->in, FRAME_BUFFER_MAX(2 * CHUNK));
    buf_init(&s->out, OUT_MAX);
    if (request->maybe) {
        (void)snprintf(s->exec_id, sizeof(s->exec_id), "%s", request->maybe);
        return err_code(err, ERR_UNAVAILABLE, "connection_lost", "the daemon went away");
    }
    if (!request->again) {
        id_new(s->exec_id, "ex");
        return open_start(s, request, err);
    }
    (void)snprintf(s->exec_id, sizeof(s->exec_id), "%s", request->again);
    s->detach = true; /* it is not ours to end */
    return open_again(s, err);
}

int session_reopen(struct session *s, const struct session_request *request, struct err *err)
{
    int r = try_again(s, err);

    if (r >= 0 || !is_unknown(s) || request->again)
        return r;
    if (open_start(s, request, err) == 0)
        return 1;
    return err->kind == ERR_UNAVAILABLE ? 0 : -1;
}

void session_leave(struct session *s)
{
    close_fd(&s->fd);
    buf_done(&s->in);
    buf_done(&s->out);
    free(steal_ptr(s->id));
}

void session_close(struct session *s)
{
    bool left_running = s->fd >= 0 && (s->again || s->lost) && !s->ended && !s->detach;
    struct err ignored = {0};

    close_fd(&s->fd);
    if (left_running)
        (void)api_call(s->api, "POST", NULL, NULL, &ignored, "/sandboxes/%s/exec/%s/kill", s->id,
                       s->exec_id);
    session_leave(s);
}

/* ---- to the daemon ---- */

size_t session_room(const struct session *s)
{
    size_t used = s->out.len + SPARE;

    return used < OUT_MAX ? OUT_MAX - used : 0;
}

/* out has room for it: input is bounded by session_room(), and the rest is small. */
static void queue_frame(struct session *s, unsigned type, const void *payload, size_t len)
{
    (void)frame_put(&s->out, type, payload, len);
}

static void queue_numbers(struct session *s, unsigned type, const uint32_t *numbers, size_t n)
{
    auto_buf struct buf payload = {0};

    buf_init(&payload, 64);
    for (size_t i = 0; i < n; i++)
        wire_put_u32(&payload, numbers[i]);
    queue_frame(s, type, payload.data, payload.len);
}

void session_input(struct session *s, const void *data, size_t len)
{
    if (len == 0)
        s->input_ended = true;
    else
        s->has_sent = true;
    queue_frame(s, FRAME_STDIN, data, len);
}

void session_resize(struct session *s, uint32_t rows, uint32_t cols)
{
    s->rows = rows;
    s->cols = cols;
    queue_numbers(s, FRAME_RESIZE, (uint32_t[]){rows, cols}, 2);
}

void session_signal(struct session *s, int sig)
{
    queue_numbers(s, FRAME_SIGNAL, (uint32_t[]){(uint32_t)sig}, 1);
}

int session_flush(struct session *s, struct err *err)
{
    ssize_t n;

    if (s->out.len == 0)
        return 0;
    n = send(s->fd, s->out.data, s->out.len, MSG_NOSIGNAL);
    if (n >= 0) {
        buf_shift(&s->out, (size_t)n);
        return 0;
    }
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    if (errno == EPIPE || errno == ECONNRESET) {
        buf_clear(&s->out); /* the answer may still be on its way to us */
        return 0;
    }
    return err_sys(err, errno, "write to the daemon");
}

/* ---- from the daemon ---- */

int session_receive(struct session *s)
{
    ssize_t n = frame_fill(s->fd, &s->in, &s->at, CHUNK);

    s->heard |= n > 0;
    s->lost = n <= 0 && n != -EAGAIN;
    return !s->lost;
}

static int take_exit(struct session *s, const struct frame *f, struct session_end *ret,
                     struct err *err)
{
    struct call_exit e;
    struct wire w;

    wire_init(&w, f->data, f->len);
    call_exit_get(&w, &e);
    if (!wire_ok(&w))
        return err_set(err, ERR_INTERNAL,
                       "the daemon sent an exit that cannot be read: is it of "
                       "another version? (`cay version`)");
    s->ended = true;
    *ret = (struct session_end){.duration_ms = (double)e.duration_ns / 1e6,
                                .lost = e.lost_stdout + e.lost_stderr,
                                .oom = e.code & EXIT_MEMORY};
    switch ((enum call_exit_how)e.how) {
    case EXIT_CODE:
        ret->status = (int)(e.code & 0xff);
        return 0;
    case EXIT_SIGNAL:
        ret->signal = (int)(e.code & 0x7f);
        ret->status = STATUS_SIGNAL + ret->signal;
        return 0;
    case EXIT_TIMEOUT:
        ret->status = STATUS_TIMED_OUT;
        ret->timed_out = true;
        return 0;
    case EXIT_CANCELLED:
        ret->status = STATUS_SIGNAL + SIGKILL;
        ret->cancelled = true;
        return 0;
    case EXIT_LOST:
        break;
    }
    return err_set(err, ERR_INTERNAL,
                   "the command ended and nobody saw how: was the sandbox "
                   "stopped?");
}

static int take_frame(struct session *s, const struct frame *f, struct session_event *ret,
                      struct err *err)
{
    struct wire w;

    wire_init(&w, f->data, f->len);
    switch (f->type) {
    case FRAME_STARTED:
        *ret = (struct session_event){.what = SESSION_STARTED, .pid = wire_get_u32(&w)};
        return 0;
    case FRAME_STDOUT:
    case FRAME_STDERR:
        s->cursor += f->len;
        *ret = (struct session_event){.what =
                                          f->type == FRAME_STDERR ? SESSION_STDERR : SESSION_STDOUT,
                                      .data = f->data,
                                      .len = f->len};
        return 0;
    case FRAME_LOST:
        *ret = (struct session_event){.what = SESSION_LOST, .lost = wire_get_u64(&w)};
        s->cursor += ret->lost;
        return 0;
    case FRAME_EXIT:
        *ret = (struct session_event){.what = SESSION_EXIT};
        return take_exit(s, f, &ret->end, err);
    case FRAME_ERROR:
        s->ended = true;
        return call_error_get(f->data, f->len, err);
    default:
        return err_set(err, ERR_INTERNAL,
                       "the daemon sent a frame of unknown type %u: is it of "
                       "another version? (`cay version`)",
                       f->type);
    }
}

int session_take(struct session *s, struct session_event *ret, struct err *err)
{
    struct frame f;
    int r = s->ended ? 0 : frame_take(&s->in, &s->at, &f);

    if (r < 0)
        return err_set(err, ERR_INTERNAL, "the daemon's stream is broken");
    if (r == 0)
        return 0;
    return take_frame(s, &f, ret, err) < 0 ? -1 : 1;
}
