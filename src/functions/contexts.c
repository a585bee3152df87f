#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/exec.h"
#include "functions/code_run.h"
#include "functions/execution.h"
#include "functions/functions_internal.h"
#include "functions/input.h"
#include "service/interpreter/driver.h"
#include "service/interpreter/interpreter.h"
#include "service/interpreter/languages.h"
#include "service/services.h"

/* Contexts: interpreters that keep what code has left in them. One is an exec that outlives its
 * callers, and has its number: ctx_X is ex_X. Its agent knows all there is to know of it, so
 * nothing is stored, and a daemon that comes later finds it. Runs of several callers wait for each
 * other in its driver. */

#define READY_NS (30 * 1000000000ll) /* for an interpreter to start */

static void context_of(const char *exec_id, char ret[ID_SIZE])
{
    (void)snprintf(ret, ID_SIZE, "ctx_%.24s", exec_id + strlen("ex_"));
}

/* ---- as JSON ---- */

static json_t *context_json(const char *sandbox_id, const char *exec_id, const struct language *l,
                            json_t *created)
{
    char id[ID_SIZE];

    context_of(exec_id, id);
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", id, "sandboxId", sandbox_id, "language",
                     l->name, "execId", exec_id, "createdAt", created);
}

/* Of what the agent says of an exec; NULL when it is no context, or has ended. */
static json_t *context_of_exec(const char *sandbox_id, const json_t *info)
{
    const char *command = json_string_value(json_object_get(info, "command"));
    const char *exec_id = json_string_value(json_object_get(info, "id"));
    const struct language *l = command ? driver_language(command) : NULL;

    if (!l || !id_valid(exec_id, "ex") || !json_is_true(json_object_get(info, "running")))
        return NULL;
    return context_json(sandbox_id, exec_id, l, json_incref(json_object_get(info, "startedAt")));
}

static int list_contexts(struct engine *e, const char *sandbox_id, json_t **ret, struct err *err)
{
    json_t *all, *info, *contexts = json_array();
    size_t i;

    if (engine_exec_list(e, sandbox_id, &all, err) < 0) {
        json_decref(contexts);
        return -1;
    }
    json_array_foreach(json_object_get(all, "execs"), i, info)
    {
        json_t *context = context_of_exec(sandbox_id, info);

        if (context)
            (void)json_array_append_new(contexts, context);
    }
    json_decref(all);
    *ret = contexts;
    return 0;
}

static int list(struct call *call, struct err *err)
{
    json_t *contexts;

    if (list_contexts(call->engine, in_id(call), &contexts, err) < 0)
        return -1;
    call->out = json_pack("{s:o}", "contexts", contexts);
    return 0;
}

/* The context that the path names, and its user when that is wanted. */
static int look(struct call *call, char ret_exec[ID_SIZE], json_t **ret, char **ret_user,
                struct err *err)
{
    const char *context_id = in_str(call, "contextId");
    json_t *info;

    context_exec(call, ret_exec);
    if (engine_exec_look(call->engine, in_id(call), ret_exec, &info, err) < 0)
        return context_explain(context_id, err);
    *ret = context_of_exec(in_id(call), info);
    if (*ret && ret_user)
        *ret_user = driver_user(json_string_value(json_object_get(info, "command")));
    json_decref(info);
    return *ret ? 0 : context_not_found(context_id, err);
}

static int get(struct call *call, struct err *err)
{
    char exec_id[ID_SIZE];

    return look(call, exec_id, &call->out, NULL, err);
}

static int remove_context(struct call *call, struct err *err)
{
    json_t *context = NULL, *info = NULL;
    char exec_id[ID_SIZE];

    if (look(call, exec_id, &context, NULL, err) < 0)
        return -1;
    json_decref(context);
    if (engine_exec_end(call->engine, in_id(call), exec_id, &info, err) < 0)
        return context_explain(in_str(call, "contextId"), err);
    json_decref(info);
    return reply_success(call);
}

/* ---- a new one ---- */

struct create_task {
    struct task task;
    struct driver *driver;
    struct interpreter *interpreter;
    const struct language *language;
    char sandbox_id[ID_SIZE], exec_id[ID_SIZE];
    int64_t until_ns;
    bool ready;
    struct buf said; /* until then, for who wants to know why it never was */
};

