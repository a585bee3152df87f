#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/pull_policy.h"

struct engine;
struct engine_watch;
struct err;
struct image;
struct image_prune;
struct image_pull;

/* Names may be short ones (engine/policy.h): the store does not know those. */

int engine_image_get(struct engine *e, const char *name, struct image **ret, struct err *err);
int engine_image_list(struct engine *e, struct image ***ret, unsigned *ret_n, struct err *err);
/* What to ask for to get exactly this image; free it. */
char *engine_image_name(const struct engine *e, const struct image *image);
/* Is any sandbox made from the image of that id? Removed ones do not count. */
bool engine_image_in_use(struct engine *e, const char *image_id);
/* [{name, reference, kind: "preset" or "custom"}] */
json_t *engine_image_catalog(const struct engine *e);

/* One pull of a reference at a time: whoever wants the same waits for the one that runs and is told
 * how it goes; when the last of them leaves it ends. With credentials of its own a pull is never
 * shared. policy PULL_MISSING takes what is there, PULL_NEVER takes nothing else. */
int engine_image_pull(struct engine *e, const struct image_pull *pull, enum pull_policy policy,
                      const struct engine_watch *watch, struct image **ret, struct err *err);
int engine_image_import(struct engine *e, const char *path, const char *name,
                        const struct engine_watch *watch, struct image **ret, struct err *err);
int engine_image_tag(struct engine *e, const char *name, const char *new_name, struct image **ret,
                     struct err *err);
/* These two also delete what nothing needs any more, now or when the last box of it is gone. */
int engine_image_remove(struct engine *e, const char *name, struct err *err);
/* prune->used_ids is filled in here. */
int engine_image_prune(struct engine *e, const struct image_prune *prune,
                       struct image ***ret_removed, unsigned *ret_n, int64_t *ret_bytes,
                       struct err *err);

/* The archive of an image, written by a thread of its own into the pipe that fd reads. Closing
 * before the end ends that; -1 when it did not come to its end. */
struct image_export {
    int fd;
    struct image_exporter *exporter;
};
int engine_export_open(struct engine *e, const char *name, struct image_export *ret,
                       struct err *err);
int engine_export_close(struct image_export *x, struct err *err);

/* The sandbox as it is becomes an image; one that runs stands still meanwhile. changes: name, and
 * optionally env (object, added to the image's), workdir, user, entrypoint, cmd, labels. */
int engine_commit(struct engine *e, const char *id, const json_t *changes, struct image **ret,
                  struct err *err);
