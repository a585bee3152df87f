#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/agent_client_internal.h"
#include "engine/engine_internal.h"
#include "engine/sandbox_internal.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"
#include "runtime/runtime.h"

/* What an agent sends is hostile input: the code it looks after may have taken it over.
 *  1. Every frame's type and every payload's form is checked before it is used.
 *  2. No wait for it is without an end (waits.agent).
 *  3. Its errors cannot claim what only cay may say, and their text is made harmless.
 *  4. A list from it is bounded in items and bytes. */

#define ITEMS_MAX       100000
#define ITEMS_BYTES_MAX (64u << 20)
#define READ_SIZE       (16u << 10) /* at least; a buffer that had to grow is filled */
#define SENT_AT_ONCE    2048        /* fits into the smallest buffer that a socket has */

int agent_broken(struct err *err, const char *what)
{
    return err_code(err, ERR_INTERNAL, "agent_protocol",
                    "the sandbox's agent sent %s; remove the sandbox and create it again", what);
}

/* Why the stream ended: mostly because the sandbox did. */
int agent_hung_up(struct sandbox *sb, struct err *err)
{
    if (sandbox_check_box(sb, err) < 0)
        return -1;
    return err_code(err, ERR_UNAVAILABLE, "agent_lost",
                    "the sandbox ended before the call did; look at its status");
}

int agent_silent(struct sandbox *sb, struct err *err)
{
    uint32_t ms = sb->engine->config.waits.agent;
    bool whole = ms % 1000 == 0;

    return err_code(err, ERR_UNAVAILABLE, "agent_timeout",
                    "the sandbox did not answer within %u %s; try again, or remove it",
                    whole ? ms / 1000 : ms, whole ? "s" : "ms");
}

static int recv_failed(struct sandbox *sb, int r, struct err *err)
{
    if (r == -EPROTO)
        return agent_broken(err, "a frame that breaks the protocol");
    if (r == -EAGAIN)
        return agent_silent(sb, err);
    return agent_hung_up(sb, err);
}

static void make_harmless(char *text)
{
    bool ascii_only = !utf8_valid(text, strlen(text));

    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7f || (ascii_only && *p >= 0x80))
            *p = '?';
}

/* An agent knows no settings, so what raises its limits is told here, also for one of before. */
static void name_settings(struct err *said)
{
    if (said->code && strcmp(said->code, "process_limit") == 0)
        (void)err_code(
            said, said->kind, said->code,
            "the sandbox has as many processes or runs as many commands as it may; try again "
            "when some have ended, or make one with more pids (at most CAY_MAX_PIDS; "
            "CAY_TOTAL_PIDS for all together)");
}

int agent_said_no(const char *data, size_t len, struct err *err)
{
    struct err said = {0};

    (void)call_error_get(data, len, &said);
    switch (said.kind) {
    case ERR_INVALID:
    case ERR_NOT_FOUND:
    case ERR_TIMEOUT:
    case ERR_CONFLICT:
    case ERR_TOO_LARGE:
    case ERR_LIMIT:
    case ERR_UNSUPPORTED:
    case ERR_UNAVAILABLE:
    case ERR_INTERNAL:
        break;
    case ERR_FORBIDDEN: /* of a file in the box; 403 would speak of the caller's token */
        said.kind = ERR_INVALID;
        break;
    case ERR_NONE:
    case ERR_UNAUTHORIZED:
    case ERR_KINDS:
    default:
        said.kind = ERR_INTERNAL;
        break;
    }
    make_harmless(said.text);
    name_settings(&said);
    if (err)
        *err = said;
    return -1;
}

/* Exactly that many bytes. Who sends a part of a frame and then nothing is waited for as one who
 * sends nothing at all. */
