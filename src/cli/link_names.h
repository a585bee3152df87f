#pragma once

struct err;

/* Installed under a name of iii, the program understands what that one does: as `iii` the commands
 * sandbox, worker sandbox and trigger; as `iii-worker` the same of sandbox, and sandbox-daemon,
 * which is how an engine starts its worker for sandboxes. */

/* The command line that is meant, in place of one whose first word is such a name: NULL-terminated,
 * *ret_argc words that are argv's or literals, to be freed. NULL and ERR_NONE when it is no such
 * name; NULL and ERR_INVALID when that one has no such command. */
char **link_names(int argc, char **argv, int *ret_argc, struct err *err);
