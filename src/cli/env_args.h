#pragma once

#include <jansson.h>

struct args;
struct err;

/* K=V strings as an object; what names the flag in the error. */
int pairs_to_json(char *const *pairs, const char *what, json_t **ret, struct err *err);

/* One variable into an object: K=V, or K alone for this process's own, which is left out when this
 * process has none. what names where it was written. */
int env_add(json_t *object, const char *text, const char *what, struct err *err);

/* --env-file and then --env, which wins: *ret is NULL when neither is given. */
int env_read_args(const struct args *args, json_t **ret, struct err *err);
