#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "agent/agent.h"
#include "base/err.h"
#include "base/mem.h"
#include "proto/frame.h"

/* They are served at their own pace from what is kept, and never waited for: who is too slow misses
 * what is dropped meanwhile, and is told so. Only for the quickest of those who have the input the
 * command waits. */

#define BEHIND (32u << 10)
#define FILL   4096
#define BATCH  (64u << 10)

struct watcher {
    struct agent_call call;
    uint64_t pos, left; /* of the next byte; how many it still wants */
    uint32_t flags;
    bool told; /* END has been queued */
};

/* Does one have the input who does not share it with such a caller? */
static bool is_taken(const struct watchers *w, uint32_t flags)
{
    for (size_t i = 0; i < w->n; i++) {
        uint32_t theirs = w->list[i]->flags;

        if ((theirs & AGAIN_INPUT) && !(theirs & flags & AGAIN_SHARED) &&
            !call_gone(&w->list[i]->call))
            return true;
    }
    return false;
}

/* ---- coming and going ---- */

static void watcher_free(struct watcher *x)
{
    close_fd(&x->call.fd);
    buf_done(&x->call.in);
    buf_done(&x->call.out);
    free(x);
}

static int may_come(const struct watchers *w, const struct again *a, struct err *err)
{
    if (w->n >= WATCHERS_MAX)
        return err_code(err, ERR_LIMIT, "too_many_streams",
                        "%d callers follow exec %s already; close some", WATCHERS_MAX, a->id);
    if ((a->flags & AGAIN_INPUT) && (is_taken(w, a->flags) || w->has_caller(w->arg)))
        return err_code(err, ERR_CONFLICT, "exec_attached",
                        "somebody is attached to exec %s; read along without its input", a->id);
    return 0;
}

static void take_in(struct watchers *w, int fd, const struct buf *args)
{
    struct watcher *x = xcalloc(1, sizeof(*x));
    struct err err = {0};
    struct again a;
    struct wire in;

    wire_init(&in, args->data, args->len);
    again_get(&in, &a);
    x->call.fd = fd;
    buf_init(&x->call.in, FRAME_BUFFER_MAX(FILL));
    buf_init(&x->call.out, FRAME_MAX + FRAME_HEADER + BATCH);
    if (a.flags & AGAIN_END)
        w->ended = true;
    if (may_come(w, &a, &err) < 0) {
        refuse(fd, &err);
        watcher_free(x);
    } else {
        x->flags = a.flags;
        if (a.rows > 0 && a.cols > 0)
            w->resize(w->arg, a.rows, a.cols);
        x->pos = again_from(w->kept, a.cursor);
        x->left = a.most;
        (void)again_queue(&x->call, FRAME_OK, w->kept, w->state);
        w->list[w->n++] = x;
    }
    free(a.id);
}

static void take_new(struct watchers *w)
{
    auto_buf struct buf args = {0};
    int fd;

    buf_init(&args, 1024);
    while (w->door >= 0 && (fd = door_take(w->door, &args)) >= 0) {
        take_in(w, fd, &args);
        buf_clear(&args);
    }
}

/* ---- one of them ---- */

static bool is_over(const struct watchers *w, const struct watcher *x)
{
    bool has_all = x->left == 0 || x->pos >= w->kept->end;

    return has_all && (!(x->flags & AGAIN_FOLLOW) || !w->state->running);
}

/* 0, or negative when it is done or gone. */
static int send_some(struct watchers *w, struct watcher *x)
{
    int r = call_flush_try(&x->call);

    while (r == 0 && x->call.out.len == 0) {
        int n;

        if (x->told)
            return -EPIPE; /* it has everything */
        n = again_piece(&x->call, w->kept, &x->pos, &x->left);
        if (n < 0)
            return n;
        if (n == 0 && !is_over(w, x))
            return 0;
        if (n == 0) {
            x->told = true;
            r = again_queue(&x->call, FRAME_END, w->kept, w->state);
        }
        if (r == 0)
            r = call_flush_try(&x->call);
    }
    return r;
}

/* 0, -EPIPE when the caller has closed the connection, or -errno for a frame that it may not send.
 */
static int read_frames(struct watchers *w, struct watcher *x)
{
    ssize_t n = call_fill(&x->call);
    struct frame f;
    int r = 0;

    if (n <= 0 && n != -EAGAIN)
        return -EPIPE; /* frames that are in the buffer are taken as its last */
    while (w->takes_frame(w->arg) && (r = call_take(&x->call, &f)) == 1) {
        r = (x->flags & AGAIN_INPUT) ? w->on_frame(w->arg, &f) : -EPROTO;
        if (r < 0)
            break;
    }
    return r < 0 ? r : 0;
}

/* 0, or negative when the connection is to be closed: -EPIPE when frames that the caller sent
 * before it closed the connection may be left. */
static int serve_one(struct watchers *w, struct watcher *x)
{
    int r = 0;

    if (w->takes_frame(w->arg))
        r = read_frames(w, x);
    else if (call_gone(&x->call))
        r = -EPIPE;
    if (r == 0 && send_some(w, x) < 0)
        r = -EPIPE;
    return r;
}

void watchers_serve(struct watchers *w)
{
    take_new(w);
    for (size_t i = 0; i < w->n;) {
        struct watcher *x = w->list[i];
        int r = serve_one(w, x);

        if (r == 0) {
            i++;
            continue;
        }
        if (r == -EPIPE && (x->flags & AGAIN_INPUT))
            w->last_frames(w->arg, &x->call);
        watcher_free(x);
        w->list[i] = w->list[--w->n];
    }
}

/* ---- for the loop ---- */

size_t watchers_poll(const struct watchers *w, struct pollfd p[WATCHERS_POLL])
{
    size_t n = 0;

    if (w->door >= 0)
        p[n++] = (struct pollfd){.fd = w->door, .events = POLLIN};
    for (size_t i = 0; i < w->n; i++) {
        const struct watcher *x = w->list[i];
        short events = w->takes_frame(w->arg) ? POLLIN : 0;

        if (x->call.out.len > 0)
            events |= POLLOUT;
        p[n++] = (struct pollfd){.fd = x->call.fd, .events = events};
    }
    return n;
}

bool watchers_behind(const struct watchers *w)
{
    bool behind = false;

    for (size_t i = 0; i < w->n; i++) {
        if (!(w->list[i]->flags & AGAIN_INPUT) || w->list[i]->left == 0)
            continue;
        if (w->kept->end - w->list[i]->pos <= BEHIND)
            return false;
        behind = true;
    }
    return behind;
}

void watchers_finish(struct watchers *w, struct agent_call *first)
{
    struct pollfd p[WATCHERS_POLL];

    take_new(w);
    close_fd(&w->door);
    for (;;) {
        size_t n;

        if (first->fd >= 0 && (call_flush_try(first) < 0 || first->out.len == 0))
            close_fd(&first->fd);
        watchers_serve(w);
        if (w->n == 0 && first->fd < 0)
            return;
        n = watchers_poll(w, p);
        p[n++] = (struct pollfd){.fd = first->fd, .events = POLLOUT}; /* the door's place */
        (void)poll(p, (nfds_t)n, -1);
    }
}
