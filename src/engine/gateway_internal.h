#pragma once

#include <jansson.h>
#include <stdbool.h>

struct engine;
struct engine_config;
struct err;
struct gateway;

/* The daemon's side of cay-gateway, the process that holds the crossroads of all networks. It is
 * started when somebody first needs it, outlives the daemon, and is started again when it ends. One
 * JSON object a datagram, at <run>/gateway.sock; each request has an `op` and gets one answer:
 *   hello {port, from}                  {build, pid, worker, boxes, next}
 *   attach {id, policy, names} + netns  {address, address6|null, gateway, gateway6|null}
 *   policy {id, policy, names}          {cut}
 *   detach {id}                         {}
 *   join {network, name, id}            {}    leave {network, id} {}    names {id, names} {}
 *   explain {id, host, port, protocol}  {allowed, inspect, rule, why, name, addresses}
 *   settled                             {}: the daemon has told all that it knows
 *   watch                               {}, then a stream of {event: "denied", …}
 *   quit                                {}: it ends, and leaves all for the next
 *   stop                                {}: all is taken down and it ends
 * boxes: [{id, address, address6}], at most 1,000, from the one with the number `from` on; next is
 * where others go on. policy is false (nothing but its networks), true, or what policy_json()
 * gives. An attach of an id that is attached replaces that one; a detach of one that is not is
 * fine. */

struct gateway *gateway_new(const struct engine_config *config);
void gateway_free(struct gateway *g);

/* Takes over one that runs, and keeps it running from here on. */
int gateway_start(struct engine *e, struct err *err);
/* With all, or when no sandbox is attached, the gateway ends too, and leaves nothing behind. */
void gateway_stop(struct engine *e, bool all);

/* One request, which it takes, with a descriptor that stays the caller's (-1 = none). Starts the
 * gateway if need be. Waits for each answer for waits.gateway (engine.h). ret may be NULL. Fails
 * with gateway_down (it does not answer), network_unsupported (this machine cannot; says what is
 * missing), or what the request itself is refused for. Any thread. */
int gateway_call(struct engine *e, json_t *request, int fd, json_t **ret, struct err *err);

/* Both are set before gateway_start() and called on the gateway's own thread.
 * on_new: a gateway runs that was not told anything by this daemon; hello is what it knows. Whoever
 * has boxes sends what they are to have (attach, join), and detaches those that are not there.
 * on_event: what watch tells. */
typedef void (*gateway_new_fn)(struct engine *e, const json_t *hello);
typedef void (*gateway_event_fn)(struct engine *e, const json_t *event);
void gateway_hooks(struct engine *e, gateway_new_fn on_new, gateway_event_fn on_event);
