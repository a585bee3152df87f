#include "engine/agent_wait_internal.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/agent_client_internal.h"
#include "engine/engine_internal.h"
#include "engine/idle_internal.h"
#include "engine/sandbox_internal.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "runtime/runtime.h"

#define RETRY_MS 100  /* between two attempts to reach an agent that takes no connection */
#define FRESH_MS 1000 /* so long a judgement holds for others who wait */

/* Of this process, for all sandboxes. */
static atomic_uint places_taken, extra_threads;

void agent_waits_init(struct agent_waits *w)
{
    (void)pthread_mutex_init(&w->judging, NULL);
}

void agent_waits_done(struct agent_waits *w)
{
    (void)pthread_mutex_destroy(&w->judging);
}

/* ---- how many ---- */

static int too_many(const struct sandbox *sb, struct err *err)
{
    return err_code(err, ERR_UNAVAILABLE, "sandbox_busy",
                    atomic_load(&sb->waits.silent)
                        ? "the sandbox does not answer, and enough calls wait for it; try again "
                          "later, or remove it if that goes on"
                        : "the sandbox has too many calls that it has not answered yet; try again "
                          "when some have ended");
}

int agent_admit(struct sandbox *sb, struct err *err)
{
    const struct agent_waits *w = &sb->waits;
    unsigned threads = atomic_load(&w->threads), extra = atomic_load(&w->extra);

    if (atomic_load(&w->silent) && threads + extra >= AGENT_SILENT_MAX)
        return too_many(sb, err);
    if (threads >= AGENT_WAITS_MAX &&
        (extra >= AGENT_EXTRA_MAX || atomic_load(&extra_threads) >= AGENT_EXTRA_ALL_MAX))
        return too_many(sb, err);
    if (atomic_load(&places_taken) >= AGENT_THREADS_MAX)
        return err_code(err, ERR_UNAVAILABLE, "busy",
                        "too many calls wait for sandboxes; try again later");
    return 0;
}

/* Counts a thread, of one sandbox and of all, unless there are enough. */
static bool count_up(atomic_uint *own, unsigned own_max, atomic_uint *all, unsigned all_max)
{
    if (atomic_fetch_add(own, 1) < own_max) {
        if (atomic_fetch_add(all, 1) < all_max)
            return true;
        (void)atomic_fetch_sub(all, 1);
    }
    (void)atomic_fetch_sub(own, 1);
    return false;
}

static bool place_take(struct sandbox *sb)
{
    return count_up(&sb->waits.threads, AGENT_WAITS_MAX, &places_taken, AGENT_THREADS_MAX);
}

static void place_give(struct sandbox *sb)
{
    (void)atomic_fetch_sub(&places_taken, 1);
    (void)atomic_fetch_sub(&sb->waits.threads, 1);
}

static bool extra_begin(struct sandbox *sb)
{
    return count_up(&sb->waits.extra, AGENT_EXTRA_MAX, &extra_threads, AGENT_EXTRA_ALL_MAX);
}

static void extra_end(struct sandbox *sb)
{
    (void)atomic_fetch_sub(&extra_threads, 1);
    (void)atomic_fetch_sub(&sb->waits.extra, 1);
}

int agent_task_begin(struct sandbox *sb, struct err *err)
{
    if (atomic_fetch_add(&sb->waits.tasks, 1) < AGENT_TASKS_MAX)
        return 0;
    agent_task_end(sb);
    return err_code(err, ERR_UNAVAILABLE, "sandbox_busy",
                    "the sandbox runs %d commands that somebody waits for; try again when some "
                    "have ended",
                    AGENT_TASKS_MAX);
}

void agent_task_end(struct sandbox *sb)
{
    idle_note(sb); /* before it is nobody's */
    (void)atomic_fetch_sub(&sb->waits.tasks, 1);
}

void agent_answered(struct sandbox *sb)
{
    if (atomic_load(&sb->waits.silent))
        atomic_store(&sb->waits.silent, false);
}

/* ---- the cause of a silence ---- */

static int ms_until(int64_t deadline_ns)
{
    int64_t left = (deadline_ns - mono_ns() + 999999) / 1000000;

    return left > 0 ? (int)left : 0;
}

/* True also at the end of the stream. */
static bool ready(int fd, short events, int64_t deadline_ns)
{
    struct pollfd p = {.fd = fd, .events = events};
    int n;

    do
        n = poll(&p, 1, ms_until(deadline_ns));
    while (n < 0 && errno == EINTR);
    return n != 0;
}

/* A CALL_HELLO under way. -1 while the agent takes no connections; a box that is gone is not
 * silent: whoever waits for it hears of that. */
static int say_hello(struct engine *e, struct sandbox *sb, int64_t deadline_ns, bool *ret_gone)
{
    struct err why = {0};
    int fd;

    *ret_gone = false;
    while (runtime_connect(e->runtime, &sb->box, BOX_CTL, &fd, &why) < 0) {
        *ret_gone = !why.code || strcmp(why.code, "sandbox_busy") != 0;
        if (*ret_gone || ms_until(deadline_ns) == 0)
            return -1;
        (void)poll(NULL, 0, RETRY_MS);
    }
    (void)frame_send(fd, FRAME_CALL + CALL_HELLO, NULL, 0);
    return fd;
}

