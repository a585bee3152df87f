#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rlimits.h"
#include "base/str.h"
#include "engine/exec.h"
#include "functions/functions_internal.h"
#include "functions/output.h"

#define STDIN_BASE64_MAX 1398104 /* of EXEC_STDIN_MAX bytes */
#define STDIN_BODY_MAX   (2u << 20)

/* What the input asks for, beside its strings, which belong to it. */
struct exec_asked {
    char **argv;
    struct buf input; /* decoded */
    struct rlimit_wish limits[RLIMITS_MAX];
    struct exec_request req;
};

static void exec_asked_done(struct exec_asked *a)
{
    strv_free(a->argv);
    buf_done(&a->input);
}

#define auto_exec_asked __attribute__((cleanup(exec_asked_done)))

/* -1 = none, and the hard one as the soft one when it is not given. */
static int read_limits(struct call *call, struct exec_asked *a, struct err *err)
{
    const json_t *limits = json_object_get(call->in, "rlimits");
    size_t n = json_array_size(limits);

    if (n > RLIMITS_MAX)
        return err_set(err, ERR_INVALID, "rlimits must name each resource once");
    for (size_t i = 0; i < n; i++) {
        const json_t *limit = json_array_get(limits, i), *hard = json_object_get(limit, "hard");
        json_int_t soft = json_integer_value(json_object_get(limit, "soft"));

        a->limits[i] = (struct rlimit_wish){
            .resource =
                (uint32_t)rlimit_of_word(json_string_value(json_object_get(limit, "resource"))),
            .soft = (uint64_t)soft, /* -1 is RLIMIT_UNBOUNDED */
            .hard = (uint64_t)(hard ? json_integer_value(hard) : soft),
        };
    }
    a->req.limits = a->limits;
    a->req.n_limits = n;
    return 0;
}

/* `stdin` is true or false where frames can bring it, else what it is. */
static int read_stdin(struct call *call, struct exec_asked *a, struct err *err)
{
    const json_t *data = json_object_get(call->in, "stdin");
    const char *encoding = in_str(call, "stdinEncoding");

    a->req.want_stdin = json_is_true(data);
    a->req.input = json_string_value(data);
    a->req.input_len = json_string_length(data);
    if (!data || !encoding || strcmp(encoding, "base64") != 0)
        return 0;
    buf_init(&a->input, STDIN_BASE64_MAX);
    if (base64_decode(&a->input, json_string_value(data), json_string_length(data)) < 0)
        return err_code(err, ERR_INVALID, "bad_base64",
                        "Invalid base64: stdin must be standard base64 with padding and without "
                        "white space");
    a->req.input = a->input.data;
    a->req.input_len = a->input.len;
    return 0;
}

static int read_request(struct call *call, struct exec_asked *a, struct err *err)
{
    const json_t *command = json_object_get(call->in, "command");

    a->req = (struct exec_request){
        .command = json_string_value(command),
        .cwd = in_str(call, "cwd"),
        .user = in_str(call, "user"),
        .env = in_env(call),
        .timeout_ms = (uint64_t)ceil(in_number(call, "timeout") * 1000),
        .tty = in_bool(call, "tty"),
        .rows = (uint32_t)in_int(call, "rows"),
        .cols = (uint32_t)in_int(call, "cols"),
        .detach = in_bool(call, "detach"),
        .exec_id = in_str(call, "execId"),
    };

    for (size_t i = 0; i < json_array_size(command); i++)
        a->argv = strv_add(a->argv, json_string_value(json_array_get(command, i)));
    a->req.argv = a->argv;
    return read_limits(call, a, err) < 0 ? -1 : read_stdin(call, a, err);
}

/* ---- commands that do not start ---- */

/* What became of it, in words that programs know from elsewhere; NULL = it is not that it could not
 * be started. */
