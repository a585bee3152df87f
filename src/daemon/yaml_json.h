#pragma once

#include <jansson.h>
#include <stddef.h>

struct err;

/* A YAML text as JSON, for files that an operator writes. Only what such files need: one document
 * of mappings, lists and scalars. Refused are aliases (a short text could stand for a very long
 * one), keys that are no scalars or stand twice, and what is beyond these bounds. Of tags those of
 * the core schema (!!str, !!int …) count; local ones (!Name) are read and have no effect; others
 * are refused. */

#define YAML_BYTES_MAX (1u << 20)
#define YAML_DEPTH_MAX 32
#define YAML_NODES_MAX 100000

/* Plain scalars are what YAML 1.2 makes of them: null, true, false, numbers, else texts; those in
 * quotes are texts. *ret_lines has the shape of the value, with lines in place of scalars, and in
 * place of each collection an array of two: its line, and what is in it. An error begins with
 * "line N: ". */
int yaml_read(const char *text, size_t len, json_t **ret, json_t **ret_lines, struct err *err);

/* The line of what lines stands for. */
int yaml_line(const json_t *lines);
/* The lines of a member of a mapping or of a list; NULL when it has none. */
const json_t *yaml_lines_of(const json_t *lines, const char *key);
const json_t *yaml_lines_at(const json_t *lines, size_t index);

/* ${NAME} and ${NAME:default}, everywhere but in lines that are comments: the text with their
 * values, to be freed. lookup gives NULL for what is not set, which is an error when there is no
 * default. */
char *yaml_expand(const char *text, const char *(*lookup)(const char *name, void *arg), void *arg,
                  struct err *err);
