#pragma once

#include <jansson.h>

struct args;
struct err;

/* What -v, --tmpfs and --mount say, into `volumes` and `tmpfs` of a create's body. ERR_INVALID is a
 * usage error. */
int mount_args(const struct args *args, json_t *body, struct err *err);
