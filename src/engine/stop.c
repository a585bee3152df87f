#include <poll.h>
#include <signal.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/signals.h"
#include "engine/engine_internal.h"
#include "proto/frame.h"
#include "proto/wire.h"

/* How a main process is asked to end before its box is taken away. */

#define GRACE_MS 2000
#define LOOK_MS  10

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

void main_stop(struct engine *e, struct sandbox *sb)
{
    int64_t until = mono_ns() + GRACE_MS * 1000000ll;
    struct call_log log;

    if (!sb->spec.entrypoint || !is_running(sb) ||
        log_read(e, sb, "main", 0, 1, NULL, &log, NULL) < 0 || !log.running ||
        signal_main(e, sb, log.pid) < 0)
        return;
    while (mono_ns() < until && is_running(sb)) {
        if (log_read(e, sb, "main", 0, 1, NULL, &log, NULL) < 0 || !log.running)
            return;
        (void)poll(NULL, 0, LOOK_MS);
    }
}
