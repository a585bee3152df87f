#pragma once

#include <curl/curl.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "courier/wire.h"

struct targets;

struct courier {
    CURLM *multi;
    struct targets *targets;
    const char *ca_file; /* NULL = the system's only */
    unsigned busy;       /* jobs that are under way */
};

/* ---- target.c ---- */

/* NULL = may be connected to; else what it is. ret: its address as text. host is the URL's. */
const char *target_refuse(const struct targets *targets, const char *host,
                          const struct sockaddr *address, char ret[COURIER_ADDRESS]);

/* ---- post.c: one request ---- */

struct job;

/* Begins it; it is in c->multi afterwards. url, headers and body are copied. When it cannot be
 * begun, it is told of at once. */
void job_start(struct courier *c, const struct courier_ask *ask, const char *url,
               const char *headers, const char *body);
/* libcurl has said how it ended: tells, and frees it. */
void job_end(struct courier *c, CURL *handle, CURLcode code);

/* ---- serve.c ---- */

/* To the daemon; ends the process when that is gone. */
void courier_tell(const struct courier_told *told);
_Noreturn void courier_serve(struct courier *c);
