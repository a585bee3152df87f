#include <errno.h>
#include <poll.h>
#include <string.h>

#include "agent/agent.h"
#include "base/err.h"
#include "base/mem.h"
#include "proto/frame.h"
#include "proto/plan.h"

/* A caller that comes to an exec by its id. While it runs its supervisor answers (door.c,
 * watchers.c); what has ended is read here, from the board or from its file. */

#define PIECE   (32u << 10)
#define TRIES   20
#define WAIT_MS 50

void again_get(struct wire *w, struct again *ret)
{
    ret->id = wire_get_str(w);
    ret->cursor = wire_get_u64(w);
    ret->most = wire_get_u64(w);
    ret->flags = wire_get_u32(w);
    ret->rows = ret->cols = 0;
    if (w->p == w->end)
        return;
    ret->rows = wire_get_u32(w);
    ret->cols = wire_get_u32(w);
}

uint64_t again_from(const struct kept *k, uint64_t cursor)
{
    return cursor < k->end ? cursor : k->end; /* what is lost before start is told */
}

int again_queue(struct agent_call *c, unsigned type, const struct kept *k,
                const struct call_kept *state)
{
    struct call_kept now = *state;
    auto_buf struct buf b = {0};

    now.start = k->start;
    now.end = k->end;
    buf_init(&b, 512);
    call_state_put(&b, &now);
    return call_queue(c, type, b.data, b.len);
}

static int queue_lost(struct agent_call *c, uint64_t bytes)
{
    auto_buf struct buf b = {0};

    buf_init(&b, 16);
    wire_put_u64(&b, bytes);
    return call_queue(c, FRAME_LOST, b.data, b.len);
}

int again_piece(struct agent_call *c, const struct kept *k, uint64_t *pos, uint64_t *most)
{
    static char piece[PIECE];
    uint64_t next = k->start;
    bool is_error;
    ssize_t n = 0;
    int r;

    if (*pos >= next) {
        n = *most > 0 ? kept_read(k, *pos, piece, *most < PIECE ? (size_t)*most : PIECE, &is_error)
                      : 0;
        if (n == 0)
            return 0;
        next = n > 0 ? *pos + (uint64_t)n : k->end; /* what cannot be read is lost */
    }
    r = n > 0 ? call_queue(c, is_error ? FRAME_STDERR : FRAME_STDOUT, piece, (size_t)n)
              : queue_lost(c, next - *pos);
    if (r < 0)
        return r;
    *pos = next;
    *most -= n > 0 ? (uint64_t)n : 0;
    return 1;
}

/* Who follows reads at the pace of a client, also what has ended long ago. */
static int may_stay(const struct again *a, struct err *err)
{
    bool stays = (a->flags & AGAIN_FOLLOW) && !(a->flags & AGAIN_END);

    return stays ? agent_become_stream(err) : 0;
}

/* ---- one that has ended ---- */

static int send_kept(struct agent_call *c, const struct again *a, const struct kept *k,
                     const struct call_kept *state, struct err *err)
{
    uint64_t pos = again_from(k, a->cursor), most = a->most;
    int r;

    if (may_stay(a, err) < 0)
        return -1;
    (void)again_queue(c, FRAME_OK, k, state);
    while ((r = again_piece(c, k, &pos, &most)) > 0)
        call_flush(c);
    if (r < 0 || again_queue(c, FRAME_END, k, state) < 0)
        _exit(1);
    return 0;
}

/* ---- one that runs ---- */

static int cannot_pass(int error, const char *id, struct err *err)
{
    if (error == -ENOSPC)
        return err_code(err, ERR_LIMIT, "no_space",
                        "the sandbox's disk has no room for a way to exec %s; remove files", id);
    return err_code(err, ERR_UNAVAILABLE, "sandbox_busy",
                    "exec %s does not take a caller now; try again", id);
}

/* 1 when its supervisor has taken over, 0 when it does not run, -1. */
static int pass_on(struct agent_call *c, const struct again *a, struct call_kept *state,
                   struct err *err)
{
    struct running *r;
    auto_buf struct buf args = {0};
    int error = -EAGAIN;

    buf_init(&args, 256);
    wire_put_str(&args, a->id);
    wire_put_u64(&args, a->cursor);
    wire_put_u64(&args, a->most);
    wire_put_u32(&args, a->flags);
    wire_put_u32(&args, a->rows);
    wire_put_u32(&args, a->cols);
    for (int i = 0; i < TRIES && error == -EAGAIN; i++) {
        if (i > 0)
            (void)poll(NULL, 0, WAIT_MS);
        r = board_find(a->id, state);
        if (!r)
            return 0;
        error = door_pass(r, a->id, c->fd, &args);
        /* Then it is asked for again, until it has ended. */
        if (error == -ENOSPC && (a->flags & AGAIN_END) && door_stop(r, a->id) == 0)
            error = -EAGAIN;
    }
    return error == 0 ? 1 : cannot_pass(error, a->id, err);
}

