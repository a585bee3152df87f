#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/agent_client_internal.h"
#include "engine/background_internal.h"
#include "engine/engine_internal.h"
#include "engine/exec.h"
#include "engine/exec_internal.h"
#include "engine/json_text_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/turn_internal.h"
#include "model/sandbox.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"
#include "runtime/runtime.h"
#include "store/store.h"

#define LOG_PART_MAX (1u << 20)
#define INTERRUPT_MS 1000

int log_read(struct engine *e, struct sandbox *sb, const char *log_id, uint64_t offset,
             uint64_t most, struct buf *out, struct call_log *ret, struct err *err)
{
    auto_close int fd = -1;
    auto_buf struct buf args = {0}, payload = {0};
    int paused = paused_log_read(e, sb, log_id, offset, most, out, ret, err);
    uint64_t got = 0;
    struct wire w;
    unsigned type;

    if (paused <= 0)
        return paused;
    buf_init(&args, FRAME_MAX);
    wire_put_str(&args, log_id);
    wire_put_u64(&args, offset);
    wire_put_u64(&args, most);
    if (agent_call(e, sb, BOX_CTL, CALL_LOG, &args, &fd, err) < 0)
        return -1;
    for (;;) {
        if (agent_next(sb, fd, &type, &payload, err) < 0)
            return -1;
        if (type == FRAME_END)
            break;
        got += payload.len;
        if (type != FRAME_DATA || payload.len == 0 || got > most)
            return agent_broken(err, "a log in a form that cannot be read");
        if (out && buf_add(out, payload.data, payload.len) < 0)
            return agent_broken(err, "more of a log than was asked for");
    }
    wire_init(&w, payload.data, payload.len);
    call_log_get(&w, ret);
    if (!wire_ok(&w) || !exit_reason_of(&ret->exit))
        return agent_broken(err, "a log in a form that cannot be read");
    return 0;
}

void log_put_output(struct buf *args, const struct log_request *req)
{
    wire_put_str(args, req->id);
    wire_put_u64(args, req->offset);
    wire_put_u64(args, req->most);
    wire_put_u32(args, req->follow);
}

static bool is_invalid(const struct err *why, struct err *err)
{
    if (why->kind == ERR_INVALID)
        return true;
    if (err)
        *err = *why;
    return false;
}

/* 1 = the agent does not know this call. */
static int try_call(struct engine *e, struct sandbox *sb, enum call_op op, const struct buf *args,
                    int *ret_fd, struct err *err)
{
    auto_close int fd = -1;
    auto_buf struct buf payload = {0};
    struct err why = {0};

    if (agent_call(e, sb, BOX_CTL, op, args, &fd, err) < 0)
        return -1;
    if (agent_expect(sb, fd, FRAME_OK, &payload, &why) < 0)
        return is_invalid(&why, err) ? 1 : -1;
    *ret_fd = steal_fd(fd);
    return 0;
}

int log_stream_start(struct engine *e, struct sandbox *sb, const struct log_request *req,
                     int *ret_fd, bool *ret_timed, struct err *err)
{
    auto_buf struct buf args = {0};
    int r;

    buf_init(&args, FRAME_MAX);
    log_put_output(&args, req);
    r = try_call(e, sb, CALL_OUTPUT, &args, ret_fd, err);
    *ret_timed = r == 0;
    if (r <= 0)
        return r;
    buf_clear(&args);
    wire_put_str(&args, req->id);
    wire_put_u64(&args, req->offset);
    if (req->follow && (r = try_call(e, sb, CALL_FOLLOW, &args, ret_fd, err)) <= 0)
        return r;
    wire_put_u64(&args, req->follow ? UINT64_MAX : req->most);
    return agent_open(e, sb, BOX_CTL, CALL_LOG, &args, ret_fd, err);
}

/* log NULL = it ended with its sandbox; how is not known. */
static json_t *background_json(struct sandbox *sb, const struct exec_record *exec,
                               const struct call_log *log)
{
    json_t *o = json_object();

    (void)json_object_set_new(o, "id", json_cstr(exec->id));
    (void)json_object_set_new(o, "sandboxId", json_cstr(exec->sandbox_id));
    (void)json_object_set_new(o, "command", json_cstr(exec->command));
    if (log || exec->pid) /* rows of an older cay have it; the agent knows it anyhow */
        (void)json_object_set_new(o, "pid", json_integer(log ? log->pid : exec->pid));
    (void)json_object_set_new(o, "running", json_boolean(log && log->running));
    (void)json_object_set_new(o, "startedAt", json_integer(exec->started_ms));
    if (log && !log->running) {
        exit_put(o, sb, &log->exit);
        (void)json_object_set_new(o, "finishedAt", json_integer((json_int_t)log->finished_ms));
    } else if (!log) {
        auto_free char *status = sandbox_status(sb);
        auto_free char *words = xasprintf("ended with its sandbox, which is %s", status);

        (void)json_object_set_new(o, "message", json_string(words));
    }
    return o;
}

