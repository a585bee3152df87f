#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rlimits.h"

struct buf;
struct err;
struct wire;

/* The calls an agent answers. A call is a frame of type FRAME_CALL + op whose payload is the packed
 * form (proto/wire.h) of its fields in the order listed; the answers are listed after the arrow.
 * Any call can be answered with FRAME_ERROR instead.
 *
 * An agent listens on two sockets. `exec` is served inside the workload's limits and takes
 * CALL_EXEC and CALL_OPEN; `ctl` is served beside them and takes everything else, so that a full
 * box can be looked into.
 *
 * A sandbox keeps the agent that it was made with when cay is replaced by a newer one. New calls
 * are therefore added at the end and CALL_VERSION stays: an agent that does not know a call answers
 * ERR_INVALID, and whoever makes the call says what is done then. */
enum call_op {
    CALL_HELLO, /* → OK: u32 CALL_VERSION */
    CALL_EXEC, /* struct call_exec → STARTED, (STDOUT | STDERR)*, EXIT; background: STARTED only */
    CALL_LOG,  /* str exec id, u64 offset, u64 at most → DATA*, END: struct call_log */
    CALL_READ,  /* str path, str user, u64 offset, u64 at most (0 = all) → OK: struct call_file;
                 * DATA*, END. A file that is not regular is refused. Owner and group are digits
                 */
    CALL_WRITE, /* str path, str user, u32 mode (~0 = keep, or 0644 when new), u32 make parents;
                 * then DATA*, END from the caller → OK. The file appears whole, on END, or not at
                 * all */
    CALL_STAT, /* str user, list paths → ITEM (call_file) for each in order, END. Links not followed
                */
    CALL_LIST,   /* str path, str user → ITEM (call_file)*, END; one level, sorted by name */
    CALL_SEARCH, /* str dir, str user, str glob on the base name, u32 at most → ITEM (str path)*,
                    END */
    CALL_MOVE,   /* str from, str to, str user → OK */
    CALL_MKDIR,  /* str path, str user, u32 mode → OK; with parents; fine if it exists */
    CALL_REMOVE, /* str path, str user, u32 recursive → OK; fine if it does not exist */
    CALL_CHMOD,  /* str path, str user, str mode (octal digits, or one symbolic clause) → OK */
    CALL_PS,     /* → ITEM (struct call_process)*, END */
    CALL_KILL, /* u32 pid, u32 signal → OK; pid 0 = every exec that runs now; fine if it is gone.
                * With an END in the same message: if pid is the first process of a command, all
                * processes of the command. An older agent takes no notice of the END */
    CALL_DIAL, /* u32 TCP port on the box's loopback → OK; afterwards the stream is that connection
                */
    CALL_FOLLOW, /* str exec id, u64 offset → OK; then DATA* as the log grows, and END (struct
                  * call_log, not running) when the exec has ended and all of it was sent */
    CALL_AGAIN,  /* str exec id, u64 cursor, u64 at most, u32 flags, and if the terminal is to have
                  * another size u32 rows, u32 columns → OK: state; then
                  * (STDOUT | STDERR | LOST)* from the cursor on, END: state. With FOLLOW
                  * until the exec has ended; with INPUT the caller may send what one of CALL_EXEC
                  * may. Closing it ends nothing, and CANCEL only closes it. "exec_not_found",
                  * "exec_attached". An agent that is older does not know the size */
    CALL_EXECS,  /* → ITEM (state)*, END: the execs with an id that run or are kept */
    CALL_OUTPUT, /* str exec id, u64 offset, u64 at most, u32 follow → OK; then (STDOUT | STDERR:
                  * u64 wall clock in ms, bytes)*, END: struct call_log. As CALL_LOG, or with follow
                  * as CALL_FOLLOW; 0 as the time = not known */
    CALL_PATCH,  /* u32 kind (enum call_patch), str path, str other, u32 mode (~0 = as it would be),
                  * u32 replace → OK; of FILE and APPEND DATA* and END come before that. With
                  * parents; what is there already is ERR_CONFLICT without replace. For a box in
                  * which nothing runs yet: one that fails may leave some of it */
    CALL_OPEN,   /* u32 port on the box's loopback, u32 kind (enum call_open), u32 family (enum
                  * call_open_family) → OK: u32 1 = it is connected, 0 = it is about to be; with it,
                  * in the same message, the socket as SCM_RIGHTS. "port_closed" when nothing
                  * listens, which a datagram socket does not know. On `exec`, so that the box pays
                  * for what waits in the socket */
    CALL_RECORDING, /* str exec id → OK; DATA*, END: what EXEC_RECORD has written until now, records
                     * of u64 microseconds since the start, u32 kind, bytes. "recording_not_found"
                     */
    CALL_WATCH,     /* str path, str user, u32 recursive, u32 kinds (1 << enum call_change), list of
                     * globs of names to leave out → OK; then ITEM (struct call_change)*, of which the
                     * first is CHANGE_READY; END when path is gone. "watch_limit" also after OK */
    CALL_ALTER, /* u32 kind (enum call_alter), str path, str other, u32 mode, u32 uid, u32 gid (~0 =
                 * as it is), u32 flags (enum call_alter_flags) → OK: u32 how many were changed.
                 * What is asked and nothing else, where the calls above help along. By root.
                 * "file_exists", "directory_not_empty" */
    CALL_GREP, /* str path, str user, str regular expression, u32 flags (enum call_text_flags), list
                * of globs that files must match one of, list of globs that they must not match, u32
                * most matches, u32 most bytes of a line → ITEM (struct call_match)*, END.
                * "bad_regex", "bad_fs_request" */
    CALL_SED,  /* str path, str user, list of files instead of a path, str regular expression, str
                * replacement, u32 flags, two lists of globs → ITEM (struct call_edit)*, END; as
                * CALL_GREP. What fails of one file is in its item */
    CALL_KEEP, /* → OK: what CALL_AGAIN and CALL_EXECS know of execs that have ended is in the logs
                * folder, where the next agent of this sandbox finds it */
    CALL_OPS,
};