static const char *spawn_kind(const struct err *err, const char **ret_stage)
{
    static const struct {
        const char *code;
        int error; /* 0 = any */
        const char *kind, *stage;
    } kinds[] = {
        {"command_not_found", 0, "not_found", "exec"},
        {"not_executable", EACCES, "permission_denied", "exec"},
        {"not_executable", EPERM, "permission_denied", "exec"},
        {"not_executable", ENOMEM, "out_of_memory", "exec"},
        {"not_executable", EAGAIN, "resource_limit", "exec"},
        {"not_executable", 0, "not_executable", "exec"},
        {"bad_cwd", 0, "bad_cwd", "cwd"},
        {"bad_user", 0, "user_setup_failed", "user"},
        {"bad_rlimit", 0, "resource_limit", "rlimit"},
        {"process_limit", 0, "resource_limit", "fork"},
        {"too_large", E2BIG, "bad_args", "exec"},
    };
    const char *code = err->code ? err->code : err_kind_code(err->kind);

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (strcmp(kinds[i].code, code) == 0 && (!kinds[i].error || kinds[i].error == err->sys)) {
            *ret_stage = kinds[i].stage;
            return kinds[i].kind;
        }
    }
    return NULL;
}

/* Returns -1. */
static int not_started(struct call *call, const struct err *err)
{
    const char *stage, *kind = spawn_kind(err, &stage), *name = strerrorname_np(err->sys);

    if (!kind)
        return -1;
    json_decref(call->out);
    call->out = json_pack("{s:s, s:s}", "kind", kind, "stage", stage);
    if (err->sys > 0 && name)
        (void)json_object_update_new(call->out,
                                     json_pack("{s:i, s:s}", "errno", err->sys, "errnoName", name));
    return -1;
}

/* ---- commands that are waited for: tasks ---- */

struct exec_task {
    struct task task;
    struct exec *exec;
    struct output_text text[2]; /* of a stream */
    bool started, named;        /* the first event has been sent */
    uint32_t rows, cols;        /* that a terminal gets when somebody comes back to it; 0 = none */
};

static void set_wait(struct exec_task *t)
{
    struct exec_wait wait;

    engine_exec_wait(t->exec, &wait);
    task_wait(&t->task, &wait);
}

static void set_input(struct exec_task *t)
{
    t->task.held = engine_exec_held(t->exec);
    t->task.takes_input = t->task.held == 0;
}

/* Ends the command, if it still runs. */
static void exec_task_free(struct task *task)
{
    struct exec_task *t = (struct exec_task *)task;

    engine_exec_close(t->exec);
    free(t);
}

static struct exec_task *task_new(struct call *call, struct exec *exec, const struct task_ops *ops)
{
    struct exec_task *t = xcalloc(1, sizeof(*t));

    t->task.ops = ops;
    t->exec = exec;
    set_wait(t);
    call->task = &t->task;
    return t;
}

static int open_task(struct call *call, const struct exec_request *req, const struct task_ops *ops,
                     struct err *err)
{
    struct exec *exec;

    if (engine_exec_open(call->engine, in_id(call), req, &exec, err) < 0)
        return -1;
    (void)task_new(call, exec, ops);
    return 0;
}

/* Comes back to one that was started before. */
static int open_again(struct call *call, enum exec_input input, const struct task_ops *ops,
                      struct exec_task **ret, struct err *err)
{
    struct exec *exec;

    if (engine_exec_again(call->engine, in_id(call), in_exec_id(call),
                          (uint64_t)in_int(call, "cursor"), input, &exec, err) < 0)
        return -1;
    *ret = task_new(call, exec, ops);
    return 0;
}

static void tell_id(struct call *call, const struct exec_task *t)
{
    (void)snprintf(call->exec_id, sizeof(call->exec_id), "%s", engine_exec_id(t->exec));
}

static void set_exec_time(struct call *call, const struct exec_output *end)
{
    call->exec_us = llround(end->duration_ms * 1000);
}

/* ---- run: the output whole ---- */

static void put_result(json_t *o, const struct exec_task *t, const struct exec_output *end)
{
    auto_free char *hint = engine_exec_hint(t->exec);

    (void)json_object_update_new(
        o, json_pack("{s:f, s:s}", "duration", end->duration_ms, "reason", end->reason));
    engine_exec_put_words(t->exec, o);
    if (hint)
        (void)json_object_set_new(o, "hint", json_string(hint));
}

