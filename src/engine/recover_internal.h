#pragma once

#include <stdbool.h>

struct engine;
struct err;
struct sandbox_row;

/* At the start: makes what runs and what the rows say agree. */
int recover(struct engine *e, struct err *err);

/* Makes a sandbox of one row and what runs of it. *ret_discard: it was half-made, and is not one.
 * -1 = the row cannot be read. */
int recover_row(struct engine *e, const struct sandbox_row *row, bool *ret_discard,
                struct err *err);
