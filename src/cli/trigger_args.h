#pragma once

#include <jansson.h>
#include <stddef.h>

struct buf;
struct err;

/* What `cay trigger` sends: the object of json (NULL = an empty one) and KEY=VALUE over it, where a
 * VALUE that is JSON is that, and any other is a text. */
int trigger_payload(const char *json, char *const *pairs, size_t n, json_t **ret, struct err *err);

/* What engine::functions::info tells of a function, for people. */
void trigger_help(struct buf *out, const json_t *info);
