#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "model/sandbox.h"

struct err;
struct store;

/* State that must survive: SQLite in WAL mode, one connection behind one lock. Callable from any
 * thread. What a call wrote when it returns outlives this process; a power cut it outlives after
 * store_sync(). */

/* Opens <data>/cay.db, takes the lock on the data directory (a second daemon gets ERR_CONFLICT
 * naming the pid that has it), runs migrations (after a backup), checks integrity. A database that
 * is corrupt is moved aside to cay.db.corrupt-<time>, a new one is started, and *ret_rebuilt says
 * so, as it does for a database that is missing or empty beside the disks of sandboxes. Whether or
 * not: a sandbox that has a note and no row gets its row back. */
int store_open(const char *data_dir, struct store **ret, int *ret_rebuilt, struct err *err);
void store_close(struct store *s);

/* Writes between begin and commit, by the same thread, are kept together; other threads wait.
 * Commit fails when any of it could not be kept; then none of it was. */
void store_begin(struct store *s);
int store_commit(struct store *s, struct err *err);

/* Waits for the disk; takes no lock, so others read and write meanwhile. */
int store_sync(struct store *s, struct err *err);

struct sandbox_row {
    char id[ID_SIZE];
    enum sandbox_state state;
    char *reason; /* of STOPPED and PAUSED: "reboot", "agent_lost", …; NULL = none */
    int64_t created_ms, expires_ms;
    int64_t deadline_ns; /* expires_ms on the monotonic clock of boot_id */
    char *config;        /* JSON text of sandbox_spec_json; NULL while PREPARED */
    char *boot_id;       /* of the host when the box was made */
    int64_t pid;
    uint64_t pid_start;
    uint32_t slot;
    char *image_id;     /* what the image name meant then */
    char *image_config; /* JSON text {"env": [K=V…], "user", "stopSignal"}: what commands start with
                         * and how the main one is asked to end */
};

void sandbox_row_done(struct sandbox_row *row);

/* Inserts or replaces the whole row. */
int store_put_sandbox(struct store *s, const struct sandbox_row *row, struct err *err);
int store_delete_sandbox(struct store *s, const char *id, struct err *err); /* and its execs */
bool store_has_sandbox(struct store *s, const char *id);
/* Calls each for every row; stops when it returns non-zero and returns that. */
int store_each_sandbox(struct store *s, int (*each)(const struct sandbox_row *row, void *arg),
                       void *arg, struct err *err);

/* What a sandbox's disk says of itself, in a file beside it (notes.c), so that a lost database
 * costs no sandbox. store_note says what the row says, with the row's state: that the disk is spare
 * while it is PREPARED, and that it was removed when it is REMOVING. */
int store_note(struct store *s, const struct sandbox_row *row, struct err *err);
/* The disk is not spare any more, whatever becomes of it; its note is empty until store_note. */
void store_note_claim(struct store *s, const char *id);
void store_note_remove(struct store *s, const char *id);
/* Waits for the disk: no note or disk that is removed comes back from here on. */
int store_sync_notes(struct store *s, struct err *err);
/* What the note says; -1 = nothing that can be read. *ret is the caller's. */
int store_note_read(struct store *s, const char *id, struct sandbox_row *ret);
bool store_has_note(struct store *s, const char *id); /* that it is a sandbox's */
/* Is this disk certainly nobody's: spare, or of a sandbox that was removed? */
bool store_note_says_rubbish(struct store *s, const char *id);

/* The last sandboxes that were removed, for an hour, so that whoever asks for one can be told. */
#define STORE_GONE_MAX 10000
#define GONE_NAME_SIZE 64 /* of a longer name only the id is remembered */
struct gone_sandbox {
    char id[ID_SIZE];
    char name[256]; /* "" = none */
    int64_t ended_ms;
    uint32_t timeout_s; /* 0 = not to be told */
    bool expired;       /* else somebody removed it */
};
void store_put_gone(struct store *s, const struct gone_sandbox *sandbox);
/* By its id, or the newest of that name. */
bool store_find_gone(struct store *s, const char *word, struct gone_sandbox *ret);

/* "limit" when the sandbox has STORE_EXECS_MAX already. */
#define STORE_EXECS_MAX 10000
int store_put_exec(struct store *s, const struct exec_record *exec, struct err *err);
int store_get_exec(struct store *s, const char *id, struct exec_record *ret, struct err *err);
int store_delete_exec(struct store *s, const char *id, struct err *err); /* fine if it is gone */
void exec_record_done(struct exec_record *exec);

/* Counters by name ("created", "killed", "expired"); they only grow. */
int store_count(struct store *s, const char *name, int64_t add, struct err *err);
int store_counter(struct store *s, const char *name, int64_t *ret, struct err *err);
