#include "functions/call.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

static bool is_late(const struct call *call)
{
    return call->deadline_ns && mono_ns() >= call->deadline_ns;
}

bool call_is_wanted(const struct call *call)
{
    if (is_late(call))
        return false;
    return !call->gone || !call->gone(call->gone_arg);
}

void call_done(struct call *call)
{
    json_decref(call->in);
    json_decref(call->out);
    if (call->task)
        call->task->ops->free(call->task);
    call->in = call->out = NULL;
    call->task = NULL;
}

static int nobody_waits(struct err *err)
{
    return err_code(err, ERR_CONFLICT, "cancelled", "the caller went away and the call was ended");
}

static int ms_until(int64_t ns)
{
    int64_t left = (ns - mono_ns() + 999999) / 1000000;

    if (ns == 0)
        return -1;
    return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return !a || (b && b < a) ? b : a;
}

int call_finish(struct call *call, struct err *err)
{
    int r = call->task ? TASK_AGAIN : TASK_DONE;

    while (r > 0) {
        struct task *t = call->task;
        int64_t until = sooner(t->until_ns, call->deadline_ns);
        struct pollfd p[2] = {
            /* The events of epoll and of poll are the same bits. */
            {.fd = t->events ? t->fd : -1, .events = (short)t->events},
            {.fd = call->gone_fd, .events = POLLRDHUP},
        };

        if (r == TASK_WAITS && poll(p, ARRAY_LEN(p), ms_until(until)) < 0 && errno != EINTR)
            return err_sys(err, errno, "wait for the end of a call");
        if (!call_is_wanted(call))
            return nobody_waits(err);
        r = t->ops->step(t, call, err);
    }
    return r;
}

void call_fold_texts(struct call *call)
{
    for (size_t i = 0; i < CALL_TEXTS && call->texts[i].name; i++) {
        auto_buf struct buf clean = {0};

        buf_init(&clean, 3 * call->texts[i].bytes->len + 3); /* U+FFFD is three bytes */
        (void)utf8_clean(&clean, call->texts[i].bytes->data, call->texts[i].bytes->len);
        (void)json_object_set_new(call->out, call->texts[i].name,
                                  json_stringn_nocheck(clean.data ? clean.data : "", clean.len));
        call->texts[i].name = NULL;
    }
}

/* What is sent after the deadline nobody takes. */
int sink_event(struct call *call, json_t *event, struct err *err)
{
    if (is_late(call)) {
        json_decref(event);
        return nobody_waits(err);
    }
    return call->sink->ops->event(call->sink, event) < 0 ? nobody_waits(err) : 0;
}

int sink_bytes(struct call *call, enum channel channel, const void *data, size_t len,
               struct err *err)
{
    if (is_late(call) || call->sink->ops->bytes(call->sink, channel, data, len) < 0)
        return nobody_waits(err);
    return 0;
}

int sink_item(struct call *call, json_t *item, struct err *err)
{
    if (is_late(call)) {
        json_decref(item);
        return nobody_waits(err);
    }
    return call->sink->ops->item(call->sink, item) < 0 ? nobody_waits(err) : 0;
}

int sink_size(struct call *call, uint64_t bytes, struct err *err)
{
    return call->sink->ops->size(call->sink, bytes, err);
}