static enum box_look look(struct engine *e, struct sandbox *sb)
{
    enum box_look found = runtime_look(e->runtime, &sb->box);

    if (found == BOX_WOKEN)
        log_warn("the agent of a sandbox was stopped by a signal and has been continued", "id",
                 sb->box.id);
    return found;
}

/* False also for one that is merely slow. Looks twice, since a process that starves is not in a
 * queue at every moment; what came until after the second look counts. */
static bool is_guilty(struct engine *e, struct sandbox *sb)
{
    const struct engine_waits *waits = &e->config.waits;
    int64_t deadline = mono_ns() + (waits->silent - waits->look) * 1000000ll;
    bool busy = look(e, sb) == BOX_BUSY, gone;
    auto_close int fd = say_hello(e, sb, deadline, &gone);

    if (gone || (fd >= 0 && ready(fd, POLLIN, deadline))) {
        agent_answered(sb);
        return false;
    }
    busy |= look(e, sb) == BOX_BUSY;
    if (fd >= 0 && ready(fd, POLLIN, 0))
        return false;
    atomic_store(&sb->waits.silent, true);
    return !busy;
}

static bool is_running(struct sandbox *sb)
{
    bool yes;

    pthread_mutex_lock(&sb->lock);
    yes = (sb->state == SANDBOX_RUNNING && !sb->committing) || sb->state == SANDBOX_CREATING ||
          (sb->state == SANDBOX_STOPPED && sb->quiet == QUIET_BOX);
    pthread_mutex_unlock(&sb->lock);
    return yes;
}

/* With judging held, which it gives up. */
static int judge(struct engine *e, struct sandbox *sb, struct err *err)
{
    struct agent_waits *w = &sb->waits;
    bool guilty;

    if (!w->judged_ns || mono_ns() - w->judged_ns > FRESH_MS * 1000000ll) {
        w->guilty = is_guilty(e, sb);
        w->judged_ns = mono_ns();
    }
    guilty = w->guilty;
    pthread_mutex_unlock(&w->judging);
    if (!guilty)
        return 0;
    return err_code(err, ERR_UNAVAILABLE, "agent_timeout",
                    "the sandbox does not answer; try again, or remove it if that goes on");
}

/* As agent_judge_try(), for a thread that waits: with another it waits for that one's judgement. */
static int judge_or_wait(struct engine *e, struct sandbox *sb, struct err *err)
{
    if (!is_running(sb))
        return 0; /* committed, or on its way out: both end by themselves; or paused */
    pthread_mutex_lock(&sb->waits.judging);
    return judge(e, sb, err);
}

int agent_judge_try(struct engine *e, struct sandbox *sb, struct err *err)
{
    int r;

    if (!is_running(sb) || !place_take(sb))
        return 0;
    r = pthread_mutex_trylock(&sb->waits.judging) == 0 ? judge(e, sb, err) : 0;
    place_give(sb);
    return r;
}

/* ---- how long ---- */

static int64_t next_look(const struct engine_waits *waits, int64_t waited_ms)
{
    if (waited_ms < waits->look)
        return waits->look;
    return (waited_ms / waits->silent + 1) * waits->silent;
}

/* Until fd is ready: 0, or for that long: 1, or until the agent is given up: -1. */
static int wait_and_judge(struct sandbox *sb, int fd, short events, uint32_t most_ms,
                          struct err *err)
{
    const struct engine_waits *waits = &sb->engine->config.waits;
    int64_t began = mono_ns(), waited = 0;

    while (waited < most_ms) {
        if (ready(fd, events, began + next_look(waits, waited) * 1000000)) {
            agent_answered(sb);
            return 0;
        }
        if (judge_or_wait(sb->engine, sb, err) < 0)
            return -1;
        waited = (mono_ns() - began) / 1000000;
        /* Nobody knows how long that lasts, and threads are for all sandboxes. */
        if (waited >= waits->silent && sandbox_is_paused(sb) && sandbox_check_running(sb, err) < 0)
            return -1;
    }
    return 1;
}

/* 1 when there is none. */
static int wait_in_place(struct sandbox *sb, int fd, short events, struct err *err)
{
    int r;

    if (!place_take(sb))
        return 1;
    r = wait_and_judge(sb, fd, events, sb->engine->config.waits.agent, err);
    place_give(sb);
    if (r <= 0)
        return r;
    return sandbox_is_committing(sb) ? sandbox_stands_still(err) : agent_silent(sb, err);
}

int agent_await(struct sandbox *sb, int fd, short events, struct err *err)
{
    int r;

    if (ready(fd, events, 0)) {
        agent_answered(sb);
        return 0;
    }
    r = wait_in_place(sb, fd, events, err);
    if (r == 1 && extra_begin(sb)) {
        r = wait_and_judge(sb, fd, events, sb->engine->config.waits.silent, err);
        extra_end(sb);
        if (r == 1)
            r = wait_in_place(sb, fd, events, err);
    }
    return r == 1 ? too_many(sb, err) : r;
}
