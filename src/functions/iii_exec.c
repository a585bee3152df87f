#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine.h"
#include "functions/iii_internal.h"
#include "functions/iii_slots.h"
#include "functions/pipe.h"

#define OUTPUT_MAX   (1u << 20) /* of each stream that is kept for the answer */
#define BUDGET_STEP  (256u << 10)
#define PIPE_GRACE   (5 * 1000000000ll) /* past its timeout, for who reads its output */
#define NOT_FOUND    127
#define NOT_RUNNABLE 126

/* ---- one that runs ---- */

struct stream {
    struct pipe *pipe; /* NULL = it is kept, */
    struct buf kept;   /* here, unless the engine does that */
    bool dropped;      /* nobody reads it any more */
    bool cut;          /* there was more than is kept, or than is in the answer */
};

struct iii_exec {
    struct exec *exec;
    char sandbox_id[ID_SIZE];
    char program[80];
    uint64_t timeout_ms;
    const char *limit; /* where the limit is set that timeout_ms is; NULL = it is the caller's */
    int64_t opened_ns;
    bool piped; /* some of its output goes over pipes, so that it is taken piece by piece */
    struct stream streams[2];
    struct buf shown[2]; /* what of each is in the answer: views */
    /* What a pipe did not take yet; valid until the engine is asked for more. */
    struct stream *waits;
    const char *piece;
    size_t piece_len;
    struct budget *memory;
    size_t reserved;
};

static void give_slot(struct iii_exec *x)
{
    if (x->sandbox_id[0])
        iii_slot_give(x->sandbox_id);
    x->sandbox_id[0] = '\0';
}

void iii_exec_free(struct iii_exec *x)
{
    if (!x)
        return;
    engine_exec_close(x->exec);
    for (size_t i = 0; i < ARRAY_LEN(x->streams); i++) {
        if (x->streams[i].pipe)
            x->streams[i].pipe->ops->close(x->streams[i].pipe);
        buf_done(&x->streams[i].kept);
    }
    budget_give(x->memory, x->reserved);
    give_slot(x);
    free(x);
}

static int open_pipes(struct call *call, struct iii_exec *x, struct err *err)
{
    static const char *const names[] = {"stdout", "stderr"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const json_t *ref = json_object_get(call->in, names[i]);

        buf_init(&x->streams[i].kept, OUTPUT_MAX);
        if (!ref)
            continue;
        if (!call->pipes || !pipe_is_ref(ref))
            return err_code(err, ERR_INVALID, "bad_channel",
                            "%s must be a reference to a channel that can be written", names[i]);
        x->streams[i].pipe = call->pipes->ops->open(call->pipes, ref, true, err);
        if (!x->streams[i].pipe)
            return -1;
        x->piped = true;
    }
    return 0;
}

static int open_exec(struct call *call, struct iii_exec *x, const char *id,
                     const struct iii_command *c, struct err *err)
{
    const struct iii_settings *settings = iii_settings_of(call);
    struct exec_request req = c->req;

    if (iii_slot_take(id, settings->execs_max, iii_limit_source(settings, III_LIMIT_EXECS), err) <
        0)
        return -1;
    (void)snprintf(x->sandbox_id, sizeof(x->sandbox_id), "%s", id);
    if (open_pipes(call, x, err) < 0)
        return -1;
    req.collect = !x->piped;
    return engine_exec_open(call->engine, id, &req, &x->exec, err);
}

int iii_exec_open(struct call *call, const char *id, const struct iii_command *c,
                  struct iii_exec **ret, struct err *err)
{
    struct iii_exec *x = xcalloc(1, sizeof(*x));

    x->opened_ns = mono_ns();
    x->timeout_ms = c->req.timeout_ms;
    x->limit = c->limit;
    x->memory = engine_config(call->engine)->memory;
    (void)snprintf(x->program, sizeof(x->program), "%s", c->argv[0]);
    if (open_exec(call, x, id, c, err) < 0) {
        iii_exec_free(x);
        return -1;
    }
    *ret = x;
    return 0;
}

/* It waits for its output, or for room where that goes. */
void iii_exec_wait(struct iii_exec *x, struct task *t)
{
    struct exec_wait wait;

    engine_exec_wait(x->exec, &wait);
    task_wait(t, &wait);
    if (!x->waits)
        return;
    t->fd = x->waits->pipe->ops->fd(x->waits->pipe);
    t->events = EPOLLIN;
    t->until_ns = x->opened_ns + (int64_t)x->timeout_ms * 1000000 + PIPE_GRACE;
}

