#pragma once

#include <jansson.h>

struct args;
struct err;

/* --ulimit NAME=SOFT[:HARD], as docker has it: `rlimits` of a command; NULL when none is given. */
int limit_args(const struct args *args, json_t **ret, struct err *err);
