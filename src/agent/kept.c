#include "agent/kept.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "base/fd.h"
#include "base/mem.h"
#include "proto/plan.h"
#include "proto/wire.h"

#define DROP_STEP   (2ull << 20) /* the window moves by so much at a time */
#define SMALL_FILE  (1ull << 20)
#define REST_BYTES  (16u << 10)
#define TAIL        (32u << 10) /* what a full disk leaves at least, if it can */
#define STATE_BYTES (1024 + KEPT_TURNS * 8)

/* Of execs that have ended and are in files. */
#define FILES_MAX   32
#define FILES_BYTES (48ull << 20)

/* ---- turns ---- */

static size_t turns_count(const struct kept *k)
{
    return k->turns.len / sizeof(uint64_t);
}

static uint64_t turn_at(const struct kept *k, size_t i)
{
    uint64_t turn;

    memcpy(&turn, k->turns.data + i * sizeof(turn), sizeof(turn));
    return turn;
}

/* Those that nothing is left of. */
static void drop_turns(struct kept *k)
{
    size_t n = turns_count(k), i = 0;

    while (i + 1 < n && turn_at(k, i + 1) >> 1 <= k->start)
        i++;
    buf_shift(&k->turns, i * sizeof(uint64_t));
}

/* ---- forgetting ---- */

/* With the last so many bytes, if they can be had. */
static void start_file_again(struct kept *k, size_t keep)
{
    static char tail[TAIL];
    uint64_t from = k->end - keep;

    if (pread(k->file, tail, keep, (off_t)(from - k->base)) != (ssize_t)keep)
        keep = 0;
    if (ftruncate(k->file, 0) < 0 || pwrite(k->file, tail, keep, 0) != (ssize_t)keep)
        keep = 0;
    k->base = k->start = k->end - keep;
}

static void forget(struct kept *k, uint64_t to)
{
    if (k->file < 0) {
        buf_shift(&k->memory, (size_t)(to - k->start));
        k->start = to;
    } else if (fallocate(k->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                         (off_t)(k->start - k->base), (off_t)(to - k->start)) < 0) {
        start_file_again(k, 0);
    } else {
        k->start = to;
    }
    drop_turns(k);
}

static void note_stream(struct kept *k, bool is_error)
{
    uint64_t turn = k->end << 1 | (is_error ? 1 : 0);
    size_t n = turns_count(k);

    if (n > 0 && (turn_at(k, n - 1) & 1) == (turn & 1))
        return;
    if (n >= KEPT_TURNS)
        forget(k, turn_at(k, n / 2) >> 1);
    (void)buf_add(&k->turns, &turn, sizeof(turn));
}

/* ---- adding ---- */

static void name_of(char ret[64], const char *id, const char *suffix)
{
    (void)snprintf(ret, 64, "%.40s%s", id, suffix);
}

