#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "store/keys.h"

struct engine;
struct err;
struct keys;

/* Keys of requests (Idempotency-Key): of those with the same key of the same caller one runs, and
 * the others are given its answer, for 24 hours and whatever happens to the daemon meanwhile.
 *
 *   the key is written, and synced
 *   what will be made is chosen, and its id written and synced (of rows that tell)
 *   it is made
 *   the answer is written, and then given
 *
 * Who fails has made nothing: its key is forgotten, and a later one runs. When a daemon ends in
 * between, the next one finds the key begun, and before it serves anybody looks whether what it
 * would have made is there: the answer is that, or the key is forgotten. Where that cannot be known
 * the key is kept and nobody runs with it again. */

struct key_ask {
    const char *caller; /* its name */
    const char *key;
    unsigned char body[KEY_DIGEST]; /* of what is asked for: the row and its input */
    bool tells;                     /* keys_makes() comes before anything is made */
};

/* Who runs with a key, and who waits for that one. */
struct key_hold;
struct key_wait;

enum key_turn {
    KEY_RUN,    /* with *hold, which keys_answer() or keys_fail() ends */
    KEY_REPLAY, /* *answer is to be given */
    KEY_WAIT,   /* another runs with it */
};

int keys_open(const char *data_dir, struct engine *engine, struct keys **ret, struct err *err);
/* The engine has started. */
void keys_start(struct keys *k);
/* Nobody has a hold or waits. */
void keys_close(struct keys *k);

/* -1: ERR_CONFLICT "idempotency_key_reused" for another body, "idempotency_unknown" for an answer
 * that is not known, "idempotency_in_progress" when too many wait. */
int keys_take(struct keys *k, const struct key_ask *ask, struct key_hold **hold, json_t **answer,
              struct key_wait **wait, struct err *err);

int keys_makes(struct key_hold *hold, const char *id, struct err *err);
/* The answer; with secret it is not kept. Ends the hold. */
void keys_answer(struct key_hold *hold, const json_t *answer, bool secret);
void keys_fail(struct key_hold *hold, const struct err *err);

/* Has EPOLLIN when the other is done. */
int key_wait_fd(const struct key_wait *wait);
/* 1 = not yet; 0 and the answer; -1 with the other's failure. */
int key_wait_result(struct key_wait *wait, json_t **answer, struct err *err);
void key_wait_free(struct key_wait *wait);
