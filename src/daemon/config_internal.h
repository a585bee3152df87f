#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define WS_PORT_DEFAULT 49134 /* that of iii's own engine */

/* The wall that the public worker puts around sandboxes. */
#define CONFIG_ISOLATION "III_ISOLATION_BACKEND"

/* Of a number in struct daemon_config. */
#define AT(member) offsetof(struct daemon_config, member)

struct daemon_config;
struct err;

/* daemon/config.c: takes text. */
void config_warn(struct daemon_config *c, char *text);
/* Is word in a list? NULL = an empty list. */
bool config_list_has(char *const *list, const char *word);
/* What a variable is when nobody says anything; "" = nothing. */
const char *config_preset(const char *name);
/* The largest number that it takes. */
uint64_t config_most(const char *name);
/* Where the file of settings has what it is; NULL when it says nothing of it. */
const char *config_file_place(const struct daemon_config *c, const char *name);
/* Where a variable was set, for messages: its name, its name in the contract, or the place in the
 * file of settings. */
const char *config_source(const struct daemon_config *c, const char *name);

/* daemon/config_yaml.c: what a file of settings makes of variables: {variable: {text, where}},
 * where for messages. What is in it and not for us is a warning. listens: are its listeners ours?
 * Of a worker they are those of its engine. */
int config_yaml(struct daemon_config *c, const char *path, bool listens, json_t **ret,
                struct err *err);

/* daemon/ceilings.c: no default is beyond what callers may ask for. */
int config_ceilings(struct daemon_config *c, struct err *err);

/* daemon/flags.c: may it be one of CAY_CORS_ORIGINS? */
bool config_is_origin(const char *text);

/* daemon/flags.c: what the command line adds, and what the whole must be. */
/* The file that --config names, before anything else is read; NULL = none. */
const char *config_flag_file(int argc, char **argv);
/* The engine that --engine names; NULL = none. */
const char *config_flag_engine(int argc, char **argv);
int config_flags(struct daemon_config *c, int argc, char **argv, struct err *err);
int config_check(const struct daemon_config *c, struct err *err);
void config_help_flags(FILE *out, bool worker);
