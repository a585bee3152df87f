#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct about;
struct budget;
struct caller;
struct engine;
struct err;
struct http_req;
struct iii_hub;
struct iii_link;
struct rate_state;
struct rates;
struct services;

/* The iii protocol: an endpoint for its clients, in place of an engine, and a link to a genuine
 * engine, for which we are the worker `iii-sandbox`. Any thread may call anything here. */

#define III_GRACE_MS_MAX 60000

struct iii_config {
    struct engine *engine;
    struct services *services;
    const struct about *about; /* whose iii has the settings */
    struct budget *memory;     /* that messages are taken from; NULL = no bound */
    struct budget *streams;    /* that what is unsent is taken from; NULL = no bound */
    uint32_t grace_ms; /* that registrations of a client without a name wait for it; 0 = 5000 */
    size_t unsent_max; /* of one client, in bytes; past it the connection is closed; 0 = 32 MiB */
};

/* ---- the hub ---- */

struct iii_hub *iii_hub_new(const struct iii_config *config);
int iii_hub_start(struct iii_hub *hub, struct err *err);
/* Ends all calls; no client is answered any more. Call it after the HTTP server has stopped and
 * before the engine does. */
void iii_hub_stop(struct iii_hub *hub);
void iii_hub_free(struct iii_hub *hub);

/* Requests for a WebSocket at "/" (a client), "/otel" (its telemetry) and below "/ws/channels/"
 * (one end of a channel). Host and Origin have been checked, and so has the caller, except for a
 * channel: there the key is enough. Each answers the request and returns true. */
bool iii_handle_worker(struct http_req *req, const struct caller *caller, struct rates *rates,
                       const struct rate_state *rate, void *hub);
bool iii_handle_otel(struct http_req *req, const struct caller *caller, struct rates *rates,
                     const struct rate_state *rate, void *hub);
bool iii_handle_channel(struct http_req *req, const struct caller *caller, struct rates *rates,
                        const struct rate_state *rate, void *hub);
