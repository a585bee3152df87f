#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* An image's configuration: what its sandboxes start with. Read from bytes that a stranger wrote.
 */

#define CONFIG_MAX_BYTES (4u << 20)

struct oci_config {
    char *os, *arch, *variant; /* "" when not said */
    int64_t created_ms;        /* 0 when not said */
    char **diff_ids;           /* hex, lowest first */
    /* All below may be absent: NULL lists are empty ones, strings are "". */
    char **env; /* K=V */
    char **entrypoint, **cmd;
    char *workdir, *user, *stop_signal;
    char **ports;   /* "8080/tcp" */
    json_t *labels; /* object of strings */
};

/* ERR_INVALID "bad_config": not JSON, wrong types, no diff_ids, a NUL in a string … */
int oci_config_parse(const char *bytes, size_t len, struct oci_config *ret, struct err *err);
void oci_config_done(struct oci_config *c);
