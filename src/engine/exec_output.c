#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/setting.h"
#include "engine/agent_client_internal.h"
#include "engine/agent_wait_internal.h"
#include "engine/engine_internal.h"
#include "engine/exec.h"
#include "engine/exec_internal.h"
#include "engine/sandbox_internal.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"
#include "runtime/runtime.h"

/* What a command puts out, and how it ends. */

/* Output up to this is kept without asking the memory budget; past it room is taken in two steps.
 * While there is none the output is left in the box, and the command waits as it would for any slow
 * reader; but not for ever. */
#define OUTPUT_FREE     (512u << 10)
#define OUTPUT_STEP     (2u << 20)
#define OUTPUT_WAIT_NS  (60 * 1000000000ll)
#define MEMORY_AGAIN_NS (50 * 1000000ll)

/* Was it the kernel, for lack of memory, since this was asked last? */
static bool was_oom(struct engine *e, struct sandbox *sb)
{
    struct box_stats stats;
    bool grew;

    if (runtime_stats(e->runtime, &sb->box, &stats, NULL) < 0)
        return false;
    pthread_mutex_lock(&sb->lock);
    grew = stats.oom_kills > sb->oom_seen;
    sb->oom_seen = stats.oom_kills;
    pthread_mutex_unlock(&sb->lock);
    return grew;
}

/* The agent says itself whether memory ran out; for one that is older we look. */
static void look_at_memory(struct exec *x, struct call_exit *end)
{
    bool killed =
        (end->how == EXIT_CODE || end->how == EXIT_SIGNAL) && exit_code_of(end) == 128 + 9;

    if (x->again || !(killed || (end->code & EXIT_MEMORY)))
        return;
    if (was_oom(x->engine, x->sandbox) && !(end->code & EXIT_MEMORY_SEEN))
        end->code |= EXIT_MEMORY;
}

/* The last frame: EXIT, or of one opened again END. */
static int read_exit(struct exec *x, const struct frame *f, struct exec_output *ret,
                     struct err *err)
{
    struct call_kept state = {0};
    struct call_exit *end = &state.exit;
    struct wire w;

    wire_init(&w, f->data, f->len);
    if (x->again)
        call_state_get(&w, &state);
    else
        call_exit_get(&w, end);
    if (!wire_ok(&w) || state.running || !exit_reason_of(end))
        return agent_broken(err, "the end of a command in a form that cannot be read");
    look_at_memory(x, end);
    x->end = *end;
    *ret = (struct exec_output){
        .what = EXEC_EXIT,
        .data = "",
        .exit_code = exit_code_of(end),
        .reason = exit_reason_of(end),
        .duration_ms = end->duration_ns ? (double)end->duration_ns / 1e6 : 0.001,
        .lost_stdout = end->lost_stdout,
        .lost_stderr = end->lost_stderr,
    };
    x->ended = true;
    exec_tell_ended(x, ret->duration_ms);
    return 0;
}

/* The stream broke off, but the box lives: the command took its supervisor with it (kill -1), or
 * the kernel did when memory ran out. That is an end of the command, and not of the sandbox. The
 * start of one that is collected is told late; of any other that was not told it did not happen. */
static int lost_supervisor(struct exec *x, struct exec_output *ret, const struct err *why,
                           struct err *err)
{
    struct engine *e = x->engine;
    struct sandbox *sb = x->sandbox;

    if ((!x->started && !x->collected) || !why->code || strcmp(why->code, "agent_lost") != 0 ||
        !runtime_lives(e->runtime, &sb->box)) {
        if (err)
            *err = *why;
        return -1;
    }
    x->ended = true;
    x->end = (struct call_exit){.how = EXIT_LOST, .code = was_oom(e, sb) ? EXIT_MEMORY : 0};
    *ret = (struct exec_output){
        .what = EXEC_EXIT,
        .data = "",
        .exit_code = exit_code_of(&x->end),
        .reason = exit_reason_of(&x->end),
        .duration_ms = (double)(mono_ns() - x->opened_ns) / 1e6,
    };
    exec_tell_ended(x, ret->duration_ms);
    return 0;
}

/* When its time is over; 0 = never. The agent sees to it, unless the sandbox is paused. */
static int64_t timeout_ns(const struct exec *x)
{
    int64_t from = x->started ? x->started_ns : x->opened_ns;

    return x->timeout_ms ? from + x->waited_ns + (int64_t)x->timeout_ms * 1000000 : 0;
}

/* When an agent that says nothing is given up. */
static int64_t given_up_ns(const struct exec *x)
{
    const struct engine_waits *waits = &x->engine->config.waits;

    if (!x->started)
        return x->quiet_ns + waits->agent * 1000000ll;
    return x->timeout_ms ? timeout_ns(x) + waits->overrun * 1000000ll : 0;
}

/* When to look, if nothing comes. */
static int64_t next_look_ns(const struct exec *x)
{
    if (!x->started)
        return x->look_ns;
    return x->timeout_ms && mono_ns() < timeout_ns(x) ? timeout_ns(x) : given_up_ns(x);
}

