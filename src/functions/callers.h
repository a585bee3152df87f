#pragma once

#include <stdbool.h>

struct caller;
struct err;
struct services;

/* Who has one of the tokens that were made for others (service/tokens.h), for every face. */

/* Does it begin as they do? Then it counts as nothing else, also with a letter too few. */
bool caller_token_like(const char *text);
/* Fills in what the token says; face and address are the face's to say. ERR_FORBIDDEN. */
int caller_of_token(struct services *services, const char *text, struct caller *ret,
                    struct err *err);
/* Of what goes on: is its token (caller.token_id; "" = it has none) still one? It is to be asked
 * every CALLER_LIVE_NS. */
bool caller_token_live(struct services *services, const char *token_id);
#define CALLER_LIVE_NS (2 * 1000000000ll)
