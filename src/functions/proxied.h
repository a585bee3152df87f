#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

struct caller;
struct engine;
struct err;

/* What a face needs to pass requests on to ports of sandboxes by itself, byte by byte, beside the
 * row that does it in one piece of JSON. */

#define PROXIED_CORS_SIZE 513

/* In a query, and as a cookie. */
#define PROXIED_SIGNATURE "cay_signature"

struct proxied {
    char id[ID_SIZE];
    bool by_name;   /* and not by its id, which nobody guesses */
    bool exposed;   /* the port is one that its owner has exposed */
    bool is_signed; /* one of the signatures is right, */
    bool by_first;  /* and that is the first one */
    bool reached;   /* the caller may send requests to its ports */
    bool require_auth;
    uint32_t timeout_ms;
    char cors[PROXIED_CORS_SIZE];
};

/* word: an id or a name. caller: who asks; NULL = nobody knows. signatures: two that may be NULL.
 * ERR_NOT_FOUND, ERR_CONFLICT name_ambiguous. */
int proxied_find(struct engine *e, const struct caller *caller, const char *word, uint16_t port,
                 const char *const signatures[2], struct proxied *ret, struct err *err);
/* Is it running? ERR_CONFLICT sandbox_not_running. */
int proxied_check(struct engine *e, const char *id, struct err *err);
/* As engine_dial() says: the socket is hostile and never to be waited for. */
int proxied_dial(struct engine *e, const char *id, uint16_t port, int *ret_fd, struct err *err);
/* Requests go to it: it is not idle. */
void proxied_active(struct engine *e, const char *id);
/* In place of close(), which such a socket could be made to wait in. */
void proxied_close(int fd);
