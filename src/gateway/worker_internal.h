#pragma once

/* What the worker's files share. One thread: nothing here is locked. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "gateway/worker.h"
#include "gateway/worker_wire.h"
#include "policy/policy.h"

struct worker;
struct guest;

#define MEMBER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* ---- worker_loop.c: descriptors, times, and what goes at the end of a round ---- */

struct source {
    int fd;
    uint32_t interest; /* 0: epoll does not know it */
    void (*ready)(struct source *s, uint32_t events);
};

/* Changes what is waited for; 0 takes it out of epoll, so that a hang-up nobody can act on does not
 * keep the loop busy. 0 or -errno. */
int source_set(struct worker *w, struct source *s, uint32_t interest);
void source_close(struct worker *w, struct source *s);

/* worker.c: does what the warden has said so far. What takes in a packet or a connection calls it
 * first, so that an order counts for all that came after it. Guests may go in it. */
void worker_catch_up(struct worker *w);

struct listener {
    struct source source;
    struct worker *worker;
    int family; /* WORKER_V4 or WORKER_V6 */
};

struct timer {
    int64_t at;  /* mono_ns() */
    size_t slot; /* in the heap, from 1; 0 = not armed */
    void (*fire)(struct timer *t);
};

void timer_set(struct worker *w, struct timer *t, int64_t after_ms);
void timer_stop(struct worker *w, struct timer *t);

/* Memory that events of this round may still point to: it goes when the round is over. It must
 * begin with a struct grave. */
struct grave {
    struct grave *next;
};
void bury(struct worker *w, struct grave *g);

int loop_init(struct worker *w);
/* One round: waits, calls, fires, frees. 0 or -errno. */
int loop_round(struct worker *w);

struct loop {
    int epoll;
    struct timer **heap; /* heap[1 … timers] */
    size_t timers, heap_size;
    struct grave *graves;
};

/* ---- worker_asks.c: what was asked of the warden ---- */

#define ASKS_MAX 4096

/* error is an errno or 0; fd is the callee's. */
typedef void (*ask_done)(void *owner, int error, int fd);

struct ask_slot {
    uint32_t number; /* 0 = free */
    ask_done done;
    void *owner;
};

/* Sends it and remembers whom to tell: its number, or 0 when it cannot be asked now. */
uint32_t ask_send(struct worker *w, struct wire_ask *ask, ask_done done, void *owner);
/* Nobody waits any more; a descriptor that still comes is closed. 0 is fine. */
void ask_forget(struct worker *w, uint32_t *number);
void ask_answered(struct worker *w, uint32_t number, int error, int fd);

/* ---- worker_guests.c: who asks, and what is pinned for it ---- */

#define GUESTS_MAX        16384
#define GUEST_BUCKETS     4096
#define PINS_MAX          1024 /* names a box */
#define PIN_ADDRESSES_MAX WIRE_ADDRESSES_MAX

struct pinned_address {
    struct net_address address;
    int64_t until; /* mono_ns() */
};

/* A name that this box was given addresses for. */
struct pin {
    struct pin *next;
    unsigned *numbers, number_count; /* of the policy that it has now */
    struct pinned_address *addresses;
    unsigned address_count, address_room;
    char name[];
};

/* A sandbox, as the worker knows it: the warden has more of it. */
struct guest {
    struct grave grave;
    struct worker *worker;
    struct guest *next_by_id;
    struct guest *next_by_address[WORKER_FAMILIES];
    char id[WIRE_ID_MAX + 1];
    struct net_address address[WORKER_FAMILIES]; /* family 0: none */
    struct policy *policy;                       /* NULL: nothing is allowed */
    json_t *peers;
    struct pin *pins;
    unsigned pin_count;

    struct query *queries;
    struct dns_client *clients;
    struct conn *conns;
    unsigned query_count, client_count, conn_count;

    int64_t denied_at; /* the events of this second */
    unsigned denied_count, denied_unsaid;
};

struct guest *guest_by_address(struct worker *w, const struct net_address *a);
/* Whose a connection or a datagram is: no sandbox can send from another's address. NULL: nobody's.
 */
struct guest *guest_of_peer(struct worker *w, const struct sockaddr_storage *peer);
/* Does what an order says. The box's connections are looked at again after it. */
void guest_order(struct worker *w, struct wire_order *order);
void guest_gone(struct worker *w, const char *id);
void guest_pinned(struct worker *w, const struct wire_order *order);

/* From now on the name's addresses count for the rules that its policy has for it. */
void guest_pin(struct guest *b, const char *name, const struct net_address *addresses,
               unsigned count, unsigned ttl);

/* Judging a connection: arg of policy_pinned and policy_is_host. names are those that an open
 * connection was let in with, whose pins may be gone. */
#define VIEW_NAMES_MAX 8
struct view {
    struct guest *guest;
    const char *const *names; /* may be NULL */
    unsigned name_count;
};
bool view_pinned(unsigned pin, const struct net_address *a, void *arg);
bool view_is_host(const struct net_address *a, void *arg);
/* The names that are pinned to the address now: at most max of them; says how many there are. */
unsigned guest_names_of(struct guest *b, const struct net_address *a, const char **ret,
                        unsigned max);

/* Tells the warden, at most DENIED_A_SECOND a second and box; the rest is a count in the next. */
#define DENIED_A_SECOND 20
void guest_denied(struct guest *b, const char *protocol, const struct net_address *address,
                  uint16_t port, const char *name, const struct policy_verdict *verdict);

/* ---- dns.c, dns_client.c, dns_upstream.c ---- */

void dns_listen(struct worker *w);
/* The box goes: its queries are forgotten and its connections closed. */
void dns_drop_guest(struct guest *b);

/* ---- inspect.c ---- */

void inspect_listen(struct worker *w);
/* The policy of the box is another: what it no longer allows is cut. NULL policy: all is. */
void inspect_judge_again(struct guest *b);
void inspect_drop_guest(struct guest *b);

/* May one that has so much not have more of what all share? It may have as much as is left: alone
 * half of it, and however many take what they can, some is left for who has little. */
static inline bool worker_is_short(unsigned most, unsigned all, unsigned own)
{
    return all >= most || own >= most - all;
}

/* ---- worker_filter.c ---- */

/* Only the system calls that the worker needs are left. 0 or -errno. */
int worker_filter(void);

struct worker {
    struct loop loop;
    struct source warden;
    struct listener dns_udp[WORKER_FAMILIES], dns_tcp[WORKER_FAMILIES], inspect[WORKER_FAMILIES];
    struct wire_world world;
    struct ask_slot asks[ASKS_MAX];
    uint32_t ask_generation, ask_hint;
    struct guest *by_id[GUEST_BUCKETS];
    struct guest *by_address[WORKER_FAMILIES][GUEST_BUCKETS];
    unsigned guest_count;
    unsigned query_count, client_count, conn_count;
    unsigned conns_max; /* of RLIMIT_NOFILE */
    bool stopping;
};
