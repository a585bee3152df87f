#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "functions/call.h"

struct err;
struct http_req;
struct websocket;

/* A call over a WebSocket: bytes of the sink are binary messages, events and the end are texts, and
 * a Close is the last. What comes in as binary is the call's input; a text is a word to it:
 * {"resize": {"cols", "rows"}} or {"signal": "SIGINT"}. */

#define SOCKET_PROTOCOL "cay" /* the subprotocol that is chosen, if it is offered */

struct socket {
    struct http_req *req;
    bool plain; /* there are no texts: they are taken and mean nothing, and none is sent */
    bool has_protocol;
    char key[25];
    struct websocket *ws; /* NULL = not yet */
};

/* Does the request ask for it? ERR_INVALID otherwise. */
int socket_init(struct socket *s, struct http_req *req, bool plain, struct err *err);
void socket_done(struct socket *s);

/* Each returns -1 once the client has gone. All begin it if that was not done. */
int socket_event(struct socket *s, const json_t *event); /* NULL = nothing to say */
int socket_output(struct socket *s, const void *data, size_t len);
void socket_exit(struct socket *s, const json_t *end);
void socket_error(struct socket *s, const struct err *err);

/* Gives what the client has sent to the task, as long as that takes it: 0; -1 when the client has
 * closed or gone, or has sent what it may not. */
int socket_input(struct socket *s, struct task *task, struct err *err);
/* Is there a message that was read and that the task has not taken? */
bool socket_has_message(const struct socket *s);
