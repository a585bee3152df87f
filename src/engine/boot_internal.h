#pragma once

#include <stdbool.h>

struct engine;
struct err;
struct image;
struct sandbox;

/* All of these are called in the sandbox's turn, and when nothing commits it. */

/* Stopped from now on, and to be kept for as long as one is; the caller writes the row, and ends
 * the box before or after. */
int sandbox_move_stopped(struct engine *e, struct sandbox *sb, const char *reason, struct err *err);
/* Of one that is stopped: it is kept for as long as one is, from now. */
void sandbox_stopped_life(struct engine *e, struct sandbox *sb);
/* Ends all its processes and gives back its box; the disk, the id range and what its row says stay.
 * Fine when it is stopped. The main process is not asked to end: main_stop(), before the turn. -1:
 * it is as it was, or stopped with something that could not be ended or written, of which the next
 * boot takes care. */
int sandbox_halt(struct engine *e, struct sandbox *sb, const char *reason, struct err *err);

#define BOOT_QUIET     1u /* only for its files: it stays stopped, and nothing of its own runs */
#define BOOT_SAME_LIFE 2u /* it expires when it would have, had it not been stopped */

/* Another box for one that is stopped, on its disk and its image; then it runs, with a life as long
 * as the one that it was made for. -1: it is stopped, as it was. */
int sandbox_boot(struct engine *e, struct sandbox *sb, unsigned flags, struct err *err);

/* Makes the box of a sandbox that is being created, and sets it up. The caller gives up what a
 * failure leaves. */
int sandbox_launch(struct engine *e, struct sandbox *sb, const struct image *image,
                   struct err *err);
/* What a box needs beyond its launch: its directories, unless it has them, the patches that its
 * create came with, and the entrypoint. */
int sandbox_set_up(struct engine *e, struct sandbox *sb, bool has_dirs, struct err *err);
