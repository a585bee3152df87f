#include "cli/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/args.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/ending.h"
#include "cli/env_args.h"
#include "cli/escape.h"
#include "cli/term.h"
#include "cli/ui.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"

#define CHUNK   (64u << 10)
#define BACK_MS 10000 /* so long a daemon that is away is waited for */
#define TRY_MS  200
#define CTRL_P  '\x10'
#define CTRL_Q  '\x11'

struct session {
    struct api *api;
    const char *id; /* of the sandbox */
    char exec_id[ID_SIZE];
    uint64_t cursor; /* of the output that has come */
    const struct attach_options *o;
    struct attach_result *result;
    int fd;             /* the stream, non-blocking */
    int signals;        /* signalfd */
    bool stdin_open;    /* more to forward */
    bool has_sent;      /* some of it has been */
    bool has_ctrl_p;    /* the last key, which waits for the next */
    unsigned n_signals; /* that asked to end */
    bool ended;         /* EXIT or a reason to stop has been seen */
    struct buf in, out; /* bytes from and for the stream */
    size_t at;          /* so much of in is used up */
    struct escape shown[2];
    bool escapes[2];
};

json_t *command_line_json(const struct args *args)
{
    json_t *line = json_array();

    for (size_t i = 0; line && i < args->n_rest; i++) {
        if (json_array_append_new(line, json_string(args->rest[i])) < 0) {
            json_decref(line);
            line = NULL;
        }
    }
    return line;
}

int attach_read_args(struct attach_options *o, const struct args *args, struct err *err)
{
    o->tty = args_has(args, "tty");
    o->user = args_text(args, "user");
    o->timeout_s = args_number(args, "timeout", 0);
    o->raw = args_has(args, "raw");
    /* Only where somebody asked for it: a loop that feeds on a list keeps its input. */
    o->want_stdin = args_has(args, "interactive") && fcntl(STDIN_FILENO, F_GETFD) >= 0;
    if (o->tty && o->want_stdin && isatty(STDIN_FILENO) != 1 && !args_has(args, "detach"))
        return err_set(err, ERR_INVALID,
                       "-t with -i needs a terminal to type into: leave -t out to pass a pipe or a "
                       "file on");
    return env_read_args(args, &o->env, err);
}

void attach_done(struct attach_options *o)
{
    json_decref(o->command);
    json_decref(o->env);
    o->command = o->env = NULL;
}

json_t *exec_request_json(const struct attach_options *o)
{
    json_t *body = json_object();

    (void)json_object_set(body, "command", o->command);
    if (o->cwd)
        (void)json_object_set_new(body, "cwd", json_string(o->cwd));
    if (o->user)
        (void)json_object_set_new(body, "user", json_string(o->user));
    if (o->env)
        (void)json_object_set(body, "env", o->env);
    if (o->timeout_s > 0)
        (void)json_object_set_new(body, "timeout", json_real(o->timeout_s));
    return body;
}

static void add_terminal(const struct attach_options *o, json_t *body)
{
    uint32_t rows, cols;

    if (!o->tty)
        return;
    term_size(isatty(STDOUT_FILENO) ? STDOUT_FILENO : STDIN_FILENO, &rows, &cols);
    (void)json_object_set_new(body, "rows", json_integer(rows));
    (void)json_object_set_new(body, "cols", json_integer(cols));
}

/* The id is ours, so that we know it whatever becomes of the answer. */
static json_t *attach_request_json(const struct attach_options *o, const char *exec_id)
{
    json_t *body = exec_request_json(o);

    (void)json_object_set_new(body, "stdin", json_boolean(o->want_stdin));
    (void)json_object_set_new(body, "execId", json_string(exec_id));
    (void)json_object_set_new(body, "detach", json_boolean(o->detach));
    if (o->tty)
        (void)json_object_set_new(body, "tty", json_true());
    add_terminal(o, body);
    return body;
}

static json_t *again_request_json(const struct attach_options *o, uint64_t cursor)
{
    json_t *body =
        json_pack("{s:b, s:I}", "stdin", (int)o->want_stdin, "cursor", (json_int_t)cursor);

    add_terminal(o, body);
    return body;
}

