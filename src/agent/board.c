#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/kept.h"
#include "base/fd.h"
#include "base/mem.h"
#include "proto/plan.h"
#include "proto/wire.h"

_Static_assert(BOARD_SEATS == EXECS_MAX, "a seat for every supervisor");

/* Nobody waits for anybody here, since any of these processes can be killed at any time: writers
 * take a number, readers copy and look afterwards whether it was overwritten meanwhile. */

/* ---- who runs ---- */

static struct running *my_seat(void)
{
    static int seat = -1;
    pid_t self = getpid();

    if (seat < 0 || agents->execs[seat].pid != self)
        for (seat = BOARD_SEATS - 1; seat >= 0 && agents->execs[seat].pid != self; seat--)
            ;
    return seat < 0 ? NULL : &agents->board.running[seat];
}

struct running *board_enter(const struct call_kept *state)
{
    struct running *r = my_seat();

    if (!r)
        return NULL;
    r->seq |= 1; /* a predecessor may have died while it wrote */
    r->supervisor = getpid();
    r->state = *state;
    r->wanted = 0;
    r->stop = 0;
    r->door = DOOR_SHUT;
    r->seq++;
    return r;
}

/* At once, since who looks while it is written to finds nobody. */
void board_begin(struct running *r, pid_t pid)
{
    __atomic_store_n(&r->state.pid, (uint32_t)pid, __ATOMIC_SEQ_CST);
}

void board_leave(struct running *r)
{
    r->supervisor = 0;
}

bool board_lives(const struct running *r)
{
    return agents->execs[r - agents->board.running].pid == r->supervisor;
}

/* A copy, if somebody is in that seat. */
static bool look_at(struct running *r, struct call_kept *ret, pid_t *ret_supervisor)
{
    uint32_t seq = r->seq;

    *ret_supervisor = r->supervisor;
    if ((seq & 1) || *ret_supervisor == 0)
        return false;
    *ret = r->state;
    atomic_thread_fence(memory_order_acquire);
    return r->seq == seq;
}

struct running *board_find(const char *id, struct call_kept *ret_state)
{
    struct call_kept dead = {0};

    for (size_t i = 0; i < BOARD_SEATS; i++) {
        struct running *r = &agents->board.running[i];
        pid_t supervisor;

        if (!look_at(r, ret_state, &supervisor) || !ret_state->pid ||
            strcmp(ret_state->id, id) != 0)
            continue;
        if (agents->execs[i].pid == supervisor)
            return r;
        dead = *ret_state;
    }
    *ret_state = dead;
    ret_state->running = 0;
    ret_state->exit = (struct call_exit){.how = EXIT_LOST};
    return NULL;
}

/* Every exec asks: seats that nobody sits in stay untouched, and so cost no memory. */
bool board_runs(const char *id)
{
    struct call_kept state;
    pid_t supervisor, self = getpid();

    for (size_t i = 0; i < BOARD_SEATS; i++) {
        const struct slot *slot = &agents->execs[i];
        pid_t pid = slot->pid;

        if (pid != 0 && pid != self && slot->mark == SLOT_PLAIN &&
            look_at(&agents->board.running[i], &state, &supervisor) && supervisor == pid &&
            strcmp(state.id, id) == 0)
            return true;
    }
    return false;
}

/* ---- how the last ones ended ---- */

static void copy_in(uint64_t at, const char *data, size_t len)
{
    size_t from = (size_t)(at % RECENT_BYTES);
    size_t part = len < RECENT_BYTES - from ? len : RECENT_BYTES - from;

    if (len == 0)
        return;
    memcpy(agents->board.bytes + from, data, part);
    memcpy(agents->board.bytes, data + part, len - part);
}

static bool copy_out(uint64_t at, size_t len, struct buf *ret)
{
    size_t from = (size_t)(at % RECENT_BYTES);
    size_t part = len < RECENT_BYTES - from ? len : RECENT_BYTES - from;

    return buf_add(ret, agents->board.bytes + from, part) == 0 &&
           buf_add(ret, agents->board.bytes, len - part) == 0;
}

/* The oldest, which nobody else is writing to. */
static struct recent *take_recent(void)
{
    for (unsigned i = 0; i < RECENT_MAX; i++) {
        struct recent *r =
            &agents->board.recent[atomic_fetch_add(&agents->board.next, 1) % RECENT_MAX];
        uint64_t seq = r->seq;

        if (!(seq & 1) && atomic_compare_exchange_strong(&r->seq, &seq, seq + 1))
            return r;
    }
    return NULL;
}

void board_put(const struct kept *k, const struct call_kept *state)
{
    struct recent *r = take_recent();

    if (!r)
        return;
    r->state = *state;
    r->turns = (uint32_t)k->turns.len;
    r->memory = (uint32_t)k->memory.len;
    r->at = atomic_fetch_add(&agents->board.written, r->turns + r->memory);
    copy_in(r->at, k->turns.data, r->turns);
    copy_in(r->at + r->turns, k->memory.data, r->memory);
    r->seq++;
}

/* Its output; false when others have been written over it. */
static bool read_output(const struct recent *r, struct kept *k)
{
    uint64_t at = r->at;
    uint32_t turns = r->turns, memory = r->memory;

    if (memory > KEPT_MEMORY || turns % sizeof(uint64_t) || !copy_out(at, turns, &k->turns) ||
        !copy_out(at + turns, memory, &k->memory))
        return false;
    atomic_thread_fence(memory_order_acquire);
    return agents->board.written - at <= RECENT_BYTES && k->end - k->start == k->memory.len;
}

