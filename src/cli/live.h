#pragma once

#include <stdbool.h>

struct api;
struct args;
struct err;

/* Commands that draw one picture again and again on a terminal, until the q key or Ctrl-C, and show
 * it once anywhere else. Their flags are --no-stream, --interval and --json. */

/* Prints it once; live says that the screen is its own. */
typedef int (*live_draw)(struct args *args, struct api *api, bool live, struct err *err);

/* The whole command: opens the API, draws, waits. The exit status. */
int live_run(struct args *args, live_draw draw);
