#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/id.h"
#include "iii/cron.h"
#include "iii/iii_internal.h"

/* What the files of triggers share. Rules of the lock:
 * 1. One lock for all of it. Under it nobody is asked (iii_ask()), woken by HTTP or given back an
 *    asker: what is to be freed waits in `garbage` until triggers_unlock() has let go.
 * 2. All that calls functions by itself, but for requests of HTTP, is a job in a lane, and one
 *    piece of work, the clock, asks. So who publishes, changes something or answers may hold what
 *    locks it likes, and no chain of functions that publish grows a stack. */

#define BINDINGS_MAX  4096
#define QUEUES_MAX    256 /* that are named in calls */
#define DEFINED_MAX   256 /* that somebody has defined; half of them one's */
#define GROUP_BUCKETS 256
#define JOBS_MAX      10000         /* of others, in all lanes, dead letters too; half of one's */
#define DEAD_MAX      1000          /* of them; the oldest go, first of who has more than half */
#define JOB_LIMIT_NS  1800000000000 /* that a function has for one */
#define LANE_ALONE_NS 300000000000  /* that a topic keeps jobs for a function that nobody binds */
#define JOB_BYTES     512           /* of a job beside what it holds */

struct bound;
struct follow;
struct group;
struct http_req;
struct job;
struct lane;

/* ---- types ---- */

struct trigger_kind {
    const char *id, *help;
    const char *config, *payload; /* JSON Schemas of what is configured and what functions get */
    /* What the configuration says; without the lock. */
    int (*read)(struct iii_triggers *t, struct bound *b, const json_t *config, struct err *err);
    /* Under the lock. old: the one with the same id, which leaves then; or NULL. */
    int (*enter)(struct iii_triggers *t, struct bound *b, const struct bound *old, struct err *err);
    void (*leave)(struct iii_triggers *t, struct bound *b);
};

extern const struct trigger_kind http_trigger, api_trigger, queue_trigger, durable_trigger,
    subscribe_trigger, sandbox_trigger;

/* ---- a binding ---- */

struct lane_rules {
    unsigned at_once;  /* functions that have not answered */
    unsigned attempts; /* in all, for one job */
    int64_t backoff_ms;
    bool fifo;   /* one at a time, or of a group one, and one that fails holds up those behind it */
    bool buries; /* keeps those that failed to the last */
};

struct bound {
    atomic_uint refs;
    struct bound *prev, *next; /* of all; next also in the garbage */
    const struct trigger_kind *kind;
    char *id, *given_id, *function_id, *namespace;
    char *condition_id;        /* a function that may say false; NULL = none */
    json_t *metadata;          /* NULL = none */
    struct iii_asker *asker;   /* who made it; when it is gone, so is this */
    struct iii_asker *speaker; /* in whose name functions are called: the same, but no connection */
    struct lane *lane;         /* of all but http */

    struct cron cron;
    int64_t due_s;   /* -1 = never */
    int64_t told_ns; /* of what changes at the hub: when it was, or will be, told last */
    char *topic;
    struct lane_rules rules;
    char *method, *path; /* without the slash before it */
    char *shown;         /* the path as it was given */
    char **middleware;
    atomic_uint unanswered; /* of requests; also those that nobody waits for any more */
    atomic_int streams; /* does its function answer by channels? 1 = yes, -1 = no, 0 = unknown */
    unsigned events;    /* of sandboxes, by bit */
    char sandbox_id[ID_SIZE];
    int64_t answered_ns; /* when it last answered, or was asked what it had to answer first */
    unsigned missed;     /* that it was not told, since it did not answer, or not fast enough */
    json_t *known;       /* ids, for an asker who reaches those with a label; or NULL */
};

struct bound *bound_ref(struct bound *b);
/* Without the lock. */
void bound_unref(struct bound *b);
/* Is there still somebody in whose name it is called? */
bool bound_lives(const struct iii_triggers *t, const struct bound *b);

/* ---- all of them ---- */

struct iii_triggers {
    atomic_uint refs;
    struct iii_hub *hub;
    pthread_mutex_t lock;
    bool stops;
    struct work clock;
    struct bound *all;
    unsigned n;
    int64_t cron_due_ms, seen_ms; /* of the wall's clock: the next, and when it was last read */
    int64_t look_ns;              /* when to look who is gone */
    int64_t http_ns;              /* that a function has for a request */

    struct lane *lanes, *active, **active_end;
    unsigned n_queues, n_alone, n_defined;
    struct group *groups[GROUP_BUCKETS];
    struct job *delayed, *running, *running_end, *dead, *dead_end;
    int64_t delayed_due_ns; /* 0 = none */
    unsigned n_jobs, n_dead;
    struct budget room; /* of n_jobs, each one's share */

    struct follow *follow;   /* of what happens to sandboxes; NULL = nobody wants to know */
    unsigned watchers, told; /* bindings; jobs that tell them and are not done */
    int64_t stall_ns;        /* that one may not answer while its own maker's others wait for it */

    struct bound *garbage;
    struct job *garbage_jobs;
};

struct iii_triggers *triggers_ref(struct iii_triggers *t);
void triggers_unref(struct iii_triggers *t);
void triggers_lock(struct iii_triggers *t);
void triggers_unlock(struct iii_triggers *t);
/* The clock looks soon. */
void triggers_wake(struct iii_triggers *t);
/* Under the lock: out of the list, and freed when nobody uses it. */
void bound_remove(struct iii_triggers *t, struct bound *b);
/* "2026-07-03T12:00:00+00:00"; with its fraction unless ns is 0. */
#define TIME_TEXT 48
void time_text(char ret[TIME_TEXT], int64_t s, int64_t ns);

/* A string of config, or NULL. ERR_INVALID when it is something else, or too long. */
int config_text(const json_t *config, const char *key, const char **ret, struct err *err);

