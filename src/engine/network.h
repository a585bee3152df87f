#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct engine;
struct engine_config;
struct err;

/* What a sandbox may reach, in its lifetime. */

#define NETWORK_ADDRESS_TEXT 46
/* The address that answers DNS in sandboxes. False = there are no networks. */
bool engine_nameserver(const struct engine_config *config, char ret[NETWORK_ADDRESS_TEXT]);

/* A SandboxNetwork: its policy, its addresses and what it was refused. */
int engine_network_get(struct engine *e, const char *id, json_t **ret, struct err *err);
/* network as in a create, NULL or false = none. In force when this returns, also for connections
 * that are open; of one that is paused or stopped too. Gives a SandboxNetwork. */
int engine_network_set(struct engine *e, const char *id, const json_t *network, json_t **ret,
                       struct err *err);

struct network_question {
    const char *host; /* a name or an address */
    uint16_t port;
    const char *protocol; /* tcp, udp or icmp */
};
/* What would happen, and why: a NetworkVerdict. Nothing is sent to anybody but a DNS server. */
int engine_network_explain(struct engine *e, const char *id, const struct network_question *q,
                           json_t **ret, struct err *err);
/* {denied: [NetworkDenial], next}: those after that number, the oldest first, the last `limit`. */
int engine_network_log(struct engine *e, const char *id, uint64_t after, uint32_t limit,
                       json_t **ret, struct err *err);
/* For who follows that: its descriptor is readable when there may be more, or the sandbox is gone;
 * seen() before looking. ERR_LIMIT "too_many_streams". */
struct network_watch;
int engine_network_watch(struct engine *e, const char *id, struct network_watch **ret,
                         struct err *err);
int network_watch_fd(const struct network_watch *w);
void network_watch_seen(const struct network_watch *w);
void network_watch_close(struct network_watch *w);
/* Is it one that a create takes? ERR_INVALID "bad_policy". */
int engine_network_check(const json_t *network, struct err *err);
