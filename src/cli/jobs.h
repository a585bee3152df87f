#pragma once

#include <jansson.h>
#include <stdbool.h>

struct api;
struct err;

/* The commands of every sandbox that runs, each an ExecInfo with sandboxId and sandboxName; all =
 * also those that have ended, as long as the sandbox remembers them. */
int jobs_everywhere(struct api *api, bool all, json_t **ret, struct err *err);