static void create_free(struct task *task)
{
    struct create_task *t = (struct create_task *)task;

    if (!t->ready) /* nobody was told of it */
        driver_kill(t->driver);
    driver_close(t->driver);
    interpreter_leave(t->interpreter, t->exec_id);
    buf_done(&t->said);
    free(t);
}

static int create_failed(struct create_task *t, const struct driver_news *n, struct err *err)
{
    if (code_lacks_program(&t->said, n->exit_code))
        return code_missing(t->language->program, err);
    return err_code(err, ERR_CONFLICT, "context_ended", "the interpreter did not start: %.150s",
                    t->said.data ? t->said.data : "it said nothing");
}

/* Who made it has its input alone, and whoever is told of it may come before this task is freed. */
static void let_go(struct create_task *t)
{
    driver_close(t->driver);
    t->driver = NULL;
    t->task.fd = -1;
    t->task.events = 0;
}

static int create_news(struct create_task *t, struct call *call, const struct driver_news *n,
                       struct err *err)
{
    switch (n->what) {
    case DRIVER_READY:
        t->ready = true;
        let_go(t);
        call->out = context_json(t->sandbox_id, t->exec_id, t->language,
                                 json_integer((json_int_t)now_ms()));
        (void)json_object_set_new(call->out, "version", n->value);
        return TASK_DONE;
    case DRIVER_TEXT:
        if (utf8_valid(n->text, n->len))
            (void)buf_add(&t->said, n->text, n->len);
        return TASK_AGAIN;
    case DRIVER_ENDED:
        t->ready = true; /* there is nothing to end */
        return create_failed(t, n, err);
    case DRIVER_RESULT:
    case DRIVER_EXCEPTION:
        json_decref(n->value);
        return TASK_AGAIN;
    case DRIVER_STARTED:
    case DRIVER_DONE:
    case DRIVER_CANCELLED:
    case DRIVER_LEFT:
    case DRIVER_NOISE:
        return TASK_AGAIN;
    }
    abort();
}

static int create_step(struct task *task, struct call *call, struct err *err)
{
    struct create_task *t = (struct create_task *)task;
    struct driver_news news;
    int r = driver_next(t->driver, &news, err);

    driver_task_wait(task, t->driver, t->until_ns);
    if (r < 0)
        return -1;
    r = r > 0 ? create_news(t, call, &news, err) : TASK_WAITS;
    if (r > 0 && mono_ns() >= t->until_ns)
        return err_code(err, ERR_TIMEOUT, "command_timeout",
                        "the interpreter did not start within 30 seconds");
    return r;
}

static const struct task_ops create_ops = {.step = create_step, .free = create_free};

/* Those that are there, and those that are made at this moment: whoever of two comes later sees the
 * other. Takes making. */
static int check_count(struct call *call, json_t *making, struct err *err)
{
    json_t *contexts = NULL, *context;
    size_t i, n;
    int r = list_contexts(call->engine, in_id(call), &contexts, err);

    json_array_foreach(contexts, i, context)
    {
        (void)json_object_set_new(making, json_string_value(json_object_get(context, "execId")),
                                  json_true());
    }
    n = json_object_size(making);
    json_decref(contexts);
    json_decref(making);
    if (r == 0 && n > CONTEXTS_MAX)
        r = err_code(err, ERR_LIMIT, "context_limit",
                     "the sandbox has %d contexts already; remove some", CONTEXTS_MAX);
    return r;
}

/* options: what it was made with, for a restart. */
static int start_context(struct call *call, const struct language *l, const char *exec_id,
                         const json_t *options, struct err *err)
{
    auto_free char *text = json_dumps(options, JSON_COMPACT);
    struct driver_options o = {
        .cwd = json_string_value(json_object_get(options, "cwd")),
        .user = json_string_value(json_object_get(options, "user")),
        .env = json_object_get(options, "env"),
        .imports = json_object_get(options, "imports"),
        .idle_s = (uint32_t)json_integer_value(json_object_get(options, "idleTimeout")),
        .text = text,
    };
    struct create_task *t = xcalloc(1, sizeof(*t));

    t->task.ops = &create_ops;
    t->interpreter = call->services ? call->services->interpreter : NULL;
    (void)snprintf(t->sandbox_id, sizeof(t->sandbox_id), "%s", in_id(call));
    (void)snprintf(t->exec_id, sizeof(t->exec_id), "%s", exec_id);
    if (check_count(call, interpreter_enter(t->interpreter, t->sandbox_id, exec_id), err) < 0 ||
        driver_start(call->engine, t->sandbox_id, l, exec_id, &o, &t->driver, err) < 0) {
        interpreter_leave(t->interpreter, t->exec_id);
        free(t);
        return -1;
    }
    t->language = l;
    t->until_ns = mono_ns() + READY_NS;
    buf_init(&t->said, 4096);
    driver_task_wait(&t->task, t->driver, t->until_ns);
    call->task = &t->task;
    return 0;
}

