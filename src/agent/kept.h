#pragma once

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "proto/call.h"
#include "proto/frame.h"

struct agent_call;
struct err;
struct wire;

/* What stays of execs in the foreground, so that nobody needs to be there when they put something
 * out or end. ARCHITECTURE.md, "An exec outlives its caller", tells how the parts work together. */

/* ---- kept.c: the output of one exec
 *
 * The first KEPT_MEMORY bytes stay in memory, so that a short command costs no file. What has more
 * goes to <id>.out in the logs folder, of which the last KEPT_WINDOW bytes are kept. When the disk
 * is full less of it is, and at last only what fits into memory.
 *  1. What is kept is the bytes from cursor `start` to `end`, without a gap.
 *  2. turns says where the stream changes: u64 cursor << 1 | is stderr, ascending; the first one is
 *     at or before start. */

#define KEPT_MEMORY (64u << 10)
#define KEPT_WINDOW (24ull << 20) /* all of both streams that are collected, and some */
#define KEPT_TURNS  8192

struct kept {
    char id[CALL_ID_SIZE];
    struct buf memory;
    int file;      /* -1 = it is in memory */
    uint64_t base; /* cursor of the first byte of the file */
    uint64_t start, end;
    struct buf turns;
};

/* Empty, for that exec, with the memory that kept_rest() has left. */
void kept_begin(struct kept *k, const char *id);
/* At most KEPT_MEMORY bytes. */
void kept_add(struct kept *k, bool is_error, const void *data, size_t len);
/* Bytes of one stream from pos on, which is from start to end: how many, 0 when there is nothing,
 * or -1 when they cannot be read. */
ssize_t kept_read(const struct kept *k, uint64_t pos, void *data, size_t want, bool *ret_error);
/* Not needed any more; a little memory stays for the next. */
void kept_rest(struct kept *k);

/* Ended, and too long for the board: the file stays, with <id>.end beside it. The oldest go. False
 * when the disk has no room for that; then the file has lost its name. */
bool kept_store(struct kept *k, const struct call_kept *state);
/* One that kept_store() left; false when there is none. */
bool kept_load(const char *id, struct kept *k, struct call_kept *state);
/* Calls each for all of them. */
void kept_each(void (*each)(const struct call_kept *state, void *arg), void *arg);

/* Of the files <id><suffix> whose execs have ended, the newest stay: so many, of so many bytes. */
void kept_prune(const char *suffix, size_t count, uint64_t bytes);

/* ---- board.c: which execs run, and how the last ones ended, in memory that all agent processes
 * share */

struct running {
    _Atomic uint32_t seq; /* odd while it is being written */
    _Atomic pid_t supervisor;
    struct call_kept state;  /* as it was at the start */
    _Atomic uint32_t wanted; /* somebody wants to come in: see door.c */
    _Atomic uint32_t door;
    _Atomic uint32_t stop; /* the exec of that seq is to end */
};

enum door { DOOR_SHUT, DOOR_OPEN, DOOR_STUCK, DOOR_GONE };

#define RECENT_MAX   256
#define RECENT_BYTES (512u << 10)

struct recent {
    _Atomic uint64_t seq; /* odd while it is being written; 0 = never was */
    struct call_kept state;
    uint64_t at; /* in the bytes that were ever written to the board */
    uint32_t turns, memory;
};

#define BOARD_SEATS 400 /* as many as there are supervisors */

struct board {
    struct running running[BOARD_SEATS]; /* each beside its supervisor's slot */
    _Atomic uint64_t next;               /* number of the next of recent */
    _Atomic uint64_t written;            /* bytes, ever */
    struct recent recent[RECENT_MAX];
    char bytes[RECENT_BYTES];
};

/* This supervisor is about to run that, which only board_runs() sees; from board_begin() on it
 * does. NULL when it is none. */
struct running *board_enter(const struct call_kept *state);
void board_begin(struct running *r, pid_t pid);
void board_leave(struct running *r);
bool board_lives(const struct running *r); /* its supervisor has not died */
/* One that runs. *ret_state is how it was at its start. NULL when none does; when its supervisor
 * has died *ret_state says so, and its id is set. */
