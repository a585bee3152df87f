#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

struct engine;
struct err;

/* What a sandbox says about requests that are passed on to its ports. It is kept in its metadata,
 * where public clients look for it: proxy_cors, proxy_auth, proxy_timeout, and proxy_signed, the
 * number of times that signatures were taken back. */

#define PROXY_CORS_MAX       512
#define PROXY_TIMEOUT_MS_MIN 100
#define PROXY_TIMEOUT_MS_MAX 3600000

struct proxy_settings {
    char cors[PROXY_CORS_MAX + 1]; /* "*", origins with commas between them, or "" = none */
    bool require_auth;
    uint32_t timeout_ms; /* until the head of the answer has come */
    uint64_t revoked;
    bool exposed; /* is the port? */
};

/* ERR_NOT_FOUND; not more than a look into memory. */
int engine_proxy_settings(struct engine *e, const char *id, uint16_t port,
                          struct proxy_settings *ret, struct err *err);
/* Can be asked for something now? ERR_CONFLICT "sandbox_not_running" when it is paused or stopped.
 */
int engine_proxy_check(struct engine *e, const char *id, struct err *err);

struct proxy_change {
    const char *cors;         /* NULL = as it was */
    const bool *require_auth; /* so here */
    uint32_t timeout_ms;      /* 0 = as it was */
    bool revoke;              /* what was signed before is worth nothing any more */
};

/* Gives the settings as they are afterwards: {sandboxId, cors, requireAuth, timeout}. */
int engine_proxy_configure(struct engine *e, const char *id, const struct proxy_change *change,
                           json_t **ret, struct err *err);

/* ---- signatures: one port of one sandbox, until some time ---- */

#define PROXY_SIGNATURE_SIZE 80

/* A word that stands for the right to use that port until expires_ms, or until signatures are taken
 * back. It has characters that need no escape in a query or a cookie. */
int engine_proxy_sign(struct engine *e, const char *id, uint16_t port, int64_t expires_ms,
                      char ret[PROXY_SIGNATURE_SIZE], struct err *err);
/* Compared in constant time. */
bool engine_proxy_is_signed(const struct engine *e, const char *id, uint16_t port,
                            const struct proxy_settings *settings, const char *signature);
