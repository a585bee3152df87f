#pragma once

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/kept.h"
#include "base/buf.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/log_file.h"
#include "proto/wire.h"

struct err;
struct stat;

/* The agent is a small family of single-threaded processes:
 *
 *   main (PID 1)   reaps, keeps a handler ready, starts a new spawner when that one dies; when the
 *   │              box is young there is a supervisor instead of both (young.c)
 *   ├─ handler     serves a ctl call with straight-line blocking code, then it exits, or, after a
 *   │  │           short one, waits for another
 *   │  └─ reader   of command lines, while the handler lists processes, see command_lines.h
 *   ├─ syncer      while something in the box calls sync(), see sync.c
 *   └─ spawner     keeps a supervisor ready; lives inside the workload's limits
 *      └─ exec     supervisor of one command and of everything that command starts
 *
 * Rules that keep the box from reaching through them:
 *  1. They are not dumpable, so nothing inside can open their /proc files or trace them.
 *  2. Everything from AGENT_FD_CTL up is CLOEXEC, and a child closes all of it before it looks at a
 *     path or a cwd: /proc/self/fd/N then leads nowhere. Only sockets and what waits for them may
 *     stay, since those cannot be opened by a path. The logs folder, which is outside of the box's
 *     root, is no handler's but while it serves a call that needs it (shelf.c).
 *  3. Who is an agent process is decided by the table below, never by a name that anyone can take.
 *  4. They have a uid that nothing inside can become, in a user namespace above that of the
 *     commands (apart): root inside can neither signal, stop nor limit them. Files they touch as
 *     root, by their fsuid.
 *  5. All signals are blocked, except SIGCHLD while a loop waits in ppoll(). */

#define HANDLERS_MAX 96
#define STREAMS_MAX  64 /* of the handlers: streams live long and must not use up all of them */
#define EXECS_MAX    400
#define HEAVY_MAX    2 /* handlers that may hold megabytes at a time, see heavy.c */

enum slot_mark {
    SLOT_PLAIN,
    SLOT_STREAM,  /* a handler that carries a stream: a dialled port, or a log that is followed */
    SLOT_LINGERS, /* a supervisor whose exec has ended; it only drains what leftovers write */
    SLOT_WAITS,   /* a spare, see pool.c */
    SLOT_LOST,    /* free: a spare had it that died, see rule 7 of pool.c */
};

struct slot {
    _Atomic pid_t pid; /* 0 = free */
    _Atomic pid_t parent;
    _Atomic pid_t command;  /* of a supervisor: what it started last, the first of its session */
    _Atomic uint64_t since; /* and when, in ticks as struct proc has them */
    _Atomic unsigned mark;
    _Atomic uint32_t
        watched; /* of a handler that watches files: how many directories, see watch.h */
};

/* In memory that all agent processes share and no other process can reach. */
struct agents {
    bool apart; /* commands have a user namespace of their own, and we an id that it lacks */
    _Atomic pid_t main, spawner, syncer;    /* 0 = there is none */
    _Atomic uint64_t sync_id;               /* the call that is being answered, see sync.c */
    _Atomic int sync_nr;                    /* which it is: that of sync() or ptrace() */
    _Atomic pid_t sync_tracer, sync_traced; /* of ptrace() */
    _Atomic uint32_t ready;                 /* main is in its own cgroups */
    _Atomic uint32_t young_execs;           /* that the first supervisor took, see young.c */
    _Atomic bool young_knocked;             /* and somebody else waited meanwhile */
    _Atomic int64_t old_at;                 /* when the box is no longer young; 0 = not known yet */
    struct slot handlers[HANDLERS_MAX];
    struct slot execs[EXECS_MAX];
    _Atomic pid_t heavy[HEAVY_MAX]; /* 0 = free */
    _Atomic uint32_t heavy_ended;   /* how many have ended: what others wait for */
    _Atomic uint64_t oom_told;      /* so many of oom_kills() are some exec's end, see oom.c */
    struct board board;             /* execs and how they ended, see kept.h */
};

extern struct agents *agents;

struct slot *slot_free(struct slot *slots, size_t n); /* NULL when all are taken */
size_t slot_count(const struct slot *slots, size_t n, enum slot_mark mark);
size_t slot_count_used(const struct slot *slots, size_t n);
size_t slot_count_waiting(const struct slot *slots, size_t n, pid_t parent);
/* True if there is any SLOT_LOST; there is none then. */
bool slots_take_lost(struct slot *slots, size_t n);
bool agents_has(pid_t pid); /* main included */
bool agents_has_handler(pid_t pid);
/* It was reaped. Returns the command that it has left behind, if it was in the midst of one. */
pid_t agents_forget(pid_t pid, uint64_t *ret_since);
void agent_mark_self(enum slot_mark mark);
struct slot *agent_own_slot(void); /* NULL in main */
/* For a supervisor that starts a command: where its pid goes, so that it is known from the first
 * moment on. 0 = there is none. */
