#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "agent/supervised.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "proto/frame.h"

/* The supervisor of one command. It is the subreaper (serve.c) of everything that the command
 * starts, so that after setsid and a double fork a process is still below it.
 *
 *  1. It never blocks while the command runs, whatever the caller and the command do: the timeout
 * holds. Output that the caller does not take stays in the pipe, and the command waits.
 *  2. The call ends when the command's own process ends. What others wrote until then is sent, what
 *     they write later is drained and dropped (linger), so that they do not die of SIGPIPE.
 *  3. On a timeout, or when the caller cancels, nothing of the tree is left. A caller that goes
 *     away without a word, as one that was killed does, leaves an exec that has an id running.
 *  4. What an exec with an id puts out, and its end, are kept (kept.h): its end before anybody is
 *     told of it, and without waiting for anybody to take what came before.
 *  5. No two that run have one id. */

/* Of EXEC_COLLECT: what is held back goes out once after this long. */
#define HOLD_NS (1000 * 1000000ll)

/* Of EXEC_INPUT: a caller that has not sent it all by then is given up. */
#define INPUT_NS (10ll * 1000 * 1000000)

static void close_theirs(struct supervised *x)
{
    for (int i = 0; i < 3; i++) {
        if (x->theirs[i] >= 0 && (i == 0 || x->theirs[i] != x->theirs[i - 1]))
            (void)close(x->theirs[i]);
    }
    x->theirs[0] = x->theirs[1] = x->theirs[2] = -1;
}

static int make_pipes(struct supervised *x, int fds[3])
{
    int r = pipe_for_output(&x->out[0].fd, &fds[1]);

    if (r == 0 && is_background(x) && !(x->in.flags & EXEC_APART))
        fds[2] = fds[1]; /* mixed, in the order of writing */
    else if (r == 0)
        r = pipe_for_output(&x->out[1].fd, &fds[2]);
    if (r == 0 && (x->in.flags & (EXEC_STDIN | EXEC_INPUT)))
        r = pipe_for_input(&x->input, &fds[0]);
    /* Who opens /dev/stdout opens the pipe anew, which only its owner may. */
    for (int i = 0; r == 0 && x->user.uid != 0 && i < 3; i++)
        if (fds[i] >= 0 && fchown(fds[i], x->user.uid, x->user.gid) < 0)
            r = -errno;
    return r;
}

static int start(struct supervised *x, struct err *err)
{
    struct spawn s = {.argv = x->in.argv,
                      .env = x->in.env,
                      .cwd = x->in.cwd,
                      .user = &x->user,
                      .fds = {-1, -1, -1},
                      .tty = is_tty(x),
                      .nofile = x->in.nofile,
                      .limits = x->in.limits,
                      .n_limits = x->in.n_limits};
    int r;

    if (is_tty(x)) {
        if (pty_open(x->in.rows, x->in.cols, &x->user, &x->out[0].fd, &s.fds[0], err) < 0)
            return -1;
        s.fds[1] = s.fds[2] = s.fds[0];
        x->input = x->out[0].fd;
    } else {
        r = make_pipes(x, s.fds);
        if (r < 0)
            return err_sys(err, -r, "make pipes for the command");
    }
    x->oom_before = oom_kills();
    x->started = mono_ns();
    x->pid = spawn_run(&s, err);
    memcpy(x->theirs, s.fds, sizeof(x->theirs));
    if (x->pid < 0) {
        close_theirs(x);
        return -1;
    }
    /* More than a century is for ever, and does not overflow. */
    if (x->in.timeout_ms > 0 && x->in.timeout_ms < INT64_MAX / 2000000)
        x->deadline = x->started + (int64_t)x->in.timeout_ms * 1000000;
    return 0;
}

/* A child of ours asked to be traced by its parent, which we are not there for. */
static void let_go_on(pid_t pid, int sig)
{
    (void)ptrace(PTRACE_DETACH, pid, NULL, (void *)(uintptr_t)(sig == SIGTRAP ? 0 : sig));
}