struct running *board_find(const char *id, struct call_kept *ret_state);
bool board_runs(const char *id); /* does another supervisor run it, or is about to? */
/* Puts up how it ended, with its output, which must be in memory. */
void board_put(const struct kept *k, const struct call_kept *state);
bool board_get(const char *id, struct kept *k, struct call_kept *state);
/* Writes the ends and outputs that the board has to the logs folder, where board_load() of the next
 * agent of this sandbox puts them up again. 0 or -errno. */
int board_save(void);
void board_load(void); /* in main, before there is another process */
/* Calls each for all that run, and then for all that have ended. */
void board_each(void (*each)(const struct call_kept *state, void *arg), void *arg);

/* ---- door.c: how a caller that comes later reaches the supervisor
 *
 * A handler has the caller's connection; only the supervisor has the output and the input. The
 * handler says that it wants to come in and sends SIGCHLD, which ends any ppoll(); the supervisor
 * opens a door, a datagram socket <id>.sock in the logs folder, where nothing inside can look; the
 * handler sends the connection through it. Execs that nobody asks for have no door. */

/* For the supervisor: the socket, or -1. */
int door_open(struct running *r, const char *id);
/* Nobody finds it any more; who came before can still be taken in. */
void door_shut(struct running *r, const char *id, int door);
/* For the supervisor: the next caller, with its arguments; -1 when there is none. */
int door_take(int door, struct buf *args);
/* For a handler: 0 when the connection has been handed on; -EAGAIN when the exec has just ended. */
int door_pass(struct running *r, const char *id, int conn, const struct buf *args);
/* For a handler: has it end when there is no room for a door. 0, or -EAGAIN as above. */
int door_stop(struct running *r, const char *id);

/* ---- watchers.c: callers that came later, as the supervisor serves them */

#define WATCHERS_MAX  16
#define WATCHERS_POLL (1 + WATCHERS_MAX)

struct watcher;

struct watchers {
    int door; /* -1 = nobody has knocked */
    struct watcher *list[WATCHERS_MAX];
    size_t n;

    /* What they are told about, and what is asked of who runs the exec. */
    const struct kept *kept;
    const struct call_kept *state;
    bool (*has_caller)(void *arg); /* is the one who started it still there? */
    bool (*takes_frame)(void *arg);
    int (*on_frame)(void *arg, const struct frame *f); /* of one with INPUT */
    /* Handles the frames that are left of a caller with INPUT whose connection is about to be
     * closed. */
    void (*last_frames)(void *arg, struct agent_call *call);
    void (*resize)(void *arg, uint32_t rows, uint32_t cols);
    void *arg;
    bool ended; /* one of them wanted the end */
};

/* Fills p with what they wait for; how many. */
size_t watchers_poll(const struct watchers *w, struct pollfd p[WATCHERS_POLL]);
/* Takes new ones in, reads what they send and sends what there is. */
void watchers_serve(struct watchers *w);
/* Are all behind who have the input? The command waits for the quickest of them, as it does for its
 * first caller: one who does not read holds nobody up who types. */
bool watchers_behind(const struct watchers *w);
/* The exec has ended: sends them the rest and that, and to its first caller (if there is one) what
 * is queued for that; returns when they have it or are gone. None waits for another. */
void watchers_finish(struct watchers *w, struct agent_call *first);

/* ---- again.c */

/* The arguments of CALL_AGAIN. */
struct again {
    char *id; /* the caller's, to be freed */
    uint64_t cursor, most;
    uint32_t flags;
    uint32_t rows, cols; /* that the terminal is to have; 0 = as it has */
};

void again_get(struct wire *w, struct again *ret);
/* Where to begin for a caller that names this cursor. */
uint64_t again_from(const struct kept *k, uint64_t cursor);
/* Queues OK or END with how it is now. */
int again_queue(struct agent_call *c, unsigned type, const struct kept *k,
                const struct call_kept *state);
/* Queues the next piece of what is kept from *pos on, at most *most bytes, or that some was lost,
 * and moves both on: 1, 0 = there is no more, -errno. */
int again_piece(struct agent_call *c, const struct kept *k, uint64_t *pos, uint64_t *most);

int again_call(struct agent_call *c, struct err *err);
int execs_call(struct agent_call *c, struct err *err);
int keep_call(struct agent_call *c, struct err *err);
