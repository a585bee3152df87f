#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct http_req;

/* WebSocket (RFC 6455), both sides (websocket_client.h dials). Frames are libwslay's; no extension
 is offered, so none
 * is in use. Nothing here waits: whoever has one calls when bytes may have come.
 *
 *  1. What is read is bounded: one message of at most message_max bytes, and what came with it.
 *     While there is a message that nobody has taken, nothing more is read, and a call reads no
     more than a piece: one that sends pings or parts of a message without end holds no thread.
 *  2. What is sent goes to the connection at once, which keeps what the peer does not take. A
 *     sender looks at how much that is before it sends more (http_unsent), and
 *     websocket_takes() is false while the answers to a peer's own pings would add to it.
 *  3. A peer that breaks the rules (frames that are not masked, or are where they must not,
 reserved bits, a text that is not
 *     UTF-8, a message that is too long or has too many parts) gets a Close that says so, and is
 read no more. */

#define WEBSOCKET_PROTOCOLS_MAX 1024 /* of the header that names subprotocols */

enum websocket_code {
    WEBSOCKET_NORMAL = 1000,
    WEBSOCKET_PROTOCOL = 1002,
    WEBSOCKET_NO_CODE = 1005, /* never sent: what a Close without a code counts as */
    WEBSOCKET_POLICY = 1008,
    WEBSOCKET_TOO_LONG = 1009,
    WEBSOCKET_FAILED = 1011,
    WEBSOCKET_RESTART = 1012, /* come back in a moment */
    WEBSOCKET_LATER = 1013,   /* there is no room for it now */
    WEBSOCKET_TOO_SLOW = 4008,
    WEBSOCKET_TAKEN = 4009, /* somebody else has it */
};

/* ---- the handshake ---- */

/* Does the request ask for a WebSocket, as the standard says? ERR_INVALID upgrade_required when it
 * asks for none, bad_websocket when it asks wrongly. Origin is the caller's to look at. */
int websocket_check(struct http_req *req, struct err *err);
/* Is that subprotocol in a list of Sec-WebSocket-Protocol? NULL = there is no list. */
bool websocket_list_has(const char *list, const char *protocol);
/* For a key that was checked. */
void websocket_accept_key(const char *key, char ret[32]);

/* ---- the connection ---- */

struct websocket;

struct websocket_io {
    ssize_t (*read)(void *arg, void *data, size_t len);    /* 0 = none now, -1 = none any more */
    int (*write)(void *arg, const void *data, size_t len); /* all of it, or -1: it has gone */
    size_t (*unsent)(void *arg);
    void *arg;
};

/* Answers 101 to a request that was checked, whose key this is; protocol NULL = no subprotocol is
 * chosen. NULL when the client has gone. The request must outlive it. */
struct websocket *websocket_accept(struct http_req *req, const char *key, const char *protocol,
                                   size_t message_max);
/* Over anything else, behind the handshake: the server's side, or the client's, which masks what it
 * sends. */
struct websocket *websocket_new(const struct websocket_io *io, size_t message_max);
struct websocket *websocket_new_client(const struct websocket_io *io, size_t message_max);
void websocket_free(struct websocket *ws);
/* Asked as each frame of a message begins, with all that the message has said it would have: false
 * closes with WEBSOCKET_LATER. For who has a bound over many of them. */
void websocket_set_room(struct websocket *ws, bool (*room)(void *arg, size_t bytes), void *arg);

struct websocket_message {
    bool is_text;
    const char *data; /* until the next call */
    size_t len;
};

/* The next whole message: 1, 0 = none now, -1 = there will be none any more: the peer has closed or
 * has gone, or was closed because of what it sent. */
int websocket_next(struct websocket *ws, struct websocket_message *ret);
/* Has one been read that was not taken? */
bool websocket_has_message(const struct websocket *ws);
/* Has a message begun that is not whole yet? */
bool websocket_has_part(const struct websocket *ws);
/* May more be read now? */
bool websocket_takes(const struct websocket *ws);
/* What is kept of what the peer has sent. */
size_t websocket_held(const struct websocket *ws);

/* -1 when the peer has gone, or was told Close. */
int websocket_send(struct websocket *ws, bool is_text, const void *data, size_t len);
/* Says Close; a reason is cut to what fits. Nothing is sent after it. */
void websocket_close(struct websocket *ws, unsigned code, const char *reason);
bool websocket_is_closed(const struct websocket *ws);
/* The code of the Close that the peer has sent; 0 = none came. */
unsigned websocket_peer_code(const struct websocket *ws);

/* A ping every so many nanoseconds, of which as many may stay without an answer, in place of one in
 * 25 s and 3. */
void websocket_set_pings(struct websocket *ws, int64_t every_ns, unsigned patience);
/* Pings the peer now; and how many pongs have come, of whatever ping: who has answered has read all
 * that was sent before. */
void websocket_ping(struct websocket *ws);
unsigned websocket_pongs(const struct websocket *ws);
/* When websocket_keep_alive() is to be called next (mono_ns). */
int64_t websocket_ping_ns(const struct websocket *ws);
/* Pings a peer that has been silent. -1 when it has not answered for long although it was listened
 * to. */
int websocket_keep_alive(struct websocket *ws, bool listened);
