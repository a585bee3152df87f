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

/* A background exec leaves files in the logs folder (proto/log_file.h).
 *
 *  1. <id>.state exists before the caller hears of the exec, and is replaced once, at the end.
 *  2. While the exec runs its supervisor holds a lock on <id>.state.
 *  3. The supervisor of a background exec ends right after it has written the end. */

#define LOG_MAX   (64ull << 20)
#define MARKS_MAX (512u << 10) /* 8 MiB; what comes afterwards counts to the last one */

static int write_state(int fd, const struct call_log *now)
{
    auto_buf struct buf b = {0};
    ssize_t n;

    buf_init(&b, LOG_STATE_MAX);
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
    char tmp[LOG_NAME_SIZE];
    int r;

    log_file_name(tmp, j->id, ".tmp");
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
    char tmp[LOG_NAME_SIZE], name[LOG_NAME_SIZE];

    log_file_name(tmp, j->id, ".tmp");
    log_file_name(name, j->id, ".state");
    return renameat(j->dir, tmp, j->dir, name) < 0 ? -errno : 0;
}

/* Where the log goes on. One with little room left begins anew; what a power cut has left of marks
 * past its end counts for none of the bytes that come now. */
static void find_end(struct journal *j)
{
    unsigned char record[LOG_MARK_SIZE];
    struct stat log, marks;

    if (fstat(j->log, &log) < 0 || fstat(j->marks, &marks) < 0)
        return;
    if ((uint64_t)log.st_size > LOG_MAX / 2 && ftruncate(j->log, 0) == 0)
        log.st_size = 0;
    j->now.size = (uint64_t)log.st_size;
    j->n_marks =
        (uint32_t)(marks.st_size / LOG_MARK_SIZE < MARKS_MAX ? marks.st_size / LOG_MARK_SIZE
                                                             : MARKS_MAX);
    for (; j->n_marks > 0; j->n_marks--) {
        off_t at = (off_t)(j->n_marks - 1) * LOG_MARK_SIZE;

        if (pread(j->marks, record, sizeof(record), at) != (ssize_t)sizeof(record))
            continue;
        log_mark_unpack(record, &j->last);
        if (j->last.offset <= j->now.size)
            break;
    }
    (void)ftruncate(j->marks, (off_t)j->n_marks * LOG_MARK_SIZE);
}

/* Both files, empty or as they were. */
static int open_files(struct journal *j)
{
    int flags = O_CREAT | O_NOFOLLOW | O_CLOEXEC;
    char name[LOG_NAME_SIZE];

    log_file_name(name, j->id, ".log");
    j->log = openat(j->dir, name, O_WRONLY | O_APPEND | flags | (j->again ? 0 : O_EXCL), 0600);
    if (j->log < 0)
        return -errno;
    log_file_name(name, j->id, ".marks");
    j->marks = openat(j->dir, name, O_RDWR | flags | (j->again ? 0 : O_TRUNC), 0600);
    if (j->marks < 0)
        return -errno;
    find_end(j);
    return 0;
}

