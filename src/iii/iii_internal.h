#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/budget.h"
#include "functions/call.h"
#include "functions/iii.h"
#include "functions/pipe.h"
#include "functions/reach.h"
#include "iii/iii.h"
#include "iii/runner.h"
#include "iii/share.h"

/* ---- bounds: of one connection unless it says otherwise ---- */

#define III_MESSAGE_MAX   (16u << 20) /* bytes of a message */
#define III_IN_FLIGHT_MAX 256         /* calls that it waits for, of what we offer */
#define III_FORWARDED_MAX 2048        /* the same, of what clients offer */
#define III_CALLS_MAX     4096        /* the same, of all: see share.h */
#define III_FUNCTIONS_MAX 1024        /* that it has registered */
#define III_FUNCTIONS_ALL 8192        /* the same, of all: lists of them must stay short */
#define III_TRIGGERS_MAX  256
#define III_NAME_MAX      256  /* bytes of an id, a name, a namespace */
#define III_CHANNELS_MAX  1024 /* of all */
#define III_ENTERING_MAX  64   /* clients that wait to be let in, of all; half of one address */

#define III_NAMESPACE "default"

/* ---- the hub ---- */

struct iii_hub {
    struct iii_config config;
    char worker_id[UUID_SIZE]; /* of ourselves, as the owner of what we offer */
    int64_t started_ms;
    struct runner *runner;
    struct iii_registry *registry; /* of functions, workers, trigger types and bindings */
    struct iii_channels *channels;
    struct iii_triggers *triggers;
    struct iii_rows *rows;  /* that run */
    struct iii_line *line;  /* of questions about others */
    atomic_uint calls;      /* that wait for an answer of somebody's */
    struct budget entering; /* calls that ask who comes in, by where clients come from */
    int64_t answer_ns;      /* that a function has which says who is let in, or registers what */
};

/* A random one (version 4). */
void iii_uuid_new(char ret[UUID_SIZE]);
/* In any case and form of digits? */
bool iii_uuid_valid(const char *text);

/* ---- asking: one call of a function, whoever offers it ---- */

struct iii_peer;
struct iii_session;

/* Who asks. Counted, since an answer may outlive its connection. */
struct iii_asker {
    atomic_uint refs;
    struct caller caller;
    struct rates *rates;       /* NULL = it is not limited */
    char worker_id[UUID_SIZE]; /* of its connection; "" = none: a trigger */
    char namespace[III_NAME_MAX + 1];
    struct iii_share *share;     /* a reference; what it holds is taken from that */
    struct iii_session *session; /* its rules (rbac.h), a reference; NULL = it has none */
    atomic_bool gone;            /* nobody waits for its answers any more */
    void (*free)(struct iii_asker *a);
};

struct iii_asker *iii_asker_ref(struct iii_asker *a);
void iii_asker_unref(struct iii_asker *a);
/* One that is no connection, and has no session. */
struct iii_asker *iii_asker_new(const struct caller *caller, struct rates *rates,
                                const char *namespace);
/* The same for one who asks already, what a trigger asks for: with his session, and what it does
 * counts as his. */
struct iii_asker *iii_asker_for(const struct iii_asker *from);
/* One of that name and without a session, what it does counts as another's. */
struct iii_asker *iii_asker_beside(const struct caller *caller, const struct iii_asker *whose);
/* Nobody waits for its answers any more: what clients carry out for it ends before this returns,
 * the rest as soon as it finds out. */
void iii_asker_leave(struct iii_hub *hub, struct iii_asker *a);

struct iii_question {
    struct iii_asker *asker;
    struct iii_peer *peer; /* whose message it is, on the thread that reads it; NULL = nobody's */
    const char *namespace; /* NULL = III_NAMESPACE */
    const char *function_id;
    json_t *data;                      /* NULL = null; only looked at, as is the next */
    json_t *metadata;                  /* NULL = none */
    json_t *action;                    /* as who calls has said, for a middleware; NULL = none */
    const char *traceparent, *baggage; /* NULL = none */
    struct pipes *pipes;               /* NULL = those of the hub */
    bool trusted;  /* asked by the rules themselves: of nobody who is under them, and past them */
    size_t weight; /* bytes that data holds, where that is much; 0 = little */
};

