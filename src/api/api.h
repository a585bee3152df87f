#pragma once

#include <jansson.h>
#include <stdbool.h>

struct api;
struct engine;
struct http_req;

/* The REST face of the engine. Everything here may be called from any thread. */

struct api_config {
    const char *prefix;   /* "sandbox": every route is below /sandbox */
    const char *token;    /* NULL = none is needed */
    char *const *hosts;   /* names accepted in Host beside the loopback ones; "*" = any */
    char *const *origins; /* web origins that may call; NULL = CORS is off */
    bool rate_enabled;
    unsigned rate_rpm, rate_burst;
    const char *runtime, *boundary; /* what GET /info says about the walls */
};

/* Copies nothing: config and what it points to must outlive the api. */
struct api *api_new(const struct api_config *config, struct engine *engine);
void api_free(struct api *api);
const struct api_config *api_config(const struct api *api);

/* The daemon is about to end: streams that have no end of their own should end now, so that only
 * work is waited for. drain_fd becomes readable then. */
void api_drain(struct api *api);
int api_drain_fd(const struct api *api);

/* The http_handler; arg is the struct api. */
void api_handle(struct http_req *req, void *arg);

/* The OpenAPI 3.1 document of the table of functions. */
json_t *api_openapi(const char *prefix);
