#include "engine/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "engine/agent_client_internal.h"
#include "engine/dial_internal.h"
#include "engine/engine_internal.h"
#include "engine/sandbox_internal.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"

static int ask(struct dial *d, enum call_op op, const struct buf *args, struct err *err)
{
    close_fd(&d->fd);
    close_fd(&d->got);
    d->have = 0;
    d->events = POLLIN;
    return agent_open(d->engine, d->sb, op == CALL_OPEN ? BOX_EXEC : BOX_CTL, op, args, &d->fd,
                      err);
}

int dial_begin(struct dial *d, struct engine *e, struct sandbox *sb, uint16_t port,
               enum dial_kind kind, enum call_open_family family, struct err *err)
{
    auto_buf struct buf args = {0};

    *d = (struct dial){.engine = e,
                       .sb = sb,
                       .port = port,
                       .kind = kind,
                       .family = family,
                       .fd = -1,
                       .got = -1,
                       .step = DIAL_ASKED};
    buf_init(&args, 64);
    wire_put_u32(&args, port);
    wire_put_u32(&args, kind == DIAL_UDP ? OPEN_UDP : OPEN_TCP);
    wire_put_u32(&args, family);
    return ask(d, CALL_OPEN, &args, err);
}

/* A sandbox that runs since before there was CALL_OPEN. */
static int ask_old(struct dial *d, struct err *err)
{
    auto_buf struct buf args = {0};

    if (d->kind == DIAL_UDP)
        return err_set(
            err, ERR_UNSUPPORTED,
            "the sandbox was started by an earlier version of cay, which knows TCP ports "
            "only; stop it and start it again");
    buf_init(&args, 16);
    wire_put_u32(&args, d->port);
    d->step = DIAL_ASKED_OLD;
    return ask(d, CALL_DIAL, &args, err);
}

void dial_done(struct dial *d)
{
    close_fd(&d->fd);
    close_fd(&d->got);
}

/* Reads no byte beyond the frame: what comes after it may be the connection's. 1 when it is whole,
 * 0 when some of it is still to come. */
static int take_answer(struct dial *d, unsigned *ret_type, size_t *ret_len, struct err *err)
{
    for (;;) {
        size_t want = FRAME_HEADER, n_fds = 1;
        int fd = -1;
        ssize_t n;

        if (d->have >= FRAME_HEADER) {
            if (frame_header(d->in, ret_type, ret_len) < 0 ||
                *ret_len > sizeof(d->in) - FRAME_HEADER)
                return agent_broken(err, "an answer that breaks the protocol");
            want += *ret_len;
            if (d->have == want)
                return 1;
        }
        n = recv_fds_now(d->fd, d->in + d->have, want - d->have, &fd, &n_fds);
        if (n_fds > 0 && n >= 0) {
            if (d->got >= 0)
                close_fd(&fd);
            else
                d->got = fd;
        }
        if (n == -EAGAIN)
            return 0;
        if (n == -EMSGSIZE)
            return agent_broken(err, "more descriptors than one");
        if (n <= 0)
            return agent_hung_up(d->sb, err);
        d->have += (size_t)n;
    }
}

static bool option_is(int fd, int option, int a, int b)
{
    socklen_t len = sizeof(int);
    int value = -1;

    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 && (value == a || value == b);
}

/* Nothing else may come in under the name of a connection: a file, a listening or a raw socket. */
static bool is_what_was_asked_for(const struct dial *d)
{
    int type = d->kind == DIAL_UDP ? SOCK_DGRAM : SOCK_STREAM;
    int protocol = d->kind == DIAL_UDP ? IPPROTO_UDP : IPPROTO_TCP;

    return d->got >= 0 && option_is(d->got, SO_DOMAIN, AF_INET, AF_INET6) &&
           option_is(d->got, SO_TYPE, type, type) &&
           option_is(d->got, SO_PROTOCOL, protocol, protocol) &&
           option_is(d->got, SO_ACCEPTCONN, 0, 0);
}

/* Has the server taken it in? */
static int step_connecting(struct dial *d, int *ret_fd, struct err *err)
{
    struct pollfd p = {.fd = d->fd, .events = POLLOUT};
    socklen_t len = sizeof(int);
    int error = 0;

    if (poll(&p, 1, 0) <= 0)
        return 0;
    if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    if (error)
        return err_code(err, ERR_UNAVAILABLE, "port_closed",
                        "port %u inside the sandbox hung up: %s; look at the server there", d->port,
                        strerror(error));
    *ret_fd = steal_fd(d->fd);
    return 1;
}