static int run_step(struct task *task, struct call *call, struct err *err)
{
    struct exec_task *t = (struct exec_task *)task;
    struct exec_result result;
    int r = engine_exec_collect(t->exec, &result, err);

    set_wait(t);
    if (r > 0)
        return TASK_WAITS;
    tell_id(call, t);
    if (r < 0 && err->kind != ERR_TIMEOUT)
        return not_started(call, err);
    set_exec_time(call, &result.end);
    call->out =
        json_pack("{s:i, s:b}", "exitCode", result.end.exit_code, "truncated", result.truncated);
    if (call->exec_id[0])
        (void)json_object_set_new(call->out, "execId", json_string(call->exec_id));
    if (r == 0)
        put_result(call->out, t, &result.end);
    call->texts[0] = (struct text){"stdout", result.out};
    call->texts[1] = (struct text){"stderr", result.errors};
    return r < 0 ? -1 : TASK_DONE;
}

static const struct task_ops run_ops = {.step = run_step, .free = exec_task_free};

static int run(struct call *call, struct err *err)
{
    auto_exec_asked struct exec_asked a = {0};

    if (read_request(call, &a, err) < 0)
        return -1;
    a.req.collect = true;
    return open_task(call, &a.req, &run_ops, err);
}

/* ---- stream: the output as events ---- */

/* Takes event. */
static int send_event(struct call *call, struct exec_task *t, json_t *event, struct err *err)
{
    if (!t->named && call->exec_id[0])
        (void)json_object_set_new(event, "execId", json_string(call->exec_id));
    t->named = true;
    return sink_event(call, event, err);
}

/* A character that is cut stays for the next event, and who goes on from here gets it again. */
static int send_text(struct call *call, struct exec_task *t, bool is_error, const char *data,
                     size_t len, bool last, struct err *err)
{
    struct output_text *text = &t->text[is_error];
    auto_buf struct buf clean = {0};
    json_t *event;

    buf_init(&clean, 3 * (len + sizeof(text->rest))); /* U+FFFD is three bytes */
    output_text_add(text, data, len, last, &clean);
    if (clean.len == 0)
        return 0;
    event = output_event(is_error ? "stderr" : "stdout", clean.data, clean.len);
    (void)json_object_set_new(event, "cursor",
                              json_integer((json_int_t)(engine_exec_cursor(t->exec) - text->len)));
    return send_event(call, t, event, err);
}

/* reason NULL = the end was not seen. */
static int send_exit(struct call *call, struct exec_task *t, const char *code, const char *reason,
                     struct err *err)
{
    json_t *event;

    if (send_text(call, t, false, "", 0, true, err) < 0 ||
        send_text(call, t, true, "", 0, true, err) < 0)
        return -1;
    event = output_event("exit", code, strlen(code));
    if (reason) {
        (void)json_object_set_new(event, "reason", json_string(reason));
        engine_exec_put_words(t->exec, event);
    }
    return send_event(call, t, event, err);
}

static int send_gap(struct call *call, struct exec_task *t, uint64_t lost, struct err *err)
{
    char count[24];
    int n = snprintf(count, sizeof(count), "%llu", (unsigned long long)lost);
    json_t *event = output_event("lost", count, (size_t)n);

    (void)json_object_set_new(event, "cursor",
                              json_integer((json_int_t)engine_exec_cursor(t->exec)));
    return send_event(call, t, event, err);
}

/* The stream has begun, so the failure is an event too. */
static int send_lost(struct call *call, struct exec_task *t, struct err *err)
{
    bool late = err->kind == ERR_TIMEOUT;
    /* A text with a word of its own is for callers: it expired, it does not answer. */
    bool ours = late || (err->code && err->kind != ERR_INTERNAL);
    const char *text = ours ? err->text : "the sandbox ended before the command did";
    json_t *event = output_event("error", text, strlen(text));

    if (err->code)
        (void)json_object_set_new(event, "code", json_string(err->code));
    if (!late)
        log_error("exec stream lost", "error", err->text);
    if (send_event(call, t, event, err) < 0)
        return -1;
    return send_exit(call, t, "-1", NULL, err);
}

static int send_output(struct call *call, struct exec_task *t, const struct exec_output *out,
                       struct err *err)
{
    char code[16];
    int r;

