#pragma once

#include <jansson.h>
#include <stdint.h>

struct engine;
struct err;

/* A port of a sandbox that runs can be reached on the host from now on. request: a PortRequest;
 * gives a Port. ERR_CONFLICT "port_in_use" with who has the host's port, "port_exposed" when the
 * sandbox has it already; ERR_LIMIT "port_limit"; ERR_FORBIDDEN "address_not_allowed". */
int engine_port_expose(struct engine *e, const char *id, const json_t *request, json_t **ret,
                       struct err *err);
/* {ports} */
int engine_ports(struct engine *e, const char *id, json_t **ret, struct err *err);
/* protocol NULL = both. ERR_NOT_FOUND "port_not_found". Gives {removed}. */
int engine_port_remove(struct engine *e, const char *id, uint16_t port, const char *protocol,
                       json_t **ret, struct err *err);
