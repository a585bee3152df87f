#pragma once

#include <jansson.h>

struct args;
struct err;

/* The body of sandbox::create from the flags that run and create share (--name --memory --cpu
 * --disk
 * --env --workdir --network); image NULL = host. */
int create_body(const struct args *args, const char *image, json_t **ret, struct err *err);
