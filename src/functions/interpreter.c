#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/exec.h"
#include "functions/code_run.h"
#include "functions/execution.h"
#include "functions/functions_internal.h"
#include "service/interpreter/languages.h"

/* Code in a process of its own, packages, and what a sandbox can run. */

#define INPUT_PIECE (128u << 10)
#define SAID_MAX    4096 /* bytes of a manager's output that a failure tells */

static void wait_for(struct task *task, const struct exec *exec)
{
    struct exec_wait wait;

    engine_exec_wait(exec, &wait);
    task_wait(task, &wait);
}

/* ---- execute ---- */

struct code_task {
    struct task task;
    struct exec *exec;
    const struct language *language;
    struct execution execution;
    json_t *code; /* what is still to be given, from sent on; NULL = no input */
    size_t sent;
    bool input_ended;
};

static void code_free(struct task *task)
{
    struct code_task *t = (struct code_task *)task;

    engine_exec_close(t->exec);
    execution_done(&t->execution);
    json_decref(t->code);
    free(t);
}

/* As much as the command takes, then the end of input. */
static void give_code(struct code_task *t)
{
    size_t len = json_string_length(t->code);

    while (!t->input_ended && engine_exec_held(t->exec) == 0) {
        size_t n = len - t->sent < INPUT_PIECE ? len - t->sent : INPUT_PIECE;

        engine_exec_stdin(t->exec, json_string_value(t->code) + t->sent, n);
        t->sent += n;
        t->input_ended = n == 0;
    }
}

/* What it put out belongs to the failure. */
static int code_timeout(struct code_task *t, struct call *call, double ms, struct err *err)
{
    call->out = json_pack("{s:i, s:b}", "exitCode", 124, "truncated", (int)t->execution.truncated);
    call->texts[0] = (struct text){"stdout", &t->execution.streams[0]};
    call->texts[1] = (struct text){"stderr", &t->execution.streams[1]};
    return err_code(err, ERR_TIMEOUT, "command_timeout", "Command timed out after %.0fms", ms);
}

static int code_ended(struct code_task *t, struct call *call, const struct exec_output *out,
                      struct err *err)
{
    if (code_lacks_program(&t->execution.streams[1], out->exit_code))
        return code_missing(t->language->program, err);
    if (strcmp(out->reason, "timeout") == 0)
        return code_timeout(t, call, out->duration_ms, err);
    return execution_answer(&t->execution, call, out->exit_code, out->duration_ms, err);
}

static int code_step(struct task *task, struct call *call, struct err *err)
{
    struct code_task *t = (struct code_task *)task;
    struct exec_output out;
    int r;

    r = engine_exec_next(t->exec, &out, err);
    if (r < 0 && err->code && strcmp(err->code, "command_not_found") == 0)
        return code_missing(t->language->program, err);
    if (r < 0)
        return -1;
    if (t->code)
        give_code(t);
    wait_for(task, t->exec);
    if (r == 0)
        return TASK_WAITS;
    switch (out.what) {
    case EXEC_STDOUT:
    case EXEC_STDERR:
        r = execution_text(&t->execution, call, out.what == EXEC_STDERR, out.data, out.len, false,
                           err);
        return r < 0 ? -1 : TASK_AGAIN;
    case EXEC_EXIT:
        return code_ended(t, call, &out, err);
    case EXEC_STARTED:
        return sink_event(call, NULL, err) < 0 ? -1 : TASK_AGAIN;
    case EXEC_LOST:
        return TASK_AGAIN;
    }
    abort();
}

static const struct task_ops code_ops = {.step = code_step, .free = code_free};

static int find_language(const struct call *call, const struct language **ret, struct err *err)
{
    *ret = language_find(in_str(call, "language"));
    if (*ret)
        return 0;
    return err_set(err, ERR_INVALID,
                   "language must be python, javascript, typescript, go or bash, not \"%.40s\"",
                   in_str(call, "language"));
}

static int execute(struct call *call, struct err *err)
{
    const struct language *language;
    auto_strv char **argv = NULL;
    auto_free char *told = NULL;
    struct code_plan plan;
    struct code_task *t;
    struct exec *exec;
    struct exec_request req = {
        .cwd = in_str(call, "cwd"),
        .user = in_str(call, "user"),
        .env = in_env(call),
        .timeout_ms = (uint64_t)ceil(in_number(call, "timeout") * 1000),
    };

    if (in_str(call, "contextId"))
        return code_run_in_context(call, req.timeout_ms, err);
    if (find_language(call, &language, err) < 0)
        return -1;
    if (strcmp(language->name, "python") == 0)
        return code_run_once(call, language, req.timeout_ms, err);
    plan = language_plan(language, in_str(call, "code"));
    req.argv = argv = plan.argv;
    req.told = told = xasprintf("code: %s", language->name);
    req.want_stdin = plan.code_is_input;
    if (engine_exec_open(call->engine, in_id(call), &req, &exec, err) < 0)
        return -1;
    t = xcalloc(1, sizeof(*t));
    t->task.ops = &code_ops;
    t->exec = exec;
    t->language = language;
    execution_init(&t->execution, call);
    if (plan.code_is_input)
        t->code = json_incref(json_object_get(call->in, "code"));
    wait_for(&t->task, exec);
    call->task = &t->task;
    return execution_keep_code(&t->execution, json_string_length(t->code), err);
}