/* Called once for each question, on any thread, with no lock held: one of the two is not NULL.
 * error is {code, message, stacktrace?}. Both are only lent. */
typedef void (*iii_answered)(void *arg, json_t *result, json_t *error);

/* Asks whoever offers it: an engine function of ours, a function that a client has registered, a
 * row of the table. The answer may come before this returns. answered NULL = nobody wants it. */
void iii_ask(struct iii_hub *hub, const struct iii_question *q, iii_answered answered, void *arg);

/* One more call of his waits for its answer, until iii_call_end(): NULL; or why that cannot be. */
json_t *iii_call_begin(struct iii_hub *hub, const struct iii_asker *asker);
void iii_call_end(struct iii_hub *hub, const struct iii_asker *asker);

/* May it call what others have registered, by whatever way? One that only reads may not, and one
 * for some sandboxes only: the functions are called in the name of others. */
static inline bool iii_may_call(const struct caller *caller)
{
    return (caller->scopes & 1u << SCOPE_EXEC) && !caller_is_restricted(caller);
}

/* ---- may.c ---- */

/* The function of the table that is called by that id; NULL = none. */
const struct function *iii_row_of(const char *namespace, const char *function_id);
/* May what happens call that function in his name? ERR_FORBIDDEN when every call would be refused,
 * so that he hears of it and not a queue of dead letters. */
int iii_may_bind(const struct iii_asker *asker, const char *namespace, const char *function_id,
                 struct err *err);
/* One more of the calls that he may make in a minute. ERR_LIMIT "rate_limited" with retry_s. */
int iii_take_rate(const struct iii_asker *asker, struct err *err);
/* The same for what nobody has sent a message for, if it is a function of the table. */
int iii_take_rate_of_row(const struct iii_question *q, struct err *err);

