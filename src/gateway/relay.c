#include "gateway/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

#define PIPE_BYTES  (256 * 1024)
#define PIPES_KEPT  64            /* for the next lane that holds something */
#define MOVE_A_TURN (1024 * 1024) /* bytes */

static int kept[PIPES_KEPT][2];
static unsigned kept_count;

static int pipe_take(int pipe[2])
{
    if (kept_count > 0) {
        kept_count--;
        pipe[0] = kept[kept_count][0];
        pipe[1] = kept[kept_count][1];
        return 0;
    }
    if (pipe2(pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    (void)fcntl(pipe[1], F_SETPIPE_SZ, PIPE_BYTES); /* else it has 64 KiB, or less: slower */
    return 0;
}

/* Only empty ones are another's later. */
static void pipe_give(int pipe[2], bool empty)
{
    if (empty && kept_count < PIPES_KEPT) {
        kept[kept_count][0] = pipe[0];
        kept[kept_count][1] = pipe[1];
        kept_count++;
        pipe[0] = pipe[1] = -1;
    }
    close_fd(&pipe[0]);
    close_fd(&pipe[1]);
}

void lane_init(struct lane *l)
{
    *l = (struct lane){.pipe = {-1, -1}};
}

void lane_done(struct lane *l)
{
    if (l->pipe[0] >= 0)
        pipe_give(l->pipe, l->held == 0);
    l->held = 0;
}

void lane_end(struct lane *l, int to)
{
    l->ended = true;
    (void)shutdown(to, SHUT_WR);
}

/* Bytes into the pipe, 0 at the end, or -errno. */
static ssize_t fill(struct lane *l, int from)
{
    ssize_t n = splice(from, NULL, l->pipe[1], NULL, PIPE_BYTES, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);

    if (n > 0)
        l->held += (size_t)n;
    return n < 0 ? -errno : n;
}

static ssize_t drain(struct lane *l, int to)
{
    ssize_t n = splice(l->pipe[0], NULL, to, NULL, l->held, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);

    if (n > 0) {
        l->held -= (size_t)n;
        l->moved += (size_t)n;
    }
    return n < 0 ? -errno : n;
}

static enum lane_state move(struct lane *l, int from, int to)
{
    size_t moved = 0;

    while (moved < MOVE_A_TURN) {
        ssize_t n;

        if (l->held == 0) {
            n = fill(l, from);
            if (n == 0)
                lane_end(l, to);
            if (n <= 0)
                return n == 0 ? LANE_ENDED : n == -EAGAIN ? LANE_EMPTY : LANE_BROKEN;
        }
        n = drain(l, to);
        if (n <= 0)
            return n == -EAGAIN ? LANE_FULL : LANE_BROKEN;
        moved += (size_t)n;
    }
    return l->held > 0 ? LANE_FULL : LANE_EMPTY;
}

enum lane_state lane_move(struct lane *l, int from, int to)
{
    enum lane_state r;

    if (l->ended)
        return LANE_ENDED;
    if (l->pipe[0] < 0 && pipe_take(l->pipe) < 0)
        return LANE_BROKEN;
    r = move(l, from, to);
    if (l->held == 0)
        pipe_give(l->pipe, true);
    return r;
}
