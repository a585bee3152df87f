#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "libcay/files.h"

/* Paths in a sandbox are bytes. Those that are no UTF-8 go to the API as base64 (libcay/files.h),
 * and to a command through the shell there. */

/* {paths, anywhere} of n paths. */
json_t *paths_body(char *const *paths, size_t n, bool anywhere);
/* The name of an entry of files/list, as bytes; the caller frees it. */
char *entry_name(const json_t *entry);

/* A program and its arguments, NULL at the end, as an exec takes them. */
json_t *path_command(const char *const *argv);