static int create(struct call *call, struct err *err)
{
    static const char *const kept[] = {"cwd", "user", "env", "imports", "idleTimeout"};
    const struct language *l = language_find(in_str(call, "language"));
    json_t *options = json_object();
    char exec_id[ID_SIZE];
    int r;

    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (json_object_get(call->in, kept[i]))
            (void)json_object_set(options, kept[i], json_object_get(call->in, kept[i]));
    id_new(exec_id, "ex");
    if (!l || !l->keeps_state)
        r = err_set(err, ERR_INVALID,
                    "language of a context must be python or javascript, not \"%.40s\"",
                    in_str(call, "language"));
    else if (in_str(call, "user") && !driver_user_valid(in_str(call, "user")))
        r = err_set(err, ERR_INVALID,
                    "user of a context has letters, digits, dots, dashes and underscores only");
    else
        r = start_context(call, l, exec_id, options, err);
    json_decref(options);
    return r;
}

static const struct field create_fields[] = {
    {"language", FIELD_STRING, .max = 40, .preset = "\"python\"", .help = "python or javascript"},
    {"cwd", FIELD_STRING, .optional = true, .min = 1, .max = PATH_BYTES_MAX,
     .help = "where it runs; the sandbox's workdir when absent"},
    {"env", FIELD_STRING_MAP, .optional = true, .max = 65536, .help = "added to the sandbox's"},
    {"user", FIELD_STRING, .optional = true, .min = 1, .max = 64,
     .help = "name or uid, with :group or :gid; the image's"},
    {"imports", FIELD_STRINGS, .optional = true, .min = 1, .max = 256,
     .help = "modules that it loads before it is ready"},
    {"idleTimeout", FIELD_INT, .optional = true, .min = 0, .max = 31536000,
     .help = "seconds without a run after which it ends itself; 0 or absent = with the sandbox"},
    {0},
};

/* ---- again from the start ---- */

/* What its driver said first, if that is still kept; or whatever the sandbox says in its place, so
 * that it is looked at as if a caller had sent it. */
static json_t *options_of(struct call *call, const char *exec_id)
{
    json_t *state = NULL, *ready, *options;
    const char *text, *end;

    if (engine_exec_state(call->engine, in_id(call), exec_id, 0, &state, NULL) < 0)
        return json_object();
    text = json_string_value(json_object_get(state, "stdout"));
    end = text ? strchr(text, '\n') : NULL;
    ready = end ? input_parse(text, (size_t)(end - text), NULL) : NULL;
    text = json_string_value(json_object_get(ready, "options"));
    options = text ? input_parse(text, strlen(text), NULL) : NULL;
    json_decref(ready);
    json_decref(state);
    if (json_is_object(options) && input_check(options, create_fields, NULL, NULL) == 0)
        return options;
    json_decref(options);
    return json_object();
}

static int restart(struct call *call, struct err *err)
{
    json_t *context = NULL, *info = NULL, *options;
    auto_free char *user = NULL;
    char exec_id[ID_SIZE];
    int r;

    if (look(call, exec_id, &context, &user, err) < 0)
        return -1;
    options = options_of(call, exec_id);
    (void)json_object_del(options, "language");
    (void)json_object_del(options, "user");
    if (user)
        (void)json_object_set_new(options, "user", json_string(user));
    r = engine_exec_end(call->engine, in_id(call), exec_id, &info, err);
    json_decref(info);
    if (r == 0)
        r = start_context(call,
                          language_find(json_string_value(json_object_get(context, "language"))),
                          exec_id, options, err);
    json_decref(options);
    json_decref(context);
    return r < 0 ? context_explain(in_str(call, "contextId"), err) : 0;
}

/* ---- interrupt ---- */

struct interrupt_task {
    struct task task;
    struct driver *driver;
    char context_id[ID_SIZE];
};

