#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct engine;
struct err;
struct image;
struct image_prune;

/* Which images have boxes. */
struct images_used;

struct images_used *images_used_new(void);
void images_used_free(struct images_used *u);
/* image_get, and counts a box of it; the layers stay until images_drop. */
int images_take(struct engine *e, const char *reference, struct image **ret, struct err *err);
/* The same by a whole id. */
int images_take_id(struct engine *e, const char *id, struct image **ret, struct err *err);
/* Counts a box that is there already. An id that is NULL or "" is none. */
void images_count(struct engine *e, const char *id);
/* The sandbox is removed; its box still has to be destroyed. */
void images_release(struct engine *e, const char *id);
/* The box is destroyed. name is what it was created with, or NULL when that is not known. */
void images_drop(struct engine *e, const char *id, const char *name);
/* Deletes layers that have neither a name nor a box. */
void images_collect(struct engine *e);
/* Documents in that folder are damaged, and may have named any image: until the end of the daemon
 * none is deleted. */
void images_doubt(struct engine *e, const char *folder);
/* Is any sandbox made from the image of that id, or being made? Removed ones do not count. */
bool image_in_use(struct engine *e, const char *image_id);
/* image_remove, unless it is in use. */
int images_remove(struct engine *e, const char *reference, struct err *err);
/* image_prune, but for those that have boxes and for keep_id (NULL = none). */
int images_prune(struct engine *e, const struct image_prune *prune, const char *keep_id,
                 struct image ***ret_removed, unsigned *ret_n, int64_t *ret_bytes, struct err *err);
/* After a pull: removes the least recently used until the rest is within the budget. */
void images_keep_budget(struct engine *e, const char *keep_id);
