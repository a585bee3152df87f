#pragma once

#include <jansson.h>

struct engine;
struct err;

/* Named networks: sandboxes in one see each other, by name and address, and nothing else of it. A
 * word is an id or a name; no two networks have the same name. ERR_NOT_FOUND "network_not_found".
 */

#define NETWORK_NAME_MAX 63
/* Sandboxes of a network, and networks of a sandbox: with them all that one is told of its peers
 * fits into one message to the gateway's worker. */
#define NETWORK_MEMBERS_MAX  100
#define SANDBOX_NETWORKS_MAX 4

/* Gives a Network; ERR_CONFLICT "network_exists", ERR_LIMIT "network_limit". */
int engine_networks_create(struct engine *e, const char *name, json_t **ret, struct err *err);
/* {networks: [Network]}, the newest first. */
void engine_networks_list(struct engine *e, json_t **ret);
int engine_networks_get(struct engine *e, const char *word, json_t **ret, struct err *err);
/* Its sandboxes are disconnected first. *ret_id is the caller's. */
int engine_networks_remove(struct engine *e, const char *word, char **ret_id, struct err *err);

/* At once when it runs or is paused, and whenever it is started; also one without network, which
 * then reaches the network's members and nobody else. ERR_CONFLICT "network_connected", ERR_LIMIT
 * "network_limit". */
int engine_networks_connect(struct engine *e, const char *word, const char *sandbox_id,
                            struct err *err);
/* What is open between it and the others is cut. ERR_CONFLICT "network_not_connected". */
int engine_networks_disconnect(struct engine *e, const char *word, const char *sandbox_id,
                               struct err *err);
