#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "model/port.h"
#include "model/sandbox.h"

struct engine;
struct err;
struct exposed;
struct forwarder;
struct sandbox;
struct sandbox_request;
struct sandbox_spec;

/* Ports of sandboxes on the host. A record in the spec, stored first, and a door that listens. */

struct forwarder *forwarder_new(struct engine *e);
int forwarder_start(struct engine *e, struct err *err);
void forwarder_stop(struct engine *e); /* all doors shut */
void forwarder_free(struct forwarder *f);

/* ---- ports.c ---- */

/* Of a create: checks, takes the ports and returns in *ret_ports what they became; nothing listens
 * yet. *ret is given to the sandbox, or dropped. */
int ports_read(struct engine *e, const struct sandbox_request *req, json_t **ret_ports,
               struct exposed **ret, struct err *err);
/* Takes them for a sandbox that is being made, in its turn, unless it has them. */
int ports_take_late(struct engine *e, const struct sandbox_request *req, struct sandbox *sb,
                    struct err *err);
/* Does the sandbox have one of these host ports, of whatever address? */
bool ports_collide(const struct engine *e, struct sandbox *sb, const json_t *wanted);
/* After a restart, in its turn. A port that another has now is tried again, unless any will do. */
void ports_recover(struct engine *e, struct sandbox *sb);

/* Is that TCP port among those of a spec? */
bool ports_has_tcp(const json_t *ports, uint16_t port);

/* ---- doors.c ---- */

struct exposed *exposed_new(struct engine *e);
void exposed_drop(struct engine *e, struct exposed *x);
/* It is the sandbox's from now on: in its turn, or before others know of it. */
void exposed_give(struct engine *e, struct exposed *x, struct sandbox *sb);
/* Takes the port; p->host_port becomes the one that it is. ERR_CONFLICT "port_in_use" names who has
 * it. */
int exposed_add(struct engine *e, struct exposed *x, struct port_spec *p, struct err *err);
/* As exposed_add(), but it is there also when the port cannot be had. */
void exposed_add_missing(struct engine *e, struct exposed *x, const struct port_spec *p);
void exposed_remove(struct engine *e, struct exposed *x, const struct port_spec *p);
/* Does it listen? why: the reason, when the host does not let it have the port. */
bool exposed_is_open(struct engine *e, struct exposed *x, const struct port_spec *p,
                     struct err *why);
/* The sandbox has become that: in its turn. */
void exposed_follow(struct engine *e, struct sandbox *sb, enum sandbox_state state);
/* Its policy has changed: who may not come in any more is cut. */
void exposed_judge(struct engine *e, struct sandbox *sb);

/* ---- port_owner.c ---- */

#define PORT_OWNER_MAX 96

/* What has that port on this machine: "nginx (pid 812)", or "a connection that has ended, …" of one
 * in TIME_WAIT; "" when it cannot be told. */
void port_owner(enum port_protocol protocol, uint16_t port, char ret[PORT_OWNER_MAX]);