_Atomic pid_t *agent_command(uint64_t since);
/* For a handler that is going to live long. ERR_LIMIT "too_many_streams" when enough of them do. */
int agent_become_stream(struct err *err);

/* The mask of rule 5 while a loop waits: all blocked but SIGCHLD. */
extern sigset_t agent_wait_mask;

/* ---- serve.c: one call on one connection */

struct agent_call {
    int fd;
    struct buf in;  /* what arrived; the first `at` bytes are used up */
    struct buf out; /* frames not sent yet */
    size_t at;
    struct wire args; /* of the call's first frame */
    bool again;       /* this process can serve another afterwards */
};

/* frame_fill and frame_take on what the caller sends. */
ssize_t call_fill(struct agent_call *c);
int call_take(struct agent_call *c, struct frame *ret);
/* Blocks for a frame, until deadline (mono_ns; 0 = for ever): as call_take, with 0 for the end. */
int call_next(struct agent_call *c, int64_t deadline, struct frame *ret);

/* Sent in batches. When the caller is gone the process exits: a handler has nothing left to do. One
 * that must clean up first uses call_send_try. */
void call_reply(struct agent_call *c, unsigned type, const void *payload, size_t len);
void call_reply_buf(struct agent_call *c, unsigned type, const struct buf *payload);
void call_flush(struct agent_call *c);
int call_queue(struct agent_call *c, unsigned type, const void *payload,
               size_t len); /* or -EMSGSIZE */
/* Queues a frame and sends what the socket takes now: 0 or -errno (never -EAGAIN). */
int call_send_try(struct agent_call *c, unsigned type, const void *payload, size_t len);
int call_flush_try(struct agent_call *c);
int call_flush_wait(struct agent_call *c); /* blocks: 0 or -errno */
void call_fail(struct agent_call *c, const struct err *err);
bool call_gone(struct agent_call *c);

/* -1 unless every argument was there and nothing else. */
int call_args_ok(const struct agent_call *c, struct err *err);

struct pool;
/* The life of a process of the pool: waits for a connection and serves it; then it exits, or, as a
 * supervisor that nothing is left of or a handler that is as it was, waits again. */
_Noreturn void serve(const struct pool *p, struct slot *slot);
/* spawner.c: waits until main is in its own cgroups. */
void let_main_leave(void);
/* Answers without reading, for a loop that may not block. */
void refuse(int conn, const struct err *err);

/* ---- pool.c: the loop of main and of the spawner */

struct pool {
    int sock;
    struct slot *slots;
    size_t nslots;
    struct err *full;  /* what a caller hears when all slots are taken */
    struct err *none;  /* and when there is no process to be had */
    unsigned patience; /* how often a spare that went is waited for before another is made */
    int also;          /* something else to wait for; -1 = nothing */
    bool also_ready;   /* it can be read: set by pool_run */
    bool lazy;         /* rule 6 of pool.c */
};

#define POOL_AGAIN_NS (100 * 1000000ll) /* after a fork that failed */

bool pool_has_spare(const struct pool *p, pid_t parent);
/* Makes the process of that slot a spare once more; false when there are enough. */
bool pool_return(const struct pool *p, struct slot *slot);

/* Refuses the caller that waits, if there is one. */
void pool_turn_away(struct pool *p);

/* Forks a spare; false when there is no process to be had. */
bool pool_refill(struct pool *p);

/* One round: has a process ready, sleeps until something happens or the time is over (-1 = without
 * end) and reaps. True if watch died. */
bool pool_run(struct pool *p, pid_t watch, int64_t wait_ns);

/* ---- young.c: the first supervisor of a box */

bool young_is_first(const struct slot *slot);
bool young_takes(void); /* an exec; true if main is to hear of it */
/* While its command runs: where callers wait whom it is to tell main of; -1 = nowhere, also in any
 * other supervisor. */
int young_door(void);
void young_knock(void); /* there is one */

/* ---- the calls: 0, or -1 with err, which becomes the answer */

int exec_call(struct agent_call *c, struct err *err); /* returns when nothing is left of the exec */
int log_call(struct agent_call *c, struct err *err);
int read_call(struct agent_call *c, struct err *err);
int write_call(struct agent_call *c, struct err *err);
int stat_call(struct agent_call *c, struct err *err);
int list_call(struct agent_call *c, struct err *err);
int search_call(struct agent_call *c, struct err *err);
int move_call(struct agent_call *c, struct err *err);
int mkdir_call(struct agent_call *c, struct err *err);
int remove_call(struct agent_call *c, struct err *err);
int chmod_call(struct agent_call *c, struct err *err);
int ps_call(struct agent_call *c, struct err *err);
int kill_call(struct agent_call *c, struct err *err);
int dial_call(struct agent_call *c, struct err *err);
int open_call(struct agent_call *c, struct err *err);
int follow_call(struct agent_call *c, struct err *err);
int output_call(struct agent_call *c, struct err *err);
int patch_call(struct agent_call *c, struct err *err);
int watch_call(struct agent_call *c, struct err *err);
int alter_call(struct agent_call *c, struct err *err);
int grep_call(struct agent_call *c, struct err *err);
int sed_call(struct agent_call *c, struct err *err);