/* ---- to the daemon ---- */

/* out has room for a few frames: stdin is only read while it is empty, and the rest is small. */
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

/* Ctrl-P and Ctrl-Q, as docker has them, leave a terminal that can be come back to. How much of
 * the keys is for the command. */
static size_t look_for_leaving(struct session *s, const char *keys, size_t len)
{
    const char *leave = memmem(keys, len, (char[]){CTRL_P, CTRL_Q}, 2);

    if (leave) {
        s->result->left = s->ended = true;
        s->result->status = STATUS_OK;
        return (size_t)(leave - keys);
    }
    s->has_ctrl_p = len > 0 && keys[len - 1] == CTRL_P;
    return len - s->has_ctrl_p;
}

static void forward_stdin(struct session *s)
{
    char data[CHUNK];
    size_t kept = s->has_ctrl_p, len;
    ssize_t n = read(STDIN_FILENO, data + kept, sizeof(data) - kept);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (kept)
        data[0] = CTRL_P;
    len = n > 0 ? kept + (size_t)n : 0;
    if (s->o->again && s->o->tty)
        len = look_for_leaving(s, data, len);
    /* An input that cannot be read any more has ended for the command too. */
    if (n <= 0)
        s->stdin_open = false;
    s->has_sent |= n > 0;
    if (n <= 0 || len > 0)
        queue_frame(s, FRAME_STDIN, data, len);
}

static void handle_signal(struct session *s)
{
    struct signalfd_siginfo info;
    uint32_t numbers[2];

    if (read(s->signals, &info, sizeof(info)) != sizeof(info))
        return;
    if (info.ssi_signo == SIGWINCH) {
        if (s->o->tty) {
            term_size(STDOUT_FILENO, &numbers[0], &numbers[1]);
            queue_numbers(s, FRAME_RESIZE, numbers, 2);
        }
        return;
    }
    /* A terminal that is closed is no reason to end what can be come back to. */
    if (++s->n_signals > 1 || (s->o->again && info.ssi_signo == SIGHUP)) {
        s->result->status = STATUS_SIGNAL + (int)info.ssi_signo;
        s->ended = true;
        return;
    }
    s->result->interrupted = true;
    numbers[0] = info.ssi_signo;
    queue_numbers(s, FRAME_SIGNAL, numbers, 1);
}

static int flush_out(struct session *s, struct err *err)
{
    ssize_t n;

    if (s->out.len == 0)
        return 0;
    n = write(s->fd, s->out.data, s->out.len);
    if (n >= 0) {
        buf_shift(&s->out, (size_t)n);
        return 0;
    }
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    if (errno == EPIPE || errno == ECONNRESET) {
        /* The answer may still be on its way to us. */
        s->stdin_open = false;
        buf_clear(&s->out);
        return 0;
    }
    return err_sys(err, errno, "write to the daemon");
}

/* ---- from the daemon ---- */