json_t *iii_error(const char *code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- rows.c: functions of the table ---- */

/* Calls it on a thread of the runner; f is a row of functions/iii.h or of the table. */
void iii_row_ask(struct iii_hub *hub, const struct function *f, const struct iii_question *q,
                 iii_answered answered, void *arg);
/* The calls of one who has gone find out. */
void iii_rows_wake(struct iii_hub *hub, const struct iii_asker *asker);
unsigned iii_rows_count(struct iii_hub *hub); /* that run */

/* ---- engine.c: functions of the hub itself ---- */

/* Is the id one of these, or one that only an engine may have? */
bool iii_engine_has(const char *id);
/* False when there is none of that id: then answered is not called. */
bool iii_engine_ask(struct iii_hub *hub, const struct iii_question *q, iii_answered answered,
                    void *arg);

/* Those of them that take a while, when their turn has come. */
void iii_engine_answer(struct iii_hub *hub, const struct iii_question *q, iii_answered answered,
                       void *arg);

/* ---- later.c: questions that are answered one after another ---- */

typedef void (*iii_run)(struct iii_hub *hub, const struct iii_question *q, iii_answered answered,
                        void *arg);

struct iii_line *iii_line_new(struct iii_hub *hub, iii_run answer);
/* After the runner has stopped. */
void iii_line_free(struct iii_line *line);
/* Copies what it needs: who asks, the function and data. Those who ask take turns. */
void iii_line_ask(struct iii_line *line, const struct iii_question *q, iii_answered answered,
                  void *arg);

/* ---- channels.c: streams of bytes with two ends ---- */

struct iii_channels *iii_channels_new(struct iii_hub *hub);
/* After the runner has stopped. */
void iii_channels_free(struct iii_channels *all);
/* {writer: ref, reader: ref}; items: how many messages wait in it at most. NULL: ERR_LIMIT. */
json_t *iii_channel_new(struct iii_channels *all, unsigned items, const struct iii_asker *maker,
                        struct err *err);
/* Those of the hub, for calls of functions. */
struct pipes *iii_channel_pipes(struct iii_channels *all);
/* The same for calls of one who asks: what they make ends with its token, and is taken from its
 * share. Pipes may outlive it. */
struct pipes *iii_channel_pipes_new(struct iii_channels *all, const struct iii_asker *maker);
void iii_channel_pipes_free(struct pipes *pipes);
/* Bytes that wait in all of them, and how many there are: for tests and metrics. */
size_t iii_channels_held(struct iii_channels *all);
unsigned iii_channels_count(struct iii_channels *all);

/* ---- triggers.c: what calls functions by itself ---- */

/* A function that is called when something happens. */
struct iii_binding {
    char id[III_NAME_MAX + 1];
    const char *given_id; /* as who made it calls it, for what functions are told; NULL = id */
    const char *type, *function_id, *namespace;
    json_t *config, *metadata; /* NULL = none */
    struct iii_asker *asker;   /* in whose name the function is called */
};

struct iii_triggers *iii_triggers_new(struct iii_hub *hub);
int iii_triggers_start(struct iii_triggers *t, struct err *err);
/* Before the runner stops: nothing is called any more. */
void iii_triggers_stop(struct iii_triggers *t);
/* After it has. Answers may still come. */
void iii_triggers_free(struct iii_triggers *t);
/* Is it one of our own types: http, cron, queue, sandbox …? */
bool iii_trigger_is_ours(const char *type);
/* [{id, description, trigger_request_format, call_request_format}] for introspection. */
json_t *iii_trigger_types(void);
/* Copies what it needs, and takes a reference of the asker. ERR_INVALID says what is wrong in the
 * configuration, ERR_CONFLICT who has it. An id that is bound already is bound anew. Neither this
 * nor what follows asks anything (iii_ask()) before it returns; unbinding may free askers. */
int iii_trigger_bind(struct iii_triggers *t, const struct iii_binding *b, struct err *err);
void iii_trigger_unbind(struct iii_triggers *t, const char *id);
/* The action `enqueue`: the function is called when its turn in the queue has come, again when it
 * fails. ret: the id of the receipt. ERR_LIMIT when the queue is full. */
int iii_enqueue(struct iii_triggers *t, const char *queue, const struct iii_question *q,
                char ret[UUID_SIZE], struct err *err);
/* The rules of a queue that calls name, which hold from now on and stay when its definer goes,
 * until the daemon ends: {type, message_group_field, concurrency, max_retries, backoff_ms}, those
 * of any queue where nothing is said. ERR_INVALID, ERR_LIMIT; ERR_FORBIDDEN when it is somebody
 * else's. */
int iii_queue_define(struct iii_triggers *t, const char *queue, const json_t *config,
                     const struct caller *who, struct err *err);
/* What has been published on a topic goes to all functions that are bound to it. */
int iii_publish(struct iii_triggers *t, const char *topic, json_t *data, struct iii_asker *asker,
                struct err *err);
/* Functions or workers have changed: those bound to the types engine::functions-available and
 * engine::workers-available are told. event NULL = functions. */
void iii_triggers_changed(struct iii_triggers *t, const char *event, const char *worker_id);

/* Queues and topics: [{name, broker_type, subscriber_count, depth, dlq_depth, function_id?,
 * config?}]; config: the rules of one that was defined. */
json_t *iii_queues(struct iii_triggers *t);
/* Calls that failed to the last: [{topic, broker_type, message_count}], and of one queue or topic
 * [{id, payload, function_id, error, failed_at, retries, size_bytes}]; payloads past what one
 * answer may take are null. A caller who reaches some sandboxes only has to do with its own. */
json_t *iii_dead_queues(struct iii_triggers *t, const struct caller *caller);
json_t *iii_dead_letters(struct iii_triggers *t, const char *queue, size_t offset, size_t limit,
                         const struct caller *caller);
/* Has them called again, or throws them away: how many. id NULL = all of the queue. */
unsigned iii_dead_redrive(struct iii_triggers *t, const char *queue, const char *id,
                          const struct caller *caller);
unsigned iii_dead_discard(struct iii_triggers *t, const char *queue, const char *id,
                          const struct caller *caller);