static int recv_all(struct sandbox *sb, int fd, void *data, size_t len, struct err *err)
{
    char *p = data;

    while (len > 0) {
        ssize_t n = recv(fd, p, len, MSG_DONTWAIT);

        if (n > 0) {
            p += n;
            len -= (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            if (agent_await(sb, fd, POLLIN, err) < 0)
                return -1;
        } else if (n == 0 || errno != EINTR) {
            return agent_hung_up(sb, err);
        }
    }
    return 0;
}

int agent_next(struct sandbox *sb, int fd, unsigned *ret_type, struct buf *payload, struct err *err)
{
    unsigned char header[FRAME_HEADER];
    size_t len;

    if (recv_all(sb, fd, header, sizeof(header), err) < 0)
        return -1;
    agent_answered(sb);
    if (frame_header(header, ret_type, &len) < 0)
        return recv_failed(sb, -EPROTO, err);
    buf_clear(payload);
    payload->max = FRAME_MAX;
    if (recv_all(sb, fd, buf_room(payload, len), len, err) < 0)
        return -1;
    payload->len = len;
    payload->data[len] = '\0';
    if (*ret_type == FRAME_ERROR)
        return agent_said_no(payload->data, payload->len, err);
    return 0;
}

/* The agent hung up: it has usually said why before. */
static int hung_up(struct sandbox *sb, int fd, struct err *err)
{
    auto_buf struct buf payload = {0};
    unsigned type;

    if (agent_next(sb, fd, &type, &payload, err) < 0)
        return -1;
    return agent_broken(err, "an answer before the question was complete");
}

static int send_all(struct sandbox *sb, int fd, const void *data, size_t len, struct err *err)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n >= 0) {
            p += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN) {
            if (agent_await(sb, fd, POLLOUT, err) < 0)
                return -1;
        } else if (errno != EINTR) {
            return hung_up(sb, fd, err);
        }
    }
    return 0;
}

int agent_send(struct sandbox *sb, int fd, unsigned type, const void *payload, size_t len,
               struct err *err)
{
    auto_buf struct buf frame = {0};

    buf_init(&frame, FRAME_HEADER + FRAME_MAX);
    (void)frame_put(&frame, type, payload, len);
    return send_all(sb, fd, frame.data, frame.len, err);
}

void agent_reader_init(struct agent_reader *r, struct sandbox *sb, int fd)
{
    *r = (struct agent_reader){.sb = sb, .fd = fd};
    buf_init(&r->in, FRAME_BUFFER_MAX(READ_SIZE));
}

int agent_take(struct agent_reader *r, struct frame *ret, struct err *err)
{
    int n = frame_take(&r->in, &r->at, ret);

    if (n <= 0)
        return n == 0 ? 0 : recv_failed(r->sb, n, err);
    return ret->type == FRAME_ERROR ? agent_said_no(ret->data, ret->len, err) : 1;
}

int agent_fill(struct agent_reader *r, struct err *err)
{
    ssize_t n = frame_fill(r->fd, &r->in, &r->at, READ_SIZE);

    if (n > 0 || n == -EAGAIN)
        return 0;
    return recv_failed(r->sb, (int)n, err);
}

void agent_rest(struct agent_reader *r)
{
    if (r->at < r->in.len)
        return;
    buf_done(&r->in);
    r->at = 0;
}

/* For a whole frame, so that an agent which does not read holds up nobody who sends one. Without
 * the right to more than the machine's maximum it may not be enough; then there is still a limit.
 */
static void make_room(const struct sandbox *sb, int fd)
{
    int room = FRAME_HEADER + FRAME_MAX; /* the kernel doubles it, for what it adds itself */
    uint32_t ms = sb->engine->config.waits.silent;
    struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) < 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/* Did all of them fit into a frame? */
static int check_args(const struct buf *args, struct err *err)
{
    if (args && args->max == 0)
        return err_set(err, ERR_TOO_LARGE, "the arguments are too long: at most %u bytes in total",
                       FRAME_MAX);
    return 0;
}

int agent_connect(struct engine *e, struct sandbox *sb, enum box_channel channel, int *ret_fd,
                  struct err *err)
{
    struct err why = {0};

    if (runtime_connect(e->runtime, &sb->box, channel, ret_fd, &why) == 0)
        return 0;
    if (sandbox_check_box(sb, err) == 0 && err)
        *err = why;
    return -1;
}

int agent_ask(struct sandbox *sb, int fd, enum call_op op, const struct buf *args, struct err *err)
{
    int r;

    if (check_args(args, err) < 0)
        return -1;
    if (args && args->len > SENT_AT_ONCE)
        make_room(sb, fd);
    r = frame_send(fd, FRAME_CALL + (unsigned)op, args ? args->data : NULL, args ? args->len : 0);
    /* Who has no process for the call refuses it unread, and what it said can be received. */
    return r < 0 && r != -EPIPE ? recv_failed(sb, r, err) : 0;
}

int agent_open(struct engine *e, struct sandbox *sb, enum box_channel channel, enum call_op op,
               const struct buf *args, int *ret_fd, struct err *err)
{
    auto_close int fd = -1;

    if (check_args(args, err) < 0 || agent_connect(e, sb, channel, &fd, err) < 0 ||
        agent_ask(sb, fd, op, args, err) < 0)
        return -1;
    *ret_fd = steal_fd(fd);
    return 0;
}

int agent_call(struct engine *e, struct sandbox *sb, enum box_channel channel, enum call_op op,
               const struct buf *args, int *ret_fd, struct err *err)
{
    return agent_admit(sb, err) < 0 ? -1 : agent_open(e, sb, channel, op, args, ret_fd, err);
}