    switch (out->what) {
    case EXEC_STARTED:
        t->started = true;
        tell_id(call, t);
        return sink_event(call, NULL, err) < 0 ? -1 : TASK_AGAIN;
    case EXEC_STDOUT:
    case EXEC_STDERR:
        r = send_text(call, t, out->what == EXEC_STDERR, out->data, out->len, false, err);
        return r < 0 ? -1 : TASK_AGAIN;
    case EXEC_LOST:
        return send_gap(call, t, out->lost, err) < 0 ? -1 : TASK_AGAIN;
    case EXEC_EXIT:
        set_exec_time(call, out);
        (void)snprintf(code, sizeof(code), "%d",
                       strcmp(out->reason, "timeout") == 0 ? -1 : out->exit_code);
        return send_exit(call, t, code, out->reason, err);
    }
    abort();
}

/* One piece a step: the face calls again when the caller has taken it. */
static int stream_step(struct task *task, struct call *call, struct err *err)
{
    struct exec_task *t = (struct exec_task *)task;
    struct exec_output out;
    int r = engine_exec_next(t->exec, &out, err);

    if (r < 0)
        return t->started ? send_lost(call, t, err) : not_started(call, err);
    set_wait(t);
    return r > 0 ? send_output(call, t, &out, err) : TASK_WAITS;
}

static const struct task_ops stream_ops = {.step = stream_step, .free = exec_task_free};

static int stream(struct call *call, struct err *err)
{
    auto_exec_asked struct exec_asked a = {0};

    return read_request(call, &a, err) < 0 ? -1 : open_task(call, &a.req, &stream_ops, err);
}

static int stream_again(struct call *call, struct err *err)
{
    struct exec_task *t;

    return open_again(call, EXEC_READS, &stream_ops, &t, err);
}

/* ---- attach: output as it is, while input comes ---- */

static int pass_started(struct call *call, struct exec_task *t, const struct exec_output *out,
                        struct err *err)
{
    tell_id(call, t);
    if (t->rows > 0)
        engine_exec_resize(t->exec, t->rows, t->cols);
    return sink_event(call, json_pack("{s:I}", "pid", (json_int_t)out->pid), err);
}

static int pass_output(struct call *call, struct exec_task *t, const struct exec_output *out,
                       struct err *err)
{
    int r = 0;

    switch (out->what) {
    case EXEC_STARTED:
        r = pass_started(call, t, out, err);
        break;
    case EXEC_LOST:
        r = sink_event(call, json_pack("{s:I}", "lost", (json_int_t)out->lost), err);
        break;
    case EXEC_STDOUT:
        r = sink_bytes(call, CHANNEL_STDOUT, out->data, out->len, err);
        break;
    case EXEC_STDERR:
        r = sink_bytes(call, CHANNEL_STDERR, out->data, out->len, err);
        break;
    case EXEC_EXIT:
        set_exec_time(call, out);
        call->out =
            json_pack("{s:i, s:s, s:f, s:I, s:I}", "exitCode", out->exit_code, "reason",
                      out->reason, "duration", out->duration_ms, "lostStdout",
                      (json_int_t)out->lost_stdout, "lostStderr", (json_int_t)out->lost_stderr);
        engine_exec_put_words(t->exec, call->out);
        return TASK_DONE;
    }
    return r < 0 ? -1 : TASK_AGAIN;
}

static int attach_step(struct task *task, struct call *call, struct err *err)
{
    struct exec_task *t = (struct exec_task *)task;
    struct exec_output out;
    int r = engine_exec_next(t->exec, &out, err);

    if (r < 0)
        return not_started(call, err);
    set_wait(t);
    set_input(t);
    return r > 0 ? pass_output(call, t, &out, err) : TASK_WAITS;
}

static int attach_input(struct task *task, const struct input *in, struct err *err)
{
    struct exec_task *t = (struct exec_task *)task;

    (void)err;
    if (!in)
        engine_exec_flush(t->exec);
    else if (in->what == INPUT_STDIN)
        engine_exec_stdin(t->exec, in->data, in->len);
    else if (in->what == INPUT_RESIZE)
        engine_exec_resize(t->exec, in->first, in->second);
    else
        engine_exec_signal(t->exec, in->first);
    set_wait(t);
    set_input(t);
    return 0;
}

