#pragma once

#include "iii/trigger_internal.h"

/* Jobs in lanes, all in memory: a restart of the daemon loses them.
 *
 * A lane is a named queue of calls (the action `enqueue`), a topic's for one function of one caller
 * (that his bindings of `queue` and `durable:subscriber` share when it is the same function; those
 * of another caller never have to do with it: what waits there is called in his name, by his rules
 * and his condition), or what a single binding is told. A job is one function that is to be called
 * with one value: it is ready, put off until a time, asked for, or dead. What a job that fails
 * comes to is its lane's to say.
 *
 * trigger_lane.c has both, trigger_ask.c asks, trigger_queue.c and trigger_dead.c are what callers
 * see. All of it is under the lock of triggers. */

#define JOB_DUMP (JSON_COMPACT | JSON_ENCODE_ANY)
#define JOB_LOAD (JSON_DECODE_ANY | JSON_ALLOW_NUL)

enum lane_kind { LANE_NAMED, LANE_TOPIC, LANE_OWN };
enum job_state { JOB_READY, JOB_DELAYED, JOB_RUNS, JOB_DEAD, JOB_OVER };

/* Those of a fifo's jobs that are to be done one after another: one of them, its owner, is ready,
 * put off or asked for, and the others wait for its end. */
struct group {
    struct group *next; /* in its bucket */
    struct lane *lane;
    char *key;
    struct job *owner;
    struct job *first, *last;
    unsigned jobs;
};

struct lane {
    struct lane *prev, *next;
    struct lane *next_active;
    bool active;
    enum lane_kind kind;
    char *name;                    /* of the queue or the topic; "" of a binding's own */
    char *function_id, *namespace; /* of a topic's, as is the next */
    char *binder;                  /* the name of the caller who has it */
    struct bound *consumer;        /* of all but named ones; NULL = none now */
    unsigned consumers;
    int64_t alone_ns; /* since when it has none */
    struct lane_rules rules;
    struct job *first, *last; /* that are ready */
    unsigned ready, delayed, running;
    unsigned held;     /* by others of their groups */
    char *group_field; /* of calls in a fifo: what their group is; NULL = they are in none */
    char *definer;     /* who gave it its rules, by which it stays; NULL = nobody */
    char definer_token[ID_SIZE];
    bool blocked; /* by one that failed, in a fifo */
};

struct job {
    atomic_uint refs;
    struct job *prev, *next; /* of where its state says; next also in the garbage */
    enum job_state state;
    struct lane *lane; /* NULL when it is over or dead */
    char id[UUID_SIZE];
    char *data; /* JSON; NULL = to be asked for */
    char *who;  /* whose share of the memory it is of; NULL = it is ours */
    size_t bytes;
    unsigned attempts;
    char *group_key;     /* NULL = it is in no group */
    struct group *group; /* while it has a lane, and was ready there */
    bool held;           /* it waits in the list of its group */
    bool prepared;       /* its condition holds, and data is there */
    bool paid;           /* its next call was counted when the message came */
    int64_t at_ns;       /* until when it is put off, or since when it runs */

    /* of calls in named queues */
    struct iii_asker *asker;
    char *function_id, *namespace, *metadata, *traceparent, *baggage;

    /* of dead ones */
    char *queue, *error;
    char *binder; /* of the topic's lane that it was in */
    int64_t failed_ms;
};

/* Takes the data: JSON, or NULL. */
struct job *job_new(char *data);
/* Out of whatever it is in; its lane stays its own. */
void job_leave(struct iii_triggers *t, struct job *j);
/* The end of it, which whoever still has it finds out. */
void job_end(struct iii_triggers *t, struct job *j);
/* Room for one more of a caller's: old dead letters make some. ERR_LIMIT "queue_full". */
int job_take_room(struct iii_triggers *t, const char *who, size_t bytes, struct err *err);
/* One that is in no list. ahead: before the others. */
void job_ready(struct iii_triggers *t, struct job *j, bool ahead);
/* Begins: it is among those that run. */
void job_run(struct iii_triggers *t, struct job *j);
void job_fail(struct iii_triggers *t, struct job *j, const char *error);
/* It was not asked for, and is when that time has come: that is no attempt. */
void job_wait(struct iii_triggers *t, struct job *j, int64_t until_ns);

struct lane *lane_new(struct iii_triggers *t, enum lane_kind kind, const char *name,
                      const struct lane_rules *rules);
struct lane *lane_find_queue(const struct iii_triggers *t, const char *name);
struct lane *lane_find_topic(const struct iii_triggers *t, const char *name,
                             const char *function_id, const char *namespace, const char *binder);
bool lane_can_run(const struct lane *l);
/* If it can run, its turn comes. */
void lane_arm(struct iii_triggers *t, struct lane *l);
void lane_disarm(struct iii_triggers *t, struct lane *l);
/* After something has left it: it goes if nobody needs it any more. */
void lane_settle(struct iii_triggers *t, struct lane *l);

extern const struct lane_rules queue_rules;

/* ---- trigger_group.c ---- */

/* The value of that member of the data, as text; free it. */
char *group_key_of(json_t *data, const char *field);
/* Of a job that becomes ready: false when it is another's turn; then the group keeps it. */
bool group_enter(struct iii_triggers *t, struct job *j);
/* Out of its list. */
void group_unlist(struct job *j);
/* Its end: the next one's turn has come, if it was its own. */
void group_leave(struct iii_triggers *t, struct job *j);
