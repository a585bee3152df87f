#pragma once

#include <jansson.h>

struct args;
struct err;

/* The patches of a create from --copy and then --patch, NULL when there are none; free with
 * json_decref(). */
int patch_read_args(const struct args *args, json_t **ret, struct err *err);
