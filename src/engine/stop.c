#include <poll.h>
#include <signal.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/signals.h"
#include "engine/agent_client_internal.h"
#include "engine/background_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/stop_internal.h"
#include "model/sandbox.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"

/* How a main process is asked to end before its box is taken away. */

#define GRACE_MS 2000
#define LOOK_MS  50

int stop_signal_parse(const char *text)
{
    int number = text ? signal_parse(text) : -1;

    return number < 0 ? SIGTERM : number;
}

static bool is_running(struct sandbox *sb)
{
    bool yes;

    pthread_mutex_lock(&sb->lock);
    yes = sb->state == SANDBOX_RUNNING;
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

static int read_end(const struct frame *f)
{
    struct call_log log;
    struct wire w;

    wire_init(&w, f->data, f->len);
    call_log_get(&w, &log);
    return f->type == FRAME_END && wire_ok(&w) ? !log.running : -1;
}

/* 1 = it has ended, 0 = it had not when the agent said how it was, -1 = that cannot be told, or the
 * time is up. */
static int wait_end(struct sandbox *sb, int fd, int64_t until)
{
    struct agent_reader r;
    struct frame f;
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
    if (got == 1)
        got = read_end(&f);
    buf_done(&r.in);
    return got;
}

/* Where there is no stream to be had, because the agent is older or has too many, it is asked. */
static int ask_end(struct engine *e, struct sandbox *sb)
{
    struct call_log log;

    if (log_read(e, sb, "main", 0, 1, NULL, &log, NULL) < 0)
        return -1;
    return !log.running;
}

void main_stop(struct engine *e, struct sandbox *sb)
{
    int64_t until = mono_ns() + GRACE_MS * 1000000ll;
    struct call_log log;
    int ended;

    if (!sb->spec.entrypoint || !is_running(sb) ||
        log_read(e, sb, "main", 0, 1, NULL, &log, NULL) < 0 || !log.running ||
        signal_main(e, sb, log.pid) < 0)
        return;
    do {
        auto_close int fd = -1;

        /* From past its end: only how it ends is of interest. */
        if (log_follow(e, sb, "main", UINT64_MAX, &fd, NULL) == 0)
            ended = wait_end(sb, fd, until);
        else
            ended = ask_end(e, sb);
        if (ended == 0)
            (void)poll(NULL, 0, LOOK_MS);
    } while (ended == 0 && mono_ns() < until && is_running(sb));
}