enum call_alter {
    ALTER_MKDIR,  /* 0 were changed when it was there, which is fine with PARENTS */
    ALTER_REMOVE, /* without RECURSIVE only a directory that is empty; links are not followed */
    ALTER_MARKS,  /* mode and owner; with RECURSIVE also of all below, but of no link there */
    ALTER_MOVE,   /* to `other`, which is its new name also if a directory is there */
};

enum call_alter_flags {
    ALTER_PARENTS = 1u << 0,
    ALTER_RECURSIVE = 1u << 1,
    ALTER_REPLACE = 1u << 2, /* of MOVE: what is there may go */
};

enum call_text_flags {
    TEXT_RECURSIVE = 1u << 0, /* the path may be a directory */
    TEXT_IGNORE_CASE = 1u << 1,
    TEXT_LITERAL = 1u << 2,    /* of CALL_SED: pattern and replacement are texts */
    TEXT_FIRST_ONLY = 1u << 3, /* and of each line the first match is replaced only */
};

enum call_match_kind {
    MATCH_LINE,
    MATCH_ALIVE, /* nothing yet; it goes on */
    MATCH_MORE,  /* there are more than were asked for */
};

enum call_open { OPEN_TCP, OPEN_UDP };
enum call_open_family { OPEN_ANY /* IPv4, and if nothing listens there IPv6 */, OPEN_V4, OPEN_V6 };

enum call_patch {
    PATCH_FILE,   /* what comes is the file */
    PATCH_APPEND, /* and here its end; replace says nothing */
    PATCH_LINK,   /* other is what it points to */
    PATCH_COPY,   /* other is a file or directory of the box */
};

#define CALL_VERSION 1

#define CALL_ARGS_MAX  4096 /* items in argv or env */
#define CALL_PATHS_MAX 1024
#define CALL_GLOBS_MAX 64 /* in each of two lists */
#define CALL_MODE_KEEP (~0u)

enum call_exec_flags {
    EXEC_TTY = 1u << 0, /* on a pty: output is one stream, FRAME_STDOUT */
    EXEC_BACKGROUND =
        1u << 1,          /* output goes to the log named by id; the caller leaves after STARTED */
    EXEC_STDIN = 1u << 2, /* FRAME_STDIN will come; otherwise stdin is /dev/null */
    EXEC_COLLECT = 1u << 3, /* for a caller that waits for the end: frames are held back until they
                             * are many, the command ends, or (once, for STARTED) a second passes */
    EXEC_APART = 1u << 4, /* in the background: the log tells stdout and stderr apart (CALL_OUTPUT),
                           * which costs their exact order; and it may be there already, of one
                           * that ran before the box came up, and goes on */
    EXEC_RECORD = 1u << 5, /* on a terminal: what is put out is written down, and when
                            * (CALL_RECORDING). STARTED then has a third u32, 1, unless there is no
                            * room; an older agent refuses it */
    EXEC_ONCE = 1u << 6,   /* only if no exec of this id runs or is known to have run: else
                            * "exec_exists". An older agent refuses it */
    EXEC_LIMITS = 1u << 7, /* limits are given. An older agent refuses it */
    EXEC_INPUT = 1u << 8,  /* all of its input comes as STDIN frames right behind the call, and it
                            * begins when the last is there. An older agent refuses it */
};

