#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/id.h"

struct err;

/* Jobs: commands that run when their turn comes. In a database of their own, jobs.db. What is
 * committed outlives the daemon; what jobs_sync() has seen outlives a power cut. */

enum job_state {
    JOB_DELAYED, /* waits for run_ms */
    JOB_READY,
    JOB_RUNNING,
    JOB_COMPLETED, /* this one and the rest are final */
    JOB_FAILED,
    JOB_CANCELLED,
    JOB_STATES,
};

/* As callers see it: "pending" is both of the first. */
const char *job_word(enum job_state state);

struct job {
    int64_t seq; /* the order in which they were submitted; a part of the id */
    char id[ID_SIZE];
    char sandbox[ID_SIZE];
    enum job_state state;
    bool live;             /* its command may run: from before its start until its end is known */
    char exec_id[ID_SIZE]; /* of the last try; "" = there was none */
    char *command;         /* as text */
    char *request;         /* what else was asked for, as JSON; NULL = nothing */
    int priority;          /* the higher the earlier */
    int64_t timeout_ms;    /* 0 = as long as a command may */
    int64_t retry_ms;      /* before the first retry */
    bool retry_exit;       /* also when it exits with another code than 0 */
    unsigned retries, max_retries;
    int64_t run_ms; /* not before */
    int64_t created_ms, started_ms, ended_ms;
    char *error; /* of the last try; NULL = none */

    /* of one that has ended by itself, or whose last try has */
    bool has_result;
    int exit_code;
    char reason[16];
    double duration_ms;
    bool truncated;
    int64_t base;            /* bytes of output before those that are kept */
    struct buf output, runs; /* as service/queue has them; only where they are asked for */
};

void job_done(struct job *j);
#define auto_job __attribute__((cleanup(job_done)))

/* Is it the id of a job? */
bool job_id_valid(const char *id);

struct jobs;

int jobs_open(const char *data_dir, struct jobs **ret, struct err *err);
void jobs_close(struct jobs *s);
int jobs_sync(struct jobs *s, struct err *err);

/* ---- for callers ---- */

/* Gives it seq and id. */
int jobs_add(struct jobs *s, struct job *j, struct err *err);
/* ERR_NOT_FOUND "job_not_found". */
int jobs_get(struct jobs *s, const char *id, bool output, struct job *ret, struct err *err);
/* What it was before is in *ret. ERR_CONFLICT "job_not_pending" when it is over already. */
int jobs_cancel(struct jobs *s, const char *id, int64_t now, struct job *ret, struct err *err);
/* One that failed is ready again, with all its tries. ERR_CONFLICT "job_not_failed". */
int jobs_requeue(struct jobs *s, const char *id, struct job *ret, struct err *err);
/* Forgets those that failed: of that sandbox, or all (NULL); *ret is how many. */
int jobs_purge(struct jobs *s, const char *sandbox, uint64_t *ret, struct err *err);
int jobs_purge_one(struct jobs *s, const char *id, struct err *err);

struct jobs_query {
    const char *sandbox;      /* NULL = of any */
    enum job_state states[3]; /* any of these */
    size_t n_states;          /* 0 = any */
    uint32_t limit, offset;
};

/* Calls each, the newest first, without output; *ret_total is how many there are in all. It must
 * not call anything here. */
int jobs_list(struct jobs *s, const struct jobs_query *q,
              void (*each)(const struct job *j, void *arg), void *arg, uint64_t *ret_total,
              struct err *err);

/* ---- for the one who runs them ----
 *
 * Between begin and commit; all of it happens or nothing does. Each says with -1 that it failed:
 * the commit then does, too. */

int jobs_begin(struct jobs *s, struct err *err);
int jobs_commit(struct jobs *s, struct err *err);

/* The first so many of a sandbox that are ready run from now on, each with a new exec id; calls
 * each, which keeps what it wants of it. */
int jobs_claim(struct jobs *s, const char *sandbox, unsigned most, int64_t now,
               void (*each)(struct job *j, void *arg), void *arg);
/* As it was before the claim. */
int jobs_unclaim(struct jobs *s, int64_t seq);
/* How a try ended: state, retries, run_ms, ended_ms, error and the result, with output. *ret is
 * false when it had been cancelled meanwhile; then only that it does not run is noted. */
int jobs_put_end(struct jobs *s, const struct job *j, bool *ret);
/* Those whose time has come are ready; calls each with their sandboxes. */
int jobs_make_ready(struct jobs *s, int64_t now, void (*each)(const char *sandbox, void *arg),
                    void *arg);
/* The next time that one becomes ready; 0 = none is delayed. */
int jobs_next_time(struct jobs *s, int64_t *ret);
/* All of a sandbox that wait fail; calls each with id. */
int jobs_fail_waiting(struct jobs *s, const char *sandbox, const char *error, int64_t now,
                      void (*each)(const char *id, void *arg), void *arg);
/* Of those that are over: what ended before that time goes, and the oldest past so many, first of
 * a sandbox that has more than half of them: what others have is not forgotten for it. Some
 * thousand a call at most. */
int jobs_prune(struct jobs *s, int64_t before, uint64_t most, uint64_t *ret);

/* Outside of a transaction. Those that are live, with all that is needed to run them again. */
int jobs_each_live(struct jobs *s, void (*each)(struct job *j, void *arg), void *arg,
                   struct err *err);
/* How many of each sandbox wait or run. */
int jobs_each_sandbox(struct jobs *s, void (*each)(const char *sandbox, uint64_t n, void *arg),
                      void *arg, struct err *err);
