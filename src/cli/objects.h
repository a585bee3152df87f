#pragma once

#include "base/json.h"

struct args;

/* What is done alike to images, volumes, snapshots and templates: list is the route that lists
 * them, and the words are ids or names. */

/* Removes each and prints its word, unless --quiet is given. */
int objects_rm(struct args *args, const char *list);
/* A line each; what has no id is left out. */
void objects_print_ids(const json_t *list);
/* Shows the first, as JSON. */
int objects_inspect(struct args *args, const char *list);
