#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/websocket.h"

struct err;
struct http_answer;

/* WebSockets that we dial. What is sent and the server does not take yet is kept here, up to a
 * bound, so that one thread can have many: it polls for websocket_client_events(), then flushes and
 * takes what has come. Programs that do one thing after the other use the functions below that
 * wait. Not thread-safe. */

/* ---- addresses ---- */

struct websocket_url {
    char *host;   /* "name", "name:port" or "[v6]:port", as the header Host has it */
    char *target; /* path and query, "/" when there is none */
};

/* Of ws://host[:port][/path][?query]. ERR_INVALID "bad_url"; of wss:// ERR_UNSUPPORTED. */
int websocket_url_parse(const char *url, struct websocket_url *ret, struct err *err);
void websocket_url_done(struct websocket_url *url);

/* ---- dialling ---- */

struct websocket_client;

#define WEBSOCKET_UNSENT_DEFAULT (32u << 20)

struct websocket_dial {
    const char *url;
    char *const *headers; /* "Name: value"; NULL = none beside the usual ones */
    int timeout_ms;       /* for each address of the name, and then for the whole handshake */
    int stop_fd;          /* -1 = none; when it can be read: ERR_CONFLICT "cancelled" */
    size_t message_max;   /* of one that comes */
    size_t unsent_max;    /* past it the connection is lost; 0 = WEBSOCKET_UNSENT_DEFAULT */
};

/* ERR_UNAVAILABLE when nobody answers, with err->sys, or does not speak the protocol; "refused"
 * with the status and what the server says of it when that is not 101: ERR_NOT_FOUND of 404, and so
 * on.
 */
struct websocket_client *websocket_dial(const struct websocket_dial *dial, struct err *err);
void websocket_client_free(struct websocket_client *c);

/* The server's answer to the handshake, for which this accept was to come. */
int websocket_answer_check(const struct http_answer *a, const char *accept, struct err *err);

/* ---- without waiting ---- */

int websocket_client_fd(const struct websocket_client *c);
/* What messages are sent and taken with. */
struct websocket *websocket_client_socket(struct websocket_client *c);
/* What to poll the descriptor for; 0 while it neither takes nor has to send anything. Whoever has
 * taken one message looks for the next before it polls: it may have come already. */
short websocket_client_events(const struct websocket_client *c);
bool websocket_client_wants_write(const struct websocket_client *c);
/* Bytes that the server has not taken. */
size_t websocket_client_unsent(const struct websocket_client *c);
/* Sends of them what it takes now; -1 when it has gone. */
int websocket_client_flush(struct websocket_client *c);

/* ---- with waiting; -1 ms = as long as it takes ---- */

/* Sends a message and waits until all of it has left. */
int websocket_client_send(struct websocket_client *c, bool is_text, const void *data, size_t len,
                          int timeout_ms, struct err *err);
/* The next message: 1, 0 = none came in time, -1 = there will be none any more ("connection_lost",
 * or ERR_NONE when the server has said Close in order). */
int websocket_client_next(struct websocket_client *c, int timeout_ms, struct websocket_message *ret,
                          struct err *err);
/* Says Close and waits for the server's, throwing away what still comes. */
void websocket_client_close(struct websocket_client *c, unsigned code, const char *reason,
                            int timeout_ms);
