#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "service/queue.h"
#include "store/jobs.h"

struct exec;

/* How no job is lost, and none runs twice at once:
 *
 *  1. A job is in the database, and synced, before its submitter is told of it.
 *  2. Before its command starts its row says that it runs, and the id of the exec. That is
 * committed and not synced: a power cut ends every sandbox, and with it the command.
 *  3. A daemon that starts asks the sandbox for each exec that a row names. What runs, or has ended
 *     meanwhile, is found there. What the sandbox does not know has never started: it is started
 * with the same id, and the sandbox takes an id only once (`once`), whatever is still on its way.
 *  4. Only the dispatcher's thread starts commands and writes how they ended, in one transaction a
 *     round. When that cannot be written nothing is started, and the ends are kept until it can.
 *  5. A cancel is written by its caller. The row stays live until the dispatcher has ended the
 *     command, so that a successor does if this daemon cannot. */

/* ---- output.c: what a job has put out
 *
 * Both streams in the order in which they came, the last OUTPUT_KEPT bytes of them. runs has the
 * lengths of the pieces of one stream, u32: stdout's first, which may be 0, then in turns. */

#define OUTPUT_KEPT (128u << 10)
#define OUTPUT_RUNS 4096

struct job_output {
    struct buf bytes, runs;
    uint64_t base; /* bytes that are gone */
};

void job_output_init(struct job_output *o);
void job_output_done(struct job_output *o);
void job_output_add(struct job_output *o, bool is_error, const char *data, size_t len);
/* Down to what is kept of one that has ended. */
void job_output_trim(struct job_output *o);
/* So many are gone before what comes next. */
void job_output_skip(struct job_output *o, uint64_t lost);
/* From that cursor on, apart; both are appended to. */
void job_output_split(const struct buf *bytes, const struct buf *runs, uint64_t base,
                      uint64_t cursor, struct buf *ret_out, struct buf *ret_errors);

/* ---- lanes.c: the sandboxes that have jobs ---- */

struct lane {
    struct lane *next; /* in its bucket */
    struct lane *all_next;
    char sandbox[ID_SIZE];
    uint64_t open;      /* jobs that wait or run */
    unsigned running;   /* the dispatcher's: commands that may run */
    bool heard;         /* there is news of the sandbox */
    bool maybe;         /* there may be one that is ready */
    int64_t blocked_ns; /* the dispatcher's: not before; 0 = now */
    int64_t block_ns;   /* for so long the next time */
    bool gone;          /* the dispatcher's: the sandbox is, and all that waits is to fail */
};

#define LANE_BUCKETS 1024

struct lanes {
    struct lane *buckets[LANE_BUCKETS];
    struct lane *all;
    uint64_t open;
};

struct lane *lanes_find(struct lanes *l, const char *sandbox);
/* Makes it if there is none. */
struct lane *lanes_get(struct lanes *l, const char *sandbox);
/* Those with nothing in them go. */
void lanes_sweep(struct lanes *l);
void lanes_done(struct lanes *l);

/* ---- the service ---- */

/* A command that runs, or that may: the dispatcher's own. */
struct run {
    struct run *next;
    struct lane *lane;
    struct job job;    /* as it was claimed; how it ended is put in here */
    struct exec *exec; /* NULL = not reached yet, or over */
    bool plain;        /* its sandbox is of an older cay, which does not know `once` */
    bool again;        /* it was started before, by another daemon */
    bool doomed;       /* cancelled: it is to end */
    bool over;         /* how it ended is known and not written yet */
    bool back;         /* could not start now: waits again, as if nothing had been */
    bool cancelled;    /* somebody had done that when its end was to be written */
    bool more;         /* there is more to read at once */
    bool was_paused;
    unsigned tries; /* of reaching it */
    int64_t until_ns;
    uint64_t lost;
    struct job_output output;
};

struct queue {
    struct queue_config config;
    struct engine *engine;
    struct events *events;
    struct jobs *jobs;
    int wake_fd, epoll_fd;
    pthread_t thread;
    bool started;
    atomic_bool stop;
    atomic_uint_fast64_t completed, failed, cancelled, retried, running;

    pthread_mutex_t lock; /* of what follows; nothing of the engine is called with it */
    struct lanes lanes;
    bool new_time;      /* one was delayed */
    bool new_over;      /* one was cancelled */
    struct buf cancels; /* int64_t: numbers of jobs whose commands are to end */

    /* the dispatcher's */
    struct run *runs;
    unsigned n_runs;
    unsigned turn;        /* of which lane it is to be first */
    int64_t next_time_ms; /* when a delayed job is due; 0 = none */
    bool look_at_times;   /* that may have changed */
    int64_t tick_ns;
    int64_t stuck_ns; /* nothing can be written until then */
    bool ended_some;  /* since it was last pruned */
};

/* ---- dispatch.c ---- */

void *queue_dispatch(void *arg);
void queue_wake(struct queue *q);
/* Its sandbox takes no commands now. */
void lane_block(struct queue *q, struct lane *lane);
void queue_add_run(struct queue *q, struct run *r);

/* ---- round.c ---- */

void queue_round(struct queue *q);

/* ---- run.c: one command ---- */

/* Takes what it needs of the job. */
struct run *run_new(struct queue *q, struct lane *lane, struct job *job);
void run_free(struct queue *q, struct run *r);
/* Starts its command. */
void run_start(struct queue *q, struct run *r);
/* Finds the command that another daemon started. */
void run_find(struct queue *q, struct run *r);
/* Reads what has come, and whether it has ended. */
void run_step(struct queue *q, struct run *r);
/* Its time has come, or nothing has. */
void run_look(struct queue *q, struct run *r);
/* Ends it; true when it is certain that it does not run any more. */
bool run_end(struct queue *q, struct run *r);
bool sandbox_is_gone(const struct err *err);

enum place { PLACE_GONE, PLACE_RUNS, PLACE_PAUSED, PLACE_STOPPED };
enum place place_of(struct queue *q, const char *sandbox);

/* How long before that retry, in ms: each is twice as long as the one before, up to a maximum, of
 * which a half is left to chance (0 ≤ chance < 1). */
int64_t queue_backoff(int64_t first_ms, unsigned retries, double chance);

/* ---- job_json.c ---- */

/* stdout and stderr from that cursor on. */
void put_streams(json_t *o, const struct job *j, uint64_t cursor);
json_t *job_json(const struct job *j, bool result);
/* Takes data. */
void queue_tell(struct queue *q, const char *topic, const char *sandbox, json_t *data);