/* An earlier one of that name, if somebody gave the same id again, loses its name only. */
static int new_file(const char *id, const char *suffix)
{
    char name[64];

    name_of(name, id, suffix);
    (void)unlinkat(AGENT_FD_LOGS, name, 0);
    return openat(AGENT_FD_LOGS, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static void remove_file(const char *id, const char *suffix)
{
    char name[64];

    name_of(name, id, suffix);
    (void)unlinkat(AGENT_FD_LOGS, name, 0);
}

/* The last that fits into memory. */
static void remember(struct kept *k, const char *data, size_t len)
{
    if (k->memory.len + len > KEPT_MEMORY)
        forget(k, k->start + (k->memory.len + len - KEPT_MEMORY));
    (void)buf_add(&k->memory, data, len);
    k->end += len;
}

/* False when there is nothing left to give up for it. */
static bool make_space(struct kept *k)
{
    if (k->end - k->start > SMALL_FILE)
        forget(k, k->start + (k->end - k->start) / 2);
    else if (k->end - k->start > TAIL)
        start_file_again(k, TAIL);
    else if (k->end > k->base)
        start_file_again(k, 0);
    else
        return false;
    return true;
}

static void add_to_file(struct kept *k, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = pwrite(k->file, data, len, (off_t)(k->end - k->base));

        if (n > 0) {
            k->end += (uint64_t)n;
            data += n;
            len -= (size_t)n;
        } else if (n == 0 || (errno != EINTR && !make_space(k))) {
            close_fd(&k->file);
            remove_file(k->id, ".out");
            k->start = k->end;
            drop_turns(k);
            remember(k, data, len);
            return;
        }
    }
    drop_turns(k);
    if (k->end - k->start > KEPT_WINDOW)
        forget(k, k->end - KEPT_WINDOW + DROP_STEP);
}

/* From memory to a file, if there can be one. */
static void spill(struct kept *k)
{
    k->file = new_file(k->id, ".out");
    if (k->file < 0)
        return;
    if (write_all(k->file, k->memory.data, k->memory.len) < 0) {
        close_fd(&k->file);
        remove_file(k->id, ".out");
        return;
    }
    k->base = k->start;
    buf_done(&k->memory);
}

void kept_begin(struct kept *k, const char *id)
{
    (void)snprintf(k->id, sizeof(k->id), "%s", id);
    k->file = -1;
    k->base = k->start = k->end = 0;
    k->memory.max = KEPT_MEMORY;
    k->turns.max = (KEPT_TURNS + 1) * sizeof(uint64_t);
    buf_clear(&k->memory);
    buf_clear(&k->turns);
}

void kept_add(struct kept *k, bool is_error, const void *data, size_t len)
{
    note_stream(k, is_error);
    if (k->file < 0 && k->memory.len + len > KEPT_MEMORY)
        spill(k);
    if (k->file >= 0)
        add_to_file(k, data, len);
    else
        remember(k, data, len);
}

void kept_rest(struct kept *k)
{
    close_fd(&k->file);
    if (k->memory.cap > REST_BYTES)
        buf_done(&k->memory);
    if (k->turns.cap > REST_BYTES)
        buf_done(&k->turns);
}

/* ---- reading ---- */

ssize_t kept_read(const struct kept *k, uint64_t pos, void *data, size_t want, bool *ret_error)
{
    uint64_t end = k->end;
    size_t i = 0, high = turns_count(k);
    ssize_t n;

    if (pos >= k->end)
        return 0;
    while (i + 1 < high) { /* the last turn at or before pos */
        size_t mid = i + (high - i) / 2;

        if (turn_at(k, mid) >> 1 <= pos)
            i = mid;
        else
            high = mid;
    }
    *ret_error = turns_count(k) > 0 && (turn_at(k, i) & 1);
    if (i + 1 < turns_count(k))
        end = turn_at(k, i + 1) >> 1;
    if (want > end - pos)
        want = (size_t)(end - pos);
    if (k->file < 0) {
        memcpy(data, k->memory.data + (pos - k->start), want);
        return (ssize_t)want;
    }
    do
        n = pread(k->file, data, want, (off_t)(pos - k->base));
    while (n < 0 && errno == EINTR);
    return n > 0 ? n : -1;
}

/* ---- after the end ---- */

struct old_file {
    char id[CALL_ID_SIZE];
    struct timespec when;
    uint64_t bytes;
};

static int newest_first(const void *a, const void *b)
{
    const struct timespec *x = &((const struct old_file *)a)->when,
                          *y = &((const struct old_file *)b)->when;

    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? 1 : -1;
    return x->tv_nsec < y->tv_nsec ? 1 : x->tv_nsec > y->tv_nsec ? -1 : 0;
}

static DIR *open_logs(void)
{
    int fd = openat(AGENT_FD_LOGS, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir)
        close_fd(&fd);
    return dir;
}

/* The id of a file <id><suffix>; false for others. */
static bool id_of(const char *name, const char *suffix, char ret[CALL_ID_SIZE])
{
    size_t len = strlen(name), tail = strlen(suffix);

    if (len <= tail || len - tail >= CALL_ID_SIZE || strcmp(name + len - tail, suffix) != 0)
        return false;
    memcpy(ret, name, len - tail);
    ret[len - tail] = '\0';
    return log_id_ok(ret);
}

/* Files of execs that do not run. */
static size_t list_files(const char *suffix, struct old_file *files, size_t max)
{
    DIR *dir = open_logs();
    struct call_kept state;
    struct dirent *e;
    size_t n = 0;

    while (dir && n < max && (e = readdir(dir))) {
        struct old_file *f = &files[n];
        struct stat st;

        if (!id_of(e->d_name, suffix, f->id) || board_find(f->id, &state) ||
            fstatat(AGENT_FD_LOGS, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        f->when = st.st_mtim;
        f->bytes = (uint64_t)st.st_blocks * 512;
        n++;
    }
    if (dir)
        (void)closedir(dir);
    return n;
}

static int open_kept(const char *id, const char *suffix)
{
    char name[64];

    name_of(name, id, suffix);
    return openat(AGENT_FD_LOGS, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

/* turns NULL = they are not wanted. */
static bool read_end(const char *id, struct call_kept *state, uint64_t *base, struct buf *turns)
{
    static char data[STATE_BYTES];
    auto_close int fd = open_kept(id, ".end");
    ssize_t n = fd < 0 ? -1 : pread(fd, data, sizeof(data), 0);
    const void *bytes;
    struct wire w;
    size_t len;

    if (n <= 0)
        return false;
    wire_init(&w, data, (size_t)n);
    call_kept_get(&w, state);
    *base = wire_get_u64(&w);
    bytes = wire_get_bytes(&w, &len);
    if (!wire_ok(&w) || strcmp(state->id, id) != 0)
        return false;
    return !turns || buf_add(turns, bytes, len) == 0;
}

/* How it ended is known for longer than what it put out: who asks whether it has run is not told
 * that it has not. */
static void put_end_up(const char *id)
{
    struct call_kept state;
    struct kept none = {0};
    uint64_t base;

    if (!read_end(id, &state, &base, NULL))
        return;
    kept_begin(&none, id);
    state.start = state.end;
    board_put(&none, &state);
}

void kept_prune(const char *suffix, size_t count, uint64_t bytes)
{
    static struct old_file files[4 * FILES_MAX];
    size_t n = list_files(suffix, files, ARRAY_LEN(files));
    uint64_t sum = 0;

    qsort(files, n, sizeof(files[0]), newest_first);
    for (size_t i = 0; i < n; i++) {
        sum += files[i].bytes;
        if (i < count && sum <= bytes)
            continue;
        if (strcmp(suffix, ".out") == 0) {
            put_end_up(files[i].id);
            remove_file(files[i].id, ".end");
        }
        remove_file(files[i].id, suffix);
    }
}

static void put_state(struct buf *b, const struct kept *k, const struct call_kept *state)
{
    buf_init(b, STATE_BYTES);
    call_kept_put(b, state);
    wire_put_u64(b, k->base);
    wire_put_bytes(b, k->turns.data, k->turns.len);
}

bool kept_store(struct kept *k, const struct call_kept *state)
{
    auto_buf struct buf b = {0};
    auto_close int fd = new_file(k->id, ".end");
    bool stored;

    put_state(&b, k, state);
    stored = fd >= 0 && write_all(fd, b.data, b.len) == 0;
    if (!stored) {
        remove_file(k->id, ".end");
        remove_file(k->id, ".out");
    }
    kept_prune(".out", FILES_MAX, FILES_BYTES);
    return stored;
}

bool kept_load(const char *id, struct kept *k, struct call_kept *state)
{
    if (!log_id_ok(id))
        return false;
    kept_begin(k, id);
    if (!read_end(id, state, &k->base, &k->turns))
        return false;
    k->file = open_kept(id, ".out");
    k->start = state->start;
    k->end = state->end;
    return k->file >= 0;
}

void kept_each(void (*each)(const struct call_kept *state, void *arg), void *arg)
{
    DIR *dir = open_logs();
    struct call_kept state;
    char id[CALL_ID_SIZE];
    struct dirent *e;
    uint64_t base;

    while (dir && (e = readdir(dir)))
        if (id_of(e->d_name, ".end", id) && read_end(id, &state, &base, NULL))
            each(&state, arg);
    if (dir)
        (void)closedir(dir);
}