int agent_open_with(struct engine *e, struct sandbox *sb, enum call_op op, const struct buf *args,
                    const void *data, size_t len, int *ret_fd, struct err *err)
{
    auto_buf struct buf frames = {0};
    auto_close int fd = -1;

    if (check_args(args, err) < 0 || agent_connect(e, sb, BOX_CTL, &fd, err) < 0)
        return -1;
    buf_init(&frames, 3 * FRAME_HEADER + FRAME_MAX + AGENT_DATA_MAX);
    (void)frame_put(&frames, FRAME_CALL + (unsigned)op, args->data, args->len);
    if (len > 0)
        (void)frame_put(&frames, FRAME_DATA, data, len);
    (void)frame_put(&frames, FRAME_END, NULL, 0);
    if (send_all(sb, fd, frames.data, frames.len, err) < 0)
        return -1;
    *ret_fd = steal_fd(fd);
    return 0;
}

int agent_call_with(struct engine *e, struct sandbox *sb, enum call_op op, const struct buf *args,
                    const void *data, size_t len, int *ret_fd, struct err *err)
{
    return agent_admit(sb, err) < 0 ? -1 : agent_open_with(e, sb, op, args, data, len, ret_fd, err);
}

int agent_expect(struct sandbox *sb, int fd, unsigned type, struct buf *payload, struct err *err)
{
    unsigned got;

    if (agent_next(sb, fd, &got, payload, err) < 0)
        return -1;
    return got == type ? 0 : agent_broken(err, "an answer of the wrong kind");
}

int agent_simple(struct engine *e, struct sandbox *sb, enum call_op op, const struct buf *args,
                 struct err *err)
{
    auto_close int fd = -1;
    auto_buf struct buf payload = {0};

    if (agent_call(e, sb, BOX_CTL, op, args, &fd, err) < 0)
        return -1;
    return agent_expect(sb, fd, FRAME_OK, &payload, err);
}

int agent_reader_next(struct agent_reader *r, struct frame *ret, struct err *err)
{
    int got;

    while ((got = agent_take(r, ret, err)) == 0)
        if (agent_await(r->sb, r->fd, POLLIN, err) < 0 || agent_fill(r, err) < 0)
            return -1;
    return got < 0 ? -1 : 0;
}

static int read_items(struct agent_reader *r,
                      int (*each)(const struct buf *payload, void *arg, struct err *err), void *arg,
                      struct err *err)
{
    size_t items = 0, bytes = 0;
    struct frame f;

    for (;;) {
        if (agent_reader_next(r, &f, err) < 0)
            return -1;
        if (f.type == FRAME_END)
            return 0;
        if (f.type != FRAME_ITEM)
            return agent_broken(err, "an answer of the wrong kind");
        bytes += f.len;
        if (++items > ITEMS_MAX || bytes > ITEMS_BYTES_MAX)
            return err_set(err, ERR_TOO_LARGE,
                           "the list is too long: more than %d entries or %u MiB; "
                           "ask for a smaller part",
                           ITEMS_MAX, ITEMS_BYTES_MAX >> 20);
        if (each(&(struct buf){.data = (char *)(uintptr_t)f.data, .len = f.len}, arg, err) < 0)
            return -1;
    }
}

int agent_items(struct engine *e, struct sandbox *sb, enum call_op op, const struct buf *args,
                int (*each)(const struct buf *payload, void *arg, struct err *err), void *arg,
                struct err *err)
{
    auto_close int fd = -1;
    struct agent_reader r;
    int done;

    if (agent_call(e, sb, BOX_CTL, op, args, &fd, err) < 0)
        return -1;
    agent_reader_init(&r, sb, fd);
    done = read_items(&r, each, arg, err);
    buf_done(&r.in);
    return done;
}

int agent_hello(struct engine *e, struct sandbox *sb, struct err *err)
{
    auto_close int fd = -1;
    auto_buf struct buf payload = {0};
    struct wire w;
    uint32_t version;

    if (agent_call(e, sb, BOX_CTL, CALL_HELLO, NULL, &fd, err) < 0 ||
        agent_expect(sb, fd, FRAME_OK, &payload, err) < 0)
        return -1;
    wire_init(&w, payload.data, payload.len);
    version = wire_get_u32(&w);
    if (!wire_ok(&w))
        return agent_broken(err, "a greeting that cannot be read");
    if (version != CALL_VERSION)
        return err_set(err, ERR_CONFLICT,
                       "the sandbox's agent speaks version %u and this cay version %u; create the "
                       "sandbox again",
                       version, CALL_VERSION);
    return 0;
}
