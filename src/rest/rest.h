#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "functions/rates.h"

struct about;
struct rest;
struct budget;
struct caller;
struct engine;
struct http_req;
struct iii_settings;
struct services;

/* The REST face of the engine. Everything here may be called from any thread. */

/* Another face on the same server. Where a request comes from, who sends it and how often has been
 * looked at when it is called; rates: NULL = the caller is not limited. False = it is none of its,
 * and nothing was answered. */
typedef bool (*rest_handler)(struct http_req *req, const struct caller *caller, struct rates *rates,
                             const struct rate_state *rate, void *arg);

struct rest_mount {
    const char *face; /* "mcp" */
    const char *path; /* "/mcp"; with a '/' at its end and more in front of that also all below */
    bool socket;      /* for requests to become a WebSocket only */
    bool open;        /* it looks itself who may: the caller is nobody */
    rest_handler handle;
    void *arg;
};

#define REST_MOUNTS_MAX 8

struct rest_config {
    const char *prefix;        /* "sandbox": every route is below /sandbox */
    const char *token;         /* that opens everything; NULL = there is none, and over TCP */
    bool require_token;        /* one that was made for the caller is needed; else none is */
    const gid_t *socket_group; /* members may use the unix socket without it; NULL = none */
    char *const *hosts;        /* names accepted in Host beside the loopback ones; "*" = any */
    char *const *origins;      /* web origins that may call; NULL = CORS is off */
    /* Ports of sandboxes are at PORT-ID.<this>: a name, or with a scheme (and a port) when that is
     * not http at the port below. */
    const char *proxy_domain;
    unsigned port; /* that is listened on; 0 = none */
    bool rate_enabled;
    struct rates_config rates;
    const char *runtime, *boundary;            /* what GET /info says about the walls */
    struct budget *memory;                     /* that input is taken from; NULL = no bound */
    struct budget *streams;                    /* that what is unsent of streams is taken from */
    const struct iii_settings *iii;            /* for struct about; NULL = the defaults */
    struct rest_mount mounts[REST_MOUNTS_MAX]; /* ended by one without a path */
};

/* Copies nothing: config and what it points to must outlive the face. */
struct rest *rest_new(const struct rest_config *config, struct engine *engine,
                      struct services *services);
/* What this daemon is, for another face; as long as this one lives. */
const struct about *rest_about(const struct rest *rest);
void rest_free(struct rest *rest);
/* The http_handler; arg is the struct rest. */
void rest_handle(struct http_req *req, void *arg);