/* ---- the background's: in journals (log.c) */

static void reply_log(struct agent_call *c, unsigned type, const struct log_reader *log)
{
    struct call_kept state = {.running = log->file.now.running,
                              .pid = log->file.now.pid,
                              .flags = EXEC_BACKGROUND,
                              .started_ms = log->file.now.started_ms,
                              .finished_ms = log->file.now.finished_ms,
                              .end = log->file.now.size,
                              .exit = log->file.now.exit};
    auto_buf struct buf b = {0};

    (void)snprintf(state.id, sizeof(state.id), "%s", log->file.id);
    buf_init(&b, 512);
    call_state_put(&b, &state);
    call_reply_buf(c, type, &b);
}

static int send_log(struct agent_call *c, const struct again *a, struct log_reader *log,
                    struct err *err)
{
    bool follow = log->file.now.running && (a->flags & AGAIN_FOLLOW);

    if (may_stay(a, err) < 0)
        return -1;
    log->file.offset = a->cursor < log->file.now.size ? a->cursor : log->file.now.size;
    reply_log(c, FRAME_OK, log);
    if (follow && log_send_all(c, log, err) < 0)
        return -1;
    if (!follow)
        log_send(c, log, a->most);
    reply_log(c, FRAME_END, log);
    return 0;
}

static int answer_again(struct agent_call *c, const struct again *a, struct err *err)
{
    static struct kept k;
    struct log_reader log = {.file = LOG_FILE(AGENT_FD_LOGS, a->id), .form = LOG_STREAMS};
    struct call_kept state, lost = {0};
    bool in_log = log_look(&log, NULL) == 0;
    int passed = in_log && !(a->flags & AGAIN_END) ? 0 : pass_on(c, a, &lost, err);

    if (passed != 0)
        return passed < 0 ? -1 : 0;
    if (in_log)
        return log_look(&log, err) < 0 ? -1 : send_log(c, a, &log, err);
    if (board_get(a->id, &k, &state) || kept_load(a->id, &k, &state))
        return send_kept(c, a, &k, &state, err);
    if (lost.id[0]) { /* its supervisor died, and with it what it kept */
        kept_begin(&k, a->id);
        return send_kept(c, a, &k, &lost, err);
    }
    return err_code(err, ERR_NOT_FOUND, "exec_not_found",
                    "the sandbox has no exec \"%.40s\", or keeps it no more", a->id);
}

int again_call(struct agent_call *c, struct err *err)
{
    struct again a;
    int r;

    again_get(&c->args, &a);
    r = call_args_ok(c, err) < 0 ? -1 : answer_again(c, &a, err);
    free(a.id);
    return r;
}

/* ---- all of them ---- */

/* What runs is listed first. It may end meanwhile, and is not listed again then. */
struct exec_listing {
    struct agent_call *call;
    char running[BOARD_SEATS][CALL_ID_SIZE];
    size_t n;
};

static bool is_running(const struct exec_listing *l, const char *id)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->running[i], id) == 0)
            return true;
    return false;
}

static void send_item(const struct call_kept *state, void *arg)
{
    struct exec_listing *l = arg;
    auto_buf struct buf b = {0};

    if (!state->running && is_running(l, state->id))
        return;
    if (state->running && l->n < BOARD_SEATS)
        memcpy(l->running[l->n++], state->id, CALL_ID_SIZE);
    buf_init(&b, 512);
    call_state_put(&b, state);
    call_reply_buf(l->call, FRAME_ITEM, &b);
}

int execs_call(struct agent_call *c, struct err *err)
{
    static struct exec_listing l;

    if (call_args_ok(c, err) < 0)
        return -1;
    l.call = c;
    board_each(send_item, &l);
    kept_each(send_item, &l);
    call_reply(c, FRAME_END, NULL, 0);
    return 0;
}

int keep_call(struct agent_call *c, struct err *err)
{
    int r;

    if (call_args_ok(c, err) < 0)
        return -1;
    r = board_save();
    if (r < 0)
        return err_sys(err, -r, "keep the output of the commands that have ended");
    call_reply(c, FRAME_OK, NULL, 0);
    return 0;
}