/* How it ended is known for longer than what it put out. k NULL = that is not wanted. */
static bool read_recent(struct recent *r, const char *id, struct kept *k, struct call_kept *state)
{
    uint64_t seq = r->seq;

    if (seq == 0 || (seq & 1))
        return false;
    *state = r->state;
    state->id[sizeof(state->id) - 1] = '\0';
    if (id && strcmp(state->id, id) != 0)
        return false;
    if (k) {
        kept_begin(k, state->id);
        k->start = state->start;
        k->end = state->end;
        if (!read_output(r, k)) {
            buf_clear(&k->memory);
            buf_clear(&k->turns);
            k->start = k->end;
        }
    }
    atomic_thread_fence(memory_order_acquire);
    return r->seq == seq;
}

bool board_get(const char *id, struct kept *k, struct call_kept *state)
{
    uint64_t next = agents->board.next;

    for (uint64_t i = 1; i <= RECENT_MAX; i++) /* of two with one id the newer */
        if (read_recent(&agents->board.recent[(next + RECENT_MAX - i) % RECENT_MAX], id, k, state))
            return true;
    return false;
}

void board_each(void (*each)(const struct call_kept *state, void *arg), void *arg)
{
    struct call_kept state;
    pid_t supervisor;

    for (size_t i = 0; i < BOARD_SEATS; i++)
        if (look_at(&agents->board.running[i], &state, &supervisor) && state.pid &&
            agents->execs[i].pid == supervisor)
            each(&state, arg);
    for (size_t i = 0; i < RECENT_MAX; i++)
        if (read_recent(&agents->board.recent[i], NULL, NULL, &state))
            each(&state, arg);
}

/* ---- from one box of a sandbox to the next ----
 *
 * A file: u32 SAVED_VERSION, then for each end, the oldest first: its state, its turns and its
 * output. */

#define SAVED         "board.kept"
#define SAVED_NEW     "board.new"
#define SAVED_VERSION 1
#define STATE_BYTES   1024
#define SAVED_MAX     (RECENT_BYTES + RECENT_MAX * STATE_BYTES)

static int save_end(int fd, const struct kept *k, struct call_kept *state)
{
    auto_buf struct buf b = {0};

    state->start = k->start;
    state->end = k->end;
    buf_init(&b, STATE_BYTES + k->turns.len + k->memory.len);
    call_kept_put(&b, state);
    wire_put_bytes(&b, k->turns.data, k->turns.len);
    wire_put_bytes(&b, k->memory.data, k->memory.len);
    return write_all(fd, b.data, b.len);
}

static int save_ends(int fd)
{
    uint64_t next = agents->board.next;
    static struct kept k;
    struct call_kept state;
    auto_buf struct buf b = {0};
    int r;

    buf_init(&b, 16);
    wire_put_u32(&b, SAVED_VERSION);
    r = write_all(fd, b.data, b.len);
    for (uint64_t i = RECENT_MAX; r == 0 && i > 0; i--)
        if (read_recent(&agents->board.recent[(next + RECENT_MAX - i) % RECENT_MAX], NULL, &k,
                        &state))
            r = save_end(fd, &k, &state);
    return r;
}

int board_save(void)
{
    auto_close int fd = -1;
    int r;

    if (agents->board.next == 0)
        return 0; /* nothing has ended, in this box and before */
    fd = openat(AGENT_FD_LOGS, SAVED_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                0600);
    if (fd < 0)
        return -errno;
    r = save_ends(fd);
    if (r == 0 && renameat(AGENT_FD_LOGS, SAVED_NEW, AGENT_FD_LOGS, SAVED) < 0)
        r = -errno;
    if (r < 0)
        (void)unlinkat(AGENT_FD_LOGS, SAVED_NEW, 0);
    return r;
}

/* False when it is none that board_put() may have. */
static bool load_end(struct wire *w)
{
    struct kept k = {.file = -1};
    struct call_kept state;
    const void *turns, *memory;
    size_t n_turns, n_memory;

    call_kept_get(w, &state);
    turns = wire_get_bytes(w, &n_turns);
    memory = wire_get_bytes(w, &n_memory);
    if (w->bad || !log_id_ok(state.id) || n_turns > (KEPT_TURNS + 1) * sizeof(uint64_t) ||
        n_turns % sizeof(uint64_t) || n_memory > KEPT_MEMORY || state.end - state.start != n_memory)
        return false;
    k.turns = (struct buf){.data = (char *)(uintptr_t)turns, .len = n_turns};
    k.memory = (struct buf){.data = (char *)(uintptr_t)memory, .len = n_memory};
    state.running = 0;
    board_put(&k, &state);
    return true;
}

void board_load(void)
{
    auto_close int fd =
        openat(AGENT_FD_LOGS, SAVED, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    auto_free char *data = NULL;
    struct stat st;
    struct wire w;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > SAVED_MAX)
        return;
    data = xcalloc((size_t)st.st_size + 1, 1);
    n = pread(fd, data, (size_t)st.st_size, 0);
    wire_init(&w, data, n > 0 ? (size_t)n : 0);
    if (wire_get_u32(&w) != SAVED_VERSION)
        return;
    while (w.p < w.end && load_end(&w))
        ;
}
