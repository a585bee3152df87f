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

struct iii_config {
    struct engine *engine;
    struct services *services;
    const struct about *about; /* whose iii has the settings */
    bool open;                 /* who can reach the daemon may call, without a token */
    struct budget *memory;     /* that messages are taken from; NULL = no bound */
    struct budget *streams;    /* that what is unsent is taken from; NULL = no bound */
};

/* ---- what guards a listener (rbac) ---- */

struct iii_guard;

/* By what config.yaml says of a listener: {rbac, middleware_function_id}, of which one is there.
 * NULL: ERR_INVALID. It must outlive the hub. */
struct iii_guard *iii_guard_new(const json_t *listener, struct err *err);
void iii_guard_free(struct iii_guard *g);
/* Does a function say who may come in? */
bool iii_guard_asks(const struct iii_guard *g);

/* ---- the hub ---- */

struct iii_hub *iii_hub_new(const struct iii_config *config);
int iii_hub_start(struct iii_hub *hub, struct err *err);
/* What runs for others is ended, and nobody is told anything any more: before the engine stops, and
 * after the HTTP server has. */
void iii_hub_stop(struct iii_hub *hub);
void iii_hub_free(struct iii_hub *hub);

/* Requests at "/", "/otel" and "/ws/channels/", all of which are to become WebSockets, and those
 * that no route is for, which a trigger of the type `http` may want. Where it comes from (Host,
 * Origin) has been looked at, and who sends it, but for channels: there the key is enough. At "/" a
 * caller without scopes is one who came in by a listener with a guard, which is the mark of its
 * socket (http_req_listener()), and has no token. False = it is none of ours, and nothing was
 * answered. */
bool iii_handle_worker(struct http_req *req, const struct caller *caller, struct rates *rates,
                       const struct rate_state *rate, void *hub);
bool iii_handle_otel(struct http_req *req, const struct caller *caller, struct rates *rates,
                     const struct rate_state *rate, void *hub);
bool iii_door_channel(struct http_req *req, const struct caller *caller, struct rates *rates,
                      const struct rate_state *rate, void *hub);
bool iii_door_http(struct http_req *req, const struct caller *caller, struct rates *rates,
                   const struct rate_state *rate, void *hub);

/* What the last two ask: an end of a channel, and a function that is bound to the path. */
bool iii_handle_channel(struct http_req *req, const char *channel_id, struct iii_hub *hub);
bool iii_handle_http(struct http_req *req, const struct caller *caller, struct iii_hub *hub);
