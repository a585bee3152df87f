#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

struct err;
struct tokens;

/* Tokens that somebody made for others: for some of what can be done, perhaps for some sandboxes
 * only, perhaps for a while. What is kept of one is its digest: the text is told once, to who makes
 * it. Each is a document of <data>/tokens, and in memory. Callable from any thread. */

#define TOKEN_NAME_MAX      128
#define TOKEN_LABEL_MAX     256 /* of the key, and of the value */
#define TOKEN_EXPIRES_S_MAX (10 * 365 * 86400ll)

/* This, the digits of its id, "_" and what is secret. */
#define TOKEN_TEXT_PREFIX "cay_"
#define TOKEN_SECRET_HEX  48
#define TOKEN_TEXT_SIZE   (4 + 24 + 1 + TOKEN_SECRET_HEX + 1)

struct token {
    char id[ID_SIZE];
    unsigned scopes;          /* 1 << the index of a word of token_scope_words */
    char sandbox_id[ID_SIZE]; /* the only one that it is for; "" = not one */
    char label_key[TOKEN_LABEL_MAX + 1], label_value[TOKEN_LABEL_MAX + 1]; /* "" = no label */
    int64_t expires_ms;                                                    /* 0 = never */
};

/* "read", "exec", "write", "admin"; NULL at the end. */
extern const char *const token_scope_words[];

/* max: how many there may be. */
int tokens_open(const char *data_dir, uint32_t max, struct tokens **ret, struct err *err);
void tokens_close(struct tokens *t);

bool token_is_admin(const struct token *k);
/* Whose text it is. ERR_FORBIDDEN "invalid_token", or "token_expired" to who has the right one. */
int tokens_find(struct tokens *t, const char *text, struct token *ret, struct err *err);
/* Is it still one, that has not expired? */
bool tokens_live(struct tokens *t, const char *id);
size_t tokens_count(struct tokens *t);
/* The keys in the labels of all tokens that are listed: an object with a member per key, which the
 * caller frees. */
json_t *tokens_label_keys(struct tokens *t);

/* what: its scopes, and what it is for; its id is given. Token of the API with its text in `token`:
 * on the disk when this returns. ERR_LIMIT "token_limit". */
int tokens_create(struct tokens *t, const char *name, const char *made_by, const struct token *what,
                  json_t **ret, struct err *err);
/* {tokens: [Token]}, the newest first; those that expired more than 30 days ago are not there. */
void tokens_list(struct tokens *t, json_t **ret);
/* It opens nothing any more when this returns, also if it fails because of the disk. ERR_NOT_FOUND
 * "token_not_found". */
int tokens_revoke(struct tokens *t, const char *id, struct err *err);
