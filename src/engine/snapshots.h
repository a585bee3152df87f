#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/sandboxes.h"

struct engine;
struct engine_watch;
struct err;
struct image_export;

/* A snapshot is what a sandbox's disk was at one moment: an image without a name, and a document
 * that says of whom and what it was made from. It outlives its sandbox. Ids may be names wherever a
 * name is that of one snapshot only, or, with a sandbox, of one of its own (ERR_CONFLICT
 * "name_ambiguous" else); ERR_NOT_FOUND "snapshot_not_found" otherwise. Gives Snapshots and
 * Sandboxes of the contract. */

/* Running, paused or stopped; one that runs stands still while what it changed is copied. name NULL
 * = the id; labels NULL = none. ERR_LIMIT "snapshot_limit". */
int engine_snapshot(struct engine *e, const char *sandbox_id, const char *name,
                    const json_t *labels, json_t **ret, struct err *err);
/* {snapshots: […]}, newest first: of one sandbox, which need not be there any more, or of all
 * (NULL). labels NULL = any; else those that have all of them. */
void engine_snapshot_list(struct engine *e, const char *sandbox_id, const json_t *labels,
                          json_t **ret);
int engine_snapshot_get(struct engine *e, const char *id, json_t **ret, struct err *err);
/* name NULL = it stays; labels are added to those it has, and "" takes one away. */
int engine_snapshot_label(struct engine *e, const char *id, const char *name, const json_t *labels,
                          json_t **ret, struct err *err);
/* Its disk is free when this returns, unless sandboxes or other snapshots stand on it. *ret_id is
 * the caller's. */
int engine_snapshot_delete(struct engine *e, const char *id, char **ret_id, struct err *err);

/* The sandbox has the files that it had then: the same id, name, configuration and end of life; its
 * processes are gone, and the entrypoint runs again. ERR_CONFLICT "snapshot_of_another". */
int engine_restore(struct engine *e, const char *sandbox_id, const char *snapshot_id, json_t **ret,
                   struct err *err);
/* What a new sandbox has that the old one does not say, and what its caller may have. */
struct clone_request {
    const char *name; /* NULL = its id */
    bool unique;      /* no other sandbox may have it */
    bool unshared;    /* no volumes, folders of the host and named networks */
    json_t *locked;   /* an object whose keys are left out of the metadata; NULL = none */
    json_t *label;    /* an object, whose entries are set in it; NULL = none */
    struct sandbox_maker maker;
};
/* A new sandbox with the files and the configuration that the snapshot has, and with the mounts and
 * named networks that its sandbox has now. When that sandbox is gone, or the request is unshared,
 * it gets none but tmpfs. `warnings` say what is left out. watch (NULL = none) gets its id. */
int engine_snapshot_clone(struct engine *e, const char *id, const struct clone_request *req,
                          const struct engine_watch *watch, json_t **ret, struct err *err);
/* The same of a sandbox as it is now: n of them, or none, as when watch (NULL = nobody) is over
 * before. Names are <name>-1 and so on when there are several; of one alone watch is told the id.
 * Gives an array. */
#define FORK_MAX 1000
int engine_fork(struct engine *e, const char *sandbox_id, unsigned n,
                const struct clone_request *req, const struct engine_watch *watch, json_t **ret,
                struct err *err);

/* {changes: [{kind, path, type, size}], truncated}: what it changed against a snapshot, or (NULL)
 * against what it was made from, by path. It stands still meanwhile. */
int engine_diff(struct engine *e, const char *sandbox_id, const char *snapshot_id, json_t **ret,
                struct err *err);

/* What it has beyond the image that its sandbox was made from, as engine_export_open() gives an
 * image (engine/images.h): a layer of OCI in a tar archive. */
int engine_snapshot_export_open(struct engine *e, const char *id, struct image_export *ret,
                                struct err *err);
/* And back: path is on the daemon's machine, image is here. A Snapshot of no sandbox. */
int engine_snapshot_import(struct engine *e, const char *path, const char *image, const char *name,
                           const json_t *labels, json_t **ret, struct err *err);
