#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine_internal.h"
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
    if (req->cwd && strlen(req->cwd) >= 4096)
        return err_set(err, ERR_INVALID, "cwd must be at most 4095 bytes");
    return req->env ? env_check(req->env, err) : 0;
}

static void put_call(struct buf *args, struct sandbox *sb, const struct exec_request *req,
                     const char *log_id, uint64_t output_max)
{
    char *shell[] = {(char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c",
                     (char *)(uintptr_t)req->command, NULL};
    json_t *vars = env_build(sb, req->user, req->tty, req->env);
    auto_strv char **env = env_list(vars);
    auto_free char *cwd = NULL;
    struct call_exec call = {
        .flags = (req->tty ? EXEC_TTY : 0) | (*log_id ? EXEC_BACKGROUND : 0) |
                 (req->want_stdin ? EXEC_STDIN : 0),
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
    put_call(&args, sb, req, log_id, output_max);
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

static int open_stream(struct engine *e, const char *id, const struct exec_request *req,
                       uint64_t output_max, struct exec_stream *ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    struct exec_request capped = *req;
    uint64_t max_ms = (uint64_t)e->config.max_command_s * 1000;
    struct exec_stream x = {.fd = -1, .engine = e};

    if (!req->attached && (capped.timeout_ms == 0 || capped.timeout_ms > max_ms))
        capped.timeout_ms = max_ms;
    if (sandbox_get_running(e, id, &sb, err) < 0)
        return -1;
    if (capped.timeout_ms > 0)
        x.deadline_ns = mono_ns() + (int64_t)(capped.timeout_ms + GRACE_MS) * 1000000;
    if (exec_start(e, sb, &capped, "", output_max, &x.fd, &x.pid, err) < 0)
        return -1;
    if (capped.timeout_ms > 0)
        agent_bound_sends(x.fd, capped.timeout_ms + GRACE_MS);
    x.sandbox = steal_ptr(sb);
    x.payload = xcalloc(1, sizeof(*x.payload));
    *ret = x;
    return 0;
}

/* Read as it comes, at the pace of its reader: no limit is needed. */
int engine_exec_open(struct engine *e, const char *id, const struct exec_request *req,
                     struct exec_stream *ret, struct err *err)
{
    return open_stream(e, id, req, 0, ret, err);
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

static int read_exit(struct exec_stream *x, struct exec_output *ret, struct err *err)
{
    static const char *const reasons[] = {
        [EXIT_CODE] = "exit",           [EXIT_SIGNAL] = "signal", [EXIT_TIMEOUT] = "timeout",
        [EXIT_CANCELLED] = "cancelled", [EXIT_LOST] = "signal",
    };
    struct call_exit end;
    struct wire w;

    wire_init(&w, x->payload->data, x->payload->len);
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
    if ((end.how == EXIT_CODE || end.how == EXIT_SIGNAL) &&
        was_oom(x->engine, x->sandbox, ret->exit_code))
        ret->reason = "oom";
    return 0;
}

/* Milliseconds until the stream is given up, for poll(). */
static int time_left(const struct exec_stream *x)
{
    int64_t left = (x->deadline_ns - mono_ns()) / 1000000;

    if (x->deadline_ns == 0)
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
    unsigned type;
    int n;

    do
        n = poll(&p, 1, time_left(x));
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return silent(err);
    if (agent_next(x->sandbox, x->fd, &type, x->payload, err) < 0)
        return -1;
    if (type == FRAME_EXIT)
        return read_exit(x, ret, err);
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

struct collected {
    struct buf streams[2];
    uint64_t lost;
};

static void keep(struct collected *c, const struct exec_output *out)
{
    struct buf *b = &c->streams[out->what == EXEC_STDERR];
    size_t room = EXEC_OUTPUT_MAX - b->len;
    size_t n = out->len < room ? out->len : room;

    (void)buf_add(b, out->data, n);
    c->lost += out->len - n;
}

/* Waits for output, looking at the caller's connection meanwhile. 1 = output, 0 = the caller left.
 */
static int wait_output(const struct exec_stream *x, struct pollfd *caller,
                       bool (*cancelled)(void *arg), void *arg, struct err *err)
{
    for (;;) {
        struct pollfd p[2] = {{.fd = x->fd, .events = POLLIN}, *caller};
        int n = poll(p, 2, time_left(x));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return silent(err);
        if (p[1].revents) {
            if (cancelled && cancelled(arg))
                return 0;
            /* Bytes of a next request, or only half of the connection closed: not asked again. */
            if (p[1].revents & (POLLRDHUP | POLLHUP | POLLERR))
                caller->fd = -1;
            caller->events = POLLRDHUP;
        }
        if (p[0].revents)
            return 1;
    }
}

static int collect(struct exec_stream *x, int cancel_fd, bool (*cancelled)(void *arg), void *arg,
                   struct collected *c, struct exec_output *end, struct err *err)
{
    struct pollfd caller = {.fd = cancel_fd, .events = POLLIN | POLLRDHUP};

    for (;;) {
        int r = wait_output(x, &caller, cancelled, arg, err);

        if (r == 0)
            return err_code(err, ERR_CONFLICT, "cancelled",
                            "the caller went away and the command was ended");
        if (r < 0 || engine_exec_next(x, end, err) < 0)
            return -1;
        if (end->what == EXEC_EXIT)
            return 0;
        keep(c, end);
        /* An agent that floods never lets poll() reach the deadline. */
        if (time_left(x) == 0)
            return silent(err);
    }
}

static json_t *result_json(const struct collected *c, const struct exec_output *end)
{
    bool truncated = c->lost + end->lost_stdout + end->lost_stderr > 0;
    json_t *o = json_object();

    (void)json_object_set_new(o, "exitCode", json_integer(end->exit_code));
    (void)json_object_set_new(o, "stdout", json_of_bytes(c->streams[0].data, c->streams[0].len));
    (void)json_object_set_new(o, "stderr", json_of_bytes(c->streams[1].data, c->streams[1].len));
    (void)json_object_set_new(o, "duration", json_real(end->duration_ms));
    (void)json_object_set_new(o, "reason", json_string(end->reason));
    (void)json_object_set_new(o, "truncated", json_boolean(truncated));
    return o;
}

int engine_exec_run(struct engine *e, const char *id, const struct exec_request *req, int cancel_fd,
                    bool (*cancelled)(void *arg), void *arg, json_t **ret, struct err *err)
{
    uint64_t max_ms = (uint64_t)e->config.max_command_s * 1000;
    uint64_t timeout = req->timeout_ms && req->timeout_ms < max_ms ? req->timeout_ms : max_ms;
    struct collected c = {0};
    struct exec_stream x;
    struct exec_output end;
    int r;

    if (open_stream(e, id, req, EXEC_OUTPUT_MAX, &x, err) < 0)
        return -1;
    buf_init(&c.streams[0], EXEC_OUTPUT_MAX);
    buf_init(&c.streams[1], EXEC_OUTPUT_MAX);
    r = collect(&x, cancel_fd, cancelled, arg, &c, &end, err);
    if (r == 0 && strcmp(end.reason, "timeout") == 0)
        r = err_code(err, ERR_TIMEOUT, "command_timeout", "Command timed out after %llums",
                     (unsigned long long)timeout);
    if (r == 0)
        *ret = result_json(&c, &end);
    buf_done(&c.streams[0]);
    buf_done(&c.streams[1]);
    engine_exec_close(&x);
    return r;
}
