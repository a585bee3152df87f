#include <poll.h>
#include <signal.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/signals.h"
#include "engine/agent_client_internal.h"
#include "engine/background_internal.h"
#include "engine/engine_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"
#include "engine/stop_internal.h"
#include "model/sandbox.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"

/* What is asked of a sandbox before its box is taken away: that its main process ends, and that
 * what its commands have put out is kept. */

#define LOOK_MS 50

int stop_signal_parse(const char *text)
{
    int number = text ? signal_parse(text) : -1;

    return number < 0 ? SIGTERM : number;
}

static bool is_running(struct sandbox *sb)
{
    bool yes;

    pthread_mutex_lock(&sb->lock);
    yes = sb->state == SANDBOX_RUNNING && !sb->committing;
    pthread_mutex_unlock(&sb->lock);
    return yes;
}

static int signal_main(struct engine *e, struct sandbox *sb, uint32_t pid)
{
    auto_buf struct buf args = {0};

    buf_init(&args, FRAME_MAX);
    wire_put_u32(&args, pid);
    wire_put_u32(&args, (uint32_t)sb->stop_signal);
    return agent_simple(e, sb, CALL_KILL, &args, NULL);
}

/* How the main process is, which the END on fd says: 0; -1 when that cannot be told, or the time is
 * up. */
static int read_end(struct sandbox *sb, int fd, int64_t until, struct call_log *ret)
{
    struct agent_reader r;
    struct frame f;
    struct wire w;
    int got = 0;

    agent_reader_init(&r, sb, fd);
    while (got == 0) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = (until - mono_ns()) / 1000000;

        if (left <= 0 || poll(&p, 1, (int)left) == 0 || agent_fill(&r, NULL) < 0)
            got = -1;
        else
            got = agent_take(&r, &f, NULL);
    }
    if (got == 1) {
        wire_init(&w, f.data, f.len);
        call_log_get(&w, ret);
        got = f.type == FRAME_END && wire_ok(&w) ? 0 : -1;
    }
    buf_done(&r.in);
    return got;
}

/* From past its end: only how the main process is, is of interest. */
#define PAST_END UINT64_MAX

int main_look(struct engine *e, struct sandbox *sb, int64_t until, struct call_log *ret)
{
    auto_buf struct buf args = {0};
    auto_close int fd = -1;

    buf_init(&args, FRAME_MAX);
    wire_put_str(&args, "main");
    wire_put_u64(&args, PAST_END);
    wire_put_u64(&args, 0);
    if (agent_open(e, sb, BOX_CTL, CALL_LOG, &args, &fd, NULL) < 0)
        return -1;
    return read_end(sb, fd, until, ret);
}

/* As main_look(), when it has ended if it can be. Where there is no stream to be had, because the
 * agent is older or has too many, it is asked how it is now. */
static int follow(struct engine *e, struct sandbox *sb, int64_t until, struct call_log *ret)
{
    struct log_request req = {.id = "main", .offset = PAST_END, .follow = true};
    auto_close int fd = -1;
    bool timed;

    if (log_stream_start(e, sb, &req, &fd, &timed, NULL) < 0)
        return main_look(e, sb, until, ret);
    return read_end(sb, fd, until, ret);
}

static bool look_now(struct engine *e, struct sandbox *sb, struct call_log *ret)
{
    return sb->spec.entrypoint && is_running(sb) &&
           main_look(e, sb, mono_ns() + e->config.waits.silent * 1000000ll, ret) == 0 &&
           ret->running;
}

bool main_runs(struct engine *e, struct sandbox *sb)
{
    struct call_log log = {0};

    return look_now(e, sb, &log);
}

/* Its agent is not waited for as others wait: who removes a sandbox does not want to know how it
 * is. One that stands still for a commit is not asked. */
bool main_ask_to_end(struct engine *e, struct sandbox *sb)
{
    struct call_log log = {0};

    return look_now(e, sb, &log) && signal_main(e, sb, log.pid) == 0;
}

void main_stop(struct engine *e, struct sandbox *sb)
{
    struct call_log log = {0};
    int64_t until;
    int r;

    if (!main_ask_to_end(e, sb))
        return;
    until = mono_ns() + e->config.waits.main * 1000000ll;
    do {
        r = follow(e, sb, until, &log);
        if (r == 0 && log.running)
            (void)poll(NULL, 0, LOOK_MS);
    } while (r == 0 && log.running && mono_ns() < until && is_running(sb));
}

void execs_keep(struct engine *e, struct sandbox *sb, uint32_t most_ms)
{
    auto_close int fd = -1;
    struct pollfd p = {.events = POLLIN};

    if (atomic_load(&sb->waits.silent) ||
        agent_open(e, sb, BOX_CTL, CALL_KEEP, NULL, &fd, NULL) < 0)
        return;
    p.fd = fd;
    (void)poll(&p, 1, (int)most_ms);
}
