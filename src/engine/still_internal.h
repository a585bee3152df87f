#pragma once

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct err;
struct sandbox;

/* A sandbox stands still while its disk is read: for a commit, or a snapshot. Its state stays as it
 * is meanwhile: who needs it to run waits for a while, and if the daemon dies here the next start
 * lets it go on. */

/* One reader of a disk at a time: with patience waits for another, for some seconds. Also one of
 * the threads for work that takes long. */
int still_claim(struct engine *e, struct sandbox *sb, bool patience, struct err *err);
void still_release(struct engine *e, struct sandbox *sb);

/* The root of its disk, to be read between the two below. Ahead of them, since it may take a while;
 * the caller closes it before the second. */
int still_open_disk(struct engine *e, struct sandbox *sb, int *ret_fd, uint32_t *ret_ids_base,
                    struct err *err);
/* From here on nothing runs in it; not for one that is being removed. */
int still_begin(struct engine *e, struct sandbox *sb, struct err *err);
/* It goes on, unless it was paused, has ended or was removed meanwhile. */
void still_end(struct engine *e, struct sandbox *sb);

/* -1 when the reading is to end, since the sandbox is removed or the daemon ends; says so. */
int still_goes_on(struct engine *e, struct sandbox *sb, struct err *err);
