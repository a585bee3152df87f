#pragma once

#include <stdbool.h>

struct engine;
struct err;
struct image;
struct sandbox;

/* What it needs of the image that its box is made from; takes the environment out of it. */
void sandbox_take_image(struct sandbox *sb, struct image *image);

enum removal {
    REMOVED_BY_CALL,
    REMOVED_BY_EXPIRY,
    REMOVED_BY_STOP,
    REMOVED_BY_IDLENESS,
    REMOVED_BY_COUNT, /* of an expired one: there are more stopped sandboxes than may be */
    REMOVED_BY_DISK,  /* they take more of the disk than they may */
    REMOVED_BY_NAME,  /* a new sandbox takes its name */
};

/* ERR_NOT_FOUND when someone else removed it first. REMOVED_BY_EXPIRY: ERR_CONFLICT when it was
 * renewed meanwhile; REMOVED_BY_IDLENESS: when it was told to run on; the last three: when it is
 * not stopped because it expired, or (but for its name) somebody uses its files. REMOVED_BY_CALL:
 * the main process is first asked to end. */
int sandbox_remove(struct engine *e, struct sandbox *sb, enum removal why, struct err *err);

/* Of one that is drained the processes are ended now, whatever its main process says; fine if it
 * has none, or was told to run on meanwhile. */
int sandbox_stop(struct engine *e, struct sandbox *sb, const char *reason, struct err *err);
