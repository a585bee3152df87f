#pragma once

#include <stdbool.h>

struct err;

/* A program that is installed under a name of iii understands commands of iii: as `iii` the
 * commands sandbox, worker sandbox and trigger, and --config FILE, with which an engine is started;
 * as `iii-worker` sandbox, and sandbox-daemon, which is how an engine starts its worker for
 * sandboxes. */

/* Returns the command line that is meant, in place of one whose first word is such a name:
 * NULL-terminated, *ret_argc words that are argv's or literals, to be freed. NULL and ERR_NONE when
 * it is no such name; NULL and ERR_INVALID when cay has no such command. */
char **link_names(int argc, char **argv, int *ret_argc, struct err *err);

/* Is it called iii-worker, whose other commands cli/next_worker.h passes on? */
bool link_is_worker(const char *program);
