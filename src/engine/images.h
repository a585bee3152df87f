#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/pull_policy.h"

struct engine;
struct engine_watch;
struct err;

/* Names may be short ones (engine/image_policy.h): the store does not know those. Image is the
 * object of the contract; its name is what to ask for to get exactly this image. */

/* Image */
int engine_image_get(struct engine *e, const char *name, json_t **ret, struct err *err);
/* {images: [Image]} */
int engine_image_list(struct engine *e, json_t **ret, struct err *err);
/* {images: [{name, reference, kind: "preset" or "custom"}]} */
int engine_image_catalog(struct engine *e, json_t **ret, struct err *err);

struct pull_request {
    const char *reference;           /* required */
    const char *name;                /* what to call it here; NULL = as the reference */
    const char *username, *password; /* for the reference's registry; NULL = the daemon's own */
    bool insecure;                   /* over plain http */
    const char *platform;            /* NULL = this machine's */
    enum pull_policy policy;         /* PULL_MISSING takes what is there, PULL_NEVER nothing else */
};

/* One pull of a reference at a time: whoever wants the same waits for the one that runs and is told
 * how it goes; when the last of them leaves it ends. With credentials of its own a pull is never
 * shared. Gives an Image, as import and tag do. */
int engine_image_pull(struct engine *e, const struct pull_request *req,
                      const struct engine_watch *watch, json_t **ret, struct err *err);
/* path is on the daemon's machine; name NULL = what the archive says (image/image.h). */
int engine_image_import(struct engine *e, const char *path, const char *name,
                        const struct engine_watch *watch, json_t **ret, struct err *err);
int engine_image_tag(struct engine *e, const char *name, const char *new_name, json_t **ret,
                     struct err *err);
/* Also deletes the layers that nothing needs any more: now, or when the last box of them is gone.
 */
int engine_image_remove(struct engine *e, const char *name, struct err *err);

/* Something that lasts, a snapshot or a step of a build, stands for the image of that id, so that
 * its layers stay although it may have no name: counted, and let go as often. What was kept is
 * held again before engine_start, which deletes what nobody holds. */
void engine_image_hold(struct engine *e, const char *id);
void engine_image_let_go(struct engine *e, const char *id);

struct prune_request {
    int64_t unused_ms;  /* those not used for that long; 0 = any age */
    int64_t keep_bytes; /* the least recently used, until this much is left; 0 = no budget */
    bool dry_run;
};

/* Never those that sandboxes were made from; layers go as with a remove. Gives {removed: [Image],
 * bytes, dryRun}. */
int engine_image_prune(struct engine *e, const struct prune_request *req, json_t **ret,
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

/* How the new image differs from the sandbox's own; NULL = not at all. */
struct commit_request {
    const char *name;  /* NULL = none: the caller holds the image (engine_image_hold) */
    const json_t *env; /* object of strings, added to the image's */
    const char *workdir, *user;
    char *const *entrypoint, *const *cmd; /* without items: none */
    const json_t *labels;                 /* object of strings */
};

/* The sandbox as it is becomes an image; one that runs stands still meanwhile. Gives an Image. */
int engine_commit(struct engine *e, const char *id, const struct commit_request *req, json_t **ret,
                  struct err *err);
