#pragma once

struct api;
struct args;
struct err;

/* Prints what a command of a sandbox has put out; with --follow until it ends. Control bytes are
 * made visible on a terminal unless --raw is given. */
int exec_logs(struct args *args, struct api *api, const char *id, const char *exec_id,
              struct err *err);