#define EXEC_INPUT_MAX (1u << 20)

enum call_record {
    RECORD_OUTPUT = 'o', /* bytes */
    RECORD_SIZE = 'r',   /* u32 rows, u32 columns; the first record is one */
    RECORD_EXIT = 'x',   /* struct call_exit */
    RECORD_FULL = 'f',   /* there is more than is recorded */
};

#define RECORDING_MAX (16u << 20)

/* An exec in the foreground that has an id is kept: its output and its end can be had by the id
 * (CALL_AGAIN), also afterwards, and it goes on when the connection closes. FRAME_CANCEL ends it.
 * STARTED then has a second u32, 1. An agent that is older than this takes no notice of the id: its
 * STARTED has a pid only, and closing cancels. */
struct call_exec {
    uint32_t flags;
    char *id;    /* [a-z0-9_]{1,40}; a background exec must have one; "" = it is not kept */
    char **argv; /* at least one; found along PATH of env when it has no '/' */
    char **env;  /* the whole environment, K=V; without HOME, that of another user than "" */
    char *cwd;   /* "" = home of the user; must exist inside the box: ERR_INVALID "bad_cwd" */
    char *user; /* "" or "root", a name in the box's passwd, or a uid; ":" and a group may follow */
    uint64_t timeout_ms; /* 0 = none; then the whole tree is killed and EXIT says TIMEOUT */
    uint64_t
        output_max; /* bytes kept of each of stdout and stderr, the rest counted; 0 = no limit */
    uint32_t rows, cols; /* of the pty */
    uint32_t nofile;     /* soft RLIMIT_NOFILE; 0 = as the box has it */
    /* of EXEC_LIMITS */
    uint32_t n_limits;
    struct rlimit_wish limits[RLIMITS_MAX];
    /* of EXEC_INPUT: bytes, at most EXEC_INPUT_MAX */
    uint64_t input_len;
};

enum call_exit_how {
    EXIT_CODE,      /* code is the exit status */
    EXIT_SIGNAL,    /* code is the signal */
    EXIT_TIMEOUT,   /* killed by timeout_ms */
    EXIT_CANCELLED, /* the caller did not want it any more, or somebody ended it by its id */
    EXIT_LOST,      /* its supervisor died before it could write the end */
};

/* Bits of code beside that, which an older daemon takes no notice of. */
#define EXIT_MEMORY_SEEN (1u << 16) /* the agent looks at that; an older one does not */
#define EXIT_MEMORY      (1u << 17) /* while it ran the kernel killed for lack of memory */

struct call_exit {
    uint32_t how, code;
    uint64_t duration_ns;
    uint64_t lost_stdout, lost_stderr; /* bytes past output_max */
};

struct call_log {
    uint64_t size; /* bytes in the log now */
    uint32_t running;
    uint32_t pid;
    uint64_t started_ms, finished_ms; /* wall clock; finished 0 while running */
    struct call_exit exit;
};

enum call_again_flags {
    AGAIN_FOLLOW = 1u << 0,
    AGAIN_INPUT = 1u << 1,  /* one caller at a time */
    AGAIN_END = 1u << 2,    /* end it, with all that it started; the caller may leave at once */
    AGAIN_SHARED = 1u << 3, /* with INPUT: beside others who say so too. An older agent takes no
                             * notice: there it is one at a time */
};

#define CALL_ID_SIZE      41
#define CALL_COMMAND_SIZE 121

/* A cursor counts bytes of output, both streams together, in the order in which they came. */
struct call_kept {
    char id[CALL_ID_SIZE];
    char command[CALL_COMMAND_SIZE]; /* how it begins, for people; "" = not known */
    uint32_t running;
    uint32_t pid;
    uint32_t flags;                   /* of call_exec_flags: TTY, STDIN, BACKGROUND */
    uint64_t started_ms, finished_ms; /* wall clock; finished 0 while running */
    uint64_t start, end;              /* cursors: of the first byte that is kept, of the next */
    struct call_exit exit;
    uint32_t rows, cols; /* of its terminal; 0 = not known. Not a part of files */
};

