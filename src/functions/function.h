#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "model/shape.h"

struct rest;
struct engine;
struct err;
struct http_req;

/* The one table of functions. Routing, input checking, /openapi.json, MCP tools and iii schemas
 * come from these rows; a new endpoint is one row and one function. What a row takes and gives is
 * told in fields and shapes (model/shape.h). */

enum scope { SCOPE_NONE, SCOPE_READ, SCOPE_EXEC, SCOPE_WRITE, SCOPE_ADMIN };

struct call {
    struct engine *engine;
    const struct rest *rest;
    json_t *in;  /* checked and flat: query, then body, then path parameters; later wins */
    json_t *out; /* the answer; run() sets it (ownership passes), or has answered by itself */
    struct http_req *req; /* for functions that stream or take raw bodies; NULL on other faces */
    bool raw_in;          /* the body is bytes that run() reads with http_req_read() */
    bool raw_out;         /* the client asked for application/octet-stream */
    bool events;          /* the client asked for text/event-stream */
    bool admin;           /* the caller has proved more than that it can reach us */
};

enum function_flags {
    FUNCTION_STREAM = 1 << 0,  /* answers by itself, as server-sent events */
    FUNCTION_RAW_IN = 1 << 1,  /* may take application/octet-stream */
    FUNCTION_RAW_OUT = 1 << 2, /* may give application/octet-stream */
    FUNCTION_OPEN = 1 << 3,    /* no token needed */
    FUNCTION_DECODE = 1 << 4,  /* its path parameter is percent-decoded */
    FUNCTION_UPGRADE = 1 << 5, /* the connection becomes a stream of frames */
    FUNCTION_LOCAL = 1 << 6,   /* only for root on the unix socket: it names files of the host */
    FUNCTION_EVENTS = 1 << 7,  /* may tell how it goes, as server-sent events */
    FUNCTION_TAR = 1 << 8,     /* answers by itself, with application/x-tar */
};

struct function {
    const char *id;             /* "cmd::run" */
    const char *method;         /* "POST" */
    const char *route;          /* below the prefix: "/sandboxes/:sandboxId/exec" */
    const struct field *fields; /* ends with {0}; path parameters are not repeated here */
    int (*run)(struct call *call, struct err *err);
    const char *tool; /* the MCP tool it backs, or NULL */
    enum scope scope;
    unsigned flags;
    size_t body_max;            /* 0 = 1 MiB */
    const struct shape *gives;  /* its answer; NULL = bytes or events only */
    const struct shape *events; /* each of its events; NULL = there are none */
    const char *errors; /* the codes that it can fail with beside the general ones, with spaces
                           between them; NULL = none (functions/error_codes.h) */
    const char *help;   /* one line: what it does */
};

/* Every parameter that a route can have in its path, ended by {0}. */
extern const struct field path_params[];

/* The one that is called that; the name need not end at its end. NULL when there is none. */
const struct field *path_param(const char *name, size_t len);

/* One array a resource, each ended by {0}. */
extern const struct function sandbox_functions[], exec_functions[], file_functions[],
    env_functions[], process_functions[], metrics_functions[], stream_functions[],
    image_functions[], admin_functions[];

/* All of them, in the order of the documentation; calls each until it returns non-zero. */
int functions_each(int (*each)(const struct function *f, void *arg), void *arg);
