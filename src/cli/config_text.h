#pragma once

#include <stdbool.h>
#include <stddef.h>

struct err;

/* Settings files of other programs, changed in one place only: what else is in them stays as it is,
 * byte for byte, comments and all. What cannot be understood is not touched: ERR_INVALID. */

/* Of JSON, with the comments and last commas that editors allow: the member `name` of the object
 * that is member `of` of the whole. value is JSON; NULL = the member shall not be there. *ret is
 * the new text, which is the old one when there is nothing to change. */
int config_json_put(const char *text, const char *of, const char *name, const char *value,
                    char **ret, struct err *err);

/* Of TOML: the table [of.name] with these lines; NULL = it shall not be there, nor what is below
 * it. */
char *config_toml_put(const char *text, const char *of, const char *name, const char *lines);

/* How b differs from a, as `diff -u` shows it; "" when it does not. For a terminal, escapes makes
 * control characters of both visible. */
char *config_diff(const char *a, const char *b, const char *file, bool escapes, bool color);