static const struct task_ops attach_ops = {
    .step = attach_step, .input = attach_input, .free = exec_task_free};

static int attach(struct call *call, struct err *err)
{
    auto_exec_asked struct exec_asked a = {0};

    if (read_request(call, &a, err) < 0)
        return -1;
    a.req.attached = true;
    if (open_task(call, &a.req, &attach_ops, err) < 0)
        return -1;
    call->task->takes_input = true;
    return 0;
}

static int attach_again(struct call *call, struct err *err)
{
    bool input = in_bool(call, "stdin");
    enum exec_input how = input && in_bool(call, "share") ? EXEC_SHARES : EXEC_TYPES;
    struct exec_task *t;

    if (open_again(call, input ? how : EXEC_READS, &attach_ops, &t, err) < 0)
        return -1;
    if (input) {
        t->rows = (uint32_t)in_int(call, "rows");
        t->cols = (uint32_t)in_int(call, "cols");
    }
    t->task.takes_input = input;
    return 0;
}

/* ---- those that were started before ---- */

static int list(struct call *call, struct err *err)
{
    return engine_exec_list(call->engine, in_id(call), &call->out, err);
}

static int state(struct call *call, struct err *err)
{
    return engine_exec_state(call->engine, in_id(call), in_exec_id(call),
                             (uint64_t)in_int(call, "cursor"), &call->out, err);
}

static int end(struct call *call, struct err *err)
{
    return engine_exec_end(call->engine, in_id(call), in_exec_id(call), &call->out, err);
}

/* ---- in the background ---- */

static int background(struct call *call, struct err *err)
{
    auto_exec_asked struct exec_asked a = {0};

    if (read_request(call, &a, err) < 0)
        return -1;
    if (engine_exec_background(call->engine, in_id(call), &a.req, &call->out, err) < 0)
        return not_started(call, err);
    (void)snprintf(call->exec_id, sizeof(call->exec_id), "%s",
                   json_string_value(json_object_get(call->out, "id")));
    return 0;
}

static int background_status(struct call *call, struct err *err)
{
    return engine_background_status(call->engine, in_exec_id(call), &call->out, err);
}

static int background_logs(struct call *call, struct err *err)
{
    return engine_background_logs(call->engine, in_exec_id(call), (uint64_t)in_int(call, "cursor"),
                                  &call->out, err);
}

static int interrupt(struct call *call, struct err *err)
{
    bool pending;

    if (engine_interrupt(call->engine, in_id(call), (uint32_t)in_int(call, "pid"), &pending, err) <
        0)
        return -1;
    call->out = json_pack("{s:b, s:b}", "success", 1, "pending", pending);
    return 0;
}

#define ERRORS_STARTED ERRORS_COMMAND " bad_rlimit agent_too_old"
#define ERRORS_KEPT    ERRORS_AGENT " exec_not_found no_space too_many_streams"

#define COMMAND_FIELDS                                                                             \
    {"command",                                                                                    \
     FIELD_COMMAND,                                                                                \
     .min = 1,                                                                                     \
     .max = ARG_BYTES_MAX,                                                                         \
     .example = "\"echo hello\"",                                                                  \
     .help = "a string for the shell, or an array of arguments run as it is"},                     \
        {"cwd",                                                                                    \
         FIELD_STRING,                                                                             \
         .optional = true,                                                                         \
         .min = 1,                                                                                 \
         .max = PATH_BYTES_MAX,                                                                    \
         .help = "where it starts; the sandbox's workdir when absent"},                            \
        {"env", FIELD_STRING_MAP, .optional = true, .max = ARG_BYTES_MAX,                          \
         .help = "added to the sandbox's"},                                                        \
        {"rlimits", FIELD_ARRAY, .optional = true, .of = &rlimit_shape,                            \
         .help = "limits of its process, each resource once"},                                     \
    {                                                                                              \
        "user", FIELD_STRING, .optional = true, .min = 1, .max = 64,                               \
                              .help = "name or uid, with :group or :gid; the image's"              \
    }