static void interrupt_free(struct task *task)
{
    struct interrupt_task *t = (struct interrupt_task *)task;

    driver_close(t->driver);
    free(t);
}

static int interrupt_step(struct task *task, struct call *call, struct err *err)
{
    struct interrupt_task *t = (struct interrupt_task *)task;
    struct driver_news news;
    int r = driver_next(t->driver, &news, err);

    driver_task_wait(task, t->driver, 0);
    if (r < 0)
        return context_explain(t->context_id, err);
    if (r == 0)
        return TASK_WAITS;
    if (news.what == DRIVER_ENDED)
        return context_not_found(t->context_id, err);
    if (news.what != DRIVER_STARTED)
        return TASK_AGAIN;
    driver_interrupt(t->driver);
    return reply_success(call);
}

static const struct task_ops interrupt_ops = {.step = interrupt_step, .free = interrupt_free};

static int interrupt(struct call *call, struct err *err)
{
    struct interrupt_task *t;
    json_t *context = NULL;
    char exec_id[ID_SIZE];
    struct driver *d;

    if (look(call, exec_id, &context, NULL, err) < 0)
        return -1;
    json_decref(context);
    if (driver_again(call->engine, in_id(call), exec_id, &d, err) < 0)
        return context_explain(in_str(call, "contextId"), err);
    t = xcalloc(1, sizeof(*t));
    t->task.ops = &interrupt_ops;
    t->driver = d;
    (void)snprintf(t->context_id, sizeof(t->context_id), "%s", in_str(call, "contextId"));
    driver_task_wait(&t->task, d, 0);
    call->task = &t->task;
    return 0;
}

/* ---- the rows ---- */

#define ERRORS_CONTEXT ERRORS_AGENT " context_not_found exec_not_found too_many_streams no_space"

const struct function context_functions[] = {
    {"interp::context_create", "POST", "/sandboxes/:sandboxId/interpret/contexts", create_fields,
     create, NULL, SCOPE_EXEC, .reach = REACH_SANDBOX, .rate = RATE_EXEC,
     .flags = FUNCTION_MAKES | FUNCTION_WAITS,
     .help = "Starts an interpreter that keeps what code leaves in it",
     .gives = &code_context_shape,
     .errors = ERRORS_COMMAND " interpreter_missing context_limit context_ended command_timeout "
                              "context_broken cancelled"},
    {"interp::context_list", "GET", "/sandboxes/:sandboxId/interpret/contexts", NULL, list, NULL,
     SCOPE_READ, .reach = REACH_SANDBOX, .help = "Lists the contexts of a sandbox",
     .gives = &code_context_list_shape, .errors = ERRORS_AGENT},
    {"interp::context_get", "GET", "/sandboxes/:sandboxId/interpret/contexts/:contextId", NULL, get,
     NULL, SCOPE_READ, .reach = REACH_SANDBOX, .help = "Shows a context",
     .gives = &code_context_shape, .errors = ERRORS_CONTEXT},
    {"interp::context_delete", "DELETE", "/sandboxes/:sandboxId/interpret/contexts/:contextId",
     NULL, remove_context, NULL, SCOPE_EXEC, .reach = REACH_SANDBOX,
     .help = "Ends a context, with all that it started", .gives = &success_shape,
     .errors = ERRORS_CONTEXT},
    {"interp::context_restart", "POST",
     "/sandboxes/:sandboxId/interpret/contexts/:contextId/restart", NULL, restart, NULL, SCOPE_EXEC,
     .reach = REACH_SANDBOX, .rate = RATE_EXEC, .flags = FUNCTION_WAITS,
     .help = "Ends a context and starts it anew, empty, with the same id and settings",
     .gives = &code_context_shape,
     .errors = ERRORS_COMMAND " context_not_found exec_not_found interpreter_missing context_limit "
                              "context_ended context_broken command_timeout no_space cancelled "
                              "too_many_streams exec_exists"},
    {"interp::context_interrupt", "POST",
     "/sandboxes/:sandboxId/interpret/contexts/:contextId/interrupt", NULL, interrupt, NULL,
     SCOPE_EXEC, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS,
     .help = "Interrupts what a context runs, as Ctrl-C does; what it keeps stays",
     .gives = &success_shape, .errors = ERRORS_CONTEXT " context_broken cancelled"},
    {0},
};
