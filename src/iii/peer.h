#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iii/iii_internal.h"

/* A client that is connected: a WebSocket at "/", parked in the HTTP server. Its messages are read
 * by whichever worker the server wakes; any thread sends to it.
 *
 * Who has a reference of its asker has it; it is freed when the last has let go, the connection may
 * be gone long before. Locks: that of the hub before that of a peer; with the latter only what is
 * sent is touched. */

struct http_req;
struct websocket;

struct iii_unsent {
    char *text;
    size_t len;
    struct iii_unsent *next;
};

/* What it has said of itself (engine::workers::register). */
struct iii_metadata {
    bool given;
    char *name, *description, *runtime, *version, *os, *isolation; /* NULL = not said */
    int64_t pid;                                                   /* 0 = not said */
};

/* ---- socket.c: what all WebSockets of clients have ---- */

/* What is taken from a budget for a message that comes in. */
struct iii_intake {
    struct budget *memory;
    size_t held;
};

/* Is there room for so many bytes of it? For websocket_set_room(). */
bool iii_intake_room(void *intake, size_t bytes);
void iii_intake_give(struct iii_intake *in);
/* A message was taken. */
void iii_intake_taken(struct iii_intake *in, const struct websocket *ws);
/* The handshake; NULL when it was refused. */
struct websocket *iii_socket_accept(struct http_req *req, size_t message_max);
void iii_socket_refuse(struct http_req *req, const struct err *err);

/* ---- a peer ---- */

struct iii_peer {
    struct iii_asker asker; /* first: a peer is one who asks */
    struct iii_hub *hub;

    /* Of who owns the request: a step, or one who tells. */
    struct websocket *ws;
    struct iii_intake intake;
    bool refused;       /* to be closed, since another has its name */
    int64_t token_ns;   /* when to look again whether its token lives */
    bool unnamed;       /* its namespace is not known yet, */
    int64_t early_ns;   /* and is taken for the usual one then */
    json_t *early;      /* texts of messages that wait for it, in order; or NULL */
    json_t *early_ids;  /* {id: null} of the functions that they register; or NULL */
    size_t early_bytes; /* what those count as registered */
    unsigned ignored;   /* a bit per enum iii_ignored: which kinds were logged */

    /* Under its lock. */
    pthread_mutex_t lock;
    struct http_req *req; /* NULL = it has gone */
    struct iii_unsent *first, **last;
    size_t unsent;   /* bytes in that list, */
    size_t reserved; /* and what is taken from the budget for them and what the server keeps */
    bool too_slow, evicted;
    bool throttled; /* not read until calls have ended, or it has one to answer */

    /* Under the hub's lock. */
    char reattach_token[UUID_SIZE];
    struct iii_metadata about;
    int64_t connected_ms;
    struct iii_offer *offers; /* functions that it has registered */
    unsigned functions;       /* their number */
    size_t registered_bytes;
    bool forgotten; /* or not joined yet */
    struct iii_peer *prev, *next;

    atomic_uint in_flight; /* calls of its own that have no answer yet */
    atomic_uint forwarded; /* those of them that another client is to answer, or itself */
    atomic_uint serving;   /* calls that it has not answered yet */
};

/* Takes the text. Dropped when it has gone; one that does not take its messages is closed. */
void iii_peer_send(struct iii_peer *peer, char *text);
/* The same for what others want of it, which is no reason to close it. False: it has not taken
 * enough of what it was sent. */
bool iii_peer_offer(struct iii_peer *peer, char *text);
/* Closes it, because another connection has taken its place. */
void iii_peer_evict(struct iii_peer *peer);
/* A call of its own has ended. */
void iii_peer_served(struct iii_peer *peer);
/* It is to carry out a call of another's. */
void iii_peer_serves(struct iii_peer *peer);

/* ---- messages.c ---- */

/* One text that it has sent; on the thread that reads it. */
void iii_peer_take(struct iii_peer *peer, const char *text, size_t len);
/* Takes the messages that waited until the namespace of the connection is known. */
void iii_peer_replay(struct iii_peer *peer);

/* Messages that clients of an engine send and that mean nothing here. */
enum iii_ignored { IGNORED_TELEMETRY, IGNORED_TRIGGERS, IGNORED_UNKNOWN };

/* Logs that messages of this kind are ignored, once per connection; type is that of the first. */
void iii_peer_ignore(struct iii_peer *peer, enum iii_ignored kind, const char *type);
