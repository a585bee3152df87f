#include "functions/code_run.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/exec.h"
#include "engine/pool.h"
#include "functions/execution.h"
#include "functions/functions_internal.h"
#include "service/interpreter/cancelled.h"
#include "service/interpreter/driver.h"
#include "service/interpreter/interpreter.h"
#include "service/interpreter/languages.h"
#include "service/services.h"

/* Runs of code by a driver, in a process of its own or in a context (functions/contexts.c). */

static void exec_of(const char *context_id, char ret[ID_SIZE])
{
    (void)snprintf(ret, ID_SIZE, "ex_%.24s", context_id + strlen("ctx_"));
}

int context_not_found(const char *context_id, struct err *err)
{
    return err_code(err, ERR_NOT_FOUND, "context_not_found", "Context not found: %.60s",
                    context_id);
}

int context_explain(const char *context_id, struct err *err)
{
    if (err && err->code && strcmp(err->code, "exec_not_found") == 0)
        return context_not_found(context_id, err);
    return -1;
}

/* What has not the form of an id nobody has. */
void context_exec(const struct call *call, char ret_exec[ID_SIZE])
{
    const char *context_id = in_str(call, "contextId");

    exec_of(id_valid(context_id, "ctx") ? context_id : "ctx_000000000000000000000000", ret_exec);
}

void driver_task_wait(struct task *task, const struct driver *d, int64_t until_ns)
{
    struct exec_wait wait;

    driver_wait(d, &wait);
    task_wait(task, &wait);
    if (until_ns && (!task->until_ns || until_ns < task->until_ns))
        task->until_ns = until_ns;
}

struct run_task {
    struct task task;
    struct driver *driver;
    struct execution execution;
    const struct language *language; /* of one in a process of its own */
    char sandbox_id[ID_SIZE];
    char context_id[ID_SIZE]; /* "" = a process of its own */
    char exec_id[ID_SIZE];    /* of the context */
    struct engine *engine;
    struct cancelled *cancelled;
    bool waited; /* its driver had waited for it in the pool's box */
    bool lost;   /* and is of no use to others any more */
    json_t *in;  /* what was asked for, to begin again without it */
    uint64_t timeout_ms;
    int64_t began_ns, until_ns; /* of a context: when its time is over; 0 = never */
    bool late;                  /* that it is */
    bool interrupted;           /* because of that; else it was taken out of those that wait */
    bool done;
    bool gone; /* its context, or the way to it */
    struct driver_news end;
};

static void run_free(struct task *task)
{
    struct run_task *t = (struct run_task *)task;

    if (!t->done && t->waited)
        driver_kill(t->driver);
    if (t->context_id[0] && !t->gone)
        cancelled_take(t->cancelled, t->exec_id, t->driver); /* the context stays */
    else
        driver_close(t->driver);
    if (t->done && t->waited && !t->lost)
        engine_helper_give(t->engine, t->sandbox_id);
    execution_done(&t->execution);
    json_decref(t->in);
    free(t);
}

/* What it put out belongs to the failure. */
static void leave_output(struct run_task *t, struct call *call, int exit_code)
{
    json_decref(call->out);
    call->out =
        json_pack("{s:i, s:b}", "exitCode", exit_code, "truncated", (int)t->execution.truncated);
    call->texts[0] = (struct text){"stdout", &t->execution.streams[0]};
    call->texts[1] = (struct text){"stderr", &t->execution.streams[1]};
}

static int run_timed_out(struct run_task *t, struct call *call, const char *then, struct err *err)
{
    leave_output(t, call, 124);
    return err_code(err, ERR_TIMEOUT, "command_timeout", "Command timed out after %.0fms%s",
                    (double)(mono_ns() - t->began_ns) / 1e6, then);
}

static int start_once(struct engine *e, const char *sandbox_id, const json_t *in,
                      const struct language *l, uint64_t timeout_ms, struct driver **ret,
                      struct err *err)
{
    struct driver_options o = {
        .cwd = json_string_value(json_object_get(in, "cwd")),
        .user = json_string_value(json_object_get(in, "user")),
        .env = json_object_get(in, "env"),
    };

    return driver_start_once(e, sandbox_id, l, &o, timeout_ms, ret, err);
}

/* The one that waited is gone, and nothing has run: then a new one it is. */
static int begin_again(struct run_task *t, struct err *err)
{
    struct driver *d;

    t->waited = false;
    t->until_ns = 0;
    if (start_once(t->engine, t->sandbox_id, t->in, t->language, t->timeout_ms, &d, err) < 0)
        return -1;
    driver_close(t->driver);
    t->driver = d;
    driver_run(d, json_incref(json_object_get(t->in, "code")));
    driver_task_wait(&t->task, d, 0);
    return TASK_AGAIN;
}

