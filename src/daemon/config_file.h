#pragma once

#include <jansson.h>
#include <stdbool.h>

struct daemon_config;
struct err;

/* A file of settings while it is read: what config_yaml.c, config_engine.c and config_sandboxes.c
 * share. lines: of the value that is meant, as yaml_read() gives them. */

#define CONFIG_GRACE "registration_namespace_grace_ms"

struct config_file {
    struct daemon_config *config; /* for warnings */
    const char *path;
    bool listens;     /* its listeners are ours */
    json_t *values;   /* {variable: {text, where}} */
    bool first_given; /* one of its listeners is that of the variables */
    bool guarded;     /* it has a listener with rules, which is not opened */
    int rest_line;    /* of the REST API that is served; 0 = none yet */
    bool state_told, sandboxes_given;
};

/* "config.yaml:7"; free it. */
char *config_file_at(const struct config_file *f, const json_t *lines);
/* Sets ERR_INVALID "config.yaml:7: why" and returns -1. */
int config_file_refuse(const struct config_file *f, const json_t *lines, struct err *err,
                       const char *why);
/* Gives the variable that text, which it takes. key: for messages about the value. */
void config_file_put(struct config_file *f, const char *variable, char *text, const json_t *lines,
                     const char *key);

/* config_sandboxes.c: the settings of `iii-sandbox`. A key that is not there gets iii's default,
 * not cay's. */
int config_file_sandboxes(struct config_file *f, json_t *config, const json_t *lines,
                          struct err *err);
/* The first of its keys that says which images are allowed; NULL when none does. */
const char *config_file_image_key(json_t *config);
/* config_engine.c: the whole file of an engine. */
int config_file_engine(struct config_file *f, json_t *root, const json_t *lines, struct err *err);
