#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/recording.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "proto/frame.h"
#include "proto/plan.h"

#define FIRST_FRAME_NS (5ll * 1000 * 1000 * 1000)
#define FILL           4096
#define BATCH          (64u << 10)
#define KEEP_MAX       (32u << 10)

static int hello_call(struct agent_call *c, struct err *err)
{
    auto_buf struct buf b = {0};

    if (call_args_ok(c, err) < 0)
        return -1;
    buf_init(&b, 16);
    wire_put_u32(&b, CALL_VERSION);
    call_reply_buf(c, FRAME_OK, &b);
    return 0;
}

static const struct {
    int (*run)(struct agent_call *c, struct err *err);
    bool exec;  /* served on the exec socket, not on ctl */
    bool logs;  /* needs the logs folder; the others do not have it (rule 2) */
    bool again; /* leaves a handler as it was, which then serves another call */
} ops[CALL_OPS] = {
    [CALL_HELLO] = {hello_call, .again = true},
    [CALL_EXEC] = {exec_call, .exec = true, .logs = true},
    [CALL_LOG] = {log_call, .logs = true},
    [CALL_READ] = {read_call, .again = true},
    [CALL_WRITE] = {write_call, .again = true},
    [CALL_STAT] = {stat_call, .again = true},
    [CALL_LIST] = {list_call},
    [CALL_SEARCH] = {search_call},
    [CALL_MOVE] = {move_call},
    [CALL_MKDIR] = {mkdir_call, .again = true},
    [CALL_REMOVE] = {remove_call},
    [CALL_CHMOD] = {chmod_call},
    [CALL_PS] = {ps_call},
    [CALL_KILL] = {kill_call},
    [CALL_DIAL] = {dial_call},
    [CALL_FOLLOW] = {follow_call, .logs = true},
    [CALL_AGAIN] = {again_call, .logs = true},
    [CALL_EXECS] = {execs_call, .logs = true},
    [CALL_OUTPUT] = {output_call, .logs = true},
    [CALL_PATCH] = {patch_call, .again = true},
    [CALL_OPEN] = {open_call, .exec = true},
    [CALL_RECORDING] = {recording_call, .logs = true},
    [CALL_WATCH] = {watch_call},
    [CALL_ALTER] = {alter_call},
    [CALL_GREP] = {grep_call},
    [CALL_SED] = {sed_call},
    [CALL_KEEP] = {keep_call, .logs = true},
};

ssize_t call_fill(struct agent_call *c)
{
    return frame_fill(c->fd, &c->in, &c->at, FILL);
}

int call_take(struct agent_call *c, struct frame *ret)
{
    return frame_take(&c->in, &c->at, ret);
}

int call_next(struct agent_call *c, int64_t deadline, struct frame *ret)
{
    for (;;) {
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        int r = call_take(c, ret);
        ssize_t n;

        if (r != 0)
            return r;
        n = call_fill(c);
        if (n > 0)
            continue;
        if (n != -EAGAIN)
            return n == 0 && c->in.len > 0 ? -EPROTO : (int)n;
        if (deadline) {
            int64_t left = deadline - mono_ns();

            if (left <= 0 || poll(&p, 1, (int)(left / 1000000) + 1) == 0)
                return -ETIMEDOUT;
        } else {
            (void)poll(&p, 1, -1);
        }
    }
}

/* Sends what is queued; with MSG_DONTWAIT as much as fits. */
static int flush(struct agent_call *c, int flags)
{
    size_t sent = 0;
    int r = 0;

    while (sent < c->out.len) {
        ssize_t n = send(c->fd, c->out.data + sent, c->out.len - sent, flags | MSG_NOSIGNAL);

        if (n < 0) {
            if (errno == EINTR)
                continue;
            r = -errno;
            break;
        }
        sent += (size_t)n;
    }
    buf_shift(&c->out, sent);
    return r == -EAGAIN ? 0 : r;
}