int journal_open(struct journal *j, const char *id, bool again, struct err *err)
{
    int r;

    *j = (struct journal){.dir = AGENT_FD_LOGS, .log = -1, .marks = -1, .state = -1};
    (void)snprintf(j->id, sizeof(j->id), "%s", id);
    j->now = (struct call_log){.running = 1, .started_ms = (uint64_t)now_ms()};
    j->again = again;
    r = open_files(j);
    if (r == -EEXIST)
        return err_set(err, ERR_CONFLICT, "there is a background exec \"%s\" already", id);
    if (r == 0)
        r = new_state(j);
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

/* One when the stream changes, and one a millisecond; without room for it the bytes count to the
 * mark before. */
static void mark(struct journal *j, bool is_stderr)
{
    struct log_mark m = {j->now.size, is_stderr, (uint64_t)now_ms()};
    unsigned char record[LOG_MARK_SIZE];

    if (j->n_marks > 0 && j->last.is_stderr == is_stderr && j->last.time_ms == m.time_ms)
        return;
    if (j->n_marks == MARKS_MAX)
        return;
    log_mark_pack(&m, record);
    /* At its own place: one that was written in part is written over. */
    if (pwrite(j->marks, record, sizeof(record), (off_t)j->n_marks * LOG_MARK_SIZE) !=
        (ssize_t)sizeof(record))
        return;
    j->last = m;
    j->n_marks++;
}

void journal_write(struct journal *j, bool is_stderr, const void *data, size_t len)
{
    size_t room = (size_t)(LOG_MAX - j->now.size);
    size_t part = len < room ? len : room;
    const char *p = data;

    if (part > 0)
        mark(j, is_stderr);
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
    close_fd(&j->marks);
    close_fd(&j->log);
}

/* What was there before stays. */
void journal_discard(struct journal *j)
{
    static const char *const suffixes[] = {".tmp", ".log", ".marks", ".state"};

    for (size_t i = 0; i < (j->again ? 1 : ARRAY_LEN(suffixes)); i++) {
        char name[LOG_NAME_SIZE];

        log_file_name(name, j->id, suffixes[i]);
        (void)unlinkat(j->dir, name, 0);
    }
    close_fd(&j->log);
    close_fd(&j->marks);
    close_fd(&j->state);
}

int log_look(struct log_reader *l, struct err *err)
{
    int r;

    l->file.plain = l->form == LOG_BYTES;
    r = log_id_ok(l->file.id) ? log_file_look(&l->file) : -ENOENT;

    if (r == -ENOENT)
        return err_code(err, ERR_NOT_FOUND, "log_not_found",
                        "the sandbox has no background exec \"%.40s\"", l->file.id);
    if (r < 0)
        return err_sys(err, -r, "read the log of background exec %s", l->file.id);
    return 0;
}

/* One frame, in the form that the call has. */
static void send_piece(struct agent_call *c, const struct log_reader *l, const char *data,
                       size_t len, const struct log_mark *mark)
{
    unsigned type = mark->is_stderr ? FRAME_STDERR : FRAME_STDOUT;
    auto_buf struct buf b = {0};

    if (l->form != LOG_TIMED) {
        call_reply(c, l->form == LOG_BYTES ? FRAME_DATA : type, data, len);
        return;
    }
    buf_init(&b, FRAME_MAX);
    wire_put_u64(&b, mark->time_ms);
    (void)buf_add(&b, data, len);
    call_reply_buf(c, type, &b);
}

void log_send(struct agent_call *c, struct log_reader *l, uint64_t most)
{
    static char chunk[64 << 10];
    struct log_mark mark;
    ssize_t n;

    while (most > 0 &&
           (n = log_file_next(&l->file, chunk, most < sizeof(chunk) ? (size_t)most : sizeof(chunk),
                              &mark)) > 0) {
        send_piece(c, l, chunk, (size_t)n, &mark);
        most -= (uint64_t)n;
    }
}

void log_end(struct agent_call *c, const struct log_reader *l)
{
    auto_buf struct buf b = {0};

    buf_init(&b, LOG_STATE_MAX);
    call_log_put(&b, &l->file.now);
    call_reply_buf(c, FRAME_END, &b);
}

int log_call(struct agent_call *c, struct err *err)
{
    auto_free char *id = wire_get_str(&c->args);
    uint64_t offset = wire_get_u64(&c->args), most = wire_get_u64(&c->args);
    struct log_reader l = {.file = LOG_FILE(AGENT_FD_LOGS, id), .form = LOG_BYTES};

    if (call_args_ok(c, err) < 0 || log_look(&l, err) < 0)
        return -1;
    l.file.offset = offset;
    log_send(c, &l, most);
    log_end(c, &l);
    log_file_close(&l.file);
    return 0;
}