/* ---- its end ---- */

static int timed_out(const struct iii_exec *x, struct err *err)
{
    return err_code(err, ERR_TIMEOUT, "command_timeout", "exec timed out after %llums%s%s%s",
                    (unsigned long long)x->timeout_ms, x->limit ? ", which is the limit (" : "",
                    x->limit ? x->limit : "", x->limit ? ")" : "");
}

static json_t *answer_of(int exit_code, double ms, bool cut_out, bool cut_errors)
{
    return json_pack("{s:i, s:b, s:I, s:b, s:b, s:b, s:b}", "exit_code", exit_code, "timed_out", 0,
                     "duration_ms", (json_int_t)llround(ms), "success", exit_code == 0, "truncated",
                     cut_out || cut_errors, "stdout_truncated", cut_out, "stderr_truncated",
                     cut_errors);
}

/* As much of both as an answer has room for, up to the end of a character. Each has half of it, and
 * what the other leaves. */
static void show(struct iii_exec *x, const struct buf *const all[2])
{
    size_t sizes[2], half = III_ANSWER_MAX / 2;

    for (size_t i = 0; i < 2; i++)
        (void)utf8_cut_json(all[i]->data, all[i]->len, III_ANSWER_MAX, &sizes[i]);
    for (size_t i = 0; i < 2; i++) {
        size_t others = sizes[!i] < half ? sizes[!i] : half, size;
        size_t len = utf8_cut_json(all[i]->data, all[i]->len, III_ANSWER_MAX - others, &size);

        x->shown[i] = (struct buf){.data = all[i]->data, .len = len};
        x->streams[i].cut |= len < all[i]->len;
    }
}

static int ended(struct iii_exec *x, struct call *call, const struct exec_output *end,
                 const struct buf *out, const struct buf *errors)
{
    bool cut_out, cut_errors;

    show(x, (const struct buf *const[]){out, errors});
    cut_out = x->streams[0].cut || x->streams[0].dropped || end->lost_stdout > 0;
    cut_errors = x->streams[1].cut || x->streams[1].dropped || end->lost_stderr > 0;
    (void)snprintf(call->exec_id, sizeof(call->exec_id), "%s", engine_exec_id(x->exec));
    call->exec_us = llround(end->duration_ms * 1000);
    call->out = answer_of(end->exit_code, end->duration_ms, cut_out, cut_errors);
    if (call->exec_id[0])
        (void)json_object_set_new(call->out, "exec_id", json_string(call->exec_id));
    call->texts[0] = (struct text){"stdout", &x->shown[0]};
    call->texts[1] = (struct text){"stderr", &x->shown[1]};
    return TASK_DONE;
}

/* A program that is not there, or is none, is an end as any other, as shells say it. */
static int not_started(struct iii_exec *x, struct call *call, const struct err *err)
{
    const char *code = err->code ? err->code : "";
    int exit_code = 0;
    json_t *line;

    if (strcmp(code, "command_not_found") == 0 || strcmp(code, "bad_cwd") == 0)
        exit_code = NOT_FOUND;
    else if (strcmp(code, "not_executable") == 0)
        exit_code = NOT_RUNNABLE;
    if (exit_code == 0)
        return -1;
    line = strcmp(code, "bad_cwd") == 0 ? json_sprintf("%s\n", err->text)
           : exit_code == NOT_FOUND     ? json_sprintf("%s: command not found\n", x->program)
                                        : json_sprintf("%s: cannot be executed\n", x->program);
    call->out = answer_of(exit_code, 0, false, false);
    (void)json_object_set_new(call->out, "stdout", json_string(""));
    (void)json_object_set_new(call->out, "stderr", line ? line : json_string("\n"));
    return TASK_DONE;
}

static int failed(struct iii_exec *x, struct call *call, struct err *err)
{
    if (err->code && strcmp(err->code, "command_timeout") == 0)
        return timed_out(x, err);
    return not_started(x, call, err);
}

/* ---- its output ---- */

