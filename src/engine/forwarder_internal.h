#pragma once

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/id.h"
#include "model/port.h"
#include "model/sandbox.h"

struct conn;
struct dial;
struct engine;
struct err;
struct forwarder;
struct peer;
struct policy;
struct sandbox;

/* Ports of sandboxes on the host: what listens there, and what carries.
 *
 *  1. doors.c has the listening sockets (a door each), in the thread of whoever exposes, removes,
 *     stops or starts, under the forwarder's lock. So a call that was answered has had its effect.
 *  2. One thread carries all connections (forwarder.c; datagrams: forwarder_udp.c). It waits for
 *     nothing but its epoll: dials are steps (dial_internal.h), and on what is in a sandbox only
 *     MSG_DONTWAIT is used.
 *  3. Connections, peers and counts are that thread's alone. It alone frees doors and what has
 *     them, between two rounds, when none of its connections has them any more. */

#define FORWARD_CONNS_MAX 1024 /* connections of one sandbox; who comes then waits */
#define FORWARD_ALL_MAX   8192 /* of all */
#define FORWARD_DIALS_MAX 32   /* of one sandbox that its agent has not answered yet */
#define FORWARD_PEERS_MAX 256  /* of one UDP port */
#define FORWARD_DIAL_NS   (10 * 1000000000ll)
#define FORWARD_IDLE_NS   (60 * 1000000000ll) /* a UDP peer that nothing came from or went to */

/* What an event of the epoll set is of. */
struct source {
    enum { SOURCE_WAKE, SOURCE_DOOR, SOURCE_CLIENT, SOURCE_BOX, SOURCE_PEER } kind;
    void *of;
};

struct door {
    struct source source;
    struct door *next;
    struct exposed *owner;
    struct port_spec spec;
    int fd;             /* -1 = the port could not be had */
    int error;          /* why it has no socket, or one that does not listen although it should;
                           tried again every 2 s until it is 0 */
    bool gone;          /* removed; the thread frees it */
    bool listed;        /* in the epoll set */
    uint32_t wants;     /* events there */
    bool full;          /* nobody is let in for now */
    struct peer *peers; /* UDP: the thread's; the one that was used last comes first */
    unsigned n_peers;
    bool v6; /* UDP: where the server seems to be */
};

/* The doors of one sandbox. */
struct exposed {
    struct exposed *next;
    struct sandbox *sb; /* a reference; NULL = it has none yet, or any more */
    char id[ID_SIZE];   /* "" = of one that is being made */
    struct door *doors;
    enum { DOORS_SHUT, DOORS_OPEN, DOORS_HELD /* who comes waits */ } mode;
    unsigned epoch; /* connections of an earlier one are cut */
    bool ended;
    bool judge;                /* its policy has changed: connections are judged again */
    unsigned n_conns, n_dials; /* the thread's, as is this: */
    json_t *judged;            /* the network that policy is of; NULL = none */
    struct policy *policy;
};

struct forwarder {
    pthread_mutex_t lock;
    struct exposed *all;
    struct door *graves; /* doors that were removed from one that goes on */
    unsigned n_doors;
    bool changed; /* something to cut or to free */
    bool missing; /* some door has an error */
    bool stop, running;
    int epoll, wake;
    struct source wake_source;
    pthread_t thread;
    struct engine *engine;

    /* The thread's. */
    struct conn *conns, *dead, *busy;
    struct conn *dial_first, *dial_last; /* by their deadline */
    struct peer *dead_peers;
    unsigned n_all, n_peers;
    size_t held; /* bytes that somebody does not take */
    bool starved;
    int64_t again_ns; /* when doors that are full are tried again, and missing ones; 0 = never */
    int64_t swept_ns;
    char *scratch;
};

/* ---- doors.c, under the lock ---- */

/* What the door is to wait for, as things are. */
void door_arm(struct forwarder *f, struct door *d);
void forwarder_poke(struct forwarder *f);
/* Tries the doors that have an error again, and sets missing when one still has. */
void doors_again(struct forwarder *f);
/* Sets its error, and what follows from it. */
void door_says(struct forwarder *f, struct door *d, int error);
void door_free(struct door *d);

/* ---- forwarder.c ---- */

/* From somebody at that address: may he come in? */
bool forwarder_admits(struct exposed *x, const struct door *d, const struct sockaddr_storage *from);
/* Before a descriptor is closed that a sandbox may hold too: as long as it does, closing alone does
 * not take it out of the epoll set. */
void forwarder_forget(struct forwarder *f, int fd);
/* Bytes are carried: its sandbox is not idle (engine/idle.h). */
void forwarder_note(const struct exposed *x);
/* Doors that let nobody in may have room again. */
void forwarder_made_room(struct forwarder *f);

/* ---- forwarder_udp.c, in the thread ---- */

void udp_door_ready(struct forwarder *f, struct door *d);
void udp_peer_ready(struct forwarder *f, struct peer *p);
void udp_expire(struct forwarder *f, int64_t now);
/* Those that nobody may be any more, or all of them. */
void udp_cut(struct forwarder *f, struct door *d, bool all);
void udp_bury(struct forwarder *f);
