#pragma once

#include "base/budget.h"
#include "iii/registry.h"

/* Shared by registry.c (who is connected, functions, calls) and bindings.c (triggers). */

/* What is registered, by what it weighs when it is read for somebody. Nobody has more of it than is
 * left for others. */
#define REGISTERED_MAX     (16u << 20) /* of one connection */
#define LASTING_BYTES_MAX  (16u << 20) /* of what outlives connections */
#define REGISTERED_ALL_MAX (64u << 20)

#define LASTING_MAX 2048 /* bindings that outlive connections; half of it is a caller's */

/* That a function of a client has for its answer, as long as one has for a call in a queue. Who
 * asks gives up long before, without a word to us: calls of one that never answers would be held
 * for as long as both are connected. */
#define FORWARD_LIMIT_NS (1800 * 1000000000ll)

/* A function that a client offers. */
struct iii_offer {
    char *namespace, *id;
    char *given;                         /* as its owner calls it */
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
    struct work clock; /* ends those that are past it, */
    int64_t clock_ns;  /* and looks then; 0 = it waits to be woken */
    bool clock_runs;   /* it was given to the runner */
    struct iii_type *types;
    struct iii_bound *bounds;
    unsigned n_offers, n_bounds;
    size_t bytes, lasting_bytes; /* of all that is registered; of what outlives connections */
    struct budget lasting;       /* bindings of that kind, each one's share */
};

/* May it register so much more? Counts it, if so. Under the lock. */
bool registry_take_bytes(struct iii_registry *r, struct iii_peer *peer, size_t bytes);
void registry_give_bytes(struct iii_registry *r, struct iii_peer *peer, size_t bytes);
/* May it register at all? A token for some sandboxes only may not, and one that only reads. */
bool registry_may(const struct iii_peer *peer);

/* Ends the calls that have had their time. */
void registry_sweep(struct iii_registry *r, int64_t now_ns);

/* ---- bindings.c ---- */

/* Takes what it has out of the lists; under the lock. To be told of afterwards, with
 * bindings_tell(). */
struct iii_bound *bindings_forget(struct iii_registry *r, struct iii_peer *peer);
/* The same for its bindings to one function whose types others provide, who would call whatever has
 * that name from now on. */
struct iii_bound *bindings_of(struct iii_registry *r, const struct iii_peer *peer,
                              const char *namespace, const char *function_id);
void bindings_tell(struct iii_registry *r, struct iii_bound *gone);
void bindings_free(struct iii_registry *r);
