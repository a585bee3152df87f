#pragma once

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct err;
struct sandbox;

/* The host's disk. Sandboxes' disks are sparse and may together be larger than it, so
 *  1. a create is refused that would promise too much,
 *  2. some room is kept from sandboxes, for the database, logs and what is on its way,
 *  3. while there is little room, each sandbox may write only so much until the next look (a
 *     lease): who is past it is told so at once, and what was taken from it has its place, and
 *  4. before it comes to that, those that write are paused, and go on when there is room again. */
struct space;

/* The reason of a sandbox that was paused for want of room. */
#define SPACE_REASON "the host's disk is low"

struct space *space_new(void);
void space_free(struct space *s);
int space_start(struct engine *e, struct err *err);
void space_stop(struct engine *e);

/* May a sandbox with such a disk be made? asked: the caller named the size. What is promised is
 * given back with space_give. ERR_UNAVAILABLE "no_space". */
int space_promise(struct engine *e, uint32_t disk_mb, bool asked, struct err *err);
/* Of a sandbox that is there already. */
void space_promised(struct engine *e, uint32_t disk_mb);
void space_give(struct engine *e, uint32_t disk_mb);

/* Before something else takes room: an image. ERR_UNAVAILABLE "no_space" when there is none. */
int space_check(struct engine *e, struct err *err);
/* May this paused sandbox go on? The same refusal for one that was paused for want of room. */
int space_check_resume(struct engine *e, struct sandbox *sb, struct err *err);

struct space_state {
    uint64_t free, reserve, promised;
    bool low;
};
/* As of now. */
void space_look(struct engine *e, struct space_state *ret);
