#pragma once

#include <jansson.h>

struct args;
struct err;

/* What --network, --allow and --deny say together, as a create takes it: *ret is NULL when none was
 * given. Errors are of usage, or of a file that cannot be read. */
int network_args(const struct args *args, json_t **ret, struct err *err);

/* The same of a word and two lists; word NULL = none, "" = --network alone. */
int network_of_words(const char *word, char *const *allow, char *const *deny, json_t **ret,
                     struct err *err);

/* A policy as people read it, in one line; free it. */
char *network_words(const json_t *network);
