#include "proto/log_file.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/regular.h"
#include "proto/wire.h"

#define STDERR_BIT (1ull << 63)

void log_mark_pack(const struct log_mark *m, unsigned char ret[LOG_MARK_SIZE])
{
    uint64_t parts[2] = {htole64(m->offset | (m->is_stderr ? STDERR_BIT : 0)), htole64(m->time_ms)};

    memcpy(ret, parts, sizeof(parts));
}

void log_mark_unpack(const unsigned char record[LOG_MARK_SIZE], struct log_mark *ret)
{
    uint64_t parts[2];

    memcpy(parts, record, sizeof(parts));
    ret->offset = le64toh(parts[0]) & ~STDERR_BIT;
    ret->is_stderr = (le64toh(parts[0]) & STDERR_BIT) != 0;
    ret->time_ms = le64toh(parts[1]);
}

void log_file_name(char ret[LOG_NAME_SIZE], const char *id, const char *suffix)
{
    (void)snprintf(ret, LOG_NAME_SIZE, "%s%s", id, suffix);
}

static int open_part(const struct log_file *l, const char *suffix)
{
    char name[LOG_NAME_SIZE];
    int fd;

    log_file_name(name, l->id, suffix);
    fd = regular_open(l->dir, name, O_RDONLY, 0, NULL);
    return fd == -EISDIR || fd == -ENXIO ? -ENOENT : fd;
}

/* *ret_locked: its supervisor holds it. */
static int read_state(struct log_file *l, bool *ret_locked)
{
    auto_close int fd = open_part(l, ".state");
    char data[LOG_STATE_MAX];
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

static int current_state(struct log_file *l)
{
    bool locked = false;
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

int log_file_look(struct log_file *l)
{
    int r = current_state(l);
    struct stat st;

    /* In this order: a state that says "ended" is only read together with the whole log. */
    if (r == 0 && l->fd < 0) {
        l->fd = r = open_part(l, ".log");
        l->marks = r < 0 || l->plain ? -1 : open_part(l, ".marks");
    }
    if (r < 0)
        return r;
    l->now.size = fstat(l->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    return 0;
}

/* ---- marks ---- */

static bool read_mark(const struct log_file *l, uint64_t i, struct log_mark *ret)
{
    unsigned char record[LOG_MARK_SIZE];

    if (pread(l->marks, record, sizeof(record), (off_t)(i * LOG_MARK_SIZE)) != sizeof(record))
        return false;
    log_mark_unpack(record, ret);
    return true;
}

/* The place of the last mark at or before the next byte, or of the first one. */
static uint64_t place_of_mark(const struct log_file *l)
{
    uint64_t low = 0, high = 0;
    struct log_mark m;
    struct stat st;

    if (fstat(l->marks, &st) == 0)
        high = (uint64_t)st.st_size / LOG_MARK_SIZE;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;

        if (read_mark(l, mid, &m) && m.offset <= l->offset)
            low = mid + 1;
        else
            high = mid;
    }
    return low > 0 ? low - 1 : 0;
}

/* Whether the next byte is of the mark at that place, and where the one after it begins. */
static bool is_of(const struct log_file *l, uint64_t place, struct log_mark *ret, uint64_t *ret_end)
{
    struct log_mark next;

    if (!read_mark(l, place, ret) || ret->offset > l->offset)
        return false;
    *ret_end = read_mark(l, place + 1, &next) ? next.offset : UINT64_MAX;
    return *ret_end > l->offset;
}

/* The mark of the next byte, and where the one after it begins. Who reads on finds it where the
 * last one was, or behind that. */
static uint64_t find_mark(struct log_file *l, struct log_mark *ret)
{
    struct log_mark first;
    uint64_t end;

    if (l->marks >= 0) {
        if (is_of(l, l->mark, ret, &end) || is_of(l, ++l->mark, ret, &end))
            return end;
        l->mark = place_of_mark(l);
        if (is_of(l, l->mark, ret, &end))
            return end;
    }
    *ret = (struct log_mark){0}; /* it is before the first one, or they make no sense */
    return l->marks >= 0 && read_mark(l, 0, &first) && first.offset > l->offset ? first.offset
                                                                                : UINT64_MAX;
}

ssize_t log_file_next(struct log_file *l, void *data, size_t size, struct log_mark *ret)
{
    uint64_t left = l->offset < l->now.size ? l->now.size - l->offset : 0, until;
    ssize_t n;

    if (left == 0)
        return 0;
    until = find_mark(l, ret) - l->offset;
    if (left > until)
        left = until;
    do
        n = pread(l->fd, data, left < size ? (size_t)left : size, (off_t)l->offset);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    l->offset += (uint64_t)n;
    return n;
}

void log_file_close(struct log_file *l)
{
    close_fd(&l->fd);
    close_fd(&l->marks);
}