int call_flush_wait(struct agent_call *c)
{
    return flush(c, 0);
}

int call_flush_try(struct agent_call *c)
{
    return flush(c, MSG_DONTWAIT);
}

void call_flush(struct agent_call *c)
{
    if (call_flush_wait(c) < 0)
        _exit(0);
}

int call_queue(struct agent_call *c, unsigned type, const void *payload, size_t len)
{
    return frame_put(&c->out, type, payload, len);
}

void call_reply(struct agent_call *c, unsigned type, const void *payload, size_t len)
{
    if (call_queue(c, type, payload, len) < 0)
        _exit(1);
    if (c->out.len >= BATCH)
        call_flush(c);
}

void call_reply_buf(struct agent_call *c, unsigned type, const struct buf *payload)
{
    call_reply(c, type, payload->data, payload->len);
}

int call_send_try(struct agent_call *c, unsigned type, const void *payload, size_t len)
{
    int r = call_queue(c, type, payload, len);

    return r < 0 ? r : call_flush_try(c);
}

void call_fail(struct agent_call *c, const struct err *err)
{
    auto_buf struct buf b = {0};

    buf_init(&b, 4096);
    call_error_put(&b, err);
    call_reply_buf(c, FRAME_ERROR, &b);
    call_flush(c);
}

bool call_gone(struct agent_call *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};

    return poll(&p, 1, 0) > 0;
}

int call_args_ok(const struct agent_call *c, struct err *err)
{
    if (!wire_ok(&c->args))
        return err_set(err, ERR_INVALID, "the call's arguments cannot be read");
    return 0;
}

static int answer(struct agent_call *c, bool exec, struct err *err)
{
    struct frame f;
    unsigned op;

    if (call_next(c, mono_ns() + FIRST_FRAME_NS, &f) != 1)
        _exit(0);
    op = f.type - FRAME_CALL;
    if (f.type < FRAME_CALL || op >= CALL_OPS || ops[op].exec != exec)
        return err_set(err, ERR_INVALID, "this socket of the agent does not serve call %u", f.type);
    if (!exec && ops[op].logs && shelf_take() < 0)
        return err_set(err, ERR_INTERNAL, "the agent has lost the folder of logs");
    c->again = ops[op].again;
    wire_init(&c->args, f.data, f.len);
    return ops[op].run(c, err);
}

/* A supervisor keeps what it and its commands need; a handler the shelf, and the place of the logs.
 */
static void close_others(int sock, bool exec)
{
    unsigned past = (unsigned)(exec ? AGENT_FD_STATUS - 1 : shelf_fd());

    for (unsigned fd = 3; fd < AGENT_FD_STATUS; fd++)
        if (fd != (unsigned)sock && !(exec && fd >= AGENT_FD_LOGS))
            (void)close((int)fd);
    if (past > AGENT_FD_STATUS)
        (void)syscall(SYS_close_range, (unsigned)AGENT_FD_STATUS, past - 1, 0);
    (void)syscall(SYS_close_range, past + 1, ~0u, 0);
    if (!exec)
        (void)dup3(STDIN_FILENO, AGENT_FD_LOGS, O_CLOEXEC);
}

/* All that can be done before somebody is waiting for it. Returns what to wait on, or -1 when there
 * is no memory for it: poll() does too, but wakes every spare for each caller. */
static int prepare(struct agent_call *c, int sock, bool exec)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLEXCLUSIVE};
    int queue;

    close_others(sock, exec);
    if (exec) {
        (void)prctl(PR_SET_NAME, "cay-exec");
        let_main_leave();
        if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
            _exit(1); /* without it a timeout could be escaped */
    }
    buf_init(&c->in, FRAME_BUFFER_MAX(FILL));
    buf_init(&c->out, FRAME_MAX + FRAME_HEADER + BATCH);
    (void)buf_room(&c->in, FILL);
    (void)buf_room(&c->out, FILL);
    queue = epoll_create1(EPOLL_CLOEXEC);
    if (queue >= 0 && epoll_ctl(queue, EPOLL_CTL_ADD, sock, &e) < 0)
        close_fd(&queue);
    return queue;
}