void engine_exec_wait(const struct exec *x, struct exec_wait *ret)
{
    *ret = (struct exec_wait){
        .fd = x->reader.fd,
        .events = EPOLLIN | (x->input.len > 0 ? EPOLLOUT : 0),
        .until_ns = next_look_ns(x),
    };
    if (x->wants_memory_ns)
        *ret = (struct exec_wait){.fd = -1, .until_ns = mono_ns() + MEMORY_AGAIN_NS};
}

static int timed_out(const struct exec *x, struct err *err)
{
    auto_free char *why =
        x->capped ? xasprintf(", the most that %s allows",
                              setting_name("CAY_MAX_CMD_TIMEOUT", "III_MAX_CMD_TIMEOUT"))
                  : NULL;

    return err_code(err, ERR_TIMEOUT, "command_timeout", "Command timed out after %llums%s",
                    (unsigned long long)x->timeout_ms, why ? why : "");
}

/* A box that is paused cannot end it: the caller's time is over all the same, and the command's
 * when the box goes on. */
static int give_up(const struct exec *x, struct err *err)
{
    if (x->timeout_ms && mono_ns() >= timeout_ns(x) && sandbox_is_paused(x->sandbox))
        return timed_out(x, err);
    if (!x->started)
        return agent_silent(x->sandbox, err);
    return err_code(err, ERR_TIMEOUT, "agent_timeout",
                    "the sandbox did not end the command after its timeout; remove the sandbox");
}

static int read_started(struct exec *x, const struct frame *f, struct exec_output *ret,
                        struct err *err)
{
    struct wire w;

    wire_init(&w, f->data, f->len);
    *ret = (struct exec_output){.what = EXEC_STARTED, .data = "", .pid = wire_get_u32(&w)};
    x->kept = w.p < w.end && wire_get_u32(&w) == 1;
    x->recorded = w.p < w.end && wire_get_u32(&w) == 1;
    if (!wire_ok(&w))
        return agent_broken(err, "a process id that cannot be read");
    if (x->detached && !x->kept)
        return err_set(err, ERR_UNSUPPORTED,
                       "the sandbox was made by an older cay, which ends a command when nobody "
                       "waits for it: leave detach away, or create the sandbox again");
    x->started = true;
    x->started_ns = mono_ns();
    return 0;
}

/* The first frame of one opened again. */
static int read_state(struct exec *x, const struct frame *f, struct exec_output *ret,
                      struct err *err)
{
    struct call_kept state;
    struct wire w;

    wire_init(&w, f->data, f->len);
    call_state_get(&w, &state);
    if (!wire_ok(&w))
        return agent_broken(err, "the state of a command in a form that cannot be read");
    *ret = (struct exec_output){.what = EXEC_STARTED, .data = "", .pid = state.pid};
    x->started = x->kept = true;
    x->started_ns = mono_ns();
    if (x->cursor > state.end)
        x->cursor = state.end;
    return 0;
}

static int read_lost(struct exec *x, const struct frame *f, struct exec_output *ret,
                     struct err *err)
{
    *ret = (struct exec_output){.what = EXEC_LOST, .data = ""};
    return exec_read_lost(f->data, f->len, &x->cursor, &ret->lost, err);
}

static int read_frame(struct exec *x, const struct frame *f, struct exec_output *ret,
                      struct err *err)
{
    if (!x->started && f->type == (x->again ? FRAME_OK : FRAME_STARTED))
        return x->again ? read_state(x, f, ret, err) : read_started(x, f, ret, err);
    if (x->started && f->type == (x->again ? FRAME_END : FRAME_EXIT))
        return read_exit(x, f, ret, err);
    if (x->started && x->again && f->type == FRAME_LOST)
        return read_lost(x, f, ret, err);
    if (!x->started || (f->type != FRAME_STDOUT && f->type != FRAME_STDERR))
        return agent_broken(err, "output of the wrong kind");
    *ret = (struct exec_output){
        .what = f->type == FRAME_STDOUT ? EXEC_STDOUT : EXEC_STDERR,
        .data = f->data,
        .len = f->len,
    };
    x->cursor += f->len;
    return 0;
}

/* A command that does not start: whose fault is that? */
static int look(struct exec *x, struct err *err)
{
    if (x->started || mono_ns() < x->look_ns)
        return 0;
    x->look_ns = mono_ns() + x->engine->config.waits.look * 1000000ll;
    if (sandbox_is_paused(x->sandbox))
        x->quiet_ns = mono_ns(); /* it could not answer until now */
    return agent_judge_try(x->engine, x->sandbox, err);
}

/* 1, 0 or -1 as agent_take(), having read what there is. */
static int take_frame(struct exec *x, struct frame *f, struct err *err)
{
    int r = agent_take(&x->reader, f, err);

    if (r != 0)
        return r;
    if (agent_fill(&x->reader, err) < 0)
        return -1;
    return agent_take(&x->reader, f, err);
}

static bool is_over(const struct exec *x)
{
    int64_t now = mono_ns(), given_up = given_up_ns(x);

    if (given_up && now >= given_up && (x->started || !sandbox_is_paused(x->sandbox)))
        return true;
    return x->timeout_ms && now >= timeout_ns(x) && sandbox_is_paused(x->sandbox);
}