/* Whoever started us may have left a pipe that does not block: then wait for room. */
static int write_waiting(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EAGAIN) {
            (void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
            continue;
        }
        if (n < 0 && errno != EINTR)
            return -errno;
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static void capture_output(struct session *s, struct buf *to, const char *data, size_t len)
{
    size_t room = to->max - to->len;

    if (len > room) {
        s->result->truncated = true;
        len = room;
    }
    (void)buf_add(to, data, len);
}

/* The last bytes of it, for ending_hint(). */
static void keep_tail(struct attach_result *r, const char *data, size_t len)
{
    size_t n = len < sizeof(r->tail) ? len : sizeof(r->tail);
    size_t keep = r->tail_len < sizeof(r->tail) - n ? r->tail_len : sizeof(r->tail) - n;

    memmove(r->tail, r->tail + r->tail_len - keep, keep);
    memcpy(r->tail + keep, data + len - n, n);
    r->tail_len = keep + n;
}

static int write_output(struct session *s, int which, const char *data, size_t len, struct err *err)
{
    struct buf *capture = which ? s->o->error : s->o->out;
    auto_buf struct buf shown;
    int r;

    buf_init(&shown, 4 * FRAME_MAX + 256);
    if (which || s->o->tty)
        keep_tail(s->result, data, len);
    if (capture) {
        capture_output(s, capture, data, len);
        return 0;
    }
    if (s->escapes[which]) {
        escape_add(&s->shown[which], ESCAPE_OUTPUT, data, len, &shown);
        data = shown.data;
        len = shown.len;
    }
    r = write_waiting(which ? STDERR_FILENO : STDOUT_FILENO, data, len);
    if (r < 0 && r != -EPIPE)
        return err_sys(err, -r, "write the command's output");
    if (r < 0) {
        /* Whoever read our output has gone: the command goes too, as it would in a pipeline. */
        s->result->status = STATUS_SIGNAL + SIGPIPE;
        s->ended = true;
    }
    return 0;
}

static int handle_exit(struct session *s, const char *payload, size_t len, struct err *err)
{
    struct call_exit e;
    struct wire w;

    wire_init(&w, payload, len);
    call_exit_get(&w, &e);
    if (!wire_ok(&w))
        return err_set(err, ERR_INTERNAL,
                       "the daemon sent an exit that cannot be read: is it of "
                       "another version? (`cay version`)");
    s->ended = true;
    s->result->duration_ms = (double)e.duration_ns / 1e6;
    s->result->truncated |= e.lost_stdout > 0 || e.lost_stderr > 0;
    s->result->oom = e.code & EXIT_MEMORY;
    switch ((enum call_exit_how)e.how) {
    case EXIT_CODE:
        s->result->status = (int)(e.code & 0xff);
        return 0;
    case EXIT_SIGNAL:
        s->result->signal = (int)(e.code & 0x7f);
        s->result->status = STATUS_SIGNAL + s->result->signal;
        return 0;
    case EXIT_TIMEOUT:
        s->result->status = STATUS_TIMEOUT;
        s->result->timed_out = true;
        return 0;
    case EXIT_CANCELLED:
        s->result->status = STATUS_SIGNAL + SIGKILL;
        s->result->cancelled = true;
        return 0;
    case EXIT_LOST:
        break;
    }
    return err_set(err, ERR_INTERNAL,
                   "the command ended and nobody saw how: was the sandbox "
                   "stopped?");
}

static int handle_lost(struct session *s, const struct frame *f)
{
    struct wire w;
    uint64_t lost;

    wire_init(&w, f->data, f->len);
    lost = wire_get_u64(&w);
    s->cursor += lost;
    s->result->truncated = true;
    ui_warn("%llu bytes of the output are not kept any more", (unsigned long long)lost);
    return 0;
}

static int handle_frame(struct session *s, const struct frame *f, struct err *err)
{
    switch (f->type) {
    case FRAME_STARTED:
        return 0;
    case FRAME_STDOUT:
    case FRAME_STDERR:
        s->cursor += f->len;
        return write_output(s, f->type == FRAME_STDERR, f->data, f->len, err);
    case FRAME_LOST:
        return handle_lost(s, f);
    case FRAME_EXIT:
        return handle_exit(s, f->data, f->len, err);
    case FRAME_ERROR:
        return call_error_get(f->data, f->len, err);
    default:
        return err_set(err, ERR_INTERNAL,
                       "the daemon sent a frame of unknown type %u: is it of "
                       "another version? (`cay version`)",
                       f->type);
    }
}

static int handle_frames(struct session *s, struct err *err)
{
    struct frame f;
    int r = 0;

    while (!s->ended && (r = frame_take(&s->in, &s->at, &f)) == 1)
        if (handle_frame(s, &f, err) < 0)
            return -1;
    return r < 0 ? err_set(err, ERR_INTERNAL, "the daemon's stream is broken") : 0;
}

/* ---- the connection ---- */

static int open_stream(struct api *api, const char *id, const struct attach_options *o,
                       const char *exec_id, uint64_t cursor, int *ret_fd, struct err *err)
{
    json_t *body = o->again ? again_request_json(o, cursor) : attach_request_json(o, exec_id);
    auto_free char *text = json_dumps(body, JSON_COMPACT);
    auto_free char *path = o->again
                               ? xasprintf("/sandbox/sandboxes/%s/exec/%s/attach", id, o->again)
                               : xasprintf("/sandbox/sandboxes/%s/exec/attach", id);
    struct http_response response;

    json_decref(body);
    if (!text)
        return err_set(err, ERR_INVALID, "the command is not valid UTF-8 text");
    if (http_client_upgrade(api->http, path, "cay-exec", text, strlen(text), &response, ret_fd,
                            err) < 0)
        return api_explain(api, err);
    if (*ret_fd >= 0)
        return 0;
    if (api_check(api, &response, err) < 0)
        return -1;
    return err_set(err, ERR_INTERNAL, "%s does not know how to attach: is it a cay daemon?",
                   api->target);
}

static int take_early(struct session *s, struct err *err)
{
    size_t n;

    do {
        char *room = buf_room(&s->in, CHUNK);

        n = room ? http_client_early(s->api->http, room, CHUNK) : 0;
        s->in.len += n;
    } while (n > 0);
    return handle_frames(s, err);
}

/* ---- coming back ---- */

static int gone(const struct session *s, struct err *err)
{
    return err_set(err, ERR_UNAVAILABLE,
                   "the connection to the daemon ended, the command goes on: `cay attach %s %s` "
                   "comes back to it; `logs` instead of `attach` shows its output, `attach --end` "
                   "ends it",
                   s->id, s->exec_id);
}

/* 1 when it is there again, 0 when the daemon is still away, -1. */
static int try_again(struct session *s, struct err *err)
{
    struct attach_options o = *s->o;
    int fd;

    o.again = s->exec_id;
    if (open_stream(s->api, s->id, &o, s->exec_id, s->cursor, &fd, err) < 0) {
        /* Nobody listens, or it does not know the sandbox yet, or the old connection has not been
         * seen to end. */
        return err->kind == ERR_UNAVAILABLE || err->kind == ERR_CONFLICT ? 0 : -1;
    }
    close_fd(&s->fd);
    s->fd = fd;
    (void)fd_set_nonblock(fd, true);
    buf_clear(&s->in);
    buf_clear(&s->out);
    s->at = 0;
    if (s->o->want_stdin && !s->stdin_open)
        queue_frame(s, FRAME_STDIN, NULL, 0); /* its end may not have arrived */
    return take_early(s, err) < 0 ? -1 : 1;
}

/* Input of a pipe that was under way may or may not have arrived, so nobody can go on with it. */
static bool can_come_back(const struct session *s)
{
    return s->o->tty || !s->has_sent;
}

static int come_back(struct session *s, struct err *err)
{
    struct pollfd p = {.fd = s->signals, .events = POLLIN};
    struct err why = {0};

    for (int left = BACK_MS; can_come_back(s) && left > 0; left -= TRY_MS) {
        int r = try_again(s, &why);

        if (r > 0)
            return 0;
        if (r < 0 && strcmp(api_last_code(), "exec_not_found") == 0) { /* it does not go on */
            *err = why;
            return err_wrap(err, "the connection to the daemon ended");
        }
        if (r < 0 || poll(&p, 1, TRY_MS) > 0) /* a signal asks to stop waiting */
            break;
    }
    return gone(s, err);
}

static int receive(struct session *s, struct err *err)
{
    ssize_t n = frame_fill(s->fd, &s->in, &s->at, CHUNK);

    if (n == -EAGAIN)
        return 0;
    if (n <= 0)
        return come_back(s, err);
    return handle_frames(s, err);
}

static int loop(struct session *s, struct err *err)
{
    while (!s->ended) {
        struct pollfd fds[3] = {
            {.fd = s->fd, .events = (short)(POLLIN | (s->out.len > 0 ? POLLOUT : 0))},
            {.fd = s->signals, .events = POLLIN},
            /* Input waits until the last piece has gone, so a command that does not read costs no
             * memory here, and its output is still taken. */
            {.fd = s->stdin_open && s->out.len == 0 ? STDIN_FILENO : -1, .events = POLLIN},
        };

        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            return err_sys(err, errno, "poll");
        if (fds[1].revents)
            handle_signal(s);
        if (fds[2].revents)
            forward_stdin(s);
        if (flush_out(s, err) < 0)
            return -1;
        if (!s->ended && fds[0].revents & (POLLIN | POLLHUP | POLLERR) && receive(s, err) < 0)
            return -1;
    }
    return 0;
}

int attach_exec(struct api *api, const char *id, const struct attach_options *o,
                struct attach_result *ret, struct err *err)
{
    auto_close int signals = -1;
    struct session s = {
        .api = api, .id = id, .o = o, .result = ret, .fd = -1, .stdin_open = o->want_stdin};
    sigset_t mask, old;
    int r;

    *ret = (struct attach_result){.status = STATUS_CAY};
    if (o->again)
        (void)snprintf(s.exec_id, sizeof(s.exec_id), "%s", o->again);
    else
        id_new(s.exec_id, "ex");
    if (open_stream(api, id, o, s.exec_id, 0, &s.fd, err) < 0)
        return -1;
    (void)sigemptyset(&mask);
    for (size_t i = 0; i < 5; i++)
        (void)sigaddset(&mask, (int[]){SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH}[i]);
    (void)sigprocmask(SIG_BLOCK, &mask, &old);
    signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    s.signals = signals;
    (void)fd_set_nonblock(s.fd, true);
    buf_init(&s.in, FRAME_BUFFER_MAX(2 * CHUNK));
    buf_init(&s.out, 4 * CHUNK);
    for (int i = 0; i < 2; i++)
        s.escapes[i] = !o->tty && !o->raw && isatty(i ? STDERR_FILENO : STDOUT_FILENO) == 1;
    if (o->tty && o->want_stdin)
        term_raw();
    r = take_early(&s, err);
    if (r == 0)
        r = loop(&s, err);
    term_restore();
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    buf_done(&s.in);
    buf_done(&s.out);
    close_fd(&s.fd);
    return r;
}

int attach_leave(struct api *api, const char *id, const struct attach_options *o, char ret[ID_SIZE],
                 struct err *err)
{
    int fd;

    id_new(ret, "ex");
    if (open_stream(api, id, o, ret, 0, &fd, err) < 0)
        return -1;
    (void)close(fd); /* it has started: else there would be no stream */
    return 0;
}

static json_t *clean_json(const struct buf *b)
{
    auto_buf struct buf clean = {0};

    buf_init(&clean, 3 * (size_t)CAPTURE_MAX + 16);
    if (b->len > 0)
        (void)utf8_clean(&clean, b->data, b->len);
    return json_stringn(clean.len ? clean.data : "", clean.len);
}

json_t *attach_result_json(struct api *api, const char *id, const struct attach_options *o,
                           const struct attach_result *result)
{
    auto_free char *words = ending_words(api, id, o, result);
    auto_free char *hint = ending_hint(api, id, result);
    json_t *object =
        json_pack("{s:i, s:o, s:o, s:b}", "exitCode", result->status, "stdout", clean_json(o->out),
                  "stderr", clean_json(o->error), "truncated", result->truncated);

    if (result->oom)
        (void)json_object_set_new(object, "oom", json_true());
    json_put_text(object, "message", words);
    json_put_text(object, "hint", hint);
    return object;
}

int attach_fail_status(const struct err *err)
{
    const char *code = err->code ? err->code : api_last_code();

    if (strcmp(code, "command_not_found") == 0)
        return STATUS_NOT_FOUND;
    if (strcmp(code, "not_executable") == 0)
        return STATUS_NOT_EXECUTABLE;
    if (err->kind == ERR_TIMEOUT)
        return STATUS_TIMEOUT;
    return api_no_daemon() ? STATUS_NO_DAEMON : STATUS_CAY;
}
