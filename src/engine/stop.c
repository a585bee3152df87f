#include <poll.h>
#include <signal.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
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
#define LOOK_MS  10

static int real_time_signal(const char *name)
{
    uint64_t n = 0;

    if (str_starts(name, "RTMIN") &&
        (!name[5] || (name[5] == '+' && str_u64(name + 6, &n) == 0 && n <= 30)))
        return SIGRTMIN + (int)n;
    if (str_starts(name, "RTMAX") &&
        (!name[5] || (name[5] == '-' && str_u64(name + 6, &n) == 0 && n <= 30)))
        return SIGRTMAX - (int)n;
    return 0;
}

int stop_signal_parse(const char *text)
{
    uint64_t n;
    int rt;

    if (!text || !*text)
        return SIGTERM;
    if (str_u64(text, &n) == 0)
        return n > 0 && n <= 64 ? (int)n : SIGTERM;
    if (str_starts(text, "SIG"))
        text += 3;
    rt = real_time_signal(text);
    if (rt)
        return rt;
    for (int sig = 1; sig < 32; sig++) {
        const char *name = sigabbrev_np(sig);

        if (name && strcmp(name, text) == 0)
            return sig;
    }
    return SIGTERM;
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