#define TIMEOUT_FIELD                                                                              \
    {                                                                                              \
        "timeout", FIELD_NUMBER,                                                                   \
            .optional = true, .max = 1e9,                                                          \
            .help = "seconds; 0 or absent = CAY_MAX_CMD_TIMEOUT, more is cut to it"                \
    }

static const char *const stdin_encodings[] = {"utf8", "base64", NULL};

#define STDIN_FIELDS                                                                               \
    {"stdin", FIELD_STRING, .optional = true, .max = STDIN_BASE64_MAX,                             \
     .help = "its whole input, at most 1 MiB; none when absent"},                                  \
    {                                                                                              \
        "stdinEncoding", FIELD_STRING, .optional = true, .choices = stdin_encodings,               \
                                       .help = "base64 for bytes that are no text; utf8"           \
    }

#define KEEP_FIELDS                                                                                \
    {"detach", FIELD_BOOL, .optional = true,                                                       \
     .help = "it goes on when the caller hangs up, which else ends it"},                           \
    {                                                                                              \
        "execId", FIELD_STRING, .optional = true, .pattern = "^ex_[0-9a-f]{24}$",                  \
                                .help = "by which it shall be known: ex_ and 24 hex digits, not "  \
                                        "those of one that runs; a new one when absent"            \
    }

#define CURSOR_FIELD                                                                               \
    {                                                                                              \
        "cursor", FIELD_INT, .max = 9007199254740991, .preset = "0",                               \
                             .help = "where to begin: 0, or a cursor that was told"                \
    }

static const struct field run_fields[] = {
    COMMAND_FIELDS, TIMEOUT_FIELD, STDIN_FIELDS, KEEP_FIELDS, {0}};

static const struct field attach_fields[] = {
    COMMAND_FIELDS,
    {"timeout", FIELD_NUMBER, .optional = true, .max = 1e9, .help = "seconds; 0 or absent = none"},
    {"tty", FIELD_BOOL, .optional = true, .help = "run on a terminal; output is then one stream"},
    {"stdin", FIELD_BOOL, .optional = true, .help = "STDIN frames will come"},
    {"rows", FIELD_INT, .min = 1, .max = 65535, .preset = "24", .help = "of the terminal"},
    {"cols", FIELD_INT, .min = 1, .max = 65535, .preset = "80", .help = "of the terminal"},
    KEEP_FIELDS,
    {0},
};

static const struct field cursor_fields[] = {CURSOR_FIELD, {0}};

static const struct field again_fields[] = {
    CURSOR_FIELD,
    {"stdin", FIELD_BOOL, .preset = "true", .help = "take over its input; false reads along"},
    {"share", FIELD_BOOL, .optional = true, .help = "its input beside others who share it"},
    {"rows", FIELD_INT, .optional = true, .min = 1, .max = 65535, .help = "of the terminal"},
    {"cols", FIELD_INT, .optional = true, .min = 1, .max = 65535, .help = "of the terminal"},
    {0},
};

static const struct field background_fields[] = {
    COMMAND_FIELDS,
    {"timeout", FIELD_NUMBER, .optional = true, .max = 1e9, .help = "seconds; 0 or absent = none"},
    STDIN_FIELDS,
    {0},
};

static const struct field logs_fields[] = {
    {"cursor", FIELD_INT, .max = 9007199254740991, .preset = "0",
     .help = "byte offset to read from: 0, then the cursor of the last answer"},
    {0},
};

static const struct field interrupt_fields[] = {
    {"pid", FIELD_INT, .optional = true, .min = 1, .max = PID_NUMBER_MAX,
     .help =
         "in the sandbox: of a command, which is interrupted with all that it has started, or of "
         "one process; every running command when absent"},
    {0},
};

