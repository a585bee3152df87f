#pragma once

#include "iii/registry.h"

/* What is registered, by what it weighs when it is read for somebody. Nobody has more of it than is
 * left for others. */
#define REGISTERED_MAX     (16u << 20) /* of one connection */
#define REGISTERED_ALL_MAX (64u << 20)

/* How long a function of a client may take for its answer. Callers give up long before without
 * telling us: without this limit the calls of a client that never answers would be held for as long
 * as both are connected. */
#define FORWARD_LIMIT_NS (1800 * 1000000000ll)

/* A function that a client offers. */
struct iii_offer {
    char *namespace, *id;
    struct iii_peer *owner;              /* which lives at least as long */
    char *description;                   /* NULL = none, as of the others */
    char *request, *response, *metadata; /* JSON */
    size_t bytes;
    struct iii_offer *prev, *next; /* of the same owner */
};

/* A call that somebody carries out for another. */
struct iii_forward {
    char id[UUID_SIZE];      /* as who carries it out knows it */
    struct iii_peer *by;     /* a reference */
    struct iii_asker *asker; /* a reference */
    struct iii_peer *from;   /* whose asker that is; NULL = nobody's */
    int64_t at_ns;           /* since when */
    iii_answered answered;
    void *arg;
    struct iii_forward *prev, *next;
};

struct iii_registry {
    struct iii_hub *hub;
    pthread_mutex_t lock;
    struct iii_peer *peers;
    void *offers;   /* a tree, by namespace and id */
    void *forwards; /* a tree, by id */
    struct iii_forward *all_forwards, *oldest_forward;
    int64_t forward_limit_ns;
    size_t bytes_max;  /* REGISTERED_ALL_MAX, or less in tests */
    struct work clock; /* ends those that are past it, */
    int64_t clock_ns;  /* and looks then; 0 = it waits to be woken */
    bool clock_runs;   /* it was given to the runner */
    unsigned n_offers;
    size_t bytes; /* of all that is registered */
};

/* Ends the calls that have had their time. */
void registry_sweep(struct iii_registry *r, int64_t now_ns);