/* Past what the daemon may hold for callers it is as if there were too much of it. */
static void keep(struct iii_exec *x, struct stream *s, const char *data, size_t len)
{
    size_t held = x->streams[0].kept.len + x->streams[1].kept.len;
    size_t room = s->cut ? 0 : OUTPUT_MAX - s->kept.len, n = len < room ? len : room;

    while (n > 0 && held + n > x->reserved) {
        if (!budget_take(x->memory, BUDGET_STEP)) {
            n = 0;
            break;
        }
        x->reserved += BUDGET_STEP;
    }
    (void)buf_add(&s->kept, data, n);
    s->cut |= n < len;
}

/* False while the pipe has no room. */
static bool send_piece(struct iii_exec *x)
{
    struct stream *s = x->waits;

    while (s && x->piece_len > 0) {
        size_t n = x->piece_len < PIPE_PIECE ? x->piece_len : PIPE_PIECE;
        int r = s->dropped ? -1 : s->pipe->ops->write(s->pipe, x->piece, n);

        if (r == 0)
            return false;
        s->dropped |= r < 0;
        x->piece += n;
        x->piece_len -= n;
    }
    x->waits = NULL;
    return true;
}

static void take_output(struct iii_exec *x, const struct exec_output *out)
{
    struct stream *s = &x->streams[out->what == EXEC_STDERR];

    if (!s->pipe) {
        keep(x, s, out->data, out->len);
        return;
    }
    x->waits = s;
    x->piece = out->data;
    x->piece_len = out->len;
}

static int end_piped(struct iii_exec *x, struct call *call, const struct exec_output *end,
                     struct err *err)
{
    /* Who reads is told the end with the answer, not when the call is freed. */
    for (size_t i = 0; i < ARRAY_LEN(x->streams); i++) {
        struct stream *s = &x->streams[i];

        if (s->pipe)
            s->pipe->ops->close(s->pipe);
        s->pipe = NULL;
    }
    if (strcmp(end->reason, "timeout") == 0)
        return timed_out(x, err);
    return ended(x, call, end, &x->streams[0].kept, &x->streams[1].kept);
}

/* One piece a step. */
static int piped_step(struct iii_exec *x, struct call *call, struct err *err)
{
    struct exec_output out;
    int r;

    if (!send_piece(x)) {
        if (mono_ns() < x->opened_ns + (int64_t)x->timeout_ms * 1000000 + PIPE_GRACE)
            return TASK_WAITS;
        return timed_out(x, err);
    }
    r = engine_exec_next(x->exec, &out, err);
    if (r <= 0)
        return r < 0 ? failed(x, call, err) : TASK_WAITS;
    if (out.what == EXEC_EXIT)
        return end_piped(x, call, &out, err);
    if (out.what == EXEC_STDOUT || out.what == EXEC_STDERR)
        take_output(x, &out);
    return TASK_AGAIN;
}

static int whole_step(struct iii_exec *x, struct call *call, struct err *err)
{
    struct exec_result result;
    int r = engine_exec_collect(x->exec, &result, err);

    if (r > 0)
        return TASK_WAITS;
    if (r < 0)
        return failed(x, call, err);
    /* What the daemon had no room for is of one of them, which is not known. */
    if (result.truncated && result.end.lost_stdout + result.end.lost_stderr == 0)
        x->streams[0].cut = x->streams[1].cut = true;
    return ended(x, call, &result.end, result.out, result.errors);
}

int iii_exec_step(struct iii_exec *x, struct call *call, struct err *err)
{
    int r = x->piped ? piped_step(x, call, err) : whole_step(x, call, err);

    /* Before the answer leaves: its caller may run the next command at once. */
    if (r < 0 || r == TASK_DONE)
        give_slot(x);
    return r;
}

/* ---- sandbox::exec ---- */

struct exec_task {
    struct task task; /* first */
    struct iii_exec *exec;
};

static int exec_step(struct task *task, struct call *call, struct err *err)
{
    struct exec_task *t = (struct exec_task *)task;
    int r = iii_exec_step(t->exec, call, err);

    iii_exec_wait(t->exec, task);
    return r;
}

static void exec_free(struct task *task)
{
    iii_exec_free(((struct exec_task *)task)->exec);
    free(task);
}

static const struct task_ops exec_ops = {.step = exec_step, .free = exec_free};

