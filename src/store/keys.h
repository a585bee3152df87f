#pragma once

#include <stdbool.h>
#include <stdint.h>

struct err;
struct store_keys;

/* Keys of requests (service/keys.h), in <data>/keys.db. Callable from any thread. What a call wrote
 * when it returns outlives this process; a power cut it outlives after store_keys_sync(). */

#define KEY_DIGEST 32

/* There are no more than these; then the oldest go, of a caller with more than half of them its
 * own. */
#define STORE_KEYS_MAX   100000
#define STORE_KEYS_BYTES (64u << 20) /* of all answers */

#define STORE_KEYS_KEEP_MS (24 * 3600 * 1000LL)

enum key_state {
    KEY_BEGUN,    /* its request runs, or ran when a daemon ended */
    KEY_ANSWERED, /* answer is what it was given */
    KEY_UNKNOWN,  /* something may have been made, but there is no answer to give */
};

struct key_row {
    unsigned char id[KEY_DIGEST];     /* of the caller and the key */
    unsigned char caller[KEY_DIGEST]; /* of the caller alone */
    unsigned char body[KEY_DIGEST];   /* of the row and its input */
    enum key_state state;
    bool tells;    /* `made` is set before anything is made */
    int64_t at_ms; /* when it began */
    char *made;    /* id of what it makes; NULL = not known */
    char *answer;  /* JSON text; NULL = none */
};

void key_row_done(struct key_row *row);

int store_keys_open(const char *data_dir, struct store_keys **ret, struct err *err);
void store_keys_close(struct store_keys *s);
int store_keys_sync(struct store_keys *s, struct err *err);

/* 1 and the row, which is the caller's, or 0 when there is none of the last 24 hours; -1. */
int store_keys_find(struct store_keys *s, const unsigned char id[KEY_DIGEST], struct key_row *ret,
                    struct err *err);
/* In place of an older one. */
int store_keys_add(struct store_keys *s, const struct key_row *row, struct err *err);
int store_keys_set_made(struct store_keys *s, const unsigned char id[KEY_DIGEST], const char *made,
                        struct err *err);
/* What became of it; made NULL = as it was, answer NULL = none. */
int store_keys_end(struct store_keys *s, const unsigned char id[KEY_DIGEST], enum key_state state,
                   const char *made, const char *answer, struct err *err);
int store_keys_forget(struct store_keys *s, const unsigned char id[KEY_DIGEST], struct err *err);
/* One of those that are KEY_BEGUN: as store_keys_find(). */
int store_keys_next_begun(struct store_keys *s, struct key_row *ret, struct err *err);
int64_t store_keys_count(struct store_keys *s);
