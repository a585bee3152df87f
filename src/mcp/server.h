#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget;
struct caller;
struct http_req;
struct mcp_providers;
struct mcp_server;
struct rate_state;
struct rates;
struct services;

/* A server of the Model Context Protocol over streamable HTTP. Any thread may call anything here.
 */

struct mcp_limits {
    unsigned sessions;   /* in all; past it the longest idle goes, or none is made */
    unsigned idle_s;     /* without a request or a stream; then it is unknown */
    unsigned in_flight;  /* requests of a session at once */
    unsigned batch;      /* messages in one array */
    size_t message;      /* bytes of a body */
    unsigned waiting;    /* messages of a session that no stream has taken */
    unsigned subscribed; /* URIs of a session or of a listening request */
    size_t output;       /* bytes of what a tool or a resource gives */
};

#define MCP_LIMITS_DEFAULT                                                                         \
    {                                                                                              \
        .sessions = 1000, .idle_s = 3600, .in_flight = 64, .batch = 32, .message = 24u << 20,      \
        .waiting = 128, .subscribed = 64, .output = 32u << 10                                      \
    }

struct mcp_config {
    const char *name, *title, *version, *instructions; /* of the server */
    struct mcp_limits limits;
    struct budget *memory;     /* that input is taken from; NULL = no bound */
    struct services *services; /* that know whether tokens live; NULL = all do */
};

/* The providers must outlive the server. */
struct mcp_server *mcp_server_new(const struct mcp_config *config,
                                  const struct mcp_providers *providers);
/* After the HTTP server has stopped: nothing of it is parked any more. */
void mcp_server_free(struct mcp_server *s);
const struct mcp_limits *mcp_server_limits(const struct mcp_server *s);

/* One request at the endpoint. Where it comes from (Host, Origin), who sends it and whether it may
 * as often as it does has been looked at. rates: NULL = it may. Always true: it is answered. */
bool mcp_handle(struct http_req *req, const struct caller *caller, struct rates *rates,
                const struct rate_state *rate, void *server);
