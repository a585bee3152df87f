#pragma once

#include <stdio.h>

/* Of a number in struct daemon_config. */
#define AT(member) offsetof(struct daemon_config, member)

struct daemon_config;
struct err;

/* daemon/config.c: a variable's text; NULL when it is not set, or empty. */
const char *config_lookup(const char *name);
/* Takes text. */
void config_warn(struct daemon_config *c, char *text);

/* daemon/ceilings.c: no default is beyond what callers may ask for. */
int config_ceilings(struct daemon_config *c, struct err *err);

/* daemon/flags.c: what the command line adds, and what the whole must be. */
int config_flags(struct daemon_config *c, int argc, char **argv, struct err *err);
int config_check(const struct daemon_config *c, struct err *err);
void config_help_flags(FILE *out);
