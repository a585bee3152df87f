#include "agent/supervised.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "proto/frame.h"

#define TTY_DRAIN (256u << 10)

/* Limit of the input that waits for the command once its caller has closed the connection. It is
 * more than the input that waited before (512 KiB), the buffer of the call (260 KiB) and the socket
 * buffer of the daemon (512 KiB) together. */
#define LAST_INPUT_MAX (2u << 20)

/* ---- output */

/* The part of len bytes that output_max still lets through. */
static size_t within_limit(const struct supervised *x, struct output *o, size_t len)
{
    uint64_t room = x->in.output_max > o->kept ? x->in.output_max - o->kept : 0;
    size_t part = x->in.output_max == 0 || len < room ? len : (size_t)room;

    o->kept += part;
    o->lost += len - part;
    return part;
}

static ssize_t pass_on(struct supervised *x, struct output *o, const char *data, size_t len)
{
    size_t part = within_limit(x, o, len);

    if (part > 0 && x->kept)
        kept_add(x->kept, o->type == FRAME_STDERR, data, part);
    if (x->recording.file >= 0)
        recording_add(&x->recording, x->started, RECORD_OUTPUT, data, len);
    if (part > 0 && has_caller(x) &&
        (call_queue(x->call, o->type, data, part) < 0 ||
         (is_full(x) && call_flush_try(x->call) < 0)))
        return -EPIPE;
    return (ssize_t)len;
}

ssize_t exec_pump(struct supervised *x, struct output *o, size_t want)
{
    static char chunk[CHUNK];
    ssize_t n = read_some(o->fd, chunk, want < sizeof(chunk) ? want : sizeof(chunk));

    if (n == -EAGAIN)
        return n;
    if (n <= 0) { /* a pty's end is EIO */
        if (x->input == o->fd)
            x->input = -1;
        close_fd(&o->fd);
        return n;
    }
    if (is_background(x)) {
        journal_write(&x->journal, o->type == FRAME_STDERR, chunk, (size_t)n);
    } else {
        return pass_on(x, o, chunk, (size_t)n);
    }
    return n;
}

/* The caller has gone, and the command has not. */
static void unwatch(struct supervised *x)
{
    close_fd(&x->call->fd);
    buf_clear(&x->call->out);
    x->hold_until = 0;
}

void exec_drain(struct supervised *x)
{
    for (size_t i = 0; i < ARRAY_LEN(x->out); i++) {
        struct output *o = &x->out[i];
        int left = 0;

        if (o->fd < 0)
            continue;
        if (is_tty(x))
            left = TTY_DRAIN; /* ends with EIO or EAGAIN, unless somebody goes on writing */
        else if (ioctl(o->fd, FIONREAD, &left) < 0)
            left = 0;
        /* What the caller does not take yet waits in memory, in frames of any length: no more than
         * there was in the pipe. */
        x->call->out.max += (size_t)left * (1 + FRAME_HEADER);
        while (left > 0 && o->fd >= 0) {
            ssize_t n = exec_pump(x, o, (size_t)left);

            if (n == -EPIPE)
                unwatch(x);
            else if (n <= 0)
                break;
            left -= n > 0 ? (int)n : 0;
        }
    }
}

/* ---- input: what the caller sends while the command runs */

void exec_feed(struct supervised *x)
{
    while (x->input >= 0 && x->pending.len > 0) {
        ssize_t n = write(x->input, x->pending.data, x->pending.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            /* Nobody will read it. The master of a pty stays: output still comes from it. */
            if (x->input != x->out[0].fd)
                (void)close(x->input);
            x->input = -1;
            break;
        }
        buf_shift(&x->pending, (size_t)n);
    }
    if (x->input < 0)
        buf_clear(&x->pending);
    else if (x->input_ends && !is_tty(x))
        close_fd(&x->input);
}

static int on_input(struct supervised *x, const struct frame *f)
{
    if (!(x->in.flags & (EXEC_STDIN | EXEC_TTY)) || x->input_ends)
        return 0; /* late, or never announced: dropped */
    if (f->len > 0)
        return buf_add(&x->pending, f->data, f->len);
    x->input_ends = !is_tty(x);
    return is_tty(x) ? buf_add(&x->pending, "\x04", 1) : 0;
}

