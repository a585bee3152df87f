#include "engine/drain_internal.h"

#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/agent_client_internal.h"
#include "engine/engine_internal.h"
#include "engine/idle_internal.h"
#include "engine/lifecycle_internal.h"
#include "engine/news_internal.h"
#include "engine/reaper_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"
#include "engine/stop_internal.h"
#include "engine/threads_internal.h"
#include "engine/turn_internal.h"
#include "engine/writer_internal.h"
#include "proto/call.h"
#include "proto/wire.h"

#define STEP_NS (100 * 1000000ll) /* between two looks at the same one */

struct drains {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct sandbox *list; /* a reference each */
    bool stop, running;
    pthread_t thread;
};

/* ---- which there are ---- */

static void list_add(struct engine *e, struct sandbox *sb)
{
    struct drains *d = e->drains;

    pthread_mutex_lock(&d->lock);
    if (!sb->drain.listed) {
        sb->drain.listed = true;
        sb->drain.next = d->list;
        d->list = sandbox_ref(sb);
        pthread_cond_signal(&d->more);
    }
    pthread_mutex_unlock(&d->lock);
}

static enum drain_step step_of(struct sandbox *sb)
{
    enum drain_step step;

    pthread_mutex_lock(&sb->lock);
    step = sb->drain.step;
    pthread_mutex_unlock(&sb->lock);
    return step;
}

/* From one step to the next, unless it has been cleared meanwhile. */
static void go_to(struct sandbox *sb, enum drain_step from, enum drain_step to)
{
    pthread_mutex_lock(&sb->lock);
    if (sb->drain.step == from)
        sb->drain.step = to;
    pthread_mutex_unlock(&sb->lock);
}

static enum drain_why why_of(struct sandbox *sb)
{
    enum drain_why why;

    pthread_mutex_lock(&sb->lock);
    why = sb->drain.why;
    pthread_mutex_unlock(&sb->lock);
    return why;
}

static bool refuses(enum drain_step step)
{
    return step == DRAIN_COMMANDS || step == DRAIN_MAIN || step == DRAIN_STOP;
}

bool drain_refuses(const struct sandbox *sb)
{
    return refuses(sb->drain.step) && sb->state != SANDBOX_STOPPED;
}

bool drain_clear(struct sandbox *sb)
{
    bool was;

    pthread_mutex_lock(&sb->lock);
    was = refuses(sb->drain.step);
    sb->drain.step = DRAIN_NOT;
    pthread_mutex_unlock(&sb->lock);
    return was;
}

int drain_check(struct sandbox *sb, struct err *err)
{
    if (!refuses(step_of(sb)))
        return 0;
    return err_code(err, ERR_CONFLICT, "sandbox_draining",
                    "Sandbox is about to stop and takes no new commands; start it again when it "
                    "has: POST .../start, `cay start ID`");
}

void drain_idle(struct engine *e, struct sandbox *sb)
{
    pthread_mutex_lock(&sb->lock);
    if (sb->drain.step == DRAIN_NOT) { /* its place in the list is under another lock */
        sb->drain.step = DRAIN_IDLE;
        sb->drain.why = DRAIN_IS_IDLE;
        sb->drain.until_ms = sb->drain.until_ns = 0;
        sb->drain.grace_ms = e->config.waits.main;
        sb->drain.grace_until_ns = 0;
    }
    pthread_mutex_unlock(&sb->lock);
    list_add(e, sb);
}

bool drain_expired(struct engine *e, struct sandbox *sb)
{
    struct drain *d = &sb->drain;
    bool begins;

    pthread_mutex_lock(&sb->lock);
    begins = d->step < DRAIN_MAIN;
    if (begins && d->step != DRAIN_COMMANDS) { /* of which a caller had asked for the stop */
        d->why = DRAIN_EXPIRED;
        d->until_ms = d->until_ns = 0;
        d->grace_ms = e->config.waits.main;
        d->grace_until_ns = 0;
    }
    if (begins)
        d->step = DRAIN_MAIN;
    pthread_mutex_unlock(&sb->lock);
    list_add(e, sb);
    return begins;
}

bool drain_was_renewed(struct sandbox *sb)
{
    struct drain *d = &sb->drain;
    bool asked, yes;

    pthread_mutex_lock(&sb->lock);
    asked = sb->spec.entrypoint && d->grace_until_ns > 0;
    yes = refuses(d->step) && d->why == DRAIN_EXPIRED && !asked && sb->deadline_ns > mono_ns();
    if (yes)
        d->step = DRAIN_NOT;
    pthread_mutex_unlock(&sb->lock);
    return yes;
}

/* ---- in its row ---- */

json_t *drain_json(const struct sandbox *sb)
{
    const struct drain *d = &sb->drain;

    if (!drain_refuses(sb) || d->why != DRAIN_REQUESTED)
        return NULL;
    return json_pack("{s:b, s:I, s:I}", "commands", d->step == DRAIN_COMMANDS, "until",
                     (json_int_t)d->until_ms, "grace", (json_int_t)d->grace_ms);
}

