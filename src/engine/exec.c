#include "engine/exec.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/agent_client_internal.h"
#include "engine/agent_wait_internal.h"
#include "engine/engine_internal.h"
#include "engine/env_internal.h"
#include "engine/exec_internal.h"
#include "engine/network_internal.h"
#include "engine/sandbox_internal.h"
#include "model/limits.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"

/* How a command is started, and how it is given input. What it puts out is in exec_output.c. */

#define COMMAND_TOLD 200         /* bytes of a command in an event */
#define INPUT_FREE   (64u << 10) /* of input, that the memory budget is not asked for */

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

static int check_limits(const struct exec_request *req, struct err *err)
{
    uint32_t seen = 0;

    for (size_t i = 0; i < req->n_limits; i++) {
        const struct rlimit_wish *w = &req->limits[i];

        if (w->resource >= RLIMITS_MAX || (seen & 1u << w->resource))
            return err_set(err, ERR_INVALID, "rlimits must name each resource once");
        if (w->soft > w->hard)
            return err_set(err, ERR_INVALID, "the soft limit of %s must not be above its hard one",
                           rlimit_words[w->resource]);
        seen |= 1u << w->resource;
    }
    return 0;
}

int exec_check_request(const struct exec_request *req, struct err *err)
{
    if (req->argv ? !req->argv[0] : !req->command || !*req->command)
        return err_set(err, ERR_INVALID, "command is required");
    if (req->argv && strv_len(req->argv) > CALL_ARGS_MAX)
        return err_set(err, ERR_TOO_LARGE, "command must have at most %d arguments", CALL_ARGS_MAX);
    if (req->cwd && strlen(req->cwd) > PATH_BYTES_MAX)
        return err_set(err, ERR_INVALID, "cwd must be at most %d bytes", PATH_BYTES_MAX);
    if (req->exec_id && !id_valid(req->exec_id, "ex"))
        return err_set(err, ERR_INVALID, "execId must be ex_ and 24 hex digits");
    if (req->input_len > EXEC_STDIN_MAX)
        return err_set(err, ERR_TOO_LARGE,
                       "stdin must be at most %u bytes; attach to the command, or put it in a file",
                       EXEC_STDIN_MAX);
    if (check_limits(req, err) < 0)
        return -1;
    return req->env ? env_check(req->env, err) : 0;
}

/* Without a network there is nothing to try again for, as pip and npm would for a minute and more.
 * pip says only when it tries again what the matter is. */
static void spare_retries(struct sandbox *sb, json_t *env)
{
    static const struct {
        const char *name, *value;
    } counts[] = {{"PIP_RETRIES", "1"}, {"npm_config_fetch_retries", "0"}};
    bool has = network_has(sb);

    for (size_t i = 0; !has && i < ARRAY_LEN(counts); i++)
        if (!json_object_get(env, counts[i].name))
            (void)json_object_set_new(env, counts[i].name, json_string(counts[i].value));
}

static json_t *env_for(struct sandbox *sb, const struct exec_request *req)
{
    json_t *env = env_build(sb, req->user, req->tty, req->env);

    spare_retries(sb, env);
    return env;
}

static char *cwd_of(const struct sandbox *sb, const struct exec_request *req)
{
    if (!req->cwd || !*req->cwd)
        return xstrdup(sb->spec.workdir);
    if (*req->cwd == '/')
        return xstrdup(req->cwd);
    return xasprintf("%s/%s", sb->spec.workdir, req->cwd);
}

