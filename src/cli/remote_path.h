#pragma once

#include <jansson.h>
#include <stdbool.h>

/* Paths in a sandbox are bytes, and JSON has text only. Those that are no UTF-8 go to the API as
 * base64, with pathEncoding, and to a command through the shell there. */

/* {path, anywhere} for a call of files/. */
json_t *path_body(const char *path, bool anywhere);
/* {paths, anywhere} of n paths. */
json_t *paths_body(char *const *paths, size_t n, bool anywhere);
/* "path=…", for a query; the caller frees it. */
char *path_query(const char *path);

/* The name of an entry of files/list, as bytes; the caller frees it. */
char *entry_name(const json_t *entry);

/* A program and its arguments, NULL at the end, as an exec takes them. */
json_t *path_command(const char *const *argv);
