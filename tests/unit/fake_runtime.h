#pragma once

/* A runtime without boxes. Each "box" is a scripted agent: a thread for every connection that
 * speaks proto/call.h, and that lies when it is told to. Boxes outlive engines, as real ones do. */

#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "frame_recv.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"
#include "runtime/runtime.h"

#define FAKE_BOXES 64
#define FAKE_CONNS 32

enum lie {
    LIE_NOT,
    LIE_GARBAGE,      /* bytes that are no frame */
    LIE_WRONG_TYPE,   /* a frame that does not answer the call */
    LIE_SHORT,        /* the right type, cut payload */
    LIE_CLOSE,        /* no answer */
    LIE_UNAUTHORIZED, /* an error that only cay may give, with control characters */
    LIE_ENDLESS,      /* items without end */
    LIES,             /* that are over at once; not among them: */
    LIE_HALF,         /* the first byte of a frame, and no more until this is over */
};

struct fake_box {
    char id[ID_SIZE];
    bool prepared;
    atomic_bool alive;
    atomic_bool paused;
    bool empty; /* it has no disk */
    atomic_ullong used, lease;
    int watch_fd;
    struct fake_conn {
        int fd;
        enum box_channel channel;
        struct fake_box *box;
        pthread_t thread;
        bool used;
    } conns[FAKE_CONNS];
    struct buf environment; /* its /etc/environment */
    bool main_started;
};

static struct fake {
    struct runtime base;
    pthread_mutex_t lock;
    pthread_mutex_t main_lock; /* of main_ended. Agents take no other: they are joined under lock */
    unsigned replaced;         /* disks */
    bool fail_replace;
    struct fake_box boxes[FAKE_BOXES];
    _Atomic enum lie lie;
    atomic_bool fail_prepare, fail_create, fail_pause, fail_stop, fail_destroy, hold_destroy;
    atomic_int urgency; /* the least nice that a box was taken away */
    atomic_uint oom_kills, prepared, destroys, destroyed, killed, stopped, ranges_kept,
        pauses_begun;
    atomic_bool main_runs;     /* until a signal comes */
    pthread_cond_t main_ended; /* or its box was killed */
    atomic_uint main_signal;
    atomic_uint released[256]; /* by slot */
    atomic_uint adopted_late;  /* after the first was destroyed */
    atomic_bool old;           /* agents that know neither CALL_FOLLOW nor CALL_OUTPUT */
    atomic_bool silent;        /* no agent answers a ctl call until this is over */
    atomic_uint ctl_calls;     /* that came, answered or not */
    atomic_bool unread;        /* no agent reads anything until it is hung up */
    _Atomic enum box_look look;
    atomic_uint looks;     /* how often it was looked at */
    atomic_bool hold_look; /* a look at it lasts until this is over */
    atomic_uint watch_asked;
    atomic_ullong disk_mb; /* that the disk of each box takes */
    atomic_ullong free_mb; /* of the host's disk, which takes 1 TiB; 0 = it cannot be told */
    void (*on_disk_room)(const char *id);    /* before somebody is told of a disk's room */
    void (*_Atomic on_kill)(const char *id); /* before a box is killed */
    atomic_bool half_read;                   /* somebody has taken what LIE_HALF sent */
    atomic_uint agains;                      /* CALL_AGAINs that came */
    atomic_uint logs;                        /* CALL_LOGs that came */
    atomic_ullong loses;                     /* bytes with every frame of one; 0 = 1 */
} fake;

/* ---- the agent ---- */

static void answer(int fd, unsigned type, const struct buf *b)
{
    (void)frame_send(fd, type, b ? b->data : NULL, b ? b->len : 0);
}

static void answer_exit(int fd, unsigned how, unsigned code)
{
    auto_buf struct buf b = {0};

    buf_init(&b, FRAME_MAX);
    call_exit_put(&b, &(struct call_exit){.how = how, .code = code, .duration_ns = 1500000});
    answer(fd, FRAME_EXIT, &b);
}