static void put_call(struct buf *args, struct sandbox *sb, const struct exec_request *req,
                     const char *exec_id, bool background, uint64_t output_max)
{
    char *shell[] = {(char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c",
                     (char *)(uintptr_t)req->command, NULL};
    json_t *vars = env_for(sb, req);
    auto_strv char **env = env_list(vars);
    auto_free char *cwd = cwd_of(sb, req);
    struct call_exec call = {
        .flags = (req->tty ? EXEC_TTY : 0) | (background ? EXEC_BACKGROUND : 0) |
                 (req->apart ? EXEC_APART : 0) | (req->want_stdin ? EXEC_STDIN : 0) |
                 (req->collect ? EXEC_COLLECT : 0) | (req->record ? EXEC_RECORD : 0) |
                 (req->once ? EXEC_ONCE : 0) | (req->n_limits ? EXEC_LIMITS : 0) |
                 (req->input_len ? EXEC_INPUT : 0),
        .id = (char *)(uintptr_t)exec_id,
        .argv = req->argv ? (char **)(uintptr_t)req->argv : shell,
        .env = env,
        .user = (char *)(uintptr_t)(req->user ? req->user : sb->image_user),
        .timeout_ms = req->timeout_ms,
        .output_max = output_max,
        .rows = req->rows,
        .cols = req->cols,
        .n_limits = (uint32_t)req->n_limits,
        .input_len = req->input_len,
    };

    call.cwd = cwd;
    if (req->n_limits)
        memcpy(call.limits, req->limits, req->n_limits * sizeof(*req->limits));
    call_exec_put(args, &call);
    json_decref(vars);
}

bool exec_is_modern(const struct exec_request *req)
{
    return req->n_limits > 0 || req->input_len > 0;
}

void exec_explain_modern(struct err *why)
{
    if (why->kind == ERR_INVALID && !why->code)
        (void)err_code(why, ERR_UNSUPPORTED, "agent_too_old",
                       "the sandbox was started by an older cay, which knows neither rlimits nor "
                       "stdin of a command; stop and start it");
}

static int send_input(struct sandbox *sb, int fd, const struct exec_request *req, struct err *err)
{
    const char *data = req->input;

    for (size_t at = 0; at < req->input_len; at += FRAME_MAX) {
        size_t len = req->input_len - at < FRAME_MAX ? req->input_len - at : FRAME_MAX;

        if (agent_send(sb, fd, FRAME_STDIN, data + at, len, err) < 0)
            return -1;
    }
    return 0;
}

static int ask_to_start(struct engine *e, struct sandbox *sb, const struct exec_request *req,
                        const struct buf *args, struct buf *payload, int *ret_fd, struct err *err)
{
    auto_close int fd = -1;
    struct err why = {0};

    if (agent_call(e, sb, BOX_EXEC, CALL_EXEC, args, &fd, err) < 0)
        return -1;
    if (send_input(sb, fd, req, &why) < 0 ||
        agent_expect(sb, fd, FRAME_STARTED, payload, &why) < 0) {
        if (exec_is_modern(req))
            exec_explain_modern(&why);
        if (err)
            *err = why;
        return -1;
    }
    *ret_fd = steal_fd(fd);
    return 0;
}

int exec_start(struct engine *e, struct sandbox *sb, const struct exec_request *req,
               const char *log_id, uint64_t output_max, int *ret_fd, uint32_t *ret_pid,
               struct err *err)
{
    auto_close int fd = -1;
    auto_buf struct buf args = {0}, payload = {0};
    struct wire w;
    uint32_t pid;

    if (exec_check_request(req, err) < 0)
        return -1;
    buf_init(&args, FRAME_MAX);
    put_call(&args, sb, req, log_id, true, output_max);
    if (ask_to_start(e, sb, req, &args, &payload, &fd, err) < 0)
        return -1;
    wire_init(&w, payload.data, payload.len);
    pid = wire_get_u32(&w);
    if (!wire_ok(&w))
        return agent_broken(err, "a process id that cannot be read");
    *ret_pid = pid;
    *ret_fd = steal_fd(fd);
    return 0;
}

static uint64_t capped_timeout(const struct engine *e, uint64_t timeout_ms)
{
    uint64_t max_ms = (uint64_t)e->config.max_command_s * 1000;

    return timeout_ms && (timeout_ms < max_ms || max_ms == 0) ? timeout_ms : max_ms;
}

/* A connection to the agent, which wakes up while its caller finds the words for ask_exec(). */
static int reach_agent(struct sandbox *sb, enum box_channel channel, int *ret_fd, struct err *err)
{
    if (agent_task_begin(sb, err) < 0)
        return -1;
    if (agent_connect(sb->engine, sb, channel, ret_fd, err) == 0)
        return 0;
    agent_task_end(sb);
    return -1;
}

/* Sends the call and makes what reads its answers. fd is the new exec's then, else it is closed. */
static int ask_exec(struct sandbox *sb, int fd, enum call_op op, const struct buf *args,
                    struct exec **ret, struct err *err)
{
    struct exec *x;

    if (agent_ask(sb, fd, op, args, err) < 0) {
        (void)close(fd);
        agent_task_end(sb);
        return -1;
    }
    x = xcalloc(1, sizeof(*x));
    x->engine = sb->engine;
    x->sandbox = sandbox_ref(sb);
    x->opened_ns = x->quiet_ns = mono_ns();
    x->look_ns = x->opened_ns + sb->engine->config.waits.look * 1000000ll;
    agent_reader_init(&x->reader, sb, fd);
    buf_init(&x->input, INPUT_MAX);
    buf_init(&x->streams[0], EXEC_OUTPUT_MAX);
    buf_init(&x->streams[1], EXEC_OUTPUT_MAX);
    *ret = x;
    return 0;
}

static void tell_opened(struct exec *x, const struct exec_request *req)
{
    auto_free char *command = NULL;

    if (!x->engine->listener)
        return;
    command = req->told ? xstrdup(req->told) : exec_command_text(req, COMMAND_TOLD);
    exec_tell_started(x->engine, x->sandbox->box.id, x->id, command, false);
    x->told = true;
}

int engine_exec_check(const struct exec_request *req, struct err *err)
{
    return exec_check_request(req, err);
}

/* All of it at once, since the agent waits for it: INPUT_MAX is for what is typed. What is long may
 * have to wait for the agent in its turn, and many may. */
static int queue_input(struct exec *x, const struct exec_request *req, struct err *err)
{
    const char *data = req->input;

    if (req->input_len > INPUT_FREE) {
        if (!budget_take(x->engine->config.memory, req->input_len))
            return err_code(err, ERR_UNAVAILABLE, "busy",
                            "the daemon holds as much of other callers' data as it may; send it "
                            "again");
        x->input_reserved = req->input_len;
    }
    x->input.max += req->input_len + (req->input_len / FRAME_MAX + 1) * FRAME_HEADER;
    for (size_t at = 0; at < req->input_len; at += FRAME_MAX) {
        size_t len = req->input_len - at < FRAME_MAX ? req->input_len - at : FRAME_MAX;

        (void)frame_put(&x->input, FRAME_STDIN, data + at, len);
    }
    engine_exec_flush(x);
    return 0;
}

int exec_open_in(struct sandbox *sb, const struct exec_request *req, struct exec **ret,
                 struct err *err)
{
    auto_buf struct buf args = {0};
    struct exec_request capped = *req;
    char exec_id[ID_SIZE];
    int fd;

    if (!req->attached)
        capped.timeout_ms = capped_timeout(sb->engine, req->timeout_ms);
    if (exec_check_request(req, err) < 0 || reach_agent(sb, BOX_EXEC, &fd, err) < 0)
        return -1;
    /* It is counted by now: who drains the sandbox has seen it, or it sees that. */
    if (drain_check(sb, err) < 0) {
        (void)close(fd);
        agent_task_end(sb);
        return -1;
    }
    if (req->exec_id)
        (void)snprintf(exec_id, sizeof(exec_id), "%s", req->exec_id);
    else
        id_new(exec_id, "ex");
    buf_init(&args, FRAME_MAX);
    /* What is read as it comes, at the pace of its reader, needs no limit. */
    put_call(&args, sb, &capped, exec_id, false, req->collect ? EXEC_OUTPUT_MAX : 0);
    if (ask_exec(sb, fd, CALL_EXEC, &args, ret, err) < 0)
        return -1;
    (*ret)->timeout_ms = capped.timeout_ms;
    (*ret)->capped = capped.timeout_ms != req->timeout_ms;
    (*ret)->collected = req->collect;
    (*ret)->detached = req->detach;
    (*ret)->record = req->record;
    (*ret)->once = req->once;
    (*ret)->modern = exec_is_modern(req);
    memcpy((*ret)->id, exec_id, sizeof(exec_id));
    if (queue_input(*ret, req, err) == 0)
        return 0;
    engine_exec_close(*ret); /* nothing has begun, since its input has not come */
    return -1;
}

int engine_exec_open(struct engine *e, const char *id, const struct exec_request *req,
                     struct exec **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;

    if ((req->no_waiting ? sandbox_get_running_now(e, id, &sb, err)
                         : sandbox_get_running(e, id, &sb, err)) < 0 ||
        exec_open_in(sb, req, ret, err) < 0)
        return -1;
    tell_opened(*ret, req);
    return 0;
}

int engine_exec_settings(struct engine *e, const char *id, const struct exec_request *req,
                         json_t **ret_env, char **ret_cwd, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;

    if (sandbox_get_running(e, id, &sb, err) < 0 || (req->env && env_check(req->env, err) < 0))
        return -1;
    *ret_env = env_for(sb, req);
    *ret_cwd = cwd_of(sb, req);
    return 0;
}

int engine_exec_again(struct engine *e, const char *id, const char *exec_id, uint64_t cursor,
                      enum exec_input input, struct exec **ret, struct err *err)
{
    static const uint32_t flags[] = {[EXEC_READS] = 0,
                                     [EXEC_TYPES] = AGAIN_INPUT,
                                     [EXEC_SHARES] = AGAIN_INPUT | AGAIN_SHARED,
                                     [EXEC_WRITES] = AGAIN_INPUT | AGAIN_SHARED};
    uint64_t most = input == EXEC_WRITES ? 0 : UINT64_MAX;
    auto_sandbox struct sandbox *sb = NULL;
    auto_buf struct buf args = {0};
    int fd;

    if (sandbox_get_running(e, id, &sb, err) < 0 || exec_check_id(exec_id, err) < 0 ||
        reach_agent(sb, BOX_CTL, &fd, err) < 0)
        return -1;
    buf_init(&args, FRAME_MAX);
    exec_put_again(&args, exec_id, cursor, most, AGAIN_FOLLOW | flags[input]);
    if (ask_exec(sb, fd, CALL_AGAIN, &args, ret, err) < 0)
        return -1;
    (*ret)->again = true;
    (*ret)->cursor = cursor;
    (void)snprintf((*ret)->id, sizeof((*ret)->id), "%s", exec_id);
    return 0;
}

const char *engine_exec_id(const struct exec *x)
{
    return x->kept ? x->id : "";
}

bool engine_exec_is_recorded(const struct exec *x)
{
    return x->recorded;
}

uint64_t engine_exec_cursor(const struct exec *x)
{
    return x->cursor;
}

/* False when there is no room for the word: behind input that the command does not take. Who does
 * not listen any more needs none. */
static bool say_cancel(struct exec *x)
{
    auto_buf struct buf frame = {0};
    ssize_t n;

    if (x->input.len > 0)
        return false;
    buf_init(&frame, FRAME_HEADER);
    (void)frame_put(&frame, FRAME_CANCEL, NULL, 0);
    n = send(x->reader.fd, frame.data, frame.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    return n == (ssize_t)frame.len || (n < 0 && errno != EAGAIN);
}

/* Nobody wants it any more. An agent that keeps nothing takes the closing for it. */
static void cancel(struct exec *x)
{
    auto_buf struct buf args = {0};
    int fd;

    if (say_cancel(x))
        return;
    buf_init(&args, FRAME_MAX);
    exec_put_again(&args, x->id, 0, 0, AGAIN_END);
    if (agent_open(x->engine, x->sandbox, BOX_CTL, CALL_AGAIN, &args, &fd, NULL) == 0)
        (void)close(fd);
}

void engine_exec_close(struct exec *x)
{
    if (!x)
        return;
    if (!x->ended && !x->again && !x->detached && !atomic_load(&x->engine->draining)) {
        cancel(x);
        x->end = (struct call_exit){.how = EXIT_CANCELLED};
        exec_tell_ended(x, (double)(mono_ns() - x->opened_ns) / 1e6);
    }
    close_fd(&x->reader.fd);
    buf_done(&x->reader.in);
    buf_done(&x->input);
    buf_done(&x->streams[0]);
    buf_done(&x->streams[1]);
    budget_give(x->engine->config.memory, x->reserved + x->input_reserved);
    agent_task_end(x->sandbox);
    sandbox_unref(x->sandbox);
    free(x);
}

/* ---- input ---- */

size_t engine_exec_held(const struct exec *x)
{
    return x->input.len;
}

void engine_exec_flush(struct exec *x)
{
    ssize_t n;

    if (x->input.len == 0)
        return;
    n = send(x->reader.fd, x->input.data, x->input.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        buf_shift(&x->input, (size_t)n);
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        buf_clear(&x->input); /* an agent that reads no more has something to say first */
    if (x->input.len == 0) {
        buf_done(&x->input);
        budget_give(x->engine->config.memory, x->input_reserved);
        x->input_reserved = 0;
    }
}

static void put_input(struct exec *x, unsigned type, const void *data, size_t len)
{
    (void)frame_put(&x->input, type, data, len);
    engine_exec_flush(x);
}

void engine_exec_stdin(struct exec *x, const void *data, size_t len)
{
    put_input(x, FRAME_STDIN, data, len);
}

void engine_exec_resize(struct exec *x, uint32_t rows, uint32_t cols)
{
    auto_buf struct buf payload = {0};

    buf_init(&payload, 16);
    wire_put_u32(&payload, rows);
    wire_put_u32(&payload, cols);
    put_input(x, FRAME_RESIZE, payload.data, payload.len);
}

void engine_exec_signal(struct exec *x, uint32_t signal)
{
    auto_buf struct buf payload = {0};

    buf_init(&payload, 16);
    wire_put_u32(&payload, signal);
    put_input(x, FRAME_SIGNAL, payload.data, payload.len);
}
