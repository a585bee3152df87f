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
#include "cli/limit_args.h"
#include "cli/term.h"
#include "cli/ui.h"
#include "libcay/session.h"
#include "proto/frame.h"

#define CHUNK  (64u << 10)
#define CTRL_P '\x10'
#define CTRL_Q '\x11'

struct attachment {
    struct session session;
    const struct attach_options *o;
    struct attach_result *result;
    int signals;        /* signalfd */
    bool stdin_open;    /* more to forward */
    bool has_ctrl_p;    /* the last key, which waits for the next */
    unsigned n_signals; /* that asked to end */
    bool ended;         /* EXIT or a reason to stop has been seen */
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
    if (limit_args(args, &o->rlimits, err) < 0)
        return -1;
    if (env_read_args(args, &o->env, err) == 0)
        return 0;
    json_decref(o->rlimits);
    o->rlimits = NULL;
    return -1;
}

void attach_done(struct attach_options *o)
{
    json_decref(o->command);
    json_decref(o->env);
    json_decref(o->rlimits);
    o->command = o->env = o->rlimits = NULL;
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
    if (o->rlimits)
        (void)json_object_set(body, "rlimits", o->rlimits);
    if (o->timeout_s > 0)
        (void)json_object_set_new(body, "timeout", json_real(o->timeout_s));
    return body;
}

/* ---- to the daemon ---- */

/* Ctrl-P and Ctrl-Q, as docker has them, leave a terminal that can be come back to. How much of
 * the keys is for the command. */
static size_t look_for_leaving(struct attachment *s, const char *keys, size_t len)
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

static void forward_stdin(struct attachment *s)
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
    if (n <= 0 || len > 0)
        session_input(&s->session, data, len);
}

static void handle_signal(struct attachment *s)
{
    struct signalfd_siginfo info;
    uint32_t rows, cols;

    if (read(s->signals, &info, sizeof(info)) != sizeof(info))
        return;
    if (info.ssi_signo == SIGWINCH) {
        if (s->o->tty) {
            term_size(STDOUT_FILENO, &rows, &cols);
            session_resize(&s->session, rows, cols);
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
    session_signal(&s->session, (int)info.ssi_signo);
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

static void capture_output(struct attachment *s, struct buf *to, const char *data, size_t len)
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

static int write_output(struct attachment *s, int which, const char *data, size_t len,
                        struct err *err)
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
    s->result->printed |= which == 0 && len > 0;
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

static void handle_exit(struct attachment *s, const struct session_end *end)
{
    s->ended = true;
    s->result->status = end->status;
    s->result->signal = end->signal;
    s->result->timed_out = end->timed_out;
    s->result->cancelled = end->cancelled;
    s->result->oom = end->oom;
    s->result->truncated |= end->lost > 0;
    s->result->duration_ms = end->duration_ms;
}

static void handle_lost(struct attachment *s, uint64_t lost)
{
    s->result->truncated = true;
    ui_warn("%llu bytes of the output are not kept any more", (unsigned long long)lost);
}

static int handle_event(struct attachment *s, const struct session_event *e, struct err *err)
{
    switch (e->what) {
    case SESSION_STARTED:
        break;
    case SESSION_STDOUT:
    case SESSION_STDERR:
        return write_output(s, e->what == SESSION_STDERR, e->data, e->len, err);
    case SESSION_LOST:
        handle_lost(s, e->lost);
        break;
    case SESSION_EXIT:
        handle_exit(s, &e->end);
        break;
    }
    return 0;
}

static int handle_events(struct attachment *s, struct err *err)
{
    struct session_event e;
    int r = 0;

    while (!s->ended && (r = session_take(&s->session, &e, err)) == 1)
        if (handle_event(s, &e, err) < 0)
            return -1;
    return r < 0 ? -1 : 0;
}

static int receive(struct attachment *s, struct err *err)
{
    /* A signal asks to stop waiting for a daemon that is away. */
    if (!session_receive(&s->session) &&
        session_come_back(&s->session, s->signals, SESSION_BACK_MS, err) < 0)
        return -1;
    return handle_events(s, err);
}

/* ---- the whole ---- */

static int flush_out(struct attachment *s, struct err *err)
{
    if (session_flush(&s->session, err) < 0)
        return -1;
    s->stdin_open = s->stdin_open && !s->session.input_ended;
    return 0;
}

static int loop(struct attachment *s, struct err *err)
{
    while (!s->ended) {
        bool sends = s->session.out.len > 0;
        struct pollfd fds[3] = {
            {.fd = s->session.fd, .events = (short)(POLLIN | (sends ? POLLOUT : 0))},
            {.fd = s->signals, .events = POLLIN},
            /* Input waits until the last piece has gone, so a command that does not read costs no
             * memory here, and its output is still taken. */
            {.fd = s->stdin_open && !sends ? STDIN_FILENO : -1, .events = POLLIN},
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

static int open_session(struct session *s, struct api *api, const char *id,
                        const struct attach_options *o, struct err *err)
{
    struct session_request request = {
        .body = exec_request_json(o),
        .again = o->again,
        .share = o->share,
        .tty = o->tty,
        .want_stdin = o->want_stdin,
        .detach = o->detach,
    };
    int r;

    if (o->tty)
        term_size(isatty(STDOUT_FILENO) ? STDOUT_FILENO : STDIN_FILENO, &request.rows,
                  &request.cols);
    r = session_open(s, api, id, &request, err);
    json_decref(request.body);
    return r;
}

static int run_session(struct attachment *s, struct err *err)
{
    const struct attach_options *o = s->o;
    auto_close int signals = -1;
    sigset_t mask, old;
    int r;

    (void)sigemptyset(&mask);
    for (size_t i = 0; i < 5; i++)
        (void)sigaddset(&mask, (int[]){SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH}[i]);
    (void)sigprocmask(SIG_BLOCK, &mask, &old);
    signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    s->signals = signals;
    for (int i = 0; i < 2; i++)
        s->escapes[i] = !o->tty && !o->raw && isatty(i ? STDERR_FILENO : STDOUT_FILENO) == 1;
    if (o->tty && o->want_stdin)
        term_raw();
    r = handle_events(s, err);
    if (r == 0)
        r = loop(s, err);
    term_restore();
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    return r;
}

int attach_exec(struct api *api, const char *id, const struct attach_options *o,
                struct attach_result *ret, struct err *err)
{
    struct attachment s = {.o = o, .result = ret, .stdin_open = o->want_stdin};
    int r;

    *ret = (struct attach_result){.status = STATUS_CAY};
    r = open_session(&s.session, api, id, o, err);
    if (r == 0)
        r = run_session(&s, err);
    if (r < 0)
        session_leave(&s.session); /* what went wrong stays as it was told */
    else
        session_close(&s.session);
    return r;
}

int attach_leave(struct api *api, const char *id, const struct attach_options *o, char ret[ID_SIZE],
                 struct err *err)
{
    struct session s;
    int r = open_session(&s, api, id, o, err);

    (void)snprintf(ret, ID_SIZE, "%s", s.exec_id);
    session_leave(&s); /* it has started: else there would be no stream */
    return r;
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
