#pragma once

#include <jansson.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct engine;
struct network;
struct sandbox;

/* The sandboxes' side of the gateway: who is attached with which policy. The rows say what is
 * meant, the gateway is told, and what it has that nobody means is detached. */

/* What a sandbox has of it. */
struct sandbox_net {
    pthread_mutex_t lock; /* one word with the gateway at a time; after its turn, before the rest */
    struct sandbox *prev, *next; /* those with a place at the gateway, under network.lock */
    bool listed;
    json_t *policy; /* under lock: what the gateway was told, or is to be; false = nothing */
    /* Under the sandbox's lock. */
    char address[INET_ADDRSTRLEN], address6[INET6_ADDRSTRLEN]; /* "" = none */
    /* Under network.log_lock: what was refused, last and in all, since this daemon knows it. */
    json_t *denied;
    uint64_t n_denied, log_seq;
    int64_t denied_ms;
};

void sandbox_net_init(struct sandbox_net *n);
void sandbox_net_done(struct sandbox_net *n);

struct network *network_new(const char *data_dir);
void network_free(struct network *n);
/* After recovery; the gateway is started by who needs it first. */
int network_start(struct engine *e, struct err *err);

/* What a request means, in the form that rows have it: NULL = none. ERR_INVALID "bad_policy". */
int network_read(const json_t *network, json_t **ret, struct err *err);
/* What it may reach, as its row has it: a copy, NULL = nothing. */
json_t *network_policy_of(struct sandbox *sb);
bool network_has(struct sandbox *sb);

/* An attach while the box comes up. begin() does what it can with the child that is parked; end()
 * is called when the box is up, or has not come up (up = false: then nothing is left). Neither does
 * anything for a sandbox without network. */
struct network_attach {
    struct engine *engine;
    struct sandbox *sandbox;
    bool wanted, threaded;
    pthread_t thread;
    int ns;
    int result;
    struct err err;
};
void network_begin(struct engine *e, struct sandbox *sb, struct network_attach *a);
int network_end(struct network_attach *a, bool up, struct err *err);
/* Both at once, of a box that is up. */
int network_attach_up(struct engine *e, struct sandbox *sb, struct err *err);

/* Its policy, or a place at the gateway with nothing allowed, for one of whom others ask that it
 * can be reached (named networks). In its turn; fine when it has one. */
int network_ensure(struct engine *e, struct sandbox *sb, struct err *err);
/* Of one that runs: what the gateway is to enforce from now on; NULL = nothing, and its place goes
 * unless keep. When the kernel refuses it, the policy before stays. */
int network_change(struct engine *e, struct sandbox *sb, const json_t *policy, bool keep,
                   struct err *err);
/* The gateway answered that the kernel refuses the rules. It tries again with what it was told
 * last, so whoever takes a change back tells it that too. */
bool network_is_refused(const struct err *err);
/* Of a box that is gone or going. Fine when it has no place. What the gateway cannot be told now
 * it is told later. */
void network_detach(struct engine *e, struct sandbox *sb);
/* Of one that an earlier daemon has attached: the gateway is told all again when it is there. */
void network_adopt(struct engine *e, struct sandbox *sb);

/* ---- network_log.c */

struct network_log;
struct network_log *network_log_new(const char *data_dir);
void network_log_free(struct network_log *l);
/* An event of the gateway's. */
void network_log_add(struct engine *e, const json_t *event);
/* Of a sandbox that is removed. */
void network_log_remove(struct engine *e, const char *id);
/* The lines after that number, oldest first: the last `limit` of them. */
json_t *network_log_read(struct engine *e, struct sandbox *sb, uint64_t after, size_t limit);
/* What was refused since then, last: a copy, or NULL. */
json_t *network_log_last(struct engine *e, struct sandbox *sb, int64_t since_ms);

/* How many refusals this daemon has heard of. */
uint64_t network_denied(struct engine *e, struct sandbox *sb);

struct network_log *network_log_of(struct engine *e);
