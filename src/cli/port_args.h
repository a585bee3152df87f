#pragma once

#include <jansson.h>
#include <stdint.h>

struct args;
struct err;

/* [[ADDRESS:]HOST:]PORT[/udp], as docker has it, into the array `ports`, a PortRequest each; a
 * range (8000-8002:9000-9002) becomes several. Without HOST, or with 0, any free port is taken; an
 * IPv6 address stands in brackets. ERR_INVALID is a usage error. */
int port_read(const char *text, json_t *ports, struct err *err);

/* What -p says, into `ports` of a create's body. */
int port_args(const struct args *args, json_t *body, struct err *err);

/* A port's number alone: 0, or -EINVAL. */
int port_number(const char *text, uint16_t *ret);
