#pragma once

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "functions/call.h"
#include "mcp/rpc.h"

struct err;
struct mcp_server;
struct mcp_session;

/* What a server of the Model Context Protocol serves. The engine knows messages, versions, sessions
 * and streams; tools, resources and prompts are what providers have, who know nothing of these.
 * Every function of a provider may be called from any thread, and from several at once. */

/* Revisions of the protocol, the oldest first. From MCP_2026_07 on there is no handshake and no
 * session: every request says for itself which revision it speaks. */
enum mcp_version { MCP_2024_11, MCP_2025_03, MCP_2025_06, MCP_2025_11, MCP_2026_07, MCP_VERSIONS };

/* How grave a log message is, the least grave first. */
enum mcp_level {
    MCP_DEBUG,
    MCP_INFO,
    MCP_NOTICE,
    MCP_WARNING,
    MCP_ERROR,
    MCP_CRITICAL,
    MCP_ALERT,
    MCP_EMERGENCY,
    MCP_LEVELS,
    MCP_SILENT = MCP_LEVELS, /* none is wanted */
};

/* Which tools a client wants to see. */
#define MCP_CHOICE_MAX 64
struct mcp_choice {
    bool core, read_only;        /* only those that are at the core; that change nothing */
    char *names[MCP_CHOICE_MAX]; /* only these; none = no matter */
    size_t n;
};

/* Who asks, and over what. */
struct mcp_client {
    struct caller caller;
    struct rates *rates; /* as in struct call */
    struct rate_state rate;
    const char *traceparent, *tracestate;
    const struct mcp_choice *choice;
    int gone_fd; /* as in struct call */
    bool (*gone)(void *arg);
    void *gone_arg;
};

/* ---- one request ---- */

enum mcp_state {
    MCP_DONE,  /* it is answered */
    MCP_WAITS, /* for what its work says */
    MCP_AGAIN, /* there may be more at once */
};

struct mcp_op;

/* Work that is not done when a provider returns: as struct task of functions/call.h. */
struct mcp_work {
    const struct mcp_work_ops *ops;
    int fd;           /* -1 = none */
    uint32_t events;  /* EPOLLIN, EPOLLOUT; 0 = not now */
    int64_t until_ns; /* mono_ns; 0 = no time */
};

struct mcp_work_ops {
    /* MCP_DONE when it has answered. */
    enum mcp_state (*step)(struct mcp_work *w, struct mcp_op *op);
    /* Ends what still runs; of an op that was cancelled this is all that comes. */
    void (*free)(struct mcp_work *w, struct mcp_op *op);
};

/* A provider answers it with mcp_answer() or mcp_fail(), at once or in a step of the work that it
 * left. */
struct mcp_op {
    struct mcp_server *server;
    struct mcp_session *session; /* NULL = in a revision without */
    struct mcp_client *client;
    enum mcp_version version;
    const char *method;
    json_t *id, *params;    /* owned; params is an object */
    json_t *progress_token; /* in params; NULL = it does not want to hear of progress */
    enum mcp_level level;   /* the least grave message that it wants to hear */

    struct mcp_work *work;
    json_t *answer; /* the whole message, once there is one */

    /* Set by another thread: nobody waits for the answer. */
    _Atomic bool cancelled;

    /* Sends a message that belongs to this request ahead of its answer; takes it. False = it was
     * thrown away, since the client has not taken the last ones or takes none. */
    bool (*send)(struct mcp_op *op, json_t *message);
    void *transport;

    int64_t began_ns;
    double progress; /* that was told last */

    /* What the client answered to mcp_ask(), as {"result": …} or {"error": …}; NULL = not yet. */
    json_t *asked_id, *reply;

    struct mcp_op *prev, *next; /* of its session */
};

/* Both take the value. */
void mcp_answer(struct mcp_op *op, json_t *result);
void mcp_fail(struct mcp_op *op, int code, json_t *data, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* To who wants to hear of it: how far it is, as a number that only grows; text may be NULL, total
 * is 0 when it is not known. */
void mcp_progress(struct mcp_op *op, double progress, double total, const char *text);
/* Takes data. */
void mcp_log(struct mcp_op *op, enum mcp_level level, const char *logger, json_t *data);
/* Asks the client something (sampling/createMessage, elicitation/create); takes params. The op's
 * work is stepped once op->reply is there. False: this client cannot be asked. */
bool mcp_ask(struct mcp_op *op, const char *method, json_t *params);

/* ---- subscriptions ---- */

/* Somebody wants to hear when what is at the URI changes. */
struct mcp_subscription {
    char *uri;
    void *watch; /* the provider's */

    /* the engine's */
    struct mcp_session *session; /* who hears of it, or */
    struct mcp_listen *listen;
    bool changed;    /* and the request that listens has not been told */
    uint64_t number; /* of the last message to the session */
    struct mcp_subscription *next;
};

/* It has: from any thread, between the provider's subscribe and unsubscribe. */
void mcp_updated(struct mcp_server *s, struct mcp_subscription *sub);

enum mcp_list { MCP_LIST_TOOLS, MCP_LIST_RESOURCES, MCP_LIST_PROMPTS, MCP_LISTS };

/* There are others than before: everybody who listens is told. */
void mcp_list_changed(struct mcp_server *s, enum mcp_list list);

/* ---- what is served ---- */

/* Functions that list append objects as the protocol has them; the engine makes pages of them. */

struct mcp_tools {
    void (*list)(void *arg, struct mcp_op *op, json_t *ret);
    /* arguments is an object, borrowed from op->params. */
    void (*call)(void *arg, struct mcp_op *op, const char *name, json_t *arguments);
};

struct mcp_resources {
    void (*list)(void *arg, struct mcp_op *op, json_t *ret);
    void (*templates)(void *arg, struct mcp_op *op, json_t *ret);
    void (*read)(void *arg, struct mcp_op *op, const char *uri);
    /* NULL = nothing can be subscribed to. */
    int (*subscribe)(void *arg, struct mcp_op *op, struct mcp_subscription *sub, struct err *err);
    void (*unsubscribe)(void *arg, struct mcp_subscription *sub);
    bool list_changes; /* mcp_list_changed() tells of it */
};

struct mcp_prompts {
    void (*list)(void *arg, struct mcp_op *op, json_t *ret);
    /* arguments is an object, or NULL. */
    void (*get)(void *arg, struct mcp_op *op, const char *name, json_t *arguments);
};

/* Of an argument of a prompt, or of a variable of a resource's template: what could be meant.
 * Appends strings, the likeliest first; the engine cuts them to 100. */
typedef void (*mcp_complete)(void *arg, struct mcp_op *op, const json_t *ref, const char *name,
                             const char *value, const json_t *others, json_t *ret);

struct mcp_providers {
    void *arg;
    const struct mcp_tools *tools; /* of each NULL = there are none */
    const struct mcp_resources *resources;
    const struct mcp_prompts *prompts;
    mcp_complete complete;
};
