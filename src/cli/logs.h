#pragma once

#include <stdbool.h>

struct api;
struct args;
struct err;

/* Prints what a command of a sandbox has put out; with --follow until it ends. Control bytes are
 * made visible on a terminal unless --raw is given. */
int exec_logs(struct args *args, struct api *api, const char *id, const char *exec_id,
              struct err *err);

/* What a sandbox was refused by its network policy, the last `limit` lines; returns the exit
 * status. */
int net_log(struct args *args, struct api *api, const char *id, bool follow, double tail);