/* What came while this process stood still counts: that the command began, and how it ended. */
static bool is_news(const struct exec *x, const struct frame *f)
{
    return !x->started || f->type == (x->again ? FRAME_END : FRAME_EXIT);
}

int engine_exec_next(struct exec *x, struct exec_output *ret, struct err *err)
{
    struct err why = {0};
    struct frame f;
    int r;

    engine_exec_flush(x);
    r = take_frame(x, &f, &why);
    if (r < 0 && x->again && !x->started && why.kind == ERR_INVALID)
        exec_explain_old(&why, x->id);
    if (r < 0 && x->record && !x->started && why.kind == ERR_INVALID && !why.code)
        (void)err_set(&why, ERR_UNSUPPORTED,
                      "the sandbox was made by an older cay, which records nothing: leave record "
                      "away, or create the sandbox again");
    if (r < 0 && x->modern && !x->started)
        exec_explain_modern(&why);
    if (r < 0 && x->once && !x->started && why.kind == ERR_INVALID && !why.code)
        why.kind = ERR_UNSUPPORTED;
    if (r < 0) {
        /* Refused: nothing runs that closing would have to end. By its id that is another's. */
        x->ended |= !x->started;
        if (lost_supervisor(x, ret, &why, err) == 0)
            return 1;
        exec_tell_failed(x, &why);
        return -1;
    }
    /* Also while output comes: an agent that floods must not outlive the timeout. */
    if (is_over(x) && (r == 0 || !is_news(x, &f)))
        return give_up(x, err);
    if (r == 0) {
        agent_rest(&x->reader);
        return look(x, err);
    }
    agent_answered(x->sandbox);
    return read_frame(x, &f, ret, err) < 0 ? -1 : 1;
}

/* ---- the output whole ---- */

/* May this much be kept? Most outputs stay in the first step. Past that, room for all that one can
 * become is taken at once: of many that each had a part, none would come to its end. */
static bool grow(struct exec *x, size_t kept)
{
    size_t want = kept <= OUTPUT_STEP ? OUTPUT_STEP : 2 * EXEC_OUTPUT_MAX;

    if (kept <= OUTPUT_FREE || kept <= x->reserved)
        return true;
    if (!budget_take(x->engine->config.memory, want - x->reserved))
        return false;
    x->reserved = want;
    return true;
}

/* False while it waits for memory. Past OUTPUT_WAIT_NS it goes on without: what comes is counted as
 * lost, so that the command is not held up by the outputs of others. */
static bool has_room(struct exec *x)
{
    size_t kept = x->streams[0].len + x->streams[1].len;

    if (x->cut || grow(x, kept + FRAME_MAX < 2 * EXEC_OUTPUT_MAX ? kept + FRAME_MAX : kept))
        return true;
    if (!x->wants_memory_ns)
        x->wants_memory_ns = mono_ns();
    x->cut = mono_ns() - x->wants_memory_ns >= OUTPUT_WAIT_NS;
    return x->cut;
}

/* The time that it waited is not the agent's. */
static bool await_room(struct exec *x)
{
    if (!has_room(x))
        return false;
    if (x->wants_memory_ns)
        x->waited_ns += mono_ns() - x->wants_memory_ns;
    x->wants_memory_ns = 0;
    return true;
}

static void keep(struct exec *x, const struct exec_output *out)
{
    struct buf *b = &x->streams[out->what == EXEC_STDERR];
    size_t room = x->cut ? 0 : EXEC_OUTPUT_MAX - b->len;
    size_t n = out->len < room ? out->len : room;

    (void)buf_add(b, out->data, n);
    x->lost += out->len - n;
}

static void give_result(struct exec *x, const struct exec_output *end, struct exec_result *ret)
{
    *ret = (struct exec_result){
        .out = &x->streams[0],
        .errors = &x->streams[1],
        .end = *end,
        .truncated = x->lost + end->lost_stdout + end->lost_stderr > 0,
    };
}

/* The box could not say how it ended. */
static int failed_collecting(struct exec *x, struct exec_result *ret, const struct err *err)
{
    struct exec_output end = {
        .what = EXEC_EXIT,
        .data = "",
        .exit_code = 124,
        .reason = "timeout",
        .duration_ms = (double)(mono_ns() - x->opened_ns) / 1e6,
    };

    if (err && err->kind == ERR_TIMEOUT)
        give_result(x, &end, ret);
    return -1;
}

int engine_exec_collect(struct exec *x, struct exec_result *ret, struct err *err)
{
    struct exec_output out;
    int r;

    for (;;) {
        if (!await_room(x))
            return 1;
        r = engine_exec_next(x, &out, err);
        if (r <= 0)
            return r < 0 ? failed_collecting(x, ret, err) : 1;
        if (out.what == EXEC_EXIT) {
            give_result(x, &out, ret);
            return strcmp(out.reason, "timeout") == 0 ? timed_out(x, err) : 0;
        }
        if (out.what != EXEC_STARTED)
            keep(x, &out);
    }
}
