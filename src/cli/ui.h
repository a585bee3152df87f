#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"

struct args;
struct err;
struct buf;

/* What people see: data on stdout, everything else on stderr. */

bool ui_stdout_is_terminal(void);
/* Colours and bold are for terminals, and not where NO_COLOR is set. */
bool ui_has_color(int fd);

/* "cay: text" on stderr. */
void ui_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints the error and returns the exit status that it means. */
int ui_fail(const struct err *err);
/* The same where a path was given: the API's word for one outside of the workspace tells nobody
 * what to do. */
int ui_fail_path(const struct args *args, const struct err *err);
int ui_usage(const struct args *args, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Pretty-printed on stdout. */
void ui_json(const json_t *value);
/* One line. */
void ui_json_line(const json_t *value);

/* What the daemon has to say of what it made. */
void ui_warnings(const json_t *object);
/* What was made, for whoever asked: its id, or with --json all of it. Takes it. */
int ui_made(const struct args *args, json_t *object);

/* Flushes stdout: status, or 141 when the reader has gone (quietly), or 1 when the disk is full. */
int ui_finish(int status);
bool ui_output_failed(void);
/* Right behind what was printed, so that ui_finish() can say why it failed. */
void ui_flush(void);

/* "3s", "12m", "5h", "2d". */
void ui_duration(int64_t ms, char ret[24]);
/* "512 B", "1.5 KiB", … */
void ui_size(double bytes, char ret[24]);

/* A line of output: as it is for programs, escaped for a terminal. */
void ui_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A sandbox's name for a list beside its id: "-" when it has none but the id. */
const char *ui_name(const char *id, const char *name);

/* Yes or no from the terminal; without one the answer is no. */
bool ui_confirm(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
