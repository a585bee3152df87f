#pragma once

#include <jansson.h>
#include <nftables/libnftables.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "gateway/netlink.h"
#include "policy/policy.h"

/* The warden: the half of cay-gateway that has power and reads nothing that a stranger wrote. One
 * thread, one epoll. Words: H is the network namespace that the daemon runs in (the host's), G the
 * crossroads, a namespace of our own where the links of all boxes end. */

#define CONTROL_BYTES_MAX (192u << 10)
#define CONTROL_MAX       16 /* connections of daemons and tests */
#define BOXES_MAX         20000
#define OFFSETS_MAX       65536 /* of addresses in a pool */
#define NAMES_MAX         16    /* of one box */
#define PINS_MAX          2048  /* names with their addresses, of one box */
#define ID_BYTES_MAX      63
#define IFNAME            16

#define LINK_PREFIX "c"   /* of the boxes' links in G */
#define UPLINK      "up0" /* the way out of G */

#define MARK_OUT     1 /* marks of packets in G: what nothing has marked is not routed */
#define MARK_BOX     2
#define MARK_DNS     3
#define MARK_INSPECT 4

#define TABLE_OUT  100
#define TABLE_BOX  101
#define DNS_PORT   53
#define LOOK_PORT  1253  /* where the worker inspects, in G */
#define DEAD_GROUP 57005 /* links that are about to be deleted */

struct warden;
struct chain;
struct control;
struct network;
struct pin;

/* Something that the loop waits for. */
struct source {
    int fd; /* -1 = none */
    void (*ready)(struct warden *w, struct source *s);
};

/* What the daemon says when it starts one. */
struct setup {
    char *build, *run;
    char *pool, *pool6, *ipv6, *uplink;
    char *nameservers; /* NULL = the host's */
};

/* A range of addresses: the first is the gateway's. */
struct pool {
    struct net_address base;
    unsigned bits;
    uint32_t size; /* that can be given out, as offsets from 2 */
};

/* A sandbox that has a link. */
struct box {
    struct warden *warden;
    struct box *next, *same; /* all; those of one hash */
    char id[ID_BYTES_MAX + 1];
    char link[IFNAME];
    int index;                            /* of the link in G; 0 = it has none (yet) */
    uint32_t offset;                      /* of its addresses in the pools */
    struct net_address address, address6; /* family 0 of the second: none */
    json_t *policy_json;
    struct policy *policy; /* never NULL */
    bool untold;           /* of one that was found: the daemon has not said what it may reach */
    struct chain *chain;
    char *names[NAMES_MAX]; /* by which its networks know it too */
    unsigned n_names;
    struct pin *pins;
    unsigned n_pins, n_pinned; /* names; their addresses */
};

#define BOX_HASH 4096

struct warden {
    struct setup setup;
    int epoll;
    struct source listener;
    struct control *control;
    struct err broken; /* why there are no networks here; kind 0 = there are */
    uint16_t api_port; /* of H's loopback, never dialled */
    bool ending;
    bool inherited; /* G and its rules are those of a warden before us, which nobody told us of */

    /* crossroads.c */
    char *pin;
    int host_ns, cross_ns;
    struct netlink host_rt, cross_rt, cross_nf;
    struct pool pool, pool6;
    bool ipv6;            /* sandboxes have it */
    bool kernel_has_ipv6; /* whether they do or not */
    struct net_address gateway, gateway6;

    /* uplink.c */
    char uplink[IFNAME]; /* its name in H */
    char table[32];      /* in H */
    struct net_address up_host, up_cross, up_host6, up_cross6;
    int uplink_index;             /* in H */
    bool forwards, forwards6;     /* we switched it on */
    struct net_address host[256]; /* H's own addresses */
    unsigned n_host;

    /* rules.c */
    struct nft_ctx *host_nft, *cross_nft;
    uint32_t host_nft_portid, cross_nft_portid;
    struct chain *chains;
    bool limits_ingress; /* the hook for it is there */

    /* boxes.c */
    struct box *boxes, *by_id[BOX_HASH];
    unsigned n_boxes;
    uint64_t next_link;
    uint8_t *taken;           /* bits of offsets */
    uint32_t next_offset;     /* where the search begins: longest unused first */
    uint32_t *dead, n_dead;   /* offsets whose flows are still to go */
    int64_t dead_ns, busy_ns; /* since when there are any; when the last request came */
    int64_t sweep_ns;         /* how long the last sweep took */

    /* peers.c */
    struct network *networks;

    /* watch.c, nflog.c, tasks.c */
    struct source watch_host_rt, watch_host_nf, watch_cross_nf, watch_cross_rt;
    struct source nflog, timer;
    bool timer_runs;
    bool repair_host, repair_cross;
    struct err refusal; /* why repair_cross is still true */

