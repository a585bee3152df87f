#pragma once

#include <jansson.h>
#include <stdbool.h>

struct engine;
struct err;
struct sandbox;

/* "", "root" or "0", also with a group after it. */
bool user_is_root(const char *user);
/* Every key is usable and every value a string without NUL; ERR_INVALID names the first that is
 * not. */
int env_check(const json_t *vars, struct err *err);
/* What a command starts with: an object of strings. user NULL = the image's. */
json_t *env_build(struct sandbox *sb, const char *user, bool tty, const json_t *more);
/* What it was given becomes env, an object that has been checked. Its files can be reached. */
int env_replace(struct engine *e, struct sandbox *sb, const json_t *env, struct err *err);
