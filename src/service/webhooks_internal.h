#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "base/id.h"
#include "service/courier.h"
#include "service/webhooks.h"
#include "store/webhooks.h"

struct events_block;
struct events_reader;
struct targets;

#define WINDOW 8 /* events that are on their way to one target at once, while it takes them */

/* An event that is not done. */
struct slot {
    int64_t seq;
    unsigned attempts; /* that have ended */
    unsigned round;    /* hook.round when it was sent */
    bool flying;
    int64_t retry_ns; /* mono_ns: not before */
    struct delivery delivery;
    char *body;
};

struct hook {
    TAILQ_ENTRY(hook) link;
    uint64_t number; /* never used again, as ids could be */
    char id[ID_SIZE];
    char *url, *topics, *secret, *sandbox_id; /* sandbox_id: NULL = of any */
    bool active;
    int64_t created_ms;

    struct events_reader *reader;
    struct events_block *block; /* NULL = none is begun */
    size_t next;                /* of block */
    bool more;                  /* events_take() has more, whatever its descriptor says */
    struct slot slots[WINDOW];  /* in the order of seq */
    unsigned n, flying;
    int64_t last_seq, saved; /* taken last; the place that is stored */

    unsigned failures;    /* in a row: 0 = it takes what it is sent */
    unsigned round;       /* counts with failures, so that those sent together count once */
    int64_t retry_ns;     /* mono_ns: not before; of one with failures */
    struct delivery last; /* its last attempt; id "" = none */
};
TAILQ_HEAD(hooks, hook);

/* One request that is with the courier, and then what became of it. */
struct flight {
    STAILQ_ENTRY(flight) link;
    struct webhooks *webhooks;
    uint64_t number; /* of the hook */
    int64_t seq;
    struct delivery result; /* status, error, message, address, took */
    unsigned retry_after_s;
    struct webhook_test *test; /* NULL = it is an event of a slot */
};
STAILQ_HEAD(flights, flight);

struct webhooks {
    struct webhooks_config config;
    struct targets *targets;
    struct documents *documents;
    struct webhook_store *store;
    struct events *events;
    struct courier *courier;

    pthread_mutex_t change; /* held by who creates or removes; before lock */
    pthread_mutex_t lock;   /* of the hooks */
    struct hooks hooks;
    unsigned n, flying, tests; /* flying, and tests that are on their way */
    uint64_t last_number;
    bool stop, running;
    int64_t opened_ms;

    pthread_mutex_t landed_lock; /* a leaf: the courier's thread takes it */
    struct flights landed;

    int wake; /* an eventfd */
    pthread_t thread;

    /* The thread's own: what is to be written. */
    struct delivery *rows;
    size_t n_rows;
    int64_t busy_ns, saved_ns; /* mono_ns: the courier was full until; places were written */
    bool disk_told;
};

/* ---- webhooks.c ---- */

/* Under the lock; NULL = there is none. */
struct hook *hook_find(struct webhooks *w, const char *id);
void hook_free(struct hook *h);
json_t *delivery_json(const struct delivery *d);
void webhooks_wake(struct webhooks *w);

/* ---- webhook_url.c ---- */

/* Is it a URL that may be called, as far as that can be said before its name is asked for? */
int webhook_check_url(const struct targets *targets, const char *url, struct err *err);

/* ---- webhook_send.c ---- */

/* The same for the same event and webhook, so that who gets one twice knows. */
void webhook_delivery_id(const char *webhook, const char *event, char ret[ID_SIZE]);
/* d: its id, event, topic. Takes f on success only. */
int webhook_send(struct webhooks *w, const struct hook *h, const struct delivery *d,
                 unsigned attempt, const char *body, size_t len, struct flight *f, struct err *err);

/* What became of it, just now. */
void flight_put(const struct flight *f, struct delivery *d);

/* ---- webhook_test.c ---- */

/* What became of it: who waits is told. */
void webhook_test_landed(struct flight *f, struct delivery *ret);
void webhook_test_tell(struct flight *f); /* who waits for it; the flight has none any more */
void webhook_test_unref(struct webhook_test *t);

/* ---- webhook_run.c: the thread ---- */

void *webhooks_run(void *arg);
