#pragma once

struct args;

/* What is done alike to images, volumes, snapshots and templates: list is the route that lists
 * them, and the words are ids or names. */

/* Removes each and prints its word, unless --quiet is given. */
int objects_rm(struct args *args, const char *list);
/* Shows the first, as JSON. */
int objects_inspect(struct args *args, const char *list);