/* What is kept of a command: enough to know it again, as rows are the host's to keep. */
#define COMMAND_KEPT 4096

char *exec_command_text(const struct exec_request *req, size_t max)
{
    struct buf text;

    buf_init(&text, 2 * FRAME_MAX); /* exec_check_request() has refused what is longer */
    if (!req->argv)
        (void)buf_addf(&text, "%s", req->command);
    for (char *const *arg = req->argv; arg && *arg; arg++)
        (void)buf_addf(&text, "%s%s", arg == req->argv ? "" : " ", *arg);
    if (text.len > max)
        text.data[utf8_cut(text.data, max)] = '\0';
    return buf_steal(&text);
}

/* The row first: a daemon that is killed between the two leaves one that names no exec
 * (find_log()), and never an exec that nobody knows of. The pid is the agent's to tell. */
static int start_with_row(struct engine *e, struct sandbox *sb, const struct exec_request *req,
                          const struct exec_record *exec, uint32_t *ret_pid, struct err *err)
{
    auto_close int fd = -1;

    if (store_put_exec(e->store, exec, err) < 0)
        return -1;
    if (exec_start(e, sb, req, exec->id, EXEC_LOG_MAX, &fd, ret_pid, err) == 0)
        return 0;
    (void)store_delete_exec(e->store, exec->id, NULL);
    return -1;
}

int engine_exec_background(struct engine *e, const char *id, const struct exec_request *req,
                           json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    struct exec_record exec = {.started_ms = now_ms()};
    struct call_log log = {.running = 1};
    int r;

    if (sandbox_get_running(e, id, &sb, err) < 0 || exec_check_request(req, err) < 0 ||
        drain_check(sb, err) < 0)
        return -1;
    id_new(exec.id, "bg");
    (void)snprintf(exec.sandbox_id, sizeof(exec.sandbox_id), "%s", sb->box.id);
    exec.command = exec_command_text(req, COMMAND_KEPT);
    r = start_with_row(e, sb, req, &exec, &log.pid, err);
    if (r == 0) {
        *ret = background_json(sb, &exec, &log);
        exec_tell_started(e, sb->box.id, exec.id, exec.command, true);
    }
    exec_record_done(&exec);
    return r;
}

static int not_found(const char *exec_id, struct err *err)
{
    return err_code(err, ERR_NOT_FOUND, "exec_not_found", "Background exec not found: %s", exec_id);
}

static int get_exec(struct engine *e, const char *exec_id, struct exec_record *exec,
                    struct sandbox **ret_sb, struct err *err)
{
    if (store_get_exec(e->store, exec_id, exec, err) < 0)
        return -1;
    *ret_sb = roster_find(e, exec->sandbox_id);
    if (*ret_sb)
        return 0;
    exec_record_done(exec); /* its sandbox is being removed, and the row with it */
    return not_found(exec_id, err);
}

/* log_read() for the exec of a row. A row without a log is of one that was never started, because
 * the daemon was killed before it could: it goes. */
static int find_log(struct engine *e, struct sandbox *sb, const char *exec_id, uint64_t offset,
                    uint64_t most, struct buf *out, struct call_log *ret, struct err *err)
{
    struct err why = {0};

    if (log_read(e, sb, exec_id, offset, most, out, ret, &why) == 0)
        return 0;
    if (why.code && strcmp(why.code, "log_not_found") == 0) {
        (void)store_delete_exec(e->store, exec_id, NULL);
        return not_found(exec_id, err);
    }
    if (err)
        *err = why;
    return -1;
}

int engine_background_owner(struct engine *e, const char *exec_id, char ret[ID_SIZE],
                            struct err *err)
{
    struct exec_record exec;

    if (store_get_exec(e->store, exec_id, &exec, err) < 0)
        return -1;
    memcpy(ret, exec.sandbox_id, ID_SIZE);
    exec_record_done(&exec);
    return 0;
}