/* All that have ended, or until the command has: its caller is told before others are looked at. */
static void reap(struct supervised *x)
{
    bool ended = x->ended;
    pid_t pid;
    int status;

    while (x->ended == ended && (pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (WIFSTOPPED(status)) {
            let_go_on(pid, WSTOPSIG(status));
        } else if (pid == x->pid) {
            x->ended = true;
            x->status = status;
        }
    }
}

/* ---- callers that came later */

/* One that has gone may not have been noticed yet. */
static bool has_caller_of(void *arg)
{
    struct supervised *x = arg;

    return has_caller(x) && !call_gone(x->call);
}

static bool takes_frame(void *arg)
{
    const struct supervised *x = arg;

    return x->ended || exec_wants_frames(x);
}

static int on_watcher_frame(void *arg, const struct frame *f)
{
    struct supervised *x = arg;
    int r = x->ended ? 0 : exec_on_frame(x, f);

    exec_feed(x);
    return r;
}

static void on_watcher_last_frames(void *arg, struct agent_call *call)
{
    struct supervised *x = arg;

    if (!x->ended)
        (void)exec_last_frames(x, call);
}

static void on_watcher_resize(void *arg, uint32_t rows, uint32_t cols)
{
    exec_resize(arg, rows, cols);
}

static void open_door(struct supervised *x)
{
    if (x->seat && x->seat->wanted && x->watchers.door < 0 && x->seat->door == DOOR_SHUT)
        x->watchers.door = door_open(x->seat, x->state.id);
}

/* The words of the command with spaces between them, of a shell's its line: how that begins. */
static void put_command(char *const *argv, char ret[CALL_COMMAND_SIZE])
{
    size_t len = 0;

    if (strcmp(argv[0], "/bin/sh") == 0 && argv[1] && strcmp(argv[1], "-c") == 0 && argv[2])
        argv += 2;
    for (; *argv && len < CALL_COMMAND_SIZE - 1; argv++)
        len += (size_t)snprintf(ret + len, CALL_COMMAND_SIZE - len, "%s%s", len ? " " : "", *argv);
}

static void leave(struct supervised *x)
{
    if (x->seat)
        board_leave(x->seat);
    x->seat = NULL;
}

/* Asked after the seat is taken: one that ended before is known by then, since its end is put up
 * before it leaves its own. */
static bool has_run(const char *id)
{
    static struct kept kept;
    struct call_kept state;
    bool has = board_get(id, &kept, &state);

    if (!has)
        has = kept_load(id, &kept, &state);
    kept_rest(&kept);
    return has;
}

/* Rule 5, and on the board, so that others find it by its id once it has begun. Entered first and
 * looked at then: of two that come together both may be refused, but never do both begin. */
static int claim_id(struct supervised *x, struct err *err)
{
    if (x->in.id[0] == '\0')
        return 0;
    x->state = (struct call_kept){
        .running = 1,
        .flags = x->in.flags & (EXEC_TTY | EXEC_STDIN | EXEC_BACKGROUND),
        .started_ms = (uint64_t)now_ms(),
        .rows = is_tty(x) ? x->in.rows : 0,
        .cols = is_tty(x) ? x->in.cols : 0,
    };
    (void)snprintf(x->state.id, sizeof(x->state.id), "%s", x->in.id);
    put_command(x->in.argv, x->state.command);
    x->seat = board_enter(&x->state);
    if (!board_runs(x->in.id) && !((x->in.flags & EXEC_ONCE) && has_run(x->in.id)))
        return 0;
    leave(x);
    return err_code(err, ERR_CONFLICT, "exec_exists",
                    "exec %s runs already, or has run; give another id, or none", x->in.id);
}

/* When the disk has no room for what is long, at least the end. */
static void put_up(const struct supervised *x)
{
    struct call_kept end = x->state;

    if (x->kept->file >= 0 && kept_store(x->kept, &x->state))
        return;
    if (x->kept->file >= 0)
        end.start = end.end;
    board_put(x->kept, &end);
}

/* Rule 4. */
static void publish(struct supervised *x, const struct call_exit *end)
{
    x->state.running = 0;
    x->state.finished_ms = (uint64_t)now_ms();
    x->state.exit = *end;
    x->state.start = x->kept ? x->kept->start : 0;
    x->state.end = x->kept ? x->kept->end : 0;
    if (x->kept)
        put_up(x);
    if (x->seat) {
        door_shut(x->seat, x->state.id, x->watchers.door);
        board_leave(x->seat);
    }
}

/* ---- the loop */

enum { WAIT_OUT, WAIT_ERR, WAIT_INPUT, WAIT_CALLER, WAIT_NEXT, WAIT_COUNT };

static size_t poll_set(const struct supervised *x, struct pollfd p[WAIT_COUNT + WATCHERS_POLL])
{
    bool full = is_full(x);

    p[WAIT_OUT] = (struct pollfd){.fd = full ? -1 : x->out[0].fd, .events = POLLIN};
    p[WAIT_ERR] = (struct pollfd){.fd = full ? -1 : x->out[1].fd, .events = POLLIN};
    p[WAIT_INPUT] = (struct pollfd){.fd = x->pending.len > 0 ? x->input : -1, .events = POLLOUT};
    p[WAIT_CALLER] = (struct pollfd){.fd = x->call->fd};
    if (full)
        p[WAIT_CALLER].events |= POLLOUT;
    if (exec_wants_frames(x))
        p[WAIT_CALLER].events |= POLLIN;
    p[WAIT_NEXT] = (struct pollfd){.fd = young_door(), .events = POLLIN};
    return WAIT_COUNT + watchers_poll(&x->watchers, p + WAIT_COUNT);
}

/* What the caller sent or takes. */
static int serve_caller(struct supervised *x, short revents)
{
    int r = revents ? exec_listen(x, revents) : 0;

    if (r == 0 && (revents & POLLOUT))
        r = call_flush_try(x->call);
    return r < 0 ? exec_without_caller(x, r) : 0;
}

static int serve_events(struct supervised *x, const struct pollfd p[WAIT_COUNT])
{
    int r;

    if (p[WAIT_NEXT].revents)
        young_knock();
    if (has_caller(x) && serve_caller(x, p[WAIT_CALLER].revents) < 0)
        return -ECANCELED;
    for (size_t i = 0; i < ARRAY_LEN(x->out); i++)
        if (p[i].revents && x->out[i].fd >= 0 && exec_pump(x, &x->out[i], CHUNK) == -EPIPE &&
            exec_without_caller(x, -EPIPE) < 0)
            return -ECANCELED;
    exec_feed(x);
    if (!has_caller(x))
        return 0;
    r = exec_pass_input(x); /* frames that had to wait for room */
    return r < 0 && exec_without_caller(x, r) < 0 ? -ECANCELED : 0;
}

/* When the loop has to do something even if nothing happens; 0 = never. */
static int64_t next_time(const struct supervised *x)
{
    if (x->hold_until && (!x->deadline || x->hold_until < x->deadline))
        return x->hold_until;
    return x->deadline;
}

static bool time_is_up(struct supervised *x, int64_t now)
{
    if (x->hold_until && now >= x->hold_until) {
        x->hold_until = 0;
        (void)call_flush_try(x->call); /* a caller that is gone shows in the loop */
    }
    return x->deadline && now >= x->deadline;
}

static enum call_exit_how how_it_ended(const struct supervised *x)
{
    return WIFSIGNALED(x->status) ? EXIT_SIGNAL : EXIT_CODE;
}

/* A short one whose output fits into its pipes is over when we get the processor back that we share
 * with it. Whatever else there would be to do before it is told can wait until it is. */
static bool is_over_already(struct supervised *x)
{
    if (collects(x))
        reap(x);
    return x->ended;
}

/* Until the command ends, time is up, or the caller is gone. */
static enum call_exit_how watch(struct supervised *x)
{
    struct pollfd p[WAIT_COUNT + WATCHERS_POLL];
    int r;

    if (is_over_already(x))
        return how_it_ended(x);
    close_theirs(x);
    r = has_caller(x) ? exec_pass_input(x) : 0; /* what came together with the call */
    if (r < 0 && exec_without_caller(x, r) < 0)
        return EXIT_CANCELLED;
    for (;;) {
        struct timespec left = {0};
        int64_t then = next_time(x), now;
        size_t n;

        if (then) {
            now = mono_ns();
            if (now >= then) {
                if (time_is_up(x, now))
                    return EXIT_TIMEOUT;
                continue;
            }
            left = (struct timespec){.tv_sec = (then - now) / 1000000000,
                                     .tv_nsec = (then - now) % 1000000000};
        }
        n = poll_set(x, p);
        r = ppoll(p, n, then ? &left : NULL, &agent_wait_mask);
        if (r > 0 && serve_events(x, p) < 0)
            return EXIT_CANCELLED;
        open_door(x);
        if (x->watchers.door >= 0)
            watchers_serve(&x->watchers);
        if (x->watchers.ended || (x->seat && x->seat->stop == x->seat->seq))
            return EXIT_CANCELLED;
        reap(x);
        if (x->ended)
            return how_it_ended(x);
    }
}

static void finish(struct supervised *x, enum call_exit_how how)
{
    struct call_exit e = {.how = how, .duration_ns = (uint64_t)(mono_ns() - x->started)};
    size_t room = x->call->out.max;
    auto_buf struct buf b = {0};

    if (how == EXIT_CODE)
        e.code = (uint32_t)WEXITSTATUS(x->status);
    else if (how == EXIT_SIGNAL)
        e.code = (uint32_t)WTERMSIG(x->status);
    e.code |= oom_bits(x->oom_before, e.code != 0);
    x->ended = true;
    exec_drain(x);
    e.lost_stdout = x->out[0].lost;
    e.lost_stderr = x->out[1].lost;
    if (is_background(x))
        journal_finish(&x->journal, &e);
    recording_end(&x->recording, x->started, &e);
    publish(x, &e);
    buf_init(&b, 256);
    call_exit_put(&b, &e);
    if (has_caller(x) && call_queue(x->call, FRAME_EXIT, b.data, b.len) < 0)
        close_fd(&x->call->fd);
    watchers_finish(&x->watchers, x->call);
    x->call->out.max = room;
}

static bool has_output(const struct supervised *x)
{
    return x->out[0].fd >= 0 || x->out[1].fd >= 0;
}

/* It may take long, and whoever comes meanwhile is to find another supervisor. */
static void begin_to_linger(void)
{
    agent_mark_self(SLOT_LINGERS);
    if (young_door() >= 0)
        young_knock();
}

/* Rule 2: for as long as somebody holds the other ends. */
static void linger(struct supervised *x)
{
    static char sink[CHUNK];
    bool marked = false;

    while (has_output(x)) {
        struct pollfd p[2] = {{.fd = x->out[0].fd, .events = POLLIN},
                              {.fd = x->out[1].fd, .events = POLLIN}};
        int r = ppoll(p, 2, &(struct timespec){0}, NULL);

        if (r == 0) {
            if (!marked)
                begin_to_linger();
            marked = true;
            r = ppoll(p, 2, NULL, &agent_wait_mask);
        }
        for (int i = 0; r > 0 && i < 2; i++) {
            ssize_t n = p[i].revents & POLLIN ? read_some(p[i].fd, sink, sizeof(sink)) : 0;

            if (p[i].revents && n <= 0 && n != -EAGAIN)
                close_fd(&x->out[i].fd);
        }
        if (has_output(x))
            reap(x);
    }
}

static int tell_started(struct supervised *x, struct err *err)
{
    auto_buf struct buf b = {0};

    if (is_background(x) && journal_started(&x->journal, x->pid, err) < 0)
        return -1;
    x->state.pid = (uint32_t)x->pid;
    if (x->seat)
        board_begin(x->seat, x->pid);
    buf_init(&b, 16);
    wire_put_u32(&b, (uint32_t)x->pid);
    if (x->kept)
        wire_put_u32(&b, 1);
    if (x->recording.file >= 0)
        wire_put_u32(&b, 1);
    /* A caller that is gone already shows in the loop. */
    (void)call_queue(x->call, FRAME_STARTED, b.data, b.len);
    if (collects(x))
        x->hold_until = x->started + HOLD_NS;
    else
        (void)call_flush_try(x->call);
    if (is_background(x))
        close_fd(&x->call->fd);
    return 0;
}

/* Only the box's own passwd says where a user is at home. */
static void add_home(struct supervised *x)
{
    const char *home = x->user.home[0] ? x->user.home : "/";
    auto_free char *var = NULL;

    for (char **e = x->in.env; *e; e++)
        if (strncmp(*e, "HOME=", 5) == 0)
            return;
    var = xasprintf("HOME=%s", home);
    x->in.env = strv_add(x->in.env, var);
}

static int find_user(struct supervised *x, struct err *err)
{
    /* The common case looks up nothing. */
    if (x->in.user[0] == '\0' && x->in.cwd[0] != '\0')
        return 0;
    if (identity_load(x->in.user, &x->user, err) < 0)
        return -1;
    add_home(x);
    return 0;
}

/* Of EXEC_INPUT. Who goes away in the middle of it has started nothing. */
static int take_input(struct supervised *x, struct err *err)
{
    int64_t deadline = mono_ns() + INPUT_NS;
    struct frame f;

    if (x->in.input_len == 0)
        x->in.flags &= ~EXEC_INPUT; /* /dev/null ends as well */
    if (!(x->in.flags & EXEC_INPUT))
        return 0;
    x->pending.max += x->in.input_len;
    while (x->pending.len < x->in.input_len) {
        if (call_next(x->call, deadline, &f) != 1 || f.type == FRAME_CANCEL)
            _exit(0);
        if (f.type != FRAME_STDIN || f.len == 0 || f.len > x->in.input_len - x->pending.len)
            return err_set(err, ERR_INVALID, "the input is not as long as the call says");
        (void)buf_add(&x->pending, f.data, f.len);
    }
    x->input_ends = true;
    return 0;
}

/* Returns when nothing is left of it, so that this process can supervise another command. */
static void run(struct supervised *x)
{
    enum call_exit_how how = watch(x);

    if (how == EXIT_TIMEOUT || how == EXIT_CANCELLED)
        tree_kill();
    if (how == EXIT_CANCELLED && !x->seat)
        _exit(0);
    finish(x, how);
    if (is_tty(x) || is_background(x))
        _exit(0);
    close_theirs(x);
    linger(x);
    if (tree_reap())
        _exit(0);
    close_fd(&x->input);
    buf_done(&x->pending);
    call_exec_done(&x->in);
    if (x->kept)
        kept_rest(x->kept);
    pipes_make_ahead();
}

int exec_call(struct agent_call *c, struct err *err)
{
    static struct supervised x;
    static struct kept kept;

    x = (struct supervised){.call = c,
                            .out = {{-1, FRAME_STDOUT}, {-1, FRAME_STDERR}},
                            .theirs = {-1, -1, -1},
                            .input = -1,
                            .recording = {.file = -1}};
    x.watchers = (struct watchers){.door = -1,
                                   .kept = &kept,
                                   .state = &x.state,
                                   .has_caller = has_caller_of,
                                   .takes_frame = takes_frame,
                                   .on_frame = on_watcher_frame,
                                   .last_frames = on_watcher_last_frames,
                                   .resize = on_watcher_resize,
                                   .arg = &x};
    buf_init(&x.pending, 2 * FRAME_MAX);
    call_exec_get(&c->args, &x.in);
    if (call_args_ok(c, err) < 0 || exec_check(&x.in, err) < 0 || find_user(&x, err) < 0 ||
        take_input(&x, err) < 0)
        return -1;
    /* A caller that has given up told its own that there is none, and knows no id of it. */
    if (is_background(&x) && call_gone(c))
        _exit(0);
    if (claim_id(&x, err) < 0)
        return -1;
    if (is_background(&x) && journal_open(&x.journal, x.in.id, x.in.flags & EXEC_APART, err) < 0) {
        leave(&x);
        return -1;
    }
    kept_begin(&kept, x.in.id);
    if (x.in.id[0] && !is_background(&x))
        x.kept = &kept;
    if (x.kept && is_tty(&x) && (x.in.flags & EXEC_RECORD))
        recording_begin(&x.recording, x.in.id, x.in.rows, x.in.cols);
    if (start(&x, err) < 0 || tell_started(&x, err) < 0) {
        if (x.pid > 0)
            tree_kill();
        if (is_background(&x))
            journal_discard(&x.journal);
        recording_discard(&x.recording, x.in.id);
        leave(&x);
        return -1;
    }
    run(&x);
    return 0;
}