static void set(struct sandbox *sb, bool commands, int64_t until_ms, uint32_t grace_ms)
{
    pthread_mutex_lock(&sb->lock);
    sb->drain.step = commands ? DRAIN_COMMANDS : DRAIN_MAIN;
    sb->drain.why = DRAIN_REQUESTED;
    sb->drain.until_ms = until_ms;
    sb->drain.until_ns = until_ms ? mono_ns() + (until_ms - now_ms()) * 1000000ll : INT64_MAX;
    sb->drain.grace_ms = grace_ms;
    sb->drain.grace_until_ns = 0;
    pthread_mutex_unlock(&sb->lock);
}

void drain_load(struct sandbox *sb, const json_t *said)
{
    if (said)
        set(sb, json_is_true(json_object_get(said, "commands")),
            json_integer_value(json_object_get(said, "until")),
            (uint32_t)json_integer_value(json_object_get(said, "grace")));
}

void drain_recover(struct engine *e, struct sandbox *sb)
{
    if (step_of(sb) != DRAIN_NOT)
        list_add(e, sb);
}

/* ---- the steps ---- */

/* Those that nobody is attached to and that wait for nobody. */
static int count_running(const struct buf *payload, void *arg, struct err *err)
{
    struct call_kept state;
    unsigned *n = arg;
    struct wire w;

    wire_init(&w, payload->data, payload->len);
    call_state_get(&w, &state);
    if (!wire_ok(&w))
        return agent_broken(err, "the state of a command in a form that cannot be read");
    if (state.running && !(state.flags & (EXEC_TTY | EXEC_STDIN)) &&
        (id_valid(state.id, "ex") || id_valid(state.id, "bg")))
        ++*n;
    return 0;
}

/* Does a command run, or can that not be told? An agent that is older knows none. */
static bool has_commands(struct engine *e, struct sandbox *sb)
{
    struct err why = {0};
    unsigned n = 0;

    if (atomic_load(&sb->waits.tasks) > 0)
        return true;
    if (agent_items(e, sb, CALL_EXECS, NULL, count_running, &n, &why) < 0)
        return why.kind != ERR_INVALID;
    return n > 0;
}

/* It is not idle after all. Whoever had it stopped meanwhile still has. */
static void not_idle(struct engine *e, struct sandbox *sb)
{
    pthread_mutex_lock(&sb->lock);
    if (sb->drain.why == DRAIN_IS_IDLE)
        sb->drain.step = DRAIN_NOT;
    pthread_mutex_unlock(&sb->lock);
    idle_begin(e, sb);
}

/* Step 1. Past it no command begins; who came just before is seen by who looks once more. */
static void look_idle(struct engine *e, struct sandbox *sb)
{
    if (!has_commands(e, sb) && idle_is_due(sb)) {
        go_to(sb, DRAIN_IDLE, DRAIN_MAIN);
        if (atomic_load(&sb->waits.tasks) == 0)
            return;
    }
    not_idle(e, sb);
}

static void await_commands(struct engine *e, struct sandbox *sb)
{
    bool over;

    pthread_mutex_lock(&sb->lock);
    over = mono_ns() >= sb->drain.until_ns;
    pthread_mutex_unlock(&sb->lock);
    if (over || (!sandbox_is_paused(sb) && !has_commands(e, sb)))
        go_to(sb, DRAIN_COMMANDS, DRAIN_MAIN);
}

/* Asks it the first time, and then whether it has ended. */
static void await_main(struct engine *e, struct sandbox *sb)
{
    int64_t until, now = mono_ns();
    bool asked;

    if (drain_was_renewed(sb))
        return;
    pthread_mutex_lock(&sb->lock);
    asked = sb->drain.grace_until_ns > 0;
    if (!asked)
        sb->drain.grace_until_ns = now + sb->drain.grace_ms * 1000000ll;
    until = sb->drain.grace_until_ns;
    pthread_mutex_unlock(&sb->lock);
    if (!sb->spec.entrypoint || sandbox_is_paused(sb) || until <= now ||
        !(asked ? main_runs(e, sb) : main_ask_to_end(e, sb)))
        go_to(sb, DRAIN_MAIN, DRAIN_STOP);
}

/* What was done with one that is idle since that was found out is not for nothing, but its main
 * process cannot be asked to go on. */
static void stop(struct engine *e, struct sandbox *sb)
{
    static const char *const reasons[] = {[DRAIN_REQUESTED] = "requested",
                                          [DRAIN_IS_IDLE] = "idle",
                                          [DRAIN_EXPIRED] = REASON_EXPIRED};
    enum drain_why why = why_of(sb);
    bool idle = why == DRAIN_IS_IDLE;
    struct err err = {0};
    int r;

    if (idle && !sb->spec.entrypoint && !idle_is_due(sb)) {
        not_idle(e, sb);
        return;
    }
    r = idle && sb->spec.idle_removes ? sandbox_remove(e, sb, REMOVED_BY_IDLENESS, &err)
                                      : sandbox_stop(e, sb, reasons[why], &err);
    if (r == 0)
        return;
    if (err.kind != ERR_NOT_FOUND && err.kind != ERR_UNAVAILABLE && err.kind != ERR_CONFLICT)
        log_error("a sandbox that was to stop could not be stopped; trying again", "id", sb->box.id,
                  "error", err.text);
}