enum call_file_kind { FILE_REGULAR, FILE_DIR, FILE_LINK, FILE_OTHER };

struct call_file {
    char *path; /* as asked for, or the name within the listed directory */
    uint32_t kind;
    uint32_t mode; /* st_mode, all of it */
    uint64_t size;
    int64_t mtime_ms; /* as time_ms() has it; negative before 1970 */
    uint32_t uid, gid;
    char *owner, *group; /* names in the box's passwd and group, else the numbers */
    char *target;        /* of a link */
};

enum call_change_kind {
    CHANGE_READY, /* all that happens from here on is told; lost is how many directories that are */
    CHANGE_CREATE,
    CHANGE_WRITE,
    CHANGE_REMOVE, /* or moved to where nobody looks */
    CHANGE_RENAME,
    CHANGE_CHMOD,     /* mode, owner or times */
    CHANGE_OVERFLOW,  /* lost changes are not told, more if it is 0; what follows is told again */
    CHANGE_UNWATCHED, /* lost directories are too many to look at; path is one of them */
};

#define CHANGE_KINDS_ALL                                                                           \
    (1u << CHANGE_CREATE | 1u << CHANGE_WRITE | 1u << CHANGE_REMOVE | 1u << CHANGE_RENAME |        \
     1u << CHANGE_CHMOD)

#define CALL_IGNORES_MAX 64

struct call_change {
    uint32_t kind, is_dir;
    uint64_t time_ms, lost;
    char *path, *from; /* from: of a rename; else "" */
};

/* A line that has a match. */
struct call_match {
    uint32_t kind;
    char *path;
    uint64_t line; /* the first is 1 */
    char *text;    /* UTF-8, cut and then with … at its end; may have NULs in it */
    size_t len;
};

/* What became of a file. */
struct call_edit {
    uint32_t alive; /* nothing: it goes on */
    char *path;
    uint64_t replacements;
    char *error; /* "" = it went well */
};

struct call_process {
    uint32_t pid, ppid, uid;
    char *user;
    char *state;       /* one letter, as in ps */
    uint64_t cpu_ms;   /* user + system time so far */
    uint64_t age_ms;   /* since it started */
    uint64_t rss, vsz; /* bytes */
    char *command;     /* arguments joined by spaces, or [comm] */
};

void call_exec_put(struct buf *b, const struct call_exec *c);
void call_exec_get(struct wire *w, struct call_exec *ret); /* free with call_exec_done */
void call_exec_done(struct call_exec *c);
void call_exit_put(struct buf *b, const struct call_exit *c);
void call_exit_get(struct wire *w, struct call_exit *ret);
void call_log_put(struct buf *b, const struct call_log *c);
void call_log_get(struct wire *w, struct call_log *ret);
void call_kept_put(struct buf *b, const struct call_kept *c);
void call_kept_get(struct wire *w, struct call_kept *ret);
/* As an answer: with what an older agent does not tell. */
void call_state_put(struct buf *b, const struct call_kept *c);
void call_state_get(struct wire *w, struct call_kept *ret);
void call_file_put(struct buf *b, const struct call_file *c);
void call_file_get(struct wire *w, struct call_file *ret);
void call_file_done(struct call_file *c);
void call_change_put(struct buf *b, const struct call_change *c);
void call_change_get(struct wire *w, struct call_change *ret);
void call_change_done(struct call_change *c);
void call_match_put(struct buf *b, const struct call_match *c);
void call_match_get(struct wire *w, struct call_match *ret);
void call_match_done(struct call_match *c);
void call_edit_put(struct buf *b, const struct call_edit *c);
void call_edit_get(struct wire *w, struct call_edit *ret);
void call_edit_done(struct call_edit *c);
void call_process_put(struct buf *b, const struct call_process *c);
void call_process_get(struct wire *w, struct call_process *ret);
void call_process_done(struct call_process *c);

/* FRAME_ERROR in both directions. Reading maps an unknown kind to ERR_INTERNAL, clips the text and
 * keeps only codes that it knows; returns -1 with *err filled, as err_set does. */
void call_error_put(struct buf *b, const struct err *err);
int call_error_get(const void *payload, unsigned long len, struct err *err);