/* ---- sync.c: what the filter tells us of, in main's loop */

void sync_setup(void);
int sync_fd(void); /* what to wait for; -1 = nothing now */
bool sync_retries(void);
void sync_step(bool called); /* each round: called = sync_fd() can be read */

/* ---- meminfo.c: files inside that say what is used of memory, in main's loop */

/* memory: the workload's limit in bytes. key: of AGENT_LEASE_KEY; is wiped. */
void meminfo_setup(uint64_t memory, char *key);
bool meminfo_retries(void); /* there is something to do soon, even if nothing happens */
void meminfo_step(void);    /* each round */

/* ---- shelf.c: where the logs folder is kept */

int shelf_make(void); /* in main, once: 0 or -errno */
int shelf_fd(void);   /* what a handler keeps open for it */
int shelf_take(void); /* opens AGENT_FD_LOGS: 0 or -errno */

/* ---- oom.c: was it the kernel, for lack of memory? For supervisors */

uint64_t oom_kills(void); /* in the workload so far */
/* What to add to the code of an exec that ended: EXIT_MEMORY when it did so badly and the kernel
 * has killed since then, and not what ended another exec. */
uint32_t oom_bits(uint64_t before, bool badly);

/* ---- heavy.c: memory of the calls that need much */

#define HEAVY_FROM (64u << 10)

/* For a handler that is about to hold more than HEAVY_FROM bytes of what it was asked for: returns
 * when it is its turn, which it then has until it exits. Costs nothing when it has it already.
 * ERR_UNAVAILABLE "sandbox_busy" when it does not come; another error when the caller has gone. */
int heavy_turn(struct agent_call *c, struct err *err);
void heavy_forget(pid_t pid); /* it was reaped */

/* ---- user.c */

#define GROUPS_MAX 64

struct identity {
    uint32_t uid, gid;
    uint32_t groups[GROUPS_MAX];
    size_t ngroups;
    char home[1024];
};

/* What /etc/passwd and /etc/group say; either may be NULL when it cannot be read. */
struct accounts {
    char *passwd, *group;
    struct {
        uint32_t id;
        bool set;
        char name[64];
    } users[64], groups[64]; /* names looked up lately */
};

void accounts_load(struct accounts *a);
void accounts_done(struct accounts *a);
#define auto_accounts __attribute__((cleanup(accounts_done)))

/* spec as in struct call_exec. Fails with "bad_user". */
int identity_find(const struct accounts *a, const char *spec, struct identity *ret,
                  struct err *err);
/* Finds it in the box's own files. */
int identity_load(const char *spec, struct identity *ret, struct err *err);
/* Becomes that user for good, so that the call is this process's last. "" stays root and costs
 * nothing. */
int identity_become(struct agent_call *c, const char *spec, struct err *err);
/* The name of an id, or its digits; valid until the next call. */
const char *accounts_user(struct accounts *a, uint32_t uid);
const char *accounts_group(struct accounts *a, uint32_t gid);

/* ---- spawn.c */

struct spawn {
    char **argv, **env;
    const char *cwd; /* "" = home, or / when there is none */
    const struct identity *user;
    int fds[3]; /* for 0, 1, 2; -1 = the agent's own, which is /dev/null */
    bool tty;   /* fds[0] becomes the controlling terminal */
    uint32_t nofile;
    const struct rlimit_wish *limits;
    uint32_t n_limits;

    /* How far the child came; it shares our memory until it executes. */
    char **paths;
    int step, error;
    uint32_t limit; /* which of limits it was at */
};

/* Starts it. Returns the pid, or -1 with err when the command could not be executed. */
pid_t spawn_run(struct spawn *s, struct err *err);

/* ---- pipes.c: 0 or -errno; our end does not block */

int pipe_for_output(int *ret_ours, int *ret_theirs);
int pipe_for_input(int *ret_ours, int *ret_theirs);
/* Those of the next command's output, while nobody waits for them. */
void pipes_make_ahead(void);

/* ---- pty.c */

int pty_open(uint32_t rows, uint32_t cols, const struct identity *user, int *ret_master,
             int *ret_slave, struct err *err);
void pty_resize(int master, uint32_t rows, uint32_t cols);

/* ---- procfs.c */

