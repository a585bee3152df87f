#pragma once

#include <stdio.h>

struct daemon_config;
struct err;

/* daemon/flags.c: what the command line adds, and what the whole must be. */
int config_flags(struct daemon_config *c, int argc, char **argv, struct err *err);
int config_check(const struct daemon_config *c, struct err *err);
void config_help_flags(FILE *out);
