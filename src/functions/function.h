#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct rest;
struct engine;
struct err;
struct http_req;

/* The one table of functions. Routing, input checking, /openapi.json, MCP tools and iii schemas
 * come from these rows; a new endpoint is one row and one function. */

enum field_type {
    FIELD_STRING,
    FIELD_INT,
    FIELD_NUMBER,
    FIELD_BOOL,
    FIELD_STRINGS,    /* array of strings */
    FIELD_STRING_MAP, /* object of strings */
    FIELD_OBJECT,
    FIELD_ARRAY,
    FIELD_COMMAND, /* string (shell) or array of strings (argv) */
};

struct field {
    const char *name;
    enum field_type type;
    bool required;
    bool clamp;      /* a number outside min…max is moved to the nearer end, not refused */
    double min, max; /* of numbers (both 0 = any); of strings: length in bytes (0 = 1 MiB) */
    const char
        *preset; /* the default as JSON text, for the docs and filled in when absent; or NULL */
    const char *help; /* one line */
};

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
    const char *route;          /* below the prefix: "/sandboxes/:id/exec" */
    const struct field *fields; /* ends with {0}; path parameters are not repeated here */
    int (*run)(struct call *call, struct err *err);
    const char *tool; /* the MCP tool it backs, or NULL */
    enum scope scope;
    unsigned flags;
    size_t body_max;    /* 0 = 1 MiB */
    const char *help;   /* one line: what it does */
    const char *result; /* one line: what it answers */
};

/* One array a resource, each ended by {0}. */
extern const struct function sandbox_functions[], exec_functions[], file_functions[],
    env_functions[], process_functions[], metrics_functions[], stream_functions[],
    image_functions[], admin_functions[];

/* All of them, in the order of the documentation; calls each until it returns non-zero. */
int functions_each(int (*each)(const struct function *f, void *arg), void *arg);