void exec_resize(struct supervised *x, uint32_t rows, uint32_t cols)
{
    if (!is_tty(x) || x->out[0].fd < 0)
        return;
    pty_resize(x->out[0].fd, rows, cols);
    x->state.rows = rows;
    x->state.cols = cols;
    if (x->seat) { /* for lists, where one without the other does no harm */
        x->seat->state.rows = rows;
        x->seat->state.cols = cols;
    }
    recording_size(&x->recording, x->started, rows, cols);
}

int exec_on_frame(struct supervised *x, const struct frame *f)
{
    pid_t self = getpid();
    struct wire w;
    uint32_t a, b;

    wire_init(&w, f->data, f->len);
    switch (f->type) {
    case FRAME_STDIN:
        return on_input(x, f);
    case FRAME_RESIZE:
        a = wire_get_u32(&w);
        b = wire_get_u32(&w);
        if (!wire_ok(&w))
            return -EPROTO;
        exec_resize(x, a, b);
        return 0;
    case FRAME_SIGNAL:
        a = wire_get_u32(&w);
        if (!wire_ok(&w) || a < 1 || a >= NSIG)
            return -EPROTO;
        tree_signal(&self, 1, (int)a);
        return 0;
    case FRAME_CANCEL:
        return -ECANCELED;
    default:
        return -EPROTO;
    }
}

bool exec_wants_frames(const struct supervised *x)
{
    return x->input_ends || x->pending.len < FRAME_MAX; /* what comes past the end is dropped */
}

/* 1 when there was no room for more; else as exec_on_frame(). */
static int take_frames(struct supervised *x)
{
    while (exec_wants_frames(x)) {
        struct frame f;
        int r = call_take(x->call, &f);

        if (r <= 0)
            return r;
        r = exec_on_frame(x, &f);
        if (r < 0)
            return r;
    }
    return 1;
}

/* As long as the command takes what there is: frames that are left here when it has taken all would
 * be passed on by nobody, as nothing else comes from the caller. */
int exec_pass_input(struct supervised *x)
{
    int r;

    do {
        r = take_frames(x);
        if (r < 0)
            return r;
        exec_feed(x);
    } while (r > 0 && exec_wants_frames(x));
    return 0;
}

/* Whether on_input() has room for the frame. Data leaves one byte for the ^D that ends the input of
 * a terminal; the end of other input needs no room. */
static bool input_has_room(const struct supervised *x, const struct frame *f)
{
    size_t len = f->len > 0 ? f->len + 1 : is_tty(x);

    return x->pending.len + len <= x->pending.max;
}

/* After each frame the command gets the input that it takes. A daemon on a host with larger sockets
 * can have sent more than LAST_INPUT_MAX: input is then dropped from the first frame on that has no
 * room, but the end of input is not, because the command would wait for it for ever. */
int exec_last_frames(struct supervised *x, struct agent_call *call)
{
    bool full = false;
    struct frame f;
    int r;

    if (x->pending.max < LAST_INPUT_MAX)
        x->pending.max = LAST_INPUT_MAX;
    for (;;) {
        while ((r = call_take(call, &f)) == 1) {
            bool drop = f.type == FRAME_STDIN && (!input_has_room(x, &f) || (full && f.len > 0));

            full |= drop && f.len > 0;
            if (!drop && (r = exec_on_frame(x, &f)) < 0)
                return r;
            exec_feed(x);
        }
        if (r < 0)
            return r;
        if (call_fill(call) <= 0)
            return 0;
    }
}

int exec_without_caller(struct supervised *x, int why)
{
    if (!x->kept || why == -EPROTO || why == -ECANCELED || exec_last_frames(x, x->call) < 0)
        return -ECANCELED;
    unwatch(x);
    return 0;
}

int exec_listen(struct supervised *x, short revents)
{
    int r;

    if ((revents & POLLIN) && exec_wants_frames(x)) {
        ssize_t n = call_fill(x->call);

        if (n == 0)
            return -EPIPE;
        if (n < 0 && n != -EAGAIN)
            return (int)n;
        r = take_frames(x);
        if (r < 0)
            return r;
    } else if (revents & (POLLHUP | POLLERR)) {
        return -EPIPE;
    }
    return 0;
}