/* There is no descriptor for the caller. If that is our own limit, which somebody lowered, another
 * process has to serve: our parent forks one when we are gone. Slowly, since it may fare no better.
 */
static void out_of_descriptors(int error)
{
    (void)poll(NULL, 0, 100);
    if (error == EMFILE)
        _exit(1);
}

static int wait_for_caller(int sock, int queue)
{
    struct pollfd p = {.fd = sock, .events = POLLIN};
    struct epoll_event e;

    for (;;) {
        int conn;

        (void)(queue < 0 ? poll(&p, 1, -1) : epoll_wait(queue, &e, 1, -1));
        conn = accept4(sock, NULL, NULL, SOCK_CLOEXEC);
        if (conn >= 0)
            return conn;
        if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
            out_of_descriptors(errno);
    }
}

static void leave_pool(const struct pool *p, struct slot *slot)
{
    slot->mark = SLOT_PLAIN;
    if (young_is_first(slot) ? young_takes() : !pool_has_spare(p, slot->parent))
        (void)kill(slot->parent, SIGCHLD);
}

/* Ready for another call, if it is worth it: what one call made large stays large. */
static bool reset(struct agent_call *c)
{
    close_fd(&c->fd);
    if (c->in.cap > KEEP_MAX || c->out.cap > KEEP_MAX)
        return false;
    buf_clear(&c->in);
    buf_clear(&c->out);
    c->at = 0;
    return true;
}

/* The listening socket stays open meanwhile, here and below. A command does not get it (rule 2),
 * and no path leads to it: sockets cannot be opened through /proc. */
static _Noreturn void serve_execs(const struct pool *p, struct slot *slot, struct agent_call *c,
                                  int queue)
{
    struct err err = {0};

    do {
        c->fd = wait_for_caller(p->sock, queue);
        /* They survive their spawner. First, since what leave_pool() tells it may be its last. */
        (void)prctl(PR_SET_PDEATHSIG, 0);
        leave_pool(p, slot);
        if (answer(c, true, &err) < 0) {
            call_fail(c, &err);
            break;
        }
    } while (reset(c) && pool_return(p, slot));
    _exit(0);
}

static _Noreturn void serve_calls(const struct pool *p, struct slot *slot, struct agent_call *c,
                                  int queue)
{
    struct err err = {0};

    do {
        c->fd = wait_for_caller(p->sock, queue);
        leave_pool(p, slot);
        if (answer(c, false, &err) < 0) {
            call_fail(c, &err);
            break;
        }
        call_flush(c);
    } while (c->again && reset(c) && pool_return(p, slot));
    _exit(0);
}

void serve(const struct pool *p, struct slot *slot)
{
    bool exec = p->sock == AGENT_FD_EXEC;
    struct agent_call c = {0};
    int queue = prepare(&c, p->sock, exec);

    if (exec)
        serve_execs(p, slot, &c, queue);
    serve_calls(p, slot, &c, queue);
}

void refuse(int conn, const struct err *err)
{
    struct agent_call c = {.fd = conn};
    static char sink[4096];
    auto_buf struct buf b = {0};

    /* What the caller sent is taken off first, so that closing does not reset the connection. */
    for (size_t n = 0; n <= FRAME_MAX; n += sizeof(sink))
        if (recv(conn, sink, sizeof(sink), MSG_DONTWAIT) <= 0)
            break;
    buf_init(&b, 4096);
    buf_init(&c.out, 8192);
    call_error_put(&b, err);
    (void)call_send_try(&c, FRAME_ERROR, b.data, b.len);
    buf_done(&c.out);
}