/* Of a process of its own: as of any command. Of a context: it is lost with all that it kept. */
static int run_process_ended(struct run_task *t, struct call *call, const struct driver_news *n,
                             struct err *err)
{
    json_t *words;

    if (t->waited && !n->had_begun)
        return begin_again(t, err);
    t->done = t->lost = t->gone = true;
    if (!t->context_id[0]) {
        if (code_lacks_program(&t->execution.streams[1], n->exit_code))
            return code_missing(t->language->program, err);
        if (strcmp(n->reason, "timeout") == 0)
            return run_timed_out(t, call, "", err);
        return execution_answer(&t->execution, call, n->exit_code, n->was_done ? t->end.ms : n->ms,
                                err);
    }
    if (!n->had_begun && strcmp(n->reason, "cancelled") == 0) /* it was removed */
        return context_not_found(t->context_id, err);
    leave_output(t, call, n->exit_code);
    words = json_object();
    driver_put_words(t->driver, words);
    (void)err_code(
        err, ERR_CONFLICT, "context_ended", "the context has ended, with all that it kept: %.120s",
        json_object_get(words, "message") ? json_string_value(json_object_get(words, "message"))
                                          : "its process exited");
    json_decref(words);
    return -1;
}

static int run_done(struct run_task *t, struct call *call, const struct driver_news *n,
                    struct err *err)
{
    t->end = *n;
    t->execution.truncated |= n->truncated;
    if (!t->context_id[0] && !t->waited)
        return TASK_AGAIN; /* its process ends next */
    t->done = true;
    if (t->late)
        return run_timed_out(t, call, "; it was interrupted, and the context is as it left it",
                             err);
    return execution_answer(&t->execution, call, n->exit_code, n->ms, err);
}

static int run_never_began(struct run_task *t, struct call *call, struct err *err)
{
    t->done = true;
    return run_timed_out(t, call, "; it did not begin: its context was at other runs", err);
}

static int run_news(struct run_task *t, struct call *call, const struct driver_news *n,
                    struct err *err)
{
    struct execution *x = &t->execution;
    int r = 0;

    switch (n->what) {
    case DRIVER_STARTED:
        r = sink_event(call, NULL, err);
        break;
    case DRIVER_READY:
        json_decref(n->value);
        break;
    case DRIVER_NOISE:
        break;
    case DRIVER_TEXT:
        r = execution_text(x, call, n->is_error, n->text, n->len, false, err);
        break;
    case DRIVER_RESULT:
        r = execution_result(x, call, n->value, n->len, err);
        break;
    case DRIVER_EXCEPTION:
        r = execution_exception(x, call, n->value, err);
        break;
    case DRIVER_DONE:
        return run_done(t, call, n, err);
    case DRIVER_CANCELLED:
        return run_never_began(t, call, err);
    case DRIVER_LEFT:
        t->done = true;
        return execution_answer(x, call, n->exit_code,
                                n->was_done ? t->end.ms : (double)(mono_ns() - t->began_ns) / 1e6,
                                err);
    case DRIVER_ENDED:
        return run_process_ended(t, call, n, err);
    }
    return r < 0 ? -1 : TASK_AGAIN;
}

/* The first time it is asked to stop, the second time there is no more asking. What has not begun
 * waits for runs of others, which have nothing to do with its time. */
static int run_is_late(struct run_task *t, struct call *call, struct err *err)
{
    json_t *info = NULL;

    if (t->waited) { /* as a command: with all that it started */
        t->done = t->lost = true;
        driver_kill(t->driver);
        return run_timed_out(t, call, "", err);
    }
    if (!t->late || (!t->interrupted && driver_has_begun(t->driver))) {
        t->late = true;
        t->interrupted = driver_has_begun(t->driver);
        driver_cancel(t->driver);
        t->until_ns = mono_ns() + call->services->interpreter->stop_ns;
        return TASK_AGAIN;
    }
    if (!t->interrupted)
        return run_never_began(t, call, err);
    t->done = t->gone = true;
    if (engine_exec_end(t->engine, t->sandbox_id, t->exec_id, &info, NULL) == 0)
        json_decref(info);
    return run_timed_out(t, call, " and could not be interrupted; its context was ended", err);
}

static int run_failed(struct run_task *t, struct err *err)
{
    bool is_broken = err->code && strcmp(err->code, "context_broken") == 0;

    if (t->waited && err->code && strcmp(err->code, "exec_not_found") == 0)
        return begin_again(t, err);
    t->done = t->lost = t->gone = true;
    if (is_broken && (t->context_id[0] || t->waited))
        driver_kill(t->driver);
    return t->context_id[0] ? context_explain(t->context_id, err) : -1;
}

