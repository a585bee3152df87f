#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

/* Ports of a sandbox that can be reached on the host, as they stand in `ports` of its config: an
 * array of objects that is replaced as a whole and never changed in place. */

#define PORTS_MAX        64   /* of one sandbox */
#define PORTS_TOTAL_MAX  4096 /* of all */
#define PORT_ADDRESS_MAX 46   /* an IPv6 address as text */

enum port_protocol { PORT_TCP, PORT_UDP };
extern const char *const port_protocol_words[];

struct port_spec {
    uint16_t port;      /* in the sandbox */
    uint16_t host_port; /* 0 = any that is free, which no stored one has */
    bool any;           /* and it was so that it was asked for */
    enum port_protocol protocol;
    char address[PORT_ADDRESS_MAX]; /* of the host */
};

json_t *port_spec_json(const struct port_spec *p);
/* Of a stored row: ERR_INTERNAL when it is none. */
int port_spec_load(const json_t *o, struct port_spec *ret, struct err *err);
