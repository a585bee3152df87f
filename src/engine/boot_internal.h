#pragma once

#include <stdbool.h>

struct engine;
struct err;
struct image;
struct sandbox;

/* All of these are called in the sandbox's turn. */

/* Makes the box of a sandbox that is being created, and sets it up. The caller gives up what a
 * failure leaves. */
int sandbox_launch(struct engine *e, struct sandbox *sb, const struct image *image,
                   struct err *err);
/* What a box needs beyond its launch: its directories, unless it has them, and the entrypoint. */
int sandbox_set_up(struct engine *e, struct sandbox *sb, bool has_dirs, struct err *err);
