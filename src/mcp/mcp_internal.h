#pragma once

#include <pthread.h>

#include "base/id.h"
#include "mcp/provider.h"
#include "mcp/server.h"

struct http_req;
struct mcp_exchange;
struct mcp_stream;

/* A message that waits for a stream of its session. */
struct mcp_waiting {
    uint64_t number; /* 1, 2, 3 … in its session: its id as an event */
    char *text;
};

/* A client of a revision with a handshake. Everything below is under the server's lock, but for
 * what never changes after it was made. */
struct mcp_session {
    char id[ID_SIZE];
    char owner[64]; /* caller.name: nobody else finds it */
    enum mcp_version version;
    struct mcp_choice choice;

    unsigned used; /* requests and streams that have it; it is freed when it is gone and unused */
    bool gone;
    int64_t used_ns;
    enum mcp_level level;
    bool can_sample, can_elicit;

    struct mcp_op *ops; /* requests that are being answered */
    unsigned n_ops;

    struct mcp_waiting *waiting; /* a ring, of limits.waiting */
    uint64_t first, next;        /* numbers of the oldest that is kept, and of the next */
    uint64_t taken;              /* the last that a stream has taken */
    struct mcp_stream *stream;   /* the one that is open; NULL = none */

    struct mcp_subscription *subscriptions;
    unsigned n_subscriptions;

    struct mcp_session *prev, *next_session;
};

struct mcp_server {
    struct mcp_config config;
    const struct mcp_providers *providers;

    pthread_mutex_t lock;
    struct mcp_session *sessions; /* the one that was used last comes first */
    unsigned n_sessions;
    struct mcp_listen *listens; /* requests that listen */
    unsigned n_listens;
    uint64_t asks; /* that clients were asked */
};

extern const char *const mcp_version_words[MCP_VERSIONS + 1], *const mcp_level_words[];

/* The version or the level of that name, or -1. */
int mcp_version_of(const char *word);
int mcp_level_of(const char *word);

/* ---- choice.c ---- */

/* From the query of a request: tools=core|all|a,b,c and readOnly=true. ERR_INVALID. */
int mcp_choice_read(struct mcp_choice *c, const char *query, struct err *err);
void mcp_choice_copy(struct mcp_choice *to, const struct mcp_choice *from);
void mcp_choice_done(struct mcp_choice *c);

/* ---- op.c ---- */

/* Takes nothing: id and params are referred to. NULL params are an empty object. */
struct mcp_op *mcp_op_new(struct mcp_server *s, struct mcp_session *session,
                          struct mcp_client *client, enum mcp_version version,
                          const struct rpc_message *message);
/* As far as it goes without waiting. Nothing of one that is cancelled. */
enum mcp_state mcp_op_begin(struct mcp_op *op);
enum mcp_state mcp_op_step(struct mcp_op *op);
void mcp_op_free(struct mcp_op *op);
json_t *mcp_server_info(const struct mcp_server *s);

/* ---- methods.c ---- */

/* Answers, or leaves work. */
void mcp_method_call(struct mcp_op *op);
/* Of a message that wants no answer. */
void mcp_notified(struct mcp_server *s, struct mcp_session *session,
                  const struct rpc_message *message);

/* ---- session.c ---- */

/* NULL with err when there are too many. It is used once already. */
struct mcp_session *mcp_session_new(struct mcp_server *s, const struct caller *caller,
                                    enum mcp_version version, const struct mcp_choice *choice,
                                    struct err *err);
/* NULL when there is none that this caller may have; else it is used once more. */
struct mcp_session *mcp_session_find(struct mcp_server *s, const struct caller *caller,
                                     const char *id);
void mcp_session_leave(struct mcp_server *s, struct mcp_session *session);
/* Its requests are cancelled and its stream ends. */
void mcp_session_end(struct mcp_server *s, struct mcp_session *session);
/* A request of it begins; -1 when too many have. The op must leave before it is freed. */
int mcp_session_enter(struct mcp_session *session, struct mcp_op *op, struct err *err);
void mcp_session_exit(struct mcp_op *op);
void mcp_session_cancel(struct mcp_server *s, struct mcp_session *session, const json_t *id);
/* The client's answer to mcp_ask(); takes nothing. */
void mcp_session_reply(struct mcp_server *s, struct mcp_session *session,
                       const struct rpc_message *message);
/* Under the server's lock: a message for the stream; takes it. */
void mcp_session_put(struct mcp_server *s, struct mcp_session *session, json_t *message);
/* Takes the subscription away from its session; NULL when it has none of that URI. */
struct mcp_subscription *mcp_session_unsubscribe(struct mcp_server *s, struct mcp_session *session,
                                                 const char *uri);

/* ---- http.c ---- */

struct buf;

/* A refusal before there is anything to answer: an error without an id, with that status. */
void mcp_refuse(struct http_req *req, int status, int code, json_t *id, const char *text,
                json_t *data);
/* The session that the request names, which is used once more; or refuses it. */
struct mcp_session *mcp_named_session(struct mcp_server *s, struct http_req *req,
                                      const struct caller *caller);
/* One message as an event; number 0 = without an id. */
void mcp_event(struct buf *out, const char *text, uint64_t number);

#define MCP_PING_NS (15 * 1000000000ll)

/* ---- exchange.c: a POST ---- */

/* Reads, answers or parks it. */
void mcp_exchange_run(struct mcp_server *s, struct http_req *req, const struct caller *caller,
                      struct rates *rates, const struct rate_state *rate);
/* Of an op whose transport is an exchange: has its step called soon. Under the server's lock, while
 * the op is in its session. */
void mcp_exchange_wake(struct mcp_op *op);

/* ---- stream.c: a GET ---- */

void mcp_stream_run(struct mcp_server *s, struct http_req *req, const struct caller *caller,
                    struct mcp_session *session);
/* Under the server's lock. */
void mcp_stream_wake(struct mcp_stream *stream);

/* ---- listen.c: the request that listens, of revisions without sessions ---- */

void mcp_listen_begin(struct mcp_op *op);
/* Answers it, since the daemon is about to end. */
void mcp_listen_end(struct mcp_op *op);