struct proc {
    pid_t pid, ppid, session;
    char state;
    int threads;
    uint64_t start; /* in ticks since the machine's start */
    bool dead;      /* all of its threads are */
    bool in;        /* of the tree asked for */
};

/* All processes there are, by pid; free() it. NULL and 0 if /proc cannot be read. */
struct proc *procs_read(size_t *ret_n);
/* The processes below root, which has one thread, from the kernel's lists of children: what this
 * costs depends on them alone, not on how many others there are. A process that starts, ends or
 * loses its parent meanwhile can be missing, or be there twice. False if the kernel keeps no such
 * lists (CONFIG_PROC_CHILDREN). free() *ret. */
bool procs_below(pid_t root, struct proc **ret, size_t *ret_n);
uint64_t ticks_now(void);

/* ---- tree.c */

/* Sets in for every process below one of the roots, which are not in themselves. */
void tree_mark(struct proc *procs, size_t n, const pid_t *roots, size_t nroots);
void tree_signal(const pid_t *roots, size_t nroots, int sig);
/* For a subreaper: ends everything below this process and reaps it. */
void tree_kill(void);
/* Reaps the children that have ended; true if others are left. */
bool tree_reap(void);
/* For what a dead supervisor has left: ends the session, what has lost its parents since then
 * (which can be another exec's, if that one ended meanwhile), and all that is below one of these;
 * does not wait for their end. */
void tree_kill_left(pid_t session, uint64_t since);

/* ---- log.c: output and end of background execs; follow.c reads along */

struct journal {
    int dir, log, marks, state;
    char id[41];
    struct call_log now;
    struct log_mark last; /* the last of n_marks */
    uint32_t n_marks;
    bool again;
};

/* again: of an exec that had this id before the sandbox was stopped and started, the log goes on.
 */
int journal_open(struct journal *j, const char *id, bool again, struct err *err);
/* Before the caller hears that it started. */
int journal_started(struct journal *j, pid_t pid, struct err *err);
void journal_write(struct journal *j, bool is_stderr, const void *data, size_t len);
void journal_finish(struct journal *j, const struct call_exit *how);
void journal_discard(struct journal *j); /* the command could not be started */
bool log_id_ok(const char *id);

/* A log that somebody reads, and how its bytes are sent. */
struct log_reader {
    struct log_file file;
    enum {
        LOG_BYTES,   /* DATA, both streams as one */
        LOG_STREAMS, /* STDOUT and STDERR */
        LOG_TIMED,   /* the same, each with a time before the bytes */
    } form;
};

/* Looks at the file. "log_not_found" when there is no such exec. */
int log_look(struct log_reader *l, struct err *err);
/* Sends what there was at the last look, from offset on, but at most `most` bytes. */
void log_send(struct agent_call *c, struct log_reader *l, uint64_t most);
/* END, with how it was at the last look. */
void log_end(struct agent_call *c, const struct log_reader *l);
/* Sends what comes until the exec has ended: 0 then, with that as the last look, -1. The caller of
 * the log must be a stream (agent_become_stream) and have its OK. */
int log_send_all(struct agent_call *c, struct log_reader *l, struct err *err);

/* ---- files.c, write.c, move.c, remove.c, copy.c, check.c */

/* Makes path and what is missing above it; fine if it is there. */
int make_dirs(const char *path, mode_t mode, struct err *err);

#define WRITE_PARENTS 1u
#define WRITE_APPEND  2u
/* Takes the DATA and END of a call into a file and answers it. mode as for CALL_WRITE. */
int write_file(struct agent_call *c, const char *path, uint32_t mode, unsigned flags,
               struct err *err);
/* For a call that failed: its caller may look for the answer only after it has sent everything. */
void swallow(struct agent_call *c);

/* Says what went wrong with path, in the words and codes of the API. */
int file_error(struct err *err, int errnum, const char *path);
int path_check(const char *path, struct err *err);
/* Opens a file to be read, without waiting for anything; one that is not regular is an error. */
int open_regular(const char *path, struct stat *ret, struct err *err);
/* The directory that holds path, and path's name in it without trailing slashes. */
int open_parent(const char *path, char name[256], struct err *err);
/* 0 or -errno, and then some of it may be there: -ENXIO of what can only be made by its owner,
 * -ECANCELED when the caller has gone. */
int copy_tree(struct agent_call *caller, int from_dir, const char *from, int to_dir,
              const char *to);
/* A rename to that very name, also between filesystems. Without replace what has it stays: err->sys
 * is EEXIST then. */
int move_exactly(struct agent_call *c, const char *from, const char *to, bool replace,
                 struct err *err);
/* path is what errors call it. */
int remove_at(int parent, const char *name, const char *path, bool recursive, struct err *err);

/* True if the fields of an exec make sense; says what does not. */
int exec_check(const struct call_exec *e, struct err *err);
