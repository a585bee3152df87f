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
#define III_NAME_MAX      256         /* bytes of an id, a name, a namespace */
#define III_CHANNELS_MAX  1024        /* of all */

#define III_NAMESPACE "default"

/* The answer to clients that want a trigger or a queue. */
#define III_NO_TRIGGERS                                                                            \
    "cay has no triggers: connect it to a genuine iii engine as a worker (cay worker --engine "    \
    "URL) and register the trigger there"
#define III_NO_STATE                                                                               \
    "state, streams, queues and topics need a genuine iii engine, with cay as its worker (cay "    \
    "worker --engine URL)"
#define III_NO_QUEUES                                                                              \
    "cay has no queues for calls: connect it to a genuine iii engine with a queue worker (cay "    \
    "worker --engine URL) and enqueue the call there, or use cay's own queue::submit"

/* ---- the hub ---- */

struct iii_hub {
    struct iii_config config;
    char worker_id[UUID_SIZE]; /* of ourselves, as the owner of what we offer */
    int64_t started_ms;
    struct runner *runner;
    struct iii_registry *registry; /* of clients and their functions */
    struct iii_channels *channels;
    struct iii_rows *rows; /* that run */
    struct iii_line *line; /* of questions about others */
    atomic_uint calls;     /* that wait for an answer */
};

/* A random one (version 4). */
void iii_uuid_new(char ret[UUID_SIZE]);
/* In any case and form of digits? */
bool iii_uuid_valid(const char *text);

/* ---- asking: one call of a function, whoever offers it ---- */

struct iii_peer;

/* Who asks. Counted, since an answer may outlive its connection. */
struct iii_asker {
    atomic_uint refs;
    struct caller caller;
    struct rates *rates;       /* NULL = it is not limited */
    char worker_id[UUID_SIZE]; /* of its connection; "" = none */
    char namespace[III_NAME_MAX + 1];
    struct iii_share *share; /* a reference; what it holds is taken from that */
    atomic_bool gone;        /* its connection has ended: answers are dropped */
    void (*free)(struct iii_asker *a);
};

struct iii_asker *iii_asker_ref(struct iii_asker *a);
void iii_asker_unref(struct iii_asker *a);
/* One without a connection of its own. */
struct iii_asker *iii_asker_new(const struct caller *caller, struct rates *rates,
                                const char *namespace);

struct iii_question {
    struct iii_asker *asker;
    struct iii_peer *peer; /* whose message it is, on the thread that reads it; NULL = nobody's */
    const char *namespace; /* NULL = III_NAMESPACE */
    const char *function_id;
    json_t *data;                      /* NULL = null; only looked at, as is the next */
    json_t *metadata;                  /* NULL = none */
    const char *traceparent, *baggage; /* NULL = none */
    struct pipes *pipes;               /* NULL = those of the hub */
    size_t weight;                     /* bytes that data holds, where that is much; 0 = little */
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