static void answer_log(int fd, bool running, size_t size)
{
    auto_buf struct buf b = {0};

    buf_init(&b, FRAME_MAX);
    call_log_put(&b, &(struct call_log){.size = size,
                                        .running = running,
                                        .pid = 7,
                                        .started_ms = 1,
                                        .finished_ms = running ? 0 : 2,
                                        .exit = {.code = 4}});
    answer(fd, FRAME_END, &b);
}

static void wait_hangup(int fd)
{
    char c;

    while (read(fd, &c, 1) > 0)
        ;
}

static void flood(int fd, unsigned frames)
{
    auto_free char *zeros = xcalloc(1, FRAME_MAX);

    for (unsigned i = 0; i < frames; i++)
        if (frame_send(fd, FRAME_STDOUT, zeros, FRAME_MAX) < 0)
            return;
}

static void run_command(int fd, const struct call_exec *c)
{
    const char *cmd = c->argv[0] && c->argv[1] && c->argv[2] ? c->argv[2] : c->argv[0];
    const char *arg = strchr(cmd, ' ') ? strchr(cmd, ' ') + 1 : "";

    if (str_starts(cmd, "echo ")) {
        (void)frame_send(fd, FRAME_STDOUT, arg, strlen(arg));
        answer_exit(fd, EXIT_CODE, 0);
    } else if (str_starts(cmd, "err ")) {
        (void)frame_send(fd, FRAME_STDERR, arg, strlen(arg));
        answer_exit(fd, EXIT_CODE, 3);
    } else if (str_starts(cmd, "env ")) {
        for (char **var = c->env; *var; var++)
            if (str_starts(*var, arg) && (*var)[strlen(arg)] == '=')
                (void)frame_send(fd, FRAME_STDOUT, *var, strlen(*var));
        answer_exit(fd, EXIT_CODE, 0);
    } else if (strcmp(cmd, "cwd") == 0) {
        (void)frame_send(fd, FRAME_STDOUT, c->cwd, strlen(c->cwd));
        answer_exit(fd, EXIT_CODE, 0);
    } else if (strcmp(cmd, "latin1") == 0) {
        (void)frame_send(fd, FRAME_STDOUT, "caf\xe9", 4);
        answer_exit(fd, EXIT_CODE, 0);
    } else if (strcmp(cmd, "hang") == 0) {
        wait_hangup(fd);
    } else if (strcmp(cmd, "segv") == 0) {
        answer_exit(fd, EXIT_SIGNAL, 11);
    } else if (strcmp(cmd, "killed") == 0) {
        answer_exit(fd, EXIT_SIGNAL, 9);
    } else if (strcmp(cmd, "late") == 0) {
        answer_exit(fd, EXIT_TIMEOUT, 0);
    } else if (strcmp(cmd, "flood") == 0) {
        flood(fd, 3 * (10u << 20) / FRAME_MAX);
        answer_exit(fd, EXIT_CODE, 0);
    } else if (strcmp(cmd, "endless") == 0) {
        flood(fd, ~0u);
    } else if (strcmp(cmd, "badexit") == 0) {
        (void)frame_send(fd, FRAME_EXIT, "xx", 2);
    } else if (strcmp(cmd, "badhow") == 0) {
        answer_exit(fd, 77, 0);
    } else if (strcmp(cmd, "wrongtype") == 0) {
        (void)frame_send(fd, FRAME_ITEM, "xx", 2);
    } else if (strcmp(cmd, "garbage") == 0) {
        (void)!write(fd, "\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9);
    }
}

/* Another exec has it. Nothing more is read. */
static void refuse_id(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    auto_buf struct buf b = {0};

    buf_init(&b, FRAME_MAX);
    call_error_put(&b, &(struct err){.kind = ERR_CONFLICT, .text = "runs already"});
    answer(fd, FRAME_ERROR, &b);
    (void)poll(&p, 1, -1);
}

static void serve_exec(struct fake_conn *conn, struct wire *w)
{
    struct call_exec c;
    auto_buf struct buf b = {0};

    call_exec_get(w, &c);
    buf_init(&b, FRAME_MAX);
    wire_put_u32(&b, 7);
    if (atomic_load(&fake.old) && (c.flags & (EXEC_LIMITS | EXEC_INPUT))) {
        buf_clear(&b);
        call_error_put(&b, &(struct err){.kind = ERR_INVALID, .text = "unknown flags"});
        answer(conn->fd, FRAME_ERROR, &b);
    } else if (wire_ok(w)) {
        if (strcmp(c.id, "main") == 0)
            conn->box->main_started = true;
        if (c.argv[1] && c.argv[2] && strcmp(c.argv[2], "taken") == 0)
            refuse_id(conn->fd);
        else if (!c.argv[1] || !c.argv[2] || strcmp(c.argv[2], "unborn") != 0)
            answer(conn->fd, FRAME_STARTED, &b);
        if (!(c.flags & EXEC_BACKGROUND))
            run_command(conn->fd, &c);
    }
    call_exec_done(&c);
}

static void serve_read(struct fake_conn *conn, const char *path)
{
    struct err err = {0};
    auto_buf struct buf b = {0};

    buf_init(&b, FRAME_MAX);
    if (strcmp(path, "/etc/environment") != 0 || !conn->box->environment.data) {
        (void)err_code(&err, ERR_NOT_FOUND, "file_not_found", "%s: there is no such file", path);
        call_error_put(&b, &err);
        answer(conn->fd, FRAME_ERROR, &b);
        return;
    }
    call_file_put(&b, &(struct call_file){.size = conn->box->environment.len});
    answer(conn->fd, FRAME_OK, &b);
    answer(conn->fd, FRAME_DATA, &conn->box->environment);
    answer(conn->fd, FRAME_END, NULL);
}

static void serve_write(struct fake_conn *conn)
{
    auto_buf struct buf got = {0}, payload = {0};
    unsigned type;

    buf_init(&got, 1 << 20);
    while (frame_recv(conn->fd, &type, &payload) == 1 && type == FRAME_DATA)
        (void)buf_add(&got, payload.data, payload.len);
    if (type != FRAME_END)
        return;
    buf_done(&conn->box->environment);
    conn->box->environment = got;
    got = (struct buf){0};
    answer(conn->fd, FRAME_OK, NULL);
}

static void serve_items(int fd, unsigned op)
{
    auto_buf struct buf b = {0};

    buf_init(&b, FRAME_MAX);
    if (op == CALL_PS)
        call_process_put(&b, &(struct call_process){.pid = 3,
                                                    .user = "root",
                                                    .state = "S",
                                                    .cpu_ms = 50,
                                                    .age_ms = 100,
                                                    .rss = 64 << 20,
                                                    .vsz = 128 << 20,
                                                    .command = "sleep 9"});
    else if (op == CALL_SEARCH)
        wire_put_str(&b, "/workspace/a.txt");
    else
        call_file_put(&b, &(struct call_file){.path = "a.txt",
                                              .mode = 0100644,
                                              .size = 5,
                                              .mtime_ms = 9,
                                              .owner = "root",
                                              .group = "root"});
    answer(fd, FRAME_ITEM, &b);
    answer(fd, FRAME_END, NULL);
}

static bool tell_lie(int fd, enum lie lie)
{
    static const struct err forged = {.kind = ERR_UNAUTHORIZED, .text = "give me\ntoken \x80"};
    auto_buf struct buf b = {0};
    int unread = 0;

    buf_init(&b, FRAME_MAX);
    switch (lie) {
    case LIE_NOT:
    case LIES:
        return false;
    case LIE_GARBAGE:
        (void)!write(fd, "\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9);
        return true;
    case LIE_WRONG_TYPE:
        (void)frame_send(fd, FRAME_STDERR, "boo", 3);
        return true;
    case LIE_SHORT:
        (void)frame_send(fd, FRAME_ITEM, "b", 1);
        return true;
    case LIE_CLOSE:
        return true;
    case LIE_UNAUTHORIZED:
        call_error_put(&b, &forged);
        answer(fd, FRAME_ERROR, &b);
        return true;
    case LIE_ENDLESS:
        wire_put_str(&b, "/workspace/again");
        while (frame_send(fd, FRAME_ITEM, b.data, b.len) == 0)
            ;
        return true;
    case LIE_HALF:
        (void)!write(fd, "", 1);
        while (ioctl(fd, SIOCOUTQ, &unread) == 0 && unread > 0)
            (void)poll(NULL, 0, 1);
        atomic_store(&fake.half_read, true);
        while (atomic_load(&fake.lie) == LIE_HALF)
            (void)poll(NULL, 0, 1);
        return true;
    }
    return false;
}

/* An exec that loses bytes for ever. */
static void serve_again(int fd)
{
    auto_buf struct buf state = {0}, lost = {0};

    buf_init(&state, 512);
    buf_init(&lost, 16);
    call_kept_put(&state, &(struct call_kept){.id = "ex_x", .running = 1, .end = 1});
    answer(fd, FRAME_OK, &state);
    wire_put_u64(&lost, atomic_load(&fake.loses) ? atomic_load(&fake.loses) : 1);
    while (frame_send(fd, FRAME_LOST, lost.data, lost.len) == 0)
        ;
}

/* True when it is to be followed. */
static bool serve_output(int fd, struct wire *w)
{
    auto_buf struct buf b = {0};
    auto_free char *id = wire_get_str(w);
    uint64_t offset = wire_get_u64(w);
    bool follow;

    (void)wire_get_u64(w);
    follow = wire_get_u32(w) != 0;
    buf_init(&b, 64);
    wire_put_u64(&b, 1700000000000);
    (void)buf_add(&b, "caf\xc3", 4); /* ends inside a character */
    if (offset == 0)
        answer(fd, FRAME_STDERR, &b);
    if (!follow)
        answer_log(fd, strcmp(id, "main") != 0 || atomic_load(&fake.main_runs), 5);
    return follow;
}

static void serve_ctl(struct fake_conn *conn, unsigned op, struct wire *w)
{
    auto_free char *path = NULL;
    auto_buf struct buf b = {0};

    buf_init(&b, FRAME_MAX);
    switch (op) {
    case CALL_HELLO:
        wire_put_u32(&b, CALL_VERSION);
        answer(conn->fd, FRAME_OK, &b);
        break;
    case CALL_LOG:
        atomic_fetch_add(&fake.logs, 1);
        path = wire_get_str(w);
        if (strcmp(path, "main") == 0 && !conn->box->main_started) {
            call_error_put(&b, &(struct err){.kind = ERR_NOT_FOUND, .text = "no such log"});
            answer(conn->fd, FRAME_ERROR, &b);
            break;
        }
        if (wire_get_u64(w) == 0 && wire_get_u64(w) > 1)
            (void)frame_send(conn->fd, FRAME_DATA, "caf\xc3", 4); /* ends inside a character */
        answer_log(conn->fd, strcmp(path, "main") != 0 || atomic_load(&fake.main_runs), 5);
        break;
    case CALL_ALTER: /* in this it is always one of before */
        call_error_put(&b, &(struct err){.kind = ERR_INVALID,
                                         .text = "this socket of the agent does not serve call"});
        answer(conn->fd, FRAME_ERROR, &b);
        break;
    case CALL_AGAIN:
    case CALL_EXECS:
    case CALL_FOLLOW:
    case CALL_OUTPUT:
        atomic_fetch_add(&fake.agains, op == CALL_AGAIN);
        if (atomic_load(&fake.old)) {
            call_error_put(&b, &(struct err){.kind = ERR_INVALID, .text = "no such call"});
            answer(conn->fd, FRAME_ERROR, &b);
            break;
        }
        if (op == CALL_AGAIN) {
            serve_again(conn->fd);
            break;
        }
        answer(conn->fd, FRAME_OK, NULL);
        if (op == CALL_OUTPUT && !serve_output(conn->fd, w))
            break;
        pthread_mutex_lock(&fake.main_lock);
        while (atomic_load(&fake.main_runs) && conn->box->alive)
            (void)pthread_cond_wait(&fake.main_ended, &fake.main_lock);
        pthread_mutex_unlock(&fake.main_lock);
        answer_log(conn->fd, false, 5);
        break;
    case CALL_KILL:
        (void)wire_get_u32(w);
        atomic_store(&fake.main_signal, wire_get_u32(w));
        pthread_mutex_lock(&fake.main_lock);
        atomic_store(&fake.main_runs, false);
        (void)pthread_cond_broadcast(&fake.main_ended);
        pthread_mutex_unlock(&fake.main_lock);
        answer(conn->fd, FRAME_OK, NULL);
        break;
    case CALL_READ:
        path = wire_get_str(w);
        serve_read(conn, path);
        break;
    case CALL_WRITE:
        serve_write(conn);
        break;
    case CALL_STAT:
    case CALL_LIST:
    case CALL_SEARCH:
    case CALL_PS:
        serve_items(conn->fd, op);
        break;
    default:
        answer(conn->fd, FRAME_OK, NULL);
        break;
    }
}

/* True when the caller has gone meanwhile. */
static bool keep_silent(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};

    while (atomic_load(&fake.silent) && p.revents == 0)
        (void)poll(&p, 1, 1);
    return p.revents != 0;
}

static void *conn_main(void *arg)
{
    struct fake_conn *conn = arg;
    auto_buf struct buf payload = {0};
    unsigned type;
    struct wire w;

    if (atomic_load(&fake.unread)) {
        struct pollfd p = {.fd = conn->fd, .events = POLLRDHUP};

        (void)poll(&p, 1, -1);
    } else if (frame_recv(conn->fd, &type, &payload) == 1 && type >= FRAME_CALL) {
        wire_init(&w, payload.data, payload.len);
        if (conn->channel == BOX_EXEC)
            serve_exec(conn, &w);
        else if (atomic_fetch_add(&fake.ctl_calls, 1),
                 !keep_silent(conn->fd) && !tell_lie(conn->fd, atomic_load(&fake.lie)))
            serve_ctl(conn, type - FRAME_CALL, &w);
    }
    (void)shutdown(conn->fd, SHUT_RDWR);
    return NULL;
}

/* ---- the runtime ---- */

static struct fake_box *fake_find(const char *id)
{
    for (int i = 0; i < FAKE_BOXES; i++)
        if (strcmp(fake.boxes[i].id, id) == 0)
            return &fake.boxes[i];
    return NULL;
}

static struct fake_box *fake_box_new(const char *id)
{
    struct fake_box *b = fake_find("");

    if (!b)
        abort();
    *b = (struct fake_box){.prepared = true, .watch_fd = -1};
    (void)snprintf(b->id, sizeof(b->id), "%s", id);
    return b;
}

static int fake_reserve(struct runtime *rt, struct box *box, struct err *err)
{
    (void)rt;
    (void)err;
    box->slot = atomic_fetch_add(&fake.prepared, 1) + 1;
    return 0;
}

static int fake_prepare(struct runtime *rt, struct box *box, const struct sandbox_limits *limits,
                        struct err *err)
{
    (void)rt;
    (void)limits;
    if (atomic_load(&fake.fail_prepare))
        return err_set(err, ERR_INTERNAL, "no room for a box");
    if (box->slot == BOX_NO_SLOT)
        return err_set(err, ERR_INTERNAL, "a box without an id range");
    pthread_mutex_lock(&fake.lock);
    (void)fake_box_new(box->id);
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

static void fake_boot(struct fake_box *b)
{
    b->watch_fd = eventfd(0, EFD_CLOEXEC);
    b->alive = true;
}

static int fake_create(struct runtime *rt, struct box *box, const struct box_root *root,
                       const struct sandbox_limits *limits, struct err *err)
{
    (void)rt;
    (void)root;
    (void)limits;
    if (atomic_load(&fake.fail_create))
        return err_set(err, ERR_INTERNAL, "mount the root: no such device");
    pthread_mutex_lock(&fake.lock);
    fake_boot(fake_find(box->id));
    pthread_mutex_unlock(&fake.lock);
    box->pid = 4242;
    box->pid_start = 99;
    return 0;
}

static int fake_kill(struct runtime *rt, const struct box *box, struct err *err)
{
    void (*on_kill)(const char *id) = atomic_load(&fake.on_kill);
    struct fake_box *b;

    (void)rt;
    (void)err;
    if (on_kill)
        on_kill(box->id);
    pthread_mutex_lock(&fake.lock);
    b = fake_find(box->id);
    if (b) {
        pthread_mutex_lock(&fake.main_lock);
        b->alive = false;
        (void)pthread_cond_broadcast(&fake.main_ended);
        pthread_mutex_unlock(&fake.main_lock);
        for (int i = 0; i < FAKE_CONNS; i++)
            if (b->conns[i].used)
                (void)shutdown(b->conns[i].fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&fake.lock);
    atomic_fetch_add(&fake.killed, 1);
    return 0;
}

/* All that a box has here beside its disk are its processes. */
static int fake_stop(struct runtime *rt, const struct box *box, struct err *err)
{
    if (atomic_load(&fake.fail_stop))
        return err_set(err, ERR_UNAVAILABLE, "its processes do not end");
    atomic_fetch_add(&fake.stopped, 1);
    return fake_kill(rt, box, err);
}

static void fake_join(struct fake_conn *conn)
{
    (void)pthread_join(conn->thread, NULL);
    (void)close(conn->fd);
    conn->used = false;
}

static int fake_destroy(struct runtime *rt, const struct box *box, struct err *err)
{
    struct fake_box *b;

    (void)rt;
    atomic_fetch_add(&fake.destroys, 1);
    if (getpriority(PRIO_PROCESS, (id_t)gettid()) < atomic_load(&fake.urgency))
        atomic_store(&fake.urgency, getpriority(PRIO_PROCESS, (id_t)gettid()));
    if (atomic_load(&fake.fail_destroy))
        return err_set(err, ERR_INTERNAL, "the disk is busy");
    while (atomic_load(&fake.hold_destroy))
        (void)poll(NULL, 0, 1);
    pthread_mutex_lock(&fake.lock);
    b = fake_find(box->id);
    if (b) {
        for (int i = 0; i < FAKE_CONNS; i++)
            if (b->conns[i].used)
                fake_join(&b->conns[i]);
        close_fd(&b->watch_fd);
        buf_done(&b->environment);
        *b = (struct fake_box){.watch_fd = -1};
        atomic_fetch_add(&fake.destroyed, 1);
        if (box->slot < ARRAY_LEN(fake.released))
            atomic_fetch_add(&fake.released[box->slot], 1);
    }
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

static int fake_adopt(struct runtime *rt, struct box *box, struct err *err)
{
    struct fake_box *b;
    int alive;

    (void)rt;
    (void)err;
    if (atomic_load(&fake.destroys) > 0)
        atomic_fetch_add(&fake.adopted_late, 1);
    pthread_mutex_lock(&fake.lock);
    b = fake_find(box->id);
    alive = b && b->alive;
    if (alive)
        box->pid = 4242;
    pthread_mutex_unlock(&fake.lock);
    return alive;
}

static int fake_watch_fd(struct runtime *rt, const struct box *box)
{
    struct fake_box *b;
    int fd;

    (void)rt;
    pthread_mutex_lock(&fake.lock);
    b = fake_find(box->id);
    fd = b ? b->watch_fd : -1;
    pthread_mutex_unlock(&fake.lock);
    atomic_fetch_add(&fake.watch_asked, 1);
    return fd;
}

static bool fake_lives(struct runtime *rt, const struct box *box)
{
    struct fake_box *b;
    bool lives;

    (void)rt;
    pthread_mutex_lock(&fake.lock);
    b = fake_find(box->id);
    lives = b && b->alive;
    pthread_mutex_unlock(&fake.lock);
    return lives;
}

/* Free, or of a call that is over. */
static struct fake_conn *fake_free_conn(struct fake_box *b)
{
    for (int i = 0; i < FAKE_CONNS; i++)
        if (!b->conns[i].used)
            return &b->conns[i];
    for (int i = 0; i < FAKE_CONNS; i++) {
        struct pollfd p = {.fd = b->conns[i].fd, .events = POLLRDHUP};

        if (poll(&p, 1, 0) == 1 && p.revents & POLLHUP) {
            fake_join(&b->conns[i]);
            return &b->conns[i];
        }
    }
    abort();
}

static int fake_connect(struct runtime *rt, const struct box *box, enum box_channel channel,
                        int *ret_fd, struct err *err)
{
    struct fake_conn *conn;
    struct fake_box *b;
    int pair[2], r = 0;

    (void)rt;
    pthread_mutex_lock(&fake.lock);
    b = fake_find(box->id);
    if (!b || !b->alive) {
        r = err_set(err, ERR_UNAVAILABLE, "the agent does not listen");
    } else {
        conn = fake_free_conn(b);
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
            abort();
        *conn = (struct fake_conn){.fd = pair[1], .channel = channel, .box = b, .used = true};
        if (pthread_create(&conn->thread, NULL, conn_main, conn) != 0)
            abort();
        *ret_fd = pair[0];
    }
    pthread_mutex_unlock(&fake.lock);
    return r;
}

static enum box_look fake_look_at(struct runtime *rt, const struct box *box)
{
    enum box_look found = atomic_load(&fake.look);

    (void)rt;
    (void)box;
    if (found == BOX_WOKEN)
        atomic_store(&fake.silent, false);
    atomic_fetch_add(&fake.looks, 1);
    while (atomic_load(&fake.hold_look))
        (void)poll(NULL, 0, 1);
    return found;
}

static int fake_pause(struct runtime *rt, const struct box *box, bool paused, struct err *err)
{
    (void)rt;
    if (atomic_load(&fake.fail_pause))
        return err_set(err, ERR_INTERNAL, "the freezer is stuck");
    pthread_mutex_lock(&fake.lock);
    fake_find(box->id)->paused = paused;
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

/* Comes to rest at once, so that who gives up on a pause has to let it go on. */
static void fake_begin_pause(struct runtime *rt, const struct box *box)
{
    (void)fake_pause(rt, box, true, NULL);
    atomic_fetch_add(&fake.pauses_begun, 1);
}

static int fake_limit(struct runtime *rt, const struct box *box,
                      const struct sandbox_limits *limits, struct err *err)
{
    (void)rt, (void)box, (void)limits, (void)err;
    return 0;
}

static int fake_stats(struct runtime *rt, const struct box *box, struct box_stats *ret,
                      struct err *err)
{
    (void)rt;
    (void)box;
    (void)err;
    *ret = (struct box_stats){.cpu_ns = 1000,
                              .memory_bytes = 3 << 20,
                              .pids = 2,
                              .oom_kills = atomic_load(&fake.oom_kills)};
    return 0;
}

static int fake_room(struct runtime *rt, struct host_room *ret, struct err *err)
{
    (void)rt;
    *ret = (struct host_room){.free = atomic_load(&fake.free_mb) << 20, .total = 1ull << 40};
    return ret->free ? 0 : err_set(err, ERR_UNSUPPORTED, "its disks are elsewhere");
}

static uint64_t fake_disk_bytes(struct runtime *rt, const struct box *box)
{
    (void)rt;
    (void)box;
    return atomic_load(&fake.disk_mb) << 20;
}

static int fake_disk_room(struct runtime *rt, const struct box *box, struct disk_room *ret,
                          struct err *err)
{
    (void)rt;
    (void)err;
    if (fake.on_disk_room)
        fake.on_disk_room(box->id);
    pthread_mutex_lock(&fake.lock);
    ret->used = ret->backed = atomic_load(&fake_find(box->id)->used);
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

static int fake_disk_lease(struct runtime *rt, const struct box *box, uint64_t more,
                           struct err *err)
{
    (void)rt;
    (void)err;
    pthread_mutex_lock(&fake.lock);
    atomic_store(&fake_find(box->id)->lease, more);
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

static int fake_disk_open(struct runtime *rt, const struct box *box, bool brief, int *ret_fd,
                          uint32_t *ret_ids_base, struct err *err)
{
    (void)rt;
    (void)brief;
    (void)err;
    *ret_fd = eventfd(0, EFD_CLOEXEC);
    *ret_ids_base = box->slot * 65536;
    return 0;
}

static int fake_disk_replace(struct runtime *rt, const struct box *box, uint32_t mb,
                             struct err *err)
{
    (void)rt;
    (void)box;
    (void)mb;
    fake.replaced++;
    return fake.fail_replace ? err_set(err, ERR_UNAVAILABLE, "no disk") : 0;
}

static void fake_each(struct runtime *rt, void (*found)(const char *id, void *arg), void *arg)
{
    char ids[FAKE_BOXES][ID_SIZE];

    (void)rt;
    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < FAKE_BOXES; i++)
        memcpy(ids[i], fake.boxes[i].id, ID_SIZE);
    pthread_mutex_unlock(&fake.lock);
    for (int i = 0; i < FAKE_BOXES; i++)
        if (ids[i][0])
            found(ids[i], arg);
}

static void fake_trace(struct runtime *rt, const char *id, struct box_trace *ret)
{
    const struct fake_box *b;

    (void)rt;
    pthread_mutex_lock(&fake.lock);
    b = fake_find(id);
    ret->running = b && b->alive;
    ret->has_disk = b && !b->empty;
    ret->disk_bytes = 4096;
    ret->box.slot = 9;
    pthread_mutex_unlock(&fake.lock);
    (void)snprintf(ret->path, sizeof(ret->path), "/fake/%s", id);
}

static void fake_keep_ranges(struct runtime *rt, const uint32_t *slots, size_t n)
{
    (void)rt;
    (void)slots;
    atomic_store(&fake.ranges_kept, n);
}

static const struct runtime_ops fake_ops = {
    .name = "native",
    .boundary = "shared kernel, hardened",
    .reserve = fake_reserve,
    .prepare = fake_prepare,
    .create = fake_create,
    .kill = fake_kill,
    .stop = fake_stop,
    .destroy = fake_destroy,
    .adopt = fake_adopt,
    .watch_fd = fake_watch_fd,
    .lives = fake_lives,
    .connect = fake_connect,
    .look = fake_look_at,
    .pause = fake_pause,
    .begin_pause = fake_begin_pause,
    .limit = fake_limit,
    .stats = fake_stats,
    .room = fake_room,
    .disk_bytes = fake_disk_bytes,
    .disk_room = fake_disk_room,
    .disk_lease = fake_disk_lease,
    .disk_open = fake_disk_open,
    .disk_replace = fake_disk_replace,
    .each = fake_each,
    .trace = fake_trace,
    .keep_ranges = fake_keep_ranges,
};

static struct runtime *fake_runtime(void)
{
    fake.base.ops = &fake_ops;
    pthread_mutex_init(&fake.lock, NULL);
    pthread_mutex_init(&fake.main_lock, NULL);
    pthread_cond_init(&fake.main_ended, NULL);
    return &fake.base;
}

/* For tests: other threads may be looking too. */
static struct fake_box *fake_look(const char *id)
{
    struct fake_box *b;

    pthread_mutex_lock(&fake.lock);
    b = fake_find(id);
    pthread_mutex_unlock(&fake.lock);
    return b;
}

static unsigned fake_count(void)
{
    unsigned n = 0;

    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < FAKE_BOXES; i++)
        n += fake.boxes[i].id[0] != '\0';
    pthread_mutex_unlock(&fake.lock);
    return n;
}

/* The box of id ends by itself. */
static void fake_die(const char *id)
{
    uint64_t one = 1;

    pthread_mutex_lock(&fake.lock);
    fake_find(id)->alive = false;
    (void)!write(fake_find(id)->watch_fd, &one, sizeof(one));
    pthread_mutex_unlock(&fake.lock);
}