int engine_background_status(struct engine *e, const char *exec_id, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    struct exec_record exec;
    struct call_log log;
    int r;

    if (get_exec(e, exec_id, &exec, &sb, err) < 0)
        return -1;
    r = sandbox_check_there(sb, err);
    if (r == 0)
        r = find_log(e, sb, exec.id, 0, 1, NULL, &log, err);
    if (r == 0)
        *ret = background_json(sb, &exec,
                               log.exit.how == EXIT_LOST && sandbox_is_stopped(sb) ? NULL : &log);
    exec_record_done(&exec);
    return r;
}

int engine_background_logs(struct engine *e, const char *exec_id, uint64_t cursor, json_t **ret,
                           struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_buf struct buf out = {0};
    struct exec_record exec;
    struct call_log log = {0};
    size_t n;
    int r;

    if (cursor > INT64_MAX)
        return err_set(err, ERR_INVALID, "cursor must be the number that the last answer gave");
    if (get_exec(e, exec_id, &exec, &sb, err) < 0)
        return -1;
    buf_init(&out, LOG_PART_MAX);
    r = sandbox_check_there(sb, err);
    if (r == 0)
        r = find_log(e, sb, exec.id, cursor, LOG_PART_MAX, &out, &log, err);
    exec_record_done(&exec);
    if (r < 0)
        return -1;
    /* A character that is not all there yet stays for the next call, unless nothing follows. */
    n = out.len;
    if (log.running || cursor + n < log.size)
        n = utf8_cut(out.data ? out.data : "", n);
    *ret = json_object();
    (void)json_object_set_new(*ret, "output", json_of_bytes(out.data, n));
    (void)json_object_set_new(*ret, "cursor", json_integer((json_int_t)cursor + (json_int_t)n));
    return 0;
}

/* An agent that stands still takes no part in this: the call waits in its socket, where it outlives
 * this daemon too, and is the first thing that it finds when it goes on. One for all execs is
 * enough in a pause, and who resumes the sandbox waits for that one. */
static int leave_interrupt(struct engine *e, struct sandbox *sb, uint32_t pid,
                           const struct buf *args, struct err *err)
{
    uint32_t pause = sandbox_pause(sb);
    auto_close int fd = -1;

    if (pid == 0 && sb->interrupt_fd >= 0 && sb->interrupt_pause == pause)
        return 0;
    if (agent_open_with(e, sb, CALL_KILL, args, NULL, 0, &fd, err) < 0)
        return -1;
    if (pid == 0) {
        close_fd(&sb->interrupt_fd);
        sb->interrupt_fd = steal_fd(fd);
        sb->interrupt_pause = pause;
    }
    return 0;
}

void interrupt_await(struct sandbox *sb)
{
    struct pollfd p = {.fd = sb->interrupt_fd, .events = POLLIN};

    if (p.fd < 0)
        return;
    (void)poll(&p, 1, INTERRUPT_MS);
    close_fd(&sb->interrupt_fd);
}

/* In the sandbox's turn while it is paused; else *ret_pending is false and nothing is done. */
static int try_leave(struct engine *e, struct sandbox *sb, uint32_t pid, const struct buf *args,
                     bool *ret_pending, struct err *err)
{
    int r;

    *ret_pending = false;
    if (!sandbox_is_paused(sb))
        return 0;
    if (turn_take(e, &sb->turn, err) < 0)
        return -1;
    *ret_pending = sandbox_is_paused(sb);
    r = *ret_pending ? leave_interrupt(e, sb, pid, args, err) : 0;
    turn_give(&sb->turn);
    return r;
}

/* The END that the agent_…_with() functions send says that the whole command is meant. */
int engine_interrupt(struct engine *e, const char *id, uint32_t pid, bool *ret_pending,
                     struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    auto_buf struct buf args = {0}, ok = {0};
    auto_close int fd = -1;

    buf_init(&args, FRAME_MAX);
    wire_put_u32(&args, pid);
    wire_put_u32(&args, SIGINT);
    if (sandbox_get(e, id, &sb, err) < 0 || try_leave(e, sb, pid, &args, ret_pending, err) < 0)
        return -1;
    if (*ret_pending)
        return 0;
    sandbox_unref(steal_ptr(sb));
    if (sandbox_get_running(e, id, &sb, err) < 0)
        return -1;
    if (agent_call_with(e, sb, CALL_KILL, &args, NULL, 0, &fd, err) < 0)
        return -1;
    return agent_expect(sb, fd, FRAME_OK, &ok, err);
}