static int run_step(struct task *task, struct call *call, struct err *err)
{
    struct run_task *t = (struct run_task *)task;
    struct driver_news news;
    int r = driver_next(t->driver, &news, err);

    if (r < 0)
        return run_failed(t, err);
    r = r > 0 ? run_news(t, call, &news, err) : TASK_WAITS;
    /* Also while it floods: that must not outlive its time. */
    if (r > 0 && t->until_ns && mono_ns() >= t->until_ns)
        r = run_is_late(t, call, err);
    driver_task_wait(task, t->driver, t->until_ns);
    return r;
}

static const struct task_ops run_ops = {.step = run_step, .free = run_free};

/* d is the task's from here on. */
static struct run_task *new_run(struct call *call, struct driver *d)
{
    struct run_task *t = xcalloc(1, sizeof(*t));

    t->task.ops = &run_ops;
    t->driver = d;
    t->engine = call->engine;
    if (call->services && call->services->interpreter)
        t->cancelled = call->services->interpreter->cancelled;
    t->began_ns = mono_ns();
    execution_init(&t->execution, call);
    call->task = &t->task;
    return t;
}

static int give_code(struct run_task *t, struct call *call, bool send, struct err *err)
{
    json_t *code = json_object_get(call->in, "code");

    if (execution_keep_code(&t->execution, json_string_length(code), err) < 0)
        return -1;
    if (send)
        driver_run(t->driver, json_incref(code));
    driver_task_wait(&t->task, t->driver, t->until_ns);
    return 0;
}

static uint64_t capped(const struct call *call, uint64_t timeout_ms)
{
    uint64_t max_ms = (uint64_t)engine_config(call->engine)->max_command_s * 1000;

    return timeout_ms && (!max_ms || timeout_ms < max_ms) ? timeout_ms : max_ms;
}

/* By the interpreter that has waited in the sandbox since that was in the pool. 0 = there is none
 * that is free. */
static int take_waiting(struct call *call, struct driver **ret)
{
    struct exec_request req = {.cwd = in_str(call, "cwd"), .env = json_object_get(call->in, "env")};
    auto_free char *cwd = NULL;
    char exec_id[ID_SIZE];
    struct driver *d = NULL;
    json_t *env = NULL;

    if (in_str(call, "user") || !engine_helper_take(call->engine, in_id(call), exec_id))
        return 0;
    if (engine_exec_settings(call->engine, in_id(call), &req, &env, &cwd, NULL) == 0 &&
        driver_again(call->engine, in_id(call), exec_id, &d, NULL) == 0 &&
        driver_run_apart(d, json_incref(json_object_get(call->in, "code")), env, cwd) == 0) {
        *ret = d;
        return 1;
    }
    if (!d)
        json_decref(env);
    driver_close(d);
    engine_helper_give(call->engine, in_id(call));
    return 0;
}

int code_run_once(struct call *call, const struct language *l, uint64_t timeout_ms, struct err *err)
{
    struct run_task *t;
    struct driver *d;
    int waited = take_waiting(call, &d);

    if (!waited && start_once(call->engine, in_id(call), call->in, l, timeout_ms, &d, err) < 0)
        return -1;
    t = new_run(call, d);
    t->language = l;
    t->waited = waited;
    (void)snprintf(t->sandbox_id, sizeof(t->sandbox_id), "%s", in_id(call));
    t->in = json_incref(call->in);
    t->timeout_ms = timeout_ms;
    if (waited && capped(call, timeout_ms))
        t->until_ns = t->began_ns + (int64_t)capped(call, timeout_ms) * 1000000;
    return give_code(t, call, !waited, err);
}

int code_run_in_context(struct call *call, uint64_t timeout_ms, struct err *err)
{
    char exec_id[ID_SIZE];
    struct run_task *t;
    struct driver *d;

    context_exec(call, exec_id);
    if (driver_again(call->engine, in_id(call), exec_id, &d, err) < 0)
        return -1;
    t = new_run(call, d);
    (void)snprintf(t->context_id, sizeof(t->context_id), "%s", in_str(call, "contextId"));
    (void)snprintf(t->sandbox_id, sizeof(t->sandbox_id), "%s", in_id(call));
    (void)snprintf(t->exec_id, sizeof(t->exec_id), "%s", exec_id);
    timeout_ms = capped(call, timeout_ms);
    if (timeout_ms)
        t->until_ns = t->began_ns + (int64_t)timeout_ms * 1000000;
    return give_code(t, call, true, err);
}