const struct function exec_functions[] = {
    {"cmd::run", "POST", "/sandboxes/:sandboxId/exec", run_fields, run, "sandbox_exec", SCOPE_EXEC,
     .body_max = STDIN_BODY_MAX, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS, .rate = RATE_EXEC,
     .help = "Runs a command and waits for it", .gives = &exec_result_shape,
     .errors = ERRORS_STARTED " bad_base64 exec_exists command_timeout cancelled"},
    {"cmd::run_stream", "POST", "/sandboxes/:sandboxId/exec/stream", run_fields, stream, NULL,
     SCOPE_EXEC, .body_max = STDIN_BODY_MAX, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS,
     .answer = ANSWER_EVENTS, .rate = RATE_EXEC, .help = "Runs a command and streams its output",
     .events = &exec_event_shape, .errors = ERRORS_STARTED " bad_base64 exec_exists"},
    {"cmd::attach", "POST", "/sandboxes/:sandboxId/exec/attach", attach_fields, attach, NULL,
     SCOPE_EXEC, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS, .answer = ANSWER_ATTACH,
     .rate = RATE_EXEC,
     .help = "Runs a command with input, output and signals over an upgraded connection",
     .gives = &attach_end_shape, .events = &attach_event_shape,
     .errors = ERRORS_STARTED " exec_exists upgrade_required bad_frame"},
    {"cmd::background", "POST", "/sandboxes/:sandboxId/exec/background", background_fields,
     background, NULL, SCOPE_EXEC, .body_max = STDIN_BODY_MAX, .reach = REACH_SANDBOX,
     .flags = FUNCTION_MAKES, .rate = RATE_EXEC, .help = "Starts a command and leaves it running",
     .gives = &background_exec_shape, .errors = ERRORS_STARTED " bad_base64 no_space conflict"},
    {"cmd::background_status", "GET", "/exec/background/:execId/status", NULL, background_status,
     NULL, SCOPE_READ, .reach = REACH_OWNED, .owned = &background_owned,
     .help = "Shows a background command; also while the sandbox is paused",
     .gives = &background_exec_shape, .errors = ERRORS_AGENT " exec_not_found log_not_found"},
    {"cmd::background_logs", "GET", "/exec/background/:execId/logs", logs_fields, background_logs,
     NULL, SCOPE_READ, .reach = REACH_OWNED, .owned = &background_owned,
     .help = "Reads the output of a background command; also while the sandbox is paused",
     .gives = &exec_logs_shape, .errors = ERRORS_AGENT " exec_not_found log_not_found"},
    {"cmd::list", "GET", "/sandboxes/:sandboxId/exec", NULL, list, NULL, SCOPE_READ,
     .reach = REACH_SANDBOX, .help = "Lists commands that run, and the last that ended",
     .gives = &exec_list_shape, .errors = ERRORS_AGENT},
    {"cmd::get", "GET", "/sandboxes/:sandboxId/exec/:execId", cursor_fields, state, NULL,
     SCOPE_READ, .reach = REACH_SANDBOX, .help = "Shows a command and what it has put out",
     .gives = &exec_state_shape, .errors = ERRORS_KEPT},
    {"cmd::get_stream", "GET", "/sandboxes/:sandboxId/exec/:execId/stream", cursor_fields,
     stream_again, NULL, SCOPE_READ, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS,
     .answer = ANSWER_EVENTS, .help = "Streams what a command puts out, from a cursor on",
     .events = &exec_event_shape, .errors = ERRORS_KEPT},
    {"cmd::get_attach", "POST", "/sandboxes/:sandboxId/exec/:execId/attach", again_fields,
     attach_again, NULL, SCOPE_EXEC, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS,
     .answer = ANSWER_ATTACH,
     .help = "Attaches to a command that runs, over an upgraded connection",
     .gives = &attach_end_shape, .events = &attach_event_shape,
     .errors = ERRORS_KEPT " exec_attached upgrade_required bad_frame"},
    {"cmd::kill", "POST", "/sandboxes/:sandboxId/exec/:execId/kill", NULL, end, NULL, SCOPE_EXEC,
     .reach = REACH_SANDBOX, .help = "Ends a command and all that it started",
     .gives = &exec_info_shape, .errors = ERRORS_KEPT},
    {"cmd::interrupt", "POST", "/sandboxes/:sandboxId/exec/interrupt", interrupt_fields, interrupt,
     NULL, SCOPE_EXEC, .reach = REACH_SANDBOX,
     .help =
         "Sends SIGINT to a command or to all; to a paused sandbox as well, for when it goes on",
     .gives = &interrupt_shape, .errors = ERRORS_AGENT},
    {0},
};
