#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "engine/engine.h"
#include "proto/call.h"
#include "store/store.h"

/* Locks, in the order in which they may be taken:
 *  1. sandbox.env_turn: changes of its environment take turns.
 *  2. sandbox.turn: create, pause, resume, renew, remove and death take turns. Blocking work is
 * done under it, but nothing that waits for an agent that runs someone's code.
 *  3. engine.table_lock: which sandboxes exist. Never held during blocking work.
 *  4. sandbox.lock: its fields. Short; nothing blocks under it.
 * The queues (writer, pool, reaper, pulls) and images_used have locks of their own, below all of
 * these. */

struct sandbox {
    atomic_uint refs;
    uint64_t serial; /* names it in the watcher, where a pointer could be stale */
    struct sandbox *prev, *next, *bucket_next; /* table_lock */
    struct sandbox *doomed_next;               /* queue of the reaper */
    unsigned attempts;                         /* to destroy it */

    pthread_mutex_t env_turn, turn, lock;

    /* Fixed from the moment it is in the table, but for pid and pid_start, which create fills. */
    struct box box;
    int64_t created_ms, started_ns;
    char *boot_id, *image_id;
    char **image_env;
    char *image_user;
    int stop_signal; /* what asks the main process to end */

    /* lock; state, reason and expiry are also changed only under turn */
    struct sandbox_spec spec; /* env changes, the rest is fixed */
    enum sandbox_state state;
    char *reason;
    int64_t expires_ms, deadline_ns;
    bool sealed;    /* the row that says removing was handed to the writer */
    int watched_fd; /* in the watcher's epoll set; -1 = not */
    uint64_t oom_seen;
    uint64_t sample_cpu_ns;
    int64_t sample_ns;
    double cpu_percent;
};

#define TABLE_BUCKETS 1024

struct policy;
struct pull;
struct write_job;

struct image_use {
    char *id;
    unsigned boxes;     /* made from it and not yet destroyed: its layers stay */
    unsigned sandboxes; /* of these, those that are not removed: its names stay */
    struct image_use *next;
};

struct engine {
    struct engine_config config;
    char *default_image, *workspace; /* what config points to */
    struct policy *policy;
    struct store *store;
    struct image_store *images;
    struct runtime *runtime;
    char boot_id[40];
    int64_t start_ns;

    pthread_mutex_t table_lock;
    struct sandbox *buckets[TABLE_BUCKETS], *first, *last;
    unsigned count;    /* in the table */
    unsigned reserved; /* being made, not yet in the table */
    uint64_t serial;
    bool stopping;

    atomic_llong created, killed, expired;

    struct {
        pthread_mutex_t lock;
        struct image_use *first;
    } images_used;

    struct pulls {
        pthread_mutex_t lock;
        pthread_cond_t idle;
        struct pull *first; /* those that can be joined */
        unsigned running;   /* threads */
        bool stop;
    } pulls;

    struct writer {
        pthread_mutex_t lock;
        pthread_cond_t more, done;
        struct write_job *head, *tail;
        bool stop, running;
        pthread_t thread;
    } writer;

    struct pool {
        pthread_mutex_t lock;
        pthread_cond_t more;
        struct box *ready;
        unsigned n, size;
        int64_t taken_ns; /* when a box was last taken */
        bool stop, running;
        pthread_t thread;
    } pool;

    struct reaper {
        pthread_mutex_t lock;
        pthread_cond_t more, tick;
        struct sandbox *head, *tail;
        const struct sandbox *current;
        bool stop, drain, running;
        int epoll_fd, wake_fd;
        pthread_t destroyer, sweeper, watcher;
    } reaper;
};

/* ---- table.c ---- */

struct sandbox *sandbox_ref(struct sandbox *sb);
void sandbox_unref(struct sandbox *sb);
struct sandbox *sandbox_alloc(const struct engine *e, const struct box *box);
/* Counts one against the limit before anything is made for it; ERR_LIMIT. */
int table_reserve(struct engine *e, struct err *err);
void table_unreserve(struct engine *e);
/* Takes a reference of its own. reserved: turns a reservation into an entry. */
void table_add(struct engine *e, struct sandbox *sb, bool reserved);
/* Gives the table's reference back. */
void table_remove(struct engine *e, struct sandbox *sb);
/* A new reference, or NULL. */
struct sandbox *table_find(struct engine *e, const char *id);
struct sandbox *table_find_serial(struct engine *e, uint64_t serial);
/* References to those that match, oldest first; frees nothing. *ret_total counts all matches. */
struct sandbox **table_select(struct engine *e, bool (*match)(struct sandbox *sb, const void *arg),
                              const void *arg, size_t skip, size_t max, size_t *ret_n,
                              size_t *ret_total);

static inline void cleanup_unrefp(struct sandbox **sb)
{
    sandbox_unref(*sb);
}
#define auto_sandbox __attribute__((cleanup(cleanup_unrefp)))

/* ---- state.c: looking a sandbox up and moving it ---- */

