#pragma once

#include <jansson.h>

struct api;
struct args;
struct err;

/* The daemon moves values that are out of range to the nearer end, as its contract says. People are
 * told instead. */

/* Checks --memory, --cpu, --pids and --disk, and a life in seconds (0 = no end, less = not given)
 * that was asked for with flag. The ranges are the daemon's, which is asked only when there is
 * something to check. */
int ranges_check(struct api *api, const struct args *args, const char *flag, double life_s,
                 struct err *err);

/* A life in seconds alone; flag names it in the error. */
int ranges_check_life(struct api *api, const char *flag, double life_s, struct err *err);
