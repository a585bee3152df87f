#include "functions/ready.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/exec.h"
#include "engine/sandboxes.h"
#include "functions/functions_internal.h"
#include "functions/output.h"

#define FIRST_PAUSE_NS (50 * 1000000ll) /* between two tries; each is half as long again */
#define MOST_PAUSE_NS  (1000 * 1000000ll)
#define TAIL_MAX       4096 /* bytes of each stream of the last try that are told */
#define LINE_SHOWN     100  /* of its last line in the text of the error */

struct ready_task {
    struct task task;
    struct engine *engine;
    json_t *sandbox;
    char *line;  /* a text for the shell, or NULL = argv */
    char **argv; /* NULL = line */
    unsigned seconds;
    int64_t until_ns, pause_ns;
    struct exec *exec; /* NULL between two tries */
    bool passed;
    int exit_code; /* of the last try, */
    char *output;  /* with what it printed; NULL = there was none yet */
};

static const char *id_of(const struct ready_task *t)
{
    return json_string_value(json_object_get(t->sandbox, "id"));
}

static void ready_free(struct task *task)
{
    struct ready_task *t = (struct ready_task *)task;

    engine_exec_close(t->exec);
    if (!t->passed) /* nobody was told of it */
        (void)engine_remove(t->engine, id_of(t), NULL);
    json_decref(t->sandbox);
    free(t->line);
    strv_free(t->argv);
    free(t->output);
    free(t);
}

static void set_wait(struct ready_task *t)
{
    struct exec_wait wait;

    if (!t->exec)
        return;
    engine_exec_wait(t->exec, &wait);
    task_wait(&t->task, &wait);
}

static int try_again(struct ready_task *t, struct err *err)
{
    int64_t left_ms = (t->until_ns - mono_ns()) / 1000000;
    struct exec_request req = {
        .command = t->line,
        .argv = t->argv,
        .timeout_ms = left_ms > 1 ? (uint64_t)left_ms : 1,
        .collect = true,
    };

    if (engine_exec_open(t->engine, id_of(t), &req, &t->exec, err) < 0)
        return err_wrap(err, "ready command");
    set_wait(t);
    return 0;
}

/* The end of what it printed, as text. */
static void add_tail(struct buf *out, const struct buf *from)
{
    size_t skip = from->len > TAIL_MAX ? from->len - TAIL_MAX : 0;
    struct output_text text = {0};

    if (from->len > skip)
        output_text_add(&text, from->data + skip, from->len - skip, true, out);
}

static void note_end(struct ready_task *t, const struct exec_result *result)
{
    auto_buf struct buf all = {0};

    buf_init(&all, 8 * TAIL_MAX);
    add_tail(&all, result->out);
    add_tail(&all, result->errors);
    t->exit_code = result->end.exit_code;
    free(t->output);
    t->output = xstrndup(all.len > 0 ? all.data : "", all.len);
}

static const char *last_line(char *text)
{
    char *line;

    for (size_t n = strlen(text); n > 0 && text[n - 1] == '\n'; n--)
        text[n - 1] = '\0';
    line = strrchr(text, '\n');
    return line ? line + 1 : text;
}

static int give_up(struct ready_task *t, struct call *call, struct err *err)
{
    auto_free char *copy = xstrdup(t->output ? t->output : "");
    const char *line = last_line(copy);

    call->out =
        json_pack("{s:i, s:s}", "exitCode", t->exit_code, "output", t->output ? t->output : "");
    return err_code(err, ERR_TIMEOUT, "template_not_ready",
                    "the template's ready command did not succeed within %u s: exit code %d%s%.*s",
                    t->seconds, t->exit_code, *line ? ": " : "", LINE_SHOWN, line);
}

static int end_try(struct ready_task *t, struct call *call, const struct exec_result *result,
                   struct err *err)
{
    note_end(t, result);
    engine_exec_close(t->exec);
    t->exec = NULL;
    if (result->end.exit_code == 0 && mono_ns() < t->until_ns + MOST_PAUSE_NS) {
        t->passed = true;
        call->out = json_incref(t->sandbox);
        return TASK_DONE;
    }
    if (mono_ns() + t->pause_ns >= t->until_ns)
        return give_up(t, call, err);
    t->task.fd = -1;
    t->task.events = 0;
    t->task.until_ns = mono_ns() + t->pause_ns;
    t->pause_ns += t->pause_ns / 2;
    if (t->pause_ns > MOST_PAUSE_NS)
        t->pause_ns = MOST_PAUSE_NS;
    return TASK_WAITS;
}

static int ready_step(struct task *task, struct call *call, struct err *err)
{
    struct ready_task *t = (struct ready_task *)task;
    struct exec_result result;
    int r;

    if (call->draining)
        return err_set(err, ERR_UNAVAILABLE, "cay is stopping; try again when it runs");
    if (sink_event(call, NULL, err) < 0)
        return -1;
    if (!t->exec && mono_ns() < task->until_ns)
        return TASK_WAITS;
    if (!t->exec)
        return try_again(t, err) < 0 ? -1 : TASK_WAITS;
    r = engine_exec_collect(t->exec, &result, err);
    set_wait(t);
    if (r > 0)
        return TASK_WAITS;
    if (r < 0 && err->kind != ERR_TIMEOUT)
        return err_wrap(err, "ready command");
    if (r < 0) {
        note_end(t, &result);
        return give_up(t, call, err);
    }
    return end_try(t, call, &result, err);
}

static const struct task_ops ready_ops = {.step = ready_step, .free = ready_free};

int ready_begin(struct call *call, json_t *sandbox, const json_t *command, unsigned seconds,
                struct err *err)
{
    struct ready_task *t = xcalloc(1, sizeof(*t));

    t->task = (struct task){.ops = &ready_ops, .fd = -1};
    t->engine = call->engine;
    t->sandbox = sandbox;
    t->seconds = seconds;
    t->until_ns = mono_ns() + seconds * 1000000000ll;
    t->pause_ns = FIRST_PAUSE_NS;
    if (json_is_string(command))
        t->line = xstrdup(json_string_value(command));
    for (size_t i = 0; i < json_array_size(command); i++)
        t->argv = strv_add(t->argv, json_string_value(json_array_get(command, i)));
    if (try_again(t, err) < 0) {
        ready_free(&t->task);
        return -1;
    }
    call->task = &t->task;
    return 0;
}