static int run_command(struct call *call, struct err *err)
{
    auto_iii_command struct iii_command c = {0};
    struct iii_exec *x = NULL;
    struct exec_task *t;

    if (iii_command_read(call, NULL, &c, err) < 0 ||
        iii_exec_open(call, in_id(call), &c, &x, err) < 0)
        return -1;
    t = xcalloc(1, sizeof(*t));
    t->task.ops = &exec_ops;
    t->exec = x;
    iii_exec_wait(x, &t->task);
    call->task = &t->task;
    return 0;
}

/* ---- sandbox::exec::cancel ---- */

static int no_command(struct call *call, const char *id, struct err *err)
{
    (void)iii_fix(call, NULL, "no command of this exec_id runs in the sandbox or is kept");
    return err_code(err, ERR_NOT_FOUND, "exec_not_found", "there is no command %.60s", id);
}

static int cancel(struct call *call, struct err *err)
{
    json_t *info = NULL;
    const char *id = in_str(call, "exec_id"), *reason;

    if (!id_valid(id, "ex"))
        return no_command(call, id, err);
    if (engine_exec_end(call->engine, in_id(call), id, &info, err) < 0)
        return err->code && strcmp(err->code, "exec_not_found") == 0 ? no_command(call, id, err)
                                                                     : -1;
    reason = json_string_value(json_object_get(info, "reason"));
    call->out = json_pack("{s:s, s:b}", "exec_id", id, "cancelled",
                          !reason || strcmp(reason, "cancelled") == 0);
    json_decref(info);
    return 0;
}

/* ---- the rows ---- */

static const struct field exec_fields[] = {
    III_ID_FIELD,
    {"cmd", FIELD_STRING, .optional = true, .max = ARG_BYTES_MAX, .example = "\"echo hi\"",
     .help = "a program; or, with white space and without args, a line that is split as by a "
             "shell, and nothing more"},
    {"args", FIELD_STRINGS, .optional = true, .max = ARG_BYTES_MAX, .help = "its arguments"},
    {"argv", FIELD_STRINGS, .optional = true, .max = ARG_BYTES_MAX,
     .help = "in place of both: the program and its arguments"},
    {"stdin", FIELD_STRING, .optional = true, .max = III_STDIN_TEXT_MAX,
     .help = "its whole input as base64, at most 1 MiB of bytes"},
    {"env", FIELD_ANY, .optional = true,
     .help = "added to the sandbox's: [\"K=V\"] or {\"K\": \"V\"}"},
    {"timeout_ms", FIELD_INT, .optional = true, .max = 9007199254740991, .clamp = true,
     .help = III_TIMEOUT_HELP},
    {"workdir", FIELD_STRING, .optional = true, .min = 1, .max = PATH_BYTES_MAX,
     .help = "where it starts; / when absent"},
    {"exec_id", FIELD_STRING, .optional = true, .pattern = "^ex_[0-9a-f]{24}$",
     .help = "by which it shall be known, to be cancelled: ex_ and 24 hex digits, not used "
             "before; a new one when absent"},
    {"detach", FIELD_BOOL, .preset = "false",
     .help = "it goes on when its caller is gone, which else ends it"},
    {"stdout", FIELD_ANY, .optional = true,
     .help = "a channel reference of direction write: its output goes there as it comes"},
    {"stderr", FIELD_ANY, .optional = true, .help = "the same"},
    {0},
};

static const struct field cancel_fields[] = {
    III_ID_FIELD,
    {"exec_id", FIELD_STRING, .max = 64, .example = EXAMPLE_EXEC_ID, .help = "of the command"},
    {0},
};

const struct function iii_exec_functions[] = {
    {"sandbox::exec", .fields = exec_fields, .run = run_command, .scope = SCOPE_EXEC,
     .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS, .rate = RATE_EXEC, .gives = &iii_exec_shape,
     .help = "Runs a command and waits for it",
     .errors = ERRORS_COMMAND " bad_payload bad_uuid bad_command bad_base64 bad_channel "
                              "channel_not_found exec_slots_full exec_exists command_timeout "
                              "cancelled agent_too_old"},
    {"sandbox::exec::cancel", .fields = cancel_fields, .run = cancel, .scope = SCOPE_EXEC,
     .reach = REACH_SANDBOX, .gives = &iii_cancelled_shape,
     .help = "Ends a command and all that it started",
     .errors = ERRORS_AGENT " bad_payload bad_uuid exec_not_found no_space too_many_streams"},
    {0},
};
