#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct rest;
struct budget;
struct engine;
struct http_req;

/* The REST face of the engine. Everything here may be called from any thread. */

struct rest_config {
    const char *prefix;        /* "sandbox": every route is below /sandbox */
    const char *token;         /* NULL = none is needed */
    const gid_t *socket_group; /* members may use the unix socket without it; NULL = none */
    char *const *hosts;        /* names accepted in Host beside the loopback ones; "*" = any */
    char *const *origins;      /* web origins that may call; NULL = CORS is off */
    bool rate_enabled;
    unsigned rate_rpm, rate_burst;
    const char *runtime, *boundary; /* what GET /info says about the walls */
    struct budget *memory;          /* that input is taken from; NULL = no bound */
    struct budget *streams;         /* that what is unsent of streams is taken from */
};

/* Copies nothing: config and what it points to must outlive the face. */
struct rest *rest_new(const struct rest_config *config, struct engine *engine);
void rest_free(struct rest *rest);
/* The http_handler; arg is the struct rest. */
void rest_handle(struct http_req *req, void *arg);