/* ---- a command whose output is wanted whole ---- */

struct whole_task {
    struct task task;
    struct exec *exec;
    struct buf said; /* in the answer */
};

static void whole_free(struct task *task)
{
    struct whole_task *t = (struct whole_task *)task;

    engine_exec_close(t->exec);
    free(t);
}

static int whole_begin(struct call *call, struct exec_request *req, const struct task_ops *ops,
                       struct err *err)
{
    struct whole_task *t;
    struct exec *exec;

    req->collect = true;
    if (engine_exec_open(call->engine, in_id(call), req, &exec, err) < 0)
        return -1;
    t = xcalloc(1, sizeof(*t));
    t->task.ops = ops;
    t->exec = exec;
    wait_for(&t->task, exec);
    call->task = &t->task;
    return 0;
}

/* ---- install ---- */

/* The end of it, as text. */
static char *tail(const struct buf *b)
{
    size_t skip = b->len > SAID_MAX ? b->len - SAID_MAX : 0;
    auto_buf struct buf clean = {0};

    buf_init(&clean, 3 * SAID_MAX + 3);
    if (b->len > 0)
        (void)utf8_clean(&clean, b->data + skip, b->len - skip);
    return xstrdup(clean.data ? clean.data : "");
}

static int install_failed(struct call *call, const struct exec_result *result, struct err *err)
{
    auto_free char *said = tail(result->errors->len > 0 ? result->errors : result->out);
    size_t len = strlen(said);

    if (strcmp(said, CODE_MISSING) == 0)
        return code_missing("such package manager", err);
    call->out = json_pack("{s:i, s:s}", "exitCode", result->end.exit_code, "output", said);
    while (len > 0 && said[len - 1] == '\n')
        said[--len] = '\0';
    return err_code(err, ERR_CONFLICT, "install_failed", "Install failed: %s",
                    len > 200 ? said + utf8_cut(said, len - 200) : said);
}

static int install_step(struct task *task, struct call *call, struct err *err)
{
    struct whole_task *t = (struct whole_task *)task;
    struct exec_result result;
    int r = engine_exec_collect(t->exec, &result, err);

    wait_for(task, t->exec);
    if (r > 0)
        return TASK_WAITS;
    if (r < 0)
        return -1;
    if (result.end.exit_code != 0)
        return install_failed(call, &result, err);
    call->out = json_pack("{s:i}", "exitCode", 0);
    call->texts[0] = (struct text){"output", result.out};
    return TASK_DONE;
}

static const struct task_ops install_ops = {.step = install_step, .free = whole_free};

static int install(struct call *call, struct err *err)
{
    auto_strv char **packages = in_strings(call, "packages");
    auto_strv char **argv = NULL;
    auto_free char *told = xasprintf("install: %s", in_str(call, "manager"));
    struct exec_request req = {
        .told = told,
        .user = in_str(call, "user"),
        .timeout_ms = (uint64_t)ceil(in_number(call, "timeout") * 1000),
    };

    for (char **p = packages; *p; p++)
        if (**p == '-')
            return err_set(err, ERR_INVALID, "packages must not begin with a dash: \"%.60s\"", *p);
    req.argv = argv = install_plan(in_str(call, "manager"), packages);
    if (!argv)
        return err_set(err, ERR_INVALID,
                       "manager must be pip, npm, go, apt or a language, not \"%.40s\"",
                       in_str(call, "manager"));
    return whole_begin(call, &req, &install_ops, err);
}

/* ---- kernels ---- */

struct kernel_line {
    const char *name, *path, *version;
};

/* Takes the line apart. */
static bool read_line(char *line, struct kernel_line *ret)
{
    ret->name = strsep(&line, " ");
    ret->path = strsep(&line, " ");
    ret->version = line ? line : "";
    return ret->path && *ret->path == '/';
}

static bool find_line(const char *text, const char *name, char *room, size_t size,
                      struct kernel_line *ret)
{
    size_t n = strlen(name);

    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        size_t len;

        line += *line == '\n';
        len = strcspn(line, "\n");
        if (strncmp(line, name, n) != 0 || line[n] != ' ' || len >= size)
            continue;
        memcpy(room, line, len);
        room[len] = '\0';
        return read_line(room, ret);
    }
    return false;
}

/* Node takes types out itself from 22.6 on. */
static bool node_takes_types(const char *version)
{
    unsigned major = 0, minor = 0;

    return sscanf(version, "v%u.%u", &major, &minor) == 2 &&
           (major > 22 || (major == 22 && minor >= 6));
}

