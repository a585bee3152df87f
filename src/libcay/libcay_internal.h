#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "libcay/api.h"
#include "libcay/cay.h"

struct err;

/* What the parts of cay.h share: the client, its connections, and when a call is sent again. */

#define IDLE_MAX 16

/* A connection, with what went wrong on it last. */
struct line {
    struct api api;
    struct api_failure failure;
};

struct cay {
    char *target, *token;
    int stop; /* eventfd: can be read once the client is cancelled */
    int timeout_ms, retry_ms;
    atomic_bool stopped;
    atomic_bool known; /* the daemon has answered */
    pthread_mutex_t lock;
    struct line *idle[IDLE_MAX];
    size_t n_idle;
};

/* A connection of the caller's own until it is given back; waits on it end after silence_ms (0 = no
 * bound) and when the client is cancelled. NULL, with *err, when that has been already. */
struct line *line_take(struct cay *client, int silence_ms, struct err *err);
/* NULL is fine. */
void line_give(struct cay *client, struct line *line);

/* What was asked, for errors. */
struct call_asked {
    const char *method, *path, *exec_id; /* exec_id may be NULL */
};

/* Fills *ret (may be NULL) and returns -1; line may be NULL. */
int report(const struct line *line, const struct err *err, const struct call_asked *asked,
           struct cay_error *ret);

/* Whether what failed shall be tried again, and the wait before that. */
struct attempt {
    struct cay *client;
    int64_t until_ns;
};
void attempt_begin(struct attempt *a, struct cay *client);
/* repeatable: it does no harm when it was carried out the first time. */
bool attempt_again(const struct attempt *a, const struct line *line, const struct err *err,
                   bool repeatable);

/* Waits a moment for a daemon that is away; false when that was long enough. */
bool attempt_wait(const struct attempt *a);

/* Does a POST to this path take an Idempotency-Key? */
bool path_takes_key(const char *path);

/* One call, sent again where that is safe; text is JSON or NULL. */
int client_exchange(struct cay *client, const char *method, const char *path, const char *text,
                    char **ret, struct cay_error *err);
/* The same below /sandbox with JSON; takes body. *ret (may be NULL) is the answer. */
int client_call(struct cay *client, const char *method, json_t *body, json_t **ret,
                struct cay_error *err, const char *path, ...) __attribute__((format(printf, 6, 7)));

/* "KEY=value" strings as an object; NULL when one has no '=' or is no UTF-8. v may be NULL. */
json_t *pairs_json(const char *const *v);
/* Sets key unless there is nothing to set: 0, or -1 when it cannot be said in JSON. */
int put_text(json_t *object, const char *key, const char *value);
int put_pairs(json_t *object, const char *key, const char *const *pairs);
/* Adds the members of a JSON text (NULL = none) to an object: 0, or -1 when it is no object. */
int add_more(json_t *object, const char *more);

/* "invalid" with a text; returns -1. */
int bad_argument(struct cay_error *ret, const char *text);
