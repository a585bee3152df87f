#pragma once

struct err;

/* Names that the command line gives to sandboxes. The API takes others too, and repeats. */

/* Letters, digits, '-', '_' and '.', beginning with a letter or digit, and nothing that could be
 * taken for an id. */
int name_check(const char *name, struct err *err);