int sandbox_get(struct engine *e, const char *id, struct sandbox **ret, struct err *err);
/* ERR_CONFLICT "Sandbox is not running: …" unless it is. */
int sandbox_get_running(struct engine *e, const char *id, struct sandbox **ret, struct err *err);
int sandbox_check_running(struct sandbox *sb, struct err *err);
/* Under turn. The only writer of a state; reason is copied. */
int sandbox_move(struct sandbox *sb, enum sandbox_state to, const char *reason, struct err *err);
/* "paused", "stopped (agent_lost)" */
char *sandbox_status(struct sandbox *sb);
json_t *sandbox_json(const struct engine *e, struct sandbox *sb);
void sandbox_set_expiry(struct sandbox *sb, int64_t now, int64_t expires_ms);

/* ---- spec.c ---- */

/* All that can be said without the image: workdir, and an entrypoint that is the image's, are NULL
 * until spec_take_image. */
int spec_read(struct engine *e, const json_t *in, struct sandbox_spec *ret, struct err *err);
int spec_take_image(const struct engine *e, const json_t *in, const struct image *image,
                    struct sandbox_spec *spec, struct err *err);

/* ---- sandbox.c ---- */

enum removal { REMOVED_BY_CALL, REMOVED_BY_EXPIRY, REMOVED_BY_STOP };

/* ERR_NOT_FOUND when someone else removed it first. An expiry is given up when it was renewed. Only
 * by a call is the main process asked first. */
int sandbox_remove(struct engine *e, struct sandbox *sb, enum removal why, struct err *err);
/* What a box needs beyond its launch: its directories, unless it has them, and the entrypoint. */
int sandbox_set_up(struct engine *e, struct sandbox *sb, bool has_dirs, struct err *err);

/* ---- writer.c: rows go to the store in the order in which they were handed over, several in one
 * transaction when they come together ---- */

int writer_start(struct engine *e, struct err *err);
void writer_stop(struct engine *e); /* after everything handed over is stored */
/* The row of sb as it is now. */
struct write_job *writer_put(struct engine *e, struct sandbox *sb);
int writer_wait(struct engine *e, struct write_job *job, struct err *err);
/* Nobody waits: a failure is logged, and recovery finds its way without that write. */
void writer_leave(struct engine *e, struct write_job *job);
int writer_put_box(struct engine *e, const struct box *box, struct err *err); /* PREPARED */
int writer_delete(struct engine *e, const char *id, struct err *err);
void writer_count(struct engine *e, const char *name); /* name is a literal */

/* ---- pool.c ---- */

/* The calling thread does what nobody waits for: requests come first. */
void thread_is_background(void);

int pool_start(struct engine *e, struct err *err);
void pool_stop(struct engine *e); /* and removes what was ready */
/* A prepared id, or one prepared now. */
int pool_take(struct engine *e, struct box *ret, struct err *err);

/* ---- reaper.c ---- */

int reaper_start(struct engine *e, struct err *err);
void reaper_stop(struct engine *e); /* after the queue is empty */
/* Destroys the box and deletes the row, later. Takes a reference. */
void reaper_doom(struct engine *e, struct sandbox *sb);
void reaper_watch(struct engine *e, struct sandbox *sb);
void reaper_unwatch(struct engine *e, struct sandbox *sb);

/* ---- images.c: which images have boxes ---- */

/* image_get, and counts a box of it; the layers stay until images_drop. */
int images_take(struct engine *e, const char *reference, struct image **ret, struct err *err);
/* Counts a box that is there already. An id that is NULL or "" is none. */
void images_count(struct engine *e, const char *id);
/* The sandbox is removed; its box still has to be destroyed. */
void images_release(struct engine *e, const char *id);
/* The box is destroyed. name is what it was created with, or NULL when that is not known. */
void images_drop(struct engine *e, const char *id, const char *name);
/* Deletes layers that have neither a name nor a box. */
void images_collect(struct engine *e);
/* image_prune, but for those that have boxes and for keep_id (NULL = none). */
int images_prune(struct engine *e, const struct image_prune *prune, const char *keep_id,
                 struct image ***ret_removed, unsigned *ret_n, int64_t *ret_bytes, struct err *err);
/* After a pull: removes the least recently used until the rest is within the budget. */
void images_keep_budget(struct engine *e, const char *keep_id);
void images_done(struct engine *e);

/* ---- pulls.c ---- */

/* reference must be whole: it is what pulls are shared by. */
int pulls_run(struct engine *e, const struct image_pull *what, const struct engine_watch *watch,
              struct err *err);
void pulls_stop(struct engine *e);

/* ---- image_calls.c ---- */

/* The image for a create, which images_drop gives back: pulls it when in and the policy say so.
 * name is as the caller gave it, and allowed. */
int image_obtain(struct engine *e, const char *name, const json_t *in,
                 const struct engine_watch *watch, struct image **ret, struct err *err);
/* For a name that is the id of an image here: the name of that image, or "" if it has none; else
 * NULL. Free it. */
char *image_of_id(struct engine *e, const char *name);

/* ---- dirs.c ---- */

/* What the box surely lacks is made before it starts, which costs nothing; what only the box can
 * tell is left to its agent: false. */
