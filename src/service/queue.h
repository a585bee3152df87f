#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

struct engine;
struct err;
struct events;
struct queue;

/* Jobs: commands that are kept until they have run. In each sandbox they start in the order of
 * priority and then of submission, so many at a time. docs/queue.md tells what users are promised;
 * queue/queue_internal.h how that is kept. */

struct queue_config {
    uint32_t concurrency;            /* of a sandbox */
    uint32_t running;                /* of all together */
    uint32_t sandbox_max, total_max; /* that wait or run */
    uint32_t keep, keep_days;        /* of those that are over */
};

/* events may be NULL. Copies config. */
int queue_open(const char *data_dir, const struct queue_config *config, struct engine *engine,
               struct events *events, struct queue **ret, struct err *err);
/* Starts the thread that runs jobs; first it finds those again that run. */
int queue_start(struct queue *q, struct err *err);
/* What runs goes on, if the engine is about to end. */
void queue_stop(struct queue *q);
void queue_close(struct queue *q);

/* What the engine tells, on any thread and under any lock: a sandbox may take jobs again. */
void queue_hear(struct queue *q, const char *topic, const char *sandbox);

struct queue_submission {
    const json_t *command; /* a string for the shell, or an array of arguments */
    const char *cwd, *user;
    const json_t *env;    /* object of strings; NULL = none */
    uint64_t timeout_ms;  /* 0 = the configured maximum */
    unsigned max_retries; /* tries, if more than 0 */
    int64_t retry_ms;     /* before the second try; then twice as long each time */
    bool retry_exit;      /* an exit code other than 0 is a failure too */
    int priority;
    int64_t run_ms; /* wall time before which it does not start; 0 = at once */
};

#define QUEUE_RETRIES_MAX  100
#define QUEUE_RETRY_S_MAX  3600
#define QUEUE_PRIORITY_MAX 1000
#define QUEUE_DELAY_S_MAX  (366 * 86400)

/* Each gives a Job. When it returns the job is on the disk. ERR_LIMIT "queue_full". */
int queue_submit(struct queue *q, const char *sandbox, const struct queue_submission *s,
                 json_t **ret, struct err *err);
int queue_get(struct queue *q, const char *id, json_t **ret, struct err *err);
/* The sandbox that it belongs to. */
int queue_owner(struct queue *q, const char *id, char ret[ID_SIZE], struct err *err);
/* Ends it, if it runs. */
int queue_cancel(struct queue *q, const char *id, struct err *err);
/* One that failed waits again, behind nobody who came later. */
int queue_requeue(struct queue *q, const char *id, json_t **ret, struct err *err);
/* Forgets one that failed (id), all of a sandbox, or all (both NULL). */
int queue_purge(struct queue *q, const char *id, const char *sandbox, uint64_t *ret,
                struct err *err);

struct queue_query {
    const char *sandbox; /* NULL = of any */
    const char *status;  /* NULL = any */
    uint32_t limit, offset;
};

/* {jobs, total}, the newest first, without their output. */
int queue_list(struct queue *q, const struct queue_query *query, json_t **ret, struct err *err);
/* JobLogs: what it has put out from the cursor on. */
int queue_logs(struct queue *q, const char *id, uint64_t cursor, json_t **ret, struct err *err);

/* For metrics. */
struct queue_numbers {
    uint64_t open; /* wait or run */
    uint64_t running;
    uint64_t completed, failed, cancelled, retried; /* since the daemon started */
};
void queue_numbers(struct queue *q, struct queue_numbers *ret);
