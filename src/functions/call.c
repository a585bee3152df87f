#include "functions/call.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/exec.h"

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

void task_wait(struct task *t, const struct exec_wait *wait)
{
    t->fd = wait->fd;
    t->events = wait->events;
    t->until_ns = wait->until_ns;
}

void call_done(struct call *call)
{
    json_decref(call->in);
    json_decref(call->out);
    if (call->taker)
        call->taker->ops->free(call->taker);
    if (call->task)
        call->task->ops->free(call->task);
    free(call->detail);
    call->in = call->out = NULL;
    call->taker = NULL;
    call->task = NULL;
    call->detail = NULL;
}

int call_take(struct call *call, const char *data, size_t len, struct err *err)
{
    return call->taker ? call->taker->ops->take(call->taker, data, len, err) : 0;
}

int call_taken(struct call *call, struct err *err)
{
    return call->taker ? call->taker->ops->end(call->taker, call, err) : 0;
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

/* Until the task may go on, the caller may have gone (*ret_look), or a time. half: the caller has
 * ended its side of the connection and still waits. */
static int wait_task(const struct call *call, bool half, int64_t until_ns, bool *ret_look,
                     struct err *err)
{
    const struct task *t = call->task;
    struct pollfd p[2] = {
        /* The events of epoll and of poll are the same bits. */
        {.fd = t->events ? t->fd : -1, .events = (short)t->events},
        {.fd = call->gone_fd, .events = half ? 0 : POLLRDHUP},
    };
    int64_t until = sooner(sooner(t->until_ns, call->deadline_ns), until_ns);

    if (poll(p, ARRAY_LEN(p), ms_until(until)) < 0 && errno != EINTR)
        return err_sys(err, errno, "wait for the end of a call");
    *ret_look = call->gone_fd < 0 || p[1].revents;
    return 0;
}

static bool is_unwanted(const struct call *call, bool look)
{
    if (call->deadline_ns && mono_ns() >= call->deadline_ns)
        return true;
    return look && !call_is_wanted(call);
}

int call_wait(struct call *call, int64_t until_ns, struct err *err)
{
    bool look = true, half = false;

    while (call->task) {
        int r;

        if (is_unwanted(call, look))
            return nobody_waits(err);
        r = call->task->ops->step(call->task, call, err);
        if (r <= 0 || (until_ns && mono_ns() >= until_ns))
            return r;
        look = call->gone_fd < 0;
        if (r == TASK_WAITS && wait_task(call, half, until_ns, &look, err) < 0)
            return -1;
        half |= look && call->gone_fd >= 0;
    }
    return TASK_DONE;
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

/* Takes rendered events apart, for a face that has no use for their text. */
static int each_event(struct call *call, const char *text, size_t len, struct err *err)
{
    static const char mark[] = "\ndata: ";
    const char *end = text + len;

    while (text < end) {
        const char *json = memmem(text, (size_t)(end - text), mark, sizeof(mark) - 1), *stop;

        if (!json)
            return 0;
        json += sizeof(mark) - 1;
        stop = memchr(json, '\n', (size_t)(end - json));
        if (!stop)
            stop = end;
        if (sink_event(call, json_loadb(json, (size_t)(stop - json), 0, NULL), err) < 0)
            return -1;
        text = stop;
    }
    return 0;
}

int sink_stream(struct call *call, const char *text, size_t len, struct err *err)
{
    if (!call->sink->ops->stream)
        return each_event(call, text, len, err);
    if (is_late(call) || call->sink->ops->stream(call->sink, text, len) < 0)
        return nobody_waits(err);
    return 0;
}

bool sink_tell_begin(struct call *call)
{
    return call->sink->ops->tell_begin && call->sink->ops->tell_begin(call->sink);
}

bool sink_tell_end(struct call *call, const char *text, size_t len)
{
    return call->sink->ops->tell_end(call->sink, text, len);
}

int sink_size(struct call *call, uint64_t bytes, struct err *err)
{
    return call->sink->ops->size(call->sink, bytes, err);
}