/* False when it is done. */
static bool take_step(struct engine *e, struct sandbox *sb)
{
    if (sandbox_is_paused(sb)) {
        if (why_of(sb) == DRAIN_IS_IDLE) {
            not_idle(e, sb);
            return false;
        }
    } else if (sandbox_check_running(sb, NULL) < 0) {
        (void)drain_clear(sb);
        return false;
    }
    if (sandbox_is_committing(sb))
        return true;
    switch (step_of(sb)) {
    case DRAIN_NOT:
        return false;
    case DRAIN_IDLE:
        look_idle(e, sb);
        break;
    case DRAIN_COMMANDS:
        await_commands(e, sb);
        break;
    case DRAIN_MAIN:
        await_main(e, sb);
        break;
    case DRAIN_STOP:
        stop(e, sb);
        break;
    }
    return true;
}

/* ---- the thread ---- */

/* With the lock held: all of them a step, without it. */
static void go_round(struct engine *e, struct drains *d)
{
    struct sandbox *list = d->list, *next;

    d->list = NULL;
    for (struct sandbox *sb = list; sb; sb = next) {
        bool more;

        next = sb->drain.next;
        pthread_mutex_unlock(&d->lock);
        more = take_step(e, sb);
        pthread_mutex_lock(&d->lock);
        /* It may have been put in anew just now, when it still was in the list. */
        if (more || step_of(sb) != DRAIN_NOT) {
            sb->drain.next = d->list;
            d->list = sb;
        } else {
            sb->drain.listed = false;
            pthread_mutex_unlock(&d->lock);
            sandbox_unref(sb);
            pthread_mutex_lock(&d->lock);
        }
    }
}

static void *drains_main(void *arg)
{
    struct engine *e = arg;
    struct drains *d = e->drains;

    thread_is_background();
    pthread_mutex_lock(&d->lock);
    while (!d->stop) {
        go_round(e, d);
        if (d->list && !d->stop) {
            int64_t then = mono_ns() + STEP_NS;
            struct timespec until = {.tv_sec = then / 1000000000, .tv_nsec = then % 1000000000};

            (void)pthread_cond_timedwait(&d->more, &d->lock, &until);
        } else if (!d->stop) {
            pthread_cond_wait(&d->more, &d->lock);
        }
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

struct drains *drains_new(void)
{
    struct drains *d = xcalloc(1, sizeof(*d));

    pthread_mutex_init(&d->lock, NULL);
    cond_init_monotonic(&d->more);
    return d;
}

void drains_free(struct drains *d)
{
    if (!d)
        return;
    while (d->list) { /* the next start goes on with it */
        struct sandbox *sb = d->list;

        d->list = sb->drain.next;
        sandbox_unref(sb);
    }
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->more);
    free(d);
}

int drains_start(struct engine *e, struct err *err)
{
    int r = pthread_create(&e->drains->thread, NULL, drains_main, e);

    if (r != 0)
        return err_sys(err, r, "start the thread that lets sandboxes come to their end");
    e->drains->running = true;
    return 0;
}

void drains_stop(struct engine *e)
{
    struct drains *d = e->drains;

    if (!d->running)
        return;
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    pthread_cond_signal(&d->more);
    pthread_mutex_unlock(&d->lock);
    (void)pthread_join(d->thread, NULL);
    d->running = false;
}

/* ---- calls ---- */

static int begin_in_turn(struct engine *e, struct sandbox *sb, const struct stop_request *req,
                         struct err *err)
{
    int64_t until_ms = req->drain && req->timeout_ms ? now_ms() + req->timeout_ms : 0;

    if (sandbox_is_stopped(sb))
        return 0;
    if (!sandbox_is_paused(sb) && sandbox_check_running(sb, err) < 0)
        return -1;
    set(sb, req->drain, until_ms, req->drain ? e->config.waits.main : req->timeout_ms);
    if (writer_wait(e, writer_put(e, sb), err) < 0) {
        (void)drain_clear(sb);
        return -1;
    }
    sandbox_tell(
        e, sb, "sandbox.draining",
        json_pack("{s:b, s:I}", "commands", (int)req->drain, "until", (json_int_t)until_ms));
    list_add(e, sb);
    return 0;
}

int engine_stop_later(struct engine *e, const char *id, const struct stop_request *req,
                      json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    int r;

    if (sandbox_get(e, id, &sb, err) < 0 || turn_take(e, &sb->turn, err) < 0)
        return -1;
    r = begin_in_turn(e, sb, req, err);
    turn_give(&sb->turn);
    if (r == 0)
        *ret = sandbox_json(e, sb);
    return r;
}

int engine_has_stopped(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    if (sandbox_is_stopped(sb)) {
        *ret = sandbox_json(e, sb);
        return 1;
    }
    if (refuses(step_of(sb)))
        return 0;
    return err_set(err, ERR_CONFLICT, "the sandbox was started again before it had stopped");
}
