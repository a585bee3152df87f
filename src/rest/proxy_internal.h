#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/id.h"
#include "functions/proxied.h"
#include "http/answer.h"

struct auth_config;
struct auth_request;
struct err;
struct http_req;
struct rest;

/* What the files of the proxy share. proxy.c takes a request from here to there:
 *
 *   proxy_address.c  which port of which sandbox is meant
 *   proxy_access.c   may this one ask it?
 *   proxy_head.c     what the server in the sandbox is told, and what the client is told of its
 *                    answer
 *   proxy_relay.c    moves the bytes, both ways, without waiting
 *   proxy_pool.c     connections that are kept for the next request
 *   proxy_page.c     what is said when there is no answer */

/* ---- proxy_address.c ---- */

/* Bytes of a percent-encoded name in a path; route.c has the same limit for every sandboxId. */
#define PROXY_WORD_MAX 1024

struct proxy_address {
    bool by_host; /* its own host name, and so its own origin; else below the API */
    char word[PROXY_WORD_MAX + 1]; /* an id, a name or a selector */
    uint16_t port;
    const char *path;  /* what is asked for there: raw, starts with / */
    size_t prefix_len; /* of the request's path that comes before it; 0 by host */
};

enum proxy_found { PROXY_NONE, PROXY_FOUND, PROXY_BARE /* no / behind the port */ };

/* below: the path below the API's prefix, or NULL. host: the Host header, or NULL. */
enum proxy_found proxy_address(const char *domain, const char *host, const char *path,
                               const char *below, struct proxy_address *ret);

/* ---- proxy_access.c ---- */

/* Who asks, by what the request says about itself. */
struct proxy_asker {
    bool proved; /* has a token for this sandbox, or is a user of the unix socket that needs none */
    bool token;  /* is one needed, or was one sent? */
    bool foreign; /* a web page of another origin makes the browser ask */
};

enum proxy_verdict { PROXY_OPEN, PROXY_UNPROVED, PROXY_FOREIGN };

enum proxy_verdict proxy_judge(const struct proxy_asker *asker, const struct proxied *to);

/* Is it the doing of a page of another origin? Top-level navigation is not: people follow links.
 * The arguments are headers; NULL = absent. */
bool proxy_is_foreign(const char *method, const char *host, const char *origin, const char *site,
                      const char *mode, const char *dest);

/* ---- proxy_head.c ---- */

/* What a request is passed on as, and by what its answer is changed. All strings are its own. */
struct proxy_rules {
    uint16_t port;
    bool by_host;
    char prefix[PROXY_WORD_MAX + 256]; /* "/sandbox/proxy/web/8080"; "" by host */
    char own[320];                     /* the origin that the client knows: "http://host:port" */
    char cors[PROXIED_CORS_SIZE];      /* value for Access-Control-Allow-Origin; "" = none */
    bool cors_listed;                  /* it is the one origin, and not * */
    char cookie[PROXY_WORD_MAX +
                512]; /* value of a Set-Cookie of ours that keeps a signature; "" = none */
    bool is_upgrade;  /* the client asks for another protocol, and may */
    bool is_head, http10;
    char token_id[ID_SIZE]; /* of the token that it came with, which ends it; "" = none */
};

/* The value of the parameter in a raw query or a cookie list; false when it is not there. */
bool proxy_query_take(const char *query, const char *name, char *value, size_t size,
                      struct buf *rest);
bool proxy_cookie_take(const char *cookies, const char *name, char *value, size_t size,
                       struct buf *rest);

/* The head of the request for the sandbox. token: which Authorization is ours alone; NULL = none.
 * -1 when it becomes too long. */
int proxy_request_head(const struct http_req *req, const struct proxy_rules *rules,
                       const char *path, const char *token, struct buf *out);

/* The head of the answer for the client, but for the lines about length and connection, and the
 * empty line. */
int proxy_answer_head(const struct http_answer *a, const struct proxy_rules *rules,
                      struct buf *out);
/* Which of the trailers may be passed on. */
void proxy_trailers(const struct buf *trailers, struct buf *out);

/* ---- proxy_pool.c ---- */

struct proxy_pool;

struct proxy_pool *proxy_pool_new(void);
void proxy_pool_free(struct proxy_pool *p);
/* Counts a request of a sandbox: ERR_LIMIT past the maximum. */
int proxy_pool_enter(struct proxy_pool *p, const char *id, struct err *err);
void proxy_pool_leave(struct proxy_pool *p, const char *id);
/* A connection on which nothing is under way and nothing has come, or -1. */
int proxy_pool_take(struct proxy_pool *p, const char *id, uint16_t port);
/* Takes fd. */
void proxy_pool_put(struct proxy_pool *p, const char *id, uint16_t port, int fd);

/* ---- proxy_page.c ---- */

/* How the client is told that there is no answer; http_req cannot be asked once it is parked. */
struct proxy_manner {
    bool html;
    const char *cors; /* as in struct proxy_rules; NULL = none */
};

void proxy_refuse(struct http_req *req, const struct proxy_manner *manner, const struct err *err);

/* ---- proxy_relay.c ---- */

#define PROXY_DIAL_PROTOCOL "cay-dial"

/* Does the request ask for a connection? ERR_INVALID upgrade_required otherwise. */
int proxy_dial_check(struct http_req *req, struct err *err);
/* Makes the request's connection one to the port, which ends as that does, half by half. It must
 * have a seat. -1 when it is still to be answered. */
int proxy_dial(struct rest *rest, struct http_req *req, const char *id, uint16_t port,
               const char *token_id, struct err *err);

/* Passes the request on; answers it or parks it. */
void proxy_relay(struct rest *rest, struct http_req *req, const struct proxied *to,
                 const struct proxy_rules *rules, const char *path, bool html);