static int send_kernel(struct call *call, const struct language *l, const char *text,
                       struct err *err)
{
    char room[512], other[512];
    struct kernel_line line, tsx;

    if (!find_line(text, l->program, room, sizeof(room), &line))
        return 0;
    if (strcmp(l->name, "typescript") == 0 && !node_takes_types(line.version) &&
        !find_line(text, "tsx", other, sizeof(other), &tsx))
        return 0;
    return sink_item(call,
                     json_pack("{s:s, s:s, s:s, s:s, s:s, s:b}", "name", l->kernel, "language",
                               l->name, "displayName", l->shown, "version",
                               line.version + (*line.version == 'v'), "path", line.path, "stateful",
                               (int)l->keeps_state),
                     err);
}

static int kernels_step(struct task *task, struct call *call, struct err *err)
{
    struct whole_task *t = (struct whole_task *)task;
    struct exec_result result;
    auto_buf struct buf clean = {0};
    int r = engine_exec_collect(t->exec, &result, err);

    wait_for(task, t->exec);
    if (r != 0)
        return r < 0 ? -1 : TASK_WAITS;
    buf_init(&clean, 3 * result.out->len + 3);
    if (result.out->len > 0)
        (void)utf8_clean(&clean, result.out->data, result.out->len);
    for (const struct language *l = languages; l->name; l++)
        if (send_kernel(call, l, clean.data ? clean.data : "", err) < 0)
            return -1;
    return TASK_DONE;
}

static const struct task_ops kernels_ops = {.step = kernels_step, .free = whole_free};

static int kernels(struct call *call, struct err *err)
{
    struct exec_request req = {.command = languages_look, .told = "kernels", .timeout_ms = 10000};

    return whole_begin(call, &req, &kernels_ops, err);
}

/* ---- the rows ---- */

#define USER_FIELD                                                                                 \
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

static const struct field execute_fields[] = {
    {"code", FIELD_STRING, .max = 1 << 20, .example = "\"print(1 + 1)\"", .help = "what to run"},
    {"language", FIELD_STRING, .max = 40, .preset = "\"python\"",
     .help = "python, javascript, typescript, go or bash"},
    {"contextId", FIELD_STRING, .optional = true, .max = 64, .example = EXAMPLE_CONTEXT_ID,
     .help = "of the context that it runs in; a process of its own when absent. Its language, "
             "directory, environment and user are the context's"},
    {"cwd", FIELD_STRING, .optional = true, .min = 1, .max = PATH_BYTES_MAX,
     .help = "where it runs; the sandbox's workdir when absent"},
    {"env", FIELD_STRING_MAP, .optional = true, .max = ARG_BYTES_MAX,
     .help = "added to the sandbox's"},
    USER_FIELD,
    TIMEOUT_FIELD,
    {0},
};

static const struct field install_fields[] = {
    {"packages", FIELD_STRINGS, .filled = true, .min = 1, .max = 4096, .example = "[\"requests\"]",
     .help = "as the manager takes them"},
    {"manager", FIELD_STRING, .max = 40, .preset = "\"pip\"",
     .help = "pip, npm, go or apt, or a language: python, javascript, typescript, go, bash"},
    USER_FIELD,
    TIMEOUT_FIELD,
    {0},
};

const struct function interpreter_functions[] = {
    {"interp::execute", "POST", "/sandboxes/:sandboxId/interpret/execute", execute_fields, execute,
     "sandbox_run_code", SCOPE_EXEC, .reach = REACH_SANDBOX,
     .flags = FUNCTION_WAITS | FUNCTION_EVENTS, .done = "done", .key = "execution",
     .body_max = 8u << 20, .rate = RATE_EXEC,
     .help = "Runs code and waits for it; what it prints and gives comes as "
             "events to who asks for them",
     .gives = &execution_shape, .events = &execution_event_shape,
     .errors = ERRORS_COMMAND
     " interpreter_missing command_timeout cancelled context_not_found "
     "context_ended context_broken exec_not_found exec_attached too_many_streams no_space"},
    {"interp::install", "POST", "/sandboxes/:sandboxId/interpret/install", install_fields, install,
     "sandbox_install_package", SCOPE_EXEC, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS,
     .rate = RATE_EXEC, .help = "Installs packages for a language, or of the system",
     .gives = &installed_shape,
     .errors = ERRORS_COMMAND " interpreter_missing install_failed command_timeout cancelled"},
    {"interp::kernels", "GET", "/sandboxes/:sandboxId/interpret/kernels", NULL, kernels, NULL,
     SCOPE_READ, .reach = REACH_SANDBOX, .rate = RATE_EXEC, .flags = FUNCTION_WAITS,
     .answer = ANSWER_LIST, .help = "Lists the languages that this sandbox has",
     .gives = &kernels_shape, .errors = ERRORS_COMMAND " command_timeout cancelled"},
    {0},
};
