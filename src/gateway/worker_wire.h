#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "policy/policy.h"

/* What warden and worker say to each other: one JSON object a datagram, on a SEQPACKET pair.
 *
 * Orders, from the warden. A new worker gets `world` first, then each box, then the pins that still
 * hold; later whatever changed.
 *   {"world": {"nameservers": ["10.0.0.53", "fd00::53#5353"], "gateway": "10.241.0.1",
 *              "gateway6": "fd63:6179::1", "host": ["192.0.2.7", …]}}
 *   {"box": {"id", "address", "address6", "policy": object|true|false, "peers": {"db":
 * ["10.241.0.9"]}}} replaces what was known of the id; connections that it no longer allows are
 * cut.
 *   {"pin": {"box", "name", "addresses": […], "ttl"}}
 *   {"gone": "<id>"}
 *   {"answer": 7, "errno": 0}       with the descriptor where one was asked for
 *
 * Asks, from the worker. The warden judges each once more by the box's policy and answers each
 * once, in any order; a descriptor comes at once, still connecting (nonblocking), so nobody waits.
 *   {"ask": 7, "dial": {"box", "address", "port"}}                      a TCP socket, made in H
 *   {"ask": 8, "dns": {"box", "server", "port", "tcp": false}}          a socket of a fresh port
 *   {"ask": 9, "pin": {"box", "name", "rules": [2, 5], "addresses": […], "ttl": 60}}
 * and without an answer:
 *   {"denied": {"box", "protocol": "dns|tcp|tls|http", "address", "port", "name", "rule", "why",
 * "count"}}
 */

#define WIRE_BYTES_MAX     (192 * 1024)
#define WIRE_ID_MAX        63
#define WIRE_NAME_MAX      255
#define WIRE_RULES_MAX     64
#define WIRE_ADDRESSES_MAX 64
#define WIRE_WHY_MAX       159
#define WIRE_SERVERS_MAX   8
#define WIRE_HOST_MAX      256
#define WIRE_PEERS_MAX     1024 /* names that a box is told of */

/* One ask, or a `denied`. */
enum wire_kind { WIRE_DIAL, WIRE_DNS, WIRE_PIN, WIRE_DENIED };

struct wire_ask {
    enum wire_kind kind;
    uint32_t number; /* never 0; of WIRE_DENIED 0 */
    char box[WIRE_ID_MAX + 1];
    struct net_address address; /* family 0: none (of a denied name) */
    uint16_t port;
    bool tcp;                     /* dns */
    char name[WIRE_NAME_MAX + 1]; /* pin, denied: lower case, no dot at the end; "" = none */
    unsigned rules[WIRE_RULES_MAX], rule_count; /* pin: pin numbers of policy_rules_for_name() */
    struct net_address addresses[WIRE_ADDRESSES_MAX];
    unsigned address_count;
    unsigned ttl;         /* seconds, 1 … 86400 */
    const char *protocol; /* denied: one of the four above, a literal */
    int rule;             /* denied: as in struct policy_verdict */
    char why[WIRE_WHY_MAX + 1];
    unsigned count; /* denied: how many it stands for, at least 1 */
};

/* A nameserver, "address" or "address#port". */
struct wire_server {
    struct net_address address;
    uint16_t port;
};

enum wire_order_kind { WIRE_WORLD, WIRE_BOX, WIRE_PINNED, WIRE_GONE, WIRE_ANSWER };

struct wire_world {
    struct wire_server servers[WIRE_SERVERS_MAX];
    unsigned server_count;
    struct net_address gateway, gateway6; /* family 0: none */
    struct net_address host[WIRE_HOST_MAX];
    unsigned host_count;
};

struct wire_order {
    enum wire_order_kind kind;
    struct wire_world *world; /* WIRE_WORLD: on the heap */
    char id[WIRE_ID_MAX + 1]; /* WIRE_BOX, WIRE_GONE, WIRE_PINNED */
    struct net_address address, address6;
    json_t *policy; /* WIRE_BOX: json_false() = nothing is allowed */
    json_t *peers;  /* WIRE_BOX: checked: an object of arrays of addresses as text */
    char name[WIRE_NAME_MAX + 1];
    struct net_address addresses[WIRE_ADDRESSES_MAX];
    unsigned address_count;
    unsigned ttl;
    uint32_t number; /* WIRE_ANSWER */
    int error;       /* WIRE_ANSWER: errno or 0 */
};

/* ---- both ---- */

/* Sends one message, which it takes, and never waits: 0, -EAGAIN when the other is slow, -EMSGSIZE,
 * or another -errno. fd = -1: none. */
int wire_send(int sock, json_t *message, int fd);

/* One message that is there: its JSON (the caller's), *ret_fd = the descriptor or -1. NULL with
 * *ret_error = -EAGAIN (nothing there), 0 (the other end is gone), -EBADMSG (no JSON object, too
 * long, too many descriptors: those are closed) or another -errno. */
json_t *wire_recv(int sock, int *ret_fd, int *ret_error);

json_t *wire_address_json(const struct net_address *a); /* null of family 0 */
/* "10.0.0.53" or "10.0.0.53#5353". */
int wire_server_parse(const char *text, struct wire_server *ret);

/* ---- the worker's messages; the warden trusts nothing in them but their form ---- */

json_t *wire_ask_json(const struct wire_ask *ask);
/* 0 or -EBADMSG: a message that the worker never sends. Unknown members are refused too. */
int wire_ask_parse(const json_t *message, struct wire_ask *ret);

/* ---- the warden's messages ---- */

json_t *wire_world_json(const struct wire_world *world);
/* policy and peers are borrowed; NULL policy = false, NULL peers = none. */
json_t *wire_box_json(const char *id, const struct net_address *address,
                      const struct net_address *address6, json_t *policy, json_t *peers);
json_t *wire_pin_json(const char *id, const char *name, const struct net_address *addresses,
                      unsigned count, unsigned ttl);
json_t *wire_gone_json(const char *id);
json_t *wire_answer_json(uint32_t number, int error);

int wire_order_parse(const json_t *message, struct wire_order *ret); /* 0 or -EBADMSG */
void wire_order_done(struct wire_order *order);
