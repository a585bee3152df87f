#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "functions/pipe.h"
#include "iii/iii_internal.h"
#include "iii/link.h"

struct function;
struct websocket_client;

/* What the files of the link share.
 *
 * 1. The thread of the link (link.c) alone has the main socket. Whoever has something to say puts
 *    it into the outbox, under the lock, and wakes it.
 * 2. A connection has a number. What was asked over one is answered over that one or not at all.
 * 3. Channels have sockets of their own and a second thread (link_pipes.c), so that they neither
 *    wait for the main socket, which may be dialled for long, nor keep it waiting. */

#define LINK_DIAL_MS     10000
#define LINK_ASK_MS      10000       /* for an answer of the engine */
#define LINK_OUTBOX_MAX  (32u << 20) /* bytes that wait to be sent */
#define LINK_MESSAGE_MAX (16u << 20) /* what an engine takes: a frame of tungstenite */
#define LINK_PIPES_MAX   256
#define LINK_PIPE_UNSENT (128u << 10) /* past it a writer waits */

/* Something to say. */
struct link_text {
    struct link_text *next;
    size_t len;
    char text[];
};

/* Something that the engine was asked, by a thread that waits. */
struct link_ask {
    struct link_ask *next;
    char id[UUID_SIZE];
    uint64_t connection;
    bool done;
    json_t *result, *error; /* both NULL when the connection was lost */
};

/* A look at the engine's lists of functions and workers: which worker has our functions. */
struct link_look {
    bool runs;
    char functions_id[UUID_SIZE], workers_id[UUID_SIZE]; /* of its calls; "" = answered */
    int64_t due_ns;      /* end of the one that runs, else start of the next; INT64_MAX = none */
    bool is_known;       /* the engine has sent its list of functions */
    bool is_unknown;     /* it has answered without a list */
    bool has_namespaces; /* 0.23 or later */
    bool of_our_name;    /* a function of iii's is listed for a worker of our name */
    bool twin;           /* another live worker of our name has functions */
    bool self;           /* the engine is this daemon */
    char *other;         /* which worker of another name has which function of iii's; or NULL */
    json_t *seen;        /* id → null: functions that we registered and the engine lists */
    json_t *others;      /* id → null: additional functions that other workers have */
    unsigned without_us; /* lists in a row that lack some of ours */
    unsigned unanswered; /* looks in a row that the engine did not answer in time */
};

struct iii_link {
    struct iii_hub *hub;
    struct iii_link_config config; /* its strings are ours */
    char *base;                    /* of the addresses of channels */
    struct iii_asker *asker;
    json_t *offered; /* id → null: what we have registered on this connection */
    json_t *taken;   /* id → null: additional functions that another worker has */
    struct link_pipes *pipes;
    pthread_t thread;
    bool runs;
    int wake_fd, stop_fd; /* the second can be read once all is over, and stays so */

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t told;  /* for who waits for an answer, or for the last call */
    bool stops;
    bool drains; /* nothing new is begun */
    bool is_up;
    uint64_t connection; /* its number; 0 = there is none */
    struct link_text *first, **last;
    size_t outbox;
    bool sending; /* something has left the outbox, and not yet the machine */
    struct link_ask *asks;
    unsigned in_flight;
    char worker_id[UUID_SIZE], token[UUID_SIZE]; /* "" = not told yet */

    /* the thread's own: */
    uint64_t connections;
    struct websocket_client *client;
    unsigned failures; /* to get a link that holds, one after the other */
    /* of this connection: */
    struct link_look look;
    bool identified;             /* worker_id is that of this connection */
    char previous_id[UUID_SIZE]; /* of the one before; "" = none is known */
    bool offers;                 /* functions have been sent; */
    unsigned pongs;              /* that had come before */
    bool registered;             /* the engine has read them all, */
    int64_t registered_ns;       /* since then */
    bool steps_back;             /* another worker has our place: hang up, and try again later */
    bool is_self;                /* so has this daemon: try again much later */
    bool told_odd, told_error, told_replaced;

    bool told_conflict; /* since the last registration */
};

/* link_say.c: puts a text that is freed there into the outbox of that connection. False when that
 * one is lost, or when too much waits. */
bool link_say(struct iii_link *l, uint64_t connection, char *text);
/* The next one, to be freed; NULL = there is none. */
struct link_text *link_take_text(struct iii_link *l);
/* Asks the engine, and waits: a new value, or NULL with err. */
json_t *link_ask(struct iii_link *l, const char *function_id, json_t *data, struct err *err);
/* It has answered. */
void link_take_answer(struct iii_link *l, uint64_t connection, json_t *m);

/* link_offer.c: says who we are and what we offer, as texts for the outbox. */
char *link_reattach_text(const char *worker_id, const char *token);
char *link_metadata_text(const struct iii_link_config *config);
/* Calls each once per function, in order, and adds the function to l->offered. */
void link_offer_each(struct iii_link *l, void (*each)(struct iii_link *l, char *text));
/* Is it the id of one of our additional functions? */
bool link_may_offer(const char *id);

/* link.c: sends a text at once, past the outbox, and frees it. On the thread of the link. */
void link_send_now(struct iii_link *l, char *text);
/* Registers all functions. */
void link_offer(struct iii_link *l);

/* link_claim.c: a registrationrejected. */
void link_take_rejection(struct iii_link *l, const json_t *m);
/* Frees what the last look has left; none is due then. */
void link_look_reset(struct iii_link *l);
void link_look_begin(struct iii_link *l);
/* True when the answer is to a call of the look. */
bool link_look_take(struct iii_link *l, const json_t *m);
/* Begins a look that is due; ends one that was answered or took too long, and then registers our
 * functions or sets steps_back. */
void link_look_step(struct iii_link *l);

/* link_calls.c: the engine calls one of ours; m is the message, weight as of iii_question. */
void link_called(struct iii_link *l, uint64_t connection, json_t *m, size_t weight);
/* Of a call of which no more is known than its id. */
void link_refuse(struct iii_link *l, uint64_t connection, const char *id, const char *code,
                 const char *why);

/* link_pipes.c */
struct link_pipes *link_pipes_new(struct iii_link *l);
int link_pipes_start(struct link_pipes *all, struct err *err);
/* Every stream ends; whoever has one finds that out. */
void link_pipes_stop(struct link_pipes *all);
void link_pipes_free(struct link_pipes *all);
struct pipes *link_pipes_ops(struct link_pipes *all);
unsigned link_pipes_count(struct link_pipes *all);