/* ---- lanes (lane_internal.h); all under the lock, but for the last ---- */

/* A lane of the binding's own. */
void lane_open(struct iii_triggers *t, struct bound *b, const struct lane_rules *rules);
/* The binding leaves its lane, which goes with it unless others have it too. */
void lane_leave(struct iii_triggers *t, struct bound *b);
/* A job of ours: takes data (NULL: what there is to say is asked for when it is due), and is not
 * done before at_ns (0 = now). */
void lane_tell(struct iii_triggers *t, struct lane *lane, json_t *data, int64_t at_ns);
/* Jobs that are not done; those of them that have not been begun. */
unsigned lane_pending(const struct lane *lane);
unsigned lane_waiting(const struct lane *lane);
/* Ends all of them, and how many: nobody hears what those that were begun answer. */
unsigned lane_empty(struct iii_triggers *t, struct lane *lane);
/* Does what is due. When it is to be called again (mono_ns); 0 = when something comes. */
int64_t lanes_tick(struct iii_triggers *t, int64_t now_ns);
void lanes_drop(struct iii_triggers *t);
void job_unref(struct iii_triggers *t, struct job *j);
struct job *job_garbage_next(struct job *j);
/* Without the lock: asks for some of what is ready; false when nothing is. */
bool lanes_run(struct iii_triggers *t);

/* ---- trigger_sandbox.c ---- */

/* Under the lock: one that the binding was told is done. */
void follow_told(struct iii_triggers *t, const struct bound *b);
/* Under the lock: somebody has been told, so that more may be read of what happens. */
void follow_wake(struct iii_triggers *t);

/* ---- trigger_route.c: paths of http; nothing here knows of triggers ---- */

#define ROUTE_MAX   1024 /* bytes of a path */
#define ROUTE_PARTS 64

/* Paths are given without the slash before them. ERR_INVALID. */
int route_check(const char *path, struct err *err);
/* Does that request's path fit? Then its parameters are added to params (NULL = not wanted), as
 * they came. */
bool route_matches(const char *route, const char *path, json_t *params);
/* Do both fit the same paths? */
bool route_is_same(const char *a, const char *b);
/* Of two that fit the same path: is the first one to be taken? Words come before parameters. */
bool route_is_closer(const char *a, const char *b);
/* {name: value} of a query; of a name that comes twice the last. */
json_t *route_query(const char *query);
/* {name: [value, …]} of it. */
json_t *route_query_lists(const char *query);
/* Text of which nobody says that it is UTF-8. */
json_t *route_text(const char *text, size_t len);

/* ---- trigger_path.c: bindings to such paths ---- */

/* The one that fits best, with a reference; and methods of those that fit but for that. */
struct bound *trigger_path_find(struct iii_triggers *t, const char *method, const char *path,
                                struct buf *ret_allow);

/* ---- trigger_answer.c: what requests of http are answered ---- */

struct trigger_answer {
    int status;
    struct buf headers; /* "Name: value", each with its NUL */
    bool typed;         /* Content-Type is one of them */
    char *body;
    size_t len;
};

void trigger_answer_done(struct trigger_answer *a);
/* Of one that goes on as a stream: no body. headers: as a function gives them, or NULL. */
void trigger_answer_head(struct trigger_answer *a, int status, json_t *headers);
/* The headers go into the answer of the request. */
void trigger_answer_put_headers(const struct trigger_answer *a, struct http_req *req);
/* Each fills an answer that holds nothing. {status_code, headers, body} of a function: what is
 * missing or makes no sense is as if it was fine and empty. */
void trigger_answer_result(struct trigger_answer *a, json_t *result);
/* {error: {code, message, error_id}, skipped}. */
void trigger_answer_error(struct trigger_answer *a, int status, const char *code,
                          const char *message, bool skipped);
void trigger_answer_err(struct trigger_answer *a, const struct err *err);

/* ---- trigger_stream.c: a request of http as two channels ---- */

struct trigger_stream;

enum stream_state {
    STREAM_UNUSED, /* nobody has come to write the answer */
    STREAM_OPEN,   /* somebody has, and nothing of it was sent */
    STREAM_BEGUN,  /* its head was sent */
    STREAM_SENT,   /* all of it was */
    STREAM_EMPTY,  /* it was closed, and nothing had been said */
    STREAM_LOST, /* who wrote it has gone before its end, of which so much was sent as there was */
};

/* maker: of whom the channels are; it must stay, as all else. The body is what was read of it,
 * which is copied; or, body NULL, is still to be taken (http_pass()). */
struct trigger_stream *trigger_stream_new(struct http_req *req, struct iii_channels *all,
                                          const struct iii_asker *maker, const char *body,
                                          size_t len);
/* Before the request ends: so do the channels. */
void trigger_stream_free(struct trigger_stream *s);
/* request_body and response, for the function. On any thread, once. */
void trigger_stream_offer(struct trigger_stream *s, json_t *payload);
/* Did the function want a channel that there was no room for? */
bool trigger_stream_was_refused(const struct trigger_stream *s);
/* Has somebody come to write the answer? */
bool trigger_stream_has_come(const struct trigger_stream *s);
/* In a step: moves what there is, both ways, until end_ns. True when something has moved. */
bool trigger_stream_move(struct trigger_stream *s, int64_t end_ns);
enum stream_state trigger_stream_state(const struct trigger_stream *s);
/* Has anything of the answer been sent? */
bool trigger_stream_has_begun(const struct trigger_stream *s);
/* Then: does it wait for bytes of the client, and until when (mono_ns; 0 = for what comes)? */
bool trigger_stream_wants_input(const struct trigger_stream *s);
int64_t trigger_stream_due_ns(const struct trigger_stream *s);