bool dirs_plan(const struct engine *e, const struct sandbox *sb, struct box_root *root);
int dirs_make(struct engine *e, struct sandbox *sb, struct err *err);

/* ---- stop.c ---- */

/* "SIGQUIT", "QUIT", "3", "SIGRTMIN+3": its number; SIGTERM for what is none. */
int stop_signal_parse(const char *text);
/* Asks the main process to end, and gives it a little time for that. */
void main_stop(struct engine *e, struct sandbox *sb);

/* ---- recover.c ---- */

int recover(struct engine *e, struct err *err);

/* ---- agent_client.c ---- */

#define AGENT_WAIT_MS 30000

/* Connects and sends the first frame. Everything afterwards waits at most AGENT_WAIT_MS for bytes.
 */
int agent_call(struct engine *e, struct sandbox *sb, enum box_channel channel, enum call_op op,
               const struct buf *args, int *ret_fd, struct err *err);
/* As input of a command may have to wait for as long as the command may run. */
void agent_bound_sends(int fd, uint64_t ms);
/* The next frame. FRAME_ERROR comes back as -1 with the agent's error, the end of the stream as -1
 * with why it ended; sb may be NULL, then only that it did. */
int agent_next(struct sandbox *sb, int fd, unsigned *ret_type, struct buf *payload,
               struct err *err);
/* As agent_call, for a caller that bounds its waits with poll(): without limits on the socket. */
int agent_open(struct engine *e, struct sandbox *sb, enum box_channel channel, enum call_op op,
               const struct buf *args, int *ret_fd, struct err *err);

/* Frames read in large pieces, for a stream that nobody else reads from. */
struct agent_reader {
    struct sandbox *sb;
    int fd;
    struct buf in;
    size_t at; /* so much of in is used up */
};

struct agent_frame {
    unsigned type;
    const char *data; /* valid until the next is taken */
    size_t len;
};

void agent_reader_init(struct agent_reader *r, struct sandbox *sb, int fd);
/* A frame of what was read: 1, 0 when there is no whole one, or as agent_next -1. */
int agent_take(struct agent_reader *r, struct agent_frame *ret, struct err *err);
/* Reads what is there, after poll() has said so. */
int agent_fill(struct agent_reader *r, struct err *err);
/* The agent did not answer in time. */
int agent_silent(struct err *err);

/* As agent_next, where only one type will do. */
int agent_expect(struct sandbox *sb, int fd, unsigned type, struct buf *payload, struct err *err);
/* A call on ctl that is answered with OK. */
int agent_simple(struct engine *e, struct sandbox *sb, enum call_op op, const struct buf *args,
                 struct err *err);
/* A call on ctl answered with ITEM* END: each() gets the payloads. */
int agent_items(struct engine *e, struct sandbox *sb, enum call_op op, const struct buf *args,
                int (*each)(const struct buf *payload, void *arg, struct err *err), void *arg,
                struct err *err);
int agent_hello(struct engine *e, struct sandbox *sb, struct err *err);
/* "the agent of … broke the protocol" */
int agent_broken(struct err *err, const char *what);
/* A JSON string of what may be any bytes. */
json_t *json_of_bytes(const char *s, size_t len);
json_t *json_cstr(const char *s);

/* ---- env.c ---- */

/* "", "root", "0", and these with a group. */
bool user_is_root(const char *user);
/* Every key is usable and every value a string without NUL; ERR_INVALID names the first that is
 * not. */
int env_check(const json_t *vars, struct err *err);
/* What a command starts with: an object of strings. user NULL = the image's. */
json_t *env_build(struct sandbox *sb, const char *user, bool tty, const json_t *more);

/* ---- exec.c ---- */

#define EXEC_LOG_MAX (64u << 20) /* of each stream of a background exec; more is counted */

/* Connects, sends CALL_EXEC with that log id ("" = not background), reads STARTED. */
int exec_start(struct engine *e, struct sandbox *sb, const struct exec_request *req,
               const char *log_id, uint64_t output_max, int *ret_fd, uint32_t *ret_pid,
               struct err *err);
/* How shells would say it. */
int exit_code_of(const struct call_exit *x);

/* ---- background.c ---- */

/* Reads at most `most` bytes of a log from *cursor on into out (which may be NULL). */
int log_read(struct engine *e, struct sandbox *sb, const char *log_id, uint64_t offset,
             uint64_t most, struct buf *out, struct call_log *ret, struct err *err);

/* ---- path.c ---- */

/* The absolute, normal form of a path that the rule lets pass; free it. */
int path_resolve(const char *workspace, const char *path, bool anywhere, char **ret,
                 struct err *err);

/* ---- files.c, file_data.c ---- */

/* A running sandbox and the real form of a path in it. */
int file_target(struct engine *e, const char *id, struct file_path path, struct sandbox **ret_sb,
                char **ret_path, struct err *err);
int file_read(struct engine *e, struct sandbox *sb, const char *path, struct buf *out,
              struct err *err);
int file_write(struct engine *e, struct sandbox *sb, const char *path, const void *data, size_t len,
               struct err *err);