static int take_socket(struct dial *d, size_t len, int *ret_fd, struct err *err)
{
    uint32_t connected;
    struct wire w;

    wire_init(&w, d->in + FRAME_HEADER, len);
    connected = wire_get_u32(&w);
    if (!wire_ok(&w) || !is_what_was_asked_for(d))
        return agent_broken(err, "something else than the socket that it was asked for");
    if (connected) {
        *ret_fd = steal_fd(d->got);
        return 1;
    }
    close_fd(&d->fd);
    d->fd = steal_fd(d->got);
    d->events = POLLOUT;
    d->step = DIAL_CONNECTING;
    return step_connecting(d, ret_fd, err);
}

int dial_step(struct dial *d, int *ret_fd, struct err *err)
{
    struct err said = {0};
    unsigned type = 0;
    size_t len = 0;
    int r;

    if (d->step == DIAL_CONNECTING)
        return step_connecting(d, ret_fd, err);
    r = take_answer(d, &type, &len, err);
    if (r <= 0)
        return r;
    agent_answered(d->sb);
    if (type == FRAME_ERROR) {
        (void)agent_said_no((const char *)d->in + FRAME_HEADER, len, &said);
        if (said.kind == ERR_INVALID && d->step == DIAL_ASKED)
            return ask_old(d, err) < 0 ? -1 : 0;
        if (said.kind == ERR_UNAVAILABLE && !said.code)
            said.code = "port_closed"; /* what an agent of before has no word for */
        if (err)
            *err = said;
        return -1;
    }
    if (type != FRAME_OK)
        return agent_broken(err, "an answer of the wrong kind");
    if (d->step == DIAL_ASKED)
        return take_socket(d, len, ret_fd, err);
    if (len != 0 || d->got >= 0)
        return agent_broken(err, "more than an answer");
    *ret_fd = steal_fd(d->fd);
    return 1;
}

/* ---- a server that takes nobody in ----
 *
 * Who waits for one holds a thread that all others need too, so few may. They are not counted with
 * those who wait for the agent: what a server in a sandbox does keeps nobody from calling that. */

#define CONNECTS_MAX     16  /* threads that wait for servers of one sandbox */
#define CONNECTS_ALL_MAX 128 /* of all */

static atomic_uint connecting; /* of all */

static int too_many(struct err *err)
{
    return err_code(err, ERR_UNAVAILABLE, "sandbox_busy",
                    "enough connections wait for a server of the sandbox that takes none in; try "
                    "again when it has caught up");
}

/* Before the agent is asked: it would wait for that server, too. */
static int admit(struct sandbox *sb, struct err *err)
{
    if (atomic_load(&sb->waits.connects) >= CONNECTS_MAX ||
        atomic_load(&connecting) >= CONNECTS_ALL_MAX)
        return too_many(err);
    return agent_admit(sb, err);
}

static int await_server(struct dial *d, struct err *err)
{
    unsigned here = atomic_fetch_add(&d->sb->waits.connects, 1);
    unsigned all = atomic_fetch_add(&connecting, 1);
    struct pollfd p = {.fd = d->fd, .events = d->events};
    bool room = here < CONNECTS_MAX && all < CONNECTS_ALL_MAX;
    int n = room ? poll(&p, 1, (int)d->engine->config.waits.server) : 0;

    (void)atomic_fetch_sub(&connecting, 1);
    (void)atomic_fetch_sub(&d->sb->waits.connects, 1);
    if (n > 0)
        return 0;
    if (!room)
        return too_many(err);
    return err_code(err, ERR_TIMEOUT, "port_busy",
                    "the server on port %u inside the sandbox takes no connection in; try again "
                    "when it has caught up",
                    d->port);
}

static int await(struct dial *d, struct err *err)
{
    return d->step == DIAL_CONNECTING ? await_server(d, err)
                                      : agent_await(d->sb, d->fd, d->events, err);
}

int engine_dial(struct engine *e, const char *id, uint16_t port, enum dial_kind kind, int *ret_fd,
                struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    struct dial d = {.fd = -1, .got = -1};
    int r;

    if (port == 0)
        return err_set(err, ERR_INVALID, "0 is not a port; they go from 1 to 65535");
    if (sandbox_get_running(e, id, &sb, err) < 0 || admit(sb, err) < 0)
        return -1;
    r = dial_begin(&d, e, sb, port, kind, OPEN_ANY, err);
    while (r == 0) {
        r = await(&d, err);
        if (r == 0)
            r = dial_step(&d, ret_fd, err);
    }
    dial_done(&d);
    return r < 0 ? -1 : 0;
}

/* SO_LINGER is not ours alone either. */
void dial_close(int fd, bool reset)
{
    struct linger how = {.l_onoff = reset};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &how, sizeof(how));
    close_fd(&fd);
}
