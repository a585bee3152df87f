#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine_internal.h"
#include "model/limits.h"
#include "proto/frame.h"
#include "proto/wire.h"

/* The agent ends a command at its timeout; this long after, it is taken for broken. */
#define GRACE_MS 5000

/* ---- start ---- */

static char **env_list(json_t *env)
{
    size_t n = 0;
    char **list = xcalloc(json_object_size(env) + 1, sizeof(*list));
    const char *key;
    json_t *value;

    json_object_foreach(env, key, value)
    {
        list[n++] = xasprintf("%s=%s", key, json_string_value(value));
    }
    return list;
}

static int check_request(const struct exec_request *req, struct err *err)
{
    if (req->argv ? !req->argv[0] : !req->command || !*req->command)
        return err_set(err, ERR_INVALID, "command is required");
    if (req->argv && strv_len(req->argv) > CALL_ARGS_MAX)
        return err_set(err, ERR_TOO_LARGE, "command must have at most %d arguments", CALL_ARGS_MAX);
    if (req->cwd && strlen(req->cwd) > PATH_BYTES_MAX)
        return err_set(err, ERR_INVALID, "cwd must be at most %d bytes", PATH_BYTES_MAX);
    return req->env ? env_check(req->env, err) : 0;
}

static void put_call(struct buf *args, struct sandbox *sb, const struct exec_request *req,
                     const char *log_id, uint64_t output_max, uint32_t more_flags)
{
    char *shell[] = {(char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c",
                     (char *)(uintptr_t)req->command, NULL};
    json_t *vars = env_build(sb, req->user, req->tty, req->env);
    auto_strv char **env = env_list(vars);
    auto_free char *cwd = NULL;
    struct call_exec call = {
        .flags = (req->tty ? EXEC_TTY : 0) | (*log_id ? EXEC_BACKGROUND : 0) |
                 (req->want_stdin ? EXEC_STDIN : 0) | more_flags,
        .id = (char *)(uintptr_t)log_id,
        .argv = req->argv ? (char **)(uintptr_t)req->argv : shell,
        .env = env,
        .user = (char *)(uintptr_t)(req->user ? req->user : sb->image_user),
        .timeout_ms = req->timeout_ms,
        .output_max = output_max,
        .rows = req->rows,
        .cols = req->cols,
    };

    if (!req->cwd || !*req->cwd)
        cwd = xstrdup(sb->spec.workdir);
    else if (*req->cwd == '/')
        cwd = xstrdup(req->cwd);
    else
        cwd = xasprintf("%s/%s", sb->spec.workdir, req->cwd);
    call.cwd = cwd;
    call_exec_put(args, &call);
    json_decref(vars);
}

int exec_start(struct engine *e, struct sandbox *sb, const struct exec_request *req,
               const char *log_id, uint64_t output_max, int *ret_fd, uint32_t *ret_pid,
               struct err *err)
{
    auto_close int fd = -1;
    auto_buf struct buf args = {0}, payload = {0};
    struct wire w;
    uint32_t pid;

    if (check_request(req, err) < 0)
        return -1;
    buf_init(&args, FRAME_MAX);
    put_call(&args, sb, req, log_id, output_max, 0);
    if (agent_call(e, sb, BOX_EXEC, CALL_EXEC, &args, &fd, err) < 0 ||
        agent_expect(sb, fd, FRAME_STARTED, &payload, err) < 0)
        return -1;
    wire_init(&w, payload.data, payload.len);
    pid = wire_get_u32(&w);
    if (!wire_ok(&w))
        return agent_broken(err, "a process id that cannot be read");
    *ret_pid = pid;
    *ret_fd = steal_fd(fd);
    return 0;
}

static int64_t deadline_of(uint64_t timeout_ms)
{
    return timeout_ms ? mono_ns() + (int64_t)(timeout_ms + GRACE_MS) * 1000000 : 0;
}

static uint64_t capped_timeout(const struct engine *e, uint64_t timeout_ms)
{
    uint64_t max_ms = (uint64_t)e->config.max_command_s * 1000;

    return timeout_ms && timeout_ms < max_ms ? timeout_ms : max_ms;
}

/* Read as it comes, at the pace of its reader: no limit of output is needed. */
int engine_exec_open(struct engine *e, const char *id, const struct exec_request *req,
                     struct exec_stream *ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    struct exec_request capped = *req;
    struct exec_stream x = {.fd = -1, .engine = e, .opened_ns = mono_ns()};

    if (!req->attached)
        capped.timeout_ms = capped_timeout(e, req->timeout_ms);
    if (sandbox_get_running(e, id, &sb, err) < 0)
        return -1;
    x.deadline_ns = deadline_of(capped.timeout_ms);
    if (exec_start(e, sb, &capped, "", 0, &x.fd, &x.pid, err) < 0)
        return -1;
    if (capped.timeout_ms > 0)
        agent_bound_sends(x.fd, capped.timeout_ms + GRACE_MS);
    x.sandbox = steal_ptr(sb);
    x.payload = xcalloc(1, sizeof(*x.payload));
    *ret = x;
    return 0;
}

void engine_exec_close(struct exec_stream *x)
{
    close_fd(&x->fd);
    sandbox_unref(x->sandbox);
    x->sandbox = NULL;
    if (x->payload)
        buf_done(x->payload);
    free(x->payload);
    x->payload = NULL;
}

/* ---- output ---- */

int exit_code_of(const struct call_exit *x)
{
    switch (x->how) {
    case EXIT_CODE:
        return (int)(x->code & 0xff);
    case EXIT_TIMEOUT:
        return 124;
    case EXIT_SIGNAL:
        return 128 + (int)(x->code & 0x7f);
    default:
        return 128 + 9;
    }
}

/* Was it the kernel, for lack of memory? A shell passes on the death of its child as 137. */
static bool was_oom(struct engine *e, struct sandbox *sb, int exit_code)
{
    struct box_stats stats;
    bool grew;

    if (exit_code != 128 + 9 || runtime_stats(e->runtime, &sb->box, &stats, NULL) < 0)
        return false;
    pthread_mutex_lock(&sb->lock);
    grew = stats.oom_kills > sb->oom_seen;
    sb->oom_seen = stats.oom_kills;
    pthread_mutex_unlock(&sb->lock);
    return grew;
}

static int read_exit(struct engine *e, struct sandbox *sb, const char *data, size_t len,
                     struct exec_output *ret, struct err *err)
{
    static const char *const reasons[] = {
        [EXIT_CODE] = "exit",           [EXIT_SIGNAL] = "signal", [EXIT_TIMEOUT] = "timeout",
        [EXIT_CANCELLED] = "cancelled", [EXIT_LOST] = "signal",
    };
    struct call_exit end;
    struct wire w;

    wire_init(&w, data, len);
    call_exit_get(&w, &end);
    if (!wire_ok(&w) || end.how >= ARRAY_LEN(reasons))
        return agent_broken(err, "the end of a command in a form that cannot be read");
    *ret = (struct exec_output){
        .what = EXEC_EXIT,
        .data = "",
        .exit_code = exit_code_of(&end),
        .reason = reasons[end.how],
        .duration_ms = end.duration_ns ? (double)end.duration_ns / 1e6 : 0.001,
        .lost_stdout = end.lost_stdout,
        .lost_stderr = end.lost_stderr,
    };
    if ((end.how == EXIT_CODE || end.how == EXIT_SIGNAL) && was_oom(e, sb, ret->exit_code))
        ret->reason = "oom";
    return 0;
}

/* The stream broke off, but the box lives: the command took its supervisor with it (kill -1), or
 * the kernel did when memory ran out. That is an end of the command, and not of the sandbox. */
static int lost_supervisor(struct engine *e, struct sandbox *sb, int64_t opened_ns,
                           struct exec_output *ret, const struct err *why, struct err *err)
{
    struct pollfd box = {.fd = runtime_watch_fd(e->runtime, &sb->box), .events = POLLIN};

    if (!why->code || strcmp(why->code, "agent_lost") != 0 || box.fd < 0 || poll(&box, 1, 0) != 0) {
        if (err)
            *err = *why;
        return -1;
    }
    *ret = (struct exec_output){
        .what = EXEC_EXIT,
        .data = "",
        .exit_code = 128 + SIGKILL,
        .reason = was_oom(e, sb, 128 + SIGKILL) ? "oom" : "lost",
        .duration_ms = (double)(mono_ns() - opened_ns) / 1e6,
    };
    return 0;
}

/* Milliseconds until a stream is given up, for poll(). */
static int time_left(int64_t deadline_ns)
{
    int64_t left = (deadline_ns - mono_ns()) / 1000000;

    if (deadline_ns == 0)
        return -1;
    return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

static int silent(struct err *err)
{
    return err_code(err, ERR_TIMEOUT, "agent_timeout",
                    "the sandbox did not end the command after its timeout; remove the sandbox");
}

int engine_exec_next(struct exec_stream *x, struct exec_output *ret, struct err *err)
{
    struct pollfd p = {.fd = x->fd, .events = POLLIN};
    struct err why = {0};
    unsigned type;
    int n;

    do
        n = poll(&p, 1, time_left(x->deadline_ns));
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return silent(err);
    if (agent_next(x->sandbox, x->fd, &type, x->payload, &why) < 0)
        return lost_supervisor(x->engine, x->sandbox, x->opened_ns, ret, &why, err);
    if (type == FRAME_EXIT)
        return read_exit(x->engine, x->sandbox, x->payload->data, x->payload->len, ret, err);
    if (type != FRAME_STDOUT && type != FRAME_STDERR)
        return agent_broken(err, "output of the wrong kind");
    *ret = (struct exec_output){
        .what = type == FRAME_STDOUT ? EXEC_STDOUT : EXEC_STDERR,
        .data = x->payload->data,
        .len = x->payload->len,
    };
    return 0;
}

/* ---- to the end ---- */

/* A command whose output is wanted whole. The agent collects it (EXEC_COLLECT), so that in most
 * cases there is one thing to wait for and one to read. */
struct run {
    struct engine *engine;
    struct sandbox *sb;
    struct agent_reader reader;
    int64_t deadline_ns;
    bool started;
    struct pollfd caller;
    bool (*cancelled)(void *arg);
    void *arg;
    struct buf streams[2];
    uint64_t lost;
};

static void keep(struct run *x, const struct agent_frame *f)
{
    struct buf *b = &x->streams[f->type == FRAME_STDERR];
    size_t room = EXEC_OUTPUT_MAX - b->len;
    size_t n = f->len < room ? f->len : room;

    (void)buf_add(b, f->data, n);
    x->lost += f->len - n;
}

static int gave_up(const struct run *x, struct err *err)
{
    return x->started ? silent(err) : agent_silent(err);
}

/* Waits for output, looking at the caller's connection meanwhile. */
static int wait_output(struct run *x, struct err *err)
{
    for (;;) {
        struct pollfd p[2] = {{.fd = x->reader.fd, .events = POLLIN}, x->caller};
        int n = poll(p, 2, time_left(x->deadline_ns));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return gave_up(x, err);
        if (p[1].revents) {
            if (x->cancelled && x->cancelled(x->arg))
                return err_code(err, ERR_CONFLICT, "cancelled",
                                "the caller went away and the command was ended");
            /* Bytes of a next request, or only half of the connection closed: not asked again. */
            if (p[1].revents & (POLLRDHUP | POLLHUP | POLLERR))
                x->caller.fd = -1;
            x->caller.events = POLLRDHUP;
        }
        if (p[0].revents)
            return 0;
    }
}

/* 1 = that was the end. */
static int on_frame(struct run *x, const struct agent_frame *f, struct exec_output *end,
                    struct err *err)
{
    if (x->started && f->type == FRAME_EXIT)
        return read_exit(x->engine, x->sb, f->data, f->len, end, err) < 0 ? -1 : 1;
    if (x->started && (f->type == FRAME_STDOUT || f->type == FRAME_STDERR)) {
        keep(x, f);
        return 0;
    }
    if (x->started || f->type != FRAME_STARTED)
        return agent_broken(err, "output of the wrong kind");
    x->started = true;
    return 0;
}

static int collect(struct run *x, int64_t deadline_ns, struct exec_output *end, struct err *err)
{
    struct agent_frame f;
    int r;

    for (;;) {
        while ((r = agent_take(&x->reader, &f, err)) == 1) {
            r = on_frame(x, &f, end, err);
            if (r != 0)
                return r < 0 ? -1 : 0;
            x->deadline_ns = deadline_ns; /* it has started */
        }
        /* An agent that floods never lets poll() reach the deadline. */
        if (r == 0 && time_left(x->deadline_ns) == 0)
            r = gave_up(x, err);
        if (r < 0 || wait_output(x, err) < 0 || agent_fill(&x->reader, err) < 0)
            return -1;
    }
}

static json_t *result_json(const struct run *x, const struct exec_output *end)
{
    bool truncated = x->lost + end->lost_stdout + end->lost_stderr > 0;
    json_t *o = json_object();

    (void)json_object_set_new(o, "exitCode", json_integer(end->exit_code));
    (void)json_object_set_new(o, "stdout", json_of_bytes(x->streams[0].data, x->streams[0].len));
    (void)json_object_set_new(o, "stderr", json_of_bytes(x->streams[1].data, x->streams[1].len));
    (void)json_object_set_new(o, "duration", json_real(end->duration_ms));
    (void)json_object_set_new(o, "reason", json_string(end->reason));
    (void)json_object_set_new(o, "truncated", json_boolean(truncated));
    return o;
}

static void run_done(struct run *x)
{
    close_fd(&x->reader.fd);
    buf_done(&x->reader.in);
    buf_done(&x->streams[0]);
    buf_done(&x->streams[1]);
}

int engine_exec_run(struct engine *e, const char *id, const struct exec_request *req, int cancel_fd,
                    bool (*cancelled)(void *arg), void *arg, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_buf struct buf args = {0};
    struct exec_request capped = *req;
    struct run x = {.engine = e, .cancelled = cancelled, .arg = arg};
    int64_t opened_ns = mono_ns();
    struct exec_output end;
    struct err why = {0};
    int fd, r;

    capped.timeout_ms = capped_timeout(e, req->timeout_ms);
    if (sandbox_get_running(e, id, &sb, err) < 0 || check_request(req, err) < 0)
        return -1;
    buf_init(&args, FRAME_MAX);
    put_call(&args, sb, &capped, "", EXEC_OUTPUT_MAX, EXEC_COLLECT);
    if (agent_open(e, sb, BOX_EXEC, CALL_EXEC, &args, &fd, err) < 0)
        return -1;
    x.sb = sb;
    x.caller = (struct pollfd){.fd = cancel_fd, .events = POLLIN | POLLRDHUP};
    x.deadline_ns = mono_ns() + AGENT_WAIT_MS * 1000000ll; /* to say that it has started */
    agent_reader_init(&x.reader, sb, fd);
    buf_init(&x.streams[0], EXEC_OUTPUT_MAX);
    buf_init(&x.streams[1], EXEC_OUTPUT_MAX);
    r = collect(&x, deadline_of(capped.timeout_ms), &end, &why);
    if (r < 0)
        r = lost_supervisor(e, sb, opened_ns, &end, &why, err);
    if (r == 0 && strcmp(end.reason, "timeout") == 0)
        r = err_code(err, ERR_TIMEOUT, "command_timeout", "Command timed out after %llums",
                     (unsigned long long)capped.timeout_ms);
    if (r == 0)
        *ret = result_json(&x, &end);
    run_done(&x);
    return r;
}