    /* helper.c: the worker */
    struct source worker, worker_end;
    pid_t worker_pid;
    int64_t worker_since, worker_again;
    unsigned worker_failures;
    int listeners[6];
};

/* ---- main.c ---- */

void source_add(struct warden *w, struct source *s, int fd,
                void (*ready)(struct warden *, struct source *));
void source_drop(struct warden *w, struct source *s); /* and closes it */
/* Everything of ours in H and G goes. */
void warden_take_down(struct warden *w);

/* ---- control.c: what the daemon asks for ---- */

void control_start(struct warden *w, int listener);
void control_done(struct warden *w);
/* Sends the event to the connections that watch, or keeps it for the next that does; never waits.
 * Takes the event. */
void control_tell(struct warden *w, json_t *event);
/* A line for the daemon's log. */
void control_log(struct warden *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- crossroads.c: G itself ---- */

/* Makes G, or takes over the one that is pinned, and opens all sockets in both. The process is in
 * H afterwards. */
int crossroads_open(struct warden *w, struct err *err);
/* lo, rules, routes out, as they must be. */
int crossroads_assert(struct warden *w, struct err *err);
void crossroads_unpin(struct warden *w);
int in_namespace(int ns, struct err *err);
int sysctl_set(const char *name, const char *value); /* 0 or -errno */
int sysctl_get(const char *name);                    /* a number, or -errno */
int pool_parse(const char *text, int family, struct pool *ret);
struct net_address pool_address(const struct pool *p, uint32_t offset);
uint32_t pool_offset(const struct pool *p, const struct net_address *a); /* 0 = no box's */
/* Is it in the range that boxes have their addresses from? */
bool pools_have(const struct warden *w, const struct net_address *a);

/* ---- uplink.c: the way out, and H ---- */

int uplink_open(struct warden *w, struct err *err);
int uplink_assert(struct warden *w,
                  struct err *err); /* link, addresses, forwarding; twice is fine */
void uplink_remove(struct warden *w);
void uplink_host_addresses(struct warden *w); /* reads them anew, into the set too */
bool uplink_is_host(const struct warden *w, const struct net_address *a);

/* ---- rtnl.c: single requests to the kernel ---- */

int link_index(struct netlink *nl, const char *name); /* > 0 or -errno */
int link_up(struct netlink *nl, int index, const char *alias);
int link_delete(struct netlink *nl, int index);
int link_mac(struct netlink *nl, int index, unsigned char ret[6]);
int address_add(struct netlink *nl, int index, const struct net_address *a, unsigned bits);
/* gateway NULL = on the link itself; prefer NULL = any source. bits 0 and to NULL = default. */
int route_add(struct netlink *nl, int family, unsigned table, const struct net_address *to,
              const struct net_address *gateway, const struct net_address *prefer, int index);
int neighbour_add(struct netlink *nl, int index, const struct net_address *a,
                  const unsigned char mac[6]);

/* ---- rules.c: the tables of nftables ---- */

int rules_open_host(struct warden *w, struct err *err);  /* in H */
int rules_open_cross(struct warden *w, struct err *err); /* in G */
/* The whole table of G with all chains, and the elements of all boxes, as new. */
int rules_assert(struct warden *w, struct err *err);
bool rules_are_there(struct warden *w); /* in G, of one before us */
bool rules_host_forwards(struct warden *w, const char *family);
int rules_assert_host(struct warden *w, struct err *err);
void rules_remove_host(struct warden *w);
/* The chain of a policy, which is made if it is not there; give it back with chain_put(). */
struct chain *chain_get(struct warden *w, const struct policy *p, struct err *err);
void chain_put(struct warden *w, struct chain *c);
const char *chain_name(const struct chain *c);

/* ---- elements.c: elements of sets and maps, many in one transaction ---- */

struct elements;

struct elements *elements_new(struct warden *w);
/* key: parts as the set's type has them, each as long as given and padded to 4 bytes. */
void element_begin(struct elements *e, bool add, const char *set);
void element_key(struct elements *e, const void *data, size_t len);
void element_key_link(struct elements *e, const char *link);
void element_key_address(struct elements *e, const struct net_address *a);
void element_key_u32(struct elements *e, uint32_t n); /* in the machine's order, as marks are */
void element_timeout(struct elements *e, uint64_t ms);
void element_jump(struct elements *e, bool go, const char *chain);
void element_end(struct elements *e);
/* Sends all and frees it: 0 or -errno. What is added twice or deleted though it is not there is
 * fine with the second. */
int elements_commit(struct elements *e);

/* ---- boxes.c ---- */

struct box *box_find(const struct warden *w, const char *id);
struct box *box_by_address(const struct warden *w, const struct net_address *a);
int box_attach(struct warden *w, const char *id, const json_t *policy, int netns, struct box **ret,
               struct err *err);
int box_policy(struct warden *w, struct box *b, const json_t *policy, unsigned *ret_cut,
               struct err *err);
void box_detach(struct warden *w, struct box *b);
int boxes_adopt(struct warden *w, struct err *err);
/* The link of that index in G went. If it was a box's, the daemon is told. */
void box_link_gone(struct warden *w, int index);
void boxes_look(struct warden *w); /* whose links went unheard */
/* Elements of a box, for all that the kernel must know of it. */
void box_elements(const struct warden *w, struct elements *e, const struct box *b, bool add);
void boxes_sweep(struct warden *w); /* links and flows of those that are gone */
void boxes_rest(struct warden *w);  /* the same, if this is a good time */

/* ---- links.c ---- */

int link_make(struct warden *w, struct box *b, int netns, struct err *err);
bool link_is_in(struct warden *w, const struct box *b, int netns);
void link_bury(struct warden *w, struct box *b);
void links_sweep(struct warden *w);
int links_each(struct warden *w,
               void (*found)(struct warden *w, const char *name, int index, const char *alias,
                             bool dead, void *arg),
               void *arg);

/* ---- flows.c: what is open ---- */

/* Ends flows of a box that its policy does not allow. */
unsigned flows_cut(struct warden *w, const struct box *b);
/* Flows of one that has left a network, with those in it whom it shares no other with. */
unsigned flows_cut_parted(struct warden *w, const struct box *b, const struct network *n);
/* Flows of addresses that are nobody's. */
void flows_sweep(struct warden *w, const uint32_t *offsets, unsigned n);

/* ---- pins.c ---- */

void pins_add(struct warden *w, struct box *b, const char *name, const struct net_address *v,
              unsigned n, unsigned ttl_s, int *ret_error);
void pins_elements(const struct warden *w, struct elements *e, const struct box *b, bool add);
void pins_free(struct box *b);
bool pins_has(unsigned pin, const struct net_address *a, void *box);
void pins_each(const struct box *b,
               void (*each)(const struct box *b, const char *name, const struct net_address *v,
                            unsigned n, unsigned ttl_s, void *arg),
               void *arg);

/* ---- peers.c: named networks ---- */

int network_join(struct warden *w, const char *network, const char *name, struct box *b,
                 struct err *err);
int network_leave(struct warden *w, const char *network, struct box *b, struct err *err);
void networks_leave_all(struct warden *w, struct box *b);
void peers_elements(const struct warden *w, struct elements *e, const struct box *b, bool add);
bool network_has(const struct network *n, const struct box *b);
json_t *peers_json(const struct warden *w, const struct box *b);
bool peers_share(const struct warden *w, const struct box *a, const struct box *b);
/* What becomes of a flow of a box: peers and the pool come before its policy, as in the kernel. */
void box_judge(const struct warden *w, const struct box *b, const struct policy_flow *flow,
               struct policy_verdict *ret);
/* All that see b's names are told anew. */
void peers_tell(struct warden *w, const struct box *b);

/* ---- watch.c: what others do to H and G ---- */

int watch_open_host(struct warden *w, struct err *err);
int watch_open_cross(struct warden *w, struct err *err);
void repair(struct warden *w);
/* Sends the elements and frees them. When the kernel refuses them, or refused rules before, it is
 * given all rules anew. ERR_UNAVAILABLE "gateway_failed": it refuses those too. What the warden
 * knows of its boxes is then not in force; repair() tries again until it is. */
int rules_commit(struct warden *w, struct elements *e, struct err *err);

/* ---- nflog.c ---- */

int nflog_open(struct warden *w, struct err *err);
void denied_tell(struct warden *w, const struct box *b, const char *protocol,
                 const struct net_address *to, uint16_t port, const char *name, int rule,
                 const char *why, unsigned count);

/* ---- helper.c: the worker, as the warden sees it ---- */

int helper_listen(struct warden *w, struct err *err); /* in G */
socklen_t socket_address(const struct net_address *a, uint16_t port, struct sockaddr_storage *ret);
void helper_start(struct warden *w);
void helper_stop(struct warden *w);
void helper_tell_world(struct warden *w);
void helper_tell_box(struct warden *w, const struct box *b);
void helper_tell_gone(struct warden *w, const char *id);
bool helper_is_host(const struct net_address *a, void *box); /* as policy_judge() wants it */

/* ---- explain.c ---- */

json_t *explain(struct warden *w, struct box *b, const json_t *in, struct err *err);

/* ---- tasks.c: what is done a moment later ---- */

int tasks_open(struct warden *w, struct err *err);
void tasks_soon(struct warden *w);

/* ---- walls.c ---- */

int walls_warden(struct err *err);
int walls_worker(struct err *err);
