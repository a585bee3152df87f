#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "proto/frame.h"
#include "proto/plan.h"

/* A background exec leaves two files in the logs folder: <id>.log, its output, and <id>.state, a
 * packed struct call_log and the pid of its supervisor.
 *
 *  1. <id>.state exists before the caller hears of the exec, and is replaced once, at the end.
 *  2. While the exec runs its supervisor holds a lock on <id>.state. A state that says "running"
 * and can be locked is therefore a lie: the supervisor died.
 *  3. The supervisor of a background exec ends right after it has written the end. */

#define LOG_MAX   (64ull << 20)
#define STATE_MAX 256

static void file_name(char ret[64], const char *id, const char *suffix)
{
    (void)snprintf(ret, 64, "%s%s", id, suffix);
}

static int write_state(int fd, const struct call_log *now)
{
    auto_buf struct buf b = {0};
    ssize_t n;

    buf_init(&b, STATE_MAX);
    call_log_put(&b, now);
    wire_put_u32(&b, (uint32_t)getpid());
    n = pwrite(fd, b.data, b.len, 0);
    if (n < 0)
        return -errno;
    return (size_t)n == b.len ? 0 : -ENOSPC;
}

/* A new state under its temporary name, locked. */
static int new_state(const struct journal *j)
{
    auto_close int fd = -1;
    char tmp[64];
    int r;

    file_name(tmp, j->id, ".tmp");
    fd = openat(j->dir, tmp, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    r = write_state(fd, &j->now);
    return r < 0 ? r : steal_fd(fd);
}

static int publish(const struct journal *j)
{
    char tmp[64], name[64];

    file_name(tmp, j->id, ".tmp");
    file_name(name, j->id, ".state");
    return renameat(j->dir, tmp, j->dir, name) < 0 ? -errno : 0;
}

int journal_open(struct journal *j, const char *id, struct err *err)
{
    char name[64];
    int r;

    *j = (struct journal){.dir = AGENT_FD_LOGS, .log = -1, .state = -1};
    (void)snprintf(j->id, sizeof(j->id), "%s", id);
    j->now = (struct call_log){.running = 1, .started_ms = (uint64_t)now_ms()};
    file_name(name, id, ".log");
    j->log = openat(j->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (j->log < 0 && errno == EEXIST)
        return err_set(err, ERR_CONFLICT, "there is a background exec \"%s\" already", id);
    r = j->log < 0 ? -errno : new_state(j);
    if (r >= 0) {
        j->state = r;
        r = publish(j);
    }
    if (r < 0) {
        journal_discard(j);
        if (r == -ENOSPC || r == -EDQUOT)
            return err_code(err, ERR_LIMIT, "no_space",
                            "the sandbox's disk is full, there is no room for a log; remove files, "
                            "or make a sandbox with a larger disk");
        return err_sys(err, -r, "make the log of background exec %s", id);
    }
    return 0;
}

int journal_started(struct journal *j, pid_t pid, struct err *err)
{
    int r;

    j->now.pid = (uint32_t)pid;
    r = write_state(j->state, &j->now);
    return r < 0 ? err_sys(err, -r, "write the state of background exec %s", j->id) : 0;
}

void journal_write(struct journal *j, const void *data, size_t len)
{
    size_t room = (size_t)(LOG_MAX - j->now.size);
    size_t part = len < room ? len : room;
    const char *p = data;

    while (part > 0) {
        ssize_t n = write(j->log, p, part);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break; /* the disk is full: the rest is counted as lost */
        j->now.size += (uint64_t)n;
        p += n;
        part -= (size_t)n;
        len -= (size_t)n;
    }
    j->now.exit.lost_stdout += len;
}

void journal_finish(struct journal *j, const struct call_exit *how)
{
    uint64_t lost = j->now.exit.lost_stdout;
    int fd;

    j->now.running = 0;
    j->now.finished_ms = (uint64_t)now_ms();
    j->now.exit = *how;
    j->now.exit.lost_stdout = lost;
    fd = new_state(j);
    if (fd >= 0)
        (void)publish(j);
    else
        /* A full disk has no room for a new file; the old one has the same size. */
        (void)write_state(j->state, &j->now);
    close_fd(&fd);
    close_fd(&j->state);
    close_fd(&j->log);
}

void journal_discard(struct journal *j)
{
    static const char *const suffixes[] = {".log", ".tmp", ".state"};

    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        char name[64];

        file_name(name, j->id, suffixes[i]);
        (void)unlinkat(j->dir, name, 0);
    }
    close_fd(&j->log);
    close_fd(&j->state);
}

static int open_regular(const char *id, const char *suffix)
{
    auto_close int fd = -1;
    struct stat st;
    char name[64];

    file_name(name, id, suffix);
    fd = openat(AGENT_FD_LOGS, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -ENOENT;
    return steal_fd(fd);
}

/* *ret_locked: its supervisor holds it. */
static int read_state(struct log_reader *l, bool *ret_locked)
{
    auto_close int fd = open_regular(l->id, ".state");
    char data[STATE_MAX];
    struct wire w;
    ssize_t n;

    if (fd < 0)
        return fd;
    n = pread(fd, data, sizeof(data), 0);
    if (n < 0)
        return -errno;
    wire_init(&w, data, (size_t)n);
    call_log_get(&w, &l->now);
    l->supervisor = (pid_t)wire_get_u32(&w);
    *ret_locked = flock(fd, LOCK_SH | LOCK_NB) < 0;
    return wire_ok(&w) ? 0 : -EIO;
}

static int current_state(struct log_reader *l)
{
    bool locked;
    int r = read_state(l, &locked);

    /* It may have ended between our open and our lock; then there is another file now. */
    if (r == 0 && l->now.running && !locked)
        r = read_state(l, &locked);
    if (r == 0 && l->now.running && !locked) {
        l->now.running = 0;
        l->now.exit = (struct call_exit){.how = EXIT_LOST};
    }
    return r;
}

int log_look(struct log_reader *l, struct err *err)
{
    int r = log_id_ok(l->id) ? current_state(l) : -ENOENT;
    struct stat st;

    /* In this order: a state that says "ended" is only read together with the whole log. */
    if (r == 0 && l->fd < 0)
        l->fd = r = open_regular(l->id, ".log");
    if (r == -ENOENT)
        return err_code(err, ERR_NOT_FOUND, "log_not_found",
                        "the sandbox has no background exec \"%.40s\"", l->id);
    if (r < 0)
        return err_sys(err, -r, "read the log of background exec %s", l->id);
    l->now.size = fstat(l->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    return 0;
}

void log_send(struct agent_call *c, struct log_reader *l, uint64_t most)
{
    static char chunk[64 << 10];

    while (most > 0 && l->offset < l->now.size) {
        uint64_t left = l->now.size - l->offset;
        size_t want = left < most ? (size_t)left : (size_t)most;
        ssize_t n =
            pread(l->fd, chunk, want < sizeof(chunk) ? want : sizeof(chunk), (off_t)l->offset);

        if (n <= 0)
            return;
        call_reply(c, l->type, chunk, (size_t)n);
        l->offset += (uint64_t)n;
        most -= (uint64_t)n;
    }
}

void log_end(struct agent_call *c, const struct log_reader *l)
{
    auto_buf struct buf b = {0};

    buf_init(&b, STATE_MAX);
    call_log_put(&b, &l->now);
    call_reply_buf(c, FRAME_END, &b);
}

int log_call(struct agent_call *c, struct err *err)
{
    auto_free char *id = wire_get_str(&c->args);
    uint64_t offset = wire_get_u64(&c->args), most = wire_get_u64(&c->args);
    struct log_reader l = {.id = id, .fd = -1, .offset = offset, .type = FRAME_DATA};

    if (call_args_ok(c, err) < 0 || log_look(&l, err) < 0)
        return -1;
    log_send(c, &l, most);
    log_end(c, &l);
    close_fd(&l.fd);
    return 0;
}
