#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "functions/call.h"
#include "rest/auth.h"

struct http_req;

#define REST_TOKEN_SIZE 1025 /* as long as a token may be, and its end */

struct rest {
    const struct rest_config *config;
    struct engine *engine;
    struct services *services;
    struct about about;
    struct auth_config auth;
    struct routes *routes;
    struct rates *rates; /* NULL = off */
    atomic_uint patient; /* threads that wait for a command to end at once */
    pthread_mutex_t reference_lock;
    struct buf reference; /* the page at /docs, once somebody has asked for it */
    struct proxy_pool *proxies;
    char *proxy_scheme, *proxy_host; /* as in struct about; */
    char *proxy_domain;              /* without the port */
};

/* ---- identify.c ---- */

/* token: where one that came as a subprotocol is put. */
struct auth_request rest_from(const struct rest *rest, struct http_req *req,
                              char token[REST_TOKEN_SIZE]);
/* Does it have "Cay-Client: NAME/VERSION", which clients of cay's own send with every request? */
bool rest_says_client(struct http_req *req);
/* Who has a token that was made for it (functions/callers.h) is that, whatever else is true of it:
 * also on the unix socket, and where none is needed. Without any token anybody on this machine, and
 * anything that can make it send requests, may call over TCP; such a caller has proved nothing. */
int rest_identify(const struct rest *rest, const struct auth_request *from, struct caller *ret,
                  struct err *err);
/* For an open row, which anybody may call, and which does more for who has proved something. */
void rest_identify_or_nobody(const struct rest *rest, const struct auth_request *from,
                             struct caller *ret);
