#pragma once

#include <stdbool.h>

struct api;
struct err;

/* Names that the command line gives to sandboxes. The API takes others too, and repeats. */

/* Letters, digits, '-', '_' and '.', beginning with a letter or digit, and nothing that could be
 * taken for an id. */
int name_check(const char *name, struct err *err);

/* ERR_CONFLICT that names the sandbox which has it already. */
int name_is_free(struct api *api, const char *name, struct err *err);
