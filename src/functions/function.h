#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "functions/call.h"
#include "functions/reach.h"
#include "model/shape.h"

/* The one table of functions. Routing, input checking, /openapi.json, MCP tools and iii schemas
 * come from these rows; a new endpoint is one row and one function. What a row takes and gives is
 * told in fields and shapes (model/shape.h). */

enum function_flags {
    FUNCTION_RAW_IN = 1 << 0, /* may take bytes from a source */
    FUNCTION_OPEN = 1 << 1,   /* no token needed */
    FUNCTION_LOCAL = 1 << 2,  /* only for root at this machine: it names files of the host */
    FUNCTION_EVENTS = 1 << 3, /* tells how it goes with events, to who asks for them */
    FUNCTION_WAITS = 1 << 4,  /* may leave a task */
    /* For keys of requests (functions/keys.h): */
    FUNCTION_MAKES = 1 << 5, /* a POST that makes something, or nothing when it fails: takes keys */
    FUNCTION_TELLS = 1 << 6, /* and says what with call_makes() before there is anything of it */
    FUNCTION_SECRET = 1 << 7,      /* its answer has a secret that is shown once and kept nowhere */
    FUNCTION_ANY_SANDBOX = 1 << 8, /* sandboxId need not be of one that is there */
};

#define PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* What it counts as for its sandbox (functions/rates.h). */
enum rate { RATE_NONE, RATE_EXEC, RATE_FILE };

/* How the answer comes. */
enum answer_kind {
    ANSWER_JSON,       /* call->out, and texts */
    ANSWER_LIST,       /* items of the sink */
    ANSWER_TEXT,       /* bytes of the sink that are a text */
    ANSWER_BYTES,      /* bytes of the sink */
    ANSWER_TAR,        /* bytes of the sink that are an archive */
    ANSWER_EVENTS,     /* events of the sink, without an end of their own or until call->out */
    ANSWER_ATTACH,     /* output of the sink while input comes; then call->out */
    ANSWER_SOCKET,     /* the same for who speaks WebSocket: events, output, and then call->out */
    ANSWER_CAST,       /* bytes of the sink that are a recording: asciicast */
    ANSWER_PROMETHEUS, /* bytes of the sink that are metrics, as PROMETHEUS_TYPE says */
    ANSWER_DIAL,       /* a connection to a port of the sandbox, which the face makes and carries */
};

struct function {
    const char *id;             /* "cmd::run" */
    const char *method;         /* "POST" */
    const char *route;          /* below the prefix: "/sandboxes/:sandboxId/exec" */
    const struct field *fields; /* ends with {0}; path parameters are not repeated here */
    int (*run)(struct call *call, struct err *err);
    const char *tool; /* the MCP tool it backs, or NULL */
    enum scope scope;
    enum reach reach; /* what it is to a token for some sandboxes only: to be said by every row */
    const struct owned *owned; /* what in its input belongs to a sandbox; NULL = nothing more */
    unsigned flags;
    enum rate rate;
    enum answer_kind answer;
    const char *done;           /* of FUNCTION_EVENTS: the name of the last event, */
    const char *key;            /* which has call->out under this key */
    size_t body_max;            /* 0 = 1 MiB */
    const struct shape *gives;  /* its answer; NULL = bytes or events only */
    const struct shape *events; /* each of its events; NULL = there are none */
    const char *errors; /* the codes that it can fail with beside the general ones, with spaces
                           between them; NULL = none (functions/error_codes.h) */
    const char *help;   /* one line: what it does */
};

/* "read", "exec" and so on, by enum scope; and the words for enum reach. */
extern const char *const scope_words[SCOPES], *const reach_words[REACHES];

/* Every parameter that a route can have in its path, ended by {0}. */
extern const struct field path_params[];

/* The one that is called that; the name need not end at its end. NULL when there is none. */
const struct field *path_param(const char *name, size_t len);

/* One array a resource, each ended by {0}. */
extern const struct function sandbox_functions[], sandbox_network_functions[], exec_functions[],
    file_functions[], env_functions[], process_functions[], metrics_functions[], stream_functions[],
    image_functions[], pool_functions[], admin_functions[], template_functions[], build_functions[],
    snapshot_functions[], volume_functions[], proxy_functions[], terminal_functions[],
    network_functions[], port_functions[];
extern const struct function interpreter_functions[], context_functions[];
extern const struct function event_functions[];
extern const struct function file_watch_functions[];
extern const struct function observability_functions[];
extern const struct function git_functions[];
extern const struct function token_functions[];
extern const struct function webhook_functions[];
extern const struct function queue_functions[];
extern const struct function alert_functions[];
extern const struct function audit_functions[];
extern const struct function worker_functions[];
/* Rows without a route, which functions_each() does not have: only the iii face calls them. */
extern const struct function iii_grep_functions[];

/* The three steps of a call, of which a face takes the first as soon as it knows the row and the
 * last exactly once, when it is known how it ended and before the last of its answer leaves: it
 * went well, failed (r = -1), or nobody waits any more. */
void function_begin(const struct function *f, struct call *call);
/* May the caller, by what it is? ERR_FORBIDDEN. A face asks before it reads what may be long. */
int function_check(const struct function *f, const struct caller *caller, struct err *err);
/* Calls it, if the caller may: ERR_FORBIDDEN otherwise. call->in has been checked (input.h). A name
 * in place of a sandbox's id becomes that id first. */
int function_run(const struct function *f, struct call *call, struct err *err);
void function_end(struct call *call, int r, const struct err *err);
/* Instead of all three: a face has refused something before it knew what is called, or by whom. */
void function_refused(struct services *services, const struct err *err);

/* All of them, in the order of the documentation; calls each until it returns non-zero. */
int functions_each(int (*each)(const struct function *f, void *arg), void *arg);

/* The one of that id ("fs::read"), or NULL. */
const struct function *function_find(const char *id);

/* The OpenAPI 3.1 document of them; prefix is that of the REST routes. */
json_t *functions_openapi(const char *prefix);
